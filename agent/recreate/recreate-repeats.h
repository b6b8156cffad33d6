/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What was written last about each request, for those that another writer changes back
 *
 * It outlives what is known of a request, since a label that is taken from it takes it out of sight.
 * Only the newest are kept. Pure.
 */

#include <stddef.h>

#include "agent/base/repeat.h"

#define RECREATE_REPEATS_MAX 256

/* What is changed back by itself. */
typedef enum RecreateField {
        RECREATE_FIELD_STATUS,
        RECREATE_FIELD_DRAIN,  /* that the pod is out of service */
        RECREATE_FIELD_LABELS, /* those of a request that is taken */
        RECREATE_FIELD_ACTIVE, /* the label of one that is over */
        _RECREATE_FIELD_MAX,
} RecreateField;

typedef struct RecreateRepeats {
        struct {
                uint64_t key;
                Repeat repeat;
        } items[RECREATE_REPEATS_MAX];
        size_t n_items;
} RecreateRepeats;

/* When it may be written at the earliest; 0: at any time. digest: see repeat.h. */
uint64_t recreate_repeats_when_usec(const RecreateRepeats *repeats, const char *uid,
                                    RecreateField field, uint64_t digest);

/* It was written. */
void recreate_repeats_note(RecreateRepeats *repeats, const char *uid, RecreateField field,
                           uint64_t digest, uint64_t now_usec);
