/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The door of the local API
 *
 * Listens on a Unix socket and decides about each connection before gRPC sees it: who is it (the
 * peer's uid and groups), is there room, and does it speak HTTP/2 at all? A peer that says nothing
 * or something else is sent away, so that it costs a descriptor for some seconds and no more.
 */

#include <stdbool.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

#include "agent/base/error.h"

typedef struct Listener Listener;

typedef enum ListenerRefusal {
        LISTENER_REFUSED_LIMIT,  /* too many connections */
        LISTENER_REFUSED_JUNK,   /* did not open HTTP/2 */
        LISTENER_REFUSED_SILENT, /* said nothing */
        LISTENER_REFUSED_DENIED, /* not root, not us, not in the group */
        _LISTENER_REFUSAL_MAX,
} ListenerRefusal;

typedef struct ListenerOptions {
        const char *path; /* borrowed during the call */
        int fd;           /* a listening socket that is there already (taken over), or -1 */
        gid_t group;      /* may call, beside root and ourselves; (gid_t) -1: nobody else */
} ListenerOptions;

/* A connection has passed: takes fd over. */
typedef int (*ListenerAccepted)(int fd, void *userdata);
typedef void (*ListenerRefused)(ListenerRefusal refusal, void *userdata);

/* Makes the socket with mode 0660. A stale socket file of a dead process is replaced; a file that
 * is not a socket, or a socket that somebody serves, is left alone and refused in words. */
int listener_new(sd_event *event, const ListenerOptions *options, ListenerAccepted on_accepted,
                 ListenerRefused on_refused, void *userdata, Listener **ret, Error *reterr);

/* Closes the door and removes the socket file, if it made it. Returns NULL. */
Listener *listener_free(Listener *listener);

/* Connections that were let in and have not ended. */
size_t listener_n_connections(const Listener *listener);

const char *listener_refusal_to_string(ListenerRefusal refusal);
