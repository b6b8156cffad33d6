/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What has to be written into the status of a NodeImage
 *
 * Compares what the object says with what is true now, and answers a merge patch (RFC 7386) of the
 * difference: so what others write there is kept, and its size depends on how much has changed, not
 * on how much there is. An entry that is finished for the version of the spec is left as it is,
 * also that of another writer. Pure.
 */

#include <json-c/json_types.h>

#include "agent/image/image-status.h"

/* One tag of the spec and what became of it. Names as the spec spells them. Borrowed. */
typedef struct StatusEntry {
        const char *name;
        const char *tag;
        int64_t version;           /* of the spec; stands instead of that of the status */
        const ImageStatus *status; /* NULL: Waiting */
} StatusEntry;

typedef enum StatusDifference {
        STATUS_SAME,
        STATUS_PROGRESS, /* of what is being pulled, and nothing else: not urgent */
        STATUS_DIFFERENT,
} StatusDifference;

/* observed: the object's status, or NULL. The entries are in the order of the spec. *ret_patch is a
 * patch of the object such as {"status":{"succeeded":2,"imageStatuses":{"nginx":{"tags":[...]}}}},
 * owned by the caller; NULL if nothing differs. Returns a StatusDifference or -ENOMEM. */
int status_diff(struct json_object *observed, const StatusEntry *entries, size_t n_entries,
                struct json_object **ret_patch);

/* The entry of a tag in the object's status that finishes this version, or NULL. Borrowed. */
struct json_object *status_find_finished(struct json_object *observed, const char *name,
                                         const char *tag, int64_t version);

/* When an entry ended, in seconds since the epoch; 0: it did not. */
int64_t observed_completed_at(struct json_object *entry);
