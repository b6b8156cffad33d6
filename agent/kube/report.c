/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/report.h"

#include <string.h>
#include <time.h>

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
        if (is_said(report, error) || is_said_elsewhere(report))
                return;

        log_warning(report->log, NULL, "%s: %s.", report->subject, error_message(error));
        error_done(&report->said);
        (void) error_copy(&report->said, error);
}

static int on_patience_over(sd_event_source *source, uint64_t usec, void *userdata) {
        KubeReport *report = userdata;

        report_say(report, &report->waiting);
        kube_report_answered(report);
        return 0;
}

int kube_report_trouble(KubeReport *report, const Error *error) {
        if (!may_pass(error)) {
                report_say(report, error);
                return 0;
        }

        error_done(&report->waiting);
        (void) error_copy(&report->waiting, error);
        if (report->patience)
                return 0;

        return sd_event_add_time_relative(kube_client_event(report->client), &report->patience,
                                          CLOCK_MONOTONIC,
                                          report->patience_usec ?: KUBE_REPORT_PATIENCE_USEC, 0,
                                          on_patience_over, report);
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
