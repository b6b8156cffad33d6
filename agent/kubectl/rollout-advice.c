/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/rollout-advice.h"

#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/text.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/hint.h"
#include "agent/pod/gate-spec.h"
#include "agent/view/terminal.h"

void rollout_explain(const RolloutWatch *watch, const char *format, ...) {
        cleanup(free_p) char *reason = NULL;
        va_list arguments;

        va_start(arguments, format);
        (void) text_vformat(&reason, format, arguments);
        va_end(arguments);
        complain("%s/%s: %s", workload_kind_to_string(watch->view.kind), watch->path.name,
                 reason ?: "");
}

void rollout_offer(const RolloutWatch *watch, const char *command, const char *word) {
        cleanup(free_p) char *name = NULL;

        if (text_format(&name, "%s/%s", workload_kind_to_string(watch->view.kind),
                        watch->path.name) >= 0)
                hint(watch->session, /* namespace= */ NULL, command, HINT_WORDS(name, word));
}

void rollout_offer_images(const RolloutWatch *watch, json_object *images, const char *command) {
        json_object_object_foreach(images, container, image) {
                cleanup(free_p) char *word = NULL;

                if (text_format(&word, "%s=%s", container, json_object_get_string(image)) >= 0)
                        rollout_offer(watch, command, word);
        }
}

static void offer_ways(const RolloutWatch *watch, json_object *record) {
        rollout_offer(watch, "kubectl inplace rollout", NULL);
        if (workload_is_of_kruise(watch->view.kind)) {
                rollout_offer_images(watch, record_images(record, true),
                                     "kubectl inplace set image");
                return;
        }
        rollout_offer(watch, "kubectl inplace rollout", "--undo");
        rollout_offer(watch, "kubectl inplace rollout", "--release");
}

void rollout_offer_ways(const RolloutWatch *watch, json_object *record) {
        rollout_explain(watch, "%s",
                        workload_is_of_kruise(watch->view.kind)
                                ? "its controller goes on; to follow it, or to set the images "
                                  "before:"
                                : "the update has not ended; to go on, to go back, or to hand "
                                  "it back as it is:");
        offer_ways(watch, record);
}

void rollout_offer_unsure(const RolloutWatch *watch, json_object *record) {
        rollout_explain(watch, "the API server has not said whether the update has begun or "
                               "turned; to see that, and to go on or back if it has:");
        rollout_offer(watch, "kubectl inplace status", NULL);
        offer_ways(watch, record);
}

/* All images of the update are in that text. */
static bool has_images(const RolloutWatch *watch, json_object *record, const char *manifest) {
        json_object *template = object_template(watch->view.workload);

        json_object_object_foreach(record_images(record, false), container, ignored) {
                const char *image = template_image(template, container);

                (void) ignored;
                if (image && !message_is_about_image(manifest, image))
                        return false;
        }
        return true;
}

void rollout_explain_manifest(const RolloutWatch *watch, json_object *record) {
        json_object *metadata = object_at(watch->view.workload, "metadata");
        const char *applied = json_get_text(json_get(metadata, "annotations", json_type_object),
                                            "kubectl.kubernetes.io/last-applied-configuration");
        const char *then = workload_is_declared(watch->view.workload)
                                   ? "brings the pods back to those"
                                   : "replaces the pods";

        if (applied && !has_images(watch, record, applied))
                rollout_explain(
                        watch,
                        "its manifest has other images: correct them, or the next kubectl apply %s",
                        then);
        else if (json_is(json_get(metadata, "labels", json_type_object),
                         "app.kubernetes.io/managed-by", "Helm"))
                rollout_explain(watch,
                                "Helm made it: set the images in its values as well, or the next "
                                "helm upgrade %s",
                                then);
}

void rollout_explain_limits(const RolloutWatch *watch, const RolloutLimits *limits) {
        json_object *workload = watch->view.workload;
        const char *path = view_kind(&watch->view)->max_unavailable;
        json_object *own = path ? object_at(workload, path) : NULL;
        json_object *gates = object_at(object_template(workload), "spec.readinessGates");

        /* A strategy that makes a pod more before it ends one cannot be followed in place. */
        if (own && json_object_get_int64(own) == 0 && !limits->max_unavailable)
                rollout_explain(watch,
                                "its strategy lets no pod be unavailable; in place, one pod at a "
                                "time is, while its containers are replaced");
        if (text_equal(object_text(workload, "spec.strategy.type"), "Recreate"))
                rollout_explain(watch,
                                "its strategy Recreate lets no two versions run side by side; "
                                "in place they do, until the last pod is updated");
        if (limits->grace_sec > 0 && !json_find(gates, "conditionType", GATE_CONDITION))
                rollout_explain(watch, "--grace has no effect, since its template lacks the "
                                       "readiness gate " GATE_CONDITION);
}

void rollout_explain_init_containers(const RolloutWatch *watch, json_object *record) {
        json_object *template = object_template(watch->view.workload);

        json_object_object_foreach(record_images(record, false), container, image) {
                const char *before = json_get_text(record_images(record, true), container);

                if (template_ends(template, container) &&
                    !text_equal(before, json_object_get_string(image)))
                        rollout_explain(
                                watch,
                                "init container \"%s\" has ended in its pods and does not run "
                                "again: with its new image it runs in pods that are made later",
                                container);
        }
}
