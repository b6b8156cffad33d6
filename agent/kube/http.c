/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/http.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "agent/base/cleanup.h"
#include "agent/base/list.h"
#include "agent/base/loop.h"
#include "agent/base/text.h"
#include "agent/kube/http-library.h"
#include "agent/kube/proxy-spec.h"

#define HTTP_CONNECT_SECONDS 15
#define RETRY_AFTER_MAX_SECONDS 86400

#define BUFFER_SIZE 16384L /* bytes of one TLS record; also curl's minimum for uploads */

/* A peer that is gone without a word is noticed after 30 s. */
#define KEEPALIVE_IDLE_SECONDS 15
#define KEEPALIVE_INTERVAL_SECONDS 5
#define KEEPALIVE_PROBES 3
#define UNACKNOWLEDGED_MSEC 30000

/* With HTTP/1.1 each request needs a connection, and a watch keeps one as long as it lasts. There
 * are a dozen watches at most, as where an update waits until a few nodes have pulled its images; the
 * others are for requests. */
#define CONNECTIONS_MAX 16L
#define ACTIONS_MAX 4
#define READY_MAX 64

/* Handles kept for the next requests to any server, as many as probes begin in a busy turn. */
#define IDLE_MAX 32

/* Address of the server, and the name in its certificate. With its own name for TLS
 * ("tls-server-name") requests are addressed to that name, which goes into the handshake and is
 * compared with the certificate, while the connection and the Host header go to the server's
 * address. */
typedef struct HttpTarget {
        char *server;     /* name for people, such as "https://10.96.0.1:443" */
        char *base;       /* base of all URLs */
        char *connect_to; /* "::10.96.0.1:443", or NULL: the address in base */
        char *host;       /* "Host: 10.96.0.1:443", or NULL: the host in base */
        bool is_plain;    /* no TLS */
        char *name;       /* name of the host, or its address without brackets */
        char *port;
} HttpTarget;

struct HttpPeer {
        unsigned n_refs; /* references of the owner, each transfer, and each caller of callbacks */
        sd_event *event;
        HttpLibrary curl;
        CURLM *multi; /* NULL: curl is not loaded yet */
        Timer timer;
        Deferred due;        /* curl has to be called in the next turn of the loop */
        bool is_initialised; /* global_init() of curl was called */
        bool is_inside;      /* curl runs, and must not be called again from its callbacks */
        bool is_due;         /* curl has to be called again at once */
        bool has_freed;      /* a transfer was freed inside curl: http_peer_reap() does the rest */
        HttpTransfer *transfers;

        /* The sockets have one source in the loop: the loop serves one source in each turn, and asks the
         * kernel about all that are ready again before the next one. */
        int sockets; /* epoll */
        sd_event_source *source;
        struct epoll_event ready[READY_MAX]; /* descriptors that are ready in this turn */
        int n_ready;

        bool is_for_any;      /* server; else for the target */
        CURL *idle[IDLE_MAX]; /* set up for any server, but not for a request */
        unsigned n_idle;
        HttpTarget target;
        char *ca;
        char *certificate;
        char *key;
        char *username;
        char *password;
        char *proxy;          /* NULL: none */
        char **impersonation; /* headers of each request, ended by NULL; NULL: none */
        bool is_unverified;
};

struct HttpTransfer {
        LIST_LINKS(HttpTransfer);
        HttpPeer *peer;
        char *server; /* NULL: the peer's */
        CURL *easy;
        CURLcode set_result; /* result of the last curl_easy_setopt() */
        struct curl_slist *headers;
        struct curl_slist *connect_to;
        struct sockaddr through; /* address of the request's Unix socket, if it has one */
        socklen_t through_size;
        int (*on_head)(int code, void *userdata);
        int (*on_header)(const char *line, size_t size, void *userdata);
        int (*on_data)(const char *data, size_t size, void *userdata);
        int (*on_end)(const HttpEnd *end, void *userdata);
        void *userdata;
        char trouble[CURL_ERROR_SIZE];
        size_t head_cost; /* cost of all headers so far */
        char date[40];    /* Date header of the answer; "": none */
        bool is_set_up;   /* ready, except for the request's options */
        bool is_running;  /* curl has it */
        bool is_freed;    /* freed by its owner, from inside curl */
        bool is_cut;      /* ended by on_head, on_header or on_data */
        bool has_head;    /* on_head was called */
        bool has_body;    /* the request has a body */
};

/* Sets an option of one transfer; true if curl takes it. curl's own macro, which checks the types, needs
 * curl linked; this one checks the mistake easily made: an int where curl reads a long. */
#define http_set(transfer, option, value)                                                    \
        ({                                                                                   \
                _Static_assert((option) >= CURLOPTTYPE_OBJECTPOINT ||                        \
                                       sizeof(value) == sizeof(long),                        \
                               "curl reads a long");                                         \
                (transfer)->set_result =                                                     \
                        (transfer)->peer->curl.easy_setopt((transfer)->easy, option, value); \
                (transfer)->set_result == CURLE_OK;                                          \
        })

/* Finds the meaningful part of curl's text: behind the last of OpenSSL's many colons, or behind
 * curl's own introduction. */
static const char *strip(const char *text) {
        static const char *const introductions[] = { "SSL certificate problem: ", "SSL: " };
        const char *last;

        for (size_t i = 0; i < sizeof(introductions) / sizeof(introductions[0]); i++)
                if (strncmp(text, introductions[i], strlen(introductions[i])) == 0)
                        return text + strlen(introductions[i]);

        last = strstr(text, "error:") ? strrchr(text, ':') : NULL;
        return last && last[1] ? last + 1 : text;
}

static const char *certificate_hint(const char *text) {
        if (strstr(text, "subject name") || strstr(text, "mismatch"))
                return "; check server and tls-server-name";
        if (strstr(text, "expired") || strstr(text, "not yet valid"))
                return "; check the clocks, or renew it";

        return "; check certificate-authority";
}

static void describe_tls(CURLcode code, const char *server, const char *reason, Error *ret) {
        if (code == CURLE_PEER_FAILED_VERIFICATION)
                (void) error_set(ret, ERROR_DENIED, "the certificate of %s cannot be trusted: %s%s",
                                 server, reason, certificate_hint(reason));
        else if (code == CURLE_SSL_CACERT_BADFILE)
                (void) error_set(
                        ret, ERROR_DENIED,
                        "the certificate of %s cannot be trusted: there is no usable "
                        "certificate in certificate-authority or, without it, among those of "
                        "this machine (ca-certificates)",
                        server);
        else if (code == CURLE_SSL_CERTPROBLEM)
                (void) error_set(ret, ERROR_DENIED,
                                 "cannot use our own certificate for %s: %s; check "
                                 "client-certificate and client-key",
                                 server, reason);
        else
                (void) error_set(ret, ERROR_UNAVAILABLE, "no TLS with %s: %s", server, reason);
}

static void describe_connect(CURLcode code, const char *server, const char *reason, Error *ret) {
        if (code == CURLE_COULDNT_RESOLVE_HOST)
                reason = "its host name cannot be resolved";
        if (code == CURLE_COULDNT_RESOLVE_PROXY)
                reason = "its proxy's name cannot be resolved";
        if (strstr(reason, "proxy scheme")) /* the text may quote a password */
                reason = "the scheme of its proxy is not supported";

        if (code == CURLE_OPERATION_TIMEDOUT)
                (void) error_set(ret, ERROR_TIMEOUT, "cannot connect to %s: no answer for %d s",
                                 server, HTTP_CONNECT_SECONDS);
        else
                (void) error_set(ret, ERROR_UNAVAILABLE, "cannot connect to %s: %s", server,
                                 reason);
}

/* Fills *ret, which must be unset. text is what curl says about it, os_errno what the kernel
 * said, or 0. Never names anything that is secret. */
static void http_error_describe(CURLcode code, const char *server, const char *text, int os_errno,
                                Error *ret) {

        const char *reason = strip(text);

        switch (code) {
        case CURLE_COULDNT_CONNECT:
                if (os_errno > 0)
                        reason = strerror(os_errno);
                describe_connect(code, server, reason, ret);
                return;
        case CURLE_COULDNT_RESOLVE_HOST:
        case CURLE_COULDNT_RESOLVE_PROXY:
        case CURLE_OPERATION_TIMEDOUT: describe_connect(code, server, reason, ret); return;
        case CURLE_PEER_FAILED_VERIFICATION:
        case CURLE_SSL_CACERT_BADFILE:
        case CURLE_SSL_CERTPROBLEM:
        case CURLE_SSL_CONNECT_ERROR: describe_tls(code, server, reason, ret); return;
        case CURLE_OUT_OF_MEMORY: /* curl's name for a header of more than 100 KiB, too */
                reason = "a header is too long, or there is no memory";
                break;
        case CURLE_HTTP2:
        case CURLE_HTTP2_STREAM: /* the text has a number that changes each time */
                reason = "HTTP/2 failed";
                break;
        default: break;
        }

        (void) error_set(ret, ERROR_UNAVAILABLE, "the connection to %s was cut: %s", server,
                         reason);
}

/* OpenSSL reads "HTTP/1.1 400 Bad Request" as one of these faults. */
static bool http_error_is_plain(CURLcode code, const char *text) {
        return code == CURLE_SSL_CONNECT_ERROR &&
               (strstr(text, "wrong version number") || strstr(text, "packet length too long"));
}

typedef struct Address {
        const HttpLibrary *curl;
        CURLU *url;
} Address;

static void address_done(Address *address) {
        if (address->url)
                address->curl->url_cleanup(address->url);
}

static bool address_set(const Address *address, CURLUPart part, const char *text) {
        return address->curl->url_set(address->url, part, text, 0) == CURLUE_OK;
}

static bool address_get(const Address *address, CURLUPart part, unsigned flags, char **ret) {
        char *text;

        if (address->curl->url_get(address->url, part, &text, flags) != CURLUE_OK)
                return false;

        *ret = strdup(text);
        address->curl->free(text);
        return *ret;
}

/* Copies the host, an IPv6 address without its brackets. */
static int copy_name(const char *host, char **ret) {
        size_t size = strlen(host);

        *ret = size > 2 && host[0] == '[' ? strndup(host + 1, size - 2) : strdup(host);
        return *ret ? 0 : -ENOMEM;
}

/* Copies the URL without the slash that curl puts behind a host. */
static int copy_url(const Address *address, char **ret) {
        cleanup(free_p) char *text = NULL;
        size_t size;

        if (!address_get(address, CURLUPART_URL, 0, &text))
                return -ENOMEM;

        size = strlen(text);
        while (size > 0 && text[size - 1] == '/')
                size--;

        *ret = strndup(text, size);
        return *ret ? 0 : -ENOMEM;
}

/* Removes user and password from the address, because messages show it. */
static bool parse(const Address *address, const char *server, bool *ret_is_plain) {
        cleanup(free_p) char *scheme = NULL;
        bool is_parsed;

        is_parsed = address_set(address, CURLUPART_URL, server) &&
                    address_get(address, CURLUPART_SCHEME, 0, &scheme) &&
                    (strcmp(scheme, "https") == 0 || strcmp(scheme, "http") == 0) &&
                    address_set(address, CURLUPART_USER, NULL) &&
                    address_set(address, CURLUPART_PASSWORD, NULL) &&
                    address_set(address, CURLUPART_QUERY, NULL) &&
                    address_set(address, CURLUPART_FRAGMENT, NULL);
        *ret_is_plain = is_parsed && strcmp(scheme, "http") == 0;
        return is_parsed;
}

static int rename_host(const Address *address, const char *host, const char *name,
                       HttpTarget *target) {
        if (text_format(&target->connect_to, "::%s:%s", host, target->port) < 0 ||
            text_format(&target->host, "Host: %s:%s", host, target->port) < 0)
                return -ENOMEM;

        return address_set(address, CURLUPART_HOST, name) ? 0 : -EINVAL;
}

static void http_target_done(HttpTarget *target) {
        free(target->server);
        free(target->base);
        free(target->connect_to);
        free(target->host);
        free(target->name);
        free(target->port);
        *target = (HttpTarget){ .server = NULL };
}

static int http_target_read(const HttpLibrary *curl, const char *server,
                            const char *tls_server_name, HttpTarget *ret, Error *reterr) {

        cleanup(http_target_done) HttpTarget target = { .server = NULL };
        cleanup(address_done) Address address = { .curl = curl, .url = curl->url() };
        cleanup(free_p) char *host = NULL;
        int r;

        if (!address.url)
                return -ENOMEM;

        if (!parse(&address, server, &target.is_plain) ||
            !address_get(&address, CURLUPART_HOST, 0, &host))
                return error_set(reterr, ERROR_INVALID,
                                 "the server's address is not one such as https://10.0.0.1:6443");

        if (!address_get(&address, CURLUPART_PORT, CURLU_DEFAULT_PORT, &target.port))
                return -ENOMEM;

        r = copy_name(host, &target.name);
        if (r < 0)
                return r;

        r = copy_url(&address, &target.server);
        if (r < 0)
                return r;

        if (tls_server_name) {
                r = rename_host(&address, host, tls_server_name, &target);
                if (r == -EINVAL)
                        return error_set(reterr, ERROR_INVALID, "tls-server-name is not a name");
                if (r < 0)
                        return r;
        }

        r = copy_url(&address, &target.base);
        if (r < 0)
                return r;

        *ret = target;
        target = (HttpTarget){ .server = NULL };
        return 0;
}

static int on_socket_made(void *userdata, curl_socket_t fd, curlsocktype purpose) {
        static const struct {
                int level;
                int name;
                int value;
        } options[] = {
                { SOL_SOCKET, SO_KEEPALIVE, 1 },
                { IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_SECONDS },
                { IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_SECONDS },
                { IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES },
                { IPPROTO_TCP, TCP_USER_TIMEOUT, UNACKNOWLEDGED_MSEC },
        };

        /* An older kernel may lack some of these options; the connection works without. */
        for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
                (void) setsockopt(fd, options[i].level, options[i].name, &options[i].value,
                                  sizeof(options[i].value));

        return CURL_SOCKOPT_OK;
}

static bool add_header(HttpTransfer *transfer, const char *header) {
        struct curl_slist *headers = transfer->peer->curl.slist_append(transfer->headers, header);

        if (headers)
                transfer->headers = headers;
        return headers;
}

static bool add_header_value(HttpTransfer *transfer, const char *format, const char *value) {
        char *header;
        bool is_added;

        if (!value)
                return true;

        if (text_format(&header, format, value) < 0)
                return false;

        is_added = add_header(transfer, header);
        text_wipe(&header);
        return is_added;
}

static bool add_headers(HttpTransfer *transfer, char *const *headers) {
        for (; headers && *headers; headers++)
                if (!add_header(transfer, *headers))
                        return false;

        return true;
}

/* "Expect:" without a value keeps curl from asking first whether a body is welcome. */
static bool set_up_headers(HttpTransfer *transfer, const HttpRequest *request) {
        const HttpTarget *target = &transfer->peer->target;

        return add_header_value(transfer, "Accept: %s", request->accept) &&
               add_header_value(transfer, "Content-Type: %s", request->content_type) &&
               add_header_value(transfer, "Authorization: Bearer %s", request->token) &&
               add_header_value(transfer, "%s", target->host) && add_header(transfer, "Expect:") &&
               add_headers(transfer, transfer->peer->impersonation) &&
               add_headers(transfer, (char *const *) request->headers) &&
               http_set(transfer, CURLOPT_HTTPHEADER, transfer->headers);
}

/* curl then connects to this address. */
static curl_socket_t on_socket_needed(void *userdata, curlsocktype purpose,
                                      struct curl_sockaddr *address) {
        const HttpTransfer *transfer = userdata;

        memcpy(&address->addr, &transfer->through, transfer->through_size);
        address->addrlen = transfer->through_size;
        address->family = transfer->through.sa_family;
        return socket(address->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static bool set_up_through(HttpTransfer *transfer, const HttpRequest *request) {
        assert(request->through_size <= sizeof(transfer->through));
        memcpy(&transfer->through, request->through, request->through_size);
        transfer->through_size = request->through_size;
        return http_set(transfer, CURLOPT_OPENSOCKETFUNCTION, on_socket_needed) &&
               http_set(transfer, CURLOPT_OPENSOCKETDATA, (void *) transfer);
}

/* libcurl 7.88 sends the request without its query if it has no memory for that: a rehearsal ("dryRun=All") would be a write,
 * and a list would have all objects instead of those that a selector names. So it gets path and query in one. A proxy for
 * plain HTTP needs the whole URL there. The handle may have served another request before. */
static bool set_up_path(HttpTransfer *transfer, const char *url) {
        const char *host = strstr(url, "://");
        const char *path = host ? strchr(host + strlen("://"), '/') : NULL;
        const char *proxy = transfer->peer->proxy;
        bool is_forwarded = strncmp(url, "http://", strlen("http://")) == 0 && proxy &&
                            strncasecmp(proxy, "socks", strlen("socks")) != 0;

        return http_set(transfer, CURLOPT_REQUEST_TARGET, is_forwarded ? NULL : path);
}

static bool set_up_request(HttpTransfer *transfer, const HttpRequest *request) {
        char *url;
        bool is_set;

        if (text_format(&url, "%s%s", transfer->server ?: transfer->peer->target.base,
                        request->path) < 0)
                return false;

        is_set = http_set(transfer, CURLOPT_URL, url) && set_up_path(transfer, url);
        free(url);

        transfer->has_body = request->body || strcmp(request->method, "POST") == 0;
        if (is_set && transfer->has_body)
                is_set = http_set(transfer, CURLOPT_POSTFIELDSIZE,
                                  request->body_size > 0 ? (long) request->body_size : -1L) &&
                         http_set(transfer, CURLOPT_COPYPOSTFIELDS, request->body ?: "");
        if (is_set && request->socket_path)
                is_set = http_set(transfer, CURLOPT_UNIX_SOCKET_PATH, request->socket_path);
        if (is_set && request->is_http2)
                is_set = http_set(transfer, CURLOPT_HTTP_VERSION,
                                  (long) CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE);
        if (is_set && request->through)
                is_set = set_up_through(transfer, request);

        return is_set && http_set(transfer, CURLOPT_CUSTOMREQUEST, request->method) &&
               http_set(transfer, CURLOPT_ERRORBUFFER, transfer->trouble) &&
               http_set(transfer, CURLOPT_HEADERDATA, transfer) &&
               http_set(transfer, CURLOPT_WRITEDATA, transfer) &&
               http_set(transfer, CURLOPT_PRIVATE, (void *) transfer);
}

static bool set_up_protocol(HttpTransfer *transfer) {
        return http_set(transfer, CURLOPT_PATH_AS_IS, 1L) &&
               http_set(transfer, CURLOPT_PROTOCOLS_STR, "http,https") &&
               http_set(transfer, CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_2TLS) &&
               http_set(transfer, CURLOPT_USERAGENT, "inplaced/" INPLACED_VERSION);
}

/* A shared connection has to notice that its peer is gone. A peer for any server shares nothing: a
 * probe asks whether a server still accepts connections, as the kubelet's do. */
static bool set_up_sharing(HttpTransfer *transfer) {
        if (!transfer->peer->is_for_any)
                return http_set(transfer, CURLOPT_SOCKOPTFUNCTION, on_socket_made);

        return http_set(transfer, CURLOPT_FRESH_CONNECT, 1L) &&
               http_set(transfer, CURLOPT_FORBID_REUSE, 1L) &&
               http_set(transfer, CURLOPT_DNS_CACHE_TIMEOUT, 0L) &&
               http_set(transfer, CURLOPT_SSL_SESSIONID_CACHE, 0L);
}

/* A transfer that begins while there is no connection yet waits for it rather than to make another one,
 * since the handshake of TLS shows whether it can be shared. Without TLS only the first answer does, and
 * that may be long in coming. Ending a transfer does not wait until the thread in which curl resolves a
 * name has given up. */
static bool set_up_connection(HttpTransfer *transfer) {
        long waits = !transfer->server && !transfer->peer->target.is_plain;

        if (!set_up_sharing(transfer))
                return false;

        return http_set(transfer, CURLOPT_NOSIGNAL, 1L) &&
               http_set(transfer, CURLOPT_QUICK_EXIT, 1L) &&
               http_set(transfer, CURLOPT_PIPEWAIT, waits) &&
               http_set(transfer, CURLOPT_CONNECTTIMEOUT, (long) HTTP_CONNECT_SECONDS) &&
               http_set(transfer, CURLOPT_BUFFERSIZE, BUFFER_SIZE) &&
               http_set(transfer, CURLOPT_UPLOAD_BUFFERSIZE, BUFFER_SIZE);
}

static bool set_pem(HttpTransfer *transfer, CURLoption option, char *pem) {
        struct curl_blob blob = { .data = pem, .len = strlen(pem), .flags = CURL_BLOB_NOCOPY };

        return transfer->peer->curl.easy_setopt(transfer->easy, option, &blob) == CURLE_OK;
}

/* Given an authority, we trust no other one: without an empty CAPATH curl would ask the system's
 * folder, too. An empty password keeps OpenSSL from asking the terminal for one. */
static bool set_up_tls(HttpTransfer *transfer) {
        const HttpPeer *peer = transfer->peer;

        if (!http_set(transfer, CURLOPT_SSLVERSION, (long) CURL_SSLVERSION_TLSv1_2) ||
            !http_set(transfer, CURLOPT_KEYPASSWD, ""))
                return false;

        if (peer->ca && (!set_pem(transfer, CURLOPT_CAINFO_BLOB, peer->ca) ||
                         !http_set(transfer, CURLOPT_CAPATH, NULL)))
                return false;

        if (peer->is_unverified && (!http_set(transfer, CURLOPT_SSL_VERIFYPEER, 0L) ||
                                    !http_set(transfer, CURLOPT_SSL_VERIFYHOST, 0L)))
                return false;

        return (!peer->certificate || set_pem(transfer, CURLOPT_SSLCERT_BLOB, peer->certificate)) &&
               (!peer->key || set_pem(transfer, CURLOPT_SSLKEY_BLOB, peer->key));
}

/* Overrides curl's own reading of the environment: choose_proxy() has decided already. */
static bool set_up_proxy(HttpTransfer *transfer) {
        return http_set(transfer, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L) &&
               http_set(transfer, CURLOPT_PROXY, transfer->peer->proxy ?: "") &&
               http_set(transfer, CURLOPT_NOPROXY, "");
}

static bool set_up_user(HttpTransfer *transfer, const HttpRequest *request) {
        const HttpPeer *peer = transfer->peer;

        if (!peer->username || request->token)
                return true;

        return http_set(transfer, CURLOPT_HTTPAUTH, CURLAUTH_BASIC) &&
               http_set(transfer, CURLOPT_USERNAME, peer->username) &&
               http_set(transfer, CURLOPT_PASSWORD, peer->password ?: "");
}

static bool set_up_target(HttpTransfer *transfer) {
        const HttpTarget *target = &transfer->peer->target;

        if (!target->connect_to)
                return true;

        transfer->connect_to = transfer->peer->curl.slist_append(NULL, target->connect_to);
        return transfer->connect_to && http_set(transfer, CURLOPT_CONNECT_TO, transfer->connect_to);
}

static HttpPeer *http_peer_free(HttpPeer *peer) {
        if (!peer)
                return NULL;

        while (peer->n_idle > 0)
                peer->curl.easy_cleanup(peer->idle[--peer->n_idle]);
        if (peer->multi)
                (void) peer->curl.multi_cleanup(peer->multi);
        sd_event_source_disable_unref(peer->source);
        close_p(&peer->sockets);
        timer_done(&peer->timer);
        deferred_done(&peer->due);
        sd_event_unref(peer->event);
        http_target_done(&peer->target);
        free(peer->ca);
        free(peer->certificate);
        text_wipe(&peer->key);
        free(peer->username);
        text_wipe(&peer->password);
        text_wipe(&peer->proxy);
        texts_free(peer->impersonation);
        if (peer->is_initialised)
                peer->curl.global_cleanup();
        free(peer);
        return NULL;
}

HttpPeer *http_peer_unref(HttpPeer *peer) {
        return peer && --peer->n_refs == 0 ? http_peer_free(peer) : NULL;
}

DEFINE_CLEANUP(HttpPeer *, http_peer_unref)

DEFINE_CLEANUP(HttpTransfer *, http_transfer_free)

/* Takes the transfer away from curl. */
static void http_transfer_stop(HttpTransfer *transfer) {
        if (!transfer->is_running)
                return;

        transfer->is_running = false;
        list_remove(&transfer->peer->transfers, transfer);
        (void) transfer->peer->curl.multi_remove_handle(transfer->peer->multi, transfer->easy);
}

/* Keeps the handle for the next request, which sets the same options. A request with a body may
 * also have used another socket, so its handle is not kept. */
static void http_transfer_let_go(HttpTransfer *transfer) {
        HttpPeer *peer = transfer->peer;

        if (transfer->is_set_up && !transfer->has_body && peer->is_for_any &&
            peer->n_idle < IDLE_MAX && http_set(transfer, CURLOPT_ERRORBUFFER, NULL) &&
            http_set(transfer, CURLOPT_HTTPHEADER, NULL))
                peer->idle[peer->n_idle++] = transfer->easy;
        else
                peer->curl.easy_cleanup(transfer->easy);
}

static void http_transfer_destroy(HttpTransfer *transfer) {
        const HttpLibrary *curl = &transfer->peer->curl;

        http_transfer_stop(transfer);
        http_transfer_let_go(transfer);

        for (struct curl_slist *header = transfer->headers; header; header = header->next)
                explicit_bzero(header->data, strlen(header->data));
        curl->slist_free_all(transfer->headers);
        curl->slist_free_all(transfer->connect_to);
        free(transfer->server);
        http_peer_unref(transfer->peer);
        free(transfer);
}

HttpTransfer *http_transfer_free(HttpTransfer *transfer) {
        if (!transfer)
                return NULL;

        if (transfer->is_running && transfer->peer->is_inside)
                transfer->is_freed = transfer->peer->has_freed = true;
        else
                http_transfer_destroy(transfer);
        return NULL;
}

/* Destroys transfers that were freed from inside curl. */
static void http_peer_reap(HttpPeer *peer) {
        HttpTransfer *next;

        if (!peer->has_freed)
                return;

        peer->has_freed = false;
        for (HttpTransfer *transfer = peer->transfers; transfer; transfer = next) {
                next = transfer->next;
                if (transfer->is_freed)
                        http_transfer_destroy(transfer);
        }
}

/* curl itself would accept ten times as much, and keep it. */
static bool http_transfer_has_large_head(const HttpTransfer *transfer) {
        return transfer->peer->is_for_any && transfer->head_cost > HTTP_HEAD_MAX;
}

static void http_transfer_describe(HttpTransfer *transfer, CURLcode code, Error *ret) {
        const HttpLibrary *curl = &transfer->peer->curl;
        const char *text = transfer->trouble[0] ? transfer->trouble : curl->easy_strerror(code);
        const char *server = transfer->server ?: transfer->peer->target.server;
        long os_errno = 0;

        (void) curl->easy_getinfo(transfer->easy, CURLINFO_OS_ERRNO, &os_errno);
        if (transfer->is_cut)
                (void) error_set(ret, ERROR_CANCELED, "the rest of it is not needed");
        else if (http_transfer_has_large_head(transfer))
                (void) error_set(ret, ERROR_INVALID, "%s sends more headers than %zu KiB", server,
                                 HTTP_HEAD_MAX / 1024);
        else if (code != CURLE_OK)
                http_error_describe(code, server, text, (int) os_errno, ret);
}

/* A server may send any number. */
static uint64_t to_usec(curl_off_t seconds) {
        if (seconds <= 0)
                return 0;

        return (uint64_t) (seconds < RETRY_AFTER_MAX_SECONDS ? seconds : RETRY_AFTER_MAX_SECONDS) *
               1000000;
}

static int http_transfer_end(HttpTransfer *transfer, CURLcode code) {
        cleanup(error_done) Error error = ERROR_INIT;
        const HttpLibrary *curl = &transfer->peer->curl;
        bool is_plain = http_error_is_plain(code, transfer->trouble);
        curl_off_t retry_after = 0;
        char *redirect = NULL;
        long status = 0;
        HttpEnd end;

        http_transfer_describe(transfer, code, &error);
        (void) curl->easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
        (void) curl->easy_getinfo(transfer->easy, CURLINFO_RETRY_AFTER, &retry_after);
        (void) curl->easy_getinfo(transfer->easy, CURLINFO_REDIRECT_URL, &redirect);
        http_transfer_stop(transfer);

        end = (HttpEnd){
                .code = (int) status,
                .retry_after_usec = to_usec(retry_after),
                .error = error.kind != ERROR_NONE ? &error : NULL,
                .is_plain = is_plain,
                .redirect = redirect,
        };
        return transfer->on_end(&end, transfer->userdata);
}

/* Reaps freed transfers and reports ended ones, after curl has run. */
static int http_peer_settle(HttpPeer *peer) {
        CURLMsg *message;
        int n, r;

        http_peer_reap(peer);
        while ((message = peer->curl.multi_info_read(peer->multi, &n))) {
                CURLcode code = message->data.result;
                char *userdata;

                if (message->msg != CURLMSG_DONE)
                        continue;

                (void) peer->curl.easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &userdata);
                r = http_transfer_end((HttpTransfer *) (void *) userdata, code);
                if (r < 0)
                        return r;
        }

        return 0;
}

/* The line ends with a line break, not with a NUL. A line that is too long is ignored. */
static void note_date(HttpTransfer *transfer, const char *line, size_t n) {
        static const char name[] = "Date:";
        size_t i = strlen(name);

        if (n < i || strncasecmp(line, name, i) != 0)
                return;

        while (i < n && line[i] == ' ')
                i++;
        if (n - i < sizeof(transfer->date)) {
                memcpy(transfer->date, line + i, n - i);
                transfer->date[n - i] = '\0';
        }
}

static size_t on_header(char *line, size_t size, size_t n, void *userdata) {
        HttpTransfer *transfer = userdata;
        long code = 0;

        if (transfer->is_freed)
                return 0;

        transfer->head_cost += n + HTTP_HEADER_COST;
        if (http_transfer_has_large_head(transfer))
                return 0;

        if (!transfer->has_head)
                note_date(transfer, line, n);
        if (transfer->on_header)
                transfer->is_cut = transfer->on_header(line, n, transfer->userdata) < 0;
        if (transfer->is_freed || transfer->is_cut)
                return 0;
        if (transfer->has_head || n != 2 || memcmp(line, "\r\n", 2) != 0)
                return n;

        /* An empty line ends a head. A head of 1xx is followed by another one. */
        (void) transfer->peer->curl.easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &code);
        transfer->has_head = code >= 200;
        if (transfer->has_head)
                transfer->is_cut = transfer->on_head((int) code, transfer->userdata) < 0;
        return transfer->is_freed || transfer->is_cut ? 0 : n;
}

static size_t on_body(char *data, size_t size, size_t n, void *userdata) {
        HttpTransfer *transfer = userdata;

        if (transfer->is_freed || transfer->is_cut)
                return 0;

        transfer->is_cut = transfer->on_data(data, n, transfer->userdata) < 0;
        return transfer->is_freed || transfer->is_cut ? 0 : n;
}

static bool set_up_callbacks(HttpTransfer *transfer) {
        return http_set(transfer, CURLOPT_HEADERFUNCTION, on_header) &&
               http_set(transfer, CURLOPT_WRITEFUNCTION, on_body);
}

/* Sets up a handle; options that all requests of the peer share are set once per handle. */
static int http_transfer_set_up(HttpTransfer *transfer, const HttpRequest *request, Error *reterr) {
        HttpPeer *peer = transfer->peer;

        transfer->is_set_up = peer->n_idle > 0;
        transfer->easy = transfer->is_set_up ? peer->idle[--peer->n_idle] : peer->curl.easy_init();
        if (!transfer->easy)
                return -ENOMEM;

        if (!transfer->is_set_up)
                transfer->is_set_up = set_up_protocol(transfer) && set_up_connection(transfer) &&
                                      set_up_target(transfer) && set_up_tls(transfer) &&
                                      set_up_proxy(transfer) && set_up_callbacks(transfer);

        if (transfer->is_set_up && set_up_request(transfer, request) &&
            set_up_headers(transfer, request) && set_up_user(transfer, request))
                return 0;
        if (transfer->set_result == CURLE_OK || transfer->set_result == CURLE_OUT_OF_MEMORY)
                return -ENOMEM;

        /* A libcurl may be built without some feature of the request. */
        return error_set(reterr, ERROR_UNSUPPORTED, "this libcurl cannot send the request: %s",
                         peer->curl.easy_strerror(transfer->set_result));
}

/* Calls curl again at once if it asks for that, as after most reads, but only a few times: the loop
 * has others to serve. Curl that had no memory is not called again: what it knows of a socket is in
 * disorder then, and libcurl 7.88 divides by zero. */
static int http_peer_act(HttpPeer *peer, curl_socket_t fd, int what) {
        CURLMcode code;
        int n;

        peer->is_due = false;
        peer->is_inside = true;
        code = peer->curl.multi_socket_action(peer->multi, fd, what, &n);
        for (unsigned i = 0; code == CURLM_OK && peer->is_due && i < ACTIONS_MAX; i++) {
                peer->is_due = false;
                code = peer->curl.multi_socket_action(peer->multi, CURL_SOCKET_TIMEOUT, 0, &n);
        }
        peer->is_inside = false;
        if (code != CURLM_OK)
                return -ENOMEM;

        return peer->is_due ? deferred_request(&peer->due) : 0;
}

static int http_peer_run(HttpPeer *peer, curl_socket_t fd, int what) {
        int r;

        peer->n_refs++;
        r = http_peer_act(peer, fd, what);
        if (r >= 0)
                r = http_peer_settle(peer);
        http_peer_unref(peer);
        return r;
}

/* gcc's analyzer does not count references: this function holds one while it runs. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wanalyzer-use-after-free"
/* A callback may close another ready socket, and a new socket may get its number. */
static int on_sockets_ready(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        HttpPeer *peer = userdata;
        int r = 0;

        peer->n_refs++;
        peer->n_ready = epoll_wait(fd, peer->ready, READY_MAX, 0);
        for (int i = 0; i < peer->n_ready && r >= 0; i++) {
                uint32_t what = peer->ready[i].events;

                if (peer->ready[i].data.fd >= 0)
                        r = http_peer_run(peer, peer->ready[i].data.fd,
                                          (what & (EPOLLIN | EPOLLHUP) ? CURL_CSELECT_IN : 0) |
                                                  (what & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                                                  (what & EPOLLERR ? CURL_CSELECT_ERR : 0));
        }
        peer->n_ready = 0;
        http_peer_unref(peer);
        return r;
}
#pragma GCC diagnostic pop

static int on_time(void *userdata) {
        return http_peer_run(userdata, CURL_SOCKET_TIMEOUT, 0);
}

static int forget_socket(HttpPeer *peer, int fd) {
        for (int i = 0; i < peer->n_ready; i++)
                if (peer->ready[i].data.fd == fd)
                        peer->ready[i].data.fd = -1;

        (void) epoll_ctl(peer->sockets, EPOLL_CTL_DEL, fd, NULL);
        return 0;
}

/* known: not NULL if the socket was registered before. */
static int on_socket_wanted(CURL *easy, curl_socket_t fd, int what, void *userdata, void *known) {
        HttpPeer *peer = userdata;
        struct epoll_event event = {
                .events = (what & CURL_POLL_IN ? EPOLLIN : 0u) |
                          (what & CURL_POLL_OUT ? EPOLLOUT : 0u),
                .data.fd = fd,
        };

        if (what == CURL_POLL_REMOVE)
                return forget_socket(peer, fd);
        if (epoll_ctl(peer->sockets, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) < 0)
                return -1;

        return known || peer->curl.multi_assign(peer->multi, fd, peer) == CURLM_OK ? 0 : -1;
}

static int on_timer_wanted(CURLM *multi, long timeout_msec, void *userdata) {
        HttpPeer *peer = userdata;

        peer->is_due = timeout_msec == 0;
        if (peer->is_due)
                return peer->is_inside || deferred_request(&peer->due) >= 0 ? 0 : -1;
        if (timeout_msec < 0) {
                timer_stop(&peer->timer);
                return 0;
        }

        return timer_start(&peer->timer, (uint64_t) timeout_msec * 1000) < 0 ? -1 : 0;
}

/* Makes the loop drive curl. */
static bool http_run_set_up(HttpPeer *peer) {
        CURLMcode (*set)(CURLM * multi, CURLMoption option, ...) = peer->curl.multi_setopt;
        CURLM *multi = peer->multi;
        long n_max = peer->is_for_any ? 0 /* no limit */ : CONNECTIONS_MAX;

        return set(multi, CURLMOPT_PIPELINING, CURLPIPE_MULTIPLEX) == CURLM_OK &&
               set(multi, CURLMOPT_MAX_HOST_CONNECTIONS, n_max) == CURLM_OK &&
               set(multi, CURLMOPT_MAXCONNECTS, CONNECTIONS_MAX) == CURLM_OK &&
               set(multi, CURLMOPT_SOCKETFUNCTION, on_socket_wanted) == CURLM_OK &&
               set(multi, CURLMOPT_SOCKETDATA, peer) == CURLM_OK &&
               set(multi, CURLMOPT_TIMERFUNCTION, on_timer_wanted) == CURLM_OK &&
               set(multi, CURLMOPT_TIMERDATA, peer) == CURLM_OK;
}

/* Returns the value of the first of the two variables that has one. */
static const char *get_variable(const char *name, const char *small) {
        const char *value = getenv(name);

        return value && value[0] ? value : getenv(small);
}

/* A configured proxy is for every server, whatever the environment excepts; else the environment
 * decides. client-go does the same. */
static const char *choose_proxy(const HttpTarget *target, const KubeCredentials *credentials) {
        const ProxyEnvironment environment = {
                .https = get_variable("HTTPS_PROXY", "https_proxy"),
                .http = get_variable("HTTP_PROXY", "http_proxy"),
                .none = get_variable("NO_PROXY", "no_proxy"),
        };

        return credentials->proxy
                       ?: proxy_spec_choose(&environment, target->is_plain, target->name,
                                            target->port);
}

static int http_peer_copy_credentials(HttpPeer *peer, const KubeCredentials *credentials) {
        bool is_copied;

        peer->is_unverified = credentials->is_unverified;
        is_copied =
                text_copy(credentials->ca, &peer->ca) == 0 &&
                text_copy(credentials->certificate, &peer->certificate) == 0 &&
                text_copy(credentials->key, &peer->key) == 0 &&
                text_copy(credentials->username, &peer->username) == 0 &&
                text_copy(credentials->password, &peer->password) == 0 &&
                texts_copy(credentials->impersonation, &peer->impersonation) == 0 &&
                proxy_spec_for_curl(choose_proxy(&peer->target, credentials), &peer->proxy) == 0;

        return is_copied ? 0 : -ENOMEM;
}

/* A lack of descriptors passes: it ends the request, not the agent. */
static int http_peer_add_sockets(HttpPeer *peer, Error *reterr) {
        int r;

        peer->sockets = epoll_create1(EPOLL_CLOEXEC);
        if (peer->sockets < 0 && (errno == EMFILE || errno == ENFILE))
                return error_set(reterr, ERROR_UNAVAILABLE, "no file descriptor is free");
        if (peer->sockets < 0)
                return -errno;

        r = loop_add_io(peer->event, &peer->source, peer->sockets, EPOLLIN, on_sockets_ready, peer);
        if (r >= 0)
                (void) sd_event_source_set_description(peer->source, "http-sockets");
        return r;
}

/* Initializes curl once per peer: curl counts the calls, under its own lock. */
static int http_peer_start_library(HttpPeer *peer, Error *reterr) {
        const HttpLibrary *curl = &peer->curl;
        int r;

        r = http_peer_add_sockets(peer, reterr);
        if (r < 0)
                return r;

        peer->is_initialised = curl->global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
        peer->multi = peer->is_initialised ? curl->multi_init() : NULL;
        return peer->multi && http_run_set_up(peer) ? 0 : -ENOMEM;
}

int http_load(Error *reterr) {
        HttpLibrary ignored;

        return http_library_load(HTTP_LIBRARY_NAME, &ignored, reterr);
}

static int http_peer_make(sd_event *event, HttpPeer **ret) {
        HttpPeer *peer = malloc(sizeof(*peer));

        if (!peer)
                return -ENOMEM;

        *peer = (HttpPeer){ .n_refs = 1, .event = sd_event_ref(event), .sockets = -1 };
        timer_init(&peer->timer, event, /* accuracy_usec= */ 1, on_time, peer);
        deferred_init(&peer->due, event, on_time, peer);
        *ret = peer;
        return 0;
}

int http_peer_new(sd_event *event, const KubeCredentials *credentials, HttpPeer **ret,
                  Error *reterr) {

        cleanup(http_peer_unref_p) HttpPeer *peer = NULL;
        int r;

        r = http_peer_make(event, &peer)
                    ?: http_library_load(HTTP_LIBRARY_NAME, &peer->curl, reterr)
                    ?: http_target_read(&peer->curl, credentials->server,
                                        credentials->tls_server_name, &peer->target, reterr)
                    ?: http_peer_copy_credentials(peer, credentials)
                    ?: http_peer_start_library(peer, reterr);
        if (r < 0)
                return r;

        *ret = take_ptr(peer);
        return 0;
}

int http_peer_new_for_any(sd_event *event, HttpPeer **ret) {
        HttpPeer *peer;
        int r;

        r = http_peer_make(event, &peer);
        if (r < 0)
                return r;

        peer->is_for_any = true;
        peer->is_unverified = true;
        *ret = peer;
        return 0;
}

int http_send(HttpPeer *peer, const HttpRequest *request, HttpTransfer **ret, Error *reterr) {
        cleanup(http_transfer_free_p) HttpTransfer *transfer = NULL;
        int r;

        if (!peer->multi) {
                r = http_library_load(HTTP_LIBRARY_NAME, &peer->curl, reterr);
                if (r >= 0)
                        r = http_peer_start_library(peer, reterr);
                if (r < 0)
                        return r;
        }

        transfer = malloc(sizeof(*transfer));
        if (!transfer)
                return -ENOMEM;

        peer->n_refs++;
        *transfer = (HttpTransfer){
                .peer = peer,
                .on_head = request->on_head,
                .on_header = request->on_header,
                .on_data = request->on_data,
                .on_end = request->on_end,
                .userdata = request->userdata,
        };
        r = text_copy(request->server, &transfer->server);
        if (r < 0)
                return r;

        r = http_transfer_set_up(transfer, request, reterr);
        if (r < 0)
                return r;

        if (peer->curl.multi_add_handle(peer->multi, transfer->easy) != CURLM_OK)
                return -ENOMEM;

        list_prepend(&peer->transfers, transfer);
        transfer->is_running = true;
        *ret = take_ptr(transfer);
        return 0;
}

const char *http_peer_server(const HttpPeer *peer) {
        return peer->target.server;
}

const char *http_transfer_date(const HttpTransfer *transfer) {
        return transfer->date;
}
