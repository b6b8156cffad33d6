/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A NodeImage of our own, at an API server that the test plays
 */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <json-c/json.h>

#include "agent/base/cleanup.h"
#include "agent/base/rfc3339.h"
#include "agent/cluster/registration.h"
#include "agent/document/json-cleanup.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/fake-kube.h"

#define MSEC ((uint64_t) 1000)
#define SEC ((uint64_t) 1000000)
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
        assert_int_equal(registration_new(
                                 &(RegistrationOptions){
                                         .client = &fake_kube,
                                         .version = "v1beta1",
                                         .node_name = "node-1",
                                         .grace_usec = grace_usec,
                                         .labels_usec = labels_usec,
                                 },
                                 &fixture->registration),
                         0);
}

static int set_up(void **state) {
        Fixture *fixture = calloc(1, sizeof(*fixture));

        fake_kube_open();
        *state = fixture;
        return 0;
}

static int tear_down(void **state) {
        Fixture *fixture = *state;

        registration_free(fixture->registration);
        fake_clock_done();
        fake_kube_close();
        free(fixture);
        return 0;
}

/* The one request that is under way; NULL: none is. */
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

/* Lets time pass until nothing is wrong any more. */
static void expect_well(Fixture *fixture) {
        while (registration_error(fixture->registration)->kind != ERROR_NONE)
                fake_clock_skip(fake_kube.event);
}

/* The agent does all that it has to do now, and asks for nothing. */
static void expect_nothing(Fixture *fixture) {
        fake_clock_turn(fake_kube.event);
        if (the_request())
                fail_msg("%s %s", the_request()->method, the_request()->path);
}

/* Nor is what runs given up. */
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
        assert_int_equal(fake_kube_answer(code, body), 0);
}

/* The watch shows the object: its labels, and what else it has. */
static void show(Fixture *fixture, const char *version, const char *labels, const char *more) {
        cleanup(json_object_put_p) json_object *json = NULL;
        cleanup(free_p) char *text = NULL;

        assert_true(asprintf(&text,
                             "{\"metadata\":{\"name\":\"node-1\",\"uid\":\"u-2\","
                             "\"resourceVersion\":\"%s\"," ANNOTATED ",\"labels\":{%s}}%s}",
                             version, labels, more) > 0);
        json = json_tokener_parse(text);
        assert_non_null(json);
        assert_int_equal(registration_on_object(fixture->registration,
                                                &(KubeObject){
                                                        .name = "node-1",
                                                        .uid = "u-2",
                                                        .resource_version = version,
                                                        .json = json,
                                                }),
                         0);
}

static void show_nothing(Fixture *fixture) {
        assert_int_equal(registration_on_object(fixture->registration, NULL), 0);
}

static void assert_error(Fixture *fixture, ErrorKind kind, const char *part) {
        const Error *error = registration_error(fixture->registration);

        assert_int_equal(error->kind, kind);
        if (part && !strstr(error_message(error), part))
                fail_msg("\"%s\" is not in \"%s\"", part, error_message(error));
}

static void test_creates_one(void **state) {
        Fixture *fixture = *state;

        start(fixture, MSEC, NEVER_USEC);
        expect_nothing(fixture);
        show_nothing(fixture);
        expect(fixture, "GET", NODE_PATH);
        answer(fixture, 200, NODE);
        expect(fixture, "POST", OBJECTS_PATH);
        expect_body(fixture, KUBE_JSON,
                    "{\"apiVersion\":\"apps.kruise.io/v1beta1\",\"kind\":\"NodeImage\","
                    "\"spec\":{},\"metadata\":{\"name\":\"node-1\",\"labels\":{\"zone\":\"a\"," OURS
                    "}," ANNOTATED ",\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"Node\","
                    "\"name\":\"node-1\",\"uid\":\"u-1\"}]}}");
        answer(fixture, 201, "{}");
        expect_nothing(fixture);
        assert_error(fixture, ERROR_NONE, NULL);
        assert_false(registration_is_ours(fixture->registration));

        show(fixture, "1", OBJECT_LIKE_NODE, "");
        assert_true(registration_is_ours(fixture->registration));
        expect(fixture, "GET", NODE_PATH);
        answer(fixture, 200, NODE);
        expect_nothing(fixture);
}

/* One who deletes it each time is outwaited. */
static void test_is_deleted_each_time(void **state) {
        Fixture *fixture = *state;
        uint64_t began, now;

        start(fixture, MSEC, NEVER_USEC);
        show_nothing(fixture);
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

static void test_controller_is_quicker(void **state) {
        Fixture *fixture = *state;

        start(fixture, MSEC, NEVER_USEC);
        show_nothing(fixture);
        expect(fixture, "GET", NODE_PATH);
        answer(fixture, 200, NODE);
        expect(fixture, "POST", OBJECTS_PATH);
        answer(fixture, 409, "{}");
        expect_nothing(fixture);
        assert_error(fixture, ERROR_NONE, NULL);
}

static void test_grace(void **state) {
        Fixture *fixture = *state;

        start(fixture, NEVER_USEC, NEVER_USEC);
        show_nothing(fixture);
        expect_nothing(fixture);
        assert_int_equal(registration_kick(fixture->registration), 0);
        expect_nothing(fixture);
}

/* Also while it is about to be created. */
static void test_leaves_others_alone(void **state) {
        Fixture *fixture = *state;

        start(fixture, MSEC, MSEC);
        show_nothing(fixture);
        expect(fixture, "GET", NODE_PATH);
        show(fixture, "1", "\"zone\":\"b\"",
             ",\"spec\":{\"images\":{\"a\":{\"tags\":[{\"tag\":\"1\",\"pullPolicy\":"
             "{\"ttlSecondsAfterFinished\":0}}]}}},\"status\":{\"imageStatuses\":{\"a\":{\"tags\":"
             "[{\"tag\":\"1\",\"phase\":\"Failed\",\"completionTime\":\"2020-01-01T00:00:00Z\"}]}}}");
        assert_null(the_request());
        expect_nothing(fixture);
        assert_false(registration_is_ours(fixture->registration));
        assert_int_equal(registration_kick(fixture->registration), 0);
        expect_nothing(fixture);
}

static void test_virtual_node(void **state) {
        Fixture *fixture = *state;

        start(fixture, MSEC, NEVER_USEC);
        show_nothing(fixture);
        expect(fixture, "GET", NODE_PATH);
        answer(fixture, 200, VIRTUAL_NODE);
        expect_nothing(fixture);
        assert_error(fixture, ERROR_NONE, NULL);
}

static void test_virtual_node_is_read_again(void **state) {
        Fixture *fixture = *state;

        start(fixture, MSEC, MSEC);
        show_nothing(fixture);
        expect(fixture, "GET", NODE_PATH);
        answer(fixture, 200, VIRTUAL_NODE);
        expect(fixture, "GET", NODE_PATH);
        answer(fixture, 200, NODE);
        expect(fixture, "POST", OBJECTS_PATH);
}

static void test_node_is_missing(void **state) {
        Fixture *fixture = *state;

        start(fixture, MSEC, NEVER_USEC);
        show_nothing(fixture);
        expect(fixture, "GET", NODE_PATH);
        answer(fixture, 404, "{}");
        assert_error(fixture, ERROR_NOT_FOUND, "there is no Node \"node-1\"");
        assert_null(the_request());

        expect(fixture, "GET", NODE_PATH);
        answer(fixture, 200, NODE);
        expect(fixture, "POST", OBJECTS_PATH);
        answer(fixture, 201, "{}");
        assert_error(fixture, ERROR_NONE, NULL);
}

static void test_rights_are_missing(void **state) {
        Fixture *fixture = *state;

        start(fixture, MSEC, NEVER_USEC);
        show_nothing(fixture);
        expect(fixture, "GET", NODE_PATH);
        answer(fixture, 403, "{}");
        assert_error(fixture, ERROR_DENIED, "the right to get nodes is missing");
        expect_nothing(fixture);

        assert_int_equal(registration_kick(fixture->registration), 0);
        expect(fixture, "GET", NODE_PATH);
        answer(fixture, 200, NODE);
        expect(fixture, "POST", OBJECTS_PATH);
        answer(fixture, 403, "{}");
        assert_error(fixture, ERROR_DENIED,
                     "the right to create nodeimages.apps.kruise.io is missing");

        show(fixture, "1", "", "");
        assert_error(fixture, ERROR_NONE, NULL);
}

static void test_server_is_away(void **state) {
        static const int codes[] = { 0, 503 };
        Fixture *fixture = *state;

        start(fixture, MSEC, NEVER_USEC);
        show_nothing(fixture);
        for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
                expect(fixture, "GET", NODE_PATH);
                answer(fixture, codes[i], "");
                assert_error(fixture, ERROR_UNAVAILABLE, "code");
                assert_null(the_request());
        }
        expect(fixture, "GET", NODE_PATH);
}

static void test_node_makes_no_sense(void **state) {
        static const char *const bodies[] = { "", "{", "[]", "{}", "{\"metadata\":{}}", "x: y" };
        Fixture *fixture = *state;

        start(fixture, MSEC, NEVER_USEC);
        show_nothing(fixture);
        for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
                expect(fixture, "GET", NODE_PATH);
                answer(fixture, 200, bodies[i]);
                assert_error(fixture, ERROR_INVALID, NULL);
                expect_nothing(fixture);
                assert_int_equal(registration_kick(fixture->registration), 0);
        }
}

/* Another report that there is none must not put it off. */
static void test_is_deleted(void **state) {
        Fixture *fixture = *state;

        start(fixture, 20 * MSEC, NEVER_USEC);
        show(fixture, "1", OBJECT_LIKE_NODE, "");
        expect(fixture, "GET", NODE_PATH);
        show_nothing(fixture);
        assert_null(the_request());
        assert_false(registration_is_ours(fixture->registration));
        show_nothing(fixture);
        expect(fixture, "GET", NODE_PATH);
        show_nothing(fixture);
        answer(fixture, 404, "{}");
        show_nothing(fixture);
        assert_null(the_request());
        expect(fixture, "GET", NODE_PATH);
}

static void test_labels_follow_the_node(void **state) {
        Fixture *fixture = *state;

        start(fixture, MSEC, 20 * MSEC);
        show(fixture, "7", "\"zone\":\"b\",\"old\":\"1\"," OURS, "");
        expect(fixture, "GET", NODE_PATH);
        answer(fixture, 200, NODE);
        expect(fixture, "PATCH", OBJECT_PATH);
        expect_body(fixture, KUBE_MERGE_PATCH,
                    "{\"metadata\":{\"uid\":\"u-2\",\"resourceVersion\":\"7\","
                    "\"labels\":{\"zone\":\"a\",\"old\":null}}}");
        answer(fixture, 200, "{}");
        assert_null(the_request());
        show(fixture, "8", OBJECT_LIKE_NODE, "");

        /* Again and again. */
        expect(fixture, "GET", NODE_PATH);
        answer(fixture, 200, NODE);
        expect(fixture, "GET", NODE_PATH);
}

static void test_conflict_waits_for_the_next_object(void **state) {
        Fixture *fixture = *state;

        start(fixture, MSEC, NEVER_USEC);
        show(fixture, "7", OURS, "");
        expect(fixture, "GET", NODE_PATH);
        answer(fixture, 200, NODE);
        expect(fixture, "PATCH", OBJECT_PATH);
        answer(fixture, 409, "{}");
        expect_nothing(fixture);
        assert_error(fixture, ERROR_NONE, NULL);

        show(fixture, "8", OURS, "");
        expect(fixture, "GET", NODE_PATH);
        answer(fixture, 200, NODE);
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

static void test_finished_tags_leave(void **state) {
        Fixture *fixture = *state;

        start(fixture, MSEC, NEVER_USEC);
        show_finished(fixture, "7", time(NULL) - 60, 30);
        expect(fixture, "GET", NODE_PATH);
        answer(fixture, 200, NODE);
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

/* One who puts them back as they were is outwaited; what has ended anew is not. */
static void test_tags_come_back(void **state) {
        Fixture *fixture = *state;
        int64_t ended_at = time(NULL) - 60;
        uint64_t began, now;

        start(fixture, MSEC, NEVER_USEC);
        show_finished(fixture, "1", ended_at, 30);
        expect(fixture, "GET", NODE_PATH);
        answer(fixture, 200, NODE);
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
        assert_int_equal(registration_kick(fixture->registration), 0);
        expect_nothing(fixture);
        show_finished(fixture, "5", ended_at + 1, 30);
        expect_nothing(fixture);
        expect_tidying(fixture, "5");
}

static void test_finished_tags_leave_in_time(void **state) {
        Fixture *fixture = *state;
        int64_t now = time(NULL);
        struct timespec then;

        start(fixture, MSEC, NEVER_USEC);
        show_finished(fixture, "7", now, 1);
        expect(fixture, "GET", NODE_PATH);
        answer(fixture, 200, NODE);
        while (!the_request()) /* by the clock of the day, which goes */
                assert_true(sd_event_run(fake_kube.event, UINT64_MAX) > 0);
        expect_tidying(fixture, "7");
        /* Not by time(), which may be a tick behind. */
        assert_int_equal(clock_gettime(CLOCK_REALTIME, &then), 0);
        assert_true(then.tv_sec >= now + 1);
}

/* Labels are not worth it that tags stay. */
static void test_tidies_without_the_node(void **state) {
        Fixture *fixture = *state;

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

        assert_int_equal(registration_kick(fixture->registration), 0);
        expect_tidying(fixture, "7");
}

/* The answer and the news of it come in any order. */
static void test_news_before_the_answer(void **state) {
        Fixture *fixture = *state;

        start(fixture, MSEC, NEVER_USEC);
        show(fixture, "1", OBJECT_LIKE_NODE, "");
        expect(fixture, "GET", NODE_PATH);
        answer(fixture, 200, NODE);
        show_finished(fixture, "7", time(NULL) - 60, 30);
        expect_tidying(fixture, "7");
        show_finished(fixture, "8", time(NULL) - 60, 40);
        answer(fixture, 409, "{}");
        expect_tidying(fixture, "8");
        answer(fixture, 404, "{}");
        expect_nothing(fixture);
        assert_error(fixture, ERROR_NONE, NULL);
}

/* What the patch was for is true all the same: there is nothing to try again. */
static void test_answer_to_a_patch_is_lost(void **state) {
        Fixture *fixture = *state;

        start(fixture, MSEC, NEVER_USEC);
        show(fixture, "6", OURS, "");
        expect(fixture, "GET", NODE_PATH);
        answer(fixture, 200, NODE);
        expect(fixture, "PATCH", OBJECT_PATH);
        answer(fixture, 0, "");
        assert_error(fixture, ERROR_UNAVAILABLE, NULL);
        show(fixture, "7", OBJECT_LIKE_NODE, "");
        expect(fixture, "GET", NODE_PATH);
        answer(fixture, 200, NODE);
        assert_error(fixture, ERROR_NONE, NULL);

        show_finished(fixture, "8", time(NULL) - 60, 30);
        expect_tidying(fixture, "8");
        answer(fixture, 0, "");
        assert_error(fixture, ERROR_UNAVAILABLE, NULL);
        show(fixture, "9", OBJECT_LIKE_NODE, "");
        expect_well(fixture);
        expect_nothing(fixture);
}

/* That nothing differs does not mean that the Node could be read. */
static void test_other_errors_stay(void **state) {
        Fixture *fixture = *state;

        start(fixture, MSEC, NEVER_USEC);
        show(fixture, "7", OBJECT_LIKE_NODE, "");
        expect(fixture, "GET", NODE_PATH);
        answer(fixture, 403, "{}");
        show(fixture, "8", OBJECT_LIKE_NODE, "");
        expect_nothing(fixture);
        assert_error(fixture, ERROR_DENIED, "the right to get nodes is missing");
}

static void test_is_taken_over(void **state) {
        Fixture *fixture = *state;

        start(fixture, MSEC, NEVER_USEC);
        show(fixture, "1", OURS, "");
        assert_true(registration_is_ours(fixture->registration));
        expect(fixture, "GET", NODE_PATH);
        show(fixture, "2", "\"app.kubernetes.io/managed-by\":\"another\"", "");
        assert_false(registration_is_ours(fixture->registration));
        assert_null(the_request());
        expect_nothing(fixture);
}

/* The server has made it, and the watch has shown it come and go, before the answer. */
static void test_is_deleted_while_being_created(void **state) {
        Fixture *fixture = *state;

        start(fixture, MSEC, NEVER_USEC);
        show_nothing(fixture);
        expect(fixture, "GET", NODE_PATH);
        answer(fixture, 200, NODE);
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

/* tear_down() finds that nothing is left of the call. */
static void test_ends_in_the_middle(void **state) {
        Fixture *fixture = *state;

        start(fixture, MSEC, NEVER_USEC);
        show_nothing(fixture);
        expect(fixture, "GET", NODE_PATH);
        answer(fixture, 200, NODE);
        expect(fixture, "POST", OBJECTS_PATH);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_creates_one),
                TEST(test_is_deleted_each_time),
                TEST(test_controller_is_quicker),
                TEST(test_grace),
                TEST(test_leaves_others_alone),
                TEST(test_virtual_node),
                TEST(test_virtual_node_is_read_again),
                TEST(test_node_is_missing),
                TEST(test_rights_are_missing),
                TEST(test_server_is_away),
                TEST(test_node_makes_no_sense),
                TEST(test_is_deleted),
                TEST(test_labels_follow_the_node),
                TEST(test_conflict_waits_for_the_next_object),
                TEST(test_finished_tags_leave),
                TEST(test_finished_tags_leave_in_time),
                TEST(test_tags_come_back),
                TEST(test_tidies_without_the_node),
                TEST(test_news_before_the_answer),
                TEST(test_answer_to_a_patch_is_lost),
                TEST(test_other_errors_stay),
                TEST(test_is_taken_over),
                TEST(test_is_deleted_while_being_created),
                TEST(test_ends_in_the_middle),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
