/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/pod/relay.h"

#include <errno.h>
#include <stdlib.h>
#include <linux/sockios.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"

#define PIECE_SIZE 4096 /* bytes to carry in one turn of the loop */
#define PAUSE_USEC ((uint64_t) 10 * 1000)
#define ACCURACY_USEC 1000
#define BACKLOG 4 /* pending connections to the reader's end; one is expected */

typedef struct RelayEnd {
        int fd;
        sd_event_source *source;
        size_t n_carried; /* bytes carried from this end to the other */
} RelayEnd;

struct Relay {
        sd_event *event;
        RelayEnd server, reader; /* the reader's is a listening socket until it is there */
        struct sockaddr_un address;
        socklen_t address_size;
        Timer pause; /* before the next accept(), or before the reader gets the server's end */
        bool is_cut;
};

DEFINE_CLEANUP(Relay *, relay_free)

/* The reader gets the end after the last bytes of the server. */
static int relay_finish(Relay *relay) {
        int n_unread = 0;

        if (ioctl(relay->reader.fd, SIOCOUTQ, &n_unread) == 0 && n_unread > 0)
                return timer_start(&relay->pause, PAUSE_USEC);

        (void) shutdown(relay->reader.fd, SHUT_WR);
        return 0;
}

static int on_pause_over(void *userdata) {
        Relay *relay = userdata;

        return relay->server.source
                       ? relay_finish(relay)
                       : sd_event_source_set_enabled(relay->reader.source, SD_EVENT_ON);
}

/* The server has sent everything. curl 7.88 drops the headers behind a body if it sees the end of
 * the connection with them, so the reader gets the end a moment later. */
static int relay_end(Relay *relay, RelayEnd *from) {
        int r;

        r = sd_event_source_set_enabled(from->source, SD_EVENT_OFF);
        if (r < 0 || from == &relay->server)
                return r < 0 ? r : timer_start(&relay->pause, PAUSE_USEC);

        (void) shutdown(relay->server.fd, SHUT_WR);
        return 0;
}

static int relay_cut(Relay *relay) {
        int r;

        relay->is_cut = true;
        (void) shutdown(relay->server.fd, SHUT_RDWR);
        (void) shutdown(relay->reader.fd, SHUT_RDWR);
        r = sd_event_source_set_enabled(relay->server.source, SD_EVENT_OFF);
        return r < 0 ? r : sd_event_source_set_enabled(relay->reader.source, SD_EVENT_OFF);
}

/* Sends each piece at once, without a buffer: the sockets have room for all bytes that may come. */
static int on_bytes(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        Relay *relay = userdata;
        RelayEnd *from = fd == relay->server.fd ? &relay->server : &relay->reader;
        RelayEnd *to = from == &relay->server ? &relay->reader : &relay->server;
        char piece[PIECE_SIZE];
        ssize_t n;

        n = recv(from->fd, piece, sizeof(piece), MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        if (n <= 0)
                return relay_end(relay, from);

        from->n_carried += (size_t) n;
        if (from->n_carried > RELAY_BYTES_MAX ||
            send(to->fd, piece, (size_t) n, MSG_DONTWAIT | MSG_NOSIGNAL) != n)
                return relay_cut(relay);

        return 0;
}

static bool is_own(int fd) {
        struct ucred peer;
        socklen_t size = sizeof(peer);

        return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid == getpid();
}

/* Refuses other processes of this network namespace that find the socket. Without a free descriptor
 * the next accept() would fail as well, and the loop would do nothing else. */
static int on_reader(sd_event_source *source, int listening, uint32_t events, void *userdata) {
        Relay *relay = userdata;
        int fd, r;

        fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
                r = sd_event_source_set_enabled(source, SD_EVENT_OFF);
                return r < 0 ? r : timer_start(&relay->pause, PAUSE_USEC);
        }
        if (!is_own(fd)) {
                (void) close(fd);
                return 0;
        }

        relay->reader.source = sd_event_source_disable_unref(relay->reader.source);
        close_p(&relay->reader.fd);
        relay->reader.fd = fd;
        r = loop_add_io(relay->event, &relay->reader.source, fd, EPOLLIN, on_bytes, relay);
        return r < 0 ? r
                     : loop_add_io(relay->event, &relay->server.source, relay->server.fd, EPOLLIN,
                                   on_bytes, relay);
}

/* The kernel names an unnamed Unix socket by a number. */
static int relay_listen(Relay *relay) {
        socklen_t size = sizeof(relay->address.sun_family);

        relay->address.sun_family = AF_UNIX;
        relay->reader.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (relay->reader.fd < 0 ||
            bind(relay->reader.fd, (struct sockaddr *) &relay->address, size) < 0 ||
            listen(relay->reader.fd, BACKLOG) < 0)
                return -errno;

        relay->address_size = sizeof(relay->address);
        return getsockname(relay->reader.fd, (struct sockaddr *) &relay->address,
                           &relay->address_size) < 0
                       ? -errno
                       : loop_add_io(relay->event, &relay->reader.source, relay->reader.fd, EPOLLIN,
                                     on_reader, relay);
}

int relay_new(sd_event *event, int server, Relay **ret) {
        const int room = RELAY_BYTES_MAX;
        cleanup(relay_free_p) Relay *relay = NULL;
        cleanup(close_p) int owned = server;
        int r;

        relay = malloc(sizeof(*relay));
        if (!relay)
                return -ENOMEM;

        *relay = (Relay){
                .event = sd_event_ref(event),
                .server.fd = take_fd(&owned),
                .reader.fd = -1,
        };
        timer_init(&relay->pause, event, ACCURACY_USEC, on_pause_over, relay);
        /* The kernel need not hold more, either. */
        (void) setsockopt(server, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
        r = relay_listen(relay);
        if (r < 0)
                return r;

        *ret = take_ptr(relay);
        return 0;
}

const struct sockaddr *relay_address(const Relay *relay, socklen_t *ret_size) {
        *ret_size = relay->address_size;
        return (const struct sockaddr *) &relay->address;
}

bool relay_is_cut(const Relay *relay) {
        return relay->is_cut;
}

Relay *relay_free(Relay *relay) {
        if (!relay)
                return NULL;

        sd_event_source_disable_unref(relay->server.source);
        sd_event_source_disable_unref(relay->reader.source);
        close_p(&relay->server.fd);
        close_p(&relay->reader.fd);
        timer_done(&relay->pause);
        sd_event_unref(relay->event);
        free(relay);
        return NULL;
}
