/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/ctl/stream.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "agent/view/terminal.h"

struct Stream {
        StreamOptions options;
        RpcCall *call;
        bool was_heard;
};

DEFINE_CLEANUP(Stream *, stream_free)

static int stream_ask(Stream *stream);

static int stream_refuse(Stream *stream, const Error *error) {
        return stream->options.on_refused(error, stream->options.userdata);
}

static int on_back(const Error *given_up, void *userdata) {
        return given_up ? stream_refuse(userdata, given_up) : stream_ask(userdata);
}

static int on_message(const void *message, void *userdata) {
        Stream *stream = userdata;

        node_client_heard(stream->options.client);
        stream->was_heard = true;
        return stream->options.on_message(message, stream->options.userdata);
}

static int on_end(const void *reply, const Error *error, void *userdata) {
        cleanup(error_done) Error explained = ERROR_INIT;
        Stream *stream = userdata;
        NodeClient *client = stream->options.client;

        stream->call = rpc_call_unref(stream->call);
        if (stream->was_heard &&
            (!error || error->kind == ERROR_UNAVAILABLE || error->kind == ERROR_CANCELED)) {
                if (stream->options.on_away)
                        stream->options.on_away(stream->options.userdata);
                if (!node_client_is_away(client))
                        complain("lost the connection to inplaced, connecting again");
                return node_client_reconnect(client, on_back, stream);
        }

        if (error)
                (void) node_client_explain(client, error, &explained);
        else
                (void) error_set(&explained, ERROR_INTERNAL, "inplaced ended the request early");
        return stream_refuse(stream, &explained);
}

static int stream_ask(Stream *stream) {
        NodeClient *client = stream->options.client;
        int r;

        r = node_client_await(client);
        if (r < 0)
                return r;

        return rpc_call_stream(node_client_rpc(client), stream->options.method,
                               stream->options.request, RPC_NO_TIMEOUT, on_message, on_end, stream,
                               &stream->call);
}

int stream_new(const StreamOptions *options, Stream **ret) {
        cleanup(stream_free_p) Stream *stream = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        stream = calloc(1, sizeof(*stream));
        if (!stream)
                return -ENOMEM;

        stream->options = *options;
        r = node_client_connect(options->client, &error);
        if (error.kind != ERROR_NONE)
                r = stream_refuse(stream, &error);
        else if (r >= 0)
                r = stream_ask(stream);
        if (r < 0)
                return r;

        *ret = take_ptr(stream);
        return 0;
}

Stream *stream_free(Stream *stream) {
        if (!stream)
                return NULL;

        rpc_call_unref(stream->call);
        free(stream);
        return NULL;
}
