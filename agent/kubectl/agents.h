/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agents of the cluster's nodes
 *
 * An agent that runs as a pod is known by that pod: its version is the image's tag, and it is ready if the
 * pod is. One that runs as a service of the node is known by its trace alone: it has written the status
 * of the node's NodeImage, and its version into an annotation of it if it has made the NodeImage by itself.
 * That does not say whether it still runs; a request that is not taken up says that it does not.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/kubectl/session.h"

typedef struct NodeAgent {
        char *node;
        bool has_pod;
        char *pod;        /* "inplaced/inplaced-x7k2p"; NULL: it is no pod */
        char *version;    /* NULL: not known */
        bool is_ready;    /* the pod */
        char *trouble;    /* why it is not; NULL: not known */
        int64_t wrote_at; /* the status of the NodeImage; seconds since the epoch; 0: it has not */
        bool is_silent;   /* the agent has not taken up a request of its NodeImage in time */
} NodeAgent;

typedef struct Agents {
        NodeAgent **items; /* sorted by node */
        size_t n_items;
        Error error; /* why some may be missing: a right, mostly. Unset: all were found */
} Agents;

#define AGENTS_INIT ((Agents){ .items = NULL })

/* node_image_version: NULL if there is none. must_answer: NodeImages are read as a whole, for is_silent, and the server has to
 * answer as well; a right that is missing is no failure. */
int agents_read(Session *session, const char *node_image_version, bool must_answer, Agents *ret,
                Error *reterr);
/* Reads the agents that are pods, in this namespace; NULL: in all, or in "inplaced" if the user may
 * not read all. */
int agents_read_pods(Session *session, const char *namespace, Agents *ret, Error *reterr);
void agents_done(Agents *agents);

/* NULL: the node has none that is known. */
const NodeAgent *agents_find(const Agents *agents, const char *node);

/* "1.0.0", "1.0.0 (not ready)", "yes", "-"; borrowed, or from the buffer. */
const char *node_agent_describe(const NodeAgent *agent, char *buffer, size_t size);
