/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A server whose every byte the test decides on, a client of it, and the credentials in between, all
 * in one event loop, for test-kube-client*.c
 */

#include <errno.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/kube/client.h"
#include "tests/unit/unit.h"

#define CONNECTIONS_MAX 32
#define TEXT_SIZE 16384

typedef struct Connection {
        int fd; /* -1: closed */
        sd_event_source *source;
        char text[TEXT_SIZE]; /* received bytes that no test has taken yet */
        size_t size;
} Connection;

typedef struct Server {
        sd_event *event;
        int fd;
        uint16_t port;
        sd_event_source *source;
        Connection connections[CONNECTIONS_MAX]; /* in the order in which they came */
        size_t n_connections;
} Server;

/* State of the functions that stand for kubeconfigs and their programs. */
static struct Access {
        KubeAccessOptions options;
        KubeCredentials credentials;
        char server[64];
        int result;
        const char *refusal; /* or NULL */
        unsigned n_refused;
        int result_after_refusal;
} the_access;

static inline bool connection_is_open(const Connection *connection) {
        return connection->fd >= 0;
}

static inline void connection_close(Connection *connection) {
        connection->source = sd_event_source_disable_unref(connection->source);
        if (connection_is_open(connection))
                close(connection->fd);
        connection->fd = -1;
}

static inline int on_request_bytes(sd_event_source *source, int fd, uint32_t events,
                                   void *userdata) {
        Connection *connection = userdata;
        ssize_t n = recv(fd, connection->text + connection->size, TEXT_SIZE - 1 - connection->size,
                         MSG_DONTWAIT);

        if (n > 0) {
                connection->size += (size_t) n;
                connection->text[connection->size] = '\0';
        } else if (n == 0 || errno != EAGAIN)
                connection_close(connection);
        return 0;
}

static inline int on_connection(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        Server *server = userdata;
        Connection *connection = &server->connections[server->n_connections++];

        assert_true(server->n_connections <= CONNECTIONS_MAX);
        *connection = (Connection){ .fd = accept4(fd, NULL, NULL, SOCK_CLOEXEC) };
        assert_true(connection->fd >= 0);
        assert_true(sd_event_add_io(server->event, &connection->source, connection->fd, EPOLLIN,
                                    on_request_bytes, connection) >= 0);
        return 0;
}

static inline void server_start(Server *server) {
        struct sockaddr_in address = {
                .sin_family = AF_INET,
                .sin_port = htons(server->port), /* 0, or the former port */
                .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
        };
        socklen_t size = sizeof(address);
        int one = 1;

        server->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_ok(setsockopt(server->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
        assert_ok(bind(server->fd, (struct sockaddr *) &address, size));
        assert_ok(listen(server->fd, CONNECTIONS_MAX));
        assert_ok(getsockname(server->fd, (struct sockaddr *) &address, &size));
        server->port = ntohs(address.sin_port);
        assert_true(sd_event_add_io(server->event, &server->source, server->fd, EPOLLIN,
                                    on_connection, server) >= 0);
}

static inline void server_stop(Server *server) {
        for (size_t i = 0; i < server->n_connections; i++)
                connection_close(&server->connections[i]);

        server->n_connections = 0;
        server->source = sd_event_source_disable_unref(server->source);
        close(server->fd);
}

/* Finds a connection with a whole request, and its body if it has any; or NULL. */
static inline Connection *server_next(Server *server) {
        for (size_t i = 0; i < server->n_connections; i++)
                if (connection_is_open(&server->connections[i]) &&
                    strstr(server->connections[i].text, "\r\n\r\n"))
                        return &server->connections[i];

        return NULL;
}

static inline void connection_send(Connection *connection, const char *text) {
        assert_int_equal(send(connection->fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Forgets the request and answers it. */
static inline void connection_answer(Connection *connection, const char *head, const char *body) {
        char text[TEXT_SIZE];

        connection->size = 0;
        connection->text[0] = '\0';
        snprintf(text, sizeof(text), "HTTP/1.1 %s\r\nContent-Length: %zu\r\n\r\n%s", head,
                 strlen(body), body);
        connection_send(connection, text);
}

static inline void connection_begin_stream(Connection *connection) {
        connection->size = 0;
        connection->text[0] = '\0';
        connection_send(connection, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
}

static inline void connection_send_piece(Connection *connection, const char *piece) {
        char text[256];

        snprintf(text, sizeof(text), "%zx\r\n%s\r\n", strlen(piece), piece);
        connection_send(connection, text);
}

int kube_access_new(const KubeAccessOptions *options, KubeAccess **ret, Error *reterr) {
        the_access.options = *options;
        *ret = (KubeAccess *) &the_access;
        return 0;
}

KubeAccess *kube_access_free(KubeAccess *access) {
        return NULL;
}

int kube_access_get(KubeAccess *access, const KubeCredentials **ret, Error *reterr) {
        if (the_access.refusal)
                return error_set(reterr, ERROR_DENIED, "%s", the_access.refusal);

        *ret = &the_access.credentials;
        return the_access.result;
}

void kube_access_accept_token(KubeAccess *access) {
}

void kube_access_refuse_token(KubeAccess *access) {
        the_access.n_refused++;
        the_access.credentials.token = "fresh";
        the_access.result = the_access.result_after_refusal;
}

const char *kube_access_source(const KubeAccess *access) {
        return "the test";
}
