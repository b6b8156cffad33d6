/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/recreate/recreate-repeats.h"

static uint64_t make_key(const char *uid, RecreateField field) {
        return repeat_digest((uint64_t) field + 1, uid);
}

static size_t find(const RecreateRepeats *repeats, uint64_t key) {
        size_t i = 0;

        while (i < repeats->n_items && repeats->items[i].key != key)
                i++;

        return i;
}

static size_t find_oldest(const RecreateRepeats *repeats) {
        size_t oldest = 0;

        for (size_t i = 1; i < repeats->n_items; i++)
                if (repeats->items[i].repeat.sent_usec < repeats->items[oldest].repeat.sent_usec)
                        oldest = i;

        return oldest;
}

uint64_t recreate_repeats_when_usec(const RecreateRepeats *repeats, const char *uid,
                                    RecreateField field, uint64_t digest) {
        size_t i = find(repeats, make_key(uid, field));

        return i < repeats->n_items ? repeat_when_usec(&repeats->items[i].repeat, digest) : 0;
}

void recreate_repeats_note(RecreateRepeats *repeats, const char *uid, RecreateField field,
                           uint64_t digest, uint64_t now_usec) {
        uint64_t key = make_key(uid, field);
        size_t i = find(repeats, key);

        if (i == repeats->n_items) {
                if (repeats->n_items < RECREATE_REPEATS_MAX)
                        repeats->n_items++;
                else
                        i = find_oldest(repeats);
                repeats->items[i].key = key;
                repeats->items[i].repeat = (Repeat){ .n_times = 0 };
        }
        repeat_note(&repeats->items[i].repeat, digest, now_usec);
}
