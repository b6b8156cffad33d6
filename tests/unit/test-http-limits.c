/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The HTTP server's limits, its end and its address
 */

#include <dirent.h>
#include <errno.h>
#include <sys/resource.h>
#include <time.h>

#include "agent/observe/http.h"
#include "tests/unit/http-fixture.h"
#include "tests/unit/unit.h"

#define MAX_CONNECTIONS 32

TEST_F(test_forty_at_once, Fixture *f) {
        static Client clients[40];

        for (size_t i = 0; i < 40; i++)
                client_connect(&clients[i], f);
        run_dry(f);
        for (size_t i = 0; i < 40; i++)
                client_send(&clients[i], "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");

        for (size_t i = 0; i < 40; i++) {
                RUN_UNTIL(f, clients[i].is_closed);
                assert_contains(clients[i].text, "\r\n\r\nhello\n");
                client_close(&clients[i]);
        }
        assert_int_equal(f->n_asked, 40);
}

/* As many clients as allowed hold their places in silence; the next ones wait, and are served when
 * those go, although their going is the only event. */
TEST_F(test_full_server_recovers, Fixture *f) {
        static Client silent[MAX_CONNECTIONS];
        Client waiting;

        for (size_t i = 0; i < MAX_CONNECTIONS; i++) {
                client_connect(&silent[i], f);
                client_send(&silent[i], "GET /hel");
        }
        run_dry(f);
        client_connect(&waiting, f);
        client_send(&waiting, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
        run_dry(f);
        assert_int_equal(waiting.size, 0);

        for (size_t i = 0; i < MAX_CONNECTIONS; i++)
                client_close(&silent[i]);
        RUN_UNTIL(f, waiting.is_closed);
        assert_contains(waiting.text, "hello\n");
        client_close(&waiting);
}

/* A client for which there is no descriptor waits, and is served when there is one, although the end
 * of the last connection is the only event. */
TEST_F(test_recovers_from_lack_of_descriptors, Fixture *f) {
        struct rlimit limit, none;
        Client silent, waiting;

        client_connect(&silent, f);
        client_send(&silent, "GET /hel");
        run_dry(f);
        client_connect(&waiting, f);
        client_send(&waiting, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");

        assert_ok(getrlimit(RLIMIT_NOFILE, &limit));
        none = limit;
        none.rlim_cur = 0;
        assert_ok(setrlimit(RLIMIT_NOFILE, &none));
        run_dry(f);
        assert_ok(setrlimit(RLIMIT_NOFILE, &limit));
        run_dry(f);
        assert_int_equal(waiting.size, 0);

        client_close(&silent);
        RUN_UNTIL(f, waiting.is_closed);
        assert_contains(waiting.text, "hello\n");
        client_close(&waiting);
}

static uint64_t now_msec(void) {
        struct timespec now;

        assert_ok(clock_gettime(CLOCK_MONOTONIC, &now));
        return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

/* Runs the loop until that client is served or cut. Meanwhile each peer sends a byte again and again:
 * enough to be alive, and never a whole request. Returns how many milliseconds it took. */
static uint64_t drip_until_closed(Fixture *f, const Client *client, Client *peers, size_t n_peers) {
        uint64_t began = now_msec(), next = began;

        while (!client->is_closed) {
                assert_in_range(now_msec() - began, 0, 30000);
                for (size_t i = 0; i < n_peers && now_msec() >= next; i++)
                        (void) send(peers[i].fd, "x", 1, MSG_NOSIGNAL);
                if (now_msec() >= next)
                        next += 100;
                assert_true(sd_event_run(f->event, 20 * 1000) >= 0);
        }

        return now_msec() - began;
}

/* As many peers as there may be have begun a request, and do not end it, or do not read the answer:
 * another one is served as soon as a probe needs it. */
static void assert_place_for_another(Fixture *f, const char *begin, bool is_reading) {
        static Client peers[MAX_CONNECTIONS];
        uint64_t msec;
        Client probe;

        for (size_t i = 0; i < MAX_CONNECTIONS; i++) {
                client_connect(&peers[i], f);
                if (!is_reading)
                        (void) sd_event_source_set_enabled(peers[i].source, SD_EVENT_OFF);
                client_send(&peers[i], begin);
        }
        run_dry(f);
        client_connect(&probe, f);
        client_send(&probe, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
        msec = drip_until_closed(f, &probe, peers, is_reading ? MAX_CONNECTIONS : 0);
        assert_contains(probe.text, "hello\n");
        assert_in_range(msec, 0, 5000);

        client_close(&probe);
        for (size_t i = 0; i < MAX_CONNECTIONS; i++)
                client_close(&peers[i]);
}

/* An address that holds all that it gets, and tries to get more, leaves places for others. */
static void assert_place_beside_one_address(Fixture *f, unsigned number) {
        static Client peers[2 * MAX_CONNECTIONS];
        Client probe;

        for (size_t i = 0; i < N_ELEMENTS(peers); i++) {
                client_connect_from(&peers[i], f, 1);
                client_send(&peers[i], "GET /hel");
        }
        client_connect_from(&probe, f, number);
        client_send(&probe, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_in_range(drip_until_closed(f, &probe, peers, 0), 0, 400);
        assert_contains(probe.text, "hello\n");

        client_close(&probe);
        for (size_t i = 0; i < N_ELEMENTS(peers); i++)
                client_close(&peers[i]);
}

TEST_F(test_peers_of_one_address, Fixture *f) {
        assert_place_beside_one_address(f, 2);
}

/* Pods with the network of their node have the address of the kubelet. */
TEST_F(test_peers_of_the_same_address, Fixture *f) {
        assert_place_beside_one_address(f, 1);
}

TEST_F(test_peers_that_drip, Fixture *f) {
        assert_place_for_another(f, "GET /hello HTTP/1.1\r\nA: ", true);
}

TEST_F(test_peers_that_do_not_read, Fixture *f) {
        assert_place_for_another(f, "GET /large HTTP/1.1\r\nHost: a\r\n\r\n", false);
}

/* No silent client stays for ever, also where there is place enough. */
TEST_F(test_peer_that_drips_alone, Fixture *f) {
        Client peer;

        client_connect(&peer, f);
        client_send(&peer, "GET /hello HTTP/1.1\r\nA: ");
        assert_in_range(drip_until_closed(f, &peer, &peer, 1), 9000, 30000);
        assert_int_equal(peer.size, 0);
        client_close(&peer);
}

/* Counts the timers of this process that will go off, for which the kernel will wake it up. */
static unsigned count_armed_timers(void) {
        unsigned n_armed = 0;
        DIR *directory = opendir("/proc/self/fdinfo");

        assert_non_null(directory);
        for (const struct dirent *entry; (entry = readdir(directory));) {
                char path[300], line[256];
                unsigned long long seconds, nsec;
                FILE *file;

                (void) snprintf(path, sizeof(path), "/proc/self/fdinfo/%s", entry->d_name);
                file = fopen(path, "re");
                while (file && fgets(line, sizeof(line), file))
                        if (sscanf(line, "it_value: (%llu, %llu)", &seconds, &nsec) == 2)
                                n_armed += seconds > 0 || nsec > 0;
                if (file)
                        fclose(file);
        }
        closedir(directory);
        return n_armed;
}

/* A connection has a time-out, so there is a timer; without one there is none. */
TEST_F(test_nothing_wakes_an_idle_server, Fixture *f) {
        Client client;

        run_dry(f);
        assert_int_equal(count_armed_timers(), 0);

        client_connect(&client, f);
        client_send(&client, "GET /hel");
        run_dry(f);
        assert_int_equal(count_armed_timers(), 1);

        client_send(&client, "lo HTTP/1.1\r\nHost: a\r\n\r\n");
        RUN_UNTIL(f, client.is_closed);
        client_close(&client);
        run_dry(f);
        assert_int_equal(count_armed_timers(), 0);
}

/* The failure of a handler ends the loop. */
TEST_F(test_handler_fails, Fixture *f) {
        Client client;
        int code = 0;

        f->result = -ENOMEM;
        client_connect(&client, f);
        client_send(&client, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
        code = sd_event_loop(f->event);
        assert_int_equal(code, -ENOMEM);
        client_close(&client);
}

TEST_F(test_freed_with_open_connections, Fixture *f) {
        Client silent, half;

        client_connect(&silent, f);
        client_connect(&half, f);
        client_send(&half, "GET /hello HTTP/1.1\r\n");
        run_dry(f);
        f->server = http_server_free(f->server);
        RUN_UNTIL(f, silent.is_closed && half.is_closed);
        client_close(&silent);
        client_close(&half);
}

static const struct Address {
        const char *text;
        bool is_good;
} addresses[] = {
        { "127.0.0.1:0", true },
        { "0.0.0.0:0", true },
        { "localhost:0", true },
        { "", false },
        { ":0", false },
        { "127.0.0.1", false },
        { "127.0.0.1:", false },
        { "127.0.0.1:http", false },
        { "127.0.0.1:-1", false },
        { "127.0.0.1:+1", false },
        { "127.0.0.1: 1", false },
        { "127.0.0.1:00", false },
        { "127.0.0.1:65536", false },
        { "127.0.0.1:4294967297", false },
        { "127.0.0.256:0", false },
        { "example.org:0", false },
        { "::1:0", false },
        { "[::1]", false },
        { "[]:0", false },
        { "[127.0.0.1]:0", false },
        { "[::1:0", false },
        { "http://127.0.0.1:0", false },
        { "127.0.0.1:0\n", false },
};

TEST(test_addresses) {
        sd_event *event = NULL;

        assert_ok(sd_event_new(&event));
        for (size_t i = 0; i < N_ELEMENTS(addresses); i++) {
                HttpServer *server = NULL;
                Error error = ERROR_INIT;
                int r = http_server_new(event, addresses[i].text, &server, &error);

                if ((r >= 0) != addresses[i].is_good)
                        fail_msg("`%s`: %d", addresses[i].text, r);
                assert_int_equal(server != NULL, addresses[i].is_good);
                if (server)
                        assert_true(http_server_get_port(server) > 0);
                else {
                        assert_int_equal(error.kind, ERROR_INVALID);
                        assert_contains(error_message(&error), "127.0.0.1:10221");
                        assert_null(strchr(error_message(&error), '\n'));
                }
                http_server_free(server);
                error_done(&error);
        }
        sd_event_unref(event);
}

/* A machine without IPv6 refuses; it must not say that the text is wrong. */
TEST_F(test_ipv6, Fixture *f) {
        HttpServer *server = NULL;
        Error error = ERROR_INIT;

        if (http_server_new(f->event, "[::1]:0", &server, &error) >= 0)
                assert_true(http_server_get_port(server) > 0);
        else
                assert_contains(error_message(&error), "cannot listen on [::1]:0");
        http_server_free(server);
        error_done(&error);
}

TEST_F(test_port_in_use, Fixture *f) {
        HttpServer *server = NULL;
        Error error = ERROR_INIT;
        char address[32], expected[256];

        (void) snprintf(address, sizeof(address), "127.0.0.1:%u", http_server_get_port(f->server));
        (void) snprintf(
                expected, sizeof(expected),
                "cannot listen on %s, another program does: stop it (\"ss -ltnp\" names it) "
                "or choose another port",
                address);
        assert_true(http_server_new(f->event, address, &server, &error) < 0);
        assert_null(server);
        assert_int_equal(error.kind, ERROR_CONFLICT);
        assert_string_equal(error_message(&error), expected);
        error_done(&error);

        f->server = http_server_free(f->server); /* which lets the port go at once */
        assert_ok(http_server_new(f->event, address, &f->server, NULL));
}
