/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/http-target.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"

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

/* Without the brackets of an address of IPv6. */
static int copy_name(const char *host, char **ret) {
        size_t size = strlen(host);

        *ret = size > 2 && host[0] == '[' ? strndup(host + 1, size - 2) : strdup(host);
        return *ret ? 0 : -ENOMEM;
}

/* Without the slash that curl puts behind a host. */
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

/* Who the user is belongs elsewhere than into the address, where a message would show it. */
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
        if (asprintf(&target->connect_to, "::%s:%s", host, target->port) < 0)
                target->connect_to = NULL;
        if (asprintf(&target->host, "Host: %s:%s", host, target->port) < 0)
                target->host = NULL;
        if (!target->connect_to || !target->host)
                return -ENOMEM;

        return address_set(address, CURLUPART_HOST, name) ? 0 : -EINVAL;
}

int http_target_read(const HttpLibrary *curl, const char *server, const char *tls_server_name,
                     HttpTarget *ret, Error *reterr) {

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

void http_target_done(HttpTarget *target) {
        free(target->server);
        free(target->base);
        free(target->connect_to);
        free(target->host);
        free(target->name);
        free(target->port);
        *target = (HttpTarget){ .server = NULL };
}
