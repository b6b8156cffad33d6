/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/pod/tcp-connect.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"

struct TcpConnect {
        int fd;
        int number; /* errno of connect(); 0: connected */
        sd_event_source *answer;
        Deferred known; /* deferred report of a result that is known at once */
        Timer timer;
        TcpConnected on_connected;
        void *userdata;
};

DEFINE_CLEANUP(TcpConnect *, tcp_connect_free)

static int connect_end(TcpConnect *attempt, int number) {
        attempt->answer = sd_event_source_disable_unref(attempt->answer);
        timer_stop(&attempt->timer);
        if (number != 0) {
                close_p(&attempt->fd);
                attempt->fd = -1;
        }
        return attempt->on_connected(number, attempt->userdata);
}

static int on_answer(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        socklen_t size = sizeof(int);
        int number = 0;

        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &number, &size) < 0)
                number = errno;
        return connect_end(userdata, number);
}

static int on_known(void *userdata) {
        TcpConnect *attempt = userdata;

        return connect_end(attempt, attempt->number);
}

static int on_timeout(void *userdata) {
        return connect_end(userdata, ETIMEDOUT);
}

/* Reports a lack of descriptors as the outcome, since it is no failure of the program. A server on
 * this node has mostly answered when connect() returns: a second call shows that, and is cheaper
 * than the loop. */
static void connect_start(TcpConnect *attempt, const TcpAddress *address) {
        attempt->fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        attempt->number = 0;
        if (attempt->fd < 0 || connect(attempt->fd, &address->any, address->size) < 0)
                attempt->number = errno;
        if (attempt->number == EINPROGRESS)
                attempt->number =
                        connect(attempt->fd, &address->any, address->size) < 0 ? errno : 0;
}

static int connect_add_sources(TcpConnect *attempt, sd_event *event, uint64_t timeout_usec) {
        int r;

        if (attempt->number != EALREADY)
                r = deferred_request(&attempt->known);
        else
                r = loop_add_io(event, &attempt->answer, attempt->fd, EPOLLOUT, on_answer, attempt);
        if (r < 0)
                return r;

        return timer_start(&attempt->timer, timeout_usec);
}

int tcp_connect(sd_event *event, const TcpAddress *address, uint64_t timeout_usec,
                TcpConnected on_connected, void *userdata, TcpConnect **ret) {
        cleanup(tcp_connect_free_p) TcpConnect *attempt = NULL;
        int r;

        attempt = malloc(sizeof(*attempt));
        if (!attempt)
                return -ENOMEM;

        *attempt = (TcpConnect){ .fd = -1, .on_connected = on_connected, .userdata = userdata };
        deferred_init(&attempt->known, event, on_known, attempt);
        timer_init(&attempt->timer, event, /* accuracy_usec= */ 1000, on_timeout, attempt);
        connect_start(attempt, address);
        r = connect_add_sources(attempt, event, timeout_usec);
        if (r < 0)
                return r;

        *ret = take_ptr(attempt);
        return 0;
}

int tcp_connect_take(TcpConnect *attempt) {
        return take_fd(&attempt->fd);
}

TcpConnect *tcp_connect_free(TcpConnect *attempt) {
        if (!attempt)
                return NULL;

        sd_event_source_disable_unref(attempt->answer);
        deferred_done(&attempt->known);
        timer_done(&attempt->timer);
        close_p(&attempt->fd);
        free(attempt);
        return NULL;
}
