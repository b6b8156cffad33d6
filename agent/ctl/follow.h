/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Follows the status of the node, which the agent pushes
 *
 * Follows the agent's Watch until the loop ends, also across a restart of the agent.
 */

#include <json-c/json.h>

#include "agent/ctl/connect.h"
#include "proto/inplaced/v1/node.pb-c.h"

typedef struct Follower Follower;

typedef struct FollowerOptions {
        NodeClient *client; /* borrowed */

        /* The object is complete and has changed. changes is a NodeImage of the changed images; in
         * the first call, and in the first after a restart of the agent, it is the object itself.
         * Borrowed during the call, and not to be changed. */
        int (*on_changed)(json_object *node_image, json_object *changes,
                          const Inplaced__V1__WatchEvent *event, void *userdata);

        /* As in StreamOptions. */
        void (*on_away)(void *userdata);

        /* The agent cannot be followed, or no longer; the error has advice. */
        int (*on_refused)(const Error *error, void *userdata);
        void *userdata;
} FollowerOptions;

/* Connects; on_refused may be called at once. */
int follower_new(const FollowerOptions *options, Follower **ret);
Follower *follower_free(Follower *follower);
