/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/pod/health.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/pod/health-spec.h"
#include "agent/pod/relay.h"

struct Health {
        Relay *relay;
        HttpTransfer *transfer;
        HealthReply reply;
        HealthDone on_done;
        void *userdata;
};

DEFINE_CLEANUP(Health *, health_free)

static int on_head(int code, void *userdata) {
        return 0;
}

static int on_header(const char *line, size_t size, void *userdata) {
        Health *health = userdata;

        grpc_end_add_header(&health->reply.end, line, size);
        return 0;
}

static int on_data(const char *data, size_t size, void *userdata) {
        Health *health = userdata;

        return health_spec_add_body(&health->reply, data, size) ? 0 : -ECANCELED;
}

/* curl's own message for a server without HTTP/2 contains numbers that change. */
static int health_judge(const Health *health, const HttpEnd *end, Error *reterr) {
        if (relay_is_cut(health->relay))
                return error_set(reterr, ERROR_UNAVAILABLE,
                                 "health rpc failed: the server sends more than %zu bytes, or "
                                 "takes none",
                                 RELAY_BYTES_MAX);
        if (end->error && end->error->kind == ERROR_CANCELED)
                return error_set(reterr, ERROR_UNAVAILABLE,
                                 "health rpc failed: the answer has more than %d bytes",
                                 HEALTH_BODY_MAX);
        if (end->error && !health->reply.end.has_status)
                return error_set(reterr, ERROR_UNAVAILABLE,
                                 "health rpc failed: the server closed the connection, or does "
                                 "not speak HTTP/2 without TLS");

        return health_spec_judge(&health->reply, end->code, reterr);
}

static int on_end(const HttpEnd *end, void *userdata) {
        cleanup(error_done) Error error = ERROR_INIT;
        Health *health = userdata;
        int r;

        health->transfer = http_transfer_free(health->transfer);
        r = health_judge(health, end, &error);
        if (r < 0 && error.kind == ERROR_NONE)
                return r;

        return health->on_done(r < 0 ? &error : NULL, health->userdata);
}

static int health_send(Health *health, const HealthOptions *options, Error *reterr) {
        cleanup(free_p) char *server = NULL, *user_agent = NULL;
        cleanup(free_p) uint8_t *body = NULL;
        const char *headers[] = { "TE: trailers", "Content-Length:", NULL, NULL };
        HttpRequest request = {
                .method = "POST",
                .path = HEALTH_PATH,
                .content_type = GRPC_CONTENT_TYPE,
                .headers = headers,
                .is_http2 = true,
                .on_head = on_head,
                .on_header = on_header,
                .on_data = on_data,
                .on_end = on_end,
                .userdata = health,
        };
        int r;

        request.through = relay_address(health->relay, &request.through_size);
        if (text_format(&server, "http://%s", options->authority) < 0 ||
            text_format(&user_agent, "User-Agent: %s", options->user_agent) < 0)
                return -ENOMEM;

        r = health_spec_pack(options->service, &body, &request.body_size);
        if (r < 0)
                return r;

        headers[2] = user_agent;
        request.server = server;
        request.body = (const char *) body;
        return http_send(options->http, &request, &health->transfer, reterr);
}

int health_ask(const HealthOptions *options, Health **ret, Error *reterr) {
        cleanup(health_free_p) Health *health = NULL;
        cleanup(close_p) int fd = options->fd;
        int r;

        health = calloc(1, sizeof(*health));
        if (!health)
                return -ENOMEM;

        health->on_done = options->on_done;
        health->userdata = options->userdata;
        r = relay_new(options->event, take_fd(&fd), &health->relay);
        if (r == -EMFILE || r == -ENFILE)
                return error_set(reterr, ERROR_UNAVAILABLE, "cannot ask %s: %s", options->authority,
                                 strerror(-r));
        if (r >= 0)
                r = health_send(health, options, reterr);
        if (r < 0)
                return r;

        *ret = take_ptr(health);
        return 0;
}

Health *health_free(Health *health) {
        if (!health)
                return NULL;

        http_transfer_free(health->transfer);
        relay_free(health->relay);
        free(health);
        return NULL;
}
