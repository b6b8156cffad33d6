/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is logged about trouble with something that is watched
 *
 * Each reason once, and no reason that passes by itself: a watch that was cut goes on with a new one,
 * and a server that has just started refuses all requests until it has read its access rules, or until its
 * cache has caught up with its store ("Too large resource version", after 3 s of trying). Nothing
 * is logged while the server does not answer at all, which the client's owner hears of (KubeReachable).
 */

#include "agent/base/log-once.h"
#include "agent/base/log.h"
#include "agent/base/loop.h"
#include "agent/kube/client.h"

#define KUBE_REPORT_DELAY_USEC ((uint64_t) 3 * 1000 * 1000)
#define KUBE_REPORT_TIMEOUT_FACTOR 3 /* for a time-out, since the next attempt may take as long */

/* The first lines are set by the owner, the others are zero at first. */
typedef struct KubeReport {
        KubeClient *client;
        Log *log;
        const char *subject; /* "Cannot watch the pods of this node"; borrowed */
        bool speaks_for_all; /* that the server does not know us concerns all, one logs it */
        uint64_t delay_usec; /* 0: KUBE_REPORT_DELAY_USEC */

        Timer delay;
        uint64_t since_usec; /* it has waited */
        Error waiting;       /* what will be logged if it lasts, or unset */
        LogOnce logged;
} KubeReport;

/* Something is wrong; may be called again and again. */
int kube_report_trouble(KubeReport *report, const Error *error);

/* The server has answered: what waits to be logged has passed. */
void kube_report_answered(KubeReport *report);

/* All is as it should be. Returns whether trouble was logged before. */
bool kube_report_well(KubeReport *report);

/* Ends it; nothing is logged any more. */
void kube_report_done(KubeReport *report);
