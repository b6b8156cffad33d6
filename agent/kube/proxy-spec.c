/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/proxy-spec.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/base/slice.h"
#include "agent/base/text.h"

#define SOCKS "socks5"
#define SPACE " \t\r\n\v\f"

/* An IPv4 address has 4 bytes, also if it is written as IPv6. */
typedef struct Address {
        uint8_t bytes[sizeof(struct in6_addr)];
        size_t size;
} Address;

typedef struct Server {
        const char *host;
        const char *port;
        bool is_address;
        Address address;
} Server;

static bool address_parse(Slice text, Address *ret) {
        static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
        char copy[INET6_ADDRSTRLEN];
        struct in6_addr six;

        if (text.size == 0 || text.size >= sizeof(copy))
                return false;

        memcpy(copy, text.data, text.size);
        copy[text.size] = '\0';
        ret->size = sizeof(struct in_addr);
        if (inet_pton(AF_INET, copy, ret->bytes) == 1)
                return true;
        if (inet_pton(AF_INET6, copy, &six) != 1)
                return false;

        if (memcmp(&six, mapped, sizeof(mapped)) == 0) {
                memcpy(ret->bytes, (const uint8_t *) &six + sizeof(mapped), ret->size);
                return true;
        }

        ret->size = sizeof(six);
        memcpy(ret->bytes, &six, sizeof(six));
        return true;
}

static bool has_prefix(const Address *address, const Address *network, unsigned n_bits) {
        size_t n_bytes = n_bits / 8;
        uint8_t mask = (uint8_t) (0xff00 >> n_bits % 8);

        if (address->size != network->size || n_bits > 8 * network->size ||
            memcmp(address->bytes, network->bytes, n_bytes) != 0)
                return false;

        return n_bits % 8 == 0 || ((address->bytes[n_bytes] ^ network->bytes[n_bytes]) & mask) == 0;
}

static bool is_loopback(const Server *server) {
        static const Address four = { .bytes = { 127 }, .size = 4 };
        static const Address six = { .bytes = { [15] = 1 }, .size = 16 };

        if (!server->is_address)
                return strcasecmp(server->host, "localhost") == 0;

        return has_prefix(&server->address, &four, 8) || has_prefix(&server->address, &six, 128);
}

/* Reads digits alone, without a leading zero. */
static bool read_n_bits(Slice text, unsigned *ret) {
        unsigned value = 0;

        if (text.size == 0 || text.size > 3 || (text.size > 1 && text.data[0] == '0'))
                return false;

        for (size_t i = 0; i < text.size; i++) {
                if (text.data[i] < '0' || text.data[i] > '9')
                        return false;
                value = value * 10 + (unsigned) (text.data[i] - '0');
        }

        *ret = value;
        return true;
}

static bool network_parse(Slice item, Address *ret, unsigned *ret_n_bits) {
        const char *slash = slice_find(item, '/');
        Slice address = item;
        unsigned n_bits, n_written;

        if (!slash)
                return false;

        address.size = (size_t) (slash - item.data);
        if (!address_parse(address, ret) ||
            !read_n_bits(slice_skip(item, address.size + 1), &n_bits))
                return false;

        n_written = slice_find(address, ':') ? 128 : 32;
        if (n_bits > n_written || n_bits < n_written - 8 * ret->size)
                return false;

        *ret_n_bits = n_bits - (n_written - 8 * (unsigned) ret->size);
        return true;
}

/* "host:port" and "[host]:port"; anything else is a host as it is. */
static void split(Slice item, Slice *ret_host, Slice *ret_port) {
        const char *bracket = item.data[0] == '[' ? slice_find(item, ']') : NULL;
        const char *colon = bracket ? bracket + 1 : slice_find(item, ':');
        const char *end = item.data + item.size;
        Slice port;

        *ret_host = item;
        *ret_port = (Slice){ .data = NULL };
        if (!colon || colon >= end || *colon != ':')
                return;

        port = slice_skip(item, (size_t) (colon + 1 - item.data));
        if (slice_find(port, ':'))
                return;

        *ret_port = port;
        ret_host->size = (size_t) (colon - item.data);
        if (bracket)
                *ret_host = (Slice){ .data = item.data + 1,
                                     .size = (size_t) (bracket - item.data - 1) };
}

static bool is_same_port(const Server *server, Slice port) {
        return port.size == 0 || slice_equal(port, server->port);
}

/* "example.com" is the domain and all in it, ".example.com" only what is in it. */
static bool is_in_domain(const Server *server, Slice domain) {
        size_t size = strlen(server->host);
        bool is_inside_only;

        if (domain.size > 1 && memcmp(domain.data, "*.", 2) == 0)
                domain = slice_skip(domain, 1);
        is_inside_only = domain.data[0] == '.';
        if (is_inside_only)
                domain = slice_skip(domain, 1);

        if (size < domain.size ||
            strncasecmp(server->host + size - domain.size, domain.data, domain.size) != 0)
                return false;

        return size == domain.size ? !is_inside_only : server->host[size - domain.size - 1] == '.';
}

static bool is_excepted_by(const Server *server, Slice item) {
        Address address;
        Slice host, port;
        unsigned n_bits;

        if (network_parse(item, &address, &n_bits))
                return server->is_address && has_prefix(&server->address, &address, n_bits);

        split(item, &host, &port);
        if (host.size == 0 || !is_same_port(server, port))
                return false;
        if (address_parse(host, &address))
                return server->is_address &&
                       has_prefix(&server->address, &address, 8 * (unsigned) address.size);

        return !server->is_address && is_in_domain(server, host);
}

static Slice trim(Slice item) {
        while (item.size > 0 && strchr(SPACE, item.data[0]))
                item = slice_skip(item, 1);
        while (item.size > 0 && strchr(SPACE, item.data[item.size - 1]))
                item.size--;

        return item;
}

static bool is_excepted(const Server *server, const char *list) {
        while (*list) {
                size_t size = strcspn(list, ",");
                Slice item = trim((Slice){ .data = list, .size = size });

                if (item.size > 0 && (slice_equal(item, "*") || is_excepted_by(server, item)))
                        return true;
                list += size + (list[size] == ',');
        }

        return false;
}

const char *proxy_spec_choose(const ProxyEnvironment *environment, bool is_plain, const char *host,
                              const char *port) {
        const char *proxy = is_plain ? environment->http : environment->https;
        Server server = { .host = host, .port = port };

        if (!proxy || !proxy[0])
                return NULL;

        server.is_address = address_parse(slice(host), &server.address);
        if (is_loopback(&server) || is_excepted(&server, environment->none ?: ""))
                return NULL;

        return proxy;
}

/* Copies by hand, because printf() may leave the proxy's password in its buffers. */
int proxy_spec_for_curl(const char *proxy, char **ret) {
        if (!proxy || strncasecmp(proxy, SOCKS "://", strlen(SOCKS "://")) != 0)
                return text_copy(proxy, ret);

        *ret = malloc(strlen(proxy) + 2);
        if (!*ret)
                return -ENOMEM;

        (void) stpcpy(stpcpy(*ret, SOCKS "h"), proxy + strlen(SOCKS));
        return 0;
}
