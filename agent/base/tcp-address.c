/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/base/tcp-address.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#define HOST_SIZE 64

bool tcp_address_read(const char *host, uint16_t port, TcpAddress *ret) {
        TcpAddress address = { .size = 0 };

        if (strcmp(host, "localhost") == 0)
                host = "127.0.0.1";

        if (inet_pton(AF_INET, host, &address.v4.sin_addr) == 1) {
                address.v4.sin_family = AF_INET;
                address.v4.sin_port = htons(port);
                address.size = sizeof(address.v4);
        } else if (inet_pton(AF_INET6, host, &address.v6.sin6_addr) == 1) {
                address.v6.sin6_family = AF_INET6;
                address.v6.sin6_port = htons(port);
                address.size = sizeof(address.v6);
        } else {
                return false;
        }

        *ret = address;
        return true;
}

/* A decimal number up to 65535, without sign, blanks or leading zeros. */
static bool is_port(const char *text) {
        size_t size = strspn(text, "0123456789");

        return size > 0 && size <= 5 && text[size] == '\0' && (size == 1 || *text != '0') &&
               atoi(text) <= UINT16_MAX;
}

bool tcp_address_parse(const char *text, TcpAddress *ret) {
        const char *colon = strrchr(text, ':');
        char host[HOST_SIZE];
        size_t size;
        bool is_v6;

        if (!colon || !is_port(colon + 1))
                return false;

        /* Only an IPv6 address has brackets, and it needs them. */
        size = (size_t) (colon - text);
        is_v6 = size > 2 && text[0] == '[' && text[size - 1] == ']';
        if (is_v6) {
                text++;
                size -= 2;
        }
        if (size >= sizeof(host) || is_v6 != (memchr(text, ':', size) != NULL))
                return false;

        memcpy(host, text, size);
        host[size] = '\0';
        return tcp_address_read(host, (uint16_t) atoi(colon + 1), ret);
}
