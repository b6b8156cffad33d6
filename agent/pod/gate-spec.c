/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/pod/gate-spec.h"

#include <errno.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/rfc3339.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"

static int make_message(const char *by, const char *since, json_object *images, json_object **ret) {
        cleanup(json_object_put_p) json_object *message = json_object_new_object();

        if (patch_add_text(message, "by", by) < 0 || patch_add_text(message, "since", since) < 0 ||
            patch_add(message, "images", json_object_get(images)) < 0)
                return -ENOMEM;

        *ret = take_ptr(message);
        return 0;
}

int gate_close(const char *by, int64_t now_sec, json_object *images, json_object **ret) {
        cleanup(json_object_put_p) json_object *condition = json_object_new_object();
        cleanup(json_object_put_p) json_object *message = NULL;
        char now[RFC3339_SIZE];
        const char *text;
        int r;

        (void) rfc3339_format(now_sec, now);
        r = make_message(by, now, images, &message);
        if (r < 0)
                return r;

        text = json_to_text(message);
        if (!text || patch_add_text(condition, "type", GATE_CONDITION) < 0 ||
            patch_add_text(condition, "status", "False") < 0 ||
            patch_add_text(condition, "reason", GATE_REASON_UPDATE) < 0 ||
            patch_add_text(condition, "message", text) < 0 ||
            patch_add_text(condition, "lastTransitionTime", now) < 0)
                return -ENOMEM;

        *ret = take_ptr(condition);
        return 0;
}

/* Whether the pod asks for it. */
static bool await_image(Pod *pod, const char *name, json_object *image) {
        for (size_t i = 0; i < pod->n_containers; i++) {
                PodContainer *container = &pod->containers[i];

                if (strcmp(container->name, name) != 0)
                        continue;
                container->is_gated = true;
                return json_object_is_type(image, json_type_string) &&
                       strcmp(container->image, json_object_get_string(image)) == 0;
        }
        return false;
}

int gate_read(const char *message, Pod *pod, bool *ret) {
        cleanup(json_object_put_p) json_object *json = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        json_object *images;
        int r;

        *ret = false;
        r = json_parse(message, strlen(message), &json, &error);
        if (r == -ENOMEM)
                return r;
        if (r < 0)
                return 0;

        images = json_get(json, "images", json_type_object);
        if (!images || json_object_object_length(images) == 0)
                return 0;

        json_object_object_foreach(images, name, image) {
                if (!await_image(pod, name, image))
                        return 0;
        }

        *ret = true;
        return 0;
}
