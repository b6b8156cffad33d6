/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/rpc/peer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define N_GROUPS_MAX 1024 /* the agent ignores the groups of a peer with more */

int peer_read(int fd, Peer *ret) {
        gid_t groups[N_GROUPS_MAX];
        socklen_t groups_size = sizeof(groups);
        struct ucred credentials;
        socklen_t size = sizeof(credentials);
        Peer peer;

        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) < 0)
                return -errno;
        if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &groups_size) < 0)
                groups_size = 0;

        peer = (Peer){
                .uid = credentials.uid,
                .gid = credentials.gid,
                .pid = credentials.pid,
                .groups = malloc(groups_size + 1),
                .n_groups = groups_size / sizeof(groups[0]),
        };
        if (!peer.groups)
                return -ENOMEM;

        memcpy(peer.groups, groups, groups_size);
        *ret = peer;
        return 0;
}

void peer_done(Peer *peer) {
        free(peer->groups);
        *peer = (Peer){ .groups = NULL };
}

bool peer_is_root(const Peer *peer) {
        return peer->uid == 0 || peer->uid == geteuid();
}

bool peer_has_group(const Peer *peer, gid_t group) {
        if (group == (gid_t) -1)
                return false;
        if (peer->gid == group)
                return true;

        for (size_t i = 0; i < peer->n_groups; i++)
                if (peer->groups[i] == group)
                        return true;

        return false;
}
