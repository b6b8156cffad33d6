/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/inplace/pod-patch-spec.h"

#include <errno.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/rfc3339.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/pod/gate-spec.h"
#include "agent/pod/pod.h"

#define INPLACE_ANNOTATION "apps.kruise.io/runtime-containers-meta"

static int add_annotation(json_object *json, const char *text) {
        json_object *value = json_object_new_string(text);

        return patch_add(json, "metadata",
                         patch_wrap("annotations", patch_wrap(INPLACE_ANNOTATION, value)));
}

typedef struct ConditionText {
        const char *type, *status, *reason, *message;
        int64_t changed_sec;
} ConditionText;

static json_object *condition_to_json(const ConditionText *text) {
        cleanup(json_object_put_p) json_object *json = json_object_new_object();
        char when[RFC3339_SIZE];

        if (patch_add_text(json, "type", text->type) < 0 ||
            patch_add_text(json, "status", text->status) < 0 ||
            patch_add_text(json, "reason", text->reason) < 0 ||
            patch_add_text(json, "message", text->message) < 0)
                return NULL;
        if (text->changed_sec >= 0 &&
            patch_add_text(json, "lastTransitionTime", rfc3339_format(text->changed_sec, when)) < 0)
                return NULL;

        return take_ptr(json);
}

static int add_conditions(json_object *json, const PodPatch *patch) {
        cleanup(json_object_put_p) json_object *list = json_object_new_array();
        const ConditionText verified = { POD_VERIFIED_CONDITION, patch->status, patch->reason,
                                         patch->message, patch->changed_sec };
        const ConditionText gate = { GATE_CONDITION, "True", patch->gate, "", patch->opened_sec };

        if (!list || (patch->status && patch_append(list, condition_to_json(&verified)) < 0) ||
            (patch->gate && patch_append(list, condition_to_json(&gate)) < 0))
                return -ENOMEM;

        return patch_add(json, "status", patch_wrap("conditions", take_ptr(list)));
}

int pod_patch_make(const PodPatch *patch, json_object **ret) {
        cleanup(json_object_put_p) json_object *json = json_object_new_object();

        if (!json || (patch->meta && add_annotation(json, patch->meta) < 0) ||
            ((patch->status || patch->gate) && add_conditions(json, patch) < 0))
                return -ENOMEM;

        *ret = take_ptr(json);
        return 0;
}
