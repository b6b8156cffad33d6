/* SPDX-License-Identifier: Apache-2.0 */

/* Which signals end a command of kubectl inplace, and what it may still do and ask then; what it makes
 * of the server's answers. */

#include <json-c/json.h>
#include <signal.h>

#include "agent/document/json-cleanup.h"
#include "agent/kubectl/session.h"
#include "agent/view/output.h"
#include "tests/unit/scratch-folder.h"
#include "tests/unit/unit.h"

#define KUBECONFIG                                                         \
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n" \
        "contexts: [{name: c, context: {cluster: c, user: c}}]\n"          \
        "users: [{name: c, user: {}}]\n"                                   \
        "current-context: c\n"

static int reply_code;   /* code of each answer; 0: the server is not there */
static size_t reply_max; /* bytes that the last answer might have */

int __wrap_kube_call(KubeClient *client, const KubeRequest *request, KubeCall **ret);
int __real_kube_call(KubeClient *client, const KubeRequest *request, KubeCall **ret);

int __wrap_kube_call(KubeClient *client, const KubeRequest *request, KubeCall **ret) {
        const KubeReply reply = { .code = reply_code };
        cleanup(error_done) Error error = ERROR_INIT;

        if (reply_code == 0)
                return __real_kube_call(client, request, ret);
        reply_max = request->reply_max;
        *ret = NULL;
        if (reply_code != 200)
                (void) error_set(&error, ERROR_UNSUPPORTED, "refused");
        return request->on_replied(&reply, reply_code == 200 ? NULL : &error, request->userdata);
}

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

static unsigned n_asked;

static int on_asked(void *userdata) {
        n_asked++;
        return 0;
}

static int on_asked_away(const Error *error, void *userdata) {
        return on_asked(userdata);
}

/* While a command that was interrupted puts things in order, nothing asks any more on behalf of the wait that is over, whose
 * caller is gone. */
TEST_F(test_wait_is_over, Fixture *fixture) {
        const SessionWatch watch = {
                .path = { .version = "v1", .namespace = "default", .resource = "pods" }
        };
        Session *session = fixture->session;
        cleanup(session_follow_free_p) SessionFollow *follow = NULL;
        cleanup(error_done) Error error = ERROR_INIT;

        assert_ok(session_follow_new(session, &watch, 1, NULL, &follow));
        assert_ok(raise(SIGTERM));
        assert_true(session_follow_wait(follow, on_asked, on_asked_away, NULL, &error) < 0);
        assert_true(n_asked > 0);
        n_asked = 0;
        session_begin_leave(session);
        assert_ok(session_follow_check(follow));
        assert_ok(session_pause(session, MSEC, &error));
        session_end_leave(session);
        assert_int_equal(n_asked, 0);
}

static const struct UserRow {
        const char *name;
        int code;
        bool is_known;
} user_rows[] = {
        { "a server that has no such API", 404, true },
        { "one that does not let the user ask", 405, true },
        { "one that fails", 500, false },
};

/* A server that does not say how it names the user leaves the kubeconfig's name. A failure leaves none: by another name the user
 * would not know the updates again. */
TEST_ROWS_F(test_user, user_rows, name, const struct UserRow *row, Fixture *fixture) {
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        reply_code = row->code;
        r = session_ask_user(fixture->session, &error);
        reply_code = 0;
        assert_int_equal(r >= 0, row->is_known);
        if (row->is_known)
                assert_string_equal(session_user(fixture->session), "c");
        else
                assert_string_equal(error_message(&error), "refused");
}

/* An object that can be read can be written as well: the answer has all of it. */
TEST_F(test_large_object, Fixture *fixture) {
        const KubePath path = {
                .version = "v1", .namespace = "default", .resource = "pods", .name = "web"
        };
        cleanup(json_object_put_p) json_object *patch = json_object_new_object();
        cleanup(error_done) Error error = ERROR_INIT;
        size_t read_max;

        reply_code = 200;
        assert_ok(session_get(fixture->session, &path, NULL, &error));
        read_max = reply_max;
        assert_ok(session_patch(fixture->session, &path, KUBE_MERGE_PATCH, patch, NULL, &error));
        reply_code = 0;
        assert_true(read_max > 0);
        assert_int_equal(reply_max, read_max);
}
