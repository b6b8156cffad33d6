/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/report.h"

#include <string.h>
#include <time.h>

#include "agent/base/loop.h"

static bool may_pass(const Error *error) {
        return error->kind == ERROR_UNAVAILABLE || error->kind == ERROR_TIMEOUT ||
               error->kind == ERROR_DENIED;
}

static bool is_said(const KubeReport *report, const Error *error) {
        return error->kind == report->said.kind &&
               strcmp(error_message(error), error_message(&report->said)) == 0;
}

static bool is_said_elsewhere(const KubeReport *report) {
        const Error *trouble = kube_client_trouble(report->client);

        return report->speaks_for_all ? trouble && trouble->kind != ERROR_NONE
                                      : kube_client_is_in_trouble(report->client);
}

static void report_say(KubeReport *report, const Error *error) {
        if (is_said(report, error))
                return;

        log_warning(report->log, NULL, "%s: %s.", report->subject, error_message(error));
        error_done(&report->said);
        (void) error_copy(&report->said, error);
}

static int report_wait(KubeReport *report);

/* Nobody will tell of it again as long as it stays the same. */
static int on_patience_over(sd_event_source *source, uint64_t usec, void *userdata) {
        KubeReport *report = userdata;

        report->patience = sd_event_source_disable_unref(report->patience);
        if (is_said_elsewhere(report))
                return report_wait(report);

        report_say(report, &report->waiting);
        error_done(&report->waiting);
        return 0;
}

static int report_wait(KubeReport *report) {
        uint64_t usec = report->patience_usec ?: KUBE_REPORT_PATIENCE_USEC;

        return loop_add_time_relative(kube_client_event(report->client), &report->patience,
                                      CLOCK_MONOTONIC, usec, 0, on_patience_over, report);
}

int kube_report_trouble(KubeReport *report, const Error *error) {
        if (!may_pass(error) && !is_said_elsewhere(report)) {
                kube_report_answered(report);
                report_say(report, error);
                return 0;
        }

        error_done(&report->waiting);
        (void) error_copy(&report->waiting, error);
        return report->patience ? 0 : report_wait(report);
}

void kube_report_answered(KubeReport *report) {
        report->patience = sd_event_source_disable_unref(report->patience);
        error_done(&report->waiting);
}

bool kube_report_well(KubeReport *report) {
        bool was_said = report->said.kind != ERROR_NONE;

        kube_report_answered(report);
        error_done(&report->said);
        return was_said;
}

void kube_report_done(KubeReport *report) {
        (void) kube_report_well(report);
}
