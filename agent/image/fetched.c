/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/fetched.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"

typedef struct FetchedItem {
        char *digest;
        uint64_t bytes;        /* bytes that were counted, from the first one on */
        struct timespec began; /* see FetchedBlob */
        uint64_t added_usec;   /* time of the last addition; 0: none */
} FetchedItem;

bool time_is_before(struct timespec a, struct timespec b) {
        return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

static void item_free(FetchedItem *item) {
        free(item->digest);
        free(item);
}

static int compare_digest(const void *item, const void *key) {
        return strcmp(((const FetchedItem *) item)->digest, key);
}

/* Returns the item of this blob, which may be a new one. */
static int fetched_item(Fetched *fetched, const char *digest, FetchedItem **ret) {
        FetchedItem *item;
        size_t at;

        if (sorted_find(fetched->items, fetched->n_items, compare_digest, digest, &at)) {
                *ret = fetched->items[at];
                return 0;
        }

        item = calloc(1, sizeof(*item));
        if (!item)
                return -ENOMEM;

        item->digest = strdup(digest);
        if (!item->digest || sorted_insert(&fetched->items, &fetched->n_items, at, item) < 0) {
                item_free(item);
                return -ENOMEM;
        }

        *ret = item;
        return 0;
}

int fetched_add(Fetched *fetched, const FetchedBlob *blob, struct timespec since, uint64_t now_usec,
                uint64_t *ret_added) {
        FetchedItem *item;
        int r;

        r = fetched_item(fetched, blob->digest, &item);
        if (r < 0)
                return r;

        if (item->added_usec == 0 && time_is_before(blob->began, since))
                item->bytes = blob->bytes; /* an earlier pull has left them */
        else if (blob->is_arriving && time_is_before(item->began, blob->began))
                item->bytes = 0; /* the runtime has started the blob again */

        *ret_added = blob->bytes > item->bytes ? blob->bytes - item->bytes : 0;
        item->bytes += *ret_added;
        if (time_is_before(item->began, blob->began))
                item->began = blob->began;
        item->added_usec = now_usec;
        return 0;
}

void fetched_forget(Fetched *fetched, uint64_t since_usec) {
        for (size_t i = fetched->n_items; i-- > 0;)
                if (fetched->items[i]->added_usec < since_usec) {
                        item_free(fetched->items[i]);
                        sorted_remove(fetched->items, &fetched->n_items, i);
                }
}

void fetched_done(Fetched *fetched) {
        fetched_forget(fetched, UINT64_MAX);
        free(fetched->items);
}
