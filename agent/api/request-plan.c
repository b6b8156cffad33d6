/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/api/request-plan.h"

#include <stdlib.h>
#include <string.h>

#define SPARE_PART 8 /* this fraction of the limit is free afterwards, if possible */

int request_by_owner(const void *a, const void *b) {
        return strcmp(((const RequestEntry *) a)->owner, ((const RequestEntry *) b)->owner);
}

size_t request_merge(RequestEntry *entries, size_t n_entries) {
        size_t n = 0;

        qsort(entries, n_entries, sizeof(entries[0]), request_by_owner);
        for (size_t i = 0; i < n_entries; i++) {
                RequestEntry *last = n > 0 ? &entries[n - 1] : NULL;
                const RequestEntry *entry = &entries[i];

                if (!last || strcmp(last->owner, entry->owner) != 0) {
                        entries[n++] = *entry;
                        continue;
                }

                last->n_images += entry->n_images;
                last->is_finished = last->is_finished && entry->is_finished;
                last->ended_at =
                        last->ended_at > entry->ended_at ? last->ended_at : entry->ended_at;
        }

        return n;
}

static int by_end(const void *a, const void *b) {
        const RequestEntry *x = a, *y = b;

        if (x->is_finished != y->is_finished)
                return x->is_finished ? -1 : 1;

        return (x->ended_at > y->ended_at) - (x->ended_at < y->ended_at);
}

bool request_plan(RequestEntry *entries, size_t n_entries, size_t n_more, size_t limit) {
        size_t n = n_more;

        for (size_t i = 0; i < n_entries; i++) {
                entries[i].must_go = false;
                n += entries[i].n_images;
        }
        if (n <= limit)
                return true;

        qsort(entries, n_entries, sizeof(entries[0]), by_end);
        for (size_t i = 0; i < n_entries && n > limit - limit / SPARE_PART; i++) {
                if (!entries[i].is_finished)
                        break;

                entries[i].must_go = true;
                n -= entries[i].n_images;
        }

        return n <= limit;
}
