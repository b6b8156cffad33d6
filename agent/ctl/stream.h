/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Follows a call of the agent that never ends
 *
 * Takes its messages until the loop ends, also across a restart of the agent.
 */

#include "agent/ctl/connect.h"
#include "agent/rpc/client.h"

typedef struct Stream Stream;

typedef struct StreamOptions {
        NodeClient *client;              /* borrowed */
        const RpcMethod *method;         /* borrowed, static */
        const ProtobufCMessage *request; /* borrowed */

        int (*on_message)(const void *message, void *userdata);

        /* The agent went away, or has gone again before it answered; a line on stderr says so next. The next
         * message is the first one of another call. NULL: nothing to do. */
        void (*on_away)(void *userdata);

        /* The agent cannot be followed, or no longer; the error has advice. */
        int (*on_refused)(const Error *error, void *userdata);
        void *userdata;
} StreamOptions;

/* Connects; on_refused may be called at once. */
int stream_new(const StreamOptions *options, Stream **ret);
Stream *stream_free(Stream *stream);
