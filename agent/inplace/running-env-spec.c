/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/inplace/running-env-spec.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"
#include "agent/pod/env-hash.h"

#define DEPTH_MAX 64
#define TEXT_MAX ((size_t) 16 << 20)

static const char *text_of(json_object *json) {
        return json_object_is_type(json, json_type_string) ? json_object_get_string(json) : "";
}

/* Reads "NAME=value", the form of the process. */
static const char *find_in_process(json_object *list, const char *name) {
        size_t size = strlen(name);

        for (size_t i = json_object_array_length(list); i-- > 0;) {
                const char *text = text_of(json_object_array_get_idx(list, i));

                if (strncmp(text, name, size) == 0 && text[size] == '=')
                        return text + size + 1;
        }

        return "";
}

/* Reads {"key": "NAME", "value": "value"}, the form of the kubelet's request. */
static const char *find_in_config(json_object *list, const char *name) {
        for (size_t i = json_object_array_length(list); i-- > 0;) {
                json_object *item = json_object_array_get_idx(list, i);

                if (strcmp(text_of(json_get(item, "key", json_type_string)), name) == 0)
                        return text_of(json_get(item, "value", json_type_string));
        }

        return "";
}

static size_t count(char *const *names) {
        size_t n = 0;

        while (names[n])
                n++;
        return n;
}

static int hash(json_object *list, bool is_process, char *const *names, uint32_t *ret) {
        size_t n = count(names);
        cleanup(free_p) EnvValue *values = calloc(n + 1, sizeof(*values));

        if (!values)
                return -ENOMEM;

        for (size_t i = 0; i < n; i++)
                values[i] = (EnvValue){
                        .name = names[i],
                        .value = is_process ? find_in_process(list, names[i])
                                            : find_in_config(list, names[i]),
                };

        return env_hash(values, n, ret);
}

/* NULL: the text is invalid. */
static json_object *parse(const char *text) {
        const JsonLimits limits = { .size = TEXT_MAX, .depth = DEPTH_MAX };
        json_object *json = NULL;

        (void) json_parse_within(text, strnlen(text, TEXT_MAX + 1), limits, &json, NULL);
        return json;
}

int running_env_hash(const char *info, char *const *names, uint32_t *ret, Error *reterr) {
        cleanup(json_object_wipe_p) json_object *json = parse(info);
        json_object *process = json_get(json_get(json, "runtimeSpec", json_type_object), "process",
                                        json_type_object);
        json_object *list = json_get(process, "env", json_type_array);

        if (list)
                return hash(list, true, names, ret);

        list = json_get(json_get(json, "config", json_type_object), "envs", json_type_array);
        if (list)
                return hash(list, false, names, ret);

        return error_set(reterr, ERROR_INVALID,
                         "the runtime does not report the environment of the container");
}
