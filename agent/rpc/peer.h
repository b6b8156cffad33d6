/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The peer of a Unix socket, as the kernel recorded it at connect()
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct Peer {
        uid_t uid;
        gid_t gid;
        pid_t pid;     /* 0: in a PID namespace that the agent does not see */
        gid_t *groups; /* supplementary groups */
        size_t n_groups;
} Peer;

/* The caller owns *ret. Only -ENOMEM is a local failure; another error means that the peer is
 * unknown. */
int peer_read(int fd, Peer *ret);
void peer_done(Peer *peer);

/* The peer is root or the agent's own user, which has all rights and reserved room. */
bool peer_is_root(const Peer *peer);

/* (gid_t) -1 is a group without members. */
bool peer_has_group(const Peer *peer, gid_t group);
