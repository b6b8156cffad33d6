/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Which proxy the environment names for a server, as Go's programs understand it
 */

#include <netinet/in.h>

#include "agent/kube/proxy-spec.h"
#include "tests/unit/unit.h"

#define N(table) (sizeof(table) / sizeof((table)[0]))

#define MANY                                                                                    \
        "foobar.com, .barbaz.net, *.wildcard.io, 192.168.1.1, 192.168.1.2:81, 192.168.1.3:80, " \
        "10.0.0.0/30, 2001:db8::52:0:1, [2001:db8::52:0:2]:443, [2001:db8::52:0:3]:80, "        \
        "2002:db8:a::45/64, ports.io:8443, .inside.io:80"

/* It is longer than any address. */
#define LONG "a-name-that-is-longer-than-any-address-of-version-six.example.com"

/* It has as many bytes as the longest address, with its NUL. */
#define AS_LONG "a-name-of-as-many-bytes-as-an-address.at.a.com"
_Static_assert(sizeof(AS_LONG) == INET6_ADDRSTRLEN + 1, "length");

/* clang-format off */
static const struct ExceptionsRow {
        const char *none;
        const char *host; /* at port 80 */
        bool is_asked;
} cases[] = {
        /* The machine itself never is. */
        { "",                  "localhost",                  false },
        { "",                  "LocalHost",                  false },
        { "",                  "127.0.0.1",                  false },
        { "",                  "127.9.0.2",                  false },
        { "",                  "::1",                        false },
        { "",                  "::ffff:127.0.0.1",           false },
        { "",                  "::2",                        true  },
        { "",                  "127.example.com",            true  },
        { "",                  "localhost.net",              true  },
        { "",                  AS_LONG,                      true  },
        { "",                  "local.localhost",            true  },

        { MANY,                "192.168.1.1",                false },
        { MANY,                "::ffff:192.168.1.1",         false },
        { MANY,                "192.168.1.2",                true  },
        { MANY,                "192.168.1.3",                false },
        { MANY,                "192.168.1.4",                true  },
        { MANY,                "10.0.0.2",                   false },
        { MANY,                "10.0.0.4",                   true  },
        { MANY,                "2001:db8::52:0:1",           false },
        { MANY,                "2001:0db8:0::52:0:1",        false },
        { MANY,                "2001:db8::52:0:2",           true  },
        { MANY,                "2001:db8::52:0:3",           false },
        { MANY,                "2002:db8:a::123",            false },
        { MANY,                "2002:db8:a:1::123",          true  },
        { MANY,                "fe80::424b:c8be:1643:a1b6",  true  },
        { MANY,                "barbaz.net",                 true  },
        { MANY,                "www.barbaz.net",             false },
        { MANY,                "foobar.com",                 false },
        { MANY,                "FOObar.com",                 false },
        { MANY,                "www.foobar.com",             false },
        { MANY,                "foofoobar.com",              true  },
        { MANY,                "baz.com",                    true  },
        { MANY,                "barbarbaz.net",              true  },
        { MANY,                "wildcard.io",                true  },
        { MANY,                "nested.wildcard.io",         false },
        { MANY,                "a.nested.wildcard.io",       false },
        { MANY,                "awildcard.io",               true  },
        { MANY,                "ports.io",                   true  },
        { MANY,                "a.inside.io",                false },

        { "*",                 "example.com",                false },
        { "*",                 "10.0.0.1",                   false },
        { "a.com, * ,b.com",   "example.com",                false },
        { "*.com",             "example.com",                false },
        { "*example.com",      "example.com",                true  },
        { "EXAMPLE.com",       "example.com",                false },
        { "example.com:",      "example.com",                false },
        { "example.com:80",    "example.com",                false },
        { "example.com:080",   "example.com",                true  },
        { "[example.com]:80",  "example.com",                false },
        { "\texample.com ",    "example.com",                false },
        { "http://example.com", "example.com",               true  },
        { ":80",               "example.com",                true  },
        { "]:80",              "example.com",                true  },
        { ",, ,",              "example.com",                true  },
        { "10.0.0.0/8",        "10.1.2.3",                   false },
        { "10.0.0.0/8",        "11.1.2.3",                   true  },
        { "10.1.2.3/9",        "10.127.0.1",                 false },
        { "10.1.2.3/9",        "10.128.0.1",                 true  },
        { "0.0.0.0/0",         "10.1.2.3",                   false },
        { "0.0.0.0/0",         "::2",                        true  },
        { "::/0",              "::2",                        false },
        { "::/0",              "10.1.2.3",                   true  },
        { "::ffff:10.0.0.0/104", "10.1.2.3",                 false },
        { "::ffff:10.0.0.0/104", "11.1.2.3",                 true  },
        { "10.0.0.0/33",       "10.0.0.0",                   true  },
        { "10.0.0.0/08",       "10.1.2.3",                   true  },
        { "10.0.0.0/",         "10.0.0.0",                   true  },
        { "10.0.0.0/99999999999", "10.0.0.0",                true  },
        { "10",                "10.0.0.1",                   true  },
        { "0.1",               "10.0.0.1",                   true  },
        { ".0.1",              "10.0.0.1",                   true  },
        { "[::2]",             "::2",                        true  },
        { "[::2]:80",          "::2",                        false },
        { "::2",               "::2",                        false },
        { LONG,                "a." LONG,                    false },
        { LONG,                "10.0.0.1",                   true  },
};
/* clang-format on */

TEST_ROWS(test_exceptions, cases, none, const struct ExceptionsRow *row) {
        const ProxyEnvironment environment = { .http = "proxy:3128", .none = row->none };
        bool is_asked = proxy_spec_choose(&environment, true, row->host, "80");

        if (is_asked != row->is_asked)
                fail_msg("'%s' for %s", row->none, row->host);
}

TEST(test_which) {
        const ProxyEnvironment both = { .https = "http://a:1", .http = "b:2" };
        const ProxyEnvironment https = { .https = "http://a:1", .http = "" };
        const ProxyEnvironment none = { .none = "*" };

        assert_string_equal(proxy_spec_choose(&both, false, "example.com", "443"), "http://a:1");
        assert_string_equal(proxy_spec_choose(&both, true, "example.com", "80"), "b:2");
        assert_null(proxy_spec_choose(&https, true, "example.com", "80"));
        assert_null(proxy_spec_choose(&none, false, "example.com", "443"));
}

static const struct CurlRow {
        const char *proxy;
        const char *expected;
} curl_cases[] = {
        { "http://me:socks5://x@p:1", "http://me:socks5://x@p:1" },
        { "p:1080", "p:1080" },
        { "socks5://me:PASS@p:1080", "socks5h://me:PASS@p:1080" },
        { "SOCKS5://p", "socks5h://p" },
        { "socks5h://p", "socks5h://p" },
        { "socks5", "socks5" },
};

TEST_ROWS(test_for_curl, curl_cases, proxy, const struct CurlRow *row) {
        cleanup(free_p) char *proxy = NULL;

        assert_ok(proxy_spec_for_curl(row->proxy, &proxy));
        assert_string_equal(proxy, row->expected);
}

TEST(test_no_proxy_for_curl) {
        char *proxy = NULL;

        assert_ok(proxy_spec_for_curl(NULL, &proxy));
        assert_null(proxy);
}
