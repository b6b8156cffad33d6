/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Log of trouble with a watched kind
 *
 * A report logs each reason once, and no reason that passes by itself: a watch that was cut goes on with a
 * new one, and a server that has just started refuses all requests until it has read its access rules, or
 * until its cache has caught up with its store ("Too large resource version", after 3 s of trying). It
 * logs nothing while the server does not answer at all, which the client reports (KubeReachable).
 */

#include "agent/base/log-once.h"
#include "agent/base/log.h"
#include "agent/base/loop.h"
#include "agent/kube/client.h"

#define KUBE_REPORT_DELAY_USEC ((uint64_t) 3 * 1000 * 1000)
#define KUBE_REPORT_TIMEOUT_FACTOR 3 /* for a time-out, since the next attempt may take as long */

/* The owner sets the first members, the others are zero at first. */
typedef struct KubeReport {
        KubeClient *client;
        Log *log;
        const char *subject; /* "Cannot watch the pods of this node"; borrowed */
        bool speaks_for_all; /* logs for all reports that the server does not know us */
        uint64_t delay_usec; /* 0: KUBE_REPORT_DELAY_USEC */

        Timer delay;
        uint64_t since_usec; /* time at which the reason began to wait */
        Error waiting;       /* reason to log if it lasts, or unset */
        LogOnce logged;
} KubeReport;

/* Notes trouble; may be called again and again. */
int kube_report_trouble(KubeReport *report, const Error *error);

/* Notes an answer of the server: waiting reasons have passed. */
void kube_report_answered(KubeReport *report);

/* Notes the end of trouble. Returns whether trouble was logged before. */
bool kube_report_well(KubeReport *report);

/* Ends it; nothing is logged any more. */
void kube_report_done(KubeReport *report);
