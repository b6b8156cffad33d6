/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Who makes a call of the local API, for the log and for refusals, and what that user may do
 */

#include "agent/base/error.h"
#include "agent/rpc/peer.h"

typedef struct Caller {
        char *user; /* NULL: /etc/passwd does not have it */
        char uid[16];
        char pid[16];
        char *words; /* "jo (uid 1000, pid 4242)" */
} Caller;

/* Only /etc/passwd is asked for the name: other sources may be slow, and stay in memory. */
int caller_init(const Peer *peer, Caller *ret);
void caller_done(Caller *caller);

/* Restarting containers is a right of its own: root's, and that of the members of one group, whose
 * name is for the words; NULL: there is none. */
int caller_check_restart(const Caller *caller, const Peer *peer, gid_t group,
                         const char *group_name, Error *reterr);
