/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What the log says of trouble with a watch
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/kube/report.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/fake-kube.h"
#include "tests/unit/stderr-capture.h"

#define SUBJECT "Cannot watch the tests"

typedef struct Fixture {
        KubeReport report;
        Log *log;
        Stderr captured;
} Fixture;

static void fixture_open(Fixture *f) {
        *f = (Fixture){ .log = NULL };
        fake_kube_open();
        stderr_pipe(&f->captured);
        assert_int_equal(log_new(LOG_FORMAT_TEXT, LOG_INFO, &f->log), 0);
        f->report = (KubeReport){
                .client = &fake_kube, .log = f->log, .subject = SUBJECT, .delay_usec = 1000
        };
}

/* Ends it; how often the log has said the text. */
static unsigned fixture_close(Fixture *f, const char *text) {
        const char *said = stderr_restore(&f->captured);
        unsigned n = 0;

        kube_report_done(&f->report);
        log_free(f->log);
        assert_null(f->report.delay.source);
        fake_clock_done();
        fake_kube_close();
        while ((said = strstr(said, text))) {
                said += strlen(text);
                n++;
        }

        return n;
}

static void trouble(Fixture *f, ErrorKind kind, const char *message) {
        Error error = ERROR_INIT;

        error_set(&error, kind, "%s", message);
        assert_int_equal(kube_report_trouble(&f->report, &error), 0);
        error_done(&error);
}

/* Runs until the report has nothing to wait for. */
static void wait_for_delay(Fixture *f) {
        while (timer_is_running(&f->report.delay))
                fake_clock_skip(fake_kube.event);
}

static void test_lasting_trouble_is_said_once(void **state) {
        Fixture f;

        fixture_open(&f);
        for (unsigned i = 0; i < 3; i++) {
                trouble(&f, ERROR_DENIED, "forbidden");
                wait_for_delay(&f);
        }

        assert_int_equal(fixture_close(&f, SUBJECT ": forbidden."), 1);
}

static void test_nothing_is_said_of_what_passes(void **state) {
        const ErrorKind kinds[] = { ERROR_UNAVAILABLE, ERROR_TIMEOUT, ERROR_DENIED };
        Fixture f;

        fixture_open(&f);
        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
                trouble(&f, kinds[i], "passing");
                assert_true(timer_is_running(&f.report.delay));
                assert_false(kube_report_well(&f.report));
                assert_false(timer_is_running(&f.report.delay));
        }

        trouble(&f, ERROR_DENIED, "outdated");
        kube_report_answered(&f.report);
        assert_false(timer_is_running(&f.report.delay));
        assert_int_equal(fixture_close(&f, SUBJECT), 0);
}

static void test_what_cannot_pass_is_said_at_once(void **state) {
        Fixture f;

        fixture_open(&f);
        trouble(&f, ERROR_INVALID, "nonsense");
        trouble(&f, ERROR_INVALID, "nonsense");
        assert_false(timer_is_running(&f.report.delay));
        assert_int_equal(fixture_close(&f, SUBJECT ": nonsense."), 1);
}

/* The newest reason counts, and does not begin the wait anew. */
static void test_reason_changes_in_the_wait(void **state) {
        Fixture f;

        fixture_open(&f);
        trouble(&f, ERROR_TIMEOUT, "first");
        fake_clock_pass(fake_kube.event, 400);
        trouble(&f, ERROR_DENIED, "second");
        fake_clock_pass(fake_kube.event, 599);
        assert_true(timer_is_running(&f.report.delay));
        fake_clock_pass(fake_kube.event, 1);
        assert_false(timer_is_running(&f.report.delay));
        assert_false(log_once(&f.report.logged, "second")); /* it was logged */
        assert_int_equal(fixture_close(&f, SUBJECT), 1);
}

static void test_it_is_said_anew_after_it_was_well(void **state) {
        Fixture f;

        fixture_open(&f);
        trouble(&f, ERROR_INVALID, "nonsense");
        assert_true(kube_report_well(&f.report));
        assert_false(kube_report_well(&f.report));
        trouble(&f, ERROR_INVALID, "nonsense");
        assert_int_equal(fixture_close(&f, SUBJECT), 2);
}

static void turn(Fixture *f) {
        fake_clock_skip(fake_kube.event);
}

/* One place speaks of the connection, and one of credentials. */
static void test_trouble_of_all_is_said_by_one(void **state) {
        Fixture f;

        fixture_open(&f);
        fake_kube.is_unknown = true;
        trouble(&f, ERROR_INVALID, "a");
        turn(&f);
        f.report.speaks_for_all = true;
        trouble(&f, ERROR_INVALID, "b");
        error_set(&fake_kube.trouble, ERROR_UNAVAILABLE, "refused");
        trouble(&f, ERROR_INVALID, "c");
        turn(&f);
        assert_false(log_once(&f.report.logged, "b")); /* it was logged */
        assert_int_equal(fixture_close(&f, SUBJECT), 1);
}

/* What still waits when the connection is there again is said then: it is not reported twice. */
static void test_trouble_outlasts_that_of_all(void **state) {
        Fixture f;

        fixture_open(&f);
        trouble(&f, ERROR_DENIED, "forbidden");
        error_set(&fake_kube.trouble, ERROR_UNAVAILABLE, "refused");
        turn(&f);
        turn(&f);
        error_done(&fake_kube.trouble);
        wait_for_delay(&f);
        assert_int_equal(fixture_close(&f, SUBJECT ": forbidden."), 1);
}

/* The next attempt may take as long, and succeed. */
static void test_time_outs_have_longer(void **state) {
        Fixture f;

        fixture_open(&f);
        trouble(&f, ERROR_TIMEOUT, "Too large resource version");
        fake_clock_pass(fake_kube.event, 2999);
        assert_true(timer_is_running(&f.report.delay));
        assert_false(kube_report_well(&f.report));

        trouble(&f, ERROR_TIMEOUT, "Too large resource version");
        fake_clock_pass(fake_kube.event, 2000);
        trouble(&f, ERROR_TIMEOUT, "Too large resource version");
        fake_clock_pass(fake_kube.event, 999);
        assert_true(timer_is_running(&f.report.delay));
        fake_clock_pass(fake_kube.event, 1);
        assert_false(timer_is_running(&f.report.delay));
        assert_int_equal(fixture_close(&f, SUBJECT ": Too large resource version."), 1);
}

/* What was to be said is outdated by what is said at once. */
static void test_worse_trouble_comes_meanwhile(void **state) {
        Fixture f;

        fixture_open(&f);
        trouble(&f, ERROR_TIMEOUT, "first");
        trouble(&f, ERROR_INVALID, "nonsense");
        assert_false(timer_is_running(&f.report.delay));
        assert_int_equal(fixture_close(&f, SUBJECT ": nonsense."), 1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_lasting_trouble_is_said_once),
                cmocka_unit_test(test_nothing_is_said_of_what_passes),
                cmocka_unit_test(test_what_cannot_pass_is_said_at_once),
                cmocka_unit_test(test_reason_changes_in_the_wait),
                cmocka_unit_test(test_it_is_said_anew_after_it_was_well),
                cmocka_unit_test(test_trouble_of_all_is_said_by_one),
                cmocka_unit_test(test_trouble_outlasts_that_of_all),
                cmocka_unit_test(test_worse_trouble_comes_meanwhile),
                cmocka_unit_test(test_time_outs_have_longer),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
