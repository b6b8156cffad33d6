/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests the environment of other programs
 */

#include "agent/base/child-environment.h"
#include "tests/unit/unit.h"

static const struct Case {
        const char *name;
        const char *own;
        const char *addition;
        const char *result; /* value of the variable in the result; NULL: unset */
} cases[] = {
        { "a variable", "PATH=/bin", NULL, "PATH=/bin" },
        { "one without a value", "EMPTY=", NULL, "EMPTY=" },
        { "one that is replaced", "A=1", "A=2", NULL },
        { "one that begins like another", "AB=1", "A=2", "AB=1" },
        { "systemd's socket", "NOTIFY_SOCKET=/run/systemd/notify", NULL, NULL },
        { "its watchdog", "WATCHDOG_USEC=30000000", NULL, NULL },
        { "its watchdog's process", "WATCHDOG_PID=7", NULL, NULL },
        { "its sockets", "LISTEN_FDS=1", NULL, NULL },
        { "its journal", "JOURNAL_STREAM=8:1", NULL, NULL },
        { "its credentials", "CREDENTIALS_DIRECTORY=/run/credentials/a", NULL, NULL },
        { "one of a similar name", "NOTIFY_SOCKETS=1", NULL, "NOTIFY_SOCKETS=1" },
        { "a proxy", "HTTPS_PROXY=http://proxy:3128", NULL, "HTTPS_PROXY=http://proxy:3128" },
        { "its password", "HTTPS_PROXY=http://me:P@SS@proxy:3128/", NULL,
          "HTTPS_PROXY=http://proxy:3128/" },
        { "in lower case", "https_proxy=socks5h://me:PASS@proxy", NULL,
          "https_proxy=socks5h://proxy" },
        { "without a scheme", "http_proxy=me:PASS@proxy:3128", NULL, "http_proxy=proxy:3128" },
        { "with slashes in it", "http_proxy=me:P://SS@proxy", NULL, "http_proxy=proxy" },
        { "of all kinds", "ALL_PROXY=me@proxy", NULL, "ALL_PROXY=proxy" },
        { "what needs no proxy", "NO_PROXY=a,.b,10.0.0.0/8", NULL, "NO_PROXY=a,.b,10.0.0.0/8" },
        { "a password that was configured", "HTTPS_PROXY=http://a:1@b", "HTTPS_PROXY=http://c:2@d",
          NULL },
        { "another address", "MAIL=me@host", NULL, "MAIL=me@host" },
};

TEST_ROWS(test_case, cases, name, const struct Case *c) {
        char *own[] = { strdup("FIRST=a"), strdup(c->own), strdup("LAST=z"), NULL };
        const char *additions[] = { c->addition, NULL };
        cleanup(free_p) const char **result = child_environment_new(own, additions);
        size_t n = 0;

        assert_non_null(result);
        if (c->addition)
                assert_ptr_equal(result[n++], c->addition);
        assert_string_equal(result[n++], "FIRST=a");
        if (c->result)
                assert_string_equal(result[n++], c->result);
        assert_string_equal(result[n++], "LAST=z");
        assert_null(result[n]);
        for (size_t i = 0; i < 3; i++)
                free(own[i]);
}

TEST(test_nothing) {
        cleanup(free_p) const char **result = child_environment_new(NULL, NULL);

        assert_non_null(result);
        assert_null(result[0]);
}
