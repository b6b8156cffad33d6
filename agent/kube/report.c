/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/report.h"

static bool may_pass(const Error *error) {
        return error->kind == ERROR_UNAVAILABLE || error->kind == ERROR_TIMEOUT ||
               error->kind == ERROR_DENIED;
}

static bool is_logged_elsewhere(const KubeReport *report) {
        const Error *trouble = kube_client_trouble(report->client);

        return report->speaks_for_all ? trouble && trouble->kind != ERROR_NONE
                                      : kube_client_is_in_trouble(report->client);
}

static void report_log(KubeReport *report, const Error *error) {
        if (log_once(&report->logged, error_message(error)))
                log_warning(report->log, NULL, "%s: %s.", report->subject, error_message(error));
}

static int report_wait(KubeReport *report);

/* Logs the reason; report_log() does not repeat it. */
static int on_delay_over(void *userdata) {
        KubeReport *report = userdata;

        if (is_logged_elsewhere(report))
                return report_wait(report);

        report_log(report, &report->waiting);
        error_done(&report->waiting);
        return 0;
}

/* Waits with the newest reason, since the first one came. */
static int report_wait(KubeReport *report) {
        uint64_t delay_usec = report->delay_usec ?: KUBE_REPORT_DELAY_USEC;

        if (!report->delay.event)
                timer_init(&report->delay, kube_client_event(report->client),
                           /* accuracy_usec= */ 0, on_delay_over, report);
        if (!timer_is_running(&report->delay))
                report->since_usec = kube_client_now_usec(report->client);
        if (report->waiting.kind == ERROR_TIMEOUT)
                delay_usec *= KUBE_REPORT_TIMEOUT_FACTOR;
        return timer_start_at(&report->delay, report->since_usec + delay_usec);
}

int kube_report_trouble(KubeReport *report, const Error *error) {
        if (!may_pass(error) && !is_logged_elsewhere(report)) {
                kube_report_answered(report);
                report_log(report, error);
                return 0;
        }

        error_done(&report->waiting);
        (void) error_copy(&report->waiting, error);
        return report_wait(report);
}

void kube_report_answered(KubeReport *report) {
        timer_stop(&report->delay);
        error_done(&report->waiting);
}

bool kube_report_well(KubeReport *report) {
        bool was_logged = log_once_is_set(&report->logged);

        kube_report_answered(report);
        (void) log_once(&report->logged, NULL);
        return was_logged;
}

void kube_report_done(KubeReport *report) {
        (void) kube_report_well(report);
        timer_done(&report->delay);
}
