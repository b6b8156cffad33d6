/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Talking to the agent
 *
 * A NodeClient is the event loop of the program and its connection to the agent.
 */

#include <systemd/sd-event.h>

#include "agent/base/cleanup.h"
#include "agent/base/error.h"
#include "agent/ctl/options.h"
#include "agent/rpc/client.h"

#define CALL_TIMEOUT_SEC 60 /* time limit for a single reply */

typedef struct NodeClient NodeClient;

/* Blocks SIGINT, SIGTERM and SIGWINCH, so it comes before anything that starts threads. SIGINT and
 * SIGTERM call on_interrupt; without one they end the loop with EXIT_STATUS_SIGNAL + the number. */
int node_client_new(const char *socket_path, sd_event_signal_handler_t on_interrupt, void *userdata,
                    NodeClient **ret);
NodeClient *node_client_free(NodeClient *client);

/* Connects, or connects again. All calls must have been unreferenced. The error has advice. */
int node_client_connect(NodeClient *client, Error *reterr);

/* Connects again for half a minute, since the agent most likely restarts. Calls on_back with a
 * connection, which node_client_heard() confirms, or with why it gave up. */
typedef int (*NodeBack)(const Error *given_up, void *userdata);
int node_client_reconnect(NodeClient *client, NodeBack on_back, void *userdata);
bool node_client_is_away(const NodeClient *client);

/* The agent hung up before it answered the call, though it serves this user as far as is known: it most likely restarts. */
bool node_client_is_lost(const NodeClient *client, const Error *error);

/* Explains with advice why a call got no answer: another program may listen there, or the agent has
 * refused this user. Copied. */
int node_client_explain(const NodeClient *client, const Error *error, Error *reterr);

/* Waits for an answer: after a while without one, prints a line to stderr. */
int node_client_await(NodeClient *client);

/* Notes an answer of the agent. */
void node_client_heard(NodeClient *client);

sd_event *node_client_event(NodeClient *client);
RpcClient *node_client_rpc(NodeClient *client); /* NULL while there is no connection */

/* Connects and closes. Returns 0, or the negative errno: -ENOENT, -ENOTSOCK, -ECONNREFUSED, -EACCES
 * ... */
int socket_check(const char *path);

/* Describes the result in words: "no such file". */
const char *socket_check_to_string(int result);

/* Describes the result with advice, for the socket of the agent: "no such file; is it running? try:
 * systemctl status inplaced". NULL if there is no memory. */
char *socket_check_advise(const char *path, int result);

DEFINE_CLEANUP(NodeClient *, node_client_free)
