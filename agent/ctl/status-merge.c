/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/ctl/status-merge.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"

static size_t find_tag(json_object *tags, const char *tag) {
        size_t n = json_object_array_length(tags), i = 0;

        while (i < n && !text_equal(json_get_text(json_object_array_get_idx(tags, i), "tag"), tag))
                i++;

        return i;
}

/* Replaces the one with the same tag, or appends it. */
static int merge_tag(json_object *tags, json_object *tag) {
        size_t i = find_tag(tags, json_get_text(tag, "tag"));

        if (json_object_array_put_idx(tags, i, json_object_get(tag)) == 0)
                return 0;

        json_object_put(tag);
        return -ENOMEM;
}

/* Merges the tags of an image, and replaces its other members. */
static int merge_image(json_object *image, json_object *changes) {
        json_object *tags = json_get(image, "tags", json_type_array);
        json_object *more = json_get(changes, "tags", json_type_array);
        int r = 0;

        for (size_t i = 0; tags && more && r >= 0 && i < json_object_array_length(more); i++)
                r = merge_tag(tags, json_object_array_get_idx(more, i));
        if (r < 0)
                return r;

        json_object_object_foreach(changes, key, value) {
                if (tags && value == more)
                        continue;
                if (patch_add(image, key, json_object_get(value)) < 0)
                        return -ENOMEM;
        }

        return 0;
}

static int merge_images(json_object *images, json_object *changes) {
        json_object_object_foreach(changes, name, change) {
                json_object *image = json_get(images, name, json_type_object);
                int r;

                if (!json_object_is_type(change, json_type_object))
                        continue;
                r = image ? merge_image(image, change)
                          : patch_add(images, name, json_object_get(change));
                if (r < 0)
                        return r;
        }

        return 0;
}

/* The member of that name has the images; the others are replaced. */
static int merge_part(json_object *part, json_object *changes, const char *name) {
        json_object *images = json_get(part, name, json_type_object);
        json_object *more = json_get(changes, name, json_type_object);
        int r;

        r = images && more ? merge_images(images, more) : 0;
        if (r < 0)
                return r;

        json_object_object_foreach(changes, key, value) {
                if (images && value == more)
                        continue;
                if (patch_add(part, key, json_object_get(value)) < 0)
                        return -ENOMEM;
        }

        return 0;
}

static const char *images_of(const char *part) {
        return strcmp(part, "spec") == 0     ? "images"
               : strcmp(part, "status") == 0 ? "imageStatuses"
                                             : NULL;
}

int status_merge(json_object *node_image, json_object *changes) {
        json_object_object_foreach(changes, key, value) {
                json_object *part = json_get(node_image, key, json_type_object);
                bool is_part =
                        part && images_of(key) && json_object_is_type(value, json_type_object);
                int r;

                r = is_part ? merge_part(part, value, images_of(key))
                            : patch_add(node_image, key, json_object_get(value));
                if (r < 0)
                        return r;
        }

        return 0;
}

static void remove_from(json_object *images, const char *name, const char *tag) {
        json_object *image = json_get(images, name, json_type_object);
        json_object *tags = json_get(image, "tags", json_type_array);
        size_t i = tags ? find_tag(tags, tag) : 0;

        if (!tags || i == json_object_array_length(tags))
                return;

        (void) json_object_array_del_idx(tags, i, 1);
        if (json_object_array_length(tags) == 0)
                json_object_object_del(images, name);
}

void status_remove(json_object *node_image, const char *reference) {
        json_object *spec = json_get(node_image, "spec", json_type_object);
        json_object *status = json_get(node_image, "status", json_type_object);
        const char *end = strchr(reference, '@') ?: strrchr(reference, ':');
        cleanup(free_p) char *name = end ? strndup(reference, (size_t) (end - reference)) : NULL;

        if (!name)
                return;

        remove_from(json_get(spec, "images", json_type_object), name, end + 1);
        remove_from(json_get(status, "imageStatuses", json_type_object), name, end + 1);
}
