/* SPDX-License-Identifier: Apache-2.0 */

#include "cri/runtimes.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/base/cleanup.h"

/* While a runtime is needed it is back within this time; the others are only looked for. */
#define RETRY_NEEDED_USEC ((uint64_t) 250 * 1000)
#define RETRY_OTHERS_USEC ((uint64_t) 30 * 1000000)

struct Runtimes {
        Runtime **items;
        size_t n_items;
        Runtime *chosen;
        RuntimeChanged on_changed;
        RpcObserver on_call;
        void *userdata;
};

DEFINE_CLEANUP(Runtimes *, runtimes_free)

/* One that is still being asked may turn out to be the better choice. */
static Runtime *first_ready(const Runtimes *runtimes) {
        for (size_t i = 0; i < runtimes->n_items; i++)
                switch (runtime_state(runtimes->items[i])) {
                case RUNTIME_READY: return runtimes->items[i];
                case RUNTIME_CONNECTING: return NULL;
                case RUNTIME_ABSENT:
                case RUNTIME_REFUSED:
                case _RUNTIME_STATE_MAX: break;
                }

        return NULL;
}

static void runtimes_choose(Runtimes *runtimes) {
        if (runtimes->chosen)
                return;

        runtimes->chosen = first_ready(runtimes);
        for (size_t i = 0; runtimes->chosen && i < runtimes->n_items; i++)
                if (runtimes->items[i] != runtimes->chosen)
                        runtime_set_retry(runtimes->items[i], RETRY_OTHERS_USEC);
}

static int on_runtime_changed(Runtime *runtime, void *userdata) {
        Runtimes *runtimes = userdata;

        runtimes_choose(runtimes);
        return runtimes->on_changed(runtime, runtimes->userdata);
}

static void on_runtime_call(const RpcMethod *method, uint64_t duration_usec, ErrorKind result,
                            void *userdata) {
        Runtimes *runtimes = userdata;

        if (runtimes->on_call)
                runtimes->on_call(method, duration_usec, result, runtimes->userdata);
}

static int runtimes_add(Runtimes *runtimes, CompletionQueue *queue, const char *path) {
        const RuntimeOptions options = {
                .path = path,
                .retry_usec = RETRY_NEEDED_USEC,
                .on_changed = on_runtime_changed,
                .on_call = on_runtime_call,
                .userdata = runtimes,
        };
        int r;

        r = runtime_new(queue, &options, &runtimes->items[runtimes->n_items]);
        if (r < 0)
                return r;

        runtimes->n_items++;
        return 0;
}

int runtimes_new(CompletionQueue *queue, const RuntimesOptions *options, Runtimes **ret) {
        cleanup(runtimes_free_p) Runtimes *runtimes = NULL;
        int r;

        runtimes = malloc(sizeof(*runtimes));
        if (!runtimes)
                return -ENOMEM;

        *runtimes = (Runtimes){
                .items = calloc(options->n_paths + 1, sizeof(runtimes->items[0])),
                .on_changed = options->on_changed,
                .on_call = options->on_call,
                .userdata = options->userdata,
        };
        if (!runtimes->items)
                return -ENOMEM;

        for (size_t i = 0; i < options->n_paths; i++) {
                r = runtimes_add(runtimes, queue, options->paths[i]);
                if (r < 0)
                        return r;
        }

        *ret = take_ptr(runtimes);
        return 0;
}

Runtimes *runtimes_free(Runtimes *runtimes) {
        if (!runtimes)
                return NULL;

        for (size_t i = 0; i < runtimes->n_items; i++)
                runtime_free(runtimes->items[i]);
        free(runtimes->items);
        free(runtimes);
        return NULL;
}

Runtime *runtimes_chosen(const Runtimes *runtimes) {
        return runtimes->chosen;
}

RpcClient *runtimes_client(const Runtimes *runtimes) {
        return runtimes->chosen ? runtime_client(runtimes->chosen) : NULL;
}

bool runtimes_are_alive(const Runtimes *runtimes) {
        return runtimes->chosen && runtime_is_alive(runtimes->chosen);
}

bool runtimes_are_settled(const Runtimes *runtimes) {
        for (size_t i = 0; i < runtimes->n_items; i++)
                if (runtime_state(runtimes->items[i]) == RUNTIME_CONNECTING)
                        return false;

        return true;
}

size_t runtimes_count(const Runtimes *runtimes) {
        return runtimes->n_items;
}

Runtime *runtimes_get(const Runtimes *runtimes, size_t i) {
        return runtimes->items[i];
}

int runtimes_try(Runtimes *runtimes) {
        int r;

        for (size_t i = 0; i < runtimes->n_items; i++) {
                r = runtime_try(runtimes->items[i]);
                if (r < 0)
                        return r;
        }

        return 0;
}
