/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/pod/hook.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/base/quote.h"
#include "agent/kube/http.h"
#include "agent/pod/tcp-knock.h"
#include "cri/client.h"

#define USEC_PER_SEC ((uint64_t) 1000000)
#define BODY_SIZE_MAX ((size_t) 10 * 1024) /* nobody reads it, but who sends it may care */
#define N_DEFAULT_HEADERS 2
#define AUTHORIZATION "Authorization"

/*
 * The request of an httpGet hook
 *
 * As the kubelet makes it: no proxy, no certificate is verified, any answer is success, and a
 * server that answers https in plain HTTP is asked once more without TLS, and without the header
 * Authorization. No redirect is followed, and no time limit is kept here.
 */

typedef struct HookHttp {
        sd_event *event;
        char *host; /* as it stands in an address: with brackets if it needs them */
        unsigned port;
        char *path;
        char **headers;   /* ends with NULL */
        char *plain_host; /* set: this is the request without TLS */
        size_t body_size;
        HttpPeer *peer;
        HttpTransfer *transfer;
        HookDone on_done;
        void *userdata;
} HookHttp;

static HookHttp *hook_http_free(HookHttp *http) {
        if (!http)
                return NULL;

        http_transfer_free(http->transfer);
        http_peer_unref(http->peer);
        for (char **header = http->headers; header && *header; header++)
                free(*header);
        free(http->headers);
        free(http->path);
        free(http->host);
        free(http->plain_host);
        sd_event_unref(http->event);
        free(http);
        return NULL;
}

DEFINE_CLEANUP(HookHttp *, hook_http_free)

/* What may not stand in a request line is escaped; what is escaped already stays. */
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

static bool has_header(const HookSpec *spec, const char *name) {
        for (size_t i = 0; i < spec->n_headers; i++)
                if (strcasecmp(spec->headers[i].name, name) == 0)
                        return true;

        return false;
}

/* Whatever says how the message itself is built is ours to say. */
static bool is_framing(const char *name) {
        return strcasecmp(name, "Content-Length") == 0 ||
               strcasecmp(name, "Transfer-Encoding") == 0 || strcasecmp(name, "Trailer") == 0;
}

static bool is_default(const char *name) {
        return strcasecmp(name, "User-Agent") == 0 || strcasecmp(name, "Accept") == 0;
}

/* An empty User-Agent or Accept is a request to send none. */
static int add_header(char **header, const HookHeader *source) {
        int r;

        if (*source->value)
                r = asprintf(header, "%s: %s", source->name, source->value);
        else
                r = asprintf(header, "%s%s", source->name, is_default(source->name) ? ":" : ";");
        if (r >= 0)
                return 0;

        *header = NULL;
        return -ENOMEM;
}

static int copy_headers(HookHttp *http, const HookSpec *spec) {
        static const HookHeader defaults[N_DEFAULT_HEADERS] = {
                { (char *) "User-Agent", (char *) "kube-lifecycle/inplaced" },
                { (char *) "Accept", (char *) "*/*" },
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

static int http_end(HookHttp *http, const Error *error) {
        http->transfer = http_transfer_free(http->transfer);
        http->peer = http_peer_unref(http->peer);
        return http->on_done(error, http->userdata);
}

static int on_head(int code, void *userdata) {
        return 0;
}

static int on_data(const char *data, size_t size, void *userdata) {
        HookHttp *http = userdata;

        http->body_size += size;
        return http->body_size > BODY_SIZE_MAX ? -ECANCELED : 0;
}

/* What was meant for TLS alone, however often and in whatever case it is there. */
static void drop_authorization(HookHttp *http) {
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

static int http_request(HookHttp *http, const char *scheme, Error *reterr);

static int http_request_plainly(HookHttp *http) {
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        if (asprintf(&http->plain_host, "%s:%u", http->host, http->port) < 0) {
                http->plain_host = NULL;
                return -ENOMEM;
        }

        drop_authorization(http);
        http->transfer = http_transfer_free(http->transfer);
        http->peer = http_peer_unref(http->peer);
        r = http_request(http, "http", &error);
        return r < 0 && error.kind != ERROR_NONE ? http_end(http, &error) : r;
}

static int on_end(const HttpEnd *end, void *userdata) {
        HookHttp *http = userdata;

        if (end->is_plain && !http->plain_host)
                return http_request_plainly(http);

        return http_end(http, end->code != 0 ? NULL : end->error);
}

static int http_request(HookHttp *http, const char *scheme, Error *reterr) {
        const HttpRequest request = {
                .method = "GET",
                .path = http->path,
                .headers = (const char *const *) http->headers,
                .on_head = on_head,
                .on_data = on_data,
                .on_end = on_end,
                .userdata = http,
        };
        cleanup(free_p) char *server = NULL;
        KubeCredentials nobody = { .proxy = "", .is_unverified = true };
        int r;

        if (asprintf(&server, "%s://%s:%u", scheme, http->host, http->port) < 0) {
                server = NULL;
                return -ENOMEM;
        }

        nobody.server = server;
        r = http_peer_new(http->event, &nobody, &http->peer, reterr);
        return r < 0 ? r : http_send(http->peer, &request, &http->transfer);
}

static int http_copy(HookHttp *http, const HookSpec *spec, const char *host) {
        int r;

        if (asprintf(&http->host, strchr(host, ':') ? "[%s]" : "%s", host) < 0) {
                http->host = NULL;
                return -ENOMEM;
        }

        http->port = spec->port;
        r = escape_path(spec->path, &http->path);
        return r < 0 ? r : copy_headers(http, spec);
}

/* address: of the pod, if the hook names no host. on_done does not run from within. Refused if
 * there is nobody to ask. */
static int hook_http_new(sd_event *event, const HookSpec *spec, const char *address,
                         HookDone on_done, void *userdata, HookHttp **ret, Error *reterr) {
        cleanup(hook_http_free_p) HookHttp *http = NULL;
        const char *host = spec->host ?: address;
        int r;

        if (!host)
                return error_set(reterr, ERROR_INVALID, "the pod's address is not known");

        http = malloc(sizeof(*http));
        if (!http)
                return -ENOMEM;

        *http = (HookHttp){
                .event = sd_event_ref(event),
                .on_done = on_done,
                .userdata = userdata,
        };
        r = http_copy(http, spec, host);
        if (r < 0)
                return r;

        r = http_request(http, spec->scheme, reterr);
        if (r < 0)
                return r;

        *ret = take_ptr(http);
        return 0;
}

/* Hooks of all kinds */

struct Hook {
        sd_event *event;
        HookDone on_done;
        void *userdata;
        uint64_t timeout_usec;
        RpcCall *call;
        HookHttp *http;
        TcpKnock *knock;
        sd_event_source *timer; /* of the limit, or of the sleep */
        sd_event_source *refusal;
        Error error; /* of the refusal */
};

DEFINE_CLEANUP(Hook *, hook_free)

static int hook_end(Hook *hook, const Error *error) {
        hook->timer = sd_event_source_disable_unref(hook->timer);
        return hook->on_done(error, hook->userdata);
}

/* Of what a program writes to complain, the first line says the most. */
static void describe_exit(const CriExec *reply, Error *ret) {
        char line[QUOTE_SIZE];
        size_t size = 0;

        while (size < reply->stderr.len && size < sizeof(line) - 1 &&
               reply->stderr.data[size] != '\n' && reply->stderr.data[size] != '\0')
                size++;
        if (size == 0) {
                (void) error_set(ret, ERROR_INVALID, "the command exited with status %d",
                                 reply->exit_code);
                return;
        }

        memcpy(line, reply->stderr.data, size);
        line[size] = '\0';
        (void) error_set(ret, ERROR_INVALID, "the command exited with status %d: %s",
                         reply->exit_code, quote(line, (char[QUOTE_SIZE]){ 0 }));
}

static int on_exec(const void *reply, const Error *error, void *userdata) {
        cleanup(error_done) Error failure = ERROR_INIT;
        const CriExec *exec = reply;
        Hook *hook = userdata;

        hook->call = rpc_call_unref(hook->call);
        if (exec && exec->exit_code != 0) {
                describe_exit(exec, &failure);
                error = &failure;
        }

        return hook_end(hook, error);
}

static int on_http(const Error *error, void *userdata) {
        return hook_end(userdata, error);
}

static int on_knocked(int number, void *userdata) {
        cleanup(error_done) Error error = ERROR_INIT;
        Hook *hook = userdata;

        if (number == 0)
                return hook_end(hook, NULL);

        (void) error_set(&error, number == ETIMEDOUT ? ERROR_TIMEOUT : ERROR_UNAVAILABLE,
                         "cannot connect: %s", strerror(number));
        return hook_end(hook, &error);
}

static int on_timeout(sd_event_source *source, uint64_t usec, void *userdata) {
        cleanup(error_done) Error error = ERROR_INIT;
        Hook *hook = userdata;

        hook->call = rpc_call_unref(hook->call);
        hook->http = hook_http_free(hook->http);
        hook->knock = tcp_knock_free(hook->knock);
        (void) error_set(&error, ERROR_TIMEOUT, "it was not done within %llu s",
                         (unsigned long long) (hook->timeout_usec / USEC_PER_SEC));
        return hook_end(hook, &error);
}

static int on_slept(sd_event_source *source, uint64_t usec, void *userdata) {
        return hook_end(userdata, NULL);
}

static int on_refusal(sd_event_source *source, void *userdata) {
        Hook *hook = userdata;

        return hook_end(hook, &hook->error);
}

static int hook_add_timer(Hook *hook, uint64_t usec, sd_event_time_handler_t handler) {
        return loop_add_time_relative(hook->event, &hook->timer, CLOCK_MONOTONIC, usec,
                                      /* accuracy= */ 1000, handler, hook);
}

static int hook_exec(Hook *hook, const HookSpec *spec, const HookTarget *target) {
        uint64_t timeout_sec = hook->timeout_usec / USEC_PER_SEC;

        if (!target->client)
                return error_set(&hook->error, ERROR_UNAVAILABLE,
                                 "the container runtime is not there");

        return cri_exec_sync(target->client, target->container_id, spec->command,
                             timeout_sec > 0 ? (int64_t) timeout_sec : 1, on_exec, hook,
                             &hook->call);
}

static int hook_knock(Hook *hook, const HookSpec *spec, const HookTarget *target) {
        const char *host = spec->host ?: target->address;
        TcpAddress address;

        if (!host)
                return error_set(&hook->error, ERROR_INVALID, "the pod's address is not known");
        if (!tcp_address_read(host, spec->port, &address))
                return error_set(&hook->error, ERROR_UNSUPPORTED,
                                 "%s is not an address, and names are not looked up for it",
                                 quote(host, (char[QUOTE_SIZE]){ 0 }));

        return tcp_knock(hook->event, &address, hook->timeout_usec, on_knocked, hook, &hook->knock);
}

static bool sleeps_in_time(const HookSpec *spec, uint64_t timeout_usec) {
        return (uint64_t) spec->sleep_sec <= timeout_usec / USEC_PER_SEC;
}

static int hook_start(Hook *hook, const HookSpec *spec, const HookTarget *target) {
        switch (spec->kind) {
        case HOOK_EXEC: return hook_exec(hook, spec, target);
        case HOOK_HTTP:
                return hook_http_new(hook->event, spec, target->address, on_http, hook, &hook->http,
                                     &hook->error);
        case HOOK_TCP: return hook_knock(hook, spec, target);
        case HOOK_SLEEP:
                if (sleeps_in_time(spec, hook->timeout_usec))
                        return hook_add_timer(hook, (uint64_t) spec->sleep_sec * USEC_PER_SEC,
                                              on_slept);
                return 0;
        case HOOK_NONE:
        case _HOOK_KIND_MAX: break;
        }

        abort();
}

static int hook_refuse(Hook *hook) {
        return loop_add_defer(hook->event, &hook->refusal, on_refusal, hook);
}

int hook_run(sd_event *event, const HookSpec *spec, const HookTarget *target, uint64_t timeout_usec,
             HookDone on_done, void *userdata, Hook **ret) {
        cleanup(hook_free_p) Hook *hook = NULL;
        int r;

        hook = malloc(sizeof(*hook));
        if (!hook)
                return -ENOMEM;

        *hook = (Hook){
                .event = sd_event_ref(event),
                .on_done = on_done,
                .userdata = userdata,
                .timeout_usec = timeout_usec,
        };
        r = hook_start(hook, spec, target);
        if (hook->error.kind != ERROR_NONE)
                r = hook_refuse(hook);
        else if (r >= 0 && !hook->timer)
                r = hook_add_timer(hook, timeout_usec, on_timeout);
        if (r < 0)
                return r;

        *ret = take_ptr(hook);
        return 0;
}

const char *hook_plain_host(const Hook *hook) {
        return hook->http ? hook->http->plain_host : NULL;
}

Hook *hook_free(Hook *hook) {
        if (!hook)
                return NULL;

        rpc_call_unref(hook->call);
        hook_http_free(hook->http);
        tcp_knock_free(hook->knock);
        sd_event_source_disable_unref(hook->timer);
        sd_event_source_disable_unref(hook->refusal);
        error_done(&hook->error);
        sd_event_unref(hook->event);
        free(hook);
        return NULL;
}
