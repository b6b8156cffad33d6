/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the log says of the trouble with something that is watched
 *
 * Each reason once, and no reason that passes by itself: a watch that was cut goes on with a new one,
 * and a server that has just started refuses everybody until it has read who may do what. Nothing is
 * said while the server does not answer at all, which is told to the client's owner (KubeReachable).
 */

#include "agent/base/log.h"
#include "agent/kube/client.h"

#define KUBE_REPORT_PATIENCE_USEC ((uint64_t) 3 * 1000 * 1000)

/* The first lines are set by the owner, the others are zero at first. */
typedef struct KubeReport {
        KubeClient *client;
        Log *log;
        const char *subject;    /* "Cannot watch the pods of this node"; borrowed */
        bool speaks_for_all;    /* that the server does not know us concerns all, one says it */
        uint64_t patience_usec; /* 0: KUBE_REPORT_PATIENCE_USEC */

        sd_event_source *patience;
        Error waiting; /* what will be said if it lasts, or unset */
        Error said;    /* last, or unset */
} KubeReport;

/* Something is wrong; may be told again and again. */
int kube_report_trouble(KubeReport *report, const Error *error);

/* The server has answered: what waits to be said has passed. */
void kube_report_answered(KubeReport *report);

/* All is as it should be. Whether something else was said before. */
bool kube_report_well(KubeReport *report);

/* Nothing is said any more. */
void kube_report_done(KubeReport *report);
