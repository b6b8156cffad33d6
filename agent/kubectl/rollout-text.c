/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/rollout-text.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>

#include "agent/base/cleanup.h"
#include "agent/base/rfc3339.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/restart-image-plan.h"
#include "agent/view/format.h"

static int format_images(json_object *images, json_object *back, char **ret) {
        const char *separator = "";
        size_t size = 0;
        FILE *stream = text_open(ret, &size);

        if (!stream)
                return -ENOMEM;
        json_object_object_foreach(images, container, image) {
                (void) fprintf(stream, "%s%s%s%s", separator, container, back ? " from " : "=",
                               json_object_get_string(image));
                if (back)
                        (void) fprintf(stream, " back to %s", json_get_text(back, container));
                separator = ", ";
        }
        return text_close(stream, ret);
}

int rollout_text_images(json_object *images, char **ret) {
        return format_images(images, NULL, ret);
}

/* The images that a pod, or a template, is written with. NULL: no memory. */
static json_object *written_images(json_object *pod, json_object *containers) {
        cleanup(json_object_put_p) json_object *images = json_object_new_object();

        json_object_object_foreach(containers, container, ignored) {
                const char *image = template_written_image(pod, container);

                (void) ignored;
                if (image && patch_add_text(images, container, image) < 0)
                        return NULL;
        }
        return take_ptr(images);
}

static int add_kept(json_object *counts, json_object *pod, json_object *containers) {
        cleanup(json_object_put_p) json_object *images = written_images(pod, containers);
        cleanup(free_p) char *text = NULL;

        if (!images || format_images(images, NULL, &text) < 0)
                return -ENOMEM;
        return patch_add(counts, text, json_object_new_int64(json_get_integer(counts, text) + 1));
}

int rollout_text_kept(const RolloutView *view, json_object *containers, char **ret) {
        cleanup(json_object_put_p) json_object *counts = json_object_new_object();
        const char *separator = "";
        bool is_one;
        size_t size;
        FILE *stream;

        json_object_object_foreach(view->pods, name, pod) {
                (void) name;
                if (!object_is_deleted(pod) && !pod_has_ended(pod) && view_owns_pod(view, pod) &&
                    add_kept(counts, pod, containers) < 0)
                        return -ENOMEM;
        }
        stream = counts ? text_open(ret, &size) : NULL;
        if (!stream)
                return -ENOMEM;
        is_one = json_object_object_length(counts) == 1;
        json_object_object_foreach(counts, images, count) {
                long long n = json_object_get_int64(count);

                (void) fprintf(stream, "%s%s", separator, images);
                if (!is_one)
                        (void) fprintf(stream, " (%lld pod%s)", n, n == 1 ? "" : "s");
                separator = "; ";
        }
        return text_close(stream, ret);
}

/* NULL: the time is none. */
static const char *format_since(const char *since, int64_t now_sec, FormatBuffer *buffer) {
        int64_t sec;

        if (rfc3339_parse(since, &sec) < 0)
                return NULL;
        return format_age(now_sec > sec ? (uint64_t) (now_sec - sec) : 0, buffer);
}

int rollout_text_time(const char *time, int64_t now_sec, char **ret) {
        FormatBuffer buffer;
        const char *age = format_since(time, now_sec, &buffer);

        return text_format(ret, "%s%s%s%s", time, age ? " (" : "", age ?: "", age ? " ago)" : "");
}

/* A pod above the partition before may have got the images by an update before this one. */
static bool lowers_partition(json_object *record) {
        return record_partition(record) < record_former_partition(record);
}

int rollout_text_undo(json_object *record, int64_t now_sec, char **ret) {
        cleanup(free_p) char *images = NULL;
        cleanup(free_p) char *since = NULL;

        if (rollout_text_time(json_get_text(record, "since"), now_sec, &since) < 0 ||
            format_images(record_images(record, false), record_images(record, true), &images) < 0)
                return -ENOMEM;
        return text_format(ret, "the update of %s by \"%s\": %s%s", since,
                           json_get_text(record, "by"), images,
                           lowers_partition(record)
                                   ? ", also in pods above the partition before that had these "
                                     "images already"
                                   : "");
}

int rollout_text_delay(const Census *census, json_object *record, int64_t now_sec, char **ret) {
        json_object *images = record_target(record);
        const char *first = NULL;
        int64_t longest_sec = 0;
        char more[32] = "";
        size_t n = 0;

        *ret = NULL;
        for (size_t i = 0; i < census->n_pods; i++) {
                const PodState *state = &census->pods[i];
                bool is_touched =
                        (state->phase == ROLLOUT_OLD || state->phase == ROLLOUT_DRAINING) &&
                        !template_has_images(state->pod, images);
                int64_t delay_sec =
                        is_touched ? restart_image_delay(state->pod, images, now_sec) : 0;

                n += delay_sec > 0;
                if (delay_sec <= longest_sec)
                        continue;
                longest_sec = delay_sec;
                first = object_name(state->pod);
        }
        if (n == 0)
                return 0;
        if (n > 1)
                (void) snprintf(more, sizeof(more), " and %zu more", n - 1);
        return text_format(ret,
                           "the kubelet may start pod %s%s up to %llds later: it delays containers "
                           "that it has started repeatedly within ten minutes",
                           first, more, (long long) longest_sec);
}

int rollout_text_open(json_object *record, const RolloutView *view, const Census *census,
                      int64_t now_sec, char **ret) {
        const char *since = json_get_text(record, "since"), *age;
        size_t n_updated = census ? census->n_by_phase[ROLLOUT_UPDATED] : 0;
        cleanup(free_p) char *images = NULL;
        cleanup(free_p) char *progress = NULL;
        const char *resumed = "";
        long long first = record_first(record);
        char limit[64] = "";
        FormatBuffer buffer;

        age = format_since(since, now_sec, &buffer);
        if (census && !view_is_held(view))
                resumed = view_kind(view)->has_replica_sets
                                  ? "; another client has resumed it"
                                  : "; another client has let its controller go on";
        if (first > 0)
                (void) snprintf(limit, sizeof(limit), "; it %s after the first %lld",
                                (long long) n_updated >= first ? "waits" : "stops", first);
        if (rollout_text_images(record_target(record), &images) < 0 ||
            (census && text_format(&progress, ": %zu of %zu pods updated", n_updated,
                                   census->n_concerned) < 0))
                return -ENOMEM;
        return text_format(ret, "%s to %s by \"%s\" since %s%s%s%s has not ended%s%s%s",
                           record_is_undo(record)  ? "way back"
                           : record_undoes(record) ? "undo"
                                                   : "update",
                           images, json_get_text(record, "by"), age ?: "", age ? " (" : "", since,
                           age ? ")" : "", progress ?: "", limit, resumed);
}
