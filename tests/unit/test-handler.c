/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Running what hooks and probes consist of: against a server whose every byte the test decides on, one that speaks TLS, and a
 * runtime that is a few functions here
 */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/unit.h"
#include <microhttpd.h>

#include "agent/pod/handler.h"
#include "tests/unit/fake-runtime.h"
#include "tests/unit/plain-server.h"

typedef struct Fixture {
        sd_event *event;
        PlainServer server;
        uint16_t port;
        unsigned n_connections_before;

        HandlerSpec spec;
        HandlerOptions options;
        HttpPeer *http;
        Handler *handler;
        unsigned n_done;
        HandlerOutcome outcome;
        ErrorKind kind;
        char message[256];
        int status;
        char plain_host[64];
        char output[HANDLER_OUTPUT_MAX + 1];
        size_t output_size;
} Fixture;

static int on_done(const HandlerResult *result, void *userdata) {
        Fixture *f = userdata;

        f->n_done++;
        f->outcome = result->outcome;
        f->kind = result->error ? result->error->kind : ERROR_NONE;
        f->status = result->status;
        f->output_size = result->output_size;
        assert_true(f->output_size <= HANDLER_OUTPUT_MAX);
        if (f->output_size > 0)
                memcpy(f->output, result->output, f->output_size);
        f->output[f->output_size] = '\0';
        snprintf(f->message, sizeof(f->message), "%s",
                 result->error ? error_message(result->error) : "");
        snprintf(f->plain_host, sizeof(f->plain_host), "%s", result->plain_host ?: "");
        f->handler = handler_free(f->handler);
        return 0;
}

static void open_fixture(Fixture *f) {
        fake_runtime_reset();
        assert_true(sd_event_new(&f->event) >= 0);
        plain_server_open(&f->server, f->event, 1, 0);
        f->port = f->server.port;
        assert_ok(http_peer_new_for_any(f->event, &f->http));
        f->options = (HandlerOptions){
                .event = f->event,
                .spec = &f->spec,
                .client = (RpcClient *) &fake_runtime,
                .container_id = "c1",
                .http = f->http,
                .address = "127.0.0.1",
                .user_agent = "tester/1",
                .allows_plain = true,
                .on_done = on_done,
                .userdata = f,
        };
        f->spec = HANDLER_SPEC_INIT;

        /* No request may use these proxies. */
        setenv("http_proxy", "http://127.0.0.1:9", 1);
        setenv("https_proxy", "http://127.0.0.1:9", 1);
}

static void close_fixture(Fixture *f) {
        handler_free(f->handler);
        http_peer_unref(f->http);
        handler_spec_done(&f->spec);
        plain_server_close(&f->server);
        sd_event_unref(f->event);
}

DEFINE_FIXTURE(Fixture, open_fixture, close_fixture)

/* "%u" in the handler is the server's port. */
static void start(Fixture *f, const char *handler, uint64_t timeout_usec) {
        char *text;

#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        assert_true(asprintf(&text, handler, f->port) >= 0);
        handler_spec_done(&f->spec);
        assert_ok(handler_spec_parse(text, NULL, &f->spec, NULL));
        free(text);
        f->n_done = 0;
        f->options.timeout_usec = timeout_usec;
        assert_ok(handler_run(&f->options, &f->handler));
        assert_int_equal(f->n_done, 0);
        handler_spec_done(&f->spec); /* the handler has its own copy */
}

static void finish(Fixture *f, HandlerOutcome outcome, ErrorKind kind, const char *message) {
        while (f->n_done == 0)
                assert_true(sd_event_run(f->event, WAIT_USEC) > 0);
        assert_null(f->handler);
        if (f->outcome != outcome || f->kind != kind || !strstr(f->message, message))
                fail_msg("%d %s: %s", (int) f->outcome, error_kind_to_string(f->kind), f->message);
}

TEST_F(test_http, Fixture *f) {
        f->server.answer = "HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nno";
        start(f, "{\"httpGet\":{\"path\":\"/a b?c=ä\",\"port\":%u}}", WAIT_USEC);
        finish(f, HANDLER_FAILED, ERROR_INVALID, "the server answered with HTTP status 500");
        assert_int_equal(f->status, 500);
        assert_string_equal(f->output, "no");
        assert_contains(f->server.text, "GET /a%20b?c=%C3%A4 HTTP/1.1\r\n");
        assert_contains(f->server.text, "\r\nHost: 127.0.0.1:");
        assert_contains(f->server.text, "\r\nUser-Agent: tester/1\r\n");
        assert_contains(f->server.text, "\r\nAccept: */*\r\n");
        assert_contains(f->server.text, "\r\nConnection: close\r\n");
        assert_null(strstr(f->server.text, "Authorization"));
}

TEST_F(test_http_headers, Fixture *f) {
        f->server.answer = "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\n\r\n";
        f->options.address =
                NULL; /* the hook has a host of its own, which is no loopback for proxies */
        start(f,
              "{\"httpGet\":{\"host\":\"0.0.0.0\",\"port\":\"%u\",\"httpHeaders\":["
              "{\"name\":\"Host\",\"value\":\"a.example\"},{\"name\":\"user-agent\",\"value\":\"me\"},"
              "{\"name\":\"Accept\",\"value\":\"\"},{\"name\":\"X-Empty\",\"value\":\"\"},"
              "{\"name\":\"Authorization\",\"value\":\"Bearer s3cret\"},"
              "{\"name\":\"X-A\",\"value\":\"1\"},{\"name\":\"X-A\",\"value\":\"2\"},"
              "{\"name\":\"connection\",\"value\":\"keep-alive\"},"
              "{\"name\":\"Content-Length\",\"value\":\"7\"}]}}",
              WAIT_USEC);
        finish(f, HANDLER_SUCCEEDED, ERROR_NONE, "");
        assert_int_equal(f->server.n_connections, 1);
        assert_contains(f->server.text, "\r\nHost: a.example\r\n");
        assert_contains(f->server.text, "\r\nuser-agent: me\r\n");
        assert_contains(f->server.text, "\r\nX-Empty:\r\n");
        assert_contains(f->server.text, "\r\nX-A: 1\r\n");
        assert_contains(f->server.text, "\r\nX-A: 2\r\n");
        assert_contains(f->server.text, "\r\nAuthorization: Bearer s3cret\r\n");
        assert_string_equal(f->plain_host, "");
        assert_null(strstr(f->server.text, "Accept:"));
        assert_null(strstr(f->server.text, "tester"));
        assert_null(strstr(f->server.text, "Content-Length"));
        assert_contains(f->server.text, "\r\nconnection: keep-alive\r\n");
        assert_null(strstr(f->server.text, "close"));
}

/* An answer or a failure of a server is forgotten when the next one is asked. */
TEST_F(test_http_after_others, Fixture *f) {
        static const char *const before[] = {
                "HTTP/1.0 200 OK\r\nSet-Cookie: a=s3cret\r\nContent-Length: 3\r\n\r\nold",
                "HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm=\"a\"\r\nContent-Length: "
                "0\r\n\r\n",
                "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\n\r\n",
                "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nold",
                "no HTTP",
        };

        for (size_t i = 0; i < N_ELEMENTS(before); i++) {
                f->server.answer = before[i];
                start(f,
                      "{\"httpGet\":{\"port\":%u,\"path\":\"/old\",\"httpHeaders\":["
                      "{\"name\":\"Host\",\"value\":\"a.example\"},"
                      "{\"name\":\"User-Agent\",\"value\":\"\"},"
                      "{\"name\":\"Authorization\",\"value\":\"Bearer s3cret\"}]}}",
                      WAIT_USEC);
                while (f->n_done == 0)
                        assert_true(sd_event_run(f->event, WAIT_USEC) > 0);

                f->server.answer = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nnew";
                start(f, "{\"httpGet\":{\"port\":%u}}", WAIT_USEC);
                finish(f, HANDLER_SUCCEEDED, ERROR_NONE, "");
                assert_string_equal(f->output, "new");
                assert_int_equal(f->status, 200);
                assert_contains(f->server.text, "GET / HTTP/1.1\r\nHost: 127.0.0.1:");
                assert_contains(f->server.text, "\r\nUser-Agent: tester/1\r\n");
                assert_null(strstr(f->server.text, "s3cret"));
                assert_int_equal(f->server.n_connections, 2 * i + 2);
        }
}

/* https, answered in plain HTTP, is tried once more without TLS where that is allowed, as the kubelet
 * does for hooks: without what shall not be read on the way, whatever its case. */
TEST_F(test_http_fallback, Fixture *f) {
        char host[64];

        f->server.answer = "HTTP/1.1 204 Fine\r\nContent-Length: 0\r\n\r\n";
        start(f,
              "{\"httpGet\":{\"scheme\":\"HTTPS\",\"port\":%u,\"httpHeaders\":["
              "{\"name\":\"X-A\",\"value\":\"1\"},"
              "{\"name\":\"Authorization\",\"value\":\"Bearer s3cret\"},"
              "{\"name\":\"aUTHORIZATION\",\"value\":\"Basic s3cret\"},"
              "{\"name\":\"authorization\",\"value\":\"\"},"
              "{\"name\":\"Authorization-Hint\",\"value\":\"none\"},"
              "{\"name\":\"X-B\",\"value\":\"2\"}]}}",
              WAIT_USEC);
        finish(f, HANDLER_SUCCEEDED, ERROR_NONE, "");
        assert_true(f->server.was_tls);
        assert_int_equal(f->server.n_connections, 2);
        assert_contains(f->server.text, "GET / HTTP/1.1\r\n");
        assert_contains(f->server.text, "\r\nX-A: 1\r\n");
        assert_contains(f->server.text, "\r\nX-B: 2\r\n");
        assert_contains(f->server.text, "\r\nAuthorization-Hint: none\r\n");
        assert_null(strstr(f->server.text, "s3cret"));
        assert_null(strcasestr(f->server.text, "authorization:"));
        snprintf(host, sizeof(host), "127.0.0.1:%u", f->port);
        assert_string_equal(f->plain_host, host);

        f->options.allows_plain = false;
        start(f, "{\"httpGet\":{\"scheme\":\"HTTPS\",\"port\":%u}}", WAIT_USEC);
        finish(f, HANDLER_FAILED, ERROR_UNAVAILABLE, "");
        assert_int_equal(f->server.n_connections, 3);
        assert_string_equal(f->plain_host, "");
}

TEST_F(test_http_failures, Fixture *f) {
        f->server.answer = "";
        start(f, "{\"httpGet\":{\"port\":%u}}", WAIT_USEC);
        finish(f, HANDLER_FAILED, ERROR_UNAVAILABLE, "was cut");

        start(f, "{\"httpGet\":{\"port\":1,\"path\":\"/%u\"}}", WAIT_USEC);
        finish(f, HANDLER_FAILED, ERROR_UNAVAILABLE,
               "cannot connect to http://127.0.0.1:1: Connection refused");

        f->options.address = NULL;
        start(f, "{\"httpGet\":{\"port\":%u}}", WAIT_USEC);
        finish(f, HANDLER_UNKNOWN, ERROR_INVALID, "the pod's address is not known");
}

/* Each of these servers is asked once, within a limit of time, and at most HANDLER_OUTPUT_MAX of
 * its answer is kept. */
static const struct {
        const char *answer;
        HandlerOutcome outcome;
        int status;
        const char *output;
} status_cases[] = {
        { "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nup", HANDLER_SUCCEEDED, 200, "up" },
        { "HTTP/1.1 204 No\r\n\r\n", HANDLER_SUCCEEDED, 204, "" },
        { "HTTP/1.1 399 Odd\r\nContent-Length: 0\r\n\r\n", HANDLER_SUCCEEDED, 399, "" },
        { "HTTP/1.1 400 Bad\r\nContent-Length: 1\r\n\r\nb", HANDLER_FAILED, 400, "b" },
        { "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", HANDLER_FAILED, 503, "" },
        { "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na",
          HANDLER_SUCCEEDED, 200, "a" },
        { "HTTP/1.0 200 OK\r\n\r\nuntil the end", HANDLER_SUCCEEDED, 200, "until the end" },
        /* No redirect is followed. */
        { "HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n", HANDLER_SUCCEEDED,
          302, "" },
        /* The body breaks off. */
        { "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart", HANDLER_FAILED, 200, "part" },
        { "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\nzz\r\n",
          HANDLER_FAILED, 200, "part" },
        /* This is no HTTP. */
        { "SSH-2.0-OpenSSH_9.2\r\n", HANDLER_FAILED, 0, "" },
        { "\x01\x02\xff", HANDLER_FAILED, 0, "" },
        { "HTTP/1.1 9x9 No\r\n\r\n", HANDLER_FAILED, 0, "" },
        { "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", HANDLER_FAILED, 200, "" },
        { "", HANDLER_FAILED, 0, "" },
};

TEST_F(test_http_statuses, Fixture *f) {
        for (size_t i = 0; i < N_ELEMENTS(status_cases); i++) {
                f->server.answer = status_cases[i].answer;
                start(f, "{\"httpGet\":{\"port\":%u}}", WAIT_USEC);
                while (f->n_done == 0)
                        assert_true(sd_event_run(f->event, WAIT_USEC) > 0);
                if (f->outcome != status_cases[i].outcome || f->status != status_cases[i].status ||
                    strcmp(f->output, status_cases[i].output) != 0)
                        fail_msg("case %zu: %d, status %d, `%s`, %s", i, (int) f->outcome,
                                 f->status, f->output, f->message);
                assert_true(f->kind != ERROR_TIMEOUT);
        }
        assert_int_equal(f->server.n_connections, N_ELEMENTS(status_cases));
}

/* libcurl 7 refuses the answer, newer ones read the first three digits. */
TEST_F(test_http_long_status, Fixture *f) {
        f->server.answer = "HTTP/1.1 99999999999 No\r\n\r\n";
        start(f, "{\"httpGet\":{\"port\":%u}}", WAIT_USEC);
        while (f->n_done == 0)
                assert_true(sd_event_run(f->event, WAIT_USEC) > 0);
        assert_int_equal(f->outcome, HANDLER_FAILED);
        assert_true(f->status == 0 || f->status == 999);
        assert_string_equal(f->output, "");
        assert_true(f->kind != ERROR_TIMEOUT);
}

/* Each answer redirects to the next; the last is repeated. */
static void answer_in_turn(Fixture *f, const char *const *answers) {
        f->server.answers = answers;
        f->server.answer = *answers;
        f->n_connections_before = f->server.n_connections;
}

#define TO_BY(status, where) \
        "HTTP/1.1 " status " Moved\r\nLocation: " where "\r\nContent-Length: 5\r\n\r\nmoved"
#define TO(where) TO_BY("302", where)
#define FINE "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine"

/* clang-format off */
static const struct {
        const char *answers[5];
        unsigned n_requests;
        HandlerOutcome outcome;
        int status;
        const char *output;
        const char *path; /* path of the last request */
} redirect_cases[] = {
        { { TO("/next"), FINE }, 2, HANDLER_SUCCEEDED, 200, "fine", "GET /next HTTP" },
        { { TO_BY("301", "/next"), FINE }, 2, HANDLER_SUCCEEDED, 200, "fine", "GET /next HTTP" },
        { { TO_BY("303", "/next"), FINE }, 2, HANDLER_SUCCEEDED, 200, "fine", "GET /next HTTP" },
        { { TO_BY("307", "/next"), FINE }, 2, HANDLER_SUCCEEDED, 200, "fine", "GET /next HTTP" },
        { { TO_BY("308", "/next"), FINE }, 2, HANDLER_SUCCEEDED, 200, "fine", "GET /next HTTP" },
        { { TO_BY("300", "/next") }, 1, HANDLER_SUCCEEDED, 300, "moved", "GET /a/b HTTP" },
        { { TO("next?a=b%20c#d"), FINE }, 2, HANDLER_SUCCEEDED, 200, "fine",
          "GET /a/next?a=b%20c HTTP" },
        { { TO("?q"), FINE }, 2, HANDLER_SUCCEEDED, 200, "fine", "GET /a/b?q HTTP" },
        { { TO("/1"), TO("/2"), TO("/3"), FINE }, 4, HANDLER_SUCCEEDED, 200, "fine",
          "GET /3 HTTP" },
        { { TO("/next"), "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n" }, 2, HANDLER_FAILED, 500,
          "", "GET /next HTTP" },
        /* Round and round. */
        { { TO("/1"), TO("/2"), TO("/3"), TO("/4") }, 4, HANDLER_FAILED, 302, "moved",
          "GET /3 HTTP" },
        /* Elsewhere, or nowhere. */
        { { TO("http://127.0.0.2:9/") }, 1, HANDLER_SUCCEEDED, 302, "moved", "GET /a/b HTTP" },
        { { TO("http://127.0.0.1.example/") }, 1, HANDLER_SUCCEEDED, 302, "moved",
          "GET /a/b HTTP" },
        { { TO("http://127.0.0.1@127.0.0.2/") }, 1, HANDLER_SUCCEEDED, 302, "moved",
          "GET /a/b HTTP" },
        { { TO("http://127.0.0.1:65536/") }, 1, HANDLER_SUCCEEDED, 302, "moved", "GET /a/b HTTP" },
        { { TO("http://127.0.0.1:0/") }, 1, HANDLER_SUCCEEDED, 302, "moved", "GET /a/b HTTP" },
        { { TO("file:///etc/passwd") }, 1, HANDLER_SUCCEEDED, 302, "moved", "GET /a/b HTTP" },
        { { "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n" }, 1, HANDLER_SUCCEEDED, 302, "",
          "GET /a/b HTTP" },
        { { "HTTP/1.1 304 Same\r\nLocation: /next\r\n\r\n" }, 1, HANDLER_SUCCEEDED, 304, "",
          "GET /a/b HTTP" },
        /* No server accepts connections there. */
        { { TO("http://127.0.0.1:1/") }, 1, HANDLER_FAILED, 0, "", "GET /a/b HTTP" },
};
/* clang-format on */

TEST_F(test_http_redirects, Fixture *f) {
        f->options.redirects_max = 3;
        for (size_t i = 0; i < N_ELEMENTS(redirect_cases); i++) {
                answer_in_turn(f, redirect_cases[i].answers);
                start(f, "{\"httpGet\":{\"port\":%u,\"path\":\"/a/b\"}}", WAIT_USEC);
                while (f->n_done == 0)
                        assert_true(sd_event_run(f->event, WAIT_USEC) > 0);
                if (f->outcome != redirect_cases[i].outcome ||
                    f->status != redirect_cases[i].status ||
                    strcmp(f->output, redirect_cases[i].output) != 0 ||
                    f->server.n_connections - f->n_connections_before !=
                            redirect_cases[i].n_requests)
                        fail_msg("case %zu: %d, status %d, `%s`, %s, %u requests", i,
                                 (int) f->outcome, f->status, f->output, f->message,
                                 f->server.n_connections - f->n_connections_before);
                assert_contains(f->server.text, redirect_cases[i].path);
        }
}

/* Headers that were meant for TLS alone do not follow to a server without it. */
TEST_F(test_http_redirect_headers, Fixture *f) {
        static const char *const answers[] = { TO("/next"), FINE, NULL };

        f->options.redirects_max = 1;
        answer_in_turn(f, answers);
        start(f,
              "{\"httpGet\":{\"port\":%u,\"httpHeaders\":[{\"name\":\"X-A\",\"value\":\"1\"},"
              "{\"name\":\"Authorization\",\"value\":\"Bearer s3cret\"}]}}",
              WAIT_USEC);
        finish(f, HANDLER_SUCCEEDED, ERROR_NONE, "");
        assert_contains(f->server.text, "GET /next HTTP/1.1\r\n");
        assert_contains(f->server.text, "\r\nX-A: 1\r\n");
        assert_null(strstr(f->server.text, "s3cret"));
}

TEST_F(test_http_timeout, Fixture *f) {
        start(f, "{\"httpGet\":{\"port\":%u}}", 50000);
        finish(f, HANDLER_FAILED, ERROR_TIMEOUT, "it did not finish within");
        assert_int_equal(f->status, 0);

        /* The answer has begun, and has not ended. */
        f->server.answer = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart";
        f->server.stays_open = true;
        start(f, "{\"httpGet\":{\"port\":%u}}", 50000);
        finish(f, HANDLER_FAILED, ERROR_TIMEOUT, "it did not finish within");
}

/* A large answer is cut at the limit, and is an answer all the same. */
TEST_F(test_http_large, Fixture *f) {
        static const char *const heads[] = {
                "HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n",
                "HTTP/1.1 200 OK\r\n\r\n", /* without an end */
        };
        char *answer = malloc(100000);

        for (size_t i = 0; i < N_ELEMENTS(heads); i++) {
                memset(answer, 'x', 100000);
                memcpy(answer, heads[i], strlen(heads[i]));
                answer[99999] = '\0';
                f->server.answer = answer;
                start(f, "{\"httpGet\":{\"port\":%u}}", WAIT_USEC);
                finish(f, HANDLER_SUCCEEDED, ERROR_NONE, "");
                assert_int_equal(f->output_size, HANDLER_OUTPUT_MAX);
        }
        free(answer);
}

/* An untrusted server must not be able to end the agent. */
TEST_F(test_http_long_header, Fixture *f) {
        static const char head[] = "HTTP/1.1 200 OK\r\nX: ";
        char *answer = malloc(200000);

        memset(answer, 'x', 200000);
        memcpy(answer, head, strlen(head));
        answer[199999] = '\0';
        f->server.answer = answer;
        start(f, "{\"httpGet\":{\"port\":%u}}", WAIT_USEC);
        finish(f, HANDLER_FAILED, ERROR_UNAVAILABLE, "");
        assert_int_equal(f->status, 200); /* it was reached */
        free(answer);
}

static enum MHD_Result on_asked(void *userdata, struct MHD_Connection *connection, const char *url,
                                const char *method, const char *version, const char *data,
                                size_t *size, void **request) {
        struct MHD_Response *response;
        enum MHD_Result result;

        __atomic_add_fetch((int *) userdata, 1, __ATOMIC_SEQ_CST);
        response = MHD_create_response_from_buffer(2, (void *) "ok", MHD_RESPMEM_PERSISTENT);
        result = MHD_queue_response(connection, 200, response);
        MHD_destroy_response(response);
        return result;
}

static char *read_from(const char *command) {
        FILE *pipe = popen(command, "r");
        char *text = calloc(1, 8192);

        assert_non_null(pipe);
        assert_true(fread(text, 1, 8191, pipe) > 0);
        assert_ok(pclose(pipe));
        return text;
}

/* A certificate without a signature, for another name, that is no longer valid, will do. */
TEST_F(test_https, Fixture *f) {
        static const char make[] =
                "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
                "-days 1 -subj /CN=other -keyout - 2>/dev/null";
        char *pem = read_from(make);
        int n_asked = 0;
        struct MHD_Daemon *daemon;

        daemon = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_TLS, 0, NULL, NULL,
                                  on_asked, &n_asked, MHD_OPTION_HTTPS_MEM_CERT, pem,
                                  MHD_OPTION_HTTPS_MEM_KEY, pem, MHD_OPTION_END);
        assert_non_null(daemon);
        f->port = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
        start(f, "{\"httpGet\":{\"scheme\":\"HTTPS\",\"port\":%u}}", WAIT_USEC);
        finish(f, HANDLER_SUCCEEDED, ERROR_NONE, "");
        assert_int_equal(__atomic_load_n(&n_asked, __ATOMIC_SEQ_CST), 1);
        MHD_stop_daemon(daemon);
        free(pem);
}

TEST_F(test_tcp, Fixture *f) {
        start(f, "{\"tcpSocket\":{\"port\":%u}}", WAIT_USEC);
        finish(f, HANDLER_SUCCEEDED, ERROR_NONE, "");
        start(f, "{\"tcpSocket\":{\"port\":%u,\"host\":\"localhost\"}}", WAIT_USEC);
        finish(f, HANDLER_SUCCEEDED, ERROR_NONE, "");
        start(f, "{\"tcpSocket\":{\"port\":1}}", WAIT_USEC);
        finish(f, HANDLER_FAILED, ERROR_UNAVAILABLE,
               "cannot connect to 127.0.0.1:1: Connection refused");
        start(f, "{\"tcpSocket\":{\"port\":%u,\"host\":\"a.example\"}}", WAIT_USEC);
        finish(f, HANDLER_UNKNOWN, ERROR_UNSUPPORTED, "\"a.example\" is not an address");
        f->options.address = NULL;
        start(f, "{\"tcpSocket\":{\"port\":%u}}", WAIT_USEC);
        finish(f, HANDLER_UNKNOWN, ERROR_INVALID, "the pod's address is not known");
}

/* A probe's handler, which a hook cannot have. */
static void start_grpc(Fixture *f, const char *service, uint16_t port, uint64_t timeout_usec) {
        cleanup(handler_spec_done) HandlerSpec spec = { .kind = HANDLER_GRPC,
                                                        .port = port,
                                                        .service = strdup(service) };

        f->n_done = 0;
        f->options.spec = &spec;
        f->options.timeout_usec = timeout_usec;
        assert_ok(handler_run(&f->options, &f->handler));
        f->options.spec = &f->spec;
}

/* The answers of servers are in test-health.c. */
TEST_F(test_grpc, Fixture *f) {
        f->server.answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        start_grpc(f, "store.Cart", f->port, WAIT_USEC);
        finish(f, HANDLER_FAILED, ERROR_UNAVAILABLE, "health rpc failed: the server closed");
        assert_contains(f->server.text, "PRI * HTTP/2.0");

        f->server.answer = NULL;
        start_grpc(f, "", f->port, 20000);
        finish(f, HANDLER_FAILED, ERROR_TIMEOUT, "it did not finish within 0 s");

        start_grpc(f, "", 1, WAIT_USEC);
        finish(f, HANDLER_FAILED, ERROR_UNAVAILABLE,
               "cannot connect to 127.0.0.1:1: Connection refused");
}

#define EXEC "{\"exec\":{\"command\":[\"sh\",\"-c\",\"x\"]}}"

static const RpcCall *exec_call(void) {
        return fake_runtime_find("ExecSync");
}

TEST_F(test_exec, Fixture *f) {
        start(f, EXEC, 7900000);
        assert_string_equal(exec_call()->command, "sh -c x");
        assert_string_equal(exec_call()->target, "c1");
        assert_int_equal(exec_call()->timeout_sec, 7);
        fake_runtime_answer_exec(0, "fine\n", "ignored");
        finish(f, HANDLER_SUCCEEDED, ERROR_NONE, "");
        assert_string_equal(f->output, "fine\n");
        assert_null(exec_call());

        start(f, EXEC, 10);
        assert_int_equal(exec_call()->timeout_sec, 1);
        fake_runtime_answer_exec(3, "ignored", "it is \"bad\"\nvery");
        finish(f, HANDLER_FAILED, ERROR_INVALID, "the command exited with status 3");
        assert_int_equal(f->status, 3);
        assert_string_equal(f->output, "it is \"bad\"\nvery");

        start(f, EXEC, WAIT_USEC);
        fake_runtime_answer_exec(127, "", "");
        finish(f, HANDLER_FAILED, ERROR_INVALID, "the command exited with status 127");
        assert_string_equal(f->output, "");
}

/* A command may write as much as it likes. */
TEST_F(test_exec_flood, Fixture *f) {
        char *flood = malloc(1 << 20);

        memset(flood, 'x', 1 << 20);
        flood[(1 << 20) - 1] = '\0';
        for (int status = 0; status < 2; status++) {
                start(f, EXEC, WAIT_USEC);
                fake_runtime_answer_exec(status, flood, flood);
                assert_int_equal(f->n_done, 1);
                assert_int_equal(f->output_size, HANDLER_OUTPUT_MAX);
        }
        free(flood);
}

TEST_F(test_exec_failures, Fixture *f) {
        Error error = { .kind = ERROR_NOT_FOUND, .message = (char *) "no such container" };

        start(f, EXEC, WAIT_USEC);
        fake_runtime_answer("ExecSync", NULL, &error);
        finish(f, HANDLER_UNKNOWN, ERROR_NOT_FOUND, "no such container");

        /* The runtime has noticed it first. */
        error = (Error){ .kind = ERROR_TIMEOUT, .message = (char *) "timed out" };
        start(f, EXEC, WAIT_USEC);
        fake_runtime_answer("ExecSync", NULL, &error);
        finish(f, HANDLER_FAILED, ERROR_TIMEOUT, "timed out");

        start(f, EXEC, 20000);
        finish(f, HANDLER_FAILED, ERROR_TIMEOUT, "it did not finish within 0 s");
        assert_null(exec_call());

        f->options.client = NULL;
        start(f, EXEC, WAIT_USEC);
        finish(f, HANDLER_UNKNOWN, ERROR_UNAVAILABLE, "no container runtime answers");
}

/* A server whose backlog is full neither accepts nor refuses. */
TEST_F(test_tcp_timeout, Fixture *f) {
        struct sockaddr_in address = { .sin_family = AF_INET };
        socklen_t size = sizeof(address);
        int full = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), waiting[8];

        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        assert_ok(bind(full, (struct sockaddr *) &address, size));
        assert_ok(listen(full, 0));
        assert_ok(getsockname(full, (struct sockaddr *) &address, &size));
        for (size_t i = 0; i < 8; i++) {
                waiting[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
                (void) connect(waiting[i], (struct sockaddr *) &address, size);
        }

        f->port = ntohs(address.sin_port);
        start(f, "{\"tcpSocket\":{\"port\":%u}}", 50000);
        finish(f, HANDLER_FAILED, ERROR_TIMEOUT, "");
        start(f, "{\"httpGet\":{\"port\":%u}}", 50000);
        finish(f, HANDLER_FAILED, ERROR_TIMEOUT, "it did not finish within");
        for (size_t i = 0; i < 8; i++)
                close(waiting[i]);
        close(full);
}

TEST_F(test_sleep, Fixture *f) {
        start(f, "{\"sleep\":{\"seconds\":0}}", 1000000);
        finish(f, HANDLER_SUCCEEDED, ERROR_NONE, "");
        start(f, "{\"sleep\":{\"seconds\":9223372036854775807}}", 20000);
        finish(f, HANDLER_FAILED, ERROR_TIMEOUT, "it did not finish within 0 s");
}

/* A probe asks, too, whether the server still accepts connections. */
TEST_F(test_http_connections, Fixture *f) {
        f->server.answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        f->server.stays_open = true;
        for (unsigned i = 1; i <= 3; i++) {
                start(f, "{\"httpGet\":{\"port\":%u}}", WAIT_USEC);
                finish(f, HANDLER_SUCCEEDED, ERROR_NONE, "");
                assert_int_equal(f->server.n_connections, i);
        }
}

/* Requests to one server that does not answer wait for each other in no way. */
TEST_F(test_http_many, Fixture *f) {
        Handler *handlers[20];

        for (unsigned i = 0; i < 20; i++) {
                start(f, "{\"httpGet\":{\"port\":%u}}", WAIT_USEC);
                handlers[i] = take_ptr(f->handler);
        }
        while (f->server.n_connections < 20)
                assert_true(sd_event_run(f->event, WAIT_USEC) > 0);
        f->server.answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        start(f, "{\"httpGet\":{\"port\":%u}}", WAIT_USEC);
        finish(f, HANDLER_SUCCEEDED, ERROR_NONE, "");
        for (unsigned i = 0; i < 20; i++)
                handler_free(handlers[i]);
}

TEST_F(test_dropped, Fixture *f) {
        static const char *const handlers[] = {
                EXEC,
                "{\"httpGet\":{\"port\":%u}}",
                "{\"tcpSocket\":{\"port\":%u}}",
                "{\"sleep\":{\"seconds\":0}}",
        };

        for (size_t i = 0; i < N_ELEMENTS(handlers); i++) {
                start(f, handlers[i], WAIT_USEC);
                f->handler = handler_free(f->handler);
                while (sd_event_run(f->event, 0) > 0)
                        ;
                assert_int_equal(f->n_done, 0);
                assert_null(exec_call());
        }
}
