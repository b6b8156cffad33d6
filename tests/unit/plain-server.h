/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A server of TCP on the loopback that answers whatever comes with the same text
 *
 * It runs in the loop of the test, and keeps what was sent to it last. What begins like TLS is answered
 * like everything else.
 */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <systemd/sd-event.h>
#include <unistd.h>

#include "tests/unit/unit.h"

#define PLAIN_SERVER_CONNECTIONS_MAX 64

typedef struct PlainServer {
        sd_event *event;
        int fd;
        uint16_t port;
        sd_event_source *source;
        int connections[PLAIN_SERVER_CONNECTIONS_MAX];
        sd_event_source *sources[PLAIN_SERVER_CONNECTIONS_MAX];
        unsigned n_connections;
        const char *answer; /* NULL: none */
        bool stays_open;    /* behind the answer */
        const char *const
                *answers; /* NULL: each time the same; the last one stays, before a NULL */
        char text[4096];  /* last request */
        bool was_tls;     /* and something before was no HTTP */
} PlainServer;

static inline int plain_server_on_bytes(sd_event_source *source, int fd, uint32_t events,
                                        void *userdata) {
        PlainServer *server = userdata;
        char bytes[sizeof(server->text)];
        ssize_t n = recv(fd, bytes, sizeof(bytes) - 1, MSG_DONTWAIT);

        if (n <= 0)
                return sd_event_source_set_enabled(source, SD_EVENT_OFF);
        if (bytes[0] == '\0') /* a frame of HTTP/2 that comes behind the preface */
                return 0;

        memcpy(server->text, bytes, (size_t) n);
        server->text[n] = '\0';
        server->was_tls |= server->text[0] == 0x16;
        if (server->answer) {
                (void) send(fd, server->answer, strlen(server->answer), MSG_NOSIGNAL);
                if (!server->stays_open)
                        (void) shutdown(fd, SHUT_WR);
                if (server->answers && server->answers[1])
                        server->answer = *++server->answers;
        }
        return 0;
}

static inline int plain_server_on_connection(sd_event_source *source, int fd, uint32_t events,
                                             void *userdata) {
        PlainServer *server = userdata;
        unsigned i = server->n_connections++;

        assert_true(i < PLAIN_SERVER_CONNECTIONS_MAX);
        server->connections[i] = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
        assert_true(server->connections[i] >= 0);
        assert_true(sd_event_add_io(server->event, &server->sources[i], server->connections[i],
                                    EPOLLIN, plain_server_on_bytes, server) >= 0);
        return 0;
}

/* On 127.0.0.LAST. It must not be moved. port: 0 for any that is free. */
static inline void plain_server_open(PlainServer *server, sd_event *event, unsigned last,
                                     uint16_t port) {
        struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
        socklen_t size = sizeof(address);

        memset(server, 0, sizeof(*server));
        server->event = event;
        address.sin_addr.s_addr = htonl(0x7f000000 + last);
        server->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_ok(bind(server->fd, (struct sockaddr *) &address, size));
        assert_ok(listen(server->fd, 8));
        assert_ok(getsockname(server->fd, (struct sockaddr *) &address, &size));
        server->port = ntohs(address.sin_port);
        assert_true(sd_event_add_io(event, &server->source, server->fd, EPOLLIN,
                                    plain_server_on_connection, server) >= 0);
}

static inline void plain_server_close(PlainServer *server) {
        for (unsigned i = 0; i < server->n_connections; i++) {
                sd_event_source_disable_unref(server->sources[i]);
                close(server->connections[i]);
        }
        sd_event_source_disable_unref(server->source);
        close(server->fd);
}
