/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/ctl/follow.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/ctl/status-merge.h"
#include "agent/document/json-cleanup.h"
#include "agent/view/output.h"
#include "agent/view/terminal.h"

struct Follower {
        FollowerOptions options;
        RpcCall *call;
        json_object *node_image; /* NULL: no event on this connection yet */
        bool is_complete;        /* the object is complete */
        bool was_heard;
};

typedef Inplaced__V1__WatchEvent Event;

DEFINE_CLEANUP(Follower *, follower_free)

static const RpcMethod watch_method = {
        .path = "/inplaced.v1.Node/Watch",
        .reply = &inplaced__v1__watch_event__descriptor,
};

static int follower_ask(Follower *follower);

static int follower_refuse(Follower *follower, const Error *error) {
        return follower->options.on_refused(error, follower->options.userdata);
}

static int on_back(const Error *given_up, void *userdata) {
        return given_up ? follower_refuse(userdata, given_up) : follower_ask(userdata);
}

/* The first events together make the object, and count as one. */
static int follower_take(Follower *follower, json_object *changes, const Event *event) {
        bool was_complete = follower->is_complete;
        int r;

        if (!follower->node_image)
                follower->node_image = json_object_new_object();
        if (!follower->node_image)
                return -ENOMEM;

        for (size_t i = 0; i < event->n_removed; i++)
                status_remove(follower->node_image, event->removed[i]);

        r = status_merge(follower->node_image, changes);
        if (r < 0 || !event->is_complete)
                return r;

        follower->is_complete = true;
        return follower->options.on_changed(follower->node_image,
                                            was_complete ? changes : follower->node_image, event,
                                            follower->options.userdata);
}

static int on_event(const void *message, void *userdata) {
        cleanup(json_object_put_p) json_object *changes = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        Follower *follower = userdata;
        const Event *event = message;
        int r;

        node_client_heard(follower->options.client);
        follower->was_heard = true;
        r = output_parse(event->node_image_json, &changes, &error);
        if (error.kind != ERROR_NONE)
                return follower_refuse(follower, &error);

        return r < 0 ? r : follower_take(follower, changes, event);
}

static int on_end(const void *reply, const Error *error, void *userdata) {
        cleanup(error_done) Error explained = ERROR_INIT;
        Follower *follower = userdata;
        NodeClient *client = follower->options.client;

        follower->call = rpc_call_unref(follower->call);
        json_object_put(take_ptr(follower->node_image));
        follower->is_complete = false;
        if (follower->was_heard &&
            (!error || error->kind == ERROR_UNAVAILABLE || error->kind == ERROR_CANCELED)) {
                if (!node_client_is_away(client)) {
                        if (follower->options.on_away)
                                follower->options.on_away(follower->options.userdata);
                        complain("lost the connection to inplaced, connecting again");
                }
                return node_client_reconnect(client, on_back, follower);
        }

        if (error)
                (void) node_client_explain(client, error, &explained);
        else
                (void) error_set(&explained, ERROR_INTERNAL, "inplaced ended the request early");
        return follower_refuse(follower, &explained);
}

static int follower_ask(Follower *follower) {
        Inplaced__V1__WatchRequest request = INPLACED__V1__WATCH_REQUEST__INIT;
        NodeClient *client = follower->options.client;
        int r;

        r = node_client_await(client);
        if (r < 0)
                return r;

        return rpc_call_stream(node_client_rpc(client), &watch_method, &request.base,
                               RPC_NO_TIMEOUT, on_event, on_end, follower, &follower->call);
}

int follower_new(const FollowerOptions *options, Follower **ret) {
        cleanup(follower_free_p) Follower *follower = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        follower = calloc(1, sizeof(*follower));
        if (!follower)
                return -ENOMEM;

        follower->options = *options;
        r = node_client_connect(options->client, &error);
        if (error.kind != ERROR_NONE)
                r = follower_refuse(follower, &error);
        else if (r >= 0)
                r = follower_ask(follower);
        if (r < 0)
                return r;

        *ret = take_ptr(follower);
        return 0;
}

Follower *follower_free(Follower *follower) {
        if (!follower)
                return NULL;

        rpc_call_unref(follower->call);
        json_object_put(follower->node_image);
        free(follower);
        return NULL;
}
