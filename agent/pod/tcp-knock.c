/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/pod/tcp-knock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"

struct TcpKnock {
        int fd;
        int number; /* what connect() itself said */
        sd_event_source *answer;
        sd_event_source *timer;
        TcpKnocked on_knocked;
        void *userdata;
};

DEFINE_CLEANUP(TcpKnock *, tcp_knock_free)

bool tcp_address_read(const char *host, uint16_t port, TcpAddress *ret) {
        TcpAddress address = { .size = 0 };

        if (strcmp(host, "localhost") == 0)
                host = "127.0.0.1";

        if (inet_pton(AF_INET, host, &address.v4.sin_addr) == 1) {
                address.v4.sin_family = AF_INET;
                address.v4.sin_port = htons(port);
                address.size = sizeof(address.v4);
        } else if (inet_pton(AF_INET6, host, &address.v6.sin6_addr) == 1) {
                address.v6.sin6_family = AF_INET6;
                address.v6.sin6_port = htons(port);
                address.size = sizeof(address.v6);
        } else {
                return false;
        }

        *ret = address;
        return true;
}

static int knock_end(TcpKnock *knock, int number) {
        knock->answer = sd_event_source_disable_unref(knock->answer);
        knock->timer = sd_event_source_disable_unref(knock->timer);
        close_p(&knock->fd);
        knock->fd = -1;
        return knock->on_knocked(number, knock->userdata);
}

static int on_answer(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        socklen_t size = sizeof(int);
        int number = 0;

        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &number, &size) < 0)
                number = errno;
        return knock_end(userdata, number);
}

static int on_said(sd_event_source *source, void *userdata) {
        TcpKnock *knock = userdata;

        return knock_end(knock, knock->number);
}

static int on_timeout(sd_event_source *source, uint64_t usec, void *userdata) {
        return knock_end(userdata, ETIMEDOUT);
}

/* No descriptors left is no reason to end; it is what there is to say. */
static void knock_connect(TcpKnock *knock, const TcpAddress *address) {
        knock->fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        knock->number = 0;
        if (knock->fd < 0 || connect(knock->fd, &address->any, address->size) < 0)
                knock->number = errno;
}

static int knock_add_sources(TcpKnock *knock, sd_event *event, uint64_t timeout_usec) {
        int r;

        if (knock->number != EINPROGRESS)
                r = loop_add_defer(event, &knock->answer, on_said, knock);
        else
                r = loop_add_io(event, &knock->answer, knock->fd, EPOLLOUT, on_answer, knock);
        if (r < 0)
                return r;

        return loop_add_time_relative(event, &knock->timer, CLOCK_MONOTONIC, timeout_usec,
                                      /* accuracy= */ 1000, on_timeout, knock);
}

int tcp_knock(sd_event *event, const TcpAddress *address, uint64_t timeout_usec,
              TcpKnocked on_knocked, void *userdata, TcpKnock **ret) {
        cleanup(tcp_knock_free_p) TcpKnock *knock = NULL;
        int r;

        knock = malloc(sizeof(*knock));
        if (!knock)
                return -ENOMEM;

        *knock = (TcpKnock){ .fd = -1, .on_knocked = on_knocked, .userdata = userdata };
        knock_connect(knock, address);
        r = knock_add_sources(knock, event, timeout_usec);
        if (r < 0)
                return r;

        *ret = take_ptr(knock);
        return 0;
}

TcpKnock *tcp_knock_free(TcpKnock *knock) {
        if (!knock)
                return NULL;

        sd_event_source_disable_unref(knock->answer);
        sd_event_source_disable_unref(knock->timer);
        close_p(&knock->fd);
        free(knock);
        return NULL;
}
