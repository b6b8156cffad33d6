/* SPDX-License-Identifier: Apache-2.0 */

/* Documents that are never changed: a new one shares what is the same */

#include <stdarg.h>
#include <string.h>

#include "agent/base/rfc3339.h"
#include "agent/document/json-reader.h"
#include "tests/model/world.h"

/* Copies share their keys, which are few and never freed: fewer of them are in a processor's cache. */
static const char *lasting_key(const struct lh_entry *entry) {
        static struct lh_table *keys;
        struct lh_entry *found;

        if (entry->k_is_constant)
                return entry->k;
        keys = keys ?: lh_kchar_table_new(64, NULL);
        found = lh_table_lookup_entry(keys, entry->k);
        if (!found) {
                (void) lh_table_insert(keys, strdup(entry->k), NULL);
                found = lh_table_lookup_entry(keys, entry->k);
        }
        return found->k;
}

static json_object *copy_members(json_object *object) {
        json_object *copy = json_object_new_object();
        struct lh_entry *entry;

        if (!json_object_is_type(object, json_type_object))
                return copy;
        for (entry = json_object_get_object(object)->head; entry; entry = entry->next)
                json_object_object_add_ex(copy, lasting_key(entry),
                                          json_object_get((json_object *) (uintptr_t) entry->v),
                                          JSON_C_OBJECT_ADD_KEY_IS_NEW |
                                                  JSON_C_OBJECT_ADD_CONSTANT_KEY);
        return copy;
}

static json_object *with(json_object *object, json_object *value, const char *const *keys) {
        json_object *copy = copy_members(object);
        json_object *inner =
                keys[1] ? with(json_object_object_get(object, keys[0]), value, keys + 1) : value;

        if (inner)
                json_object_object_add(copy, keys[0], inner);
        else
                json_object_object_del(copy, keys[0]);
        return copy;
}

void set_at(json_object **document, json_object *value, const char *const *keys) {
        json_object *changed = with(*document, value, keys);

        json_object_put(*document);
        *document = changed;
}

json_object *copy_list(json_object *list) {
        json_object *copy = json_object_new_array();

        for (size_t i = 0; i < json_object_array_length(list); i++)
                json_object_array_add(copy, json_object_get(json_object_array_get_idx(list, i)));
        return copy;
}

json_object *with_numbers(json_object *object, const char *const *keys, const int64_t *values) {
        json_object *copy = copy_members(object);

        for (size_t i = 0; keys[i]; i++)
                json_object_object_add(copy, keys[i], json_object_new_int64(values[i]));
        return copy;
}

json_object *get_at(json_object *document, const char *const *keys) {
        for (; document && *keys; keys++)
                if (!json_object_is_type(document, json_type_object) ||
                    !json_object_object_get_ex(document, *keys, &document))
                        return NULL;
        return document;
}

json_object *time_text(int64_t sec) {
        char text[RFC3339_SIZE];

        return json_object_new_string(rfc3339_format(sec, text));
}

const char *annotation_of(json_object *object, const char *name) {
        json_object *text = GET(object, "metadata", "annotations", name);

        return text ? json_object_get_string(text) : NULL;
}

/* The member that tells the items of a list apart; NULL: a patch replaces the list as a whole. */
static const char *merge_key(const char *list) {
        if (strcmp(list, "containers") == 0 || strcmp(list, "initContainers") == 0)
                return "name";
        return strcmp(list, "conditions") == 0 ? "type" : NULL;
}

static json_object *merge(json_object *old, json_object *patch, bool is_strategic);

static json_object *merge_list(json_object *old, json_object *patch, const char *key) {
        json_object *merged = json_object_new_array();
        size_t n = old ? json_object_array_length(old) : 0;

        for (size_t i = 0; i < n; i++) {
                json_object *item = json_object_array_get_idx(old, i);
                json_object *change = json_find(patch, key, json_get_text(item, key));

                json_object_array_add(merged,
                                      change ? merge(item, change, true) : json_object_get(item));
        }
        for (size_t i = 0; i < json_object_array_length(patch); i++) {
                json_object *item = json_object_array_get_idx(patch, i);

                if (!json_find(old, key, json_get_text(item, key)))
                        json_object_array_add(merged, merge(NULL, item, true));
        }
        return merged;
}

/* patch may be null, and removes then: NULL. */
static json_object *merge_member(const char *key, json_object *old, json_object *patch,
                                 bool is_strategic) {
        const char *by = is_strategic ? merge_key(key) : NULL;

        if (by && json_object_is_type(patch, json_type_array))
                return merge_list(old, patch, by);
        return json_object_is_type(patch, json_type_object) ? merge(old, patch, is_strategic)
                                                            : json_object_get(patch);
}

static json_object *merge(json_object *old, json_object *patch, bool is_strategic) {
        json_object *merged = copy_members(old);

        json_object_object_foreach(patch, key, change) {
                json_object *inner = merge_member(key, json_object_object_get(merged, key), change,
                                                  is_strategic);

                if (inner)
                        json_object_object_add(merged, key, inner);
                else
                        json_object_object_del(merged, key);
        }
        return merged;
}

json_object *merge_patch(json_object *document, json_object *patch, bool is_strategic) {
        return merge(document, patch, is_strategic);
}

json_object *template_of(json_object *object) {
        json_object *kept = GET(object, "data", "spec", "template");

        return kept ? kept : GET(object, "spec", "template");
}

static bool labels_equal(json_object *a, json_object *b) {
        json_object_object_foreach(a, key, value) {
                if (strcmp(key, "pod-template-hash") != 0 &&
                    !json_object_equal(value, json_object_object_get(b, key)))
                        return false;
        }
        return true;
}

bool templates_equal(json_object *a, json_object *b) {
        json_object *labels = GET(a, "metadata", "labels"), *others = GET(b, "metadata", "labels");

        return json_object_equal(GET(a, "spec"), GET(b, "spec")) &&
               json_object_equal(GET(a, "metadata", "annotations"),
                                 GET(b, "metadata", "annotations")) &&
               labels_equal(labels, others) && labels_equal(others, labels);
}

/* Choices and words */

static uint64_t next_random(World *world) {
        uint64_t x = world->random += UINT64_C(0x9e3779b97f4a7c15);

        x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
        return x ^ (x >> 31);
}

uint32_t choose(World *world, uint32_t n) {
        return (uint32_t) (((next_random(world) >> 32) * n) >> 32);
}

bool happens(World *world, unsigned percent) {
        return choose(world, 100) < percent;
}

void note(World *world, const char *format, ...) {
        va_list arguments;

        if (!world->trace)
                return;
        fprintf(world->trace, "%4u %6" PRId64 "s  ", world->n_steps, world->now_sec % 100000);
        va_start(arguments, format);
        vfprintf(world->trace, format, arguments);
        va_end(arguments);
        fputc('\n', world->trace);
        fflush(world->trace);
}

void fail(World *world, const char *format, ...) {
        va_list arguments;

        if (world->judge.failure[0])
                return;
        va_start(arguments, format);
        vsnprintf(world->judge.failure, sizeof(world->judge.failure), format, arguments);
        va_end(arguments);
        note(world, "FAILED: %s", world->judge.failure);
}
