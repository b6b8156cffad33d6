/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Measures the least cost of probes
 *
 * Makes as many of them a second as the agent does, with the same libraries and nothing else: a
 * loop that starts those that are due together, as often as the agent's timers allow, and waits for
 * the answers. Each has a connection of its own, as a probe has. A handle of libcurl is set up once and used
 * again for every request. Nothing is done with the answers. Runs until it is killed.
 *
 *     probe-floor tcpSocket|httpGet N ADDRESS PORT...
 */

#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define TURNS 20 /* in a second */
#define READY_MAX 64

typedef struct Floor {
        int epoll;
        CURLM *multi;
        bool is_due; /* libcurl has to be called again at once */
        CURL **handles;
        struct sockaddr_in *addresses;
        unsigned n_addresses;
} Floor;

static void fail(const char *what) {
        fprintf(stderr, "probe-floor: %s failed\n", what);
        exit(1);
}

static size_t forget(char *data, size_t size, size_t n, void *userdata) {
        return n;
}

/* known: it is in the epoll already. */
static int on_socket_wanted(CURL *easy, curl_socket_t fd, int what, void *userdata, void *known) {
        Floor *floor = userdata;
        struct epoll_event event = {
                .events = (what & CURL_POLL_IN ? EPOLLIN : 0u) |
                          (what & CURL_POLL_OUT ? EPOLLOUT : 0u),
                .data.fd = fd,
        };

        if (what == CURL_POLL_REMOVE)
                return epoll_ctl(floor->epoll, EPOLL_CTL_DEL, fd, NULL) < 0 ? -1 : 0;
        if (epoll_ctl(floor->epoll, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) < 0)
                fail("epoll_ctl");

        (void) curl_multi_assign(floor->multi, fd, floor);
        return 0;
}

/* A server that is slower than its probes is none to measure with: no other timer matters. */
static int on_timer_wanted(CURLM *multi, long timeout_msec, void *userdata) {
        Floor *floor = userdata;

        floor->is_due = timeout_msec == 0;
        return 0;
}

static CURL *make_handle(const char *address, unsigned port) {
        CURL *easy = curl_easy_init();
        char url[256];

        if (!easy)
                fail("curl_easy_init");

        (void) snprintf(url, sizeof(url), "http://%s:%u/page", address, port);
        (void) curl_easy_setopt(easy, CURLOPT_URL, url);
        (void) curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
        (void) curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
        (void) curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
        (void) curl_easy_setopt(easy, CURLOPT_PROXY, "");
        (void) curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, forget);
        return easy;
}

static void act(Floor *floor, curl_socket_t fd, int what) {
        int n;

        floor->is_due = false;
        (void) curl_multi_socket_action(floor->multi, fd, what, &n);
        while (floor->is_due) {
                floor->is_due = false;
                (void) curl_multi_socket_action(floor->multi, CURL_SOCKET_TIMEOUT, 0, &n);
        }
}

static void take_answers(Floor *floor) {
        CURLMsg *message;
        int n;

        while ((message = curl_multi_info_read(floor->multi, &n))) {
                if (message->data.result != CURLE_OK)
                        fail(curl_easy_strerror(message->data.result));
                (void) curl_multi_remove_handle(floor->multi, message->easy_handle);
        }
}

static void serve(Floor *floor, const struct epoll_event *event) {
        if (floor->multi) {
                act(floor, event->data.fd,
                    (event->events & (EPOLLIN | EPOLLHUP) ? CURL_CSELECT_IN : 0) |
                            (event->events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                            (event->events & EPOLLERR ? CURL_CSELECT_ERR : 0));
                take_answers(floor);
        } else {
                if (event->events & EPOLLERR)
                        fail("connect");
                (void) close(event->data.fd);
        }
}

static void begin_connect(Floor *floor, unsigned i) {
        const struct sockaddr_in *address = &floor->addresses[i % floor->n_addresses];
        struct epoll_event event = { .events = EPOLLOUT };

        event.data.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (event.data.fd < 0)
                fail("socket");
        if (connect(event.data.fd, (const struct sockaddr *) address, sizeof(*address)) < 0 &&
            errno != EINPROGRESS)
                fail("connect");
        if (epoll_ctl(floor->epoll, EPOLL_CTL_ADD, event.data.fd, &event) < 0)
                fail("epoll_ctl");
}

static void begin(Floor *floor, unsigned from, unsigned to) {
        for (unsigned i = from; i < to; i++)
                if (!floor->multi)
                        begin_connect(floor, i);
                else if (curl_multi_add_handle(floor->multi, floor->handles[i]) != CURLM_OK)
                        fail("curl_multi_add_handle");
        if (floor->multi && to > from)
                act(floor, CURL_SOCKET_TIMEOUT, 0);
}

static int make_clock(int epoll) {
        const struct itimerspec every = { { .tv_nsec = 1000000000 / TURNS },
                                          { .tv_nsec = 1000000000 / TURNS } };
        struct epoll_event event = { .events = EPOLLIN };
        int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);

        event.data.fd = fd;
        if (fd < 0 || timerfd_settime(fd, 0, &every, NULL) < 0 ||
            epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0)
                fail("timerfd_create");

        return fd;
}

static void run(Floor *floor, unsigned n) {
        struct epoll_event ready[READY_MAX];
        int clock = make_clock(floor->epoll);
        uint64_t n_ticks, turn = 0;

        for (;;) {
                int n_ready = epoll_wait(floor->epoll, ready, READY_MAX, -1);

                for (int i = 0; i < n_ready; i++)
                        if (ready[i].data.fd != clock) {
                                serve(floor, &ready[i]);
                        } else if (read(clock, &n_ticks, sizeof(n_ticks)) > 0) {
                                unsigned k = (unsigned) (turn++ % TURNS);

                                begin(floor, n * k / TURNS, n * (k + 1) / TURNS);
                        }
        }
}

static void start_curl(Floor *floor, unsigned n, const char *address, char **ports) {
        if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK ||
            !(floor->multi = curl_multi_init()) ||
            !(floor->handles = calloc(n, sizeof(*floor->handles))))
                fail("curl_multi_init");

        (void) curl_multi_setopt(floor->multi, CURLMOPT_SOCKETFUNCTION, on_socket_wanted);
        (void) curl_multi_setopt(floor->multi, CURLMOPT_SOCKETDATA, floor);
        (void) curl_multi_setopt(floor->multi, CURLMOPT_TIMERFUNCTION, on_timer_wanted);
        (void) curl_multi_setopt(floor->multi, CURLMOPT_TIMERDATA, floor);
        for (unsigned i = 0; i < n; i++)
                floor->handles[i] =
                        make_handle(address, (unsigned) atoi(ports[i % floor->n_addresses]));
}

int main(int argc, char **argv) {
        Floor floor = { .epoll = epoll_create1(EPOLL_CLOEXEC) };
        unsigned n;

        if (argc < 5 || floor.epoll < 0)
                fail("usage");

        n = (unsigned) atoi(argv[2]);
        floor.n_addresses = (unsigned) argc - 4;
        floor.addresses = calloc(floor.n_addresses, sizeof(*floor.addresses));
        if (!floor.addresses)
                fail("calloc");
        for (unsigned i = 0; i < floor.n_addresses; i++) {
                floor.addresses[i].sin_family = AF_INET;
                floor.addresses[i].sin_port = htons((uint16_t) atoi(argv[4 + i]));
                if (inet_pton(AF_INET, argv[3], &floor.addresses[i].sin_addr) != 1)
                        fail("inet_pton");
        }
        if (strcmp(argv[1], "httpGet") == 0)
                start_curl(&floor, n, argv[3], argv + 4);
        run(&floor, n);
}
