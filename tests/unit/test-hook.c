/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests the outcome of preStop hooks, with a runtime that answers what the test says, and a real
 * server
 */

#include <sys/resource.h>

#include "agent/pod/hook.h"
#include "tests/unit/fake-runtime.h"
#include "tests/unit/plain-server.h"
#include "tests/unit/unit.h"

#define LATE_USEC 20000
#define EXEC "{\"exec\":{\"command\":[\"bye\",\"now\"]}}"
#define HTTP "{\"httpGet\":{\"port\":%u}}"
#define HTTPS "{\"httpGet\":{\"port\":%u,\"scheme\":\"HTTPS\"}}"
#define TCP "{\"tcpSocket\":{\"port\":%u}}"

typedef struct Fixture {
        sd_event *event;
        PlainServer server;
        HandlerSpec spec;
        Hook *hook;
        unsigned n_done;
        ErrorKind kind;
        char message[256];
        char plain_host[64];
} Fixture;

static int on_done(const Error *error, const char *plain_host, void *userdata) {
        Fixture *f = userdata;

        f->n_done++;
        f->kind = error ? error->kind : ERROR_NONE;
        snprintf(f->message, sizeof(f->message), "%s", error ? error_message(error) : "");
        snprintf(f->plain_host, sizeof(f->plain_host), "%s", plain_host ?: "");
        f->hook = hook_free(f->hook);
        return 0;
}

static void open_fixture(Fixture *f) {
        fake_runtime_reset();
        assert_true(sd_event_new(&f->event) >= 0);
        plain_server_open(&f->server, f->event, 1, 0);
        f->spec = HANDLER_SPEC_INIT;
}

static void close_fixture(Fixture *f) {
        hook_free(f->hook);
        assert_null(fake_runtime_find(NULL));
        handler_spec_done(&f->spec);
        plain_server_close(&f->server);
        sd_event_unref(f->event);
}

DEFINE_FIXTURE(Fixture, open_fixture, close_fixture)

/* "%u" in the hook is the port. */
static void start(Fixture *f, const char *hook, unsigned port, uint64_t timeout_usec) {
        const HookTarget target = {
                .client = (RpcClient *) &fake_runtime,
                .container_id = "c1",
                .address = "127.0.0.1",
        };
        char text[128];

        f->n_done = 0;
        handler_spec_done(&f->spec);
        snprintf(text, sizeof(text), hook, port);
        assert_ok(handler_spec_parse(text, NULL, &f->spec, NULL));
        assert_ok(hook_run(f->event, &f->spec, &target, timeout_usec, on_done, f, &f->hook));
        assert_int_equal(f->n_done, 0);
}

static void finish(Fixture *f, ErrorKind kind, const char *message) {
        while (f->n_done == 0)
                assert_true(sd_event_run(f->event, WAIT_USEC) > 0);
        assert_int_equal(f->n_done, 1);
        assert_int_equal(f->kind, kind);
        assert_int_equal(strncmp(f->message, message, strlen(message)), 0);
        if (!*message)
                assert_string_equal(f->message, "");
}

/* The first line of a program's complaint is reported. */
TEST_F(test_exec, Fixture *f) {
        static const struct {
                int status;
                const char *output, *complaint;
                ErrorKind kind;
                const char *message;
        } cases[] = {
                { 0, "fine", "", ERROR_NONE, "" },
                { 3, "", "it is \"bad\"\nvery", ERROR_INVALID,
                  "the command exited with status 3: \"it is \\\"bad\\\"\"" },
                { 4, "x", "", ERROR_INVALID, "the command exited with status 4" },
                { 5, "", "\nx", ERROR_INVALID, "the command exited with status 5" },
        };

        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                start(f, EXEC, 0, 7000000);
                assert_string_equal(fake_runtime_find("ExecSync")->target, "c1");
                assert_string_equal(fake_runtime_find("ExecSync")->command, "bye now");
                assert_int_equal(fake_runtime_find("ExecSync")->timeout_sec, 7);
                fake_runtime_answer_exec(cases[i].status, cases[i].output, cases[i].complaint);
                finish(f, cases[i].kind, cases[i].message);
                assert_int_equal(strlen(f->message), strlen(cases[i].message));
        }

        start(f, EXEC, 0, WAIT_USEC);
        fake_runtime_refuse("ExecSync", ERROR_UNAVAILABLE, "no runtime");
        finish(f, ERROR_UNAVAILABLE, "no runtime");
        start(f, EXEC, 0, WAIT_USEC);
        fake_runtime_refuse("ExecSync", ERROR_TIMEOUT, "late");
        finish(f, ERROR_TIMEOUT, "late");
        start(f, EXEC, 0, LATE_USEC);
        finish(f, ERROR_TIMEOUT, "it did not finish within");
}

/* A program may complain at length, and in bytes that are no text. */
TEST_F(test_long_complaint, Fixture *f) {
        char *output = malloc(2 * HANDLER_OUTPUT_MAX);

        memset(output, 0xff, 2 * HANDLER_OUTPUT_MAX);
        output[2 * HANDLER_OUTPUT_MAX - 1] = '\0';
        start(f, EXEC, 0, WAIT_USEC);
        fake_runtime_answer_exec(1, "", output);
        finish(f, ERROR_INVALID, "the command exited with status 1: \"");
        assert_true(strlen(f->message) < sizeof(f->message) - 1);
        free(output);
}

/* Any answer counts, also if it breaks off. */
TEST_F(test_http, Fixture *f) {
        static const char *const answers[] = {
                "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
                "HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nno",
                "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx",
        };

        for (size_t i = 0; i < N_ELEMENTS(answers); i++) {
                f->server.answer = answers[i];
                start(f, HTTP, f->server.port, WAIT_USEC);
                finish(f, ERROR_NONE, "");
                assert_contains(f->server.text, "\r\nUser-Agent: kube-lifecycle/inplaced\r\n");
                assert_string_equal(f->plain_host, "");
        }

        f->server.answer = NULL;
        start(f, HTTP, f->server.port, LATE_USEC);
        finish(f, ERROR_TIMEOUT, "it did not finish within");
}

/* A server that does not speak TLS is asked once more without it. */
TEST_F(test_without_tls, Fixture *f) {
        char host[32];

        f->server.answer = "HTTP/1.1 204 Fine\r\nContent-Length: 0\r\n\r\n";
        start(f, HTTPS, f->server.port, WAIT_USEC);
        finish(f, ERROR_NONE, "");
        assert_true(f->server.was_tls);
        snprintf(host, sizeof(host), "127.0.0.1:%u", f->server.port);
        assert_string_equal(f->plain_host, host);
}

TEST_F(test_nothing_listens, Fixture *f) {
        static const char *const hooks[] = { HTTP, TCP };
        unsigned port = f->server.port;

        start(f, TCP, port, WAIT_USEC);
        finish(f, ERROR_NONE, "");
        plain_server_close(&f->server);
        for (size_t i = 0; i < 2; i++) {
                start(f, hooks[i], port, WAIT_USEC);
                while (f->n_done == 0)
                        assert_true(sd_event_run(f->event, WAIT_USEC) > 0);
                assert_int_equal(f->kind, ERROR_UNAVAILABLE);
                assert_true(f->message[0]);
        }
        plain_server_open(&f->server, f->event, 1, 0);
}

TEST_F(test_sleep, Fixture *f) {
        start(f, "{\"sleep\":{\"seconds\":0}}", 0, WAIT_USEC);
        finish(f, ERROR_NONE, "");
}

TEST_F(test_dropped, Fixture *f) {
        static const char *const hooks[] = { EXEC, HTTP, TCP };

        for (size_t i = 0; i < 3; i++) {
                start(f, hooks[i], f->server.port, WAIT_USEC);
                f->hook = hook_free(f->hook);
                assert_null(f->hook);
                assert_null(fake_runtime_find(NULL));
                while (sd_event_run(f->event, 0) > 0)
                        ;
                assert_int_equal(f->n_done, 0);
        }
}

/* The agent goes on, and the container is stopped without its hook, as after any failure of it. */
TEST_F(test_lack_of_descriptors, Fixture *f) {
        struct rlimit limit, none;

        assert_ok(getrlimit(RLIMIT_NOFILE, &limit));
        none = limit;
        none.rlim_cur = 0;
        assert_ok(setrlimit(RLIMIT_NOFILE, &none));
        start(f, HTTP, 80, 1000000);
        assert_ok(setrlimit(RLIMIT_NOFILE, &limit));
        finish(f, ERROR_UNAVAILABLE, "no file descriptor is free");
}
