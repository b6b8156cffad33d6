/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Leadership by a Lease, as Kubernetes' own controllers have it
 *
 * Of several programs that take part, the one that the Lease names leads, while it renews the Lease. A program that does not
 * see the Lease renewed for its whole duration, by its own clock, takes it. See the package leaderelection of client-go.
 * Two may lead for a moment, for example when one was frozen: what a leader writes must do no harm then.
 */

#include <stdbool.h>
#include <stdint.h>

#include "agent/kube/lease-spec.h"
#include "agent/kubectl/session.h"

typedef struct Leader {
        Session *session;
        KubePath path; /* path of the Lease; its texts are borrowed */
        char *identity;
        char *version; /* version of the Lease as this program wrote it last; NULL: it has not */
        LeaseSight sight;
        uint64_t renewed_usec; /* when this program renewed the Lease */
        uint64_t due_usec;     /* when the Lease is to be read again */
        bool is_leading;
} Leader;

/* Sends nothing yet. name: name of the Lease in the session's namespace; borrowed. */
int leader_init(Leader *leader, Session *session, const char *name);
void leader_done(Leader *leader);

bool leader_is_due(const Leader *leader);
/* Reads the Lease, and takes or renews it. Refused when a program that leads could not renew it in time, or finds another
 * holder: it must do nothing more. A server that is away is no refusal before that. */
int leader_step(Leader *leader, Error *reterr);
/* Takes the Lease from whichever program leads: 1 if another one had it, which does nothing more from its next renewal on, or
 * has written it meanwhile and has it still. 0: this one has it still, there is none, or the user may not write it. To be
 * repeated when it is due. */
int leader_oust(Leader *leader, Error *reterr);
/* Gives the Lease up, so that the next one need not wait; also after a signal. */
void leader_resign(Leader *leader);
