/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/inplace/running-env-spec.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"
#include "agent/pod/env-hash.h"

#define DEPTH_MAX 64
#define TEXT_MAX ((size_t) 16 << 20)

static const char *text_of(json_object *json) {
        return json_object_is_type(json, json_type_string) ? json_object_get_string(json) : "";
}

typedef struct Variable {
        Slice name;
        const char *value;
        size_t index;
} Variable;

static int compare_names(Slice a, Slice b) {
        int r = memcmp(a.data, b.data, a.size < b.size ? a.size : b.size);

        return r != 0 ? r : (a.size > b.size) - (a.size < b.size);
}

static int compare_variables(const void *a, const void *b) {
        const Variable *left = a, *right = b;
        int r = compare_names(left->name, right->name);

        return r != 0 ? r : (left->index > right->index) - (left->index < right->index);
}

/* Reads "NAME=value", the form of the process, or {"key": "NAME", "value": "value"}, the form of the kubelet's
 * request. */
static bool read_variable(json_object *item, bool is_process, Variable *ret) {
        const char *text = text_of(is_process ? item : json_get(item, "key", json_type_string));
        const char *end = is_process ? strchr(text, '=') : text + strlen(text);

        if (!end)
                return false;

        ret->name = (Slice){ .data = text, .size = (size_t) (end - text) };
        ret->value = is_process ? end + 1 : text_of(json_get(item, "value", json_type_string));
        return true;
}

/* Sorts, since there may be thousands of variables and of names. */
static int sort_variables(json_object *list, bool is_process, Variable **ret, size_t *ret_n) {
        size_t n_items = json_object_array_length(list), n = 0;
        Variable *variables = calloc(n_items + 1, sizeof(*variables));

        if (!variables)
                return -ENOMEM;

        for (size_t i = 0; i < n_items; i++) {
                variables[n].index = i;
                if (read_variable(json_object_array_get_idx(list, i), is_process, &variables[n]))
                        n++;
        }

        qsort(variables, n, sizeof(*variables), compare_variables);
        *ret = variables;
        *ret_n = n;
        return 0;
}

/* The last of several variables of one name counts; a missing one has the value "". */
static const char *find_value(const Variable *variables, size_t n_variables, const char *name) {
        size_t first = 0, end = n_variables;

        while (first < end) {
                size_t i = first + (end - first) / 2;

                if (compare_names(variables[i].name, slice(name)) <= 0)
                        first = i + 1;
                else
                        end = i;
        }

        return first > 0 && slice_equal(variables[first - 1].name, name)
                       ? variables[first - 1].value
                       : "";
}

static size_t count(char *const *names) {
        size_t n = 0;

        while (names[n])
                n++;
        return n;
}

static int hash(json_object *list, bool is_process, char *const *names, uint32_t *ret) {
        size_t n = count(names), n_variables;
        cleanup(free_p) EnvValue *values = calloc(n + 1, sizeof(*values));
        cleanup(free_p) Variable *variables = NULL;
        int r;

        if (!values)
                return -ENOMEM;

        r = sort_variables(list, is_process, &variables, &n_variables);
        if (r < 0)
                return r;

        for (size_t i = 0; i < n; i++)
                values[i] = (EnvValue){
                        .name = names[i],
                        .value = find_value(variables, n_variables, names[i]),
                };

        return env_hash(values, n, ret);
}

static int parse(const char *text, json_object **ret) {
        const JsonLimits limits = { .size = TEXT_MAX, .depth = DEPTH_MAX };

        return json_parse_any(text, strnlen(text, TEXT_MAX + 1), limits, ret);
}

/* The variables stand in it a second time, in the form of the kubelet's request, of which json-c would make forty times as
 * much. */
static int parse_process(const char *info, json_object **ret) {
        cleanup(text_wipe) char *shorter = NULL;
        size_t size;
        int r = json_empty_lists(info, strnlen(info, TEXT_MAX), "envs", /* depth= */ 2, &shorter,
                                 &size);

        return r < 0 ? r : parse(shorter ?: info, ret);
}

int running_env_hash(const char *info, char *const *names, uint32_t *ret, Error *reterr) {
        cleanup(json_object_wipe_p) json_object *process = NULL, *whole = NULL;
        json_object *list;
        int r = parse_process(info, &process);

        if (r < 0)
                return r;
        list = json_get(json_get(json_get(process, "runtimeSpec", json_type_object), "process",
                                 json_type_object),
                        "env", json_type_array);
        if (list)
                return hash(list, true, names, ret);

        r = parse(info, &whole);
        if (r < 0)
                return r;
        list = json_get(json_get(whole, "config", json_type_object), "envs", json_type_array);
        if (list)
                return hash(list, false, names, ret);

        return error_set(reterr, ERROR_INVALID,
                         "the runtime does not report the environment of the container");
}
