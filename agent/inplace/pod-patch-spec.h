/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The strategic merge patch of a pod's status
 *
 * Pure. The sender adds the pod's UID.
 */

#include <json-c/json_types.h>
#include <stdint.h>

typedef struct PodPatch {
        const char *meta; /* the annotation's text; NULL: it stays as it is */

        const char *status; /* status of the condition; NULL: it stays as it is */
        const char *reason;
        const char *message;
        int64_t changed_sec; /* time of the status' change, since 1970; -1: unchanged */

        const char *gate; /* reason to open the gate, see gate-spec.h; NULL: it stays as it is */
        int64_t opened_sec;
} PodPatch;

/* The caller owns *ret. */
int pod_patch_make(const PodPatch *patch, struct json_object **ret);
