/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/node/api-internal.h"
#include "agent/node/owner.h"
#include "agent/node/request-plan.h"

/* So many images of all requests are never more than 3 KB each in the answer to GetStatus and in
 * nodeimage.json, and fit into both beside what a cluster asks for. */
#define REQUESTED_MAX 4096
#define REQUESTED_OF_ROOT_MAX 5120 /* some are kept for it */

typedef struct RequestList {
        RequestEntry *items;
        size_t n_items;
} RequestList;

static void request_list_done(RequestList *list) {
        free(list->items);
}

/* Of all calls, that of the new request is among them. */
static size_t count_open(const Api *api) {
        size_t n = 0;

        for (const Preload *preload = api->preloads; preload; preload = preload_next(preload))
                n += preload_n_images(preload);
        return n;
}

static size_t count_wants(const Api *api) {
        size_t n = 0;

        for (size_t i = 0; i < images_count(api->images); i++)
                for (const Want *want = image_wants(images_get(api->images, i)); want;
                     want = want->next)
                        n += owner_is_request(want->owner);
        return n;
}

static void list_wants(const Image *image, RequestList *list) {
        for (const Want *want = image_wants(image); want; want = want->next)
                if (owner_is_request(want->owner))
                        list->items[list->n_items++] = (RequestEntry){
                                .owner = want->owner,
                                .n_images = 1,
                                .is_finished = want->is_served,
                                .ended_at = image_status(image)->completed_at,
                        };
}

static int by_owner(const void *a, const void *b) {
        return strcmp(((const RequestEntry *) a)->owner, ((const RequestEntry *) b)->owner);
}

/* Makes one entry of those of each request. */
static void merge_entries(RequestList *list) {
        size_t n = 0;

        qsort(list->items, list->n_items, sizeof(list->items[0]), by_owner);
        for (size_t i = 0; i < list->n_items; i++) {
                RequestEntry *last = n > 0 ? &list->items[n - 1] : NULL;
                const RequestEntry *item = &list->items[i];

                if (!last || strcmp(last->owner, item->owner) != 0) {
                        list->items[n++] = *item;
                        continue;
                }

                last->n_images++;
                last->is_finished = last->is_finished && item->is_finished;
                last->ended_at = last->ended_at > item->ended_at ? last->ended_at : item->ended_at;
        }

        list->n_items = n;
}

/* An open call has an entry for each image that it names, also for one that it names twice. */
static void mark_open(const Api *api, RequestList *list) {
        for (const Preload *preload = api->preloads; preload; preload = preload_next(preload)) {
                const RequestEntry key = { .owner = preload_owner(preload) };
                RequestEntry *entry =
                        bsearch(&key, list->items, list->n_items, sizeof(list->items[0]), by_owner);

                if (!entry)
                        continue;

                entry->n_images = preload_n_images(preload);
                entry->is_finished = false;
        }
}

static int drop_requests(const Api *api, const RequestList *list) {
        const WishList nothing = WISH_LIST_INIT;

        for (size_t i = 0; i < list->n_items; i++) {
                cleanup(free_p) char *owner = NULL;
                int r;

                if (!list->items[i].must_go)
                        continue;

                owner = strdup(list->items[i].owner); /* its last want is gone during the call */
                r = owner ? images_set_wishes(api->images, owner, &nothing, true) : -ENOMEM;
                if (r < 0)
                        return r;
        }

        return 0;
}

int api_make_room(Api *api, const Peer *peer, size_t n_more, Error *reterr) {
        cleanup(request_list_done) RequestList list = { .items = NULL };
        size_t limit = peer_is_root(peer) ? REQUESTED_OF_ROOT_MAX : REQUESTED_MAX;
        size_t n_wants = count_wants(api);

        if (n_wants + count_open(api) <= limit)
                return 0;

        list.items = calloc(n_wants + 1, sizeof(list.items[0]));
        if (!list.items)
                return -ENOMEM;

        for (size_t i = 0; i < images_count(api->images); i++)
                list_wants(images_get(api->images, i), &list);
        merge_entries(&list);
        mark_open(api, &list);
        if (!request_plan(list.items, list.n_items, n_more, limit))
                return error_set(reterr, ERROR_UNAVAILABLE,
                                 "too many images are asked for through the socket: with %zu more "
                                 "they would be more than %zu; wait until some are there",
                                 n_more, limit);

        return drop_requests(api, &list);
}
