/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/observe/http.h"

#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/list.h"
#include "agent/base/loop.h"
#include "agent/base/quote.h"
#include "agent/base/tcp-address.h"
#include "agent/base/text.h"

#define MAX_CONNECTIONS 32

/* The limit of one address. Its oldest connection ends for a newer one, so a program that connects again and again keeps no
 * probe out, also not from the node's own address, which the kubelet's probes have. libmicrohttpd accepts fewer in one
 * turn: each connection is read once before it can be the oldest. */
#define MAX_FROM_ADDRESS 16

/* Time of a connection from accept() to its end. With the shorter one, a waiting probe gets its
 * answer within the kubelet's time limit. */
#define LIFETIME_USEC ((uint64_t) 10 * 1000000)
#define LIFETIME_FULL_USEC ((uint64_t) 500 * 1000)

#define CONNECTION_MEMORY ((size_t) 8 * 1024) /* bounds the size of a request's header, too */
#define BACKLOG 64
#define TIMER_ACCURACY_USEC 1000

typedef struct Route {
        const char *path;
        HttpHandler handler;
        void *userdata;
} Route;

/* A connection. */
typedef struct Peer Peer;
struct Peer {
        LIST_LINKS(Peer);
        int fd; /* borrowed from libmicrohttpd */
        struct in6_addr address;
        uint64_t since_usec;
        bool is_cut; /* it was shut down, and libmicrohttpd has not noticed yet */
};

struct HttpServer {
        struct MHD_Daemon *daemon; /* owns the listening socket */
        sd_event_source *io;
        Timer timer; /* on only while there is a connection */
        Peer *peers;
        uint16_t port;
        Route *routes;
        size_t n_routes;
        int failure; /* errno of a callback; ends the loop once libmicrohttpd has returned */
};

DEFINE_CLEANUP(HttpServer *, http_server_free)

static int refuse_address(const char *address, Error *reterr) {
        char quoted[QUOTE_SIZE];

        return error_set(reterr, ERROR_INVALID,
                         "%s is no address to listen on: write HOST:PORT with an IP address or "
                         "localhost, such as 127.0.0.1:10221 or [::1]:10221",
                         quote(address, quoted));
}

/* Sets the error, with advice. */
static int refuse_listen(const char *address, int error, Error *reterr) {
        switch (error) {
        case EADDRINUSE:
                return error_set(reterr, ERROR_CONFLICT,
                                 "cannot listen on %s, another program does: stop it (\"ss -ltnp\" "
                                 "names it) or choose another port",
                                 address);
        case EADDRNOTAVAIL:
                return error_set(reterr, ERROR_INVALID,
                                 "cannot listen on %s, this machine has no such address: choose "
                                 "one that \"ip address\" shows, or 127.0.0.1",
                                 address);
        case EACCES:
        case EPERM:
                return error_set(reterr, ERROR_DENIED,
                                 "cannot listen on %s, permission denied: choose a port above 1023",
                                 address);
        default:
                return error_set(reterr, ERROR_INTERNAL,
                                 "cannot listen on %s: %s; choose another address", address,
                                 strerror(error));
        }
}

static int listen_on(const char *address, int *ret, Error *reterr) {
        cleanup(close_p) int fd = -1;
        const int yes = 1;
        TcpAddress where;

        if (!tcp_address_parse(address, &where))
                return refuse_address(address, reterr);

        fd = socket(where.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) < 0 ||
            bind(fd, &where.any, where.size) < 0 || listen(fd, BACKLOG) < 0)
                return refuse_listen(address, errno, reterr);

        *ret = take_fd(&fd);
        return 0;
}

static int read_port(int fd, uint16_t *ret) {
        struct sockaddr_storage address = { 0 };
        socklen_t size = sizeof(address);

        if (getsockname(fd, (struct sockaddr *) &address, &size) < 0)
                return -errno;

        /* the port is at the same place in both families */
        *ret = ntohs(((const struct sockaddr_in *) &address)->sin_port);
        return 0;
}

static int reply_method_not_allowed(HttpReply *reply) {
        static const char words[] = "only GET and HEAD work here\n";

        reply->status = MHD_HTTP_METHOD_NOT_ALLOWED;
        reply->size = strlen(words);
        return text_copy(words, &reply->body);
}

static int reply_not_found(HttpReply *reply, const HttpServer *server) {
        FILE *file;

        file = text_open(&reply->body, &reply->size);
        if (!file)
                return -ENOMEM;

        (void) fputs("not found; there is:\n", file);
        for (size_t i = 0; i < server->n_routes; i++)
                (void) fprintf(file, "%s\n", server->routes[i].path);

        reply->status = MHD_HTTP_NOT_FOUND;
        return text_close(file, &reply->body);
}

static int server_reply(const HttpServer *server, const char *method, const char *path,
                        HttpReply *reply) {

        if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
                return reply_method_not_allowed(reply);

        for (size_t i = 0; i < server->n_routes; i++)
                if (strcmp(server->routes[i].path, path) == 0)
                        return server->routes[i].handler(reply, server->routes[i].userdata);

        return reply_not_found(reply, server);
}

/* Takes the body over and closes the connection after the answer: keeping it open would cost memory
 * and wake-ups for an answer every 15 s at most. */
static enum MHD_Result server_send(struct MHD_Connection *connection, HttpReply *reply) {
        struct MHD_Response *response;
        enum MHD_Result result;

        response = MHD_create_response_from_buffer(reply->size, reply->body, MHD_RESPMEM_MUST_FREE);
        if (!response) {
                free(reply->body);
                return MHD_NO;
        }

        (void) MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
        (void) MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, reply->content_type);
        if (reply->status == MHD_HTTP_METHOD_NOT_ALLOWED)
                (void) MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");

        result = MHD_queue_response(connection, reply->status, response);
        MHD_destroy_response(response);
        return result;
}

/* Called when the header is complete. The answer does not wait for a body, which no request
 * needs. */
static enum MHD_Result on_request(void *userdata, struct MHD_Connection *connection,
                                  const char *path, const char *method, const char *version,
                                  const char *upload, size_t *upload_size, void **state) {

        HttpServer *server = userdata;
        HttpReply reply = {
                .status = MHD_HTTP_OK,
                .content_type = "text/plain; charset=utf-8",
        };
        int r;

        r = server_reply(server, method, path, &reply);
        if (r < 0) {
                free(reply.body);
                server->failure = r;
                return MHD_NO;
        }

        return server_send(connection, &reply);
}

static void peer_cut(Peer *peer) {
        (void) shutdown(peer->fd, SHUT_RDWR);
        peer->is_cut = true;
}

/* The newest comes first in the list. */
static void server_cut_oldest(HttpServer *server, const struct in6_addr *address) {
        Peer *oldest = NULL;
        size_t n = 0;

        for (Peer *peer = server->peers; peer; peer = peer->next)
                if (!peer->is_cut && memcmp(&peer->address, address, sizeof(*address)) == 0) {
                        oldest = peer;
                        n++;
                }
        if (n > MAX_FROM_ADDRESS)
                peer_cut(oldest);
}

/* An address of IPv4 is mapped to one of IPv6. */
static struct in6_addr read_address(const struct sockaddr *from) {
        struct in6_addr address = { .s6_addr = { [10] = 0xff, [11] = 0xff } };

        if (from->sa_family == AF_INET6)
                return ((const struct sockaddr_in6 *) from)->sin6_addr;

        memcpy(&address.s6_addr[12], &((const struct sockaddr_in *) from)->sin_addr, 4);
        return address;
}

static void on_connection(void *userdata, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode what) {
        HttpServer *server = userdata;
        Peer *peer = *context;

        if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
                if (peer)
                        list_remove(&server->peers, peer);
                free(peer);
                return;
        }

        *context = peer = calloc(1, sizeof(*peer));
        if (!peer) {
                server->failure = -ENOMEM;
                return;
        }

        peer->since_usec = clock_monotonic_usec();
        peer->fd =
                MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        peer->address =
                read_address(MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)
                                     ->client_addr);
        list_prepend(&server->peers, peer);
        server_cut_oldest(server, &peer->address);
}

static unsigned server_count_peers(const HttpServer *server) {
        return MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS)
                ->num_connections;
}

static bool server_is_full(const HttpServer *server) {
        return server_count_peers(server) >= MAX_CONNECTIONS;
}

/* Returns when the time of the next connection is over, or UINT64_MAX. libmicrohttpd closes a
 * connection that this shuts down in its next run, which the shutdown causes. */
static uint64_t server_cut_peers(HttpServer *server) {
        uint64_t lifetime = server_is_full(server) ? LIFETIME_FULL_USEC : LIFETIME_USEC;
        uint64_t now = clock_monotonic_usec(), next = UINT64_MAX;

        for (Peer *peer = server->peers; peer; peer = peer->next) {
                if (!peer->is_cut && now >= peer->since_usec + lifetime)
                        peer_cut(peer);
                if (!peer->is_cut && peer->since_usec + lifetime < next)
                        next = peer->since_usec + lifetime;
        }

        return next;
}

static int server_arm_timer(HttpServer *server) {
        uint64_t next = server_cut_peers(server);
        MHD_UNSIGNED_LONG_LONG msec;

        if (MHD_get_timeout(server->daemon, &msec) == MHD_YES) {
                uint64_t due = clock_monotonic_usec() + (uint64_t) msec * 1000;

                next = due < next ? due : next;
        }
        if (next < UINT64_MAX)
                return timer_start_at(&server->timer, next);

        timer_stop(&server->timer);
        return 0;
}

static int server_run(HttpServer *server) {
        unsigned n_before = server_count_peers(server);

        /* While full, or after accept() has failed for lack of descriptors or memory, libmicrohttpd
         * does not watch its listening socket until a connection has ended. It begins again only in
         * a further run, which nothing else might cause. */
        if (MHD_run(server->daemon) != MHD_YES ||
            (server_count_peers(server) < n_before && MHD_run(server->daemon) != MHD_YES))
                return -EIO;

        if (server->failure < 0)
                return server->failure;

        return server_arm_timer(server);
}

static int on_io(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        return server_run(userdata);
}

static int on_timer(void *userdata) {
        return server_run(userdata);
}

static int server_attach(HttpServer *server, sd_event *event) {
        int fd = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
        int r;

        r = loop_add_io(event, &server->io, fd, EPOLLIN, on_io, server);
        if (r < 0)
                return r;

        timer_init(&server->timer, event, TIMER_ACCURACY_USEC, on_timer, server);
        return server_run(server); /* makes it watch the listening socket */
}

int http_server_new(sd_event *event, const char *address, HttpServer **ret, Error *reterr) {
        cleanup(http_server_free_p) HttpServer *server = NULL;
        cleanup(close_p) int fd = -1;
        int r;

        server = calloc(1, sizeof(*server));
        if (!server)
                return -ENOMEM;

        r = listen_on(address, &fd, reterr);
        if (r < 0)
                return r;

        r = read_port(fd, &server->port);
        if (r < 0)
                return r;

        server->daemon =
                MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, on_request, server,
                                 MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
                                 (unsigned) MAX_CONNECTIONS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                                 CONNECTION_MEMORY, MHD_OPTION_NOTIFY_CONNECTION, on_connection,
                                 server, MHD_OPTION_END);
        if (!server->daemon)
                return -ENOMEM;
        (void) take_fd(&fd);

        r = server_attach(server, event);
        if (r < 0)
                return r;

        *ret = take_ptr(server);
        return 0;
}

HttpServer *http_server_free(HttpServer *server) {
        if (!server)
                return NULL;

        timer_done(&server->timer);
        sd_event_source_disable_unref(server->io);
        if (server->daemon)
                MHD_stop_daemon(server->daemon);
        free(server->routes);
        free(server);
        return NULL;
}

int http_server_add(HttpServer *server, const char *path, HttpHandler handler, void *userdata) {
        if (array_grow(&server->routes, server->n_routes, sizeof(server->routes[0])) < 0)
                return -ENOMEM;

        server->routes[server->n_routes++] = (Route){ path, handler, userdata };
        return 0;
}

uint16_t http_server_get_port(const HttpServer *server) {
        return server->port;
}
