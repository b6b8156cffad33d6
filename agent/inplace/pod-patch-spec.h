/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is sent to the API server about a pod: a strategic merge patch of its status
 *
 * Pure. Who sends it adds the pod's uid.
 */

#include <json-c/json_types.h>
#include <stdint.h>

typedef struct PodPatch {
        const char *meta; /* the annotation's text; NULL: it stays as it is */

        const char *status; /* of the condition; NULL: it stays as it is */
        const char *reason;
        const char *message;
        int64_t changed_sec; /* when the status changed, since 1970; -1: it did not */

        const char *gate; /* why the gate is opened, see pod/gate-spec.h; NULL: it stays as it is */
        int64_t opened_sec;
} PodPatch;

/* The caller owns *ret. */
int pod_patch_make(const PodPatch *patch, struct json_object **ret);
