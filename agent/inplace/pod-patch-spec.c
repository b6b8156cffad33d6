/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/inplace/pod-patch-spec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/rfc3339.h"
#include "agent/document/json-cleanup.h"

#define INPLACE_ANNOTATION "apps.kruise.io/runtime-containers-meta"
#define CONDITION_TYPE "inplaced.io/InPlaceVerified"

/* Takes the value over. */
static int add(json_object *object, const char *key, json_object *value) {
        if (object && value && json_object_object_add(object, key, value) == 0)
                return 0;

        json_object_put(value);
        return -ENOMEM;
}

/* {"key": value}; NULL: no memory. */
static json_object *wrap(const char *key, json_object *value) {
        cleanup(json_object_put_p) json_object *object = json_object_new_object();

        return add(object, key, value) < 0 ? NULL : take_ptr(object);
}

static int add_metadata(json_object *json, const PodPatch *patch) {
        cleanup(json_object_put_p) json_object *metadata =
                wrap("uid", json_object_new_string(patch->uid));

        if (!metadata)
                return -ENOMEM;
        if (patch->meta && add(metadata, "annotations",
                               wrap(INPLACE_ANNOTATION, json_object_new_string(patch->meta))) < 0)
                return -ENOMEM;

        return add(json, "metadata", take_ptr(metadata));
}

static json_object *condition_to_json(const PodPatch *patch) {
        cleanup(json_object_put_p) json_object *json =
                wrap("type", json_object_new_string(CONDITION_TYPE));
        char when[RFC3339_SIZE];

        if (add(json, "status", json_object_new_string(patch->status)) < 0 ||
            add(json, "reason", json_object_new_string(patch->reason)) < 0 ||
            add(json, "message", json_object_new_string(patch->message)) < 0)
                return NULL;
        if (patch->changed_sec >= 0 &&
            add(json, "lastTransitionTime",
                json_object_new_string(rfc3339_format(patch->changed_sec, when))) < 0)
                return NULL;

        return take_ptr(json);
}

static int add_condition(json_object *json, const PodPatch *patch) {
        json_object *condition = condition_to_json(patch);
        json_object *list = json_object_new_array();

        if (condition && list && json_object_array_add(list, condition) == 0)
                return add(json, "status", wrap("conditions", list));

        json_object_put(condition);
        json_object_put(list);
        return -ENOMEM;
}

int pod_patch_write(const PodPatch *patch, char **ret) {
        cleanup(json_object_put_p) json_object *json = json_object_new_object();
        const char *text;
        char *copy;

        if (!json || add_metadata(json, patch) < 0 ||
            (patch->status && add_condition(json, patch) < 0))
                return -ENOMEM;

        text = json_object_to_json_string_ext(json, JSON_C_TO_STRING_PLAIN |
                                                            JSON_C_TO_STRING_NOSLASHESCAPE);
        copy = text ? strdup(text) : NULL;
        if (!copy)
                return -ENOMEM;

        *ret = copy;
        return 0;
}

int pod_patch_read_version(const char *body, char **ret) {
        cleanup(json_object_put_p) json_object *json = json_tokener_parse(body);
        json_object *metadata, *version;
        char *copy;

        *ret = NULL;
        if (!json_object_is_type(json, json_type_object) ||
            !json_object_object_get_ex(json, "metadata", &metadata) ||
            !json_object_is_type(metadata, json_type_object) ||
            !json_object_object_get_ex(metadata, "resourceVersion", &version) ||
            !json_object_is_type(version, json_type_string))
                return 0;

        copy = strdup(json_object_get_string(version));
        if (!copy)
                return -ENOMEM;

        *ret = copy;
        return 0;
}

bool pod_version_is_older(const char *version, const char *than) {
        size_t a = strlen(version), b = strlen(than);

        if (strspn(version, "0123456789") != a || strspn(than, "0123456789") != b)
                return false;

        return a != b ? a < b : strcmp(version, than) < 0;
}
