/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The pulls of one node, as its agent sees them
 *
 * The agent is asked by `kubectl exec`, which runs inplacectl in the agent's pod: the API server checks the right to do
 * so, the agent does not listen on the network, and nothing passes through objects of the API server. Pulls are followed
 * by asking again before the last question ends by itself: a runtime does not end a program whose caller has gone away.
 */

#include <json-c/json_types.h>
#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "agent/base/cleanup.h"
#include "agent/kubectl/flags.h"

#define NODE_PULLS_MAX 16 /* nodes that a command asks at a time */

typedef struct NodePulls NodePulls;

typedef struct NodePullsOptions {
        sd_event *event;
        const Flags *
                flags; /* borrowed: the connection to the API server, and whether pulls are followed */
        const char *node; /* copied */
        int (*on_change)(
                void *userdata); /* there is an answer, or trouble, or a question has ended */
        void *userdata;
} NodePullsOptions;

int node_pulls_new(const NodePullsOptions *options, NodePulls **ret);
/* Ends the questions. Returns NULL. */
NodePulls *node_pulls_free(NodePulls *node);

const char *node_pulls_name(const NodePulls *node);

/* The next question may be asked now: the first one, the next one of those that follow, or after trouble. */
bool node_pulls_is_due(const NodePulls *node, uint64_t now_usec);
bool node_pulls_is_asked(const NodePulls *node);

/* pod: "inplaced/inplaced-x7k2p"; NULL: there is none, why says more. */
int node_pulls_ask(NodePulls *node, const char *pod, const char *why, uint64_t now_usec);

/* The last answer, an array of pulls; NULL: none. Borrowed. */
json_object *node_pulls_get(const NodePulls *node);

/* Why there is no answer, a whole line; NULL: no trouble. Borrowed. */
const char *node_pulls_trouble(const NodePulls *node);

/* Returns the same, once for each text. */
const char *node_pulls_new_trouble(NodePulls *node);

DEFINE_CLEANUP(NodePulls *, node_pulls_free)
