/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which proxy the environment names for a server
 *
 * As Go's programs understand it, and so kubectl and the kubelet (golang.org/x/net/http/httpproxy):
 * HTTPS_PROXY or, for plain HTTP, HTTP_PROXY, and NO_PROXY, each in capitals or else in small letters;
 * there is no ALL_PROXY. NO_PROXY is a list of domains ("example.com" with all that is in it,
 * ".example.com" and "*.example.com" only what is in it), addresses and networks, all but networks
 * perhaps with a port, or "*"; what cannot be understood counts for nothing. The machine itself is
 * never asked for by a proxy. Names are taken as they are, without IDNA. Pure: the variables are given.
 *
 * With socks5 Go has the proxy resolve the server's name, as with socks5h; curl would resolve it itself.
 */

#include <stdbool.h>

/* NULL and "": it is not set. Borrowed. */
typedef struct ProxyEnvironment {
        const char *https;
        const char *http;
        const char *none;
} ProxyEnvironment;

/* host is a name or an address, of IPv6 without brackets; port as in the URL or that of its scheme.
 * Returns what is in the environment, which may have no scheme, or NULL: no proxy. */
const char *proxy_spec_choose(const ProxyEnvironment *environment, bool is_plain, const char *host,
                              const char *port);

/* Returns the proxy as curl takes it, in *ret, which the caller owns. The proxy of NULL is NULL. 0 or -ENOMEM. */
int proxy_spec_for_curl(const char *proxy, char **ret);
