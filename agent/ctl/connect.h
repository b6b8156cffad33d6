/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Talking to the agent
 *
 * A NodeClient is the event loop of the program and its connection to the agent. Most commands make
 * one call and print the reply, for which node_ask() is enough.
 */

#include <systemd/sd-event.h>

#include "agent/base/cleanup.h"
#include "agent/base/error.h"
#include "agent/ctl/options.h"
#include "agent/rpc/client.h"

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

/* Explains with advice why a call got no answer: another program may listen there, or the agent has
 * refused this user. Copied. */
int node_client_explain(const NodeClient *client, const Error *error, Error *reterr);

/* Waits for an answer: after a while without one, prints a line to stderr. */
int node_client_await(NodeClient *client);

/* Notes an answer of the agent. */
void node_client_heard(NodeClient *client);

sd_event *node_client_event(NodeClient *client);
RpcClient *node_client_rpc(NodeClient *client); /* NULL while there is no connection */

/* Print a reply or an error. Both return an ExitStatus, or a negative errno for a local failure. */
typedef int (*PrintReply)(const void *reply, const Options *options);
typedef int (*PrintRefusal)(const Error *error, const Options *options);

/* Asks, waits and prints. Without print_refusal the error is printed to stderr. Returns what the
 * callback returned. */
int node_ask(const Options *options, const RpcMethod *method, const ProtobufCMessage *request,
             PrintReply print_reply, PrintRefusal print_refusal);

/* Connects and closes. Returns 0, or the negative errno: -ENOENT, -ENOTSOCK, -ECONNREFUSED, -EACCES
 * ... */
int socket_check(const char *path);

/* Describes the result in words: "no such file". */
const char *socket_check_to_string(int result);

/* Describes the result with advice, for the socket of the agent: "no such file; is it running? try:
 * systemctl status inplaced". NULL if there is no memory. */
char *socket_check_advise(const char *path, int result);

DEFINE_CLEANUP(NodeClient *, node_client_free)
