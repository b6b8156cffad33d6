/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The hashes, against what OpenKruise's own code says
 */

#include "agent/pod/env-hash.h"
#include "tests/unit/container-vectors.h"
#include "tests/unit/unit.h"

typedef struct Variables {
        EnvValue expected[VECTORS_ENV_MAX];
        EnvValue current[VECTORS_ENV_MAX];
        size_t n;
} Variables;

static inline void json_put_p(json_object **json) {
        json_object_put(*json);
}

/* Finds the value of a field of the metadata. */
static const char *find_value(json_object *vector, const char *path) {
        char text[256];
        bool is_label;
        Slice key;

        if (!env_hash_parse_field(path, &is_label, &key))
                return NULL;

        snprintf(text, sizeof(text), "%.*s", (int) key.size, key.data);
        return vector_text(vector_get(vector_get(vector, "podMetadata"),
                                      is_label ? "labels" : "annotations"),
                           text);
}

static void read_variables(json_object *vector, Variables *variables) {
        for (size_t i = 0; i < vector_n_env(vector); i++) {
                json_object *env = vector_env(vector, i);
                const char *name = vector_text(env, "name"), *path = vector_field(env);
                const char *value = path ? find_value(vector, path) : NULL;

                if (!value || vector_text(env, "value")[0] || env_hash_skips(name))
                        continue;

                variables->expected[variables->n] = (EnvValue){ name, value };
                variables->current[variables->n++] =
                        (EnvValue){ name, vector_text(vector_get(vector, "runtimeEnv"), name) };
        }
}

static void check_hash(const EnvValue *values, size_t n_values, uint32_t expected,
                       const char *what) {
        uint32_t hash = 0;

        assert_ok(env_hash(values, n_values, &hash));
        if (hash != expected)
                fail_msg("%s: %u instead of %u", what, hash, expected);
}

static void check_vector(json_object *vector) {
        const char *id = vector_text(vector, "id");
        json_object *container = vector_get(vector, "container");
        Variables variables = { .n = 0 };

        read_variables(vector, &variables);
        check_hash(variables.expected, variables.n, vector_hash(vector, "expectedEnvHash"), id);

        /* A variable that cannot be read has no hash. */
        if (vector_get(vector, "currentEnvHash") &&
            (variables.n == 0 || !vector_get(vector, "runtimeEnvReadFails")))
                check_hash(variables.current, variables.n, vector_hash(vector, "currentEnvHash"),
                           id);

        assert_int_equal(plain_hash(vector_text(container, "name"),
                                    vector_text(container, "image")),
                         vector_hash(vector, "plainHashKubelet131plus"));
}

TEST(test_vectors) {
        cleanup(json_put_p) json_object *vectors = vectors_read();

        for (size_t i = 0; i < json_object_array_length(vectors); i++)
                check_vector(json_object_array_get_idx(vectors, i));
}

/* Values of a variable E, with the hash of the text that Go's encoding/json makes of them. */
static const struct SpellingRow {
        const char *value;
        uint32_t hash;
} spellings[] = {
        { "\001\037 \177", 1279908623u },
        { "\200", 44869869u },
        { "a\377b", 1463894726u },
        { "\303", 44869869u },
        { "\303(", 3724636547u },
        { "\300\200", 2599730657u },
        { "\301\277", 2599730657u },
        { "\302\200", 2540666164u },
        { "\340\237\277", 830638213u },
        { "\340\240\200", 1432172581u },
        { "\342\202", 2599730657u },
        { "\342\202x", 4266503174u },
        { "\342\200\247\342\200\250\342\200\251\342\200\252", 3852835770u },
        { "\355\237\277", 1296696353u },
        { "\355\240\200", 830638213u },
        { "\355\277\277", 830638213u },
        { "\356\200\200", 1660430u },
        { "\357\277\275", 2163647760u },
        { "\360\217\277\277", 3054169625u },
        { "\360\220\200\200", 2677894258u },
        { "\360\237\230", 830638213u },
        { "\364\217\277\277", 1253496397u },
        { "\364\220\200\200", 3054169625u },
        { "\365\200\200\200", 3054169625u },
        { "</script>&amp;'/", 3552626352u },
};

TEST_ROWS(test_spelling, spellings, value, const struct SpellingRow *row) {
        const EnvValue value = { "E", row->value };

        check_hash(&value, 1, row->hash, row->value);
}

TEST(test_large_value) {
        cleanup(free_p) char *text = malloc(102401);
        const EnvValue value = { "E", text };

        memset(text, 'x', 102400);
        text[102400] = '\0';
        check_hash(&value, 1, 2029303081u, "100 KiB");
}

/* Many that compare alike keep their order, and none is sorted for long. */
TEST(test_many) {
        enum { N = 20000 };
        cleanup(free_p) EnvValue *values = calloc(N, sizeof(*values));
        cleanup(free_p) char *texts = calloc(N, 8);
        uint32_t hash, swapped;

        for (size_t i = 0; i < N; i++) {
                snprintf(texts + 8 * i, 8, "%05zu", N - 1 - i);
                values[i] = (EnvValue){ i < N / 2 ? "B" : "A", texts + 8 * i };
        }

        assert_ok(env_hash(values, N, &hash));
        assert_int_equal(hash, 962319694u);
        assert_string_equal(values[0].value, "19999");

        values[0].value = texts + 8;
        values[1].value = texts;
        assert_ok(env_hash(values, N, &swapped));
        assert_int_not_equal(hash, swapped);
}

static const struct FieldsRow {
        const char *path;
        const char *key; /* NULL: it is none of ours */
        bool is_label;
} fields[] = {
        { "metadata.labels['a']", "a", true },
        { "metadata.annotations['a.b/c']", "a.b/c", false },
        { "metadata.labels['']", "", true },
        { "metadata.labels['a['b']", "a['b", true },
        { "metadata.labels['a']']", "a']", true },
        { "metadata.labels[']", NULL, false },
        { "metadata.labels['", NULL, false },
        { "metadata.labels", NULL, false },
        { "metadata.labels[\"a\"]", NULL, false },
        { "metadata.labels['a'", NULL, false },
        { "metadata.label['a']", NULL, false },
        { "Metadata.labels['a']", NULL, false },
        { "['a']", NULL, false },
        { "']", NULL, false },
        { "]", NULL, false },
        { "", NULL, false },
};

TEST_ROWS(test_fields, fields, path, const struct FieldsRow *row) {
        bool is_label = false;
        Slice key = { .size = 0 };

        if (env_hash_parse_field(row->path, &is_label, &key) != !!row->key)
                fail_msg("%s", row->path);
        if (!row->key)
                return;

        assert_true(slice_equal(key, row->key));
        assert_int_equal(is_label, row->is_label);
}

TEST(test_skips) {
        assert_true(env_hash_skips("SIDECARSET_VERSION"));
        assert_true(env_hash_skips("SIDECARSET_VERSION_ALT"));
        assert_false(env_hash_skips("SIDECARSET_VERSION_"));
        assert_false(env_hash_skips(""));
}
