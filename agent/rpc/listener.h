/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The socket of the local API
 *
 * Listens on a Unix socket and decides about each connection before gRPC sees it: may this user call
 * (the peer's uid and groups), and is there room? A connection for which there is no room is passed on
 * with a refusal, for a moment, so that its calls are answered with the reason. What does not speak
 * HTTP/2, or does not answer its pings, gRPC ends.
 */

#include <stdbool.h>
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

/* A connection was accepted: takes fd and peer over. With a refusal there is no room for it: whatever
 * it asks for is to be refused in these words. *ret is what on_left gets. */
typedef int (*ListenerAccepted)(int fd, Peer *peer, const Error *refusal, void **ret,
                                void *userdata);

/* The same connection has ended. Not called for those that are left at listener_free(). */
typedef void (*ListenerLeft)(void *connection, void *userdata);
typedef void (*ListenerRefused)(ListenerRefusal refusal, void *userdata);
/* A connection cannot be accepted now, or not be kept, for this errno. */
typedef void (*ListenerShort)(int number, void *userdata);

typedef struct ListenerOptions {
        const char *path; /* borrowed during the call */
        int fd;           /* a listening socket that is there already (taken over), or -1 */
        gid_t group; /* may call, beside root and the agent's own user; (gid_t) -1: no group may */
        ListenerAccepted on_accepted;
        ListenerLeft on_left;
        ListenerRefused on_refused;
        ListenerShort on_short;
        void *userdata;
} ListenerOptions;

/* Makes the socket with mode 0660. The socket file of a process that does not listen any more is
 * replaced; a file that is not a socket, or a socket that is served, is left alone and refused in
 * words. */
int listener_new(sd_event *event, const ListenerOptions *options, Listener **ret, Error *reterr);

/* Ends all connections and removes the socket file, if it made it. Returns NULL. */
Listener *listener_free(Listener *listener);

/* Connections that were accepted and have not ended. */
size_t listener_n_connections(const Listener *listener);

const char *listener_refusal_to_string(ListenerRefusal refusal);
