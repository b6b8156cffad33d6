/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/http.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/base/cleanup.h"
#include "agent/kube/http-error.h"
#include "agent/kube/http-internal.h"
#include "agent/kube/proxy-spec.h"

#define RETRY_AFTER_MAX_SECONDS 86400

static HttpPeer *http_peer_free(HttpPeer *peer) {
        if (!peer)
                return NULL;

        if (peer->multi)
                (void) peer->curl.multi_cleanup(peer->multi);
        sd_event_source_disable_unref(peer->timer);
        sd_event_unref(peer->event);
        http_target_done(&peer->target);
        free(peer->ca);
        free(peer->certificate);
        http_wipe(peer->key);
        free(peer->username);
        http_wipe(peer->password);
        http_wipe(peer->proxy);
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

/* curl lets go of it. */
static void http_transfer_stop(HttpTransfer *transfer) {
        if (!transfer->is_running)
                return;

        transfer->is_running = false;
        list_remove(&transfer->peer->transfers, transfer);
        (void) transfer->peer->curl.multi_remove_handle(transfer->peer->multi, transfer->easy);
}

static void http_transfer_destroy(HttpTransfer *transfer) {
        const HttpLibrary *curl = &transfer->peer->curl;

        http_transfer_stop(transfer);
        curl->easy_cleanup(transfer->easy);

        for (struct curl_slist *header = transfer->headers; header; header = header->next)
                explicit_bzero(header->data, strlen(header->data));
        curl->slist_free_all(transfer->headers);
        curl->slist_free_all(transfer->connect_to);
        http_peer_unref(transfer->peer);
        free(transfer);
}

HttpTransfer *http_transfer_free(HttpTransfer *transfer) {
        if (!transfer)
                return NULL;

        if (transfer->is_running && transfer->peer->is_inside)
                transfer->is_freed = true; /* http_peer_bury() does the rest */
        else
                http_transfer_destroy(transfer);
        return NULL;
}

/* Those that were freed while curl could not be told. */
static void http_peer_bury(HttpPeer *peer) {
        HttpTransfer *next;

        for (HttpTransfer *transfer = peer->transfers; transfer; transfer = next) {
                next = transfer->next;
                if (transfer->is_freed)
                        http_transfer_destroy(transfer);
        }
}

static void http_transfer_describe(HttpTransfer *transfer, CURLcode code, Error *ret) {
        const HttpLibrary *curl = &transfer->peer->curl;
        const char *text = transfer->trouble[0] ? transfer->trouble : curl->easy_strerror(code);
        long os_errno = 0;

        (void) curl->easy_getinfo(transfer->easy, CURLINFO_OS_ERRNO, &os_errno);
        if (transfer->is_cut)
                (void) error_set(ret, ERROR_CANCELED, "we do not want more of it");
        else if (code != CURLE_OK)
                http_error_describe(code, transfer->peer->target.server, text, (int) os_errno, ret);
}

/* A server may say any number. */
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
        long status = 0;
        HttpEnd end;

        http_transfer_describe(transfer, code, &error);
        (void) curl->easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
        (void) curl->easy_getinfo(transfer->easy, CURLINFO_RETRY_AFTER, &retry_after);
        http_transfer_stop(transfer);

        end = (HttpEnd){
                .code = (int) status,
                .retry_after_usec = to_usec(retry_after),
                .error = error.kind != ERROR_NONE ? &error : NULL,
                .is_plain = is_plain,
        };
        return transfer->on_end(&end, transfer->userdata);
}

int http_peer_settle(HttpPeer *peer) {
        CURLMsg *message;
        int n, r;

        http_peer_bury(peer);
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

/* The line ends with a line break, not with a NUL. A longer one is no date. */
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

        if (!transfer->has_head)
                note_date(transfer, line, n);
        if (transfer->has_head || n != 2 || memcmp(line, "\r\n", 2) != 0)
                return n;

        /* The empty line ends a head. That of 1xx comes before another one. */
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

static int http_transfer_set_callbacks(HttpTransfer *transfer) {
        bool is_set;

        is_set = http_set(transfer, CURLOPT_HEADERFUNCTION, on_header) &&
                 http_set(transfer, CURLOPT_HEADERDATA, transfer) &&
                 http_set(transfer, CURLOPT_WRITEFUNCTION, on_body) &&
                 http_set(transfer, CURLOPT_WRITEDATA, transfer) &&
                 http_set(transfer, CURLOPT_PRIVATE, (void *) transfer);

        return is_set ? 0 : -ENOMEM;
}

int http_send(HttpPeer *peer, const HttpRequest *request, HttpTransfer **ret) {
        cleanup(http_transfer_free_p) HttpTransfer *transfer = NULL;
        int r;

        transfer = malloc(sizeof(*transfer));
        if (!transfer)
                return -ENOMEM;

        peer->n_refs++;
        *transfer = (HttpTransfer){
                .peer = peer,
                .easy = peer->curl.easy_init(),
                .on_head = request->on_head,
                .on_data = request->on_data,
                .on_end = request->on_end,
                .userdata = request->userdata,
        };
        if (!transfer->easy)
                return -ENOMEM;

        r = http_set_up(transfer, request);
        if (r < 0)
                return r;

        r = http_transfer_set_callbacks(transfer);
        if (r < 0)
                return r;

        if (peer->curl.multi_add_handle(peer->multi, transfer->easy) != CURLM_OK)
                return -ENOMEM;

        list_prepend(&peer->transfers, transfer);
        transfer->is_running = true;
        *ret = take_ptr(transfer);
        return 0;
}

static int copy(const char *text, char **ret) {
        *ret = text ? strdup(text) : NULL;
        return text && !*ret ? -ENOMEM : 0;
}

/* One of several variables that has a value. */
static const char *get_variable(const char *name, const char *small) {
        const char *value = getenv(name);

        return value && value[0] ? value : getenv(small);
}

/* A proxy that was given is for every server, whatever the environment excepts; without one the
 * environment decides. client-go does the same. */
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
        is_copied = copy(credentials->ca, &peer->ca) == 0 &&
                    copy(credentials->certificate, &peer->certificate) == 0 &&
                    copy(credentials->key, &peer->key) == 0 &&
                    copy(credentials->username, &peer->username) == 0 &&
                    copy(credentials->password, &peer->password) == 0 &&
                    copy(choose_proxy(&peer->target, credentials), &peer->proxy) == 0;

        return is_copied ? 0 : -ENOMEM;
}

/* curl counts how often it was initialised, and does that under a lock of its own. */
static int http_peer_start_library(HttpPeer *peer) {
        const HttpLibrary *curl = &peer->curl;

        peer->is_initialised = curl->global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
        peer->multi = peer->is_initialised ? curl->multi_init() : NULL;
        return peer->multi && http_run_set_up(peer) ? 0 : -ENOMEM;
}

int http_load(Error *reterr) {
        HttpLibrary ignored;

        return http_library_load(HTTP_LIBRARY_NAME, &ignored, reterr);
}

int http_peer_new(sd_event *event, const KubeCredentials *credentials, HttpPeer **ret,
                  Error *reterr) {

        cleanup(http_peer_unref_p) HttpPeer *peer = NULL;
        int r;

        peer = malloc(sizeof(*peer));
        if (!peer)
                return -ENOMEM;

        *peer = (HttpPeer){ .n_refs = 1, .event = sd_event_ref(event) };
        r = http_library_load(HTTP_LIBRARY_NAME, &peer->curl, reterr);
        if (r < 0)
                return r;

        r = http_target_read(&peer->curl, credentials->server, credentials->tls_server_name,
                             &peer->target, reterr);
        if (r < 0)
                return r;

        r = http_peer_copy_credentials(peer, credentials);
        if (r < 0)
                return r;

        r = http_run_add_timer(peer);
        if (r < 0)
                return r;

        r = http_peer_start_library(peer);
        if (r < 0)
                return r;

        *ret = take_ptr(peer);
        return 0;
}

const char *http_peer_server(const HttpPeer *peer) {
        return peer->target.server;
}

const char *http_transfer_date(const HttpTransfer *transfer) {
        return transfer->date;
}
