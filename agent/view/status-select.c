/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/view/status-select.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/image/image-ref.h"
#include "agent/view/status-rows.h"

/* An image that the user named. A short name also selects Docker Hub's image of that name, however
 * the runtime resolves it. */
typedef struct Pattern {
        ImageRef ref;
        bool is_any_tag;
        bool is_found;
} Pattern;

static bool has_tag(const char *text) {
        const char *slash = strrchr(text, '/');

        return strchr(text, '@') || strchr(slash ?: text, ':');
}

static bool is_match(const Pattern *pattern, const char *name, const char *tag) {
        ImageRef ref;

        /* A malformed reference is shown as failed, and cannot be selected by name. */
        if (image_ref_from_node_image(name, tag, SHORT_NAMES_HUB, &ref, NULL) < 0)
                return false;
        if (!pattern->is_any_tag)
                return image_ref_equal(&pattern->ref, &ref);

        return image_ref_is_same_repository(&pattern->ref, &ref);
}

static int read_patterns(const StatusSelection *selection, Pattern **ret, Error *reterr) {
        cleanup(free_p) Pattern *patterns = calloc(selection->n_images + 1, sizeof(*patterns));
        int r;

        if (!patterns)
                return -ENOMEM;

        for (size_t i = 0; i < selection->n_images; i++) {
                r = image_ref_parse(selection->images[i], SHORT_NAMES_HUB, &patterns[i].ref,
                                    reterr);
                if (r < 0)
                        return r;
                patterns[i].is_any_tag = !has_tag(selection->images[i]);
        }

        *ret = take_ptr(patterns);
        return 0;
}

/* The pull has failed for good, or the last attempt has; or the image was removed and is not
 * back. */
static bool has_failed(const StatusRow *row) {
        return strcmp(row->phase, "Failed") == 0 || strcmp(row->phase, "BackOff") == 0 ||
               strcmp(row->phase, "Missing") == 0;
}

static bool is_selected(const StatusSelection *selection, Pattern *patterns, const StatusRow *row) {
        bool is_one = selection->n_images == 0;

        for (size_t i = 0; i < selection->n_images; i++)
                if (is_match(&patterns[i], row->image, row->tag)) {
                        patterns[i].is_found = true;
                        is_one = true;
                }

        return is_one && (!selection->only_failed || has_failed(row));
}

/* The tags of one image that are among the rows. NULL if there is no memory. */
static json_object *select_tags(json_object *tags, const char *image, const StatusRows *rows) {
        cleanup(json_object_put_p) json_object *selected = json_object_new_array();

        for (size_t i = 0; selected && i < json_object_array_length(tags); i++) {
                json_object *tag = json_object_array_get_idx(tags, i);

                if (status_rows_have(rows, image, json_get_text(tag, "tag") ?: "") &&
                    patch_append(selected, json_object_get(tag)) < 0)
                        return NULL;
        }

        return take_ptr(selected);
}

static int select_images(json_object *object, const char *key, const StatusRows *rows) {
        json_object *images = json_get(object, key, json_type_object);
        cleanup(json_object_put_p) json_object *selected = json_object_new_object();

        if (!selected)
                return -ENOMEM;
        if (!images)
                return 0;

        json_object_object_foreach(images, name, image) {
                json_object *tags = json_get(image, "tags", json_type_array);
                json_object *kept = tags ? select_tags(tags, name, rows) : NULL;

                if (!kept)
                        continue;
                if (json_object_array_length(kept) == 0) {
                        json_object_put(kept);
                        continue;
                }
                if (patch_add(image, "tags", kept) < 0 ||
                    patch_add(selected, name, json_object_get(image)) < 0)
                        return -ENOMEM;
        }

        return patch_add(object, key, take_ptr(selected));
}

static int refuse_missing(const StatusSelection *selection, const Pattern *patterns,
                          Error *reterr) {
        for (size_t i = 0; i < selection->n_images; i++)
                if (!patterns[i].is_found)
                        return error_set(reterr, ERROR_NOT_FOUND,
                                         "%s is not among the desired images of this node; try: "
                                         "inplacectl status",
                                         selection->images[i]);

        return 0;
}

int status_select(json_object *node_image, const StatusSelection *selection, Error *reterr) {
        cleanup(json_object_put_p) json_object *copy = NULL; /* the rows borrow from it */
        cleanup(status_rows_done) StatusRows rows = STATUS_ROWS_INIT;
        cleanup(free_p) Pattern *patterns = NULL;
        size_t n = 0;
        int r;

        r = read_patterns(selection, &patterns, reterr);
        if (r < 0)
                return r;

        copy = json_copy(node_image);
        if (!copy)
                return -ENOMEM;
        r = status_rows_read(copy, &rows);
        if (r < 0)
                return r;

        for (size_t i = 0; i < rows.n_items; i++)
                if (is_selected(selection, patterns, &rows.items[i]))
                        rows.items[n++] = rows.items[i];
        rows.n_items = n;

        r = selection->is_partial ? 0 : refuse_missing(selection, patterns, reterr);
        if (r < 0)
                return r;

        r = select_images(json_get(node_image, "spec", json_type_object), "images", &rows);
        if (r < 0)
                return r;

        return select_images(json_get(node_image, "status", json_type_object), "imageStatuses",
                             &rows);
}
