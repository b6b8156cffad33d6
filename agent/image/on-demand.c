/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/on-demand.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/program.h"
#include "agent/base/text.h"
#include "cri/containerd.h"

#define LAYERS_MAX 512 /* overlayfs takes fewer */
#define FILES_TIMEOUT_USEC ((uint64_t) 5 * 1000000)
#define FILES_SIZE_MAX ((size_t) 4 << 20)

struct OnDemandAsk {
        OnDemandContext *context;
        OnDemandFound on_found;
        void *userdata;
        RpcCall *call;
        Program *files;

        ImageOnDemand found;
        char *snapshotter;
        char *snapshot;            /* snapshot to ask for next */
        char *digests[LAYERS_MAX]; /* digests of the layers that are fetched on demand, if known */
        size_t n_digests;
};

DEFINE_CLEANUP(OnDemandAsk *, on_demand_drop)

OnDemandAsk *on_demand_drop(OnDemandAsk *ask) {
        if (!ask)
                return NULL;

        rpc_call_unref(ask->call);
        program_free(ask->files);
        for (size_t i = 0; i < ask->n_digests; i++)
                free(ask->digests[i]);
        free(ask->snapshotter);
        free(ask->snapshot);
        free(ask);
        return NULL;
}

static unsigned connection_of(const OnDemandContext *context) {
        return runtime_n_connects(runtimes_chosen(context->runtimes));
}

static int ask_end(OnDemandAsk *ask, const Error *error) {
        return ask->on_found(&ask->found, error, ask->userdata);
}

/* Without an answer, the present bytes are unknown. */
static int on_files(const char *output, size_t output_size, const Error *error, void *userdata) {
        OnDemandAsk *ask = userdata;
        int r;

        r = on_demand_count(output, error ? 0 : output_size, ask->digests, ask->n_digests,
                            &ask->found);
        return r < 0 ? r : ask_end(ask, NULL);
}

static int ask_files(OnDemandAsk *ask) {
        static const char *const arguments[] = { "--print-layer-status", NULL };
        const ProgramOptions options = {
                .path = "/proc/self/exe",
                .arguments = arguments,
                .output_max = FILES_SIZE_MAX,
                .timeout_usec = FILES_TIMEOUT_USEC,
        };

        return program_run(ask->context->event, &options, on_files, ask, &ask->files);
}

static int ask_take_layer(OnDemandAsk *ask, const SnapshotInfo *info) {
        const char *digest = NULL;
        bool is_marked = false;

        for (size_t i = 0; i < info->n_labels; i++) {
                is_marked |= on_demand_is_mark(info->labels[i]->key);
                if (on_demand_is_digest(info->labels[i]->key))
                        digest = info->labels[i]->value;
        }

        ask->found.n_layers_all++;
        if (!is_marked)
                return 0;

        ask->found.n_layers++;
        return digest ? text_copy(digest, &ask->digests[ask->n_digests++]) : 0;
}

static int ask_next(OnDemandAsk *ask);

static int on_snapshot(const void *message, const Error *error, void *userdata) {
        const SnapshotReply *reply = message;
        OnDemandAsk *ask = userdata;
        int r;

        ask->call = rpc_call_unref(ask->call);
        if (error && error->kind != ERROR_NOT_FOUND)
                return ask_end(ask, error);
        if (error || !reply->info)
                return ask_end(ask, NULL);

        r = ask_take_layer(ask, reply->info);
        if (r < 0)
                return r;

        r = text_set(&ask->snapshot, reply->info->parent);
        return r < 0 ? r : ask_next(ask);
}

/* Asks for the next layer or, after the lowest one, for the present bytes of all layers. */
static int ask_next(OnDemandAsk *ask) {
        RpcClient *client = runtimes_client(ask->context->runtimes);
        const Error away = { .kind = ERROR_UNAVAILABLE,
                             .message = (char *) "the runtime went away" };

        if (!client)
                return ask_end(ask, &away);
        if (ask->snapshot[0] && ask->found.n_layers_all < LAYERS_MAX)
                return snapshot_stat(client, ask->snapshotter, ask->snapshot, on_snapshot, ask,
                                     &ask->call);

        return ask->found.n_layers > 0 ? ask_files(ask) : ask_end(ask, NULL);
}

/* Takes the first remote snapshotter that the labels name. Layers for another runtime handler than
 * the default are unknown until a pod uses it. */
static int on_info(const void *message, const Error *error, void *userdata) {
        const ContentInfoReply *reply = message;
        OnDemandAsk *ask = userdata;
        const char *snapshotter = NULL;

        ask->call = rpc_call_unref(ask->call);
        if (error && error->kind == ERROR_UNSUPPORTED)
                ask->context->unsupported_by = connection_of(ask->context);
        if (error && error->kind != ERROR_UNSUPPORTED && error->kind != ERROR_NOT_FOUND)
                return ask_end(ask, error);

        for (size_t i = 0; !error && reply->info && !snapshotter && i < reply->info->n_labels;
             i++) {
                snapshotter = on_demand_snapshotter(reply->info->labels[i]->key);
                if (snapshotter && (text_copy(snapshotter, &ask->snapshotter) < 0 ||
                                    text_copy(reply->info->labels[i]->value, &ask->snapshot) < 0))
                        return -ENOMEM;
        }

        return snapshotter ? ask_next(ask) : ask_end(ask, NULL);
}

int on_demand_ask(OnDemandContext *context, const char *image_id, OnDemandFound on_found,
                  void *userdata, OnDemandAsk **ret) {
        cleanup(on_demand_drop_p) OnDemandAsk *ask = NULL;
        RpcClient *client = runtimes_client(context->runtimes);
        int r;

        if (!client || context->unsupported_by == connection_of(context))
                return 0;

        ask = calloc(1, sizeof(*ask));
        if (!ask)
                return -ENOMEM;

        ask->context = context;
        ask->on_found = on_found;
        ask->userdata = userdata;
        r = content_info(client, image_id, on_info, ask, &ask->call);
        if (r < 0)
                return r;

        *ret = take_ptr(ask);
        return 1;
}
