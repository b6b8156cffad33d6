/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/other-pulls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/list.h"
#include "agent/base/loop.h"
#include "agent/base/text.h"
#include "agent/image/fetched.h"
#include "agent/image/lease.h"
#include "cri/containerd.h"
#include "cri/types.h"

#define ASK_USEC ((uint64_t) 200 * 1000)
#define PULLS_MAX 64 /* more than a kubelet pulls at a time */

/* A lease that may be a pull's. */
typedef struct Item {
        LIST_LINKS(struct Item);
        char *lease;
        struct timespec began;
        Progress *progress;
        bool is_reported;
        uint64_t bytes_first; /* bytes of the first report */
        bool has_moved;       /* there were more bytes later */
        bool is_kept;         /* mark of a sweep */
} Item;

struct OtherPulls {
        OtherPullsOptions options;
        ProgressTracker *tracker; /* separate, so that its bytes do not count as the agent's */
        Item *items;
        size_t n_items;
        unsigned connection; /* connection that the items belong to */
        bool is_unsupported; /* the runtime of this connection has no leases */
        bool is_listed;
        RpcCall *call;
        Timer timer;
};

DEFINE_CLEANUP(OtherPulls *, other_pulls_free)

static void other_pulls_drop(OtherPulls *pulls, Item *item) {
        list_remove(&pulls->items, item);
        pulls->n_items--;
        progress_end(item->progress);
        free(item->lease);
        free(item);
}

static void other_pulls_clear(OtherPulls *pulls) {
        pulls->call = rpc_call_unref(pulls->call);
        while (pulls->items)
                other_pulls_drop(pulls, pulls->items);
        pulls->is_unsupported = false;
        pulls->is_listed = false;
}

static int on_progress(const ProgressReport *report, void *userdata) {
        Item *item = userdata;

        if (!report)
                return 0;
        if (!item->is_reported)
                item->bytes_first = report->bytes_done;
        item->is_reported = true;
        item->has_moved |= report->bytes_done > item->bytes_first;
        return 0;
}

static int other_pulls_add(OtherPulls *pulls, const LeaseInfo *lease) {
        Item *item = calloc(1, sizeof(*item));
        int r;

        if (!item)
                return -ENOMEM;

        list_prepend(&pulls->items, item);
        pulls->n_items++;
        item->is_kept = true;
        if (lease->created_at)
                item->began = (struct timespec){ .tv_sec = lease->created_at->seconds,
                                                 .tv_nsec = lease->created_at->nanos };
        r = text_copy(lease->id, &item->lease);
        return r < 0 ? r
                     : progress_follow(pulls->tracker, item->lease, item->began, on_progress, item,
                                       &item->progress);
}

static int other_pulls_take(OtherPulls *pulls, const LeaseInfo *lease) {
        if (lease_id_is_own(lease->id))
                return 0;

        for (Item *item = pulls->items; item; item = item->next)
                if (strcmp(item->lease, lease->id) == 0) {
                        item->is_kept = true;
                        return 0;
                }

        return pulls->n_items < PULLS_MAX ? other_pulls_add(pulls, lease) : 0;
}

static void other_pulls_sweep(OtherPulls *pulls) {
        Item *next;

        for (Item *item = pulls->items; item; item = next) {
                next = item->next;
                if (!item->is_kept)
                        other_pulls_drop(pulls, item);
                else
                        item->is_kept = false;
        }
}

static int on_leases(const void *reply, const Error *error, void *userdata) {
        const LeaseList *list = reply;
        OtherPulls *pulls = userdata;
        int r = 0;

        pulls->call = rpc_call_unref(pulls->call);
        pulls->is_listed |= !error;
        pulls->is_unsupported = error && error->kind == ERROR_UNSUPPORTED;
        if (!error) {
                for (size_t i = 0; r >= 0 && i < list->n_leases; i++)
                        r = other_pulls_take(pulls, list->leases[i]);
                other_pulls_sweep(pulls);
        }

        return r < 0 ? r : pulls->options.on_asked(pulls->options.userdata);
}

static int other_pulls_ask(OtherPulls *pulls) {
        RpcClient *client = runtimes_client(pulls->options.runtimes);
        unsigned connection =
                client ? runtime_n_connects(runtimes_chosen(pulls->options.runtimes)) : 0;

        if (connection != pulls->connection)
                other_pulls_clear(pulls);
        pulls->connection = connection;
        if (client && !pulls->is_unsupported && !pulls->call)
                return leases_list_expiring(client, on_leases, pulls, &pulls->call);

        return pulls->options.on_asked(pulls->options.userdata);
}

static int on_timer(void *userdata) {
        OtherPulls *pulls = userdata;
        int r;

        r = timer_start(&pulls->timer, ASK_USEC);
        return r < 0 ? r : other_pulls_ask(pulls);
}

int other_pulls_new(const OtherPullsOptions *options, OtherPulls **ret) {
        cleanup(other_pulls_free_p) OtherPulls *pulls = calloc(1, sizeof(*pulls));
        int r;

        if (!pulls)
                return -ENOMEM;

        pulls->options = *options;
        timer_init(&pulls->timer, options->event, ASK_USEC / 4, on_timer, pulls);
        r = progress_tracker_new(options->event, options->runtimes, /* stall_usec= */ 0,
                                 &pulls->tracker);
        if (r >= 0)
                r = timer_start(&pulls->timer, 0);
        if (r < 0)
                return r;

        *ret = take_ptr(pulls);
        return 0;
}

OtherPulls *other_pulls_free(OtherPulls *pulls) {
        if (!pulls)
                return NULL;

        other_pulls_clear(pulls);
        timer_done(&pulls->timer);
        progress_tracker_free(pulls->tracker);
        free(pulls);
        return NULL;
}

/* Blobs that an old lease lacks may arrive by another pull, so it counts no longer than they arrive. */
static bool item_is_alive(const OtherPulls *pulls, const Item *item) {
        struct timespec connected = runtime_connected_at(runtimes_chosen(pulls->options.runtimes));

        return !time_is_before(item->began, connected) ||
               (item->has_moved && progress_report(item->progress)->step == IMAGE_STEP_DOWNLOADING);
}

bool other_pulls_are_settled(const OtherPulls *pulls) {
        if (!runtimes_client(pulls->options.runtimes) || pulls->is_unsupported)
                return true;

        for (const Item *item = pulls->items; item; item = item->next)
                if (!progress_is_settled(item->progress) || !item_is_alive(pulls, item))
                        return false;

        return pulls->is_listed;
}

/* Adds the pull, or lets it take the place of an older one of the same manifest. */
static void list_add(OtherPull *list, size_t *n, const OtherPull *pull) {
        for (size_t i = 0; i < *n; i++)
                if (strcmp(list[i].manifest.digest, pull->manifest.digest) == 0) {
                        if (time_is_before(list[i].began, pull->began))
                                list[i] = *pull;
                        return;
                }

        list[(*n)++] = *pull;
}

int other_pulls_list(const OtherPulls *pulls, OtherPull **ret, size_t *ret_n) {
        OtherPull *list = calloc(pulls->n_items + 1, sizeof(list[0]));

        if (!list)
                return -ENOMEM;

        *ret_n = 0;
        for (const Item *item = pulls->items; item; item = item->next) {
                const OtherPull pull = { .began = item->began,
                                         .manifest = progress_manifest(item->progress),
                                         .report = progress_report(item->progress) };

                if (pull.manifest.digest && item_is_alive(pulls, item))
                        list_add(list, ret_n, &pull);
        }
        *ret = list;
        return 0;
}
