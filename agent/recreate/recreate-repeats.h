/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The last writes about each request, to slow down when another writer reverts them
 *
 * They outlive the request in memory, since the watch drops a request whose label was removed.
 * Only the newest are kept. Pure.
 */

#include <stddef.h>

#include "agent/base/repeat.h"

#define RECREATE_REPEATS_MAX 256

/* Fields that another writer may revert separately. */
typedef enum RecreateField {
        RECREATE_FIELD_STATUS,
        RECREATE_FIELD_DRAIN,  /* the record that the pod is unready */
        RECREATE_FIELD_LABELS, /* labels of an adopted request */
        RECREATE_FIELD_ACTIVE, /* label "active" of a completed request */
        _RECREATE_FIELD_MAX,
} RecreateField;

typedef struct RecreateRepeats {
        struct {
                uint64_t key;
                Repeat repeat;
        } items[RECREATE_REPEATS_MAX];
        size_t n_items;
} RecreateRepeats;

/* Returns the earliest time of the next write; 0: any time. digest: see repeat.h. */
uint64_t recreate_repeats_when_usec(const RecreateRepeats *repeats, const char *uid,
                                    RecreateField field, uint64_t digest);

/* Notes a write. */
void recreate_repeats_note(RecreateRepeats *repeats, const char *uid, RecreateField field,
                           uint64_t digest, uint64_t now_usec);
