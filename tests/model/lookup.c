/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Members of JSON objects, in the place of json-c's functions of these names
 *
 * The model's objects are small, and most of its time would go into hashes of their keys: to walk is faster.
 */

#include <json-c/json.h>
#include <stdint.h>
#include <string.h>

json_bool json_object_object_get_ex(const json_object *object, const char *key,
                                    json_object **value) {
        const struct lh_table *members = json_object_get_object(object); /* NULL: it is none */
        const struct lh_entry *entry = members ? members->head : NULL;

        while (entry && (*(const char *) entry->k != *key || strcmp(entry->k, key) != 0))
                entry = entry->next;
        if (value)
                *value = entry ? (json_object *) (uintptr_t) entry->v : NULL;
        return entry != NULL;
}

json_object *json_object_object_get(const json_object *object, const char *key) {
        json_object *value;

        return json_object_object_get_ex(object, key, &value) ? value : NULL;
}
