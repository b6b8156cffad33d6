/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/rollout-report.h"

#include <json-c/json.h>

#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/view/output.h"

static json_object *image_report(const char *container, const char *before, const char *after) {
        cleanup(json_object_put_p) json_object *item = json_object_new_object();

        if (patch_add_text(item, "container", container) < 0 ||
            (before && patch_add_text(item, "before", before) < 0) ||
            (after && patch_add_text(item, "after", after) < 0))
                return NULL;
        return take_ptr(item);
}

static bool add_images(json_object *list, json_object *before, json_object *after) {
        json_object_object_foreach(after, container, image) {
                if (patch_append(list, image_report(container, json_get_text(before, container),
                                                    json_object_get_string(image))) < 0)
                        return false;
        }
        return true;
}

/* The images that the pod asks for, of the containers that the update is about. */
static bool add_pod_images(json_object *item, json_object *pod, json_object *target) {
        json_object *images = json_object_new_object();

        if (patch_add(item, "images", images) < 0)
                return false;
        json_object_object_foreach(target, container, ignored) {
                const char *image = template_image(pod, container);

                (void) ignored;
                if (image && patch_add_text(images, container, image) < 0)
                        return false;
        }
        return true;
}

static json_object *pod_report(const PodState *state, json_object *target) {
        cleanup(json_object_put_p) json_object *item = json_object_new_object();
        const char *node = object_text(state->pod, "spec.nodeName");

        if (patch_add_text(item, "name", object_name(state->pod)) < 0 ||
            (node && patch_add_text(item, "node", node) < 0) ||
            patch_add_text(item, "phase", rollout_phase_to_string(state->phase)) < 0 ||
            (state->reason && patch_add_text(item, "reason", state->reason) < 0) ||
            !add_pod_images(item, state->pod, target))
                return NULL;
        return take_ptr(item);
}

json_object *rollout_report(const RolloutView *view, json_object *record, const Census *census,
                            const char *outcome, const char *reason) {
        cleanup(json_object_put_p) json_object *report = json_object_new_object();
        json_object *target = record_target(record), *images, *pods;
        bool leads_back = target == record_images(record, true);

        if (patch_add_text(report, "kind", workload_kind_to_string(view->kind)) < 0 ||
            patch_add_text(report, "namespace",
                           object_text(view->workload, "metadata.namespace") ?: "") < 0 ||
            patch_add_text(report, "name", object_name(view->workload)) < 0 ||
            patch_add_text(report, "outcome", outcome) < 0 ||
            patch_add_filled(report, "reason", reason) < 0 ||
            patch_add(report, "images", images = json_object_new_array()) < 0 ||
            !add_images(images, record_images(record, !leads_back), target) ||
            patch_add(report, "pods", pods = json_object_new_array()) < 0)
                return NULL;
        for (size_t i = 0; i < census->n_pods; i++)
                if (patch_append(pods, pod_report(&census->pods[i], target)) < 0)
                        return NULL;

        return take_ptr(report);
}
