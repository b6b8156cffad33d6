/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/http-target.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"

static inline void url_free_p(CURLU **url) {
        curl_url_cleanup(*url);
}

static inline void curl_free_p(char **text) {
        curl_free(*text);
}

static bool is_loopback(const char *host) {
        return strcasecmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
               strcmp(host, "[::1]") == 0;
}

/* Without the slash that curl puts behind a host. */
static int copy_url(CURLU *url, char **ret) {
        cleanup(curl_free_p) char *text = NULL;
        size_t size;

        if (curl_url_get(url, CURLUPART_URL, &text, 0) != CURLUE_OK)
                return -ENOMEM;

        size = strlen(text);
        while (size > 0 && text[size - 1] == '/')
                size--;

        *ret = strndup(text, size);
        return *ret ? 0 : -ENOMEM;
}

/* Who the user is belongs elsewhere than into the address, where a message would show it. */
static bool parse(CURLU *url, const char *server, bool *ret_is_plain) {
        cleanup(curl_free_p) char *scheme = NULL;
        bool is_parsed;

        is_parsed = curl_url_set(url, CURLUPART_URL, server, 0) == CURLUE_OK &&
                    curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
                    (strcmp(scheme, "https") == 0 || strcmp(scheme, "http") == 0) &&
                    curl_url_set(url, CURLUPART_USER, NULL, 0) == CURLUE_OK &&
                    curl_url_set(url, CURLUPART_PASSWORD, NULL, 0) == CURLUE_OK &&
                    curl_url_set(url, CURLUPART_QUERY, NULL, 0) == CURLUE_OK &&
                    curl_url_set(url, CURLUPART_FRAGMENT, NULL, 0) == CURLUE_OK;
        *ret_is_plain = is_parsed && strcmp(scheme, "http") == 0;
        return is_parsed;
}

static int rename_host(CURLU *url, const char *host, const char *name, HttpTarget *target) {
        cleanup(curl_free_p) char *port = NULL;

        if (curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) != CURLUE_OK)
                return -ENOMEM;

        if (asprintf(&target->connect_to, "::%s:%s", host, port) < 0)
                target->connect_to = NULL;
        if (asprintf(&target->host, "Host: %s:%s", host, port) < 0)
                target->host = NULL;
        if (!target->connect_to || !target->host)
                return -ENOMEM;

        return curl_url_set(url, CURLUPART_HOST, name, 0) == CURLUE_OK ? 0 : -EINVAL;
}

int http_target_read(const char *server, const char *tls_server_name, HttpTarget *ret,
                     Error *reterr) {

        cleanup(http_target_done) HttpTarget target = { .server = NULL };
        cleanup(url_free_p) CURLU *url = curl_url();
        cleanup(curl_free_p) char *host = NULL;
        int r;

        if (!url)
                return -ENOMEM;

        if (!parse(url, server, &target.is_plain) ||
            curl_url_get(url, CURLUPART_HOST, &host, 0) != CURLUE_OK)
                return error_set(reterr, ERROR_INVALID,
                                 "the server's address is not one such as https://10.0.0.1:6443");

        target.is_loopback = is_loopback(host);
        r = copy_url(url, &target.server);
        if (r < 0)
                return r;

        if (tls_server_name) {
                r = rename_host(url, host, tls_server_name, &target);
                if (r == -EINVAL)
                        return error_set(reterr, ERROR_INVALID, "tls-server-name is not a name");
                if (r < 0)
                        return r;
        }

        r = copy_url(url, &target.base);
        if (r < 0)
                return r;

        *ret = target;
        target = (HttpTarget){ .server = NULL };
        return 0;
}

void http_target_done(HttpTarget *target) {
        free(target->server);
        free(target->base);
        free(target->connect_to);
        free(target->host);
        *target = (HttpTarget){ .server = NULL };
}
