/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests the log lines about trouble with a watch
 */

#include "agent/kube/report.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/fake-kube.h"
#include "tests/unit/stderr-capture.h"
#include "tests/unit/unit.h"

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
        assert_ok(log_new(LOG_FORMAT_TEXT, LOG_INFO, &f->log));
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
        assert_ok(kube_report_trouble(&f->report, &error));
        error_done(&error);
}

/* Runs until the report's delay is over. */
static void wait_for_delay(Fixture *f) {
        while (timer_is_running(&f->report.delay))
                fake_clock_skip(fake_kube.event);
}

TEST(test_lasting_trouble_is_said_once) {
        Fixture f;

        fixture_open(&f);
        for (unsigned i = 0; i < 3; i++) {
                trouble(&f, ERROR_DENIED, "forbidden");
                wait_for_delay(&f);
        }

        assert_int_equal(fixture_close(&f, SUBJECT ": forbidden."), 1);
}

TEST(test_nothing_is_said_of_what_passes) {
        const ErrorKind kinds[] = { ERROR_UNAVAILABLE, ERROR_TIMEOUT, ERROR_DENIED };
        Fixture f;

        fixture_open(&f);
        for (size_t i = 0; i < N_ELEMENTS(kinds); i++) {
                trouble(&f, kinds[i], "passing");
                assert_true(timer_is_running(&f.report.delay));
                assert_false(kube_report_well(&f.report));
                assert_false(timer_is_running(&f.report.delay));
        }

        trouble(&f, ERROR_DENIED, "outdated");
        kube_report_answered(&f.report);
        assert_false(timer_is_running(&f.report.delay));
        assert_ok(fixture_close(&f, SUBJECT));
}

TEST(test_what_cannot_pass_is_said_at_once) {
        Fixture f;

        fixture_open(&f);
        trouble(&f, ERROR_INVALID, "nonsense");
        trouble(&f, ERROR_INVALID, "nonsense");
        assert_false(timer_is_running(&f.report.delay));
        assert_int_equal(fixture_close(&f, SUBJECT ": nonsense."), 1);
}

/* The newest reason counts, and does not begin the wait anew. */
TEST(test_reason_changes_in_the_wait) {
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

TEST(test_it_is_said_anew_after_it_was_well) {
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

/* Trouble of the connection is reported once for all watches, and so is trouble with credentials. */
TEST(test_trouble_of_all_is_said_by_one) {
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

/* Trouble that still waits when the connection is back is reported then, once. */
TEST(test_trouble_outlasts_that_of_all) {
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
TEST(test_time_outs_have_longer) {
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

/* Worse trouble that is reported at once replaces trouble that waits for its report. */
TEST(test_worse_trouble_comes_meanwhile) {
        Fixture f;

        fixture_open(&f);
        trouble(&f, ERROR_TIMEOUT, "first");
        trouble(&f, ERROR_INVALID, "nonsense");
        assert_false(timer_is_running(&f.report.delay));
        assert_int_equal(fixture_close(&f, SUBJECT ": nonsense."), 1);
}
