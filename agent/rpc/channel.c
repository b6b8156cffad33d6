/* SPDX-License-Identifier: Apache-2.0 */

#include <assert.h>
#include <errno.h>
#include <grpc/grpc.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "agent/rpc/client.h"
#include "agent/rpc/server-internal.h"

#define REQUEST_SIZE_MAX (2 * 1024 * 1024)
#define STREAMS_MAX 64
#define IDLE_MSEC (5 * 60 * 1000)
#define REFUSED_IDLE_MSEC 5000 /* one whose calls are all refused */

static const RoomLimits call_limits = {
        .what = "calls",
        .for_user = 64,
        .for_others = 128,
        .for_all = SIZE_MAX, /* so many as root's connections can have */
};

/* One reply may be as large as a client takes. */
static const RoomLimits reply_limits = {
        .what = "bytes of answers that nobody reads",
        .for_user = RPC_REPLY_SIZE_MAX,
        .for_others = (size_t) 64 << 20,
        .for_all = (size_t) 128 << 20,
};

static RoomUse rpc_channel_count(const RpcChannel *channel, bool is_about_replies) {
        RoomUse use = { 0 };

        for (const RpcChannel *c = channel->server->channels; c; c = c->next)
                room_count(&use, peer_is_root(&c->peer), c->peer.uid == channel->peer.uid,
                           is_about_replies ? c->n_bytes : c->n_calls);
        return use;
}

int rpc_channel_check_call(const RpcChannel *channel, Error *reterr) {
        const RoomUse use = rpc_channel_count(channel, false);

        if (channel->refusal.kind != ERROR_NONE)
                return error_copy(reterr, &channel->refusal);

        return room_check(&call_limits, &use, peer_is_root(&channel->peer), channel->peer.uid, 1,
                          reterr);
}

int rpc_channel_check_reply(const RpcChannel *channel, size_t size, Error *reterr) {
        const RoomUse use = rpc_channel_count(channel, true);

        if (size > RPC_REPLY_SIZE_MAX)
                return error_set(reterr, ERROR_INTERNAL,
                                 "the answer has %zu bytes, more than the %d that a caller takes",
                                 size, RPC_REPLY_SIZE_MAX);

        return room_check(&reply_limits, &use, peer_is_root(&channel->peer), channel->peer.uid,
                          size, reterr);
}

RpcChannel *rpc_channel_unref(RpcChannel *channel) {
        if (--channel->n_refs > 0)
                return NULL;

        if (channel->server->on_freed && !channel->server->is_stopping)
                channel->server->on_freed(channel->server->userdata);
        list_remove(&channel->server->channels, channel);
        rpc_server_unref(channel->server);
        peer_done(&channel->peer);
        error_done(&channel->refusal);
        free(channel);
        return NULL;
}

static void rpc_channel_wait(RpcChannel *channel) {
        CompletionQueue *completions = channel->server->completions;
        grpc_completion_queue *queue = completion_queue_get_grpc(completions);
        grpc_call_error e;

        grpc_call_details_init(&channel->details);
        grpc_metadata_array_init(&channel->metadata);
        channel->is_waiting = true;
        e = grpc_server_request_call(channel->grpc, &channel->call, &channel->details,
                                     &channel->metadata, queue, queue,
                                     completion_begin(completions, &channel->arrival));
        assert(e == GRPC_CALL_OK);
        (void) e;
}

static void rpc_channel_unref_if_done(RpcChannel *channel) {
        if (!channel->is_waiting && !channel->grpc)
                rpc_channel_unref(channel);
}

static int on_arrival(bool is_ok, void *userdata) {
        RpcChannel *channel = userdata;
        int r = 0;

        channel->is_waiting = false;
        if (is_ok && !channel->has_ended)
                r = rpc_request_receive(channel, channel->call,
                                        rpc_server_find(channel->server, channel->details.method));
        else if (is_ok)
                grpc_call_unref(channel->call);

        grpc_call_details_destroy(&channel->details);
        grpc_metadata_array_destroy(&channel->metadata);
        if (!channel->has_ended)
                rpc_channel_wait(channel);
        else
                rpc_channel_unref_if_done(channel);
        return r;
}

static int on_shutdown(bool is_ok, void *userdata) {
        RpcChannel *channel = userdata;

        grpc_server_destroy(channel->grpc);
        channel->grpc = NULL;
        rpc_channel_unref_if_done(channel);
        return 0;
}

static grpc_server *grpc_server_new(CompletionQueue *queue, bool is_refused) {
        grpc_arg args[] = {
                { GRPC_ARG_INTEGER, GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH,
                  .value.integer = REQUEST_SIZE_MAX },
                { GRPC_ARG_INTEGER, GRPC_ARG_MAX_CONCURRENT_STREAMS, .value.integer = STREAMS_MAX },
                { GRPC_ARG_INTEGER, GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                  .value.integer = is_refused ? REFUSED_IDLE_MSEC : IDLE_MSEC },
        };
        const grpc_channel_args list = {
                .num_args = sizeof(args) / sizeof(args[0]),
                .args = args,
        };
        grpc_server *server = grpc_server_create(&list, NULL);

        grpc_server_register_completion_queue(server, completion_queue_get_grpc(queue), NULL);
        grpc_server_start(server);
        return server;
}

static void rpc_channel_open(RpcChannel *channel, int fd) {
        grpc_server_credentials *credentials = grpc_insecure_server_credentials_create();

        channel->grpc =
                grpc_server_new(channel->server->completions, channel->refusal.kind != ERROR_NONE);
        rpc_channel_wait(channel);
        grpc_server_add_channel_from_fd(channel->grpc, fd, credentials);
        grpc_server_credentials_release(credentials);
}

int rpc_channel_new(RpcServer *server, int fd, Peer *peer, const Error *refusal, RpcChannel **ret) {
        RpcChannel *channel;

        channel = malloc(sizeof(*channel));
        if (!channel) {
                close_p(&fd);
                peer_done(peer);
                return -ENOMEM;
        }

        *channel = (RpcChannel){
                .n_refs = 2,
                .server = server,
                .peer = *peer,
                .shutdown = { .handler = on_shutdown, .userdata = channel },
                .arrival = { .handler = on_arrival, .userdata = channel },
        };
        if (refusal)
                (void) error_copy(&channel->refusal, refusal);
        server->n_refs++;
        list_prepend(&server->channels, channel);
        rpc_channel_open(channel, fd);

        *ret = channel;
        return 0;
}

void rpc_channel_end(RpcChannel *channel) {
        CompletionQueue *completions = channel->server->completions;

        if (channel->has_ended)
                return;

        channel->has_ended = true;
        grpc_server_shutdown_and_notify(channel->grpc, completion_queue_get_grpc(completions),
                                        completion_begin(completions, &channel->shutdown));
        grpc_server_cancel_all_calls(channel->grpc);
        rpc_channel_unref(channel);
}
