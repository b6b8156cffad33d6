/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A writer that keeps the status of one object, with a server that does what the test says
 *
 * The watch is real. The wanted status is one number, and the writer's owner pauses as long as the test
 * says.
 */

#include "tests/unit/fake-clock.h"
#include "tests/unit/fake-kube.h"

#include <errno.h>
#include <json-c/json.h>

#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/kube/retry.h"
#include "agent/kube/writer.h"
#include "tests/unit/metric-value.h"
#include "tests/unit/stderr-capture.h"
#include "tests/unit/unit.h"

#define PATH "/apis/g.io/v1/things/node-1"
#define FAILED "inplaced_probe_writes_total{result=\"failed\"}"
#define SUCCEEDED "inplaced_probe_writes_total{result=\"succeeded\"}"

static const char *const versions[] = { "v1", NULL };

static struct Fixture {
        Log *log;
        Stderr captured;
        Metrics *metrics;
        KubeResource *resource;
        KubeWriter writer;
        int wanted, known; /* the status */
        uint64_t not_before_usec;
        unsigned n_sent, n_written, n_changed;
} f;

static int compare(KubeWrite *ret_write, void *userdata) {
        if (f.wanted == f.known)
                return 0;

        ret_write->not_before_usec = f.not_before_usec;
        ret_write->body = patch_wrap("status", patch_wrap("n", json_object_new_int(f.wanted)));
        return ret_write->body ? 0 : -ENOMEM;
}

static void on_sent(void *userdata) {
        f.n_sent++;
}

static int get_status(struct json_object *object) {
        struct json_object *n = NULL;

        (void) json_object_object_get_ex(json_get(object, "status", json_type_object), "n", &n);
        return json_object_get_int(n);
}

static int on_written(struct json_object *body, void *userdata) {
        f.n_written++;
        if (body)
                f.known = get_status(body);
        return 0;
}

static void on_changed(void *userdata) {
        f.n_changed++;
}

static int on_object(const KubeObject *object, void *userdata) {
        int r = kube_writer_show(&f.writer, object);

        if (r > 0)
                f.known = get_status(object->json);
        return r < 0 ? r : 0;
}

static int on_gone(const KubeObject *object, void *userdata) {
        kube_writer_forget(&f.writer);
        f.known = 0;
        return 0;
}

static void on_list(void *userdata) {
        kube_writer_list(&f.writer);
}

static int on_resource_changed(void *userdata) {
        return kube_writer_request(&f.writer);
}

static int set_up(void **state) {
        fake_kube_open();
        f = (struct Fixture){ .metrics = metrics_for_test() };
        stderr_pipe(&f.captured);
        assert_ok(log_new(LOG_FORMAT_TEXT, LOG_INFO, &f.log));
        kube_writer_init(&f.writer, &(KubeWriterOptions){
                                            .client = &fake_kube,
                                            .log = f.log,
                                            .metrics = f.metrics,
                                            .metric = METRIC_PROBE_WRITES,
                                            .group = "g.io",
                                            .resource = "things",
                                            .name = "node-1",
                                            .failed = "Cannot write",
                                            .recovered = "It is written again",
                                            .compare = compare,
                                            .on_sent = on_sent,
                                            .on_written = on_written,
                                            .on_changed = on_changed,
                                    });
        assert_ok(kube_resource_new(&(KubeResourceOptions){ .client = &fake_kube,
                                                            .log = f.log,
                                                            .group = "g.io",
                                                            .versions = versions,
                                                            .resource = "things",
                                                            .subject = "the things",
                                                            .selections = { {
                                                                    .on_object = on_object,
                                                                    .on_gone = on_gone,
                                                                    .on_list = on_list,
                                                            } },
                                                            .on_changed = on_resource_changed },
                                    &f.resource));
        f.writer.resource = f.resource;
        return 0;
}

static int tear_down(void **state) {
        if (f.captured.saved > 0)
                (void) stderr_restore(&f.captured);
        kube_resource_free(f.resource);
        kube_writer_done(&f.writer);
        metrics_free(f.metrics);
        log_free(f.log);
        fake_clock_done();
        fake_kube_close();
        return 0;
}

/* How often the log has this text; to be called once. */
static unsigned count_logged(const char *text) {
        const char *at = stderr_restore(&f.captured);
        unsigned n = 0;

        f.captured.saved = 0;
        for (; (at = strstr(at, text)); at += strlen(text))
                n++;
        return n;
}

static void turn(void) {
        fake_clock_turn(fake_kube.event);
}

static void answer(const char *method, const char *path, int code, const char *body) {
        assert_ok(fake_kube_answer_call(fake_kube_find(method, path), code, body));
}

static void send_line(const char *line) {
        KubeCall *watch = fake_kube_find("GET", "watch=true");

        assert_non_null(watch);
        assert_ok(fake_kube_send(watch, line, strlen(line)));
}

static void show(const char *type, const char *uid, const char *version, int n) {
        char line[512];

        (void) snprintf(line, sizeof(line),
                        "{\"type\":\"%s\",\"object\":{\"metadata\":{\"name\":\"node-1\",\"uid\":"
                        "\"%s\",\"resourceVersion\":\"%s\"},\"status\":{\"n\":%d}}}\n",
                        type, uid, version, n);
        send_line(line);
}

static void end_list(const char *version) {
        char line[512];

        (void) snprintf(line, sizeof(line),
                        "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":"
                        "\"%s\",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}}}}\n",
                        version);
        send_line(line);
        turn();
}

/* The watch shows the object, whose status is 0; wanted: what the owner wants. */
static void start(int wanted) {
        f.wanted = wanted;
        answer("GET", "/apis/g.io", 200, "{\"versions\":[{\"version\":\"v1\"}]}");
        answer("GET", "/apis/g.io/v1", 200,
               "{\"resources\":[{\"name\":\"things\"},{\"name\":\"things/status\"}]}");
        assert_ok(fake_kube_accept(fake_kube_find("GET", "watch=true")));
        show("ADDED", "u-1", "5", 0);
        end_list("5");
}

static void want(int wanted) {
        f.wanted = wanted;
        assert_ok(kube_writer_request(&f.writer));
        turn();
}

/* Returns the body of the pending write; NULL: there is none. */
static const char *pending(void) {
        const KubeCall *call = fake_kube_find("PATCH", PATH "/status");

        return call ? call->request.body : NULL;
}

static void assert_pending(int n, const char *version) {
        char body[128];

        (void) snprintf(body, sizeof(body),
                        "{\"status\":{\"n\":%d},\"metadata\":{\"resourceVersion\":\"%s\"}}", n,
                        version);
        assert_non_null(pending());
        assert_string_equal(pending(), body);
}

/* The server answers the pending write; version NULL: the answer has none. */
static void reply(int code, const char *version) {
        char body[128] = "{}";

        if (version)
                (void) snprintf(body, sizeof(body), "{\"metadata\":{\"resourceVersion\":\"%s\"}}",
                                version);
        answer("PATCH", PATH, code, body);
        turn();
}

/* Lets time pass until the next write; returns how much has passed. */
static uint64_t await_write(void) {
        uint64_t begin_usec = fake_clock.now_usec;

        while (!pending()) {
                fake_clock_skip(fake_kube.event);
                turn();
        }

        return fake_clock.now_usec - begin_usec;
}

TEST_SET_UP(test_written) {
        start(1);
        assert_pending(1, "5");
        want(2);
        assert_pending(1, "5");
        reply(200, "6");
        assert_pending(2, "6");
        reply(200, "7");
        assert_null(pending());
        assert_int_equal(f.n_sent, 2);
        assert_int_equal(f.n_written, 2);
        assert_int_equal(f.n_changed, 0);
        assert_true(metric_value(f.metrics, SUCCEEDED) == 2);
        assert_int_equal(count_logged("written"), 0);
}

TEST_SET_UP(test_owner_waits) {
        f.not_before_usec = fake_clock.now_usec + 7 * SEC;
        start(1);
        assert_null(pending());
        assert_int_equal(await_write(), 7 * SEC);
        assert_int_equal(f.n_sent, 1);
}

TEST_SET_UP(test_unsynced) {
        start(0);
        answer("GET", "watch=true", 503, "");
        want(1);
        assert_null(pending());
}

TEST_SET_UP(test_failures) {
        start(1);
        for (unsigned i = 0; i < 3; i++) {
                reply(503, NULL);
                assert_null(pending());
                assert_in_range(await_write(), (KUBE_RETRY_MIN_USEC << i) * 4 / 5,
                                (KUBE_RETRY_MIN_USEC << i) * 6 / 5);
        }
        assert_int_equal(f.writer.error.kind, ERROR_UNAVAILABLE);
        assert_int_equal(f.n_changed, 1);
        reply(503, NULL);
        assert_ok(kube_writer_kick(&f.writer));
        turn();
        reply(200, "6");
        assert_int_equal(f.writer.error.kind, ERROR_NONE);
        assert_int_equal(f.n_changed, 2);
        assert_true(metric_value(f.metrics, FAILED) == 4);
        assert_int_equal(count_logged("Cannot write: code 503."), 1);
}

/* The watch shows that the write whose answer was lost was accepted. */
TEST_SET_UP(test_succeeded_after_all) {
        start(1);
        reply(0, NULL);
        show("MODIFIED", "u-1", "6", 1);
        fake_clock_pass(fake_kube.event, SEC);
        assert_null(pending());
        assert_int_equal(f.writer.error.kind, ERROR_NONE);
        assert_int_equal(count_logged("It is written again."), 1);
}

TEST_SET_UP(test_reverted) {
        char version[8];

        start(1);
        for (unsigned i = 0; i < 4; i++) {
                (void) snprintf(version, sizeof(version), "%u", 6 + 2 * i);
                reply(200, version);
                (void) snprintf(version, sizeof(version), "%u", 7 + 2 * i);
                show("MODIFIED", "u-1", version, 0);
                turn();
                assert_null(pending());
                assert_int_equal(await_write(), REPEAT_MIN_USEC << i);
        }
}

TEST_SET_UP(test_conflict_of_an_old_object) {
        start(1);
        show("MODIFIED", "u-1", "6", 0);
        reply(409, NULL);
        assert_pending(1, "6");
        reply(409, NULL);
        assert_null(pending());
        show("MODIFIED", "u-1", "7", 0);
        turn();
        assert_pending(1, "7");
        assert_true(metric_value(f.metrics, FAILED) == 0);
        assert_int_equal(count_logged("Cannot write"), 0);
}

/* The answer shows neither the write's result nor a refusal. */
static const struct Answer {
        const char *message;
        int code;
} unexplained[] = {
        { "code 409", 409 },
        { "the server's answer has no resourceVersion", 200 },
};

TEST_ROWS_F(test_unexplained_conflicts, unexplained, message, const struct Answer *row,
            void *state) {
        start(1);
        for (unsigned k = 0; k < KUBE_PATCH_CONFLICTS_MAX; k++) {
                assert_null(fake_kube_find("GET", PATH));
                assert_pending(1, "5");
                reply(row->code, NULL);
                if (k + 1 < KUBE_PATCH_CONFLICTS_MAX)
                        assert_true(await_write() >= KUBE_PATCH_CONFLICT_USEC);
        }
        assert_non_null(fake_kube_find("GET", PATH));
        assert_true(metric_value(f.metrics, FAILED) == 1);
        assert_string_equal(error_message(&f.writer.error), row->message);
}

/* After a restore of the server's store, the object has an older version, and yet is the newest. */
TEST_SET_UP(test_restored_store) {
        start(1);
        reply(200, "9");
        show("MODIFIED", "u-1", "8", 0);
        turn();
        assert_null(pending());
        assert_int_equal(f.known, 1);

        kube_writer_list(&f.writer);
        show("MODIFIED", "u-1", "3", 0);
        turn();
        assert_int_equal(f.known, 0);
        (void) await_write();
        assert_pending(1, "3");
}

TEST_SET_UP(test_another_object) {
        start(1);
        show("ADDED", "u-2", "3", 0);
        turn();
        assert_pending(1, "3");
        reply(503, NULL);
        show("DELETED", "u-2", "4", 0);
        turn();
        assert_int_equal(f.writer.error.kind, ERROR_NONE);
        fake_clock_pass(fake_kube.event, 60 * SEC);
        assert_null(pending());
        show("ADDED", "u-3", "2", 0);
        turn();
        assert_pending(1, "2");
}

static const struct Part {
        const char *name;
        bool is_merged_by_keys;
        bool is_spec;
        const char *path;
        const char *content_type;
} parts[] = {
        { "status", false, false, PATH "/status", KUBE_MERGE_PATCH },
        { "status, lists by their keys", true, false, PATH "/status", KUBE_STRATEGIC_MERGE_PATCH },
        { "object itself", false, true, PATH, KUBE_MERGE_PATCH },
        { "object itself, lists by their keys", true, true, PATH, KUBE_STRATEGIC_MERGE_PATCH },
};

/* Whatever the form, the write has the guard, and its result counts. */
TEST_ROWS_F(test_parts, parts, name, const struct Part *row, void *state) {
        const KubeCall *call;

        f.writer.options.is_merged_by_keys = row->is_merged_by_keys;
        f.writer.options.is_spec = row->is_spec;
        start(1);
        call = fake_kube_find("PATCH", PATH);
        assert_non_null(call);
        assert_string_equal(call->request.path, row->path);
        assert_string_equal(call->request.content_type, row->content_type);
        assert_string_equal(call->request.body,
                            "{\"status\":{\"n\":1},\"metadata\":{\"resourceVersion\":\"5\"}}");
        reply(200, "6");
        assert_null(fake_kube_find("PATCH", PATH));
        assert_int_equal(f.known, 1);
        assert_int_equal(f.n_written, 1);
}
