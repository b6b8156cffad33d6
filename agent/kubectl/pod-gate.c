/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/pod-gate.h"

#include <json-c/json.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/workload.h"
#include "agent/pod/gate-spec.h"

static json_object *gate_of(json_object *pod) {
        return json_find(object_at(pod, "status.conditions"), "type", GATE_CONDITION);
}

int64_t pod_gate_closed_sec(json_object *pod) {
        return json_get_time(gate_of(pod), "lastTransitionTime");
}

static bool has_gate(json_object *pod) {
        return json_find(object_at(pod, "spec.readinessGates"), "conditionType", GATE_CONDITION);
}

bool pod_gate_is_closed(json_object *pod) {
        json_object *gate = gate_of(pod);

        return json_is(gate, "status", "False") && json_is(gate, "reason", GATE_REASON_UPDATE);
}

json_object *pod_gate_images(json_object *pod, json_object *images) {
        cleanup(json_object_put_p) json_object *awaited = json_object_new_object();

        json_object_object_foreach(images, container, image) {
                if (!template_ends(pod, container) &&
                    patch_add(awaited, container, json_object_get(image)) < 0)
                        return NULL;
        }
        return take_ptr(awaited);
}

/* The images in the message; NULL: it has none. It needs no memory after object_parse_notes(). */
static json_object *awaited_images(json_object *pod) {
        json_object *message;

        (void) json_parse_inner(json_get(gate_of(pod), "message", json_type_string), &message);
        return json_get(message, "images", json_type_object);
}

bool pod_gate_awaits(json_object *pod, const char *container) {
        return pod_gate_is_closed(pod) && json_get_text(awaited_images(pod), container);
}

bool pod_gate_is_closed_for(json_object *pod, json_object *images) {
        json_object *awaited = awaited_images(pod);
        int n = 0;

        if (!pod_gate_is_closed(pod) || !awaited)
                return false;
        json_object_object_foreach(images, container, image) {
                if (template_ends(pod, container))
                        continue;
                if (!json_object_equal(json_object_object_get(awaited, container), image))
                        return false;
                n++;
        }
        return n == json_object_object_length(awaited);
}

/* Another container is awaited than init containers, which do not run again. */
static bool replaces_containers(json_object *pod, json_object *images) {
        json_object_object_foreach(images, container, image) {
                (void) image;
                if (!template_ends(pod, container))
                        return true;
        }
        return false;
}

/* A gate that is closed for another reason belongs to another client. */
bool pod_gate_must_close(json_object *pod, json_object *images) {
        json_object *gate = gate_of(pod);

        return has_gate(pod) && replaces_containers(pod, images) &&
               !pod_gate_is_closed_for(pod, images) &&
               (pod_gate_is_closed(pod) || !json_is(gate, "status", "False"));
}

bool pod_gate_awaits_others(json_object *pod, json_object *images) {
        return pod_gate_is_closed(pod) && pod_gate_must_close(pod, images);
}
