/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests the status of a desired image
 */

#include "agent/image/image-ref.h"
#include "agent/image/image-status.h"
#include "tests/unit/quoted-json.h"
#include "tests/unit/unit.h"

#define ID "sha256:6efc10a0510f143a90b69dc564a914574973223e88418d65c1f8809e08dc0a1f"

/* clang-format off */

static const struct Percent {
        const char *name;
        ImagePhase phase;
        uint64_t done;
        uint64_t total;
        int percent;
} percents[] = {
        { "nothing has begun",            IMAGE_WAITING,   0,          0,          0   },
        { "the total is not known",       IMAGE_PULLING,   5,          0,          0   },
        { "nothing has arrived",          IMAGE_PULLING,   0,          1000,       0   },
        { "half of it",                   IMAGE_PULLING,   500,        1000,       49  },
        { "the last byte is missing",     IMAGE_PULLING,   999,        1000,       98  },
        { "it is all there but unpacked", IMAGE_PULLING,   1000,       1000,       99  },
        { "more than was promised",       IMAGE_PULLING,   1001,       1000,       99  },
        { "as large as numbers get",      IMAGE_PULLING,   UINT64_MAX, UINT64_MAX, 99  },
        { "nearly as large",              IMAGE_PULLING,   UINT64_MAX / 2, UINT64_MAX, 49 },
        { "it succeeded",                 IMAGE_SUCCEEDED, 1000,       1000,       100 },
        { "it was there already",         IMAGE_SUCCEEDED, 0,          0,          100 },
        { "it failed half-way",           IMAGE_FAILED,    500,        1000,       49  },
        { "it failed at the end",         IMAGE_FAILED,    1000,       1000,       99  },
};

/* A status and how it is written under the name "nginx". */
static const struct Written {
        const char *name;
        ImageStatus status;
        const char *text;
} written[] = {
        { "waits", { .phase = IMAGE_WAITING, .step = IMAGE_STEP_QUEUED },
          "{\"tag\":\"1.25\",\"phase\":\"Waiting\"}" },
        { "waits with a version", { .phase = IMAGE_WAITING, .version = 3 },
          "{\"tag\":\"1.25\",\"phase\":\"Waiting\",\"version\":3}" },
        { "is being pulled",
          { .phase = IMAGE_PULLING, .version = 3, .started_at = 1769903999, .bytes_done = 50,
            .bytes_total = 99 },
          "{\"tag\":\"1.25\",\"phase\":\"Pulling\",\"progress\":50,"
          "\"startTime\":\"2026-01-31T23:59:59Z\",\"version\":3}" },
        { "is there, but not all of it is known",
          { .phase = IMAGE_PULLING, .started_at = 1769903999, .image_id = (char *) ID },
          "{\"tag\":\"1.25\",\"phase\":\"Pulling\",\"startTime\":\"2026-01-31T23:59:59Z\"}" },
        { "has succeeded",
          { .phase = IMAGE_SUCCEEDED, .version = 3, .started_at = 1769903999,
            .completed_at = 1769904000, .image_id = (char *) ID },
          "{\"tag\":\"1.25\",\"phase\":\"Succeeded\",\"progress\":100,"
          "\"startTime\":\"2026-01-31T23:59:59Z\",\"completionTime\":\"2026-02-01T00:00:00Z\","
          "\"version\":3,\"imageID\":\"nginx@" ID "\"}" },
        { "has failed",
          { .phase = IMAGE_FAILED, .started_at = 1769903999, .completed_at = 1769904000,
            .reason = PULL_REASON_NOT_FOUND, .message = (char *) "NotFound: \"no\"\n; see" },
          "{\"tag\":\"1.25\",\"phase\":\"Failed\",\"startTime\":\"2026-01-31T23:59:59Z\","
          "\"completionTime\":\"2026-02-01T00:00:00Z\","
          "\"message\":\"NotFound: \\\"no\\\"\\n; see\"}" },
};

/* Statuses that others may have written, and how they are read. NULL: refused. */
static const struct Read {
        const char *text;
        const char *again;
} reads[] = {
        { "{\"phase\":\"Succeeded\",\"imageID\":\"redis@" ID "\"}",
          "{\"tag\":\"1.25\",\"phase\":\"Succeeded\",\"progress\":100}" },
        { "{\"phase\":\"Succeeded\",\"imageID\":\"nginx-proxy@" ID "\"}",
          "{\"tag\":\"1.25\",\"phase\":\"Succeeded\",\"progress\":100}" },
        { "{\"phase\":\"Succeeded\",\"imageID\":\"nginx\"}",
          "{\"tag\":\"1.25\",\"phase\":\"Succeeded\",\"progress\":100}" },
        { "{\"phase\":\"Succeeded\",\"imageID\":7,\"version\":null,\"message\":[]}",
          "{\"tag\":\"1.25\",\"phase\":\"Succeeded\",\"progress\":100}" },
        { "{\"phase\":\"Waiting\",\"startTime\":\"soon\",\"completionTime\":false}",
          "{\"tag\":\"1.25\",\"phase\":\"Waiting\"}" },
        { "{\"phase\":\"Waiting\",\"version\":-9223372036854775808}",
          "{\"tag\":\"1.25\",\"phase\":\"Waiting\",\"version\":-9223372036854775808}" },
        { "{\"phase\":\"Waiting\",\"more\":{\"phase\":\"Failed\"}}",
          "{\"tag\":\"1.25\",\"phase\":\"Waiting\"}" },
        { "{}", NULL },
        { "{\"phase\":\"\"}", NULL },
        { "{\"phase\":\"succeeded\"}", NULL },
        { "{\"phase\":null}", NULL },
        { "{\"phase\":0}", NULL },
        { "[]", NULL },
        { "null", NULL },
        { "\"Succeeded\"", NULL },
};

/* clang-format on */

TEST_ROWS(test_percent, percents, name, const struct Percent *percent) {
        const ImageStatus status = {
                .phase = percent->phase,
                .bytes_done = percent->done,
                .bytes_total = percent->total,
        };

        assert_int_equal(image_status_progress(&status), percent->percent);
}

static const char *print(json_object *object) {
        return json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN |
                                                              JSON_C_TO_STRING_NOSLASHESCAPE);
}

static void assert_written_as(const ImageStatus *status, const char *text) {
        cleanup(json_object_put_p) json_object *object = NULL;

        object = image_status_to_json(status, "nginx", "1.25");
        assert_non_null(object);
        assert_string_equal(print(object), text);
}

TEST_ROWS(test_written, written, name, const struct Written *row) {
        assert_written_as(&row->status, row->text);
}

/* A status is read as it was written, except for parts that only matter while the pull runs. */
TEST(test_there_and_back) {
        for (size_t i = 0; i < N_ELEMENTS(written); i++) {
                const ImageStatus *before = &written[i].status;
                cleanup(json_object_put_p) json_object *object = NULL;
                cleanup(image_status_done) ImageStatus after = { 0 };

                object = json_tokener_parse(written[i].text);
                assert_int_equal(image_status_from_json(object, "nginx", &after, NULL), 0);
                assert_int_equal(after.phase, before->phase);
                assert_int_equal(after.version, before->version);
                assert_int_equal(after.started_at, before->started_at);
                assert_int_equal(after.completed_at, before->completed_at);
                assert_int_equal(after.reason, before->reason);
                assert_string_equal(after.message ?: "", before->message ?: "");
                if (before->phase != IMAGE_PULLING)
                        assert_string_equal(after.image_id ?: "", before->image_id ?: "");
        }
}

/* clang-format off */
static const struct OnDemandRow {
        const char *text;
        ImageOnDemand found;
} on_demand_rows[] = {
        { "null", { .n_layers = 0 } },
        { "{'layers':2,'allLayers':3}", { .n_layers = 2, .n_layers_all = 3 } },
        { "{'layers':2,'allLayers':3,'bytesPresent':0,'bytesTotal':9}",
          { .n_layers = 2, .n_layers_all = 3, .is_counted = true, .bytes_total = 9 } },
        { "{'layers':2,'allLayers':3,'bytesPresent':9,'bytesTotal':9}",
          { .n_layers = 2, .n_layers_all = 3, .is_counted = true, .bytes_present = 9, .bytes_total = 9 } },
        { "{'layers':1,'allLayers':1,'bytesPresent':1,'bytesTotal':1}",
          { .n_layers = 1, .n_layers_all = 1, .is_counted = true, .bytes_present = 1, .bytes_total = 1 } },
        { "{'layers':2,'allLayers':3,'bytesPresent':10,'bytesTotal':9}", { .n_layers = 2, .n_layers_all = 3 } },
        { "{'layers':2,'allLayers':3,'bytesPresent':-1,'bytesTotal':9}", { .n_layers = 2, .n_layers_all = 3 } },
        { "{'layers':2,'allLayers':3,'bytesPresent':0,'bytesTotal':0}", { .n_layers = 2, .n_layers_all = 3 } },
};
/* clang-format on */

/* Numbers that cannot be are no count. */
TEST_ROWS(test_on_demand, on_demand_rows, text, const struct OnDemandRow *row) {
        cleanup(json_object_put_p) json_object *object =
                parse("{'phase':'Succeeded','onDemand':%s}", row->text);
        cleanup(image_status_done) ImageStatus status = { 0 };

        assert_ok(image_status_from_json(object, "nginx", &status, NULL));
        assert_int_equal(status.on_demand.n_layers, row->found.n_layers);
        assert_int_equal(status.on_demand.n_layers_all, row->found.n_layers_all);
        assert_int_equal(status.on_demand.is_counted, row->found.is_counted);
        assert_int_equal(status.on_demand.bytes_present, row->found.bytes_present);
        assert_int_equal(status.on_demand.bytes_total, row->found.bytes_total);
}

TEST_ROWS(test_read, reads, text, const struct Read *row) {
        cleanup(json_object_put_p) json_object *object = json_tokener_parse(row->text);
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(image_status_done) ImageStatus status = { .version = 42 };
        int r;

        r = image_status_from_json(object, "nginx", &status, &error);
        if (row->again) {
                assert_int_equal(r, 0);
                assert_written_as(&status, row->again);
                return;
        }

        assert_true(r < 0);
        assert_int_equal(error.kind, ERROR_INVALID);
        assert_int_equal(status.version, 42);
}

/* The reason is the word before the colon. */
TEST(test_reason_of_a_message) {
        static const struct {
                const char *text;
                PullReason reason;
        } rows[] = {
                { "{\"phase\":\"Failed\",\"message\":\"NoSpace: x: y\"}", PULL_REASON_NO_SPACE },
                { "{\"phase\":\"Failed\",\"message\":\"TLS\"}", PULL_REASON_TLS },
                { "{\"phase\":\"Failed\",\"message\":\"it broke\"}", PULL_REASON_UNKNOWN },
                { "{\"phase\":\"Failed\",\"message\":\"\"}", PULL_REASON_UNKNOWN },
                { "{\"phase\":\"Failed\"}", PULL_REASON_UNKNOWN },
                { "{\"phase\":\"Pulling\",\"message\":\"TLS: x\"}", PULL_REASON_NONE },
                { "{\"phase\":\"Succeeded\"}", PULL_REASON_NONE },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                cleanup(json_object_put_p) json_object *object = json_tokener_parse(rows[i].text);
                cleanup(image_status_done) ImageStatus status = { 0 };

                assert_int_equal(image_status_from_json(object, "nginx", &status, NULL), 0);
                assert_int_equal(status.reason, rows[i].reason);
        }
}

/* The agent of before may have pinned nothing for a reason that has gone. */
TEST(test_pin_in_a_message) {
        cleanup(json_object_put_p) json_object *object =
                json_tokener_parse("{\"phase\":\"Succeeded\",\"message\":\"not pinned: x\"}");
        cleanup(image_status_done) ImageStatus status = { 0 };

        assert_int_equal(image_status_from_json(object, "nginx", &status, NULL), 0);
        assert_null(status.message);
        assert_string_equal(status.pin, "not pinned: x");
}

TEST(test_resolved_in_a_message) {
        cleanup(json_object_put_p) json_object *object =
                json_tokener_parse("{\"phase\":\"Succeeded\",\"message\":\"" IMAGE_RESOLVED "x\"}");
        cleanup(image_status_done) ImageStatus status = { 0 };

        assert_int_equal(image_status_from_json(object, "nginx", &status, NULL), 0);
        assert_null(status.message);
        assert_string_equal(status.resolved, IMAGE_RESOLVED "x");
}

/* A secret that an older version has kept in a message is not shown. */
TEST(test_secret_in_a_message) {
        cleanup(json_object_put_p) json_object *object = json_tokener_parse(
                "{\"phase\":\"Failed\",\"message\":\"TLS: https://u:P@host/?s=1\"}");
        cleanup(image_status_done) ImageStatus status = { 0 };

        assert_int_equal(image_status_from_json(object, "nginx", &status, NULL), 0);
        assert_string_equal(status.message, "TLS: https://host/");
}

static void make_full(ImageStatus *status) {
        *status = (ImageStatus){
                .phase = IMAGE_FAILED,
                .step = IMAGE_STEP_BACKING_OFF,
                .version = 3,
                .started_at = 1,
                .completed_at = 2,
                .duration_usec = 4,
                .attempt = 5,
                .bytes_done = 6,
                .bytes_total = 7,
                .was_present = true,
                .reason = PULL_REASON_TLS,
                .message = strdup("TLS: x"),
                .pin = strdup("not pinned: x"),
                .image_id = strdup(ID),
        };
        assert_int_equal(image_status_set_digests(status, (const char *[]){ "a@b", "c@d" }, 2), 0);
}

TEST(test_copy) {
        cleanup(image_status_done) ImageStatus copy = { 0 };
        ImageStatus status;

        make_full(&status);
        assert_int_equal(image_status_copy(&status, &copy), 0);
        assert_memory_equal(&copy, &status, offsetof(ImageStatus, message));
        assert_ptr_not_equal(copy.message, status.message);
        image_status_done(&status);
        image_status_done(&status);

        assert_string_equal(copy.message, "TLS: x");
        assert_string_equal(copy.pin, "not pinned: x");
        assert_string_equal(copy.image_id, ID);
        assert_string_equal(copy.repo_digests[0], "a@b");
        assert_string_equal(copy.repo_digests[1], "c@d");
        assert_null(copy.repo_digests[2]);
}

TEST(test_copy_of_nothing) {
        const ImageStatus status = { .phase = IMAGE_WAITING };
        cleanup(image_status_done) ImageStatus copy = { .phase = IMAGE_FAILED };

        assert_int_equal(image_status_copy(&status, &copy), 0);
        assert_int_equal(copy.phase, IMAGE_WAITING);
        assert_null(copy.message);
        assert_null(copy.image_id);
        assert_true(!copy.repo_digests || !copy.repo_digests[0]);
}

TEST(test_digests_are_replaced) {
        cleanup(image_status_done) ImageStatus status;

        make_full(&status);
        assert_int_equal(image_status_set_digests(&status, (const char *[]){ "e@f" }, 1), 0);
        assert_string_equal(status.repo_digests[0], "e@f");
        assert_null(status.repo_digests[1]);
        assert_int_equal(image_status_set_digests(&status, NULL, 0), 0);
        assert_null(status.repo_digests[0]);
}

/* A status that another program wrote may be none. */
TEST(test_final) {
        static const struct {
                const char *entry;
                int expected;
        } rows[] = {
                { "{\"tag\":\"1\",\"phase\":\"Succeeded\"}", 1 },
                { "{\"tag\":\"1\",\"phase\":\"Failed\"}", 1 },
                { "{\"tag\":\"1\",\"phase\":\"Pulling\"}", 0 },
                { "{\"tag\":\"1\",\"phase\":\"Done\"}", 0 },
                { "{\"tag\":\"1\",\"phase\":7}", 0 },
                { "[]", 0 },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                cleanup(json_object_put_p) json_object *entry = json_tokener_parse(rows[i].entry);
                cleanup(image_status_done) ImageStatus status = { .phase = IMAGE_WAITING };

                assert_int_equal(image_status_read_final(entry, "nginx", &status),
                                 rows[i].expected);
        }
}

TEST(test_phases) {
        assert_string_equal(image_phase_to_string(IMAGE_WAITING), "Waiting");
        assert_string_equal(image_phase_to_string(IMAGE_PULLING), "Pulling");
        assert_string_equal(image_phase_to_string(IMAGE_SUCCEEDED), "Succeeded");
        assert_string_equal(image_phase_to_string(IMAGE_FAILED), "Failed");
        assert_false(image_phase_is_final(IMAGE_WAITING));
        assert_false(image_phase_is_final(IMAGE_PULLING));
        assert_true(image_phase_is_final(IMAGE_SUCCEEDED));
        assert_true(image_phase_is_final(IMAGE_FAILED));
}
