/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The call of the local API that restarts containers, whose restart the test plays
 */

#include "tests/unit/api-fixture.h"

#include "agent/restart/restart.h"

static struct {
        RestartOptions options;
        char owner[64];
        bool runs;
} restart;

int __wrap_restart_new(const RestartOptions *options, Restart **ret);
Restart *__wrap_restart_free(Restart *ended);

int __wrap_restart_new(const RestartOptions *options, Restart **ret) {
        restart.options = *options;
        (void) snprintf(restart.owner, sizeof(restart.owner), "%s", options->owner);
        restart.runs = true;
        *ret = (Restart *) &restart;
        return 0;
}

Restart *__wrap_restart_free(Restart *ended) {
        restart.runs = restart.runs && !ended;
        return NULL;
}

static void begin(Fixture *fixture, const Inplaced__V1__RestartRequest *message,
                  RpcRequest *caller) {
        assert_ok(api_restart(caller, message, &fixture->api));
}

static void report(const RestartNews *news) {
        assert_ok(restart.options.on_news(news, restart.options.userdata));
}

TEST_F(test_request, Fixture *fixture) {
        Inplaced__V1__RestartRequest message = INPLACED__V1__RESTART_REQUEST__INIT;
        RpcRequest caller = { .has_room = true }, other = caller;

        message.namespace_ = (char *) "shop";
        message.pod = (char *) "web";
        message.container = (char *) "app";
        message.reason = (char *) "why";
        message.wait = true;
        message.wait_seconds = 7;
        begin(fixture, &message, &caller);
        assert_string_equal(restart.options.namespace, "shop");
        assert_string_equal(restart.options.pod, "web");
        assert_string_equal(restart.options.container, "app");
        assert_string_equal(restart.options.reason, "why");
        assert_true(restart.options.must_wait);
        assert_int_equal(restart.options.wait_sec, 7);
        assert_int_equal(restart.options.grace_sec, STOP_GRACE_OF_POD);
        assert_int_equal(strlen(restart.owner), strlen("request/") + 16);

        message.grace_presence_case = INPLACED__V1__RESTART_REQUEST__GRACE_PRESENCE_GRACE_SECONDS;
        message.grace_seconds = 0;
        begin(fixture, &message, &other);
        assert_int_equal(restart.options.grace_sec, 0);
        assert_int_equal(fixture->api.n_restartings, 2);
        played_leave(&other);
        assert_false(restart.runs);
        assert_int_equal(fixture->api.n_restartings, 1);
        played_leave(&caller);
        assert_null(fixture->api.restartings);
        assert_int_equal(fixture->n_changes, 2);
}

/* Each container's newest state is sent, in turn. */
TEST_F(test_news, Fixture *fixture) {
        Inplaced__V1__RestartRequest message = INPLACED__V1__RESTART_REQUEST__INIT;
        RpcRequest caller = { .has_room = true };

        begin(fixture, &message, &caller);
        report(&(RestartNews){ "shop", "web", "a", RESTART_WAITING, false, "1", "", "it waits" });
        assert_answer(
                &caller,
                "{'namespace':'shop','pod':'web','container':'a','phase':'Waiting','oldContainerID':'1','newContainerID':'','message':'it waits'}\n");
        report(&(RestartNews){ "shop", "web", "a", RESTART_STOPPING, false, "1", "", "" });
        report(&(RestartNews){ "shop", "web", "b", RESTART_STOPPED, true, "\x01", "", "x\ny" });
        report(&(RestartNews){ "shop", "web", "a", RESTART_RUNNING, true, "1", "2", "" });
        assert_answer(&caller, "");
        played_read(&caller);
        assert_answer(
                &caller,
                "{'namespace':'shop','pod':'web','container':'b','phase':'Stopped','oldContainerID':'?','newContainerID':'','message':'x?y'}\n");
        played_read(&caller);
        assert_answer(
                &caller,
                "{'namespace':'shop','pod':'web','container':'a','phase':'Running','oldContainerID':'1','newContainerID':'2','message':''}\n");
        played_read(&caller);
        assert_answer(&caller, "");
        assert_false(caller.has_ended);
        assert_ok(restart.options.on_end(NULL, restart.options.userdata));
        assert_true(caller.has_ended);
        assert_int_equal(caller.refusal.kind, ERROR_NONE);
        assert_false(restart.runs);
        assert_int_equal(fixture->api.n_restartings, 0);
}

static const struct EndRow {
        const char *name;
        ErrorKind kind, shown;
} end_rows[] = {
        { "not found", ERROR_NOT_FOUND, ERROR_NOT_FOUND },
        { "too late", ERROR_TIMEOUT, ERROR_UNAVAILABLE },
        { "canceled", ERROR_CANCELED, ERROR_UNAVAILABLE },
        { "unsupported", ERROR_UNSUPPORTED, ERROR_INTERNAL },
};

/* The end comes behind the last state. */
TEST_ROWS_F(test_end, end_rows, name, const struct EndRow *row, Fixture *fixture) {
        Inplaced__V1__RestartRequest message = INPLACED__V1__RESTART_REQUEST__INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        RpcRequest caller = { .has_room = false };

        begin(fixture, &message, &caller);
        report(&(RestartNews){ "shop", "web", "a", RESTART_FAILED, true, "", "", "" });
        (void) error_set(&error, row->kind, "why");
        assert_ok(restart.options.on_end(&error, restart.options.userdata));
        assert_false(caller.has_ended);
        played_read(&caller);
        assert_answer(
                &caller,
                "{'namespace':'shop','pod':'web','container':'a','phase':'Failed','oldContainerID':'','newContainerID':'','message':''}\n");
        played_read(&caller);
        assert_refusal(&caller, row->shown, "why");
}

TEST_F(test_refusals, Fixture *fixture) {
        Inplaced__V1__RestartRequest message = INPLACED__V1__RESTART_REQUEST__INIT;
        gid_t groups[] = { 5 };
        RpcRequest callers[6] = {
                { .peer = { .uid = 4000000, .pid = 9, .groups = groups, .n_groups = 1 } }
        };

        fixture->api.restart_group = (gid_t) -1;
        for (size_t i = 1; i < N_ELEMENTS(callers); i++)
                callers[i] = callers[0];
        begin(fixture, &message, &callers[0]);
        assert_refusal(
                &callers[0], ERROR_DENIED,
                "an unknown user (uid 4000000, pid 9) may not restart containers, only root may; run it as root, or set restartGroup in inplaced's configuration");
        fixture->api.restart_group = 4;
        fixture->api.restart_group_name = (char *) "ops";
        begin(fixture, &message, &callers[1]);
        assert_refusal(
                &callers[1], ERROR_DENIED,
                "an unknown user (uid 4000000, pid 9) may not restart containers, only root and the members of the group \"ops\" may; run it as root, or join this group");

        fixture->api.restart_group = 5;
        message.wait_seconds = -1;
        begin(fixture, &message, &callers[2]);
        assert_refusal(&callers[2], ERROR_INVALID, "the time to wait is negative");
        message.grace_presence_case = INPLACED__V1__RESTART_REQUEST__GRACE_PRESENCE_GRACE_SECONDS;
        message.grace_seconds = -1;
        begin(fixture, &message, &callers[3]);
        assert_refusal(&callers[3], ERROR_INVALID, "the grace period is negative");
        message.wait_seconds = message.grace_seconds = 0;
        fixture->api.n_restartings = 256;
        begin(fixture, &message, &callers[4]);
        assert_refusal(&callers[4], ERROR_UNAVAILABLE,
                       "too many restarts are in progress; try again later");
        fixture->api.n_restartings = 0;
        fake_runtime.is_away = true;
        begin(fixture, &message, &callers[5]);
        assert_refusal(&callers[5], ERROR_UNAVAILABLE, "nothing listens there");
}
