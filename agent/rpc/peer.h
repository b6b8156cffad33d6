/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Who is at the other end of a Unix socket, as the kernel knows it from the moment of connect()
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct Peer {
        uid_t uid;
        gid_t gid;
        pid_t pid;     /* 0: of a PID namespace that we do not see */
        gid_t *groups; /* beside that one */
        size_t n_groups;
} Peer;

/* The caller owns *ret. Only -ENOMEM is a local failure; a peer that cannot be known has another one. */
int peer_read(int fd, Peer *ret);
void peer_done(Peer *peer);

/* Root, or the user that we run as: has all rights, and its places cannot be taken by others. */
bool peer_is_root(const Peer *peer);

/* (gid_t) -1 is a group without members. */
bool peer_has_group(const Peer *peer, gid_t group);
