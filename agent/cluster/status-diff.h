/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The patch of a NodeImage's status
 *
 * Compares the object's status with the images and makes a merge patch (RFC 7386) of the differences: it
 * keeps fields of other writers, and its size depends on the number of changes, not of images. An entry
 * that is finished for the version of the spec stays as it is, also another writer's; but that of a set, which has no
 * versions, gives way to the agent's own end. Pure.
 */

#include <json-c/json_types.h>

#include "agent/image/image-status.h"

/* A tag of the spec and its status. Names as the spec spells them. Borrowed. */
typedef struct StatusEntry {
        const char *name;
        const char *tag;
        int64_t version;           /* version of the spec, used instead of the status' */
        const ImageStatus *status; /* NULL: Waiting */
        bool is_of_set;            /* not of the spec */
} StatusEntry;

typedef enum StatusDifference {
        STATUS_SAME,
        STATUS_PROGRESS, /* only progress of pulls differs: not urgent */
        STATUS_DIFFERENT,
} StatusDifference;

/* observed: the object's status, or NULL. The entries are in the order of the spec; of several for one tag, the first counts. *ret_patch is a
 * patch such as {"status":{"succeeded":2,"imageStatuses":{"nginx":{"tags":[...]}}}}, owned by the
 * caller; NULL if nothing differs. Returns a StatusDifference or -ENOMEM. */
int status_diff(struct json_object *observed, const StatusEntry *entries, size_t n_entries,
                struct json_object **ret_patch);

/* Finds the entry of a tag in the object's status that is finished for this version, or NULL.
 * Borrowed. */
struct json_object *status_find_finished(struct json_object *observed, const char *name,
                                         const char *tag, int64_t version);

/* Returns when an entry ended, in seconds since the epoch; 0: it did not. */
int64_t observed_completed_at(struct json_object *entry);
