/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A NodeImage of our own, at an API server that the test plays
 */

#include <time.h>

#include "tests/unit/unit.h"
#include <json-c/json.h>

#include "agent/base/rfc3339.h"
#include "agent/cluster/registration.h"
#include "agent/document/json-cleanup.h"
#include "agent/kube/retry.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/fake-kube.h"

#define NEVER_USEC (3600 * SEC)

#define NODE_PATH "/api/v1/nodes/node-1"
#define OBJECTS_PATH "/apis/apps.kruise.io/v1beta1/nodeimages"
#define OBJECT_PATH OBJECTS_PATH "/node-1"
#define ANNOTATED "\"annotations\":{\"inplaced.io/agent-version\":\"" INPLACED_VERSION "\"}"
#define NODE "{\"metadata\":{\"name\":\"node-1\",\"uid\":\"u-1\",\"labels\":{\"zone\":\"a\"}}}"
#define VIRTUAL_NODE                                                     \
        "{\"metadata\":{\"name\":\"node-1\",\"uid\":\"u-1\",\"labels\":" \
        "{\"type\":\"virtual-kubelet\"}}}"
#define OURS "\"app.kubernetes.io/managed-by\":\"inplaced\""
#define OBJECT_LIKE_NODE "\"zone\":\"a\"," OURS

typedef struct Fixture {
        Registration *registration;
} Fixture;

static void start(Fixture *fixture, uint64_t grace_usec, uint64_t labels_usec) {
        assert_ok(registration_new(
                &(RegistrationOptions){
                        .client = &fake_kube,
                        .version = "v1beta1",
                        .node_name = "node-1",
                        .grace_usec = grace_usec,
                        .labels_usec = labels_usec,
                },
                &fixture->registration));
}

static void open_fixture(Fixture *fixture) {
        fake_kube_open();
}

static void close_fixture(Fixture *fixture) {
        registration_free(fixture->registration);
        fake_clock_done();
        fake_kube_close();
}

DEFINE_FIXTURE(Fixture, open_fixture, close_fixture)

/* Finds the one request under way; NULL: there is none. */
static const KubeRequest *the_request(void) {
        assert_true(fake_kube.n_calls <= 1);
        return fake_kube.n_calls > 0 ? &fake_kube.calls[0]->request : NULL;
}

/* Lets time pass until the agent asks for something. */
static void expect(Fixture *fixture, const char *method, const char *path) {
        fake_clock_turn(fake_kube.event);
        while (!the_request())
                fake_clock_skip(fake_kube.event);

        assert_string_equal(the_request()->method, method);
        assert_string_equal(the_request()->path, path);
        assert_string_equal(the_request()->accept, KUBE_METADATA_ONLY);
}

/* Lets time pass until there is no error any more. */
static void expect_well(Fixture *fixture) {
        while (registration_error(fixture->registration)->kind != ERROR_NONE)
                fake_clock_skip(fake_kube.event);
}

/* Checks that the agent does all pending work now, and sends no request. */
static void expect_nothing(Fixture *fixture) {
        fake_clock_turn(fake_kube.event);
        if (the_request())
                fail_msg("%s %s", the_request()->method, the_request()->path);
}

/* Checks that it does not give up the running request either. */
static void expect_nothing_new(Fixture *fixture, const char *method) {
        const KubeRequest *request = the_request();

        fake_clock_turn(fake_kube.event);
        assert_non_null(request);
        assert_ptr_equal(the_request(), request);
        assert_string_equal(request->method, method);
}

static void expect_body(Fixture *fixture, const char *content_type, const char *text) {
        cleanup(json_object_put_p) json_object *body = NULL, *expected = NULL;

        assert_string_equal(the_request()->content_type, content_type);
        body = json_tokener_parse(the_request()->body);
        expected = json_tokener_parse(text);
        assert_non_null(expected);
        if (!json_object_equal(body, expected))
                fail_msg("%s\n      instead of %s", the_request()->body, text);
}

static void answer(Fixture *fixture, int code, const char *body) {
        assert_ok(fake_kube_answer(code, body));
}

/* Has the watch show the object: its labels, and its other members. */
static void show(Fixture *fixture, const char *version, const char *labels, const char *more) {
        cleanup(json_object_put_p) json_object *json = NULL;
        cleanup(free_p) char *text = NULL;

        assert_true(asprintf(&text,
                             "{\"metadata\":{\"name\":\"node-1\",\"uid\":\"u-2\","
                             "\"resourceVersion\":\"%s\"," ANNOTATED ",\"labels\":{%s}}%s}",
                             version, labels, more) > 0);
        json = json_tokener_parse(text);
        assert_non_null(json);
        assert_ok(registration_on_object(fixture->registration, &(KubeObject){
                                                                        .name = "node-1",
                                                                        .uid = "u-2",
                                                                        .resource_version = version,
                                                                        .json = json,
                                                                }));
}

static void show_nothing(Fixture *fixture) {
        assert_ok(registration_on_object(fixture->registration, NULL));
}

static void start_without_object(Fixture *fixture, uint64_t grace_usec, uint64_t labels_usec) {
        start(fixture, grace_usec, labels_usec);
        show_nothing(fixture);
}

/* The agent asks for the Node, and there is one. */
static void find_node(Fixture *fixture) {
        expect(fixture, "GET", NODE_PATH);
        answer(fixture, 200, NODE);
}

static void assert_error(Fixture *fixture, ErrorKind kind, const char *part) {
        const Error *error = registration_error(fixture->registration);

        assert_int_equal(error->kind, kind);
        if (part && !strstr(error_message(error), part))
                fail_msg("\"%s\" is not in \"%s\"", part, error_message(error));
}

TEST_F(test_creates_one, Fixture *fixture) {
        start(fixture, MSEC, NEVER_USEC);
        expect_nothing(fixture);
        show_nothing(fixture);
        find_node(fixture);
        expect(fixture, "POST", OBJECTS_PATH);
        expect_body(fixture, KUBE_JSON,
                    "{\"apiVersion\":\"apps.kruise.io/v1beta1\",\"kind\":\"NodeImage\","
                    "\"spec\":{},\"metadata\":{\"name\":\"node-1\",\"labels\":{\"zone\":\"a\"," OURS
                    "}," ANNOTATED ",\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"Node\","
                    "\"name\":\"node-1\",\"uid\":\"u-1\"}]}}");
        answer(fixture, 201, "{}");
        expect_nothing(fixture);
        assert_error(fixture, ERROR_NONE, NULL);

        show(fixture, "1", OBJECT_LIKE_NODE, "");
        find_node(fixture);
        expect_nothing(fixture);
}

/* The agent outwaits a program that deletes the object each time. */
TEST_F(test_is_deleted_each_time, Fixture *fixture) {
        uint64_t began, now;

        start_without_object(fixture, MSEC, NEVER_USEC);
        sd_event_now(fake_kube.event, CLOCK_MONOTONIC, &began);
        for (unsigned i = 0; i < 4; i++) {
                expect(fixture, "GET", NODE_PATH);
                answer(fixture, 200, NODE);
                expect(fixture, "POST", OBJECTS_PATH);
                answer(fixture, 201, "{}");
                show(fixture, "1", OBJECT_LIKE_NODE, "");
                expect(fixture, "GET", NODE_PATH);
                answer(fixture, 200, NODE);
                show_nothing(fixture);
        }
        sd_event_now(fake_kube.event, CLOCK_MONOTONIC, &now);
        assert_true(now - began >= 1750 * MSEC); /* 0.25, 0.5 and 1 s */
        expect_nothing(fixture);
}

TEST_F(test_controller_is_quicker, Fixture *fixture) {
        start_without_object(fixture, MSEC, NEVER_USEC);
        find_node(fixture);
        expect(fixture, "POST", OBJECTS_PATH);
        answer(fixture, 409, "{}");
        expect_nothing(fixture);
        assert_error(fixture, ERROR_NONE, NULL);
}

TEST_F(test_grace, Fixture *fixture) {
        start_without_object(fixture, NEVER_USEC, NEVER_USEC);
        expect_nothing(fixture);
        assert_ok(registration_kick(fixture->registration));
        expect_nothing(fixture);
}

/* Also while it is about to be created. */
TEST_F(test_leaves_others_alone, Fixture *fixture) {
        start_without_object(fixture, MSEC, MSEC);
        expect(fixture, "GET", NODE_PATH);
        show(fixture, "1", "\"zone\":\"b\"",
             ",\"spec\":{\"images\":{\"a\":{\"tags\":[{\"tag\":\"1\",\"pullPolicy\":"
             "{\"ttlSecondsAfterFinished\":0}}]}}},\"status\":{\"imageStatuses\":{\"a\":{\"tags\":"
             "[{\"tag\":\"1\",\"phase\":\"Failed\",\"completionTime\":\"2020-01-01T00:00:00Z\"}]}}}");
        assert_null(the_request());
        expect_nothing(fixture);
        assert_ok(registration_kick(fixture->registration));
        expect_nothing(fixture);
}

TEST_F(test_virtual_node, Fixture *fixture) {
        start_without_object(fixture, MSEC, NEVER_USEC);
        expect(fixture, "GET", NODE_PATH);
        answer(fixture, 200, VIRTUAL_NODE);
        expect_nothing(fixture);
        assert_error(fixture, ERROR_NONE, NULL);
}

TEST_F(test_virtual_node_is_read_again, Fixture *fixture) {
        start_without_object(fixture, MSEC, MSEC);
        expect(fixture, "GET", NODE_PATH);
        answer(fixture, 200, VIRTUAL_NODE);
        find_node(fixture);
        expect(fixture, "POST", OBJECTS_PATH);
}

TEST_F(test_node_is_missing, Fixture *fixture) {
        start_without_object(fixture, MSEC, NEVER_USEC);
        expect(fixture, "GET", NODE_PATH);
        answer(fixture, 404, "{}");
        assert_error(fixture, ERROR_NOT_FOUND, "there is no Node \"node-1\"");
        assert_null(the_request());

        find_node(fixture);
        expect(fixture, "POST", OBJECTS_PATH);
        answer(fixture, 201, "{}");
        assert_error(fixture, ERROR_NONE, NULL);
}

/* A refusal that does not end by itself is tried again once a minute, an outage sooner. */
TEST_F(test_rights_are_missing, Fixture *fixture) {
        start_without_object(fixture, MSEC, NEVER_USEC);
        expect(fixture, "GET", NODE_PATH);
        answer(fixture, 403, "{}");
        assert_error(fixture, ERROR_DENIED, "the right to get nodes is missing");
        fake_clock_pass(fake_kube.event, 59 * SEC);
        expect_nothing(fixture);

        assert_ok(registration_kick(fixture->registration));
        find_node(fixture);
        expect(fixture, "POST", OBJECTS_PATH);
        answer(fixture, 403, "{}");
        assert_error(fixture, ERROR_DENIED,
                     "the right to create nodeimages.apps.kruise.io is missing");

        show(fixture, "1", "", "");
        assert_error(fixture, ERROR_NONE, NULL);
}

TEST_F(test_server_is_away, Fixture *fixture) {
        static const int codes[] = { 0, 503 };

        start_without_object(fixture, MSEC, NEVER_USEC);
        for (size_t i = 0; i < N_ELEMENTS(codes); i++) {
                expect(fixture, "GET", NODE_PATH);
                answer(fixture, codes[i], "");
                assert_error(fixture, ERROR_UNAVAILABLE, "code");
                assert_null(the_request());
                fake_clock_pass(fake_kube.event, 30 * SEC);
                assert_non_null(the_request());
        }
        expect(fixture, "GET", NODE_PATH);
}

TEST_F(test_node_makes_no_sense, Fixture *fixture) {
        static const char *const bodies[] = { "", "{", "[]", "{}", "{\"metadata\":{}}", "x: y" };

        start_without_object(fixture, MSEC, NEVER_USEC);
        for (size_t i = 0; i < N_ELEMENTS(bodies); i++) {
                expect(fixture, "GET", NODE_PATH);
                answer(fixture, 200, bodies[i]);
                assert_error(fixture, ERROR_INVALID, NULL);
                expect_nothing(fixture);
                assert_ok(registration_kick(fixture->registration));
        }
}

/* Another report that there is none must not put it off. */
TEST_F(test_is_deleted, Fixture *fixture) {
        start(fixture, 20 * MSEC, NEVER_USEC);
        show(fixture, "1", OBJECT_LIKE_NODE, "");
        expect(fixture, "GET", NODE_PATH);
        show_nothing(fixture);
        assert_null(the_request());
        show_nothing(fixture);
        expect(fixture, "GET", NODE_PATH);
        show_nothing(fixture);
        answer(fixture, 404, "{}");
        show_nothing(fixture);
        assert_null(the_request());
        expect(fixture, "GET", NODE_PATH);
}

TEST_F(test_labels_follow_the_node, Fixture *fixture) {
        start(fixture, MSEC, 20 * MSEC);
        show(fixture, "7", "\"zone\":\"b\",\"old\":\"1\"," OURS, "");
        find_node(fixture);
        expect(fixture, "PATCH", OBJECT_PATH);
        expect_body(fixture, KUBE_MERGE_PATCH,
                    "{\"metadata\":{\"uid\":\"u-2\",\"resourceVersion\":\"7\","
                    "\"labels\":{\"zone\":\"a\",\"old\":null}}}");
        answer(fixture, 200, "{}");
        assert_null(the_request());
        show(fixture, "8", OBJECT_LIKE_NODE, "");

        /* Again and again. */
        find_node(fixture);
        expect(fixture, "GET", NODE_PATH);
}

TEST_F(test_conflict_waits_for_the_next_object, Fixture *fixture) {
        start(fixture, MSEC, NEVER_USEC);
        show(fixture, "7", OURS, "");
        find_node(fixture);
        expect(fixture, "PATCH", OBJECT_PATH);
        answer(fixture, 409, "{}");
        expect_nothing(fixture);
        assert_error(fixture, ERROR_NONE, NULL);

        show(fixture, "8", OURS, "");
        find_node(fixture);
        expect(fixture, "PATCH", OBJECT_PATH);
        expect_body(fixture, KUBE_MERGE_PATCH,
                    "{\"metadata\":{\"uid\":\"u-2\",\"resourceVersion\":\"8\","
                    "\"labels\":{\"zone\":\"a\"}}}");
}

static void show_finished(Fixture *fixture, const char *version, int64_t completed_at,
                          unsigned ttl_sec) {
        cleanup(free_p) char *more = NULL;
        char time[RFC3339_SIZE];

        assert_true(asprintf(&more,
                             ",\"spec\":{\"images\":{\"a\":{\"tags\":[{\"tag\":\"1\","
                             "\"pullPolicy\":{\"ttlSecondsAfterFinished\":%u}}]}}},"
                             "\"status\":{\"imageStatuses\":{\"a\":{\"tags\":[{\"tag\":\"1\","
                             "\"phase\":\"Failed\",\"completionTime\":\"%s\"}]}}}",
                             ttl_sec, rfc3339_format(completed_at, time)) > 0);
        show(fixture, version, OBJECT_LIKE_NODE, more);
}

static void expect_tidying(Fixture *fixture, const char *version) {
        cleanup(free_p) char *text = NULL;

        assert_true(asprintf(&text,
                             "{\"metadata\":{\"uid\":\"u-2\",\"resourceVersion\":\"%s\"},"
                             "\"spec\":{\"images\":{\"a\":null}}}",
                             version) > 0);
        expect(fixture, "PATCH", OBJECT_PATH);
        expect_body(fixture, KUBE_MERGE_PATCH, text);
}

TEST_F(test_finished_tags_leave, Fixture *fixture) {
        start(fixture, MSEC, NEVER_USEC);
        show_finished(fixture, "7", time(NULL) - 60, 30);
        find_node(fixture);
        expect_tidying(fixture, "7");
        answer(fixture, 409, "{}");
        expect_nothing(fixture);

        show_finished(fixture, "8", time(NULL) - 60, 30);
        expect_tidying(fixture, "8");
        answer(fixture, 503, "{}");
        assert_error(fixture, ERROR_UNAVAILABLE, NULL);
        assert_null(the_request());

        expect_tidying(fixture, "8");
        answer(fixture, 200, "{}");
        assert_error(fixture, ERROR_NONE, NULL);
        expect_nothing(fixture);
        show(fixture, "9", OBJECT_LIKE_NODE, "");
        expect_nothing(fixture);
}

/* The agent outwaits a program that puts the tags back; it removes tags that have ended anew. */
TEST_F(test_tags_come_back, Fixture *fixture) {
        int64_t ended_at = time(NULL) - 60;
        uint64_t began, now;

        start(fixture, MSEC, NEVER_USEC);
        show_finished(fixture, "1", ended_at, 30);
        find_node(fixture);
        sd_event_now(fake_kube.event, CLOCK_MONOTONIC, &began);
        for (unsigned i = 0; i < 3; i++) {
                const char *version = (const char *[]){ "1", "2", "3" }[i];

                if (i > 0)
                        show_finished(fixture, version, ended_at, 30);
                expect_tidying(fixture, version);
                answer(fixture, 200, "{}");
        }
        sd_event_now(fake_kube.event, CLOCK_MONOTONIC, &now);
        assert_true(now - began >= 750 * MSEC); /* 0.25 and 0.5 s */

        show_finished(fixture, "4", ended_at, 30);
        expect_nothing(fixture);
        assert_ok(registration_kick(fixture->registration));
        expect_nothing(fixture);
        show_finished(fixture, "5", ended_at + 1, 30);
        expect_nothing(fixture);
        expect_tidying(fixture, "5");
}

TEST_F(test_finished_tags_leave_in_time, Fixture *fixture) {
        int64_t now = time(NULL);
        struct timespec then;

        start(fixture, MSEC, NEVER_USEC);
        show_finished(fixture, "7", now, 1);
        find_node(fixture);
        while (!the_request()) /* by the clock of the day, which goes */
                assert_true(sd_event_run(fake_kube.event, UINT64_MAX) > 0);
        expect_tidying(fixture, "7");
        /* Not by time(), which may be a tick behind. */
        assert_ok(clock_gettime(CLOCK_REALTIME, &then));
        assert_true(then.tv_sec >= now + 1);
}

/* Labels are not worth it that tags stay. */
TEST_F(test_tidies_without_the_node, Fixture *fixture) {
        start(fixture, MSEC, NEVER_USEC);
        show_finished(fixture, "7", time(NULL) - 60, 30);
        expect(fixture, "GET", NODE_PATH);
        answer(fixture, 403, "{}");
        assert_error(fixture, ERROR_DENIED, "the right to get nodes is missing");
        expect_tidying(fixture, "7");
        answer(fixture, 403, "{}");
        assert_error(fixture, ERROR_DENIED,
                     "the right to patch nodeimages.apps.kruise.io is missing");
        expect_nothing(fixture);

        assert_ok(registration_kick(fixture->registration));
        expect_tidying(fixture, "7");
}

/* The answer and the watch's news of it come in any order. */
TEST_F(test_news_before_the_answer, Fixture *fixture) {
        start(fixture, MSEC, NEVER_USEC);
        show(fixture, "1", OBJECT_LIKE_NODE, "");
        find_node(fixture);
        show_finished(fixture, "7", time(NULL) - 60, 30);
        expect_tidying(fixture, "7");
        show_finished(fixture, "8", time(NULL) - 60, 40);
        answer(fixture, 409, "{}");
        expect_tidying(fixture, "8");
        answer(fixture, 404, "{}");
        expect_nothing(fixture);
        assert_error(fixture, ERROR_NONE, NULL);
}

/* The new labels may come with a tag that has to leave. */
TEST_F(test_news_before_the_answer_about_labels, Fixture *fixture) {
        start(fixture, MSEC, NEVER_USEC);
        show(fixture, "7", OURS, "");
        find_node(fixture);
        expect(fixture, "PATCH", OBJECT_PATH);
        show_finished(fixture, "8", time(NULL) - 60, 30);
        expect_nothing_new(fixture, "PATCH");
        answer(fixture, 200, "{}");
        expect_tidying(fixture, "8");
}

/* The patch has worked although its answer was lost: there is nothing to try again. */
TEST_F(test_answer_to_a_patch_is_lost, Fixture *fixture) {
        start(fixture, MSEC, NEVER_USEC);
        show(fixture, "6", OURS, "");
        find_node(fixture);
        expect(fixture, "PATCH", OBJECT_PATH);
        answer(fixture, 0, "");
        assert_error(fixture, ERROR_UNAVAILABLE, NULL);
        show(fixture, "7", OBJECT_LIKE_NODE, "");
        find_node(fixture);
        assert_error(fixture, ERROR_NONE, NULL);

        show_finished(fixture, "8", time(NULL) - 60, 30);
        expect_tidying(fixture, "8");
        answer(fixture, 0, "");
        assert_error(fixture, ERROR_UNAVAILABLE, NULL);
        show(fixture, "9", OBJECT_LIKE_NODE, "");
        expect_well(fixture);
        expect_nothing(fixture);
}

/* Each of them was a success: the next failure is the first one again, and soon tried again. */
TEST_F(test_answers_to_patches_are_lost, Fixture *fixture) {
        char version[8];

        start(fixture, MSEC, NEVER_USEC);
        show(fixture, "6", OBJECT_LIKE_NODE, "");
        find_node(fixture);
        for (unsigned i = 10; i < 30; i += 2) {
                (void) snprintf(version, sizeof(version), "%u", i);
                show_finished(fixture, version, time(NULL) - 60, 30);
                expect_tidying(fixture, version);
                answer(fixture, 0, "");
                assert_true(fake_clock_delay() <= KUBE_RETRY_MIN_USEC * 6 / 5);
                (void) snprintf(version, sizeof(version), "%u", i + 1);
                show(fixture, version, OBJECT_LIKE_NODE, "");
                expect_well(fixture);
        }
}

/* An equal object does not mean that the Node could be read. */
TEST_F(test_other_errors_stay, Fixture *fixture) {
        start(fixture, MSEC, NEVER_USEC);
        show(fixture, "7", OBJECT_LIKE_NODE, "");
        expect(fixture, "GET", NODE_PATH);
        answer(fixture, 403, "{}");
        show(fixture, "8", OBJECT_LIKE_NODE, "");
        expect_nothing(fixture);
        assert_error(fixture, ERROR_DENIED, "the right to get nodes is missing");
}

TEST_F(test_is_taken_over, Fixture *fixture) {
        start(fixture, MSEC, NEVER_USEC);
        show(fixture, "1", OURS, "");
        expect(fixture, "GET", NODE_PATH);
        show(fixture, "2", "\"app.kubernetes.io/managed-by\":\"another\"", "");
        assert_null(the_request());
        expect_nothing(fixture);
}

/* The server has made it, and the watch has shown it come and go, before the answer. */
TEST_F(test_is_deleted_while_being_created, Fixture *fixture) {
        start_without_object(fixture, MSEC, NEVER_USEC);
        find_node(fixture);
        expect(fixture, "POST", OBJECTS_PATH);
        show(fixture, "1", "", "");
        expect_nothing_new(fixture, "POST");
        show_nothing(fixture);
        fake_clock_skip(fake_kube.event);
        expect(fixture, "GET", NODE_PATH);

        /* It is an ordinary one: who finds an object need not ask on. */
        show(fixture, "3", "", "");
        expect_nothing(fixture);
}

/* The end of each test checks that nothing is left of the call. */
TEST_F(test_ends_in_the_middle, Fixture *fixture) {
        start_without_object(fixture, MSEC, NEVER_USEC);
        find_node(fixture);
        expect(fixture, "POST", OBJECTS_PATH);
}
