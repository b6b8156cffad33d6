/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/pod/hook-http.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/kube/http.h"

#define BODY_SIZE_MAX ((size_t) 10 * 1024) /* nobody reads it, but who sends it may care */
#define N_DEFAULT_HEADERS 2
#define AUTHORIZATION "Authorization"

struct HookHttp {
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
};

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

/* An empty User-Agent or Accept is a wish to send none. */
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

int hook_http_new(sd_event *event, const HookSpec *spec, const char *address, HookDone on_done,
                  void *userdata, HookHttp **ret, Error *reterr) {
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

const char *hook_http_plain_host(const HookHttp *http) {
        return http->plain_host;
}

HookHttp *hook_http_free(HookHttp *http) {
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
