/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/auth/strict-spec.h"

#include <errno.h>
#include <json-c/json_object.h>
#include <json-c/linkhash.h>
#include <stdlib.h>
#include <string.h>

bool strict_is_known_version(const char *api_version, const char *group) {
        static const char *const versions[] = { "v1", "v1beta1", "v1alpha1" };

        if (strncmp(api_version, group, strlen(group)) != 0)
                return false;

        for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++)
                if (strcmp(api_version + strlen(group), versions[i]) == 0)
                        return true;

        return false;
}

int strict_check_fields(struct json_object *object, const JsonPath *path, const char *const *names,
                        Error *reterr) {
        json_object_object_foreach(object, key, value) {
                size_t i = 0;

                (void) value;
                while (names[i] && strcmp(names[i], key) != 0)
                        i++;
                if (!names[i])
                        return json_refuse(&(JsonPath){ .parent = path, .key = key }, reterr,
                                           "there is no such field");
        }

        return 0;
}

int strict_read_texts(struct json_object *object, const JsonPath *parent, const char *key,
                      char ***ret, size_t *ret_n, Error *reterr) {
        const JsonPath path = { .parent = parent, .key = key };
        struct json_object *list;
        size_t n;
        int r;

        r = json_read_list(object, parent, key, &list, reterr);
        if (r < 0)
                return r;

        n = list ? json_object_array_length(list) : 0;
        *ret = calloc(n + 1, sizeof(**ret));
        if (!*ret)
                return -ENOMEM;

        for (size_t i = 0; i < n; i++) {
                struct json_object *item = json_object_array_get_idx(list, i);

                if (!json_object_is_type(item, json_type_string))
                        return json_refuse(&(JsonPath){ .parent = &path, .index = i }, reterr,
                                           "expected a string (in quotes)");
                (*ret)[i] = strdup(json_object_get_string(item));
                if (!(*ret)[i])
                        return -ENOMEM;
        }

        *ret_n = n;
        return 0;
}
