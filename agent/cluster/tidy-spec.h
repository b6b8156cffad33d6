/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which tags may leave the spec of a NodeImage
 *
 * Those that are finished, in the version that is asked for, since longer than their
 * ttlSecondsAfterFinished. Where there is a controller it does that. Pure.
 */

#include <json-c/json_types.h>
#include <stddef.h>
#include <stdint.h>

typedef struct TidyPlan {
        struct json_object *patch; /* owned by the caller; NULL: there is nothing to remove */
        size_t n_tags;             /* that the patch removes */
        uint64_t digest;           /* of these, see repeat.h: another end is another one */
        int64_t next_at;           /* when the next one of the others is due; INT64_MAX: none is */
} TidyPlan;

/* The patch is a merge patch of the object, which the server refuses if the object has changed. An
 * image that has no tags left leaves too. Times are seconds since the epoch. */
int tidy_spec_plan(struct json_object *object, int64_t now, TidyPlan *ret);
