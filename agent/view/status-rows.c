/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/view/status-rows.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/document/json-reader.h"
#include "agent/image/image-ref.h"

/* In the order in which they are counted. */
typedef enum Kind {
        KIND_SUCCEEDED,
        KIND_FAILED,
        KIND_PULLING,
        KIND_BACKING_OFF,
        KIND_MISSING,
        KIND_WAITING,
        _KIND_MAX,
} Kind;

/* clang-format off */
static const struct {
        const char *phase;
        const char *counted;
        int urgency; /* order if the screen is too small for all, first 0 */
} kinds[_KIND_MAX] = {
        [KIND_SUCCEEDED]   = { "Succeeded", "pulled",   5 },
        [KIND_FAILED]      = { "Failed",    "failed",   3 },
        [KIND_PULLING]     = { "Pulling",   "pulling",  0 },
        [KIND_BACKING_OFF] = { "BackOff",   "retrying", 1 },
        [KIND_MISSING]     = { "Missing",   "missing",  2 },
        [KIND_WAITING]     = { "Waiting",   "waiting",  4 },
};
/* clang-format on */

static const char *text_or_empty(json_object *object, const char *key) {
        return json_get_text(object, key) ?: "";
}

static StatusRow *find_or_add(StatusRows *rows, const char *image, const char *tag) {
        for (size_t i = rows->n_items; i-- > 0;)
                if (strcmp(rows->items[i].image, image) == 0 &&
                    strcmp(rows->items[i].tag, tag) == 0)
                        return &rows->items[i];

        if (array_grow(&rows->items, rows->n_items, sizeof(rows->items[0])) < 0)
                return NULL;

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
        else if (strcmp(kind, "ImageSet") == 0)
                fprintf(file, "set %s", name);
        else
                fprintf(file, "%s %s%s%s", strcmp(kind, "ImagePullJob") == 0 ? "job" : kind,
                        namespace, namespace[0] ? "/" : "", name);
}

char *status_row_requested_by(const StatusRow *row) {
        size_t n = row->owners ? json_object_array_length(row->owners) : 0, size;
        char *text = NULL;
        FILE *file;

        file = text_open(&text, &size);
        if (!file)
                return NULL;

        for (size_t i = 0; i < n; i++) {
                if (i > 0)
                        fputs("; ", file);
                put_owner(file, json_object_array_get_idx(row->owners, i));
        }

        return text_close(file, &text) == 0 ? text : NULL;
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

/* An unknown phase is that of a newer agent, and counts as waiting. */
static Kind kind_of(const StatusRow *row) {
        for (Kind kind = 0; kind < _KIND_MAX; kind++)
                if (strcmp(row->phase, kinds[kind].phase) == 0)
                        return kind;

        return KIND_WAITING;
}

static int by_name(const void *a, const void *b) {
        const StatusRow *x = a, *y = b;
        int order = strcmp(x->image, y->image);

        return order != 0 ? order : strcmp(x->tag, y->tag);
}

static int by_urgency(const void *a, const void *b) {
        int order = kinds[kind_of(a)].urgency - kinds[kind_of(b)].urgency;

        return order != 0 ? order : by_name(a, b);
}

void status_rows_sort_by_urgency(StatusRows *rows) {
        if (rows->n_items > 0)
                qsort(rows->items, rows->n_items, sizeof(*rows->items), by_urgency);
}

char *status_rows_count(const StatusRows *rows) {
        size_t n[_KIND_MAX] = { 0 }, size;
        const char *comma = "";
        char *text = NULL;
        FILE *file;

        for (size_t i = 0; i < rows->n_items; i++)
                n[kind_of(&rows->items[i])]++;

        file = text_open(&text, &size);
        if (!file)
                return NULL;

        for (Kind kind = 0; kind < _KIND_MAX; kind++)
                if (n[kind] > 0) {
                        fprintf(file, "%s%zu %s", comma, n[kind], kinds[kind].counted);
                        comma = ", ";
                }
        if (rows->n_items == 0)
                fputs("none", file);

        return text_close(file, &text) == 0 ? text : NULL;
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
                qsort(rows.items, rows.n_items, sizeof(*rows.items), by_name);

        *ret = rows;
        rows = STATUS_ROWS_INIT;
        return 0;
}

void status_rows_done(StatusRows *rows) {
        free(rows->items);
        *rows = STATUS_ROWS_INIT;
}

bool status_rows_have(const StatusRows *rows, const char *image, const char *tag) {
        for (size_t i = 0; i < rows->n_items; i++)
                if (strcmp(rows->items[i].image, image) == 0 &&
                    strcmp(rows->items[i].tag, tag) == 0)
                        return true;

        return false;
}

int64_t status_row_since(const StatusRow *row) {
        return row->changed_at ?: row->completed_at ?: row->started_at ?: row->created_at;
}

int status_row_reference(const StatusRow *row, char **ret) {
        return image_ref_join(row->image, row->tag, ret);
}

bool status_reference_equal(const char *a, const char *b) {
        ImageRef x, y;

        return image_ref_parse(a, SHORT_NAMES_HUB, &x, NULL) >= 0 &&
               image_ref_parse(b, SHORT_NAMES_HUB, &y, NULL) >= 0 && image_ref_equal(&x, &y);
}
