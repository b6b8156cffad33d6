/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/rollout-text.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "agent/base/rfc3339.h"
#include "agent/base/text.h"
#include "agent/ctl/format.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/rollout-show.h"

static int format_images(json_object *images, json_object *back, char **ret) {
        const char *separator = "";
        size_t size = 0;
        FILE *stream = open_memstream(ret, &size);

        if (!stream)
                return -ENOMEM;
        json_object_object_foreach(images, container, image) {
                (void) fprintf(stream, "%s%s%s%s", separator, container, back ? " from " : "=",
                               json_object_get_string(image));
                if (back)
                        (void) fprintf(stream, " back to %s", json_get_text(back, container));
                separator = ", ";
        }
        return fclose(stream) == 0 ? 0 : -ENOMEM;
}

int rollout_text_images(json_object *images, char **ret) {
        return format_images(images, NULL, ret);
}

/* NULL: the time is none. */
static const char *format_since(const char *since, int64_t now_sec, FormatBuffer *buffer) {
        int64_t sec;

        if (rfc3339_parse(since, &sec) < 0)
                return NULL;
        return format_age(now_sec > sec ? (uint64_t) (now_sec - sec) : 0, buffer);
}

int rollout_text_undo(json_object *record, int64_t now_sec, char **ret) {
        const char *since = json_get_text(record, "since"), *age;
        cleanup(free_p) char *images = NULL;
        FormatBuffer buffer;

        age = format_since(since, now_sec, &buffer);
        if (format_images(record_images(record, false), record_images(record, true), &images) < 0)
                return -ENOMEM;
        return text_format(ret, "the update of %s%s%s%s by \"%s\": %s", since, age ? " (" : "",
                           age ?: "", age ? " ago)" : "", json_get_text(record, "by"), images);
}

int rollout_text_open(json_object *record, const RolloutView *view, int64_t now_sec, char **ret) {
        const char *since = json_get_text(record, "since"), *age;
        RolloutSum sum = { .n_pods = 0 };
        cleanup(free_p) char *images = NULL;
        cleanup(free_p) char *progress = NULL;
        FormatBuffer buffer;

        age = format_since(since, now_sec, &buffer);
        if (view)
                sum = rollout_count(view, record);
        if (rollout_text_images(record_target(record), &images) < 0 ||
            (view &&
             text_format(&progress, ": %zu of %zu pods updated", sum.n_updated, sum.n_pods) < 0))
                return -ENOMEM;
        return text_format(ret, "%s to %s by \"%s\" since %s%s%s%s has not ended%s",
                           record_is_undo(record) ? "way back" : "update", images,
                           json_get_text(record, "by"), age ?: "", age ? " (" : "", since,
                           age ? ")" : "", progress ?: "");
}
