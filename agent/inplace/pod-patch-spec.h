/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is sent to the API server about a pod: a strategic merge patch of its status
 *
 * It carries the pod's uid, so that the server refuses it if another pod has that name now. Pure.
 */

#include <stdbool.h>
#include <stdint.h>

typedef struct PodPatch {
        const char *uid;
        const char *meta; /* the annotation's text; NULL: it stays as it is */

        const char *status; /* of the condition; NULL: it stays as it is */
        const char *reason;
        const char *message;
        int64_t changed_sec; /* when the status changed, since 1970; -1: it did not */
} PodPatch;

/* The caller owns *ret. */
int pod_patch_write(const PodPatch *patch, char **ret);

/* The metadata.resourceVersion of the answer. *ret is NULL if it has none; the caller owns it. */
int pod_patch_read_version(const char *body, char **ret);

/* Versions are numbers in all API servers there are; where they are not, none is older. */
bool pod_version_is_older(const char *version, const char *than);
