/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The local API, as a caller on its socket sees it, on a node without a runtime
 */

#include <unistd.h>

#include "agent/api/api.h"
#include "agent/api/calls.h"
#include "proto/inplaced/v1/node.pb-c.h"
#include "tests/unit/idle-images.h"
#include "tests/unit/metric-value.h"
#include "tests/unit/stderr-capture.h"
#include "tests/unit/unit.h"

#define FOLDER "/tmp/test-api-XXXXXX"
#define REQUESTS "inplaced_local_api_requests_total"

static const RpcMethod get_version = {
        .path = "/inplaced.v1.Node/GetVersion",
        .reply = &inplaced__v1__get_version_response__descriptor,
};

static const RpcMethod preload = {
        .path = "/inplaced.v1.Node/Preload",
        .reply = &inplaced__v1__preload_event__descriptor,
};

static const RpcMethod cancel = {
        .path = "/inplaced.v1.Node/Cancel",
        .reply = &inplaced__v1__cancel_response__descriptor,
};

static const RpcMethod list_probes = {
        .path = "/inplaced.v1.Node/ListProbes",
        .reply = &inplaced__v1__list_probes_response__descriptor,
};

static struct Fixture {
        char folder[sizeof(FOLDER)];
        char socket[64];
        sd_event *event;
        Log *log;
        Metrics *metrics;
        CompletionQueue *completions;
        Runtimes *runtimes;
        Images *images;
        DiagnosisSubject subject;
        Api *api;
        RpcClient *client;
        RpcCall *call;
        RpcCall *second;
        unsigned n_second; /* answers to that call */
        unsigned n_changes;
        unsigned n_messages;
        bool has_ended;
        ErrorKind kind; /* kind of the error at the end */
        char text[256]; /* text of the reply, or of the refusal */
} f;

static void on_changed(void *userdata) {
        f.n_changes++;
}

static int start(Error *reterr) {
        const ApiOptions options = {
                .completions = f.completions,
                .log = f.log,
                .metrics = f.metrics,
                .images = f.images,
                .runtimes = f.runtimes,
                .subject = &f.subject,
                .node_name = "node-1",
                .listener = { .path = f.socket, .fd = -1, .group = (gid_t) -1 },
                .restart_group = (gid_t) -1,
                .on_changed = on_changed,
        };

        return api_new(&options, &f.api, reterr);
}

static int set_up(void **state) {
        f = (struct Fixture){ .folder = FOLDER };
        assert_non_null(mkdtemp(f.folder));
        (void) snprintf(f.socket, sizeof(f.socket), "%s/socket", f.folder);
        assert_true(sd_event_new(&f.event) >= 0);
        assert_ok(log_new(LOG_FORMAT_TEXT, -1, &f.log));
        assert_ok(metrics_new(&(MetricsOptions){ .version = "test",
                                                 .local_api_methods = api_method_names },
                              &f.metrics));
        idle_images_new(f.event, f.log, &f.completions, &f.runtimes, &f.images);
        assert_ok(start(NULL));
        assert_ok(rpc_client_connect(f.completions, f.socket, NULL, NULL, &f.client, NULL));
        return 0;
}

static int tear_down(void **state) {
        rpc_call_unref(f.call);
        rpc_call_unref(f.second);
        rpc_client_free(f.client);
        assert_null(api_free(f.api));
        images_free(f.images);
        runtimes_free(f.runtimes);
        completion_queue_free(f.completions);
        metrics_free(f.metrics);
        log_free(f.log);
        sd_event_unref(f.event);
        assert_ok(rmdir(f.folder));
        return 0;
}

static void run(void) {
        assert_true(sd_event_run(f.event, WAIT_USEC) > 0);
}

static int on_done(const void *reply, const Error *error, void *userdata) {
        const Inplaced__V1__GetVersionResponse *version = reply;

        f.call = rpc_call_unref(f.call);
        f.has_ended = true;
        f.kind = error ? error->kind : ERROR_NONE;
        (void) snprintf(f.text, sizeof(f.text), "%s",
                        error     ? error_message(error)
                        : version ? version->version
                                  : "");
        return 0;
}

static int on_message(const void *message, void *userdata) {
        f.n_messages++;
        return 0;
}

static void call_preload(char **images, size_t n_images) {
        Inplaced__V1__PreloadRequest request = INPLACED__V1__PRELOAD_REQUEST__INIT;

        request.images = images;
        request.n_images = n_images;
        assert_ok(rpc_call_stream(f.client, &preload, &request.base, RPC_NO_TIMEOUT, on_message,
                                  on_done, NULL, &f.call));
}

TEST(test_plain_text) {
        static const struct {
                const char *text;
                bool is_plain;
        } rows[] = {
                { "", true },       { "a ~", true },           { "a\x1f", false },
                { "\x7f~", false }, { "\xe2\x80\xa6", false },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++)
                assert_string_equal(plain_text(rows[i].text),
                                    rows[i].is_plain ? rows[i].text : "?");
}

TEST_SET_UP(test_version) {
        Inplaced__V1__GetVersionRequest request = INPLACED__V1__GET_VERSION_REQUEST__INIT;

        assert_ok(rpc_call_unary(f.client, &get_version, &request.base, WAIT_USEC, on_done, NULL,
                                 &f.call));
        while (!f.has_ended)
                run();
        assert_int_equal(f.kind, ERROR_NONE);
        assert_string_equal(f.text, INPLACED_VERSION);
        assert_true(f.n_changes > 0);
        assert_true(metric_value(f.metrics, REQUESTS "{method=\"GetVersion\",result=\"ok\"}") == 1);
        api_measure(f.api);
        assert_true(metric_value(f.metrics, "inplaced_local_api_connections") == 1);
}

TEST_SET_UP(test_refusal) {
        char *images[] = { (char *) "UPPER:1" };

        call_preload(images, 1);
        while (!f.has_ended)
                run();
        assert_int_equal(f.kind, ERROR_INVALID);
        assert_contains(f.text, "UPPER");
        assert_int_equal(images_count(f.images), 0);
        assert_true(metric_value(f.metrics, REQUESTS "{method=\"Preload\",result=\"invalid\"}") ==
                    1);
}

/* Images that a caller desires are dropped when the caller goes. */
TEST_SET_UP(test_caller_goes) {
        char *images[] = { (char *) "nginx:1" };

        call_preload(images, 1);
        while (f.n_messages == 0)
                run();
        assert_int_equal(images_count(f.images), 1);
        f.call = rpc_call_unref(f.call);
        while (images_count(f.images) > 0)
                run();
        assert_true(metric_value(f.metrics, REQUESTS "{method=\"Preload\",result=\"canceled\"}") ==
                    1);
}

/* An image that is named twice is one. */
TEST_SET_UP(test_image_named_twice) {
        char *images[] = { (char *) "nginx:1", (char *) "nginx:1", (char *) "redis:1" };

        call_preload(images, N_ELEMENTS(images));
        while (f.n_messages == 0)
                run();
        assert_int_equal(images_count(f.images), 2);
}

static int on_canceled(const void *reply, const Error *error, void *userdata) {
        f.second = rpc_call_unref(f.second);
        assert_null(error);
        assert_int_equal(((const Inplaced__V1__CancelResponse *) reply)->canceled, 1);
        f.n_second++;
        return 0;
}

/* The log says who canceled a pull, also a single one. */
TEST_SET_UP(test_canceled_pull_is_logged) {
        Inplaced__V1__CancelRequest request = INPLACED__V1__CANCEL_REQUEST__INIT;
        char *images[] = { (char *) "nginx:1" };
        Stderr captured;

        call_preload(images, 1);
        while (f.n_messages == 0)
                run();
        request.image = images[0];
        log_set_level(f.log, LOG_INFO);
        stderr_pipe(&captured);
        assert_ok(rpc_call_unary(f.client, &cancel, &request.base, WAIT_USEC, on_canceled, NULL,
                                 &f.second));
        while (f.n_second == 0)
                run();
        assert_contains(stderr_restore(&captured), "Canceled 1 pull of nginx:1 for ");
}

static int on_probes(const void *reply, const Error *error, void *userdata) {
        f.second = rpc_call_unref(f.second);
        assert_null(error);
        assert_int_equal(((const Inplaced__V1__ListProbesResponse *) reply)->n_probes, 0);
        f.n_second++;
        return 0;
}

/* A node outside a cluster has no probes to list, which is no error. */
TEST_SET_UP(test_no_probes) {
        Inplaced__V1__ListProbesRequest request = INPLACED__V1__LIST_PROBES_REQUEST__INIT;

        assert_ok(rpc_call_unary(f.client, &list_probes, &request.base, WAIT_USEC, on_probes, NULL,
                                 &f.second));
        while (f.n_second == 0)
                run();
}

/* The socket of an agent that serves it is not taken from it. */
TEST_SET_UP(test_second_agent) {
        cleanup(error_done) Error error = ERROR_INIT;
        Api *first = f.api;

        f.api = NULL;
        assert_true(start(&error) < 0);
        assert_contains(error_message(&error), f.socket);
        assert_null(f.api);
        f.api = first;
}
