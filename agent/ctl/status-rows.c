/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/ctl/status-rows.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/document/json-reader.h"
#include "agent/image/pull-reason.h"

#define EARLIER "; before that: " /* what a deadline has ended */

static const char *text_or_empty(json_object *object, const char *key) {
        return json_get_text(object, key) ?: "";
}

static StatusRow *find_or_add(StatusRows *rows, const char *image, const char *tag) {
        StatusRow *items;

        for (size_t i = rows->n_items; i-- > 0;)
                if (strcmp(rows->items[i].image, image) == 0 &&
                    strcmp(rows->items[i].tag, tag) == 0)
                        return &rows->items[i];

        items = reallocarray(rows->items, rows->n_items + 1, sizeof(*items));
        if (!items)
                return NULL;

        rows->items = items;
        rows->items[rows->n_items] = (StatusRow){
                .image = image,
                .tag = tag,
                .policy = "",
                .phase = "Waiting",
                .image_id = "",
                .message = "",
        };
        return &rows->items[rows->n_items++];
}

static void read_spec(StatusRow *row, json_object *tag) {
        row->policy = text_or_empty(tag, "imagePullPolicy");
        row->created_at = json_get_time(tag, "createdAt");
        row->owners = json_get(tag, "ownerReferences", json_type_array);
}

static bool is_request(json_object *owner) {
        const char *kind = text_or_empty(owner, "kind");

        return strcmp(kind, "Request") == 0 || strcmp(kind, "Call") == 0;
}

static void put_owner(FILE *file, json_object *owner) {
        const char *kind = text_or_empty(owner, "kind"), *name = text_or_empty(owner, "name");
        const char *namespace = text_or_empty(owner, "namespace");
        const char *caller = text_or_empty(owner, "fieldPath");

        if (strcmp(kind, "File") == 0)
                fprintf(file, "folder:%s", name);
        else if (is_request(owner))
                fprintf(file, "%s%srequest %s", caller, caller[0] ? ", " : "", name);
        else if (strcmp(kind, "NodeImage") == 0)
                fputs(kind, file);
        else
                fprintf(file, "%s %s%s%s", strcmp(kind, "ImagePullJob") == 0 ? "job" : kind,
                        namespace, namespace[0] ? "/" : "", name);
}

char *status_row_requested_by(const StatusRow *row) {
        size_t n = row->owners ? json_object_array_length(row->owners) : 0, size;
        char *text = NULL;
        FILE *file;

        file = open_memstream(&text, &size);
        if (!file)
                return NULL;

        for (size_t i = 0; i < n; i++) {
                if (i > 0)
                        fputs("; ", file);
                put_owner(file, json_object_array_get_idx(row->owners, i));
        }

        if (fclose(file) != 0)
                free(take_ptr(text));
        return text;
}

/* A reference names the version that is done. */
bool status_row_is_left(const StatusRow *row) {
        size_t n = row->owners ? json_object_array_length(row->owners) : 0;

        for (size_t i = 0; i < n; i++) {
                json_object *owner = json_object_array_get_idx(row->owners, i);

                if (!is_request(owner) || !text_or_empty(owner, "resourceVersion")[0])
                        return false;
        }

        return n > 0 && (strcmp(row->phase, "Succeeded") == 0 || strcmp(row->phase, "Failed") == 0);
}

static void read_status(StatusRow *row, json_object *tag) {
        int64_t progress = json_get_integer(tag, "progress");
        const char *phase = text_or_empty(tag, "phase");

        if (phase[0])
                row->phase = phase;
        row->progress = progress < 0 ? 0 : progress > 100 ? 100 : (int) progress;
        row->image_id = text_or_empty(tag, "imageID");
        row->message = text_or_empty(tag, "message");
        row->started_at = json_get_time(tag, "startTime");
        row->completed_at = json_get_time(tag, "completionTime");
        row->changed_at = json_get_time(tag, "lastTransitionTime");
        row->next_attempt_at = json_get_time(tag, "nextAttemptTime");
}

/* images is an object of { IMAGE: { "tags": [ ... ] } }, in the spec as in the status. */
static int read_images(StatusRows *rows, json_object *images,
                       void (*read_tag)(StatusRow *row, json_object *tag)) {

        if (!images)
                return 0;

        json_object_object_foreach(images, name, image) {
                json_object *tags = json_get(image, "tags", json_type_array);

                for (size_t i = 0; tags && i < json_object_array_length(tags); i++) {
                        json_object *tag = json_object_array_get_idx(tags, i);
                        StatusRow *row = find_or_add(rows, name, text_or_empty(tag, "tag"));

                        if (!row)
                                return -ENOMEM;
                        read_tag(row, tag);
                }
        }

        return 0;
}

static int compare_rows(const void *a, const void *b) {
        const StatusRow *x = a, *y = b;
        int order = strcmp(x->image, y->image);

        return order != 0 ? order : strcmp(x->tag, y->tag);
}

int status_rows_read(json_object *node_image, StatusRows *ret) {
        json_object *spec = json_get(node_image, "spec", json_type_object);
        json_object *status = json_get(node_image, "status", json_type_object);
        cleanup(status_rows_done) StatusRows rows = STATUS_ROWS_INIT;
        int r;

        r = read_images(&rows, json_get(spec, "images", json_type_object), read_spec);
        if (r < 0)
                return r;

        r = read_images(&rows, json_get(status, "imageStatuses", json_type_object), read_status);
        if (r < 0)
                return r;

        if (rows.n_items > 0)
                qsort(rows.items, rows.n_items, sizeof(*rows.items), compare_rows);

        *ret = rows;
        rows = STATUS_ROWS_INIT;
        return 0;
}

void status_rows_done(StatusRows *rows) {
        free(rows->items);
        *rows = STATUS_ROWS_INIT;
}

/* The reason that a message begins with, as a slice of it; false if it is none. */
static bool find_reason(const char *message, PullReason *ret, int *ret_size) {
        size_t size = strcspn(message, ":");
        cleanup(free_p) char *word = strndup(message, size);

        *ret = word ? pull_reason_from_string(word) : PULL_REASON_UNKNOWN;
        *ret_size = (int) size;
        return word && message[size] && strcmp(pull_reason_to_string(*ret), word) == 0;
}

/* " (attempt 2 of 4)" at the end of the message, or "". */
static const char *attempt_of(const char *message) {
        const char *attempt = strrchr(message, '(');

        return attempt && attempt > message && strncmp(attempt, "(attempt ", 9) == 0 &&
                               message[strlen(message) - 1] == ')'
                       ? attempt - 1
                       : "";
}

char *status_row_summary(const StatusRow *row) {
        const char *message = row->message, *earlier = strstr(message, EARLIER);
        int size, earlier_size = 0;
        PullReason reason, ignored;
        char *summary;

        if (!find_reason(message, &reason, &size))
                return strdup(message);

        if (earlier)
                earlier += strlen(EARLIER);
        if (!earlier || !find_reason(earlier, &ignored, &earlier_size))
                earlier = "";
        if (asprintf(&summary, "%.*s%s%.*s%s: %s", size, message, earlier_size > 0 ? " after " : "",
                     earlier_size, earlier, attempt_of(message), pull_reason_advice(reason)) < 0)
                return NULL;

        return summary;
}

int64_t status_row_since(const StatusRow *row) {
        return row->changed_at ?: row->completed_at ?: row->started_at ?: row->created_at;
}
