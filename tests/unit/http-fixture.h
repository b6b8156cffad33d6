/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A server with a few paths and clients that ask it, all in one event loop, for test-http*.c
 */

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/observe/http.h"
#include "tests/unit/unit.h"

/* A connection to the server. `text` is the answer so far. */
typedef struct Client {
        int fd;
        sd_event_source *source;
        char text[4096];
        size_t size;
        bool is_closed; /* by the server */
} Client;

typedef struct Fixture {
        sd_event *event;
        HttpServer *server;
        unsigned n_asked;
        int result;           /* return value of the handler */
        unsigned n_connected; /* clients so far */
} Fixture;

static inline int on_hello(HttpReply *reply, void *userdata) {
        Fixture *f = userdata;

        f->n_asked++;
        if (f->result < 0)
                return f->result;

        reply->body = strdup("hello\n");
        reply->size = strlen("hello\n");
        return 0;
}

static inline int on_not_ready(HttpReply *reply, void *userdata) {
        reply->status = 503;
        reply->content_type = "application/json";
        reply->body = strdup("{}");
        reply->size = 2;
        return 0;
}

/* Much more than the kernel takes at once. */
static inline int on_large(HttpReply *reply, void *userdata) {
        reply->size = 8 << 20;
        reply->body = malloc(reply->size);
        memset(reply->body, 'x', reply->size);
        return 0;
}

static inline int on_empty(HttpReply *reply, void *userdata) {
        return 0;
}

static inline int set_up(void **state) {
        Fixture *f = calloc(1, sizeof(*f));

        assert_ok(sd_event_new(&f->event));
        assert_ok(http_server_new(f->event, "127.0.0.1:0", &f->server, NULL));
        assert_ok(http_server_add(f->server, "/hello", on_hello, f));
        assert_ok(http_server_add(f->server, "/readyz", on_not_ready, f));
        assert_ok(http_server_add(f->server, "/large", on_large, f));
        assert_ok(http_server_add(f->server, "/empty", on_empty, f));
        *state = f;
        return 0;
}

static inline int tear_down(void **state) {
        Fixture *f = *state;

        assert_null(http_server_free(f->server));
        sd_event_unref(f->event);
        free(f);
        return 0;
}

/* Keeps the start of the answer; counts the rest. */
static inline int on_readable(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        Client *client = userdata;
        char data[65536];
        ssize_t size = read(fd, data, sizeof(data));

        if (size < 0 && errno == EAGAIN)
                return 0;

        client->is_closed = size <= 0;
        if (client->is_closed)
                return sd_event_source_set_enabled(source, SD_EVENT_OFF);

        for (ssize_t i = 0; i < size && client->size + (size_t) i < sizeof(client->text) - 1; i++)
                client->text[client->size + (size_t) i] = data[i];
        client->size += (size_t) size;
        return 0;
}

/* From the address 127.0.0.NUMBER. */
static inline void client_connect_from(Client *client, Fixture *f, unsigned number) {
        struct sockaddr_in source = { .sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl((127u << 24) + number) };
        struct sockaddr_in address = {
                .sin_family = AF_INET,
                .sin_port = htons(http_server_get_port(f->server)),
                .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
        };

        *client = (Client){ .fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) };
        assert_ok(bind(client->fd, (struct sockaddr *) &source, sizeof(source)));
        assert_ok(connect(client->fd, (struct sockaddr *) &address, sizeof(address)));
        assert_ok(fcntl(client->fd, F_SETFL, O_NONBLOCK));
        assert_true(sd_event_add_io(f->event, &client->source, client->fd, EPOLLIN, on_readable,
                                    client) >= 0);
}

/* No more than eight from one address, fewer than the server takes. */
static inline void client_connect(Client *client, Fixture *f) {
        client_connect_from(client, f, 1 + f->n_connected++ / 8 % 250);
}

static inline void client_send(Client *client, const char *text) {
        assert_int_equal(send(client->fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

static inline void client_close(Client *client) {
        client->source = sd_event_source_disable_unref(client->source);
        close(client->fd);
}

/* Runs the loop until the condition holds. */
#define RUN_UNTIL(f, condition)                               \
        while (!(condition))                                  \
                if (sd_event_run((f)->event, WAIT_USEC) <= 0) \
        fail_msg("waited in vain for " #condition)

/* Handles pending events. */
static inline void run_dry(Fixture *f) {
        while (sd_event_run(f->event, 0) > 0)
                ;
}

/* A whole exchange: the answer, after the server closed the connection. */
static inline void ask(Fixture *f, Client *client, const char *request) {
        client_connect(client, f);
        client_send(client, request);
        RUN_UNTIL(f, client->is_closed);
        client_close(client);
}
