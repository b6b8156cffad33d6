/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Where curl meets the loop
 */

#include <sys/epoll.h>
#include <time.h>

#include "agent/base/loop.h"
#include "agent/kube/http-internal.h"

/* With HTTP/1.1 each request has a connection of its own, and so has each watch for as long as it
 * lasts; of those there are a handful. */
#define CONNECTIONS_MAX 8L
#define ACTIONS_MAX 4

static int http_peer_arm(HttpPeer *peer, uint64_t usec) {
        int r;

        r = sd_event_source_set_time_relative(peer->timer, usec);
        return r < 0 ? r : sd_event_source_set_enabled(peer->timer, SD_EVENT_ONESHOT);
}

/* After most of what it reads, curl wants to be called again at once: that need not go through the
 * loop, which has others to serve, but can, later. */
static int http_peer_act(HttpPeer *peer, curl_socket_t fd, int what) {
        int n;

        peer->is_due = false;
        peer->is_inside = true;
        (void) peer->curl.multi_socket_action(peer->multi, fd, what, &n);
        for (unsigned i = 0; peer->is_due && i < ACTIONS_MAX; i++) {
                peer->is_due = false;
                (void) peer->curl.multi_socket_action(peer->multi, CURL_SOCKET_TIMEOUT, 0, &n);
        }
        peer->is_inside = false;

        return peer->is_due ? http_peer_arm(peer, 0) : 0;
}

static int http_peer_run(HttpPeer *peer, curl_socket_t fd, int what) {
        int r;

        peer->n_refs++;
        r = http_peer_act(peer, fd, what);
        if (r >= 0)
                r = http_peer_settle(peer);
        http_peer_unref(peer);
        return r;
}

static int on_io(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        int what = (events & (EPOLLIN | EPOLLHUP) ? CURL_CSELECT_IN : 0) |
                   (events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                   (events & EPOLLERR ? CURL_CSELECT_ERR : 0);

        return http_peer_run(userdata, fd, what);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        return http_peer_run(userdata, CURL_SOCKET_TIMEOUT, 0);
}

static int on_socket_wanted(CURL *easy, curl_socket_t fd, int what, void *userdata,
                            void *socket_userdata) {
        HttpPeer *peer = userdata;
        sd_event_source *source = socket_userdata;
        uint32_t events =
                (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u);
        int r;

        if (what == CURL_POLL_REMOVE) {
                sd_event_source_disable_unref(source);
                return 0;
        }
        if (source)
                return sd_event_source_set_io_events(source, events) < 0 ? -1 : 0;

        r = loop_add_io(peer->event, &source, fd, events, on_io, peer);
        if (r < 0)
                return -1;

        (void) sd_event_source_set_description(source, "http-socket");
        return peer->curl.multi_assign(peer->multi, fd, source) == CURLM_OK ? 0 : -1;
}

static int on_timer_wanted(CURLM *multi, long timeout_msec, void *userdata) {
        HttpPeer *peer = userdata;

        peer->is_due = timeout_msec == 0;
        if (peer->is_due && peer->is_inside)
                return 0;
        if (timeout_msec < 0)
                return sd_event_source_set_enabled(peer->timer, SD_EVENT_OFF) < 0 ? -1 : 0;

        return http_peer_arm(peer, (uint64_t) timeout_msec * 1000) < 0 ? -1 : 0;
}

bool http_run_set_up(HttpPeer *peer) {
        CURLMcode (*set)(CURLM * multi, CURLMoption option, ...) = peer->curl.multi_setopt;
        CURLM *multi = peer->multi;

        return set(multi, CURLMOPT_PIPELINING, CURLPIPE_MULTIPLEX) == CURLM_OK &&
               set(multi, CURLMOPT_MAX_HOST_CONNECTIONS, CONNECTIONS_MAX) == CURLM_OK &&
               set(multi, CURLMOPT_MAXCONNECTS, CONNECTIONS_MAX) == CURLM_OK &&
               set(multi, CURLMOPT_SOCKETFUNCTION, on_socket_wanted) == CURLM_OK &&
               set(multi, CURLMOPT_SOCKETDATA, peer) == CURLM_OK &&
               set(multi, CURLMOPT_TIMERFUNCTION, on_timer_wanted) == CURLM_OK &&
               set(multi, CURLMOPT_TIMERDATA, peer) == CURLM_OK;
}

int http_run_add_timer(HttpPeer *peer) {
        int r;

        r = loop_add_time_relative(peer->event, &peer->timer, CLOCK_MONOTONIC, 0,
                                   /* accuracy= */ 1, on_timer, peer);
        if (r < 0)
                return r;

        return sd_event_source_set_enabled(peer->timer, SD_EVENT_OFF);
}
