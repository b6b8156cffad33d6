/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The socket of the local API
 *
 * Listens on a Unix socket and checks each connection before gRPC sees it: may this user call (the peer's
 * uid and groups), and is there room? If there is no room, it passes the connection on with a refusal, for
 * a moment, so that calls get the reason. A guard stands between the caller and gRPC: guard.h. gRPC ends
 * connections without HTTP/2, or whose peer does not answer pings.
 */

#include <sys/types.h>
#include <systemd/sd-event.h>

#include "agent/base/error.h"
#include "agent/rpc/peer.h"

typedef struct Listener Listener;

typedef enum ListenerRefusal {
        LISTENER_REFUSED_LIMIT,  /* too many connections */
        LISTENER_REFUSED_DENIED, /* not root, not the agent's own user, not in the group */
        _LISTENER_REFUSAL_MAX,
} ListenerRefusal;

/* A connection was accepted: takes fd (gRPC's end) and peer over. With a refusal there is no room: refuse its
 * calls with that reason. *ret is the argument of on_left. */
typedef int (*ListenerAccepted)(int fd, Peer *peer, const Error *refusal, void **ret,
                                void *userdata);

/* The connection has ended. Not called for connections that are open at listener_free(). */
typedef void (*ListenerLeft)(void *connection, void *userdata);
typedef void (*ListenerRefused)(ListenerRefusal refusal, void *userdata);
/* The listener could not accept or keep a connection, for this errno. */
typedef void (*ListenerShort)(int number, void *userdata);

typedef struct ListenerOptions {
        const char *path; /* borrowed during the call */
        int fd;           /* inherited listening socket (taken over), or -1 */
        gid_t group;      /* may call, beside root and the agent's user; (gid_t) -1: no group */
        ListenerAccepted on_accepted;
        ListenerLeft on_left;
        ListenerRefused on_refused;
        ListenerShort on_short;
        void *userdata;
} ListenerOptions;

/* Makes the socket with mode 0660. Replaces the socket file of a process that does not listen any
 * more; refuses a file that is not a socket, or that is served. */
int listener_new(sd_event *event, const ListenerOptions *options, Listener **ret, Error *reterr);

/* Ends all connections, after what gRPC has said, and removes the socket file if the listener made it. Returns NULL. */
Listener *listener_free(Listener *listener);

/* Counts the open connections. */
size_t listener_n_connections(const Listener *listener);

const char *listener_refusal_to_string(ListenerRefusal refusal);
