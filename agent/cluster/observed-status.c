/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/cluster/observed-status.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/rfc3339.h"

struct json_object *observed_member(struct json_object *object, const char *key, json_type type) {
        struct json_object *value;

        if (!json_object_object_get_ex(object, key, &value) || !json_object_is_type(value, type))
                return NULL;

        return value;
}

/* A text with a NUL in it is none. */
static const char *get_text(struct json_object *object, const char *key) {
        struct json_object *value = observed_member(object, key, json_type_string);
        const char *text = value ? json_object_get_string(value) : NULL;

        return text && strlen(text) == (size_t) json_object_get_string_len(value) ? text : NULL;
}

static bool has_version(struct json_object *entry, int64_t version) {
        struct json_object *value;

        if (!json_object_object_get_ex(entry, "version", &value) || !value)
                return version == 0;

        return json_object_is_type(value, json_type_int) && json_object_get_int64(value) == version;
}

ImagePhase observed_phase(struct json_object *entry) {
        const char *text = get_text(entry, "phase");
        ImagePhase phase = 0;

        while (phase < _IMAGE_PHASE_MAX &&
               (!text || strcmp(text, image_phase_to_string(phase)) != 0))
                phase++;

        return phase;
}

int64_t observed_completed_at(struct json_object *entry) {
        const char *text = get_text(entry, "completionTime");
        int64_t time;

        return text && rfc3339_parse(text, &time) >= 0 ? time : 0;
}

bool observed_is_finished(struct json_object *entry, int64_t version) {
        ImagePhase phase = observed_phase(entry);

        return phase < _IMAGE_PHASE_MAX && image_phase_is_final(phase) &&
               observed_completed_at(entry) != 0 && has_version(entry, version);
}

static struct json_object *get_list(struct json_object *images, const char *name) {
        struct json_object *image = observed_member(images, name, json_type_object);

        return observed_member(image, "tags", json_type_array);
}

static int compare_tags(const void *a, const void *b) {
        const ObservedTag *x = a, *y = b;
        int order = strcmp(x->tag, y->tag);

        return order != 0 ? order : (x->index > y->index) - (x->index < y->index);
}

int observed_tags_read(struct json_object *images, const char *name, ObservedTags *ret) {
        ObservedTags tags = { .list = get_list(images, name) };
        size_t n = tags.list ? json_object_array_length(tags.list) : 0;

        tags.items = calloc(n + 1, sizeof(tags.items[0]));
        if (!tags.items)
                return -ENOMEM;

        for (size_t i = 0; i < n; i++) {
                struct json_object *entry = json_object_array_get_idx(tags.list, i);
                const char *tag = get_text(entry, "tag");

                if (tag)
                        tags.items[tags.n_items++] =
                                (ObservedTag){ .tag = tag, .entry = entry, .index = i };
        }
        qsort(tags.items, tags.n_items, sizeof(tags.items[0]), compare_tags);

        *ret = tags;
        return 0;
}

void observed_tags_done(ObservedTags *tags) {
        free(tags->items);
}

struct json_object *observed_tags_find(const ObservedTags *tags, const char *tag, int64_t version) {
        struct json_object *found = NULL;
        size_t low = 0, high = tags->n_items;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (strcmp(tags->items[middle].tag, tag) < 0)
                        low = middle + 1;
                else
                        high = middle;
        }

        for (; low < tags->n_items && strcmp(tags->items[low].tag, tag) == 0; low++) {
                if (observed_is_finished(tags->items[low].entry, version))
                        return tags->items[low].entry;
                found = found ?: tags->items[low].entry;
        }

        return found;
}

static bool has_tag(struct json_object *entry, const char *tag) {
        const char *text = get_text(entry, "tag");

        return text && strcmp(text, tag) == 0;
}

/* Where the tag is if the list is sorted. */
static size_t guess_index(struct json_object *list, const char *tag) {
        size_t low = 0, high = json_object_array_length(list);

        while (low < high) {
                size_t middle = low + (high - low) / 2;
                const char *text = get_text(json_object_array_get_idx(list, middle), "tag");

                if (text && strcmp(text, tag) < 0)
                        low = middle + 1;
                else
                        high = middle;
        }

        return low;
}

struct json_object *observed_find_finished(struct json_object *images, const char *name,
                                           const char *tag, int64_t version) {
        struct json_object *list = get_list(images, name);
        bool is_found = false;
        size_t i;

        if (!list)
                return NULL;

        i = guess_index(list, tag);
        if (!has_tag(json_object_array_get_idx(list, i), tag))
                i = 0; /* it is not there, or the list is not sorted */

        for (; i < json_object_array_length(list); i++) {
                struct json_object *entry = json_object_array_get_idx(list, i);

                if (has_tag(entry, tag)) {
                        is_found = true;
                        if (observed_is_finished(entry, version))
                                return entry;
                } else if (is_found) {
                        break;
                }
        }

        return NULL;
}
