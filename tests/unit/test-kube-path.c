/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Paths of the API
 */

#include "agent/kube/path.h"
#include "tests/unit/unit.h"

#define KRUISE .group = "apps.kruise.io", .version = "v1beta1", .resource = "nodeimages"
#define SECRET .version = "v1", .resource = "secrets"

static const struct Case {
        const char *name;
        KubePath path;
        const char *expected;
} cases[] = {
        { "all of a kind", { KRUISE }, "/apis/apps.kruise.io/v1beta1/nodeimages" },
        { "one of them", { KRUISE, .name = "n1" }, "/apis/apps.kruise.io/v1beta1/nodeimages/n1" },
        { "its status",
          { KRUISE, .name = "n1", .subresource = "status" },
          "/apis/apps.kruise.io/v1beta1/nodeimages/n1/status" },
        { "behind a proxy",
          { .version = "v1",
            .resource = "nodes",
            .name = "n1",
            .subresource = "proxy",
            .proxied = "configz" },
          "/api/v1/nodes/n1/proxy/configz" },
        { "the core, by NULL", { SECRET }, "/api/v1/secrets" },
        { "the core, by an empty text", { SECRET, .group = "" }, "/api/v1/secrets" },
        { "in a namespace",
          { SECRET, .namespace = "a", .name = "b" },
          "/api/v1/namespaces/a/secrets/b" },
        { "a query", { SECRET, .query = "watch=1&limit=5" }, "/api/v1/secrets?watch=1&limit=5" },
        { "an empty query", { SECRET, .query = "" }, "/api/v1/secrets" },
        { "a group's version", { .group = "apps", .version = "v1" }, "/apis/apps/v1" },
        { "a name is escaped",
          { SECRET, .name = "a b?c#\xc3\xa9" },
          "/api/v1/secrets/a%20b%3Fc%23%C3%A9" },
        { "what needs no escape", { SECRET, .name = "Az09-._~" }, "/api/v1/secrets/Az09-._~" },
        { "no name does not mean all", { SECRET, .name = "" }, "/api/v1/secrets/%22%22" },
        { "a dot", { SECRET, .name = "." }, "/api/v1/secrets/%22.%22" },
        { "no way up", { SECRET, .name = ".." }, "/api/v1/secrets/%22..%22" },
        { "no way up by the namespace",
          { SECRET, .namespace = "..", .name = "a" },
          "/api/v1/namespaces/%22..%22/secrets/a" },
        { "no way on", { SECRET, .name = "a/token" }, "/api/v1/secrets/%22a%252Ftoken%22" },
        { "nor when it is escaped", { SECRET, .name = "a%2f" }, "/api/v1/secrets/%22a%25252f%22" },
        { "three dots are a name", { SECRET, .name = "..." }, "/api/v1/secrets/..." },
};

TEST_ROWS(test_format, cases, name, const struct Case *c) {
        cleanup(free_p) char *text = NULL;

        assert_ok(kube_path_format(&c->path, &text));
        assert_string_equal(text, c->expected);
}

TEST(test_escape) {
        cleanup(free_p) char *text = NULL;
        cleanup(free_p) char *empty = NULL;

        assert_ok(kube_path_escape("metadata.name=a/b&c%", &text));
        assert_string_equal(text, "metadata.name%3Da%2Fb%26c%25");
        assert_ok(kube_path_escape("", &empty));
        assert_string_equal(empty, "");
}
