/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/http-error.h"

#include <string.h>

/* The part of curl's text that says something: what follows the last of OpenSSL's many colons, or
 * what follows curl's own introduction. */
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
        if (strstr(text, "host name") || strstr(text, "IP address"))
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
                (void) error_set(ret, ERROR_DENIED,
                                 "the certificate of %s cannot be trusted: there is nothing of use "
                                 "in certificate-authority or, where there is none, among those "
                                 "that this machine trusts (ca-certificates)",
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
        if (strstr(reason, "proxy scheme")) /* what follows may have a password in it */
                reason = "the scheme of its proxy is not supported";

        if (code == CURLE_OPERATION_TIMEDOUT)
                (void) error_set(ret, ERROR_TIMEOUT, "cannot connect to %s: no answer for %d s",
                                 server, HTTP_CONNECT_SECONDS);
        else
                (void) error_set(ret, ERROR_UNAVAILABLE, "cannot connect to %s: %s", server,
                                 reason);
}

void http_error_describe(CURLcode code, const char *server, const char *text, int os_errno,
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
        case CURLE_HTTP2_STREAM: /* the text has a number that is another one each time */
                reason = "HTTP/2 failed";
                break;
        default: break;
        }

        (void) error_set(ret, ERROR_UNAVAILABLE, "the connection to %s was cut: %s", server,
                         reason);
}

/* That is what OpenSSL makes of "HTTP/1.1 400 Bad Request". */
bool http_error_is_plain(CURLcode code, const char *text) {
        return code == CURLE_SSL_CONNECT_ERROR &&
               (strstr(text, "wrong version number") || strstr(text, "packet length too long"));
}
