/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Containers and their hashes, as OpenKruise's own code computes them (../vectors/containers.json)
 */

#include <json-c/json.h>
#include <stdint.h>

#include "tests/unit/unit.h"

#define VECTORS_COUNT 26
#define VECTORS_ENV_MAX 16

/* The caller puts it. */
static inline json_object *vectors_read(void) {
        json_object *vectors = json_object_from_file(VECTORS_DIR "/containers.json");

        if (!vectors)
                fail_msg("%s", json_util_get_last_err());
        assert_int_equal(json_object_array_length(vectors), VECTORS_COUNT);
        return vectors;
}

/* NULL if it is not there. */
static inline json_object *vector_get(json_object *object, const char *key) {
        json_object *value = NULL;

        (void) json_object_object_get_ex(object, key, &value);
        return value;
}

static inline const char *vector_text(json_object *object, const char *key) {
        json_object *value = vector_get(object, key);

        return value ? json_object_get_string(value) : "";
}

static inline uint32_t vector_hash(json_object *vector, const char *key) {
        const char *text = vector_text(vector, key);

        assert_true(text[0]);
        return (uint32_t) strtoul(text, NULL, 10);
}

static inline size_t vector_n_env(json_object *vector) {
        json_object *env = vector_get(vector_get(vector, "container"), "env");
        size_t n = env ? json_object_array_length(env) : 0;

        assert_true(n <= VECTORS_ENV_MAX);
        return n;
}

static inline json_object *vector_env(json_object *vector, size_t i) {
        return json_object_array_get_idx(vector_get(vector_get(vector, "container"), "env"), i);
}

/* NULL if the variable is not made from a field. */
static inline const char *vector_field(json_object *env) {
        json_object *field = vector_get(vector_get(env, "valueFrom"), "fieldRef");

        return field ? vector_text(field, "fieldPath") : NULL;
}
