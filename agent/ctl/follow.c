/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/ctl/follow.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/ctl/status-merge.h"
#include "agent/ctl/stream.h"
#include "agent/document/json-cleanup.h"
#include "agent/view/output.h"

struct Follower {
        FollowerOptions options;
        Inplaced__V1__WatchRequest request;
        Stream *stream;
        json_object *node_image; /* NULL: no event on this connection yet */
        bool is_complete;        /* the object is complete */
};

typedef Inplaced__V1__WatchEvent Event;

DEFINE_CLEANUP(Follower *, follower_free)

static const RpcMethod watch_method = {
        .path = "/inplaced.v1.Node/Watch",
        .reply = &inplaced__v1__watch_event__descriptor,
};

static int follower_refuse(Follower *follower, const Error *error) {
        return follower->options.on_refused(error, follower->options.userdata);
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

        r = output_parse(event->node_image_json, &changes, &error);
        if (error.kind != ERROR_NONE)
                return follower_refuse(follower, &error);

        return r < 0 ? r : follower_take(follower, changes, event);
}

static void on_away(void *userdata) {
        Follower *follower = userdata;

        json_object_put(take_ptr(follower->node_image));
        follower->is_complete = false;
        if (follower->options.on_away)
                follower->options.on_away(follower->options.userdata);
}

static int on_refused(const Error *error, void *userdata) {
        return follower_refuse(userdata, error);
}

int follower_new(const FollowerOptions *options, Follower **ret) {
        cleanup(follower_free_p) Follower *follower = NULL;
        int r;

        follower = calloc(1, sizeof(*follower));
        if (!follower)
                return -ENOMEM;

        follower->options = *options;
        inplaced__v1__watch_request__init(&follower->request);
        r = stream_new(
                &(StreamOptions){
                        .client = options->client,
                        .method = &watch_method,
                        .request = &follower->request.base,
                        .on_message = on_event,
                        .on_away = on_away,
                        .on_refused = on_refused,
                        .userdata = follower,
                },
                &follower->stream);
        if (r < 0)
                return r;

        *ret = take_ptr(follower);
        return 0;
}

Follower *follower_free(Follower *follower) {
        if (!follower)
                return NULL;

        stream_free(follower->stream);
        json_object_put(follower->node_image);
        free(follower);
        return NULL;
}
