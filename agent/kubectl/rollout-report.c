/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/rollout-report.h"

#include <json-c/json.h>

#include "agent/ctl/view.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/rollout-pod-plan.h"

static json_object *image_report(const char *container, const char *before, const char *after) {
        cleanup(json_put_p) json_object *item = json_object_new_object();

        if (!item || !output_add_string(item, "container", container) ||
            (before && !output_add_string(item, "before", before)) ||
            (after && !output_add_string(item, "after", after)))
                return NULL;
        return take_ptr(item);
}

static bool add_images(json_object *list, json_object *before, json_object *after) {
        json_object_object_foreach(after, container, image) {
                if (!output_append(list, image_report(container, json_get_text(before, container),
                                                      json_object_get_string(image))))
                        return false;
        }
        return true;
}

/* The images that the pod asks for, of the containers that the update is about. */
static bool add_pod_images(json_object *item, json_object *pod, json_object *target) {
        json_object *images = json_object_new_object();

        if (!output_add(item, "images", images))
                return false;
        json_object_object_foreach(target, container, ignored) {
                const char *image = template_image(pod, container);

                (void) ignored;
                if (image && !output_add_string(images, container, image))
                        return false;
        }
        return true;
}

static json_object *pod_report(const RolloutView *view, json_object *record, json_object *pod,
                               json_object *target) {
        cleanup(json_put_p) json_object *item = json_object_new_object();
        const char *node = object_text(pod, "spec.nodeName");
        RolloutPhase phase = rollout_phase(view, record, pod);
        cleanup(free_p) char *reason = NULL;

        if (!item || rollout_explain(view, record, pod, &reason) < 0 ||
            !output_add_string(item, "name", object_name(pod)) ||
            (node && !output_add_string(item, "node", node)) ||
            !output_add_string(item, "phase", rollout_phase_to_string(phase)) ||
            (reason && !output_add_string(item, "reason", reason)) ||
            !add_pod_images(item, pod, target))
                return NULL;
        return take_ptr(item);
}

/* By the images that this run was for: a record that says "undone" is closed, and leads nowhere. */
static int reopen(json_object *record, json_object **ret) {
        *ret = NULL;
        if (json_object_deep_copy(record, ret, NULL) < 0)
                return -1;

        return !json_is(record, "state", "undone") || output_add_string(*ret, "state", "undo") ? 0
                                                                                               : -1;
}

json_object *rollout_report(const RolloutView *view, json_object *record, const char *outcome) {
        cleanup(json_put_p) json_object *report = json_object_new_object();
        cleanup(json_put_p) json_object *open = NULL;
        json_object *images, *pods;

        if (!report || reopen(record, &open) < 0 ||
            !output_add_string(report, "kind", workload_kind_to_string(view->kind)) ||
            !output_add_string(report, "namespace",
                               object_text(view->workload, "metadata.namespace") ?: "") ||
            !output_add_string(report, "name", object_name(view->workload)) ||
            !output_add_string(report, "outcome", outcome) ||
            !output_add(report, "images", images = json_object_new_array()) ||
            !add_images(images, record_images(open, !record_is_undo(open)), record_target(open)) ||
            !output_add(report, "pods", pods = json_object_new_array()))
                return NULL;
        json_object_object_foreach(view->pods, name, pod) {
                (void) name;
                if (!output_append(pods, pod_report(view, open, pod, record_target(open))))
                        return NULL;
        }
        return take_ptr(report);
}
