/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A NodePodProbe's spec and status
 */

#include "tests/unit/unit.h"
#include <json-c/json.h>

#include "agent/document/json-cleanup.h"
#include "agent/probe/probe-spec.h"
#include "tests/unit/failing-memory.h"

#define OBJECT(items) "{\"spec\":{\"podProbes\":[" items "]}}"
#define POD(uid, probes)                                                                       \
        "{\"name\":\"web\",\"namespace\":\"default\",\"uid\":\"" uid "\",\"IP\":\"10.0.0.1\"," \
        "\"probes\":[" probes "]}"
#define PROBE(name, probe) \
        "{\"name\":\"" name "\",\"containerName\":\"main\",\"probe\":{" probe "}}"
#define TCP "\"tcpSocket\":{\"port\":80}"

static json_object *parse(const char *text) {
        json_object *object = json_tokener_parse(text);

        assert_non_null(object);
        return object;
}

/* How many were refused. */
static size_t read_specs(const char *text, ProbeSpecs *ret) {
        cleanup(json_object_put_p) json_object *object = parse(text);
        size_t n_refused = 77;

        assert_ok(probe_specs_read(object, ret, &n_refused, NULL));
        return n_refused;
}

/* The same of one pod with one probe. */
static size_t read_probe(const char *probe, ProbeSpecs *ret) {
        cleanup(free_p) char *text = NULL;

        assert_true(asprintf(&text,
                             "{\"spec\":{\"podProbes\":[{\"name\":\"web\",\"namespace\":"
                             "\"default\",\"uid\":\"u\",\"probes\":[{\"name\":\"m#a\","
                             "\"containerName\":\"main\",\"probe\":{%s}}]}]}}",
                             probe) > 0);
        return read_specs(text, ret);
}

static const struct DefaultsAndLimitsRow {
        const char *probe;
        unsigned delay, timeout, period, success, failure;
} defaults_and_limits_rows[] = {
        { TCP, 1, 1, 1, 1, 1 },
        { TCP ",\"initialDelaySeconds\":0,\"timeoutSeconds\":-3,\"periodSeconds\":0,"
              "\"successThreshold\":-1,\"failureThreshold\":0",
          1, 1, 1, 1, 1 },
        { TCP ",\"initialDelaySeconds\":2,\"timeoutSeconds\":3,\"periodSeconds\":4,"
              "\"successThreshold\":5,\"failureThreshold\":6",
          2, 3, 4, 5, 6 },
        { TCP ",\"periodSeconds\":9000000000", 1, 1, INT32_MAX, 1, 1 },
};

TEST_ROWS(test_defaults_and_limits, defaults_and_limits_rows, probe,
          const struct DefaultsAndLimitsRow *row) {
        cleanup(probe_specs_done) ProbeSpecs specs = PROBE_SPECS_INIT;

        assert_ok(read_probe(row->probe, &specs));
        assert_int_equal(specs.n_items, 1);
        assert_null(specs.items[0].refusal);
        assert_int_equal(specs.items[0].initial_delay_sec, row->delay);
        assert_int_equal(specs.items[0].timeout_sec, row->timeout);
        assert_int_equal(specs.items[0].period_sec, row->period);
        assert_int_equal(specs.items[0].success_threshold, row->success);
        assert_int_equal(specs.items[0].failure_threshold, row->failure);
}

static const struct RefusalsRow {
        const char *object;
        size_t n_items, n_refused;
        const char *refusal; /* refusal of the first item */
} refusals_rows[] = {
        { "{}", 0, 0, NULL },
        { "{\"spec\":{}}", 0, 0, NULL },
        { OBJECT(""), 0, 0, NULL },
        { OBJECT(POD("u", PROBE("m#a", TCP))), 1, 0, NULL },
        { OBJECT(POD("u", PROBE("m#a", ""))), 1, 0,
          "it has none of exec, httpGet, tcpSocket and grpc" },
        { OBJECT(POD("u", "{\"name\":\"m#a\",\"containerName\":\"main\"}")), 1, 0,
          "it has none of exec, httpGet, tcpSocket and grpc" },
        { OBJECT(POD("u", PROBE("m#a", "\"httpGet\":{\"port\":1,\"host\":\"10.0.0.9\"}"))), 1, 0,
          "the host \"10.0.0.9\" is not allowed: a probe reaches its own pod alone" },
        { OBJECT(POD("u", PROBE("m#a", "\"tcpSocket\":{\"port\":0}"))), 1, 0,
          "probe.tcpSocket.port: 0 is not a port" },
        { OBJECT(POD("u", PROBE("m#a", TCP ",\"periodSeconds\":\"1\""))), 1, 0,
          "probe.periodSeconds: expected an integer, got \"1\"" },
        { OBJECT(POD("u", PROBE("m#a", TCP) "," PROBE("m#a", TCP))), 1, 1, NULL },
        { OBJECT(POD("", PROBE("m#a", TCP))), 0, 1, NULL },
        { OBJECT(POD("u", "{\"name\":\"m#a\"}")), 0, 1, NULL },
        { OBJECT(POD("u", "7,null," PROBE("m#a", TCP))), 1, 2, NULL },
        { OBJECT("7,null," POD("u", PROBE("m#a", TCP))), 1, 0, NULL },
};

/* A probe that cannot be run is listed with its reason; a probe without identity is left out. */
TEST_ROWS(test_refusals, refusals_rows, object, const struct RefusalsRow *row) {
        cleanup(probe_specs_done) ProbeSpecs specs = PROBE_SPECS_INIT;

        assert_int_equal(read_specs(row->object, &specs), row->n_refused);
        assert_int_equal(specs.n_items, row->n_items);
        if (row->refusal)
                assert_string_equal(specs.items[0].refusal, row->refusal);
        else if (specs.n_items > 0)
                assert_null(specs.items[0].refusal);
}

TEST(test_refused_whole) {
        static const char *const objects[] = { "{\"spec\":7}", "{\"spec\":{\"podProbes\":{}}}" };

        for (size_t i = 0; i < N_ELEMENTS(objects); i++) {
                cleanup(json_object_put_p) json_object *object = parse(objects[i]);
                cleanup(error_done) Error error = ERROR_INIT;
                ProbeSpecs specs = PROBE_SPECS_INIT;
                size_t n;

                assert_true(probe_specs_read(object, &specs, &n, &error) < 0);
                assert_int_equal(error.kind, ERROR_INVALID);
        }
}

TEST(test_too_many) {
        cleanup(probe_specs_done) ProbeSpecs specs = PROBE_SPECS_INIT;
        cleanup(json_object_put_p) json_object *object = parse(OBJECT(POD("u", PROBE("m#a", TCP))));
        json_object *list = NULL;
        size_t n_refused;

        assert_ok(json_pointer_get(object, "/spec/podProbes/0/probes", &list));
        for (int i = 0; i < PROBES_MAX; i++) {
                cleanup(free_p) char *text = NULL;

                assert_true(asprintf(&text,
                                     "{\"name\":\"m#%d\",\"containerName\":\"main\",\"probe\":{" TCP
                                     "}}",
                                     i) > 0);
                assert_ok(json_object_array_add(list, parse(text)));
        }

        assert_ok(probe_specs_read(object, &specs, &n_refused, NULL));
        assert_int_equal(specs.n_items, PROBES_MAX);
        assert_int_equal(n_refused, 1);
}

#define EXEC "\"exec\":{\"command\":[\"a\",\"b\"]}"
#define HTTP(headers) "\"httpGet\":{\"port\":80,\"httpHeaders\":[" headers "]}"
#define HEADER(name, value) "{\"name\":\"" name "\",\"value\":\"" value "\"}"
#define TWO_HEADERS HTTP(HEADER("a", "1") "," HEADER("b", "2"))

static const struct WhatMakesAnotherProbeRow {
        const char *before, *probe;
        bool is_same;
} what_makes_another_probe_rows[] = {
        { EXEC, EXEC, true },
        { EXEC, EXEC ",\"periodSeconds\":7", true },
        { EXEC, "\"exec\":{\"command\":[\"a\"]}", false },
        { EXEC, "\"exec\":{\"command\":[\"a\",\"b\",\"c\"]}", false },
        { EXEC, "\"exec\":{\"command\":[\"a\",\"c\"]}", false },
        { EXEC, TCP, false },
        { TWO_HEADERS, TWO_HEADERS, true },
        { TWO_HEADERS, HTTP(HEADER("a", "1")), false },
        { TWO_HEADERS, HTTP(HEADER("a", "1") "," HEADER("c", "2")), false },
        { TWO_HEADERS, HTTP(HEADER("a", "1") "," HEADER("b", "3")), false },
};

TEST_ROWS(test_what_makes_another_probe, what_makes_another_probe_rows, probe,
          const struct WhatMakesAnotherProbeRow *row) {
        cleanup(probe_specs_done) ProbeSpecs first = PROBE_SPECS_INIT;

        read_probe(row->before, &first);

        cleanup(probe_specs_done) ProbeSpecs other = PROBE_SPECS_INIT;

        read_probe(row->probe, &other);
        assert_int_equal(probe_spec_runs_the_same(&first.items[0], &other.items[0]), row->is_same);
}

TEST(test_messages) {
        /* clang-format off */
        static const struct {
                const char *text;
                const char *message; /* NULL: the text */
        } rows[] = {
                { "", NULL },
                { "fine\n", NULL },
                { "a\xff" "b", "a\xEF\xBF\xBD" "b" },
                /* Bytes that steer a terminal are replaced; lines and columns stay. */
                { "a\x1b[31mb\x01\x7f\xc2\x9b" "1m\tc\r\nd\re", "a?[31mb???1m\tc\r\nd?e" },
        };
        /* clang-format on */
        cleanup(probe_result_done) ProbeResult result = { .message = NULL };
        char text[PROBE_MESSAGE_MAX + 2];

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                assert_ok(probe_result_set_message(&result, rows[i].text, strlen(rows[i].text)));
                assert_string_equal(result.message, rows[i].message ?: rows[i].text);
        }

        /* Cut between two characters, not within one. */
        for (size_t i = 0; i + 2 <= sizeof(text); i += 2)
                memcpy(text + i, "ä", 2);
        memmove(text + 1, text, sizeof(text) - 1);
        text[0] = 'x';
        assert_ok(probe_result_set_message(&result, text, sizeof(text) - 1));
        assert_int_equal(strlen(result.message), PROBE_MESSAGE_MAX - 1);
        assert_int_equal((unsigned char) result.message[PROBE_MESSAGE_MAX - 2], 0xa4);
}

/* The status */

#define STATE(name, state, message)                                             \
        "{\"name\":\"" name "\",\"state\":\"" state "\",\"message\":\"" message \
        "\",\"lastProbeTime\":\"1970-01-01T00:01:40Z\",\"lastTransitionTime\":\"1970-01-01T00:00:50Z\"}"
#define STATES(uid, states)                                                                        \
        "{\"namespace\":\"default\",\"name\":\"web\",\"uid\":\"" uid "\",\"probeStates\":[" states \
        "]}"

typedef struct Row {
        const char *uid;
        const char *name;
        int state; /* -1: nothing is known */
        const char *message;
        int64_t probe_sec, transition_sec;
} Row;

static void check_and_put(json_object **list, json_object *expected) {
        assert_true(json_object_equal(*list, expected));
        json_object_put(*list);
        *list = NULL;
}

/* The rows end with one without a uid, and are in order. Without memory there is no status, or all of it. */
static int merge(const char *list, const Row *rows, json_object **ret) {
        cleanup(json_object_put_p) json_object *former = list ? parse(list) : NULL;
        ProbeResult results[8];
        ProbeReport reports[8];
        ProbeSpec specs[8];
        json_object *again = NULL;
        size_t n = 0;
        int r;

        for (; rows[n].uid; n++) {
                specs[n] = (ProbeSpec){ .namespace = (char *) "default",
                                        .pod = (char *) "web",
                                        .uid = (char *) rows[n].uid,
                                        .name = (char *) rows[n].name };
                results[n] = (ProbeResult){ .state = (ProbeState) rows[n].state,
                                            .message = (char *) rows[n].message,
                                            .probe_sec = rows[n].probe_sec,
                                            .transition_sec = rows[n].transition_sec };
                reports[n] = (ProbeReport){ .spec = &specs[n],
                                            .result = rows[n].state >= 0 ? &results[n] : NULL };
        }

        r = probe_status_merge(former, reports, n, ret);
        ASSERT_WITHOUT_MEMORY(probe_status_merge(former, reports, n, &again), r,
                              check_and_put(&again, *ret));
        return r;
}

/* clang-format off */
static const struct {
        const char *former;
        Row rows[3];
        ProbeStatusChange change;
        const char *merged; /* NULL: there is nothing new to own */
} merges[] = {
        { NULL, { { NULL } }, PROBE_STATUS_SAME, NULL },
        { "[]", { { NULL } }, PROBE_STATUS_SAME, NULL },
        { NULL, { { "u", "m#a", -1, "", 0, 0 } }, PROBE_STATUS_SAME, NULL },
        { NULL, { { "u", "m#a", PROBE_SUCCEEDED, "fine", 100, 50 } }, PROBE_STATUS_STATES,
          "[" STATES("u", STATE("m#a", "Succeeded", "fine")) "]" },
        { "[" STATES("u", STATE("m#a", "Succeeded", "fine")) "]",
          { { "u", "m#a", PROBE_SUCCEEDED, "fine", 100, 99 } }, PROBE_STATUS_SAME, NULL },
        /* The agent knows nothing of the pod yet: its state stays. */
        { "[" STATES("u", STATE("m#a", "Failed", "bad")) "]", { { "u", "m#a", -1, "", 0, 0 } },
          PROBE_STATUS_SAME, NULL },
        /* Another message is no transition. */
        { "[" STATES("u", STATE("m#a", "Succeeded", "old")) "]",
          { { "u", "m#a", PROBE_SUCCEEDED, "new", 100, 99 } }, PROBE_STATUS_MESSAGES,
          "[" STATES("u", STATE("m#a", "Succeeded", "new")) "]" },
        { "[" STATES( "u" , "{\"name\":\"m#a\",\"state\":\"Failed\",\"message\":\"bad\","
          "\"lastTransitionTime\":\"1970-01-01T00:00:07Z\"}" ) "]",
          { { "u", "m#a", PROBE_SUCCEEDED, "good", 100, 50 } }, PROBE_STATUS_STATES,
          "[" STATES("u", STATE("m#a", "Succeeded", "good")) "]" },
        /* A state whose probe is not asked for any more goes, and its pod with the last one. */
        { "[" STATES( "t" , STATE( "m#a" , "Failed" , "bad" )) "," STATES( "u" , STATE( "m#a" ,
          "Failed" , "bad" ) "," STATE( "m#b" , "Failed" , "bad" )) "]",
          { { "u", "m#b", -1, "", 0, 0 } }, PROBE_STATUS_STATES,
          "[" STATES("u", STATE("m#b", "Failed", "bad")) "]" },
        /* Two probes and two pods, each for itself. */
        { "[" STATES("u", STATE("m#b", "Failed", "bad")) "]",
          { { "t", "m#a", PROBE_UNKNOWN, "x", 100, 50 },
            { "u", "m#a", PROBE_SUCCEEDED, "y", 100, 50 } }, PROBE_STATUS_STATES,
          "[" STATES( "u" , STATE( "m#a" , "Succeeded" , "y" )) "," STATES( "t" , STATE( "m#a" ,
          "Unknown" , "x" )) "]" },
        /* Others may have written anything. */
        { "[7,null,{\"uid\":7},{\"uid\":\"u\",\"probeStates\":[null,{\"name\":[]}]}]",
          { { "u", "m#a", PROBE_SUCCEEDED, "fine", 100, 50 } }, PROBE_STATUS_STATES,
          "[" STATES("u", STATE("m#a", "Succeeded", "fine")) "]" },
        { "[" STATES("u", STATE("m#a", "Failed", "bad") "," STATE("m#a", "Failed", "bad")) "]",
          { { "u", "m#a", PROBE_FAILED, "bad", 100, 50 } }, PROBE_STATUS_STATES,
          "[" STATES("u", STATE("m#a", "Failed", "bad")) "]" },
};
/* clang-format on */

TEST(test_merge) {
        for (size_t i = 0; i < N_ELEMENTS(merges); i++) {
                cleanup(json_object_put_p) json_object *merged = NULL;
                cleanup(json_object_put_p) json_object *expected =
                        merges[i].merged ? parse(merges[i].merged) : NULL;
                Row list[4] = { merges[i].rows[0], merges[i].rows[1], merges[i].rows[2] };

                assert_int_equal(merge(merges[i].former, list, &merged), merges[i].change);
                if (!json_object_equal(merged, expected))
                        fail_msg("row %zu: %s", i, json_object_to_json_string(merged));
        }
}

/* An empty message is none; a key of another writer stays. */
TEST(test_members) {
        static const char former[] =
                "[" STATES("u", "{\"name\":\"m#a\",\"state\":\"Failed\","
                                "\"message\":\"bad\",\"other\":1,"
                                "\"lastTransitionTime\":\"1970-01-01T00:00:07Z\"}") "]";
        static const Row rows[] = { { "u", "m#a", PROBE_SUCCEEDED, "", 100, 50 }, { NULL } };
        cleanup(json_object_put_p) json_object *merged = NULL;
        json_object *item = NULL, *member = NULL;

        assert_int_equal(merge(former, rows, &merged), PROBE_STATUS_STATES);
        assert_ok(json_pointer_get(merged, "/0/probeStates/0", &item));
        assert_false(json_object_object_get_ex(item, "message", &member));
        assert_true(json_object_object_get_ex(item, "other", &member));
}

/* As the API server writes it into its store: its JSON is safe in HTML. */
static size_t stored_size(json_object *list) {
        const char *text = json_object_to_json_string_ext(list, JSON_C_TO_STRING_PLAIN);
        size_t size = strlen(text);

        for (; *text; text++)
                if (strchr("<>&", *text))
                        size += strlen("\\u003c") - 1;
        return size;
}

/* All messages together fit into an object, also if each character is escaped. */
static void check_long_messages(char c, size_t n, size_t size_min, size_t size_max) {
        cleanup(json_object_put_p) json_object *merged = NULL;
        cleanup(free_p) ProbeReport *reports = calloc(n, sizeof(*reports));
        cleanup(free_p) ProbeSpec *specs = calloc(n, sizeof(*specs));
        char message[PROBE_MESSAGE_MAX + 1] = { 0 };
        const ProbeResult result = { .state = PROBE_FAILED, .message = message };

        memset(message, c, PROBE_MESSAGE_MAX);
        for (size_t i = 0; i < n; i++) {
                assert_true(asprintf(&specs[i].name, "m#%06zu", i) > 0);
                specs[i].uid = specs[i].pod = specs[i].namespace = (char *) "u";
                reports[i] = (ProbeReport){ .spec = &specs[i], .result = &result };
        }
        assert_int_equal(probe_status_merge(NULL, reports, n, &merged), PROBE_STATUS_STATES);
        assert_in_range(stored_size(merged), size_min, size_max);
        for (size_t i = 0; i < n; i++)
                free(specs[i].name);
}

TEST(test_many_long_messages) {
        for (const char *c = "m\"\\\n<&\x01"; *c; c++)
                check_long_messages(*c, 4000, 1000000, 1400000);
        /* Few are whole, however they are written. */
        check_long_messages('m', 10, 10 * PROBE_MESSAGE_MAX, 12 * PROBE_MESSAGE_MAX);
        check_long_messages('\n', 10, 20 * PROBE_MESSAGE_MAX, 22 * PROBE_MESSAGE_MAX);
        check_long_messages('<', 10, 60 * PROBE_MESSAGE_MAX, 62 * PROBE_MESSAGE_MAX);
}

TEST(test_find) {
        cleanup(json_object_put_p) json_object *object =
                parse("{\"status\":{\"podProbeStatuses\":[" STATES(
                        "t", STATE("m#a", "Failed",
                                   "bad")) "," STATES("u", STATE("m#a", "Succeeded",
                                                                 "fine") "," STATE("m#b", "Junk",
                                                                                   "")) "]}}");
        json_object *list = probe_status_get(object);
        ProbeResult result = { .message = NULL };

        assert_int_equal(probe_status_find(list, "u", "m#c", &result), 0);
        assert_int_equal(probe_status_find(list, "v", "m#a", &result), 0);
        assert_int_equal(probe_status_find(NULL, "u", "m#a", &result), 0);
        assert_int_equal(probe_status_find(list, "u", "m#a", &result), 1);
        assert_int_equal(result.state, PROBE_SUCCEEDED);
        assert_string_equal(result.message, "fine");
        assert_int_equal(result.probe_sec, 100);
        assert_int_equal(result.transition_sec, 50);
        probe_result_done(&result);
        assert_int_equal(probe_status_find(list, "u", "m#b", &result), 1);
        assert_int_equal(result.state, PROBE_UNKNOWN);
        probe_result_done(&result);
}
