/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/rpc/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"

struct Connection {
        int fd;
        sd_event_source *source;
        ConnectionEnded on_end;
        void *userdata;
};

DEFINE_CLEANUP(Connection *, connection_free)

static int refuse_connection(const char *path, int error, Error *reterr) {
        switch (error) {
        case ENOENT: return error_set(reterr, ERROR_UNAVAILABLE, "%s: no such file", path);
        case ECONNREFUSED:
                return error_set(reterr, ERROR_UNAVAILABLE, "%s: nothing listens there", path);
        case EACCES:
        case EPERM: return error_set(reterr, ERROR_DENIED, "%s: permission denied", path);
        case EAGAIN:
                return error_set(reterr, ERROR_UNAVAILABLE, "%s: accepts no more connections",
                                 path);
        default: return error_set(reterr, ERROR_UNAVAILABLE, "%s: %s", path, strerror(error));
        }
}

int connection_open(const char *path, int *ret_fd, Error *reterr) {
        cleanup(close_p) int fd = -1;
        struct sockaddr_un address = { .sun_family = AF_UNIX };

        if (strlen(path) >= sizeof(address.sun_path))
                return error_set(reterr, ERROR_INVALID,
                                 "%s: longer than the %zu bytes that a socket's path may have",
                                 path, sizeof(address.sun_path) - 1);
        strcpy(address.sun_path, path);

        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return errno == ENOMEM ? -ENOMEM : refuse_connection(path, errno, reterr);
        if (connect(fd, (struct sockaddr *) &address, sizeof(address)) < 0)
                return refuse_connection(path, errno, reterr);

        *ret_fd = take_fd(&fd);
        return 0;
}

static int on_hang_up(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        Connection *connection = userdata;

        connection->source = sd_event_source_disable_unref(connection->source);
        return connection->on_end(connection, connection->userdata);
}

int connection_new(sd_event *event, int fd, ConnectionEnded on_end, void *userdata,
                   Connection **ret) {

        cleanup(connection_free_p) Connection *connection = NULL;
        int r;

        connection = malloc(sizeof(*connection));
        if (!connection)
                return -ENOMEM;

        *connection = (Connection){
                .fd = fcntl(fd, F_DUPFD_CLOEXEC, 3),
                .on_end = on_end,
                .userdata = userdata,
        };
        if (connection->fd < 0)
                return -errno;

        /* Without EPOLLIN: gRPC reads the data, which must not wake the loop. */
        r = loop_add_io(event, &connection->source, connection->fd, EPOLLRDHUP, on_hang_up,
                        connection);
        if (r < 0)
                return r;

        *ret = take_ptr(connection);
        return 0;
}

Connection *connection_free(Connection *connection) {
        if (!connection)
                return NULL;

        sd_event_source_disable_unref(connection->source);
        close_p(&connection->fd);
        free(connection);
        return NULL;
}

bool connection_is_alive(const Connection *connection) {
        struct pollfd poll_fd = { .fd = connection->fd, .events = POLLRDHUP };

        return poll(&poll_fd, 1, 0) == 0;
}
