/* SPDX-License-Identifier: Apache-2.0 */

/* Which signals end a command of kubectl inplace, and what it may still do then. */

#include <signal.h>

#include "agent/kubectl/session.h"
#include "agent/view/output.h"
#include "tests/unit/scratch-folder.h"
#include "tests/unit/unit.h"

#define KUBECONFIG                                                         \
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n" \
        "contexts: [{name: c, context: {cluster: c, user: c}}]\n"          \
        "users: [{name: c, user: {}}]\n"                                   \
        "current-context: c\n"

typedef struct Fixture {
        char folder[SCRATCH_SIZE];
        Session *session;
} Fixture;

static void open_session(Fixture *fixture) {
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(free_p) char *path = NULL;
        SessionOptions options = { .namespace = "default" };

        scratch_make(fixture->folder);
        options.kubeconfig = path = scratch_path(fixture->folder, "config");
        write_file(path, KUBECONFIG);
        if (session_new(&options, &fixture->session, &error) < 0)
                fail_msg("%s", error_message(&error));
}

static void fixture_open(Fixture *fixture) {
        assert_true(signal(SIGHUP, SIG_DFL) != SIG_ERR);
        open_session(fixture);
}

static void fixture_close(Fixture *fixture) {
        sigset_t none;

        session_free(fixture->session);
        scratch_remove(fixture->folder, "config");
        sigemptyset(&none);
        assert_ok(sigprocmask(SIG_SETMASK, &none, NULL));
}

DEFINE_FIXTURE(Fixture, fixture_open, fixture_close)

/* The pause sees the signal before it is over. */
static bool is_ended_by(Session *session, int number) {
        cleanup(error_done) Error error = ERROR_INIT;

        assert_ok(raise(number));
        return session_pause(session, MSEC, &error) < 0;
}

static const struct SignalRow {
        const char *name;
        int number, next; /* next: while it returns what it has borrowed */
        bool is_cut_short;
} signal_rows[] = {
        { "Ctrl-C", SIGINT, SIGINT, true },
        { "a node that drains", SIGTERM, SIGTERM, true },
        { "a terminal that is gone, by its kernel and its shell", SIGHUP, SIGHUP, false },
        { "that a person ends then", SIGHUP, SIGTERM, true },
};

TEST_ROWS_F(test_signals, signal_rows, name, const struct SignalRow *row, Fixture *fixture) {
        Session *session = fixture->session;

        assert_true(is_ended_by(session, row->number));
        assert_int_equal(session_end_status(session), EXIT_STATUS_SIGNAL + row->number);
        session_begin_leave(session);
        assert_int_equal(is_ended_by(session, row->next), row->is_cut_short);
        session_end_leave(session);
        assert_true(session_is_ended(session));
        assert_int_equal(session_end_status(session), EXIT_STATUS_SIGNAL + row->number);
}

/* As nohup has it. */
TEST(test_ignored) {
        Fixture fixture = { .session = NULL };

        assert_true(signal(SIGHUP, SIG_IGN) != SIG_ERR);
        open_session(&fixture);
        assert_false(is_ended_by(fixture.session, SIGHUP));
        assert_int_equal(session_end_status(fixture.session), 0);
        fixture_close(&fixture);
        assert_true(signal(SIGHUP, SIG_DFL) != SIG_ERR);
}
