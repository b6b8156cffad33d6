/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Asking a server for its health: one whose every byte the test decides on, and that may have no end of them
 */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/base/clock.h"
#include "agent/pod/health.h"
#include "tests/unit/failing-accept.h"
#include "tests/unit/unit.h"

/* Frames of HTTP/2: length, type, flags, stream. */
#define SETTINGS "\0\0\0\4\0\0\0\0\0"
#define HEADERS(length, flags) "\0\0" length "\1" flags "\0\0\0\1"
#define DATA(length, flags) "\0\0" length "\0" flags "\0\0\0\1"
#define STATUS_200 "\x88"
#define REPLY(status) DATA("\7", "\0") "\0\0\0\0\2\x08" status
#define TRAILER(status) HEADERS("\x0f", "\5") "\0\x0bgrpc-status\1" status

static struct Fixture {
        sd_event *event;
        HttpPeer *http;
        Health *health;
        int listening, connection, client;
        sd_event_source *source;
        uint8_t seen[4096];
        size_t n_seen;
        bool is_answered;
        const char *answer;
        size_t answer_size;
        const char *flood; /* for ever, after the answer */
        size_t flood_size, n_flooded;
        unsigned n_done;
        char message[256];
} f;

/* The kernel has no memory to wait for another socket of curl's. */
static bool is_full;

int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event) {
        if (is_full && op == EPOLL_CTL_ADD && fd == f.client) {
                errno = ENOMEM;
                return -1;
        }
        return (int) syscall(SYS_epoll_ctl, epoll, op, fd, event);
}

static bool has_seen(const char *text, size_t size) {
        return memmem(f.seen, f.n_seen, text, size);
}

/* The request is complete once its body ends stream 1; an answer that is no HTTP/2 waits for nothing. */
static int on_request(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        ssize_t n = recv(fd, f.seen + f.n_seen, sizeof(f.seen) - f.n_seen, MSG_DONTWAIT);

        if (n <= 0)
                return sd_event_source_set_enabled(source, SD_EVENT_OFF);

        f.n_seen += (size_t) n;
        if (f.is_answered || !has_seen("\0\1\0\0\0\1\0", 7))
                return 0;

        f.is_answered = true;
        assert_int_equal(send(fd, f.answer, f.answer_size, MSG_NOSIGNAL), f.answer_size);
        if (!f.flood)
                return shutdown(fd, SHUT_WR);

        return sd_event_source_set_io_events(source, EPOLLIN | EPOLLOUT);
}

static int on_server(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        char piece[8192];
        size_t size = 0;
        ssize_t n;

        if (events & EPOLLIN)
                return on_request(source, fd, events, userdata);

        while (size + f.flood_size <= sizeof(piece)) {
                memcpy(piece + size, f.flood, f.flood_size);
                size += f.flood_size;
        }
        n = send(fd, piece, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN)
                return sd_event_source_set_enabled(source, SD_EVENT_OFF);

        f.n_flooded += n > 0 ? (size_t) n : 0;
        return 0;
}

static int set_up(void **state) {
        f = (struct Fixture){ .listening = -1, .connection = -1, .client = -1 };
        assert_true(sd_event_new(&f.event) >= 0);
        assert_ok(http_peer_new_for_any(f.event, &f.http));
        return 0;
}

static void hang_up(void) {
        f.source = sd_event_source_disable_unref(f.source);
        close_p(&f.connection);
        close_p(&f.listening);
        f.connection = f.listening = -1;
}

static int tear_down(void **state) {
        health_free(f.health);
        hang_up();
        http_peer_unref(f.http);
        sd_event_unref(f.event);
        return 0;
}

/* Two ends of a connection by TCP. */
static void connect_both(void) {
        struct sockaddr_in address = { .sin_family = AF_INET };
        socklen_t size = sizeof(address);

        hang_up();
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        f.listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_ok(bind(f.listening, (struct sockaddr *) &address, size));
        assert_ok(listen(f.listening, 1));
        assert_ok(getsockname(f.listening, (struct sockaddr *) &address, &size));
        f.client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_ok(connect(f.client, (struct sockaddr *) &address, size));
        f.connection = accept4(f.listening, NULL, NULL, SOCK_CLOEXEC);
        assert_true(f.connection >= 0);
        assert_true(sd_event_add_io(f.event, &f.source, f.connection, EPOLLIN, on_server, NULL) >=
                    0);
}

static int on_done(const Error *error, void *userdata) {
        f.n_done++;
        snprintf(f.message, sizeof(f.message), "%s", error ? error_message(error) : "SERVING");
        f.health = health_free(f.health);
        return 0;
}

static void start(const char *service) {
        HealthOptions options = {
                .event = f.event,
                .http = f.http,
                .authority = "127.0.0.1:8080",
                .service = service,
                .user_agent = "tester/1",
                .on_done = on_done,
        };

        connect_both();
        options.fd = f.client;
        f.n_seen = f.n_done = 0;
        f.is_answered = false;
        f.n_flooded = 0;
        assert_ok(health_ask(&options, &f.health, NULL));
        assert_int_equal(f.n_done, 0);
}

static void finish(const char *message) {
        while (f.n_done == 0)
                assert_true(sd_event_run(f.event, WAIT_USEC) > 0);
        assert_string_equal(f.message, message);
        assert_null(f.health);
}

static void ask(const char *answer, size_t size, const char *message) {
        f.answer = answer;
        f.answer_size = size;
        start("cart");
        finish(message);
}

#define ask(answer, message) ask(answer, sizeof(answer) - 1, message)

#define FAILED "health rpc failed: "
#define UNIMPLEMENTED \
        "this server does not implement the grpc health protocol (grpc.health.v1.Health): "
#define NO_ANSWER FAILED "the server closed the connection, or does not speak HTTP/2 without TLS"
#define TOO_MUCH FAILED "the server sends more than 16384 bytes, or takes none"

TEST_SET_UP(test_answers) {
        ask(SETTINGS HEADERS("\1", "\4") STATUS_200 REPLY("\1") TRAILER("0"), "SERVING");
        assert_true(has_seen("PRI * HTTP/2.0\r\n", 16));
        assert_true(has_seen("\0\0\x0b\0\1\0\0\0\1\0\0\0\0\6\x0a\4cart", 20));
        ask(SETTINGS HEADERS("\1", "\4") STATUS_200 REPLY("\2") TRAILER("0"),
            "service unhealthy (responded with \"NOT_SERVING\")");
        /* The reason is known before the first answer. */
        ask(SETTINGS HEADERS("\x21", "\5") STATUS_200 "\0\x0bgrpc-status\1"
                                                      "5"
                                                      "\0\x0cgrpc-message\2"
                                                      "hi",
            FAILED "hi");
        ask(SETTINGS HEADERS("\1", "\5") "\x8d",
            UNIMPLEMENTED "the server answered with HTTP status 404");
}

TEST_SET_UP(test_no_answers) {
        ask("", NO_ANSWER);
        ask("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", NO_ANSWER);
        ask("\x15\3\1\0\2\2\x46", NO_ANSWER);                                /* TLS */
        ask(SETTINGS HEADERS("\1", "\4") STATUS_200 REPLY("\1"), NO_ANSWER); /* no end */
        ask(SETTINGS "\0\0\x08\7\0\0\0\0\0\0\0\0\0\0\0\0\0", NO_ANSWER);     /* GOAWAY */
        ask(SETTINGS "\0\0\4\3\0\0\0\0\1\0\0\0\2", NO_ANSWER);               /* RST_STREAM */
        /* Empty frames before the answer. */
        ask(SETTINGS DATA("\0", "\0") DATA("\0", "\0") HEADERS("\1", "\4") STATUS_200, NO_ANSWER);
}

static void flood(const char *answer, size_t answer_size, const char *piece, size_t size) {
        f.answer = answer;
        f.answer_size = answer_size;
        f.flood = piece;
        f.flood_size = size;
        start("");
        while (f.n_done == 0)
                assert_true(sd_event_run(f.event, WAIT_USEC) > 0);
        f.flood = NULL;
        assert_true(f.n_flooded > 0);
        assert_null(f.health);
}

#define flood(answer, piece) flood(answer, sizeof(answer) - 1, piece, sizeof(piece) - 1)

/* None of these ever ends by itself. Some are errors to the reader, the others are cut. */
TEST_SET_UP(test_floods) {
        flood(SETTINGS, DATA("\0", "\0"));
        flood(SETTINGS HEADERS("\1", "\4") STATUS_200, DATA("\0", "\0"));
        assert_string_equal(f.message, TOO_MUCH);
        flood(SETTINGS, "\0\0\x08\6\0\0\0\0\0"
                        "8 bytes.");
        assert_string_equal(f.message, TOO_MUCH);
        flood(SETTINGS, "\0\0\6\4\0\0\0\0\0\0\4\0\0\xff\xff");
        flood(SETTINGS HEADERS("\1", "\0") STATUS_200, "\0\0\2\x09\0\0\0\0\1\x40\0");
        flood(SETTINGS HEADERS("\1", "\4") STATUS_200, DATA("\5", "\0") "\0\0\0\0\2");
        assert_string_equal(f.message, FAILED "the answer has more than 1024 bytes");
        flood("", "z");
}

/* The owner may end it at any time. */
TEST_SET_UP(test_freed) {
        f.answer = SETTINGS HEADERS("\1", "\4") STATUS_200;
        f.answer_size = 9 + 9 + 1;
        f.flood = "\0\0\x08\6\0\0\0\0\0"
                  "8 bytes.";
        f.flood_size = 17;
        start("");
        f.health = health_free(f.health);
        start("");
        while (f.n_flooded == 0)
                assert_true(sd_event_run(f.event, WAIT_USEC) > 0);
        f.health = health_free(f.health);
        assert_int_equal(f.n_done, 0);
}

/* Without a free descriptor the loop is not kept busy, and with one the question goes on. */
TEST_SET_UP(test_lack_of_descriptors) {
        static const char answer[] =
                SETTINGS HEADERS("\1", "\4") STATUS_200 REPLY("\1") TRAILER("0");
        uint64_t begun_usec = clock_monotonic_usec();

        f.answer = answer;
        f.answer_size = sizeof(answer) - 1;
        start("");
        accept_error = EMFILE;
        n_accepts = 0;
        while (n_accepts < 3)
                assert_true(sd_event_run(f.event, WAIT_USEC) > 0);
        accept_error = 0;
        assert_true(clock_monotonic_usec() >= begun_usec + 2 * 10 * MSEC);
        finish("SERVING");
}

/* libcurl is in disorder after such a failure. */
TEST_SET_UP(test_no_memory_ends_the_loop) {
        int code = 0;

        start("");
        is_full = true;
        while (sd_event_run(f.event, WAIT_USEC) > 0)
                ;
        is_full = false;
        assert_ok(sd_event_get_exit_code(f.event, &code));
        assert_int_equal(code, -ENOMEM);
}
