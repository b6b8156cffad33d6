/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/discovery-spec.h"

#include <json-c/json_object.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/slice.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"
#include "agent/kube/reply-spec.h"

/* Reads the text, and in it the list, which is NULL if it is not there. */
static int read_list(const char *text, size_t size, const char *key, json_object **ret_root,
                     json_object **ret_list, Error *reterr) {
        cleanup(json_object_put_p) json_object *root = NULL;
        int r;

        r = reply_spec_parse(text, size, &root, reterr);
        if (r < 0)
                return r;
        if (!json_object_is_type(root, json_type_object))
                return json_refuse_type(NULL, root, "an object", reterr);

        r = json_read_list(root, NULL, key, ret_list, reterr);
        if (r < 0)
                return r;

        *ret_root = take_ptr(root);
        return 0;
}

/* The text of one member of one item. */
static int read_item(json_object *list, const char *list_key, size_t i, const char *key,
                     const char **ret, Error *reterr) {
        const JsonPath list_path = { .key = list_key };
        const JsonPath path = { .parent = &list_path, .index = i };
        json_object *item = json_object_array_get_idx(list, i);

        if (!json_object_is_type(item, json_type_object))
                return json_refuse_type(&path, item, "an object", reterr);

        return json_read_string(item, &path, key, ret, reterr);
}

static uint32_t find_version(const char *const *versions, const char *version) {
        for (size_t i = 0; version && versions[i] && i < DISCOVERY_VERSIONS_MAX; i++)
                if (strcmp(versions[i], version) == 0)
                        return (uint32_t) 1 << i;

        return 0;
}

int discovery_spec_read_group(const char *text, size_t size, const char *const *versions,
                              uint32_t *ret_served, Error *reterr) {
        cleanup(json_object_put_p) json_object *root = NULL;
        json_object *list = NULL;
        uint32_t served = 0;
        int r;

        r = read_list(text, size, "versions", &root, &list, reterr);
        if (r < 0)
                return r;

        for (size_t i = 0; list && i < json_object_array_length(list); i++) {
                const char *version;

                r = read_item(list, "versions", i, "version", &version, reterr);
                if (r < 0)
                        return r;

                served |= find_version(versions, version);
        }

        *ret_served = served;
        return 0;
}

int discovery_spec_read_resources(const char *text, size_t size, const char *resource,
                                  bool *ret_is_served, Error *reterr) {
        cleanup(json_object_put_p) json_object *root = NULL;
        bool has_resource = false, has_status = false;
        json_object *list = NULL;
        int r;

        r = read_list(text, size, "resources", &root, &list, reterr);
        if (r < 0)
                return r;

        for (size_t i = 0; list && i < json_object_array_length(list); i++) {
                const char *name;

                r = read_item(list, "resources", i, "name", &name, reterr);
                if (r < 0)
                        return r;
                if (!name || !slice_starts_with(slice(name), resource))
                        continue;

                has_resource = has_resource || strcmp(name, resource) == 0;
                has_status = has_status || strcmp(name + strlen(resource), "/status") == 0;
        }

        *ret_is_served = has_resource && has_status;
        return 0;
}
