/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The HTTP server, asked by real sockets that live in its own event loop
 */

#include <sys/socket.h>

#include "tests/unit/http-fixture.h"
#include "tests/unit/unit.h"

/* clang-format off */
static const struct Case {
        const char *name;
        const char *request;
        const char *status;
        const char *parts[4];
        const char *end; /* NULL: not compared */
} cases[] = {
        { "get", "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK\r\n",
          { "\r\nContent-Type: text/plain; charset=utf-8\r\n", "\r\nContent-Length: 6\r\n",
            "\r\nConnection: close\r\n" }, "\r\n\r\nhello\n" },
        { "head", "HEAD /hello HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK\r\n",
          { "\r\nContent-Length: 6\r\n" }, "\r\n\r\n" },
        { "get with a query", "GET /hello?a=b HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK\r\n",
          { NULL }, "hello\n" },
        { "get by an old client", "GET /hello HTTP/1.0\r\n\r\n", "HTTP/1.", { " 200 OK\r\n" },
          "hello\n" },
        { "the handler's status and type", "GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n",
          "HTTP/1.1 503 ", { "\r\nContent-Type: application/json\r\n" }, "\r\n\r\n{}" },
        { "an empty body", "GET /empty HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK\r\n",
          { "\r\nContent-Length: 0\r\n" }, "\r\n\r\n" },
        { "no such path", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 404 ", { NULL },
          "\r\n\r\nnot found; there is:\n/hello\n/readyz\n/large\n/empty\n" },
        { "a path that goes on", "GET /hello/ HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 404 ",
          { NULL }, NULL },
        { "post", "POST /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
          "HTTP/1.1 405 ", { "\r\nAllow: GET, HEAD\r\n" }, "only GET and HEAD work here\n" },
        { "post without its body", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n",
          "HTTP/1.1 405 ", { "\r\nAllow: GET, HEAD\r\n" }, NULL },
        { "options", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 405 ", { NULL }, NULL },
        { "a method of its own", "BREW /hello HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 405 ",
          { NULL }, NULL },
        { "only the first of two requests",
          "GET /hello HTTP/1.1\r\nHost: a\r\n\r\nGET /hello HTTP/1.1\r\nHost: a\r\n\r\n",
          "HTTP/1.1 200 OK\r\n", { NULL }, "\r\n\r\nhello\n" },
};
/* clang-format on */

TEST_ROWS(test_case, cases, name, const struct Case *c) {
        void *fixture = NULL;
        Client client;

        set_up(&fixture);
        ask(fixture, &client, c->request);
        assert_int_equal(strncmp(client.text, c->status, strlen(c->status)), 0);
        for (size_t i = 0; c->parts[i]; i++)
                assert_contains(client.text, c->parts[i]);
        if (c->end) {
                assert_true(client.size >= strlen(c->end));
                assert_string_equal(client.text + client.size - strlen(c->end), c->end);
        }
        tear_down(&fixture);
}

/* Only an empty prefix starts an empty text. */
static bool starts_with(const char *text, const char *start) {
        return *start ? strncmp(text, start, strlen(start)) == 0 : *text == '\0';
}

/* No handler sees invalid requests, and the next client is served. */
TEST_F(test_junk, Fixture *f) {
        static const char either[] = "HTTP/1.1 4"; /* libmicrohttpd 1.0 just closes */
        static const struct {
                const char *request;
                const char *answer; /* "": closed without one; NULL: silence until the time-out */
        } junk[] = {
                { "\r\n\r\n\r\n\r\n", NULL },
                { "hello\r\n\r\n", "" },
                { "\x16\x03\x01\x02\x01\xfc\x03\x03 \r\n\r\n", either },
                { "GET\r\n\r\n", "" },
                { "GET /hello HTTP/9.9\r\n\r\n", "HTTP/1.1 505 " },
                { "GET /hello HTTP/1.1\r\nno colon\r\n\r\n", "HTTP/1.1 400 " },
                { "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1.1 505 " },
                { "GET /hello HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", "HTTP/1.1 400 " },
                { "GET /%00%ff%zz HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 404 " },
        };
        Client client;

        for (size_t i = 0; i < N_ELEMENTS(junk); i++) {
                client_connect(&client, f);
                client_send(&client, junk[i].request);
                if (junk[i].answer)
                        RUN_UNTIL(f, client.is_closed);
                run_dry(f);
                if (!starts_with(client.text, junk[i].answer ?: "") &&
                    !(junk[i].answer == either && !*client.text))
                        fail_msg("`%s` is answered `%s`", junk[i].request, client.text);
                client_close(&client);
                run_dry(f);
        }
        assert_int_equal(f->n_asked, 0);

        ask(f, &client, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_contains(client.text, "hello\n");
}

TEST_F(test_half_a_request, Fixture *f) {
        static const char request[] = "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n";
        Client client;

        for (size_t size = 0; size < strlen(request); size++) {
                client_connect(&client, f);
                assert_int_equal(send(client.fd, request, size, MSG_NOSIGNAL), size);
                run_dry(f);
                client_close(&client);
                run_dry(f);
        }
        assert_int_equal(f->n_asked, 0);

        ask(f, &client, request);
        assert_contains(client.text, "hello\n");
}

TEST_F(test_byte_by_byte, Fixture *f) {
        Client client;

        client_connect(&client, f);
        for (const char *p = "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"; *p; p++) {
                assert_int_equal(send(client.fd, p, 1, MSG_NOSIGNAL), 1);
                run_dry(f);
        }
        RUN_UNTIL(f, client.is_closed);
        assert_contains(client.text, "hello\n");
        client_close(&client);
}

TEST_F(test_oversize_header, Fixture *f) {
        char request[20000];
        Client client;

        memset(request, 'x', sizeof(request));
        memcpy(request, "GET /", strlen("GET /"));
        request[sizeof(request) - 1] = '\0';
        ask(f, &client, request);
        assert_int_equal(f->n_asked, 0);
        if (client.size > 0) /* a reset may overtake the answer */
                assert_contains(client.text, "HTTP/1.1 4");

        ask(f, &client, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_contains(client.text, "hello\n");
}

TEST_F(test_large_answer, Fixture *f) {
        Client client;

        ask(f, &client, "GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_contains(client.text, "\r\nContent-Length: 8388608\r\n");
        assert_int_equal(client.size - (size_t) (strstr(client.text, "\r\n\r\n") + 4 - client.text),
                         8 << 20);
}

/* A peer that goes away in the middle of the answer. */
TEST_F(test_lost_reader, Fixture *f) {
        Client client;

        client_connect(&client, f);
        client_send(&client, "GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
        RUN_UNTIL(f, client.size > 0);
        client_close(&client);
        run_dry(f);

        ask(f, &client, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_contains(client.text, "hello\n");
}

/* The socket gets the number 0 in a process that was started without stdin. */
TEST(test_closed_stdin) {
        int saved = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        sd_event *event = NULL;
        HttpServer *server = NULL;
        int r;

        assert_true(sd_event_new(&event) >= 0);
        (void) close(STDIN_FILENO);
        r = http_server_new(event, "127.0.0.1:0", &server, NULL);
        http_server_free(server);
        sd_event_unref(event);
        if (saved >= 0) {
                assert_int_equal(dup2(saved, STDIN_FILENO), STDIN_FILENO);
                close(saved);
        }
        assert_ok(r);
}
