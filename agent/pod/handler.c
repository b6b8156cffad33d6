/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/pod/handler.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/base/quote.h"
#include "agent/base/text.h"
#include "agent/base/time-units.h"
#include "agent/kube/http.h"
#include "agent/pod/exec.h"
#include "agent/pod/health.h"
#include "agent/pod/tcp-connect.h"
#include "cri/client.h"

#define ACCURACY_USEC 1000
#define N_DEFAULT_HEADERS 3
#define AUTHORIZATION "Authorization"

/*
 * The request of an httpGet
 *
 * As the kubelet makes it: without a proxy and without verifying certificates. A probe follows redirects to the
 * same host alone, a hook none. The caller keeps the time limit.
 */

/* Takes the result. status: 0 if no answer began; error: NULL if the answer is complete, or larger
 * than HANDLER_OUTPUT_MAX. */
typedef int (*HandlerHttpDone)(int status, const Error *error, void *userdata);

typedef struct HandlerHttp {
        char *host; /* host of a URL: with brackets if it needs them */
        unsigned port;
        char *path;
        char **headers; /* ends with NULL */
        bool allows_plain;
        char *plain_host; /* set: this is the request without TLS */
        unsigned redirects_max;
        unsigned n_redirects;
        char *body; /* the first bytes of the reply's body */
        size_t body_size;
        HttpPeer *peer; /* borrowed */
        HttpTransfer *transfer;
        HandlerHttpDone on_done;
        void *userdata;
} HandlerHttp;

static HandlerHttp *handler_http_free(HandlerHttp *http) {
        if (!http)
                return NULL;

        http_transfer_free(http->transfer);
        texts_free(http->headers);
        free(http->path);
        free(http->host);
        free(http->plain_host);
        free(http->body);
        free(http);
        return NULL;
}

DEFINE_CLEANUP(HandlerHttp *, handler_http_free)

/* Escapes characters that a request line may not contain; escapes that are there stay. */
static int escape_path(const char *path, char **ret) {
        char *text, *to;

        text = malloc(3 * strlen(path) + 1);
        if (!text)
                return -ENOMEM;

        to = text;
        for (; *path; path++)
                if ((unsigned char) *path <= ' ' || (unsigned char) *path >= 0x7f ||
                    strchr("\"<>\\^`{|}", *path))
                        to += sprintf(to, "%%%02X", (unsigned char) *path);
                else
                        *to++ = *path;
        *to = '\0';
        *ret = text;
        return 0;
}

static bool has_header(const HandlerSpec *spec, const char *name) {
        for (size_t i = 0; i < spec->n_headers; i++)
                if (strcasecmp(spec->headers[i].name, name) == 0)
                        return true;

        return false;
}

/* The spec's headers about the format of the message itself are ignored. */
static bool is_framing(const char *name) {
        return strcasecmp(name, "Content-Length") == 0 ||
               strcasecmp(name, "Transfer-Encoding") == 0 || strcasecmp(name, "Trailer") == 0;
}

static bool is_default(const char *name) {
        return strcasecmp(name, "User-Agent") == 0 || strcasecmp(name, "Accept") == 0;
}

/* An empty User-Agent or Accept is a request to send none. */
static int add_header(char **header, const HandlerHeader *source) {
        if (*source->value)
                return text_format(header, "%s: %s", source->name, source->value);

        return text_format(header, "%s%s", source->name, is_default(source->name) ? ":" : ";");
}

/* Announces that the connection is not reused, so that the server closes it first, as for the
 * kubelet: otherwise each run would keep a port of the node for a minute. */
static int copy_headers(HandlerHttp *http, const HandlerSpec *spec, const char *user_agent) {
        const HandlerHeader defaults[N_DEFAULT_HEADERS] = {
                { (char *) "User-Agent", (char *) user_agent },
                { (char *) "Accept", (char *) "*/*" },
                { (char *) "Connection", (char *) "close" },
        };
        size_t n = 0;
        int r = 0;

        http->headers = calloc(spec->n_headers + N_DEFAULT_HEADERS + 1, sizeof(*http->headers));
        if (!http->headers)
                return -ENOMEM;

        for (size_t i = 0; r >= 0 && i < N_DEFAULT_HEADERS; i++)
                if (!has_header(spec, defaults[i].name))
                        r = add_header(&http->headers[n++], &defaults[i]);
        for (size_t i = 0; r >= 0 && i < spec->n_headers; i++)
                if (!is_framing(spec->headers[i].name))
                        r = add_header(&http->headers[n++], &spec->headers[i]);
        return r;
}

static int http_end(HandlerHttp *http, int status, const Error *error) {
        http->transfer = http_transfer_free(http->transfer);
        return http->on_done(status, error, http->userdata);
}

static int on_head(int code, void *userdata) {
        return 0;
}

/* Without memory, cuts the body earlier, which changes only the output. */
static int on_data(const char *data, size_t size, void *userdata) {
        HandlerHttp *http = userdata;
        size_t room = HANDLER_OUTPUT_MAX - http->body_size, n = size < room ? size : room;
        char *body;

        body = realloc(http->body, http->body_size + n + 1);
        if (!body)
                return -ECANCELED;

        http->body = body;
        memcpy(body + http->body_size, data, n);
        http->body_size += n;
        return size > room ? -ECANCELED : 0;
}

/* Drops each such header, in whatever case: it was meant for TLS alone. */
static void drop_authorization(HandlerHttp *http) {
        const size_t size = strlen(AUTHORIZATION);
        size_t n = 0;

        for (char **header = http->headers; *header; header++)
                if (strncasecmp(*header, AUTHORIZATION, size) == 0 &&
                    ((*header)[size] == ':' || (*header)[size] == ';'))
                        free(*header);
                else
                        http->headers[n++] = *header;
        http->headers[n] = NULL;
}

static int http_request(HandlerHttp *http, const char *scheme, Error *reterr);

static int http_request_plainly(HandlerHttp *http) {
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        if (text_format(&http->plain_host, "%s:%u", http->host, http->port) < 0)
                return -ENOMEM;

        drop_authorization(http);
        http->transfer = http_transfer_free(http->transfer);
        r = http_request(http, "http", &error);
        return r < 0 && error.kind != ERROR_NONE ? http_end(http, 0, &error) : r;
}

/* The target of a redirect to the same host; the scheme is a constant. */
typedef struct Redirect {
        const char *scheme;
        unsigned port;
        const char *path; /* path and query up to "#"; the first "/" may be missing */
        size_t path_size;
} Redirect;

/* False if it leads to another host, or to none: an address with a user is never followed. */
static bool read_redirect(const char *url, const char *host, Redirect *ret) {
        bool is_tls = strncasecmp(url, "https://", strlen("https://")) == 0;
        const size_t host_size = strlen(host);
        unsigned long port;
        char *end;

        if (!is_tls && strncasecmp(url, "http://", strlen("http://")) != 0)
                return false;

        url += strlen(is_tls ? "https://" : "http://");
        if (strncasecmp(url, host, host_size) != 0)
                return false;

        url += host_size;
        port = is_tls ? 443 : 80;
        if (url[0] == ':' && url[1] >= '0' && url[1] <= '9') {
                port = strtoul(url + 1, &end, 10);
                url = end;
        }
        if (port < 1 || port > UINT16_MAX || (*url && !strchr("/?#", *url)))
                return false;

        *ret = (Redirect){
                .scheme = is_tls ? "https" : "http",
                .port = (unsigned) port,
                .path = url,
                .path_size = strcspn(url, "#"),
        };
        return true;
}

static bool is_redirect(int status) {
        return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

static int http_set_path(HandlerHttp *http, const Redirect *redirect) {
        cleanup(free_p) char *path = NULL;
        char *escaped;
        int r;

        if (text_format(&path, "%s%.*s", *redirect->path == '/' ? "" : "/",
                        (int) redirect->path_size, redirect->path) < 0)
                return -ENOMEM;

        r = escape_path(path, &escaped);
        if (r < 0)
                return r;

        free(http->path);
        http->path = escaped;
        return 0;
}

static int http_follow(HandlerHttp *http, const Redirect *redirect, int status) {
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        if (http->n_redirects++ == http->redirects_max) {
                (void) error_set(&error, ERROR_INVALID, "it redirects more than %u times",
                                 http->redirects_max);
                return http_end(http, status, &error);
        }

        r = http_set_path(http, redirect);
        if (r < 0)
                return r;

        if (strcmp(redirect->scheme, "https") != 0)
                drop_authorization(http);
        http->port = redirect->port;
        http->body_size = 0;
        http->transfer = http_transfer_free(http->transfer);
        r = http_request(http, redirect->scheme, &error);
        return r < 0 && error.kind != ERROR_NONE ? http_end(http, 0, &error) : r;
}

static int on_end(const HttpEnd *end, void *userdata) {
        HandlerHttp *http = userdata;
        Redirect redirect;

        if (end->is_plain && http->allows_plain && !http->plain_host)
                return http_request_plainly(http);
        if (http->redirects_max > 0 && is_redirect(end->code) && end->redirect &&
            read_redirect(end->redirect, http->host, &redirect))
                return http_follow(http, &redirect, end->code);

        return http_end(http, end->code,
                        end->error && end->error->kind == ERROR_CANCELED ? NULL : end->error);
}

static int http_request(HandlerHttp *http, const char *scheme, Error *reterr) {
        HttpRequest request = {
                .method = "GET",
                .path = http->path,
                .headers = (const char *const *) http->headers,
                .on_head = on_head,
                .on_data = on_data,
                .on_end = on_end,
                .userdata = http,
        };
        cleanup(free_p) char *server = NULL;

        if (text_format(&server, "%s://%s:%u", scheme, http->host, http->port) < 0)
                return -ENOMEM;

        request.server = server;
        return http_send(http->peer, &request, &http->transfer, reterr);
}

static int http_copy(HandlerHttp *http, const HandlerSpec *spec, const char *host,
                     const char *user_agent) {
        int r;

        if (text_format(&http->host, strchr(host, ':') ? "[%s]" : "%s", host) < 0)
                return -ENOMEM;

        http->port = spec->port;
        r = escape_path(spec->path, &http->path);
        return r < 0 ? r : copy_headers(http, spec, user_agent);
}

/* on_done does not run from within. Refused if there is no address to ask. */
static int handler_http_new(const HandlerOptions *options, HandlerHttpDone on_done, void *userdata,
                            HandlerHttp **ret, Error *reterr) {
        cleanup(handler_http_free_p) HandlerHttp *http = NULL;
        const char *host = options->spec->host ?: options->address;
        int r;

        if (!host)
                return error_set(reterr, ERROR_INVALID, "the pod's address is not known");

        http = malloc(sizeof(*http));
        if (!http)
                return -ENOMEM;

        *http = (HandlerHttp){
                .peer = options->http,
                .allows_plain = options->allows_plain,
                .redirects_max = options->redirects_max,
                .on_done = on_done,
                .userdata = userdata,
        };
        r = http_copy(http, options->spec, host, options->user_agent);
        if (r < 0)
                return r;

        r = http_request(http, options->spec->scheme, reterr);
        if (r < 0)
                return r;

        *ret = take_ptr(http);
        return 0;
}

/* Handlers of all kinds */

struct Handler {
        sd_event *event;
        HandlerDone on_done;
        void *userdata;
        uint64_t timeout_usec;
        Exec *exec;
        HandlerHttp *http;
        TcpConnect *connect;
        Health *health;
        char *address;  /* "10.0.0.7:8080"; for TCP and GRPC */
        HttpPeer *peer; /* borrowed; for GRPC, as the next two */
        char *service;
        char *user_agent;
        Timer timer;      /* ends at the time limit or with the sleep */
        Deferred refusal; /* reports the error */
        Error error;
};

DEFINE_CLEANUP(Handler *, handler_free)

/* The handler may be freed in the callback. */
static int handler_end(Handler *handler, const HandlerResult *result) {
        timer_stop(&handler->timer);
        return handler->on_done(result, handler->userdata);
}

static int handler_succeed(Handler *handler) {
        return handler_end(handler, &(HandlerResult){ .outcome = HANDLER_SUCCEEDED });
}

static int handler_fail(Handler *handler, HandlerOutcome outcome, const Error *error) {
        return handler_end(handler, &(HandlerResult){ .outcome = outcome, .error = error });
}

static size_t cut(size_t size) {
        return size < HANDLER_OUTPUT_MAX ? size : HANDLER_OUTPUT_MAX;
}

static int on_exec(const void *reply, const Error *refusal, void *userdata) {
        cleanup(error_done) Error error = ERROR_INIT;
        const CriExec *exec = reply;
        Handler *handler = userdata;
        HandlerResult result;

        if (refusal)
                return handler_fail(handler,
                                    refusal->kind == ERROR_TIMEOUT ? HANDLER_FAILED
                                                                   : HANDLER_UNKNOWN,
                                    refusal);

        result = (HandlerResult){
                .outcome = HANDLER_SUCCEEDED,
                .output = (const char *) exec->stdout.data,
                .output_size = cut(exec->stdout.len),
        };
        if (exec->exit_code != 0) {
                (void) error_set(&error, ERROR_INVALID, "the command exited with status %d",
                                 exec->exit_code);
                result = (HandlerResult){
                        .outcome = HANDLER_FAILED,
                        .error = &error,
                        .status = exec->exit_code,
                        .output = (const char *) exec->stderr.data,
                        .output_size = cut(exec->stderr.len),
                };
        }

        return handler_end(handler, &result);
}

static int on_http(int status, const Error *refusal, void *userdata) {
        cleanup(error_done) Error error = ERROR_INIT;
        Handler *handler = userdata;
        const Error *why = refusal;

        if (!why && (status < 200 || status > 399)) {
                (void) error_set(&error, ERROR_INVALID, "the server answered with HTTP status %d",
                                 status);
                why = &error;
        }

        return handler_end(handler, &(HandlerResult){
                                            .outcome = why ? HANDLER_FAILED : HANDLER_SUCCEEDED,
                                            .error = why,
                                            .status = status,
                                            .output = handler->http->body,
                                            .output_size = handler->http->body_size,
                                            .plain_host = handler->http->plain_host,
                                    });
}

/* Tells a node without free resources from a server that refuses the connection. */
static bool is_local(int number) {
        return number == EMFILE || number == ENFILE || number == ENOBUFS || number == ENOMEM ||
               number == EADDRNOTAVAIL;
}

static int on_health(const Error *error, void *userdata) {
        return error ? handler_fail(userdata, HANDLER_FAILED, error) : handler_succeed(userdata);
}

static int handler_ask_health(Handler *handler) {
        cleanup(error_done) Error error = ERROR_INIT;
        const HealthOptions options = {
                .event = handler->event,
                .http = handler->peer,
                .fd = tcp_connect_take(handler->connect),
                .authority = handler->address,
                .service = handler->service,
                .user_agent = handler->user_agent,
                .on_done = on_health,
                .userdata = handler,
        };
        int r;

        r = health_ask(&options, &handler->health, &error);
        return r < 0 && error.kind != ERROR_NONE ? handler_fail(handler, HANDLER_UNKNOWN, &error)
                                                 : r;
}

static int on_connected(int number, void *userdata) {
        cleanup(error_done) Error error = ERROR_INIT;
        Handler *handler = userdata;

        if (number == 0)
                return handler->service ? handler_ask_health(handler) : handler_succeed(handler);

        (void) error_set(&error, number == ETIMEDOUT ? ERROR_TIMEOUT : ERROR_UNAVAILABLE,
                         "cannot connect to %s: %s", handler->address, strerror(number));
        return handler_fail(handler, is_local(number) ? HANDLER_UNKNOWN : HANDLER_FAILED, &error);
}

static int on_timeout(void *userdata) {
        cleanup(error_done) Error error = ERROR_INIT;
        Handler *handler = userdata;

        handler->exec = exec_free(handler->exec);
        handler->health = health_free(handler->health);
        handler->http = handler_http_free(handler->http);
        handler->connect = tcp_connect_free(handler->connect);
        (void) error_set(&error, ERROR_TIMEOUT, "it did not finish within %llu s",
                         (unsigned long long) (handler->timeout_usec / USEC_PER_SEC));
        return handler_fail(handler, HANDLER_FAILED, &error);
}

static int on_slept(void *userdata) {
        return handler_succeed(userdata);
}

static int on_refusal(void *userdata) {
        Handler *handler = userdata;

        return handler_fail(handler, HANDLER_UNKNOWN, &handler->error);
}

static int handler_limit(Handler *handler) {
        timer_init(&handler->timer, handler->event, ACCURACY_USEC, on_timeout, handler);
        return timer_start(&handler->timer, handler->timeout_usec);
}

static int handler_exec(Handler *handler, const HandlerOptions *options) {
        int64_t timeout_sec = (int64_t) (handler->timeout_usec / USEC_PER_SEC);

        if (!options->client)
                return error_set(&handler->error, ERROR_UNAVAILABLE,
                                 "no container runtime answers");

        return exec_run(
                &(ExecOptions){
                        .http = options->http,
                        .client = options->client,
                        .container_id = options->container_id,
                        .command = options->spec->command,
                        .timeout_sec = timeout_sec > 0 ? timeout_sec : 1,
                        .on_done = on_exec,
                        .userdata = handler,
                },
                &handler->exec, &handler->error);
}

static int handler_connect(Handler *handler, const HandlerOptions *options) {
        const HandlerSpec *spec = options->spec;
        const char *host = spec->host ?: options->address;
        TcpAddress address;

        if (!host)
                return error_set(&handler->error, ERROR_INVALID, "the pod's address is not known");
        if (!tcp_address_read(host, spec->port, &address))
                return error_set(&handler->error, ERROR_UNSUPPORTED,
                                 "%s is not an address, and names are not resolved",
                                 quote(host, (char[QUOTE_SIZE]){ 0 }));

        if (text_format(&handler->address, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host,
                        spec->port) < 0)
                return -ENOMEM;

        return tcp_connect(handler->event, &address, handler->timeout_usec, on_connected, handler,
                           &handler->connect);
}

static int handler_grpc(Handler *handler, const HandlerOptions *options) {
        handler->peer = options->http;
        if (text_copy(options->spec->service, &handler->service) < 0 ||
            text_copy(options->user_agent, &handler->user_agent) < 0)
                return -ENOMEM;

        return handler_connect(handler, options);
}

static int handler_sleep(Handler *handler, const HandlerSpec *spec) {
        if ((uint64_t) spec->sleep_sec > handler->timeout_usec / USEC_PER_SEC)
                return handler_limit(handler);

        timer_init(&handler->timer, handler->event, ACCURACY_USEC, on_slept, handler);
        return timer_start(&handler->timer, (uint64_t) spec->sleep_sec * USEC_PER_SEC);
}

static int handler_start(Handler *handler, const HandlerOptions *options) {
        switch (options->spec->kind) {
        case HANDLER_EXEC: return handler_exec(handler, options);
        case HANDLER_HTTP:
                return handler_http_new(options, on_http, handler, &handler->http, &handler->error);
        case HANDLER_TCP: return handler_connect(handler, options);
        case HANDLER_SLEEP: return handler_sleep(handler, options->spec);
        case HANDLER_GRPC: return handler_grpc(handler, options);
        case HANDLER_NONE:
        case _HANDLER_KIND_MAX: break;
        }

        abort();
}

int handler_run(const HandlerOptions *options, Handler **ret) {
        cleanup(handler_free_p) Handler *handler = NULL;
        int r;

        handler = malloc(sizeof(*handler));
        if (!handler)
                return -ENOMEM;

        *handler = (Handler){
                .event = sd_event_ref(options->event),
                .on_done = options->on_done,
                .userdata = options->userdata,
                .timeout_usec = options->timeout_usec,
        };
        deferred_init(&handler->refusal, handler->event, on_refusal, handler);
        r = handler_start(handler, options);
        if (handler->error.kind != ERROR_NONE)
                r = deferred_request(&handler->refusal);
        else if (r >= 0 && options->spec->kind != HANDLER_SLEEP)
                r = handler_limit(handler);
        if (r < 0)
                return r;

        *ret = take_ptr(handler);
        return 0;
}

Handler *handler_free(Handler *handler) {
        if (!handler)
                return NULL;

        exec_free(handler->exec);
        health_free(handler->health);
        handler_http_free(handler->http);
        tcp_connect_free(handler->connect);
        free(handler->address);
        free(handler->service);
        free(handler->user_agent);
        timer_done(&handler->timer);
        deferred_done(&handler->refusal);
        error_done(&handler->error);
        sd_event_unref(handler->event);
        free(handler);
        return NULL;
}
