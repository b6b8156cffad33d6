/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Documents, from an attacker: whatever is taken is within the limits, and means the
 * same when it is written as JSON and read again; each key has a line
 */

#include <json-c/json_object.h>
#include <json-c/linkhash.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/document/documents.h"
#include "tests/fuzz/fuzz.h"

static size_t check_value(struct json_object *value, size_t depth, size_t *n_keys) {
        size_t n = 1;

        if (json_object_is_type(value, json_type_object) ||
            json_object_is_type(value, json_type_array))
                depth++;
        if (depth > DOCUMENTS_DEPTH_MAX)
                abort();

        if (json_object_is_type(value, json_type_array))
                for (size_t i = 0; i < json_object_array_length(value); i++)
                        n += check_value(json_object_array_get_idx(value, i), depth, n_keys);

        if (json_object_is_type(value, json_type_object)) {
                json_object_object_foreach(value, key, member) {
                        (void) key;
                        (*n_keys)++;
                        n += check_value(member, depth, n_keys);
                }
        }

        return n;
}

static void check_again(struct json_object *value) {
        cleanup(documents_done) Documents again = DOCUMENTS_INIT;
        const char *json = json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN);

        /* Escapes make it longer, and a scalar alone is read as YAML. */
        if (strlen(json) > DOCUMENTS_SIZE_MAX || (json[0] != '{' && json[0] != '['))
                return;

        if (documents_parse(json, strlen(json), &again, NULL) < 0)
                abort();
        if (again.n_items != 1 || !json_object_equal(again.items[0], value))
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        cleanup(documents_done) Documents documents = DOCUMENTS_INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        size_t n = 0, n_keys = 0;
        int r;

        r = documents_parse((const char *) data, size, &documents, &error);
        if ((r < 0) != (error.kind == ERROR_INVALID))
                abort();
        if (r < 0 && (documents.n_items > 0 || strpbrk(error_message(&error), "\r\n")))
                abort();

        for (size_t i = 0; i < documents.n_items; i++) {
                n += check_value(documents.items[i], 0, &n_keys);
                check_again(documents.items[i]);
        }

        if (n > DOCUMENTS_VALUES_MAX + documents.n_items || documents.n_lines != n_keys)
                abort();
        for (size_t i = 1; i < documents.n_lines; i++)
                if (documents.lines[i] < documents.lines[i - 1])
                        abort();
        return 0;
}
