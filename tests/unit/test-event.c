/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Events
 */

#include "tests/unit/unit.h"

#include <json-c/json.h>

#include "agent/base/rfc3339.h"
#include "agent/kube/event-spec.h"
#include "agent/kube/event.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/fake-kube.h"
#include "tests/unit/stderr-capture.h"

#define POSTED "/api/v1/namespaces/default/events"

static const KubeReference node = {
        .api_version = "apps.kruise.io/v1beta1",
        .kind = "NodeImage",
        .name = "node-1",
        .uid = "1234",
        .resource_version = "7",
};

static const KubeReference job = {
        .api_version = "apps.kruise.io/v1beta1",
        .kind = "ImagePullJob",
        .namespace = "team",
        .name = "job",
};

/* Events under test, with a log that writes into the pipe. */
typedef struct Fixture {
        KubeEvents *events;
        Log *log;
        Stderr captured;
} Fixture;

static void fixture_open(Fixture *fixture) {
        fake_kube_open();
        stderr_pipe(&fixture->captured);
        assert_ok(log_new(LOG_FORMAT_TEXT, LOG_INFO, &fixture->log));
        assert_ok(kube_events_new(&(KubeEventsOptions){ .client = &fake_kube,
                                                        .log = fixture->log,
                                                        .component = "inplaced",
                                                        .node_name = "node-1" },
                                  &fixture->events));
}

/* How many lines were logged. */
static unsigned fixture_close(Fixture *fixture) {
        unsigned n_lines = 0;

        kube_events_free(fixture->events);
        log_free(fixture->log);
        for (const char *c = stderr_restore(&fixture->captured); *c; c++)
                n_lines += *c == '\n';
        fake_clock_done();
        fake_kube_close();
        return n_lines;
}

static void send_about(Fixture *fixture, const KubeReference *object, const char *message) {
        assert_ok(kube_event_send(fixture->events, object, "Warning", "PullImageFailed", message));
}

static void send_text(Fixture *fixture, const char *message) {
        send_about(fixture, &node, message);
}

static void send_number(Fixture *fixture, unsigned n) {
        char name[32], message[32];
        const KubeReference object = { .kind = "Pod", .namespace = "team", .name = name };

        (void) snprintf(name, sizeof(name), "pod-%u", n / 10);
        (void) snprintf(message, sizeof(message), "message %u", n);
        send_about(fixture, &object, message);
}

/* Checks that the oldest call is such a request; its body is kept until the next one is inspected. */
static json_object *expect_call(const char *method, const char *path) {
        static json_object *json;

        json_object_put(json);
        json = NULL;
        if (!method)
                return NULL;

        assert_true(fake_kube.n_calls > 0);
        assert_string_equal(fake_kube.calls[0]->request.method, method);
        assert_int_equal(strncmp(fake_kube.calls[0]->request.path, path, strlen(path)), 0);
        json = json_tokener_parse(fake_kube.calls[0]->request.body);
        assert_non_null(json);
        return json;
}

static const char *text_of(json_object *json, const char *first, const char *second) {
        json_object *value = json_object_object_get(json, first);

        return json_object_get_string(second ? json_object_object_get(value, second) : value);
}

static void assert_text(json_object *json, const char *first, const char *second,
                        const char *expected) {
        assert_string_equal(text_of(json, first, second) ?: "(nothing)", expected);
}

TEST(test_one_event) {
        Fixture fixture;
        json_object *json;
        int64_t at;

        fixture_open(&fixture);
        send_text(&fixture, "Image nginx:1.25 \xff failed");
        assert_int_equal(kube_events_n_waiting(fixture.events), 1);

        json = expect_call("POST", POSTED);
        assert_string_equal(fake_kube.calls[0]->request.path, POSTED);
        assert_string_equal(fake_kube.calls[0]->request.content_type, KUBE_JSON);
        assert_text(json, "kind", NULL, "Event");
        assert_text(json, "apiVersion", NULL, "v1");
        assert_text(json, "type", NULL, "Warning");
        assert_text(json, "reason", NULL, "PullImageFailed");
        assert_text(json, "message", NULL, "Image nginx:1.25 \xEF\xBF\xBD failed");
        assert_text(json, "count", NULL, "1");
        assert_text(json, "reportingComponent", NULL, "inplaced");
        assert_text(json, "reportingInstance", NULL, "node-1");
        assert_text(json, "source", "component", "inplaced");
        assert_text(json, "source", "host", "node-1");
        assert_text(json, "metadata", "namespace", "default");
        assert_int_equal(strncmp(text_of(json, "metadata", "name"), "node-1.1", 8), 0);
        assert_text(json, "involvedObject", "apiVersion", "apps.kruise.io/v1beta1");
        assert_text(json, "involvedObject", "kind", "NodeImage");
        assert_text(json, "involvedObject", "name", "node-1");
        assert_text(json, "involvedObject", "uid", "1234");
        assert_text(json, "involvedObject", "resourceVersion", "7");
        assert_text(json, "involvedObject", "namespace", "(nothing)");
        assert_text(json, "involvedObject", "fieldPath", "(nothing)");
        assert_ok(rfc3339_parse(text_of(json, "firstTimestamp", NULL), &at));
        assert_true(at > 1700000000);
        assert_text(json, "lastTimestamp", NULL, text_of(json, "firstTimestamp", NULL));

        assert_ok(fake_kube_answer(201, "{}"));
        assert_int_equal(kube_events_n_waiting(fixture.events), 0);
        assert_int_equal(kube_events_n_dropped(fixture.events), 0);
        assert_ok(fixture_close(&fixture));
}

/* The server takes an Event only in the namespace of its object, and of one without a namespace in "default". */
TEST(test_namespaces) {
        static const char *const namespaces[][2] = { { "a", "a" },
                                                     { "", "default" },
                                                     { NULL, "default" } };

        for (size_t i = 0; i < N_ELEMENTS(namespaces); i++) {
                KubeReference object = job;
                Fixture fixture;
                char path[64];

                (void) snprintf(path, sizeof(path), "/api/v1/namespaces/%s/events",
                                namespaces[i][1]);
                object.namespace = namespaces[i][0];
                fixture_open(&fixture);
                send_about(&fixture, &object, "a");
                assert_text(expect_call("POST", path), "metadata", "namespace", namespaces[i][1]);
                assert_string_equal(fake_kube.calls[0]->request.path, path);
                assert_ok(fake_kube_answer(201, "{}"));
                (void) fixture_close(&fixture);
        }
}

/* A pod that was made anew has the name of the one before, and Events of its own. */
TEST(test_same_name_of_another_object) {
        static const char *const uids[] = { "1", "2", NULL };
        Fixture fixture;

        fixture_open(&fixture);
        for (size_t i = 0; i < N_ELEMENTS(uids); i++) {
                KubeReference object = job;

                object.uid = uids[i];
                send_about(&fixture, &object, "a");
                assert_text(expect_call("POST", "/api/v1/namespaces/team/events"), "count", NULL,
                            "1");
                assert_ok(fake_kube_answer(201, "{}"));
        }
        assert_int_equal(kube_events_n_waiting(fixture.events), 0);
        (void) fixture_close(&fixture);
}

TEST(test_repetition_is_a_patch) {
        Fixture fixture;
        char name[256];
        json_object *json;

        fixture_open(&fixture);
        send_about(&fixture, &job, "a");
        json = expect_call("POST", "/api/v1/namespaces/team/events");
        assert_text(json, "involvedObject", "namespace", "team");
        (void) snprintf(name, sizeof(name), "/api/v1/namespaces/team/events/%s",
                        text_of(json, "metadata", "name"));

        /* Not while the first one is on its way, and then once for all. */
        send_about(&fixture, &job, "a");
        send_about(&fixture, &job, "a");
        assert_int_equal(fake_kube.n_calls, 1);
        assert_int_equal(kube_events_n_waiting(fixture.events), 2);
        assert_ok(fake_kube_answer(201, "{}"));

        json = expect_call("PATCH", name);
        assert_string_equal(fake_kube.calls[0]->request.path, name);
        assert_string_equal(fake_kube.calls[0]->request.content_type, KUBE_MERGE_PATCH);
        assert_int_equal(json_object_object_length(json), 3);
        assert_text(json, "count", NULL, "3");
        assert_text(json, "message", NULL, "a");
        assert_non_null(text_of(json, "lastTimestamp", NULL));

        /* The server has forgotten it. */
        send_about(&fixture, &job, "a");
        assert_ok(fake_kube_answer(404, "{}"));
        json = expect_call("POST", "/api/v1/namespaces/team/events");
        assert_text(json, "count", NULL, "4");
        assert_contains(name, text_of(json, "metadata", "name"));
        assert_ok(fake_kube_answer(201, "{}"));
        assert_int_equal(kube_events_n_waiting(fixture.events), 0);
        assert_ok(fixture_close(&fixture));
}

TEST(test_similar_ones_are_combined) {
        Fixture fixture;
        char message[32];

        fixture_open(&fixture);
        for (unsigned i = 0; i < 12; i++) {
                (void) snprintf(message, sizeof(message), "message %u", i);
                send_text(&fixture, message);
                if (i < 10)
                        assert_text(expect_call("POST", POSTED), "message", NULL, message);
                if (i < 11)
                        assert_ok(fake_kube_answer(201, "{}"));
        }

        assert_text(expect_call("PATCH", POSTED), "message", NULL,
                    "(combined from similar events): message 11");
        assert_text(expect_call("PATCH", POSTED), "count", NULL, "2");
        assert_ok(fixture_close(&fixture));
}

TEST(test_four_at_a_time) {
        Fixture fixture;

        fixture_open(&fixture);
        for (unsigned i = 0; i < 9; i++)
                send_number(&fixture, i);
        assert_int_equal(fake_kube.n_calls, 4);
        assert_text(expect_call("POST", "/"), "message", NULL, "message 0");
        assert_ok(fake_kube_answer(201, "{}"));
        assert_int_equal(fake_kube.n_calls, 4);

        for (unsigned i = 1; i < 9; i++) {
                char message[32];

                (void) snprintf(message, sizeof(message), "message %u", i);
                assert_text(expect_call("POST", "/"), "message", NULL, message);
                assert_ok(fake_kube_answer(201, "{}"));
        }
        assert_int_equal(fake_kube.n_calls, 0);
        assert_ok(fixture_close(&fixture));
}

TEST(test_tries_are_bounded) {
        Fixture fixture;

        fixture_open(&fixture);
        send_text(&fixture, "a");
        for (unsigned i = 0; i < 12; i++) {
                assert_int_equal(kube_events_n_waiting(fixture.events), 1);
                assert_int_equal(fake_kube.n_calls, 1);
                assert_ok(fake_kube_answer(i % 2 ? 503 : 0, "{}"));
                assert_int_equal(fake_kube.n_calls, 0);
                assert_ok(kube_events_kick(fixture.events));
        }
        assert_int_equal(kube_events_n_waiting(fixture.events), 0);
        assert_int_equal(kube_events_n_dropped(fixture.events), 1);

        /* An event that was never created is created, not patched. */
        send_text(&fixture, "a");
        assert_text(expect_call("POST", POSTED), "count", NULL, "1");
        assert_int_equal(fixture_close(&fixture), 1);
}

TEST(test_it_waits_before_it_tries_again) {
        Fixture fixture;

        fixture_open(&fixture);
        send_number(&fixture, 1);
        send_number(&fixture, 2);
        assert_ok(fake_kube_answer(503, "{}"));
        send_number(&fixture, 2); /* happens again while it is on its way */
        send_number(&fixture, 3);
        assert_int_equal(fake_kube.n_calls, 1);
        assert_ok(fake_kube_answer(503, "{}"));

        fake_clock_skip(fake_kube.event);
        assert_int_equal(fake_kube.n_calls, 3);
        assert_text(expect_call("POST", "/"), "count", NULL, "2"); /* both at once */
        assert_text(expect_call("POST", "/"), "message", NULL, "message 2");
        assert_ok(fake_kube_answer(201, "{}"));
        assert_text(expect_call("POST", "/"), "message", NULL, "message 1");
        assert_ok(fake_kube_answer(201, "{}"));
        assert_text(expect_call("POST", "/"), "message", NULL, "message 3");
        assert_ok(fake_kube_answer(201, "{}"));
        assert_int_equal(kube_events_n_waiting(fixture.events), 0);
        assert_ok(fixture_close(&fixture));
}

TEST(test_lost_answer_is_no_conflict) {
        Fixture fixture;

        fixture_open(&fixture);
        send_text(&fixture, "a");
        assert_ok(fake_kube_answer(0, ""));
        assert_ok(kube_events_kick(fixture.events));
        assert_ok(fake_kube_answer(409, "{}"));
        assert_int_equal(kube_events_n_dropped(fixture.events), 0);

        /* But this name belongs to another event. */
        send_text(&fixture, "b");
        assert_ok(fake_kube_answer(409, "{}"));
        assert_int_equal(kube_events_n_dropped(fixture.events), 1);
        assert_int_equal(fixture_close(&fixture), 1);
}

/* A server that has just started may deny a request; it is tried again three times. */
static void refuse(const Fixture *fixture, int code) {
        for (unsigned i = 0; code == 403 && i < 3; i++) {
                assert_ok(fake_kube_answer(403, "{\"kind\":\"Status\"}"));
                assert_int_equal(kube_events_n_waiting(fixture->events), 1);
                assert_ok(kube_events_kick(fixture->events));
        }
        assert_ok(fake_kube_answer(code, "{\"kind\":\"Status\"}"));
}

TEST(test_refusals_are_reported_once) {
        static const int codes[] = { 403, 404, 422, 400, 403, 404, 422 };
        Fixture fixture;

        fixture_open(&fixture);
        for (unsigned i = 0; i < N_ELEMENTS(codes); i++) {
                send_number(&fixture, i);
                refuse(&fixture, codes[i]);
                assert_int_equal(kube_events_n_waiting(fixture.events), 0);
                assert_int_equal(kube_events_n_dropped(fixture.events), i + 1);
        }
        assert_int_equal(fixture_close(&fixture), 3);
}

TEST(test_vanishing_namespace_is_no_news) {
        Fixture fixture;

        fixture_open(&fixture);
        send_text(&fixture, "a");
        assert_ok(fake_kube_answer(403, "{\"reason\":\"Forbidden\",\"details\":{\"causes\":["
                                        "{\"reason\":\"NamespaceTerminating\"}]}}"));
        assert_int_equal(kube_events_n_dropped(fixture.events), 1);
        assert_ok(fixture_close(&fixture));
}

TEST(test_queue_is_bounded) {
        Fixture fixture;

        fixture_open(&fixture);
        for (unsigned i = 0; i < 1010; i++)
                send_number(&fixture, i);
        assert_int_equal(fake_kube.n_calls, 4);
        assert_int_equal(kube_events_n_waiting(fixture.events), 1000);
        assert_int_equal(kube_events_n_dropped(fixture.events), 10);

        /* An event that waits already may happen again. */
        send_number(&fixture, 999);
        assert_int_equal(kube_events_n_dropped(fixture.events), 10);
        assert_int_equal(fixture_close(&fixture), 1);
}

TEST(test_bucket_is_counted) {
        Fixture fixture;

        fixture_open(&fixture);
        for (unsigned i = 0; i < 30; i++)
                send_text(&fixture, "a");
        assert_int_equal(kube_events_n_dropped(fixture.events), 5);
        assert_int_equal(kube_events_n_waiting(fixture.events), 2);
        assert_ok(fixture_close(&fixture));
}

/* clang-format off */
static const struct Name {
        const char *object;
        const char *name;
} names[] = {
        { "node-1",          "node-1.ff"          },
        { "a.b.c",           "a.b.c.ff"           },
        { "a--b",            "a--b.ff"            },
        { "Node_1",          "node-1.ff"          },
        { "a..b.-c-.d",      "a.b.c-d.ff"         },
        { "-.-a-.-",         "a.ff"               },
        { "docker.io/x:1",   "docker.io-x-1.ff"   },
        { "\303\244",        "event.ff"           },
        { "",                "event.ff"           },
        { NULL,              "event.ff"           },
};
/* clang-format on */

TEST(test_names_are_valid) {
        EventRecord record = { .stamp = 255 };
        char buffer[EVENT_NAME_SIZE], text[600];

        for (size_t i = 0; i < N_ELEMENTS(names); i++) {
                record.object.name = names[i].object;
                assert_string_equal(event_spec_name(&record, buffer), names[i].name);
        }

        record.object.name = text;
        record.stamp = UINT64_MAX;
        memset(text, 'a', sizeof(text));
        text[sizeof(text) - 1] = '\0';
        text[235] = '.';
        assert_int_equal(strlen(event_spec_name(&record, buffer)), 252);
        assert_string_equal(buffer + 235, ".ffffffffffffffff");
        text[235] = 'a';
        assert_int_equal(strlen(event_spec_name(&record, buffer)), 253);
}

/* Checks how a text of the given bytes, again and again, is cut. */
static void check_cut(const char *part, bool is_combined, const char *prefix, size_t size,
                      const char *end) {
        const EventDecision decision = { .count = 1, .is_combined = is_combined };
        EventRecord record = EVENT_RECORD_INIT;
        char text[5000] = "";

        while (strlen(text) < 4000)
                strcat(text, part);
        assert_ok(event_record_happen(&record, &decision, text, 0));
        assert_int_equal(strlen(record.message), size);
        assert_int_equal(strncmp(record.message, prefix, strlen(prefix)), 0);
        assert_string_equal(record.message + size - strlen(end), end);
        event_record_done(&record);
}

TEST(test_messages_are_cut) {
        check_cut("a", false, "aaa", 1024, "aaa");
        check_cut("\xE2\x82\xAC", false, "\xE2\x82\xAC", 1023, "\xE2\x82\xAC\xE2\x82\xAC");
        check_cut("\xF0\x9F\x98\x80", true, "(combined from similar events): \xF0\x9F", 1024,
                  "\xF0\x9F\x98\x80");
        check_cut("\xE2\x82", false, "\xEF\xBF\xBD\xEF\xBF\xBD", 1023, "\xEF\xBF\xBD");
        check_cut("\xED\xA0\x80", false, "\xEF\xBF\xBD", 1023, "\xEF\xBF\xBD"); /* surrogate */
        check_cut("\xC0\x80", false, "\xEF\xBF\xBD", 1023, "\xEF\xBF\xBD");     /* overlong */
        check_cut("\xF4\x90\x80\x80", false, "\xEF\xBF\xBD", 1023, "\xEF\xBF\xBD");
        check_cut("\x1B", false, "???", 1024, "???"); /* steers a terminal */
        check_cut("a\n", false, "a\na\n", 1024, "a\n");
}

static const char *const refusals[] = {
        "",
        "{",
        "[]",
        "null",
        "{\"details\":null}",
        "{\"details\":{\"causes\":{}}}",
        "{\"details\":{\"causes\":[null,7,{\"reason\":7}]}}",
        "{\"reason\":\"Forbidden\"}",
};

TEST(test_other_refusals) {
        for (size_t i = 0; i < N_ELEMENTS(refusals); i++)
                assert_false(event_spec_is_terminating(refusals[i], strlen(refusals[i])));
}

int main(void) {
        int status = unit_run();

        expect_call(NULL, NULL); /* frees the last body */
        return status;
}
