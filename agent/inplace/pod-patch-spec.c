/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/inplace/pod-patch-spec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/rfc3339.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"

#define INPLACE_ANNOTATION "apps.kruise.io/runtime-containers-meta"
#define CONDITION_TYPE "inplaced.io/InPlaceVerified"

static int add_annotation(json_object *json, const char *text) {
        json_object *value = json_object_new_string(text);

        return patch_add(json, "metadata",
                         patch_wrap("annotations", patch_wrap(INPLACE_ANNOTATION, value)));
}

static json_object *condition_to_json(const PodPatch *patch) {
        cleanup(json_object_put_p) json_object *json =
                patch_wrap("type", json_object_new_string(CONDITION_TYPE));
        char when[RFC3339_SIZE];

        if (!json || patch_add(json, "status", json_object_new_string(patch->status)) < 0 ||
            patch_add(json, "reason", json_object_new_string(patch->reason)) < 0 ||
            patch_add(json, "message", json_object_new_string(patch->message)) < 0)
                return NULL;
        if (patch->changed_sec >= 0 &&
            patch_add(json, "lastTransitionTime",
                      json_object_new_string(rfc3339_format(patch->changed_sec, when))) < 0)
                return NULL;

        return take_ptr(json);
}

static int add_condition(json_object *json, const PodPatch *patch) {
        cleanup(json_object_put_p) json_object *list = json_object_new_array();

        if (!list || patch_append(list, condition_to_json(patch)) < 0)
                return -ENOMEM;

        return patch_add(json, "status", patch_wrap("conditions", take_ptr(list)));
}

int pod_patch_make(const PodPatch *patch, json_object **ret) {
        cleanup(json_object_put_p) json_object *json = json_object_new_object();

        if (!json || (patch->meta && add_annotation(json, patch->meta) < 0) ||
            (patch->status && add_condition(json, patch) < 0))
                return -ENOMEM;

        *ret = take_ptr(json);
        return 0;
}
