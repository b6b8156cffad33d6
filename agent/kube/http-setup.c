/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "agent/base/cleanup.h"
#include "agent/kube/http-error.h"
#include "agent/kube/http-internal.h"

#define BUFFER_SIZE 16384L /* one record of TLS; also the least that curl takes for uploads */

/* Together 30 s until a peer that is gone without a word is noticed. */
#define KEEPALIVE_IDLE_SECONDS 15
#define KEEPALIVE_INTERVAL_SECONDS 5
#define KEEPALIVE_PROBES 3
#define UNACKNOWLEDGED_MSEC 30000

void http_wipe(char *text) {
        if (text)
                explicit_bzero(text, strlen(text));
        free(text);
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

        /* A kernel that has not all of them still has a connection to offer. */
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

        if (asprintf(&header, format, value) < 0)
                return false;

        is_added = add_header(transfer, header);
        http_wipe(header);
        return is_added;
}

static bool add_headers(HttpTransfer *transfer, const char *const *headers) {
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
               add_headers(transfer, request->headers) &&
               http_set(transfer, CURLOPT_HTTPHEADER, transfer->headers);
}

static bool set_up_request(HttpTransfer *transfer, const HttpRequest *request) {
        char *url;
        bool is_set;

        if (asprintf(&url, "%s%s", transfer->peer->target.base, request->path) < 0)
                return false;

        is_set = http_set(transfer, CURLOPT_URL, url) &&
                 http_set(transfer, CURLOPT_PATH_AS_IS, 1L) &&
                 http_set(transfer, CURLOPT_PROTOCOLS_STR, "http,https") &&
                 http_set(transfer, CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_2TLS) &&
                 http_set(transfer, CURLOPT_USERAGENT, "inplaced/" INPLACED_VERSION);
        free(url);

        if (is_set && (request->body || strcmp(request->method, "POST") == 0))
                is_set = http_set(transfer, CURLOPT_COPYPOSTFIELDS, request->body ?: "");

        return is_set && http_set(transfer, CURLOPT_CUSTOMREQUEST, request->method);
}

/* Whoever comes while there is no connection yet waits for it rather than to make another one, since
 * the handshake of TLS is going to tell whether it can be shared. Without TLS only the first answer
 * tells, and that may be long in coming. Whoever ends a transfer does not wait until the thread in which
 * curl looks up a name has given up. */
static bool set_up_connection(HttpTransfer *transfer) {
        long waits = !transfer->peer->target.is_plain;

        return http_set(transfer, CURLOPT_NOSIGNAL, 1L) &&
               http_set(transfer, CURLOPT_QUICK_EXIT, 1L) &&
               http_set(transfer, CURLOPT_PIPEWAIT, waits) &&
               http_set(transfer, CURLOPT_CONNECTTIMEOUT, (long) HTTP_CONNECT_SECONDS) &&
               http_set(transfer, CURLOPT_BUFFERSIZE, BUFFER_SIZE) &&
               http_set(transfer, CURLOPT_UPLOAD_BUFFERSIZE, BUFFER_SIZE) &&
               http_set(transfer, CURLOPT_SOCKOPTFUNCTION, on_socket_made) &&
               http_set(transfer, CURLOPT_ERRORBUFFER, transfer->trouble);
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

/* What the environment says was decided already; curl would read it in another way. */
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

int http_set_up(HttpTransfer *transfer, const HttpRequest *request) {
        bool is_set;

        is_set = set_up_request(transfer, request) && set_up_headers(transfer, request) &&
                 set_up_connection(transfer) && set_up_target(transfer) && set_up_tls(transfer) &&
                 set_up_proxy(transfer) && set_up_user(transfer, request);

        return is_set ? 0 : -ENOMEM;
}
