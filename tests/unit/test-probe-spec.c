/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A NodePodProbe's spec and status
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <json-c/json.h>

#include "agent/base/cleanup.h"
#include "agent/document/json-cleanup.h"
#include "agent/probe/probe-spec.h"

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

        assert_int_equal(probe_specs_read(object, ret, &n_refused, NULL), 0);
        return n_refused;
}

static void test_defaults_and_limits(void **state) {
        static const struct {
                const char *probe;
                unsigned delay, timeout, period, success, failure;
        } rows[] = {
                { TCP, 1, 1, 1, 1, 1 },
                { TCP ",\"initialDelaySeconds\":0,\"timeoutSeconds\":-3,\"periodSeconds\":0,"
                      "\"successThreshold\":-1,\"failureThreshold\":0",
                  1, 1, 1, 1, 1 },
                { TCP ",\"initialDelaySeconds\":2,\"timeoutSeconds\":3,\"periodSeconds\":4,"
                      "\"successThreshold\":5,\"failureThreshold\":6",
                  2, 3, 4, 5, 6 },
                { TCP ",\"periodSeconds\":9000000000", 1, 1, INT32_MAX, 1, 1 },
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                cleanup(probe_specs_done) ProbeSpecs specs = PROBE_SPECS_INIT;
                cleanup(free_p) char *text = NULL;

                assert_true(asprintf(&text,
                                     "{\"spec\":{\"podProbes\":[{\"name\":\"web\",\"namespace\":"
                                     "\"default\",\"uid\":\"u\",\"probes\":[{\"name\":\"m#a\","
                                     "\"containerName\":\"main\",\"probe\":{%s}}]}]}}",
                                     rows[i].probe) > 0);
                assert_int_equal(read_specs(text, &specs), 0);
                assert_int_equal(specs.n_items, 1);
                assert_null(specs.items[0].refusal);
                assert_int_equal(specs.items[0].initial_delay_sec, rows[i].delay);
                assert_int_equal(specs.items[0].timeout_sec, rows[i].timeout);
                assert_int_equal(specs.items[0].period_sec, rows[i].period);
                assert_int_equal(specs.items[0].success_threshold, rows[i].success);
                assert_int_equal(specs.items[0].failure_threshold, rows[i].failure);
        }
}

/* One that cannot be run is there with its reason; one that has no identity is left out. */
static void test_refusals(void **state) {
        static const struct {
                const char *object;
                size_t n_items, n_refused;
                const char *refusal; /* of the first one */
        } rows[] = {
                { "{}", 0, 0, NULL },
                { "{\"spec\":{}}", 0, 0, NULL },
                { OBJECT(""), 0, 0, NULL },
                { OBJECT(POD("u", PROBE("m#a", TCP))), 1, 0, NULL },
                { OBJECT(POD("u", PROBE("m#a", ""))), 1, 0,
                  "none of exec, httpGet, tcpSocket and grpc is there" },
                { OBJECT(POD("u", "{\"name\":\"m#a\",\"containerName\":\"main\"}")), 1, 0,
                  "none of exec, httpGet, tcpSocket and grpc is there" },
                { OBJECT(POD("u", PROBE("m#a", "\"httpGet\":{\"port\":1,\"host\":\"10.0.0.9\"}"))),
                  1, 0, "the host \"10.0.0.9\" is not allowed: a probe reaches its own pod alone" },
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

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                cleanup(probe_specs_done) ProbeSpecs specs = PROBE_SPECS_INIT;

                assert_int_equal(read_specs(rows[i].object, &specs), rows[i].n_refused);
                assert_int_equal(specs.n_items, rows[i].n_items);
                if (rows[i].refusal)
                        assert_string_equal(specs.items[0].refusal, rows[i].refusal);
                else if (specs.n_items > 0)
                        assert_null(specs.items[0].refusal);
        }
}

static void test_refused_whole(void **state) {
        static const char *const objects[] = { "{\"spec\":7}", "{\"spec\":{\"podProbes\":{}}}" };

        for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++) {
                cleanup(json_object_put_p) json_object *object = parse(objects[i]);
                cleanup(error_done) Error error = ERROR_INIT;
                ProbeSpecs specs = PROBE_SPECS_INIT;
                size_t n;

                assert_true(probe_specs_read(object, &specs, &n, &error) < 0);
                assert_int_equal(error.kind, ERROR_INVALID);
        }
}

static void test_too_many(void **state) {
        cleanup(probe_specs_done) ProbeSpecs specs = PROBE_SPECS_INIT;
        cleanup(json_object_put_p) json_object *object = parse(OBJECT(POD("u", PROBE("m#a", TCP))));
        json_object *list = NULL;
        size_t n_refused;

        assert_int_equal(json_pointer_get(object, "/spec/podProbes/0/probes", &list), 0);
        for (int i = 0; i < PROBES_MAX; i++) {
                cleanup(free_p) char *text = NULL;

                assert_true(asprintf(&text,
                                     "{\"name\":\"m#%d\",\"containerName\":\"main\",\"probe\":{" TCP
                                     "}}",
                                     i) > 0);
                assert_int_equal(json_object_array_add(list, parse(text)), 0);
        }

        assert_int_equal(probe_specs_read(object, &specs, &n_refused, NULL), 0);
        assert_int_equal(specs.n_items, PROBES_MAX);
        assert_int_equal(n_refused, 1);
}

static void test_what_makes_another_probe(void **state) {
        static const struct {
                const char *probe;
                bool is_same;
        } rows[] = {
                { "\"exec\":{\"command\":[\"a\",\"b\"]}", true },
                { "\"exec\":{\"command\":[\"a\",\"b\"]},\"periodSeconds\":7", true },
                { "\"exec\":{\"command\":[\"a\"]}", false },
                { "\"exec\":{\"command\":[\"a\",\"b\",\"c\"]}", false },
                { "\"exec\":{\"command\":[\"a\",\"c\"]}", false },
                { TCP, false },
        };
        cleanup(probe_specs_done) ProbeSpecs first = PROBE_SPECS_INIT;

        read_specs(OBJECT(POD("u", PROBE("m#a", "\"exec\":{\"command\":[\"a\",\"b\"]}"))), &first);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                cleanup(probe_specs_done) ProbeSpecs other = PROBE_SPECS_INIT;
                cleanup(free_p) char *text = NULL;

                assert_true(asprintf(&text,
                                     "{\"spec\":{\"podProbes\":[{\"name\":\"web\",\"namespace\":"
                                     "\"default\",\"uid\":\"u\",\"probes\":[{\"name\":\"m#a\","
                                     "\"containerName\":\"main\",\"probe\":{%s}}]}]}}",
                                     rows[i].probe) > 0);
                read_specs(text, &other);
                assert_int_equal(probe_spec_runs_the_same(&first.items[0], &other.items[0]),
                                 rows[i].is_same);
        }
}

static void test_messages(void **state) {
        static const struct {
                const char *text;
                const char *message; /* NULL: the text */
        } rows[] = {
                { "", NULL },
                { "fine\n", NULL },
                { "a\xff"
                  "b",
                  "a\xEF\xBF\xBD"
                  "b" },
                /* Bytes that steer a terminal are replaced; lines and columns stay. */
                { "a\x1b[31mb\x01\x7f\xc2\x9b"
                  "1m\tc\r\nd\re",
                  "a?[31mb???1m\tc\r\nd?e" },
        };
        cleanup(probe_result_done) ProbeResult result = { .message = NULL };
        char text[PROBE_MESSAGE_MAX + 2];

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                assert_int_equal(probe_result_set_message(&result, rows[i].text,
                                                          strlen(rows[i].text)),
                                 0);
                assert_string_equal(result.message, rows[i].message ?: rows[i].text);
        }

        /* Cut between two characters, not within one. */
        for (size_t i = 0; i + 2 <= sizeof(text); i += 2)
                memcpy(text + i, "ä", 2);
        memmove(text + 1, text, sizeof(text) - 1);
        text[0] = 'x';
        assert_int_equal(probe_result_set_message(&result, text, sizeof(text) - 1), 0);
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

/* The rows end with one without a uid, and are in order. */
static int merge(const char *list, const Row *rows, json_object **ret) {
        cleanup(json_object_put_p) json_object *former = list ? parse(list) : NULL;
        ProbeResult results[8];
        ProbeReport reports[8];
        ProbeSpec specs[8];
        size_t n = 0;

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

        return probe_status_merge(former, reports, n, ret);
}

static const struct {
        const char *former;
        Row rows[3];
        ProbeStatusChange change;
        const char *merged;
} merges[] = {
        { NULL, { { NULL } }, PROBE_STATUS_SAME, "[]" },
        { "[]", { { NULL } }, PROBE_STATUS_SAME, "[]" },
        { NULL, { { "u", "m#a", -1, "", 0, 0 } }, PROBE_STATUS_SAME, "[]" },
        { NULL,
          { { "u", "m#a", PROBE_SUCCEEDED, "fine", 100, 50 } },
          PROBE_STATUS_STATES,
          "[" STATES("u", STATE("m#a", "Succeeded", "fine")) "]" },
        { "[" STATES("u", STATE("m#a", "Succeeded", "fine")) "]",
          { { "u", "m#a", PROBE_SUCCEEDED, "fine", 100, 99 } },
          PROBE_STATUS_SAME,
          "[" STATES("u", STATE("m#a", "Succeeded", "fine")) "]" },
        /* Nothing is known of it yet: what is there stays. */
        { "[" STATES("u", STATE("m#a", "Failed", "bad")) "]",
          { { "u", "m#a", -1, "", 0, 0 } },
          PROBE_STATUS_SAME,
          "[" STATES("u", STATE("m#a", "Failed", "bad")) "]" },
        /* Another message is no transition. */
        { "[" STATES("u", STATE("m#a", "Succeeded", "old")) "]",
          { { "u", "m#a", PROBE_SUCCEEDED, "new", 100, 99 } },
          PROBE_STATUS_MESSAGES,
          "[" STATES("u", STATE("m#a", "Succeeded", "new")) "]" },
        { "[" STATES("u", "{\"name\":\"m#a\",\"state\":\"Failed\",\"message\":\"bad\","
                          "\"lastTransitionTime\":\"1970-01-01T00:00:07Z\"}") "]",
          { { "u", "m#a", PROBE_SUCCEEDED, "good", 100, 50 } },
          PROBE_STATUS_STATES,
          "[" STATES("u", STATE("m#a", "Succeeded", "good")) "]" },
        /* What is not asked for any more goes, and its pod with its last probe. */
        { "[" STATES("t", STATE("m#a", "Failed", "bad")) "," STATES(
                  "u", STATE("m#a", "Failed", "bad") "," STATE("m#b", "Failed", "bad")) "]",
          { { "u", "m#b", -1, "", 0, 0 } },
          PROBE_STATUS_STATES,
          "[" STATES("u", STATE("m#b", "Failed", "bad")) "]" },
        /* Two probes and two pods, each for itself. */
        { "[" STATES("u", STATE("m#b", "Failed", "bad")) "]",
          { { "t", "m#a", PROBE_UNKNOWN, "x", 100, 50 },
            { "u", "m#a", PROBE_SUCCEEDED, "y", 100, 50 } },
          PROBE_STATUS_STATES,
          "[" STATES("u", STATE("m#a", "Succeeded", "y")) "," STATES("t", STATE("m#a", "Unknown",
                                                                                "x")) "]" },
        /* Others may have written anything. */
        { "[7,null,{\"uid\":7},{\"uid\":\"u\",\"probeStates\":[null,{\"name\":[]}]}]",
          { { "u", "m#a", PROBE_SUCCEEDED, "fine", 100, 50 } },
          PROBE_STATUS_STATES,
          "[" STATES("u", STATE("m#a", "Succeeded", "fine")) "]" },
        { "[" STATES("u", STATE("m#a", "Failed", "bad") "," STATE("m#a", "Failed", "bad")) "]",
          { { "u", "m#a", PROBE_FAILED, "bad", 100, 50 } },
          PROBE_STATUS_STATES,
          "[" STATES("u", STATE("m#a", "Failed", "bad")) "]" },
};

static void test_merge(void **state) {
        for (size_t i = 0; i < sizeof(merges) / sizeof(merges[0]); i++) {
                cleanup(json_object_put_p) json_object *merged = NULL;
                cleanup(json_object_put_p) json_object *expected = parse(merges[i].merged);
                Row list[4] = { merges[i].rows[0], merges[i].rows[1], merges[i].rows[2] };

                assert_int_equal(merge(merges[i].former, list, &merged), merges[i].change);
                if (!json_object_equal(merged, expected))
                        fail_msg("row %zu: %s", i, json_object_to_json_string(merged));
        }
}

/* An empty message is none; a key of another writer stays. */
static void test_members(void **state) {
        static const char former[] =
                "[" STATES("u", "{\"name\":\"m#a\",\"state\":\"Failed\","
                                "\"message\":\"bad\",\"other\":1,"
                                "\"lastTransitionTime\":\"1970-01-01T00:00:07Z\"}") "]";
        static const Row rows[] = { { "u", "m#a", PROBE_SUCCEEDED, "", 100, 50 }, { NULL } };
        cleanup(json_object_put_p) json_object *merged = NULL;
        json_object *item = NULL, *member = NULL;

        assert_int_equal(merge(former, rows, &merged), PROBE_STATUS_STATES);
        assert_int_equal(json_pointer_get(merged, "/0/probeStates/0", &item), 0);
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

/* All messages together fit into an object, whatever they are made of. */
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

static void test_many_long_messages(void **state) {
        for (const char *c = "m\"\\\n<&\x01"; *c; c++)
                check_long_messages(*c, 4000, 1000000, 1400000);
        /* Few are whole, however they are written. */
        check_long_messages('m', 10, 10 * PROBE_MESSAGE_MAX, 12 * PROBE_MESSAGE_MAX);
        check_long_messages('\n', 10, 20 * PROBE_MESSAGE_MAX, 22 * PROBE_MESSAGE_MAX);
        check_long_messages('<', 10, 60 * PROBE_MESSAGE_MAX, 62 * PROBE_MESSAGE_MAX);
}

static void test_find(void **state) {
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

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_defaults_and_limits),
                cmocka_unit_test(test_refusals),
                cmocka_unit_test(test_refused_whole),
                cmocka_unit_test(test_too_many),
                cmocka_unit_test(test_what_makes_another_probe),
                cmocka_unit_test(test_messages),
                cmocka_unit_test(test_merge),
                cmocka_unit_test(test_members),
                cmocka_unit_test(test_many_long_messages),
                cmocka_unit_test(test_find),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
