/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests the content of kubeconfigs
 */

#include "agent/base/text.h"
#include "agent/kube/exec-credential-spec.h"
#include "agent/kube/kubeconfig-spec.h"
#include "tests/unit/unit.h"

#define SECRET "hunter2"
#define FOLDER "/etc/agent"

#define PEM "-----BEGIN X-----\nhunter2\n-----END X-----\n"
#define PEM64 "LS0tLS1CRUdJTiBYLS0tLS0KaHVudGVyMgotLS0tLUVORCBYLS0tLS0K"
#define NOT_PEM64 "aHVudGVyMg==" /* hunter2 */
#define NUL_PEM64 "LS0tLS1CRUdJTiBYAHg="

#define HEAD "apiVersion: v1\nkind: Config\ncurrent-context: one\n"
#define CONTEXTS                                                \
        "contexts:\n- {name: zero, context: {cluster: none}}\n" \
        "- {name: one, context: {cluster: c, user: u}}\n"
#define CLUSTER(members) "clusters: [{name: c, cluster: {" members "}}]\n"
#define USER(members) "users: [{name: v}, {name: u, user: {" members "}}]\n"
#define SERVER "server: 'https://10.0.0.1:6443'"

/* All else is as it should be. */
#define WITH_USER(members) HEAD CONTEXTS CLUSTER(SERVER) USER(members)
#define WITH_CLUSTER(members) HEAD CONTEXTS CLUSTER(members) USER("token: t")
#define WITH_EXEC(members) WITH_USER("exec: {apiVersion: " EXEC_CREDENTIAL_V1 ", " members "}")

#define USER_AT "users[1].user"
#define EXEC_AT USER_AT ".exec"

static int parse_one(const char *text, size_t size, const char *context, KubeconfigSpec *ret,
                     Error *reterr) {
        const KubeconfigFile file = { .text = text, .size = size, .folder = FOLDER };

        return kubeconfig_spec_parse(&file, 1, context, NULL, ret, reterr);
}

static KubeconfigSpec read_spec(const char *text) {
        KubeconfigSpec spec = KUBECONFIG_SPEC_INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        r = parse_one(text, strlen(text), NULL, &spec, &error);
        if (r < 0)
                print_error("%s\n", error_message(&error));
        assert_int_equal(r, 0);
        return spec;
}

/* clang-format off */

static const struct Refusal {
        const char *name;
        const char *text;
        const char *message;
} refusals[] = {
        { "empty", "", "is empty" },
        { "not an object", SECRET, "is neither a YAML nor a JSON object" },
        { "two documents", WITH_USER("") "---\n" WITH_USER(""), "has more than one document" },
        { "another kind", "kind: Pod", "kind: expected \"Config\"" },
        { "no context chosen", "kind: Config", "current-context: is missing, and no context was chosen" },
        { "no contexts", HEAD, "current-context: there is no context \"one\"" },
        { "contexts of another type", HEAD "contexts: " SECRET, "contexts: expected a list" },
        { "a context of another type", HEAD "contexts: [" SECRET "]", "contexts[0]: expected an object" },
        { "a context without content", HEAD "contexts: [{name: one}]", "contexts[0].context: is missing" },
        { "two contexts of a name", HEAD "contexts: [{name: one, context: {}}, {name: one}]",
          "contexts[1]: there is another one of this name" },
        { "a context without cluster", HEAD "contexts: [{name: one, context: {}}]",
          "contexts[0].context.cluster: is missing" },
        { "a cluster that is not there", HEAD CONTEXTS, "contexts[1].context.cluster: there is no cluster \"c\"" },
        { "a user that is not there", HEAD CONTEXTS CLUSTER(SERVER),
          "contexts[1].context.user: there is no user \"u\"" },

        { "no server", WITH_CLUSTER(""), "clusters[0].cluster.server: is missing" },
        { "no scheme", WITH_CLUSTER("server: '10.0.0.1:6443'"),
          "clusters[0].cluster.server: expected an address such as https://10.0.0.1:6443" },
        { "no host", WITH_CLUSTER("server: 'https:///x'"),
          "clusters[0].cluster.server: expected an address such as https://10.0.0.1:6443" },
        { "a server with a user", WITH_CLUSTER("server: 'https://a:hunter2@h'"),
          "clusters[0].cluster.server: expected an address such as https://10.0.0.1:6443" },
        { "a server in two lines", WITH_CLUSTER("server: \"https://h\\nx\""),
          "clusters[0].cluster.server: has a control character in it" },
        { "CA twice", WITH_CLUSTER(SERVER ", certificate-authority: x, certificate-authority-data: " PEM64),
          "clusters[0].cluster.certificate-authority-data: is there beside certificate-authority" },
        { "CA, but not verified", WITH_CLUSTER(SERVER ", certificate-authority: x, insecure-skip-tls-verify: true"),
          "clusters[0].cluster.insecure-skip-tls-verify: is there beside a certificate authority" },
        { "a word for true", WITH_CLUSTER(SERVER ", insecure-skip-tls-verify: 'true'"),
          "clusters[0].cluster.insecure-skip-tls-verify: expected true or false" },
        { "CA not base64", WITH_CLUSTER(SERVER ", certificate-authority-data: '%'"),
          "clusters[0].cluster.certificate-authority-data: is not base64" },
        { "CA not PEM", WITH_CLUSTER(SERVER ", certificate-authority-data: " NOT_PEM64),
          "clusters[0].cluster.certificate-authority-data: is not base64 of PEM" },
        { "CA with a NUL", WITH_CLUSTER(SERVER ", certificate-authority-data: " NUL_PEM64),
          "clusters[0].cluster.certificate-authority-data: is not base64 of PEM" },
        { "another proxy", WITH_CLUSTER(SERVER ", proxy-url: 'ftp://hunter2@h'"),
          "clusters[0].cluster.proxy-url: expected an address with http, https, socks5 or socks5h" },

        { "a user without content", HEAD CONTEXTS CLUSTER(SERVER) "users: [{name: u}]", "users[0].user: is missing" },
        { "a user of another type", HEAD CONTEXTS CLUSTER(SERVER) "users: [{name: u, user: hunter2}]",
          "users[0].user: expected an object" },
        { "a numeric password", WITH_USER("username: a, password: 12345"),
          USER_AT ".password: expected a string (in quotes)" },
        { "a password that is a tag", WITH_USER("username: a, password: !hunter2 x"),
          "line 8, column 60: this cannot be understood" },
        { "a password that is an alias", WITH_USER("username: a, password: *hunter2"),
          "line 8, column 60: this cannot be understood" },
        { "a token of two lines", WITH_USER("token: \"hunter2\\nx\""), USER_AT ".token: has a control character in it" },
        { "a token with a NUL", WITH_USER("token: \"hunter2\\0x\""), NULL },
        { "token and user name", WITH_USER("token: hunter2, username: a"), USER_AT ": has both a token and a user name" },
        { "certificate without key", WITH_USER("client-certificate: x"),
          USER_AT ": has only one of certificate and key" },
        { "key without certificate", WITH_USER("client-key-data: " PEM64),
          USER_AT ": has only one of certificate and key" },
        { "auth-provider", WITH_USER("auth-provider: {name: gcp}"),
          USER_AT ".auth-provider: is not supported, as in kubectl since 1.26; use \"exec\"" },
        { "more of another user", WITH_USER("token: hunter2, as: admin, as-user-extra: {a: [hunter2]}"),
          USER_AT ".as-user-extra: is not supported; \"as\", \"as-uid\" and \"as-groups\" are" },
        { "only a group of another user", WITH_USER("token: hunter2, as-groups: [a]"),
          USER_AT ": names a group or UID to act as, and no user" },
        { "another user of two lines", WITH_USER("as: \"a\\nb\""), USER_AT ".as: has a control character in it" },
        { "a group of two lines", WITH_USER("as: a, as-groups: [\"a\\nb\"]"),
          USER_AT ".as-groups: has a control character in it" },

        { "exec without version", WITH_USER("exec: {command: x}"),
          EXEC_AT ".apiVersion: expected \"" EXEC_CREDENTIAL_V1 "\" or \"" EXEC_CREDENTIAL_V1BETA1 "\"" },
        { "exec of another version", WITH_USER("exec: {apiVersion: client.authentication.k8s.io/v2, command: x}"),
          EXEC_AT ".apiVersion: expected \"" EXEC_CREDENTIAL_V1 "\" or \"" EXEC_CREDENTIAL_V1BETA1 "\"" },
        { "exec without command", WITH_EXEC(""), EXEC_AT ".command: is missing" },
        { "exec at a terminal", WITH_EXEC("command: x, interactiveMode: Always"),
          EXEC_AT ".interactiveMode: the program needs a terminal" },
        { "exec in a mood", WITH_EXEC("command: x, interactiveMode: Perhaps"),
          EXEC_AT ".interactiveMode: expected \"Never\", \"IfAvailable\" or \"Always\"" },
        { "exec with a number", WITH_EXEC("command: x, args: [a, 1]"),
          EXEC_AT ".args[1]: expected a string (in quotes)" },
        { "exec with a variable without name", WITH_EXEC("command: x, env: [{value: hunter2}]"),
          EXEC_AT ".env[0].name: expected the name of a variable" },
        { "exec with a variable in one", WITH_EXEC("command: x, env: [{name: 'a=b'}]"),
          EXEC_AT ".env[0].name: expected the name of a variable" },
};

/* Server URLs as written, and the server that is meant. */
static const struct Server {
        const char *text;
        const char *server;
} servers[] = {
        { "https://10.0.0.1:6443",   "https://10.0.0.1:6443"   },
        { "https://[fd00::1]:6443/", "https://[fd00::1]:6443"  },
        { "https://h/k8s/c-1//",     "https://h/k8s/c-1"       },
        { "HTTP://localhost:8080",   "HTTP://localhost:8080"   },
};

/* A command and the file that is meant. */
static const struct Command {
        const char *text;
        const char *command;
} commands[] = {
        { "aws",          "aws"                   },
        { "/opt/bin/aws", "/opt/bin/aws"          },
        { "bin/aws",      FOLDER "/bin/aws"       },
        { "./aws",        FOLDER "/./aws"         },
};

/* clang-format on */

TEST_ROWS(test_refusal, refusals, name, const struct Refusal *refusal) {
        cleanup(error_done) Error error = ERROR_INIT;
        KubeconfigSpec spec = KUBECONFIG_SPEC_INIT;

        assert_true(parse_one(refusal->text, strlen(refusal->text), NULL, &spec, &error) < 0);
        assert_int_equal(error.kind, ERROR_INVALID);
        if (refusal->message)
                assert_string_equal(error_message(&error), refusal->message);
        assert_null(strstr(error_message(&error), SECRET));
        assert_null(strstr(error_message(&error), "12345"));
        assert_null(spec.context);
}

TEST_ROWS(test_servers, servers, text, const struct Server *row) {
        cleanup(kubeconfig_spec_done) KubeconfigSpec spec = KUBECONFIG_SPEC_INIT;
        char text[512];

        (void) snprintf(text, sizeof(text), WITH_CLUSTER("server: '%s'"), row->text);
        spec = read_spec(text);
        assert_string_equal(spec.server, row->server);
}

TEST_ROWS(test_commands, commands, text, const struct Command *row) {
        cleanup(kubeconfig_spec_done) KubeconfigSpec spec = KUBECONFIG_SPEC_INIT;
        char text[512];

        (void) snprintf(text, sizeof(text), WITH_EXEC("command: '%s'"), row->text);
        spec = read_spec(text);
        assert_string_equal(spec.exec.command, row->command);
}

TEST(test_cluster) {
        cleanup(kubeconfig_spec_done) KubeconfigSpec spec =
                read_spec(WITH_CLUSTER(SERVER ", certificate-authority-data: '" PEM64
                                              "', tls-server-name: api, proxy-url: 'socks5://p:1',"
                                              "disable-compression: true, extensions: []"));

        assert_string_equal(spec.context, "one");
        assert_string_equal(spec.ca.text, PEM);
        assert_null(spec.ca.file);
        assert_string_equal(spec.tls_server_name, "api");
        assert_string_equal(spec.proxy, "socks5://p:1");
        assert_false(spec.is_unverified);
        assert_string_equal(spec.token, "t");
}

TEST(test_files) {
        cleanup(kubeconfig_spec_done) KubeconfigSpec spec =
                read_spec(HEAD CONTEXTS CLUSTER(SERVER ", certificate-authority: pki/ca.crt")
                                  USER("client-certificate: ../c.pem, client-key: /k.pem, "
                                       "tokenFile: token, token: t"));

        assert_string_equal(spec.ca.file, FOLDER "/pki/ca.crt");
        assert_string_equal(spec.certificate.file, FOLDER "/../c.pem");
        assert_string_equal(spec.key.file, "/k.pem");
        assert_string_equal(spec.token_file, FOLDER "/token");
        assert_string_equal(spec.token, "t");
}

TEST(test_password) {
        cleanup(kubeconfig_spec_done) KubeconfigSpec spec =
                read_spec(WITH_USER("username: a, password: ' b '"));

        assert_string_equal(spec.username, "a");
        assert_string_equal(spec.password, " b ");
        assert_null(spec.token);
}

TEST(test_json) {
        cleanup(kubeconfig_spec_done) KubeconfigSpec spec =
                read_spec("{\"current-context\":\"a\",\"contexts\":[{\"name\":\"a\",\"context\":"
                          "{\"cluster\":\"b\"}}],\"clusters\":[{\"name\":\"b\",\"cluster\":"
                          "{\"server\":\"https://h\",\"insecure-skip-tls-verify\":true}}]}");

        assert_string_equal(spec.server, "https://h");
        assert_true(spec.is_unverified);
        assert_null(spec.token);
        assert_null(spec.exec.api_version);
}

TEST(test_chosen_context) {
        static const char text[] = WITH_USER("") "";
        cleanup(error_done) Error error = ERROR_INIT;
        KubeconfigSpec spec = KUBECONFIG_SPEC_INIT;

        assert_true(parse_one(text, strlen(text), "zero", &spec, &error) < 0);
        assert_string_equal(error.message,
                            "contexts[0].context.cluster: there is no cluster \"none\"");
        error_done(&error);
        assert_true(parse_one(text, strlen(text), "x", &spec, &error) < 0);
        assert_string_equal(error.message, "there is no context \"x\"");
}

TEST(test_impersonation) {
        cleanup(kubeconfig_spec_done) KubeconfigSpec spec =
                read_spec(WITH_USER("token: t, as: jane, as-uid: '7', as-groups: [dev, ops]"));

        assert_string_equal(spec.token, "t");
        assert_string_equal(spec.impersonation[0], "Impersonate-User: jane");
        assert_string_equal(spec.impersonation[1], "Impersonate-Uid: 7");
        assert_string_equal(spec.impersonation[2], "Impersonate-Group: dev");
        assert_string_equal(spec.impersonation[3], "Impersonate-Group: ops");
        assert_null(spec.impersonation[4]);
}

/* Flags take precedence over the file, and replace fields as a whole. */
TEST(test_overrides) {
        static const char text[] = HEAD CONTEXTS CLUSTER(
                SERVER) "users: [{name: u, user: {as: jane, as-uid: '7', username: a, password: b}}, "
                        "{name: w, user: {token: t}}]\n";
        const KubeconfigFile file = { .text = text, .size = strlen(text), .folder = FOLDER };
        static const char *const groups[] = { "dev", NULL };
        /* clang-format off */
        static const struct {
                KubeconfigOverrides overrides;
                const char *context, *server, *user, *token, *username, *impersonation[3];
        } cases[] = {
                { { .server = "http://h/" }, "one", "http://h", "u", NULL, "a",
                  { "Impersonate-User: jane", "Impersonate-Uid: 7" } },
                { { .user = "w" }, "one", "https://10.0.0.1:6443", "w", "t", NULL, { NULL } },
                { { .token = "s" }, "one", "https://10.0.0.1:6443", "u", "s", NULL,
                  { "Impersonate-User: jane", "Impersonate-Uid: 7" } },
                { { .user = "w", .as = "joe", .as_groups = groups }, "one", "https://10.0.0.1:6443",
                  "w", "t", NULL, { "Impersonate-User: joe", "Impersonate-Group: dev" } },
                { { .as = "joe" }, "one", "https://10.0.0.1:6443", "u", NULL, "a",
                  { "Impersonate-User: joe" } },
                { { .cluster = "c" }, "zero", "https://10.0.0.1:6443", NULL, NULL, NULL, { NULL } },
        };
        /* clang-format on */

        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                cleanup(kubeconfig_spec_done) KubeconfigSpec spec = KUBECONFIG_SPEC_INIT;
                cleanup(error_done) Error error = ERROR_INIT;

                if (kubeconfig_spec_parse(&file, 1, cases[i].context, &cases[i].overrides, &spec,
                                          &error) < 0)
                        fail_msg("%zu: %s", i, error_message(&error));
                assert_string_equal(spec.server, cases[i].server);
                assert_true(text_equal(spec.user, cases[i].user));
                assert_true(text_equal(spec.token, cases[i].token));
                assert_true(text_equal(spec.username, cases[i].username));
                assert_int_equal(!spec.impersonation, !cases[i].impersonation[0]);
                for (size_t n = 0; spec.impersonation && spec.impersonation[n]; n++)
                        assert_true(text_equal(spec.impersonation[n], cases[i].impersonation[n]));
        }
}

TEST(test_wrong_overrides) {
        static const char text[] = WITH_USER("token: t");
        const KubeconfigFile file = { .text = text, .size = strlen(text), .folder = FOLDER };
        static const char *const groups[] = { "dev", NULL };
        static const struct {
                KubeconfigOverrides overrides;
                const char *message;
        } cases[] = {
                { { .user = "x" }, "there is no user \"x\"" },
                { { .cluster = "x" }, "there is no cluster \"x\"" },
                { { .server = "h:80" },
                  "the server that was chosen instead: expected an address such as https://10.0.0.1:6443" },
                { { .as_groups = groups },
                  USER_AT ": names a group or UID to act as, and no user" },
        };

        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                KubeconfigSpec spec = KUBECONFIG_SPEC_INIT;
                cleanup(error_done) Error error = ERROR_INIT;

                assert_true(kubeconfig_spec_parse(&file, 1, NULL, &cases[i].overrides, &spec,
                                                  &error) < 0);
                assert_string_equal(error_message(&error), cases[i].message);
        }
}

#define FILE_OF(path_, text_) \
        { .text = (text_), .size = strlen(text_), .folder = "/" path_, .path = "/" path_ "/config" }

/* The first file that has an entry decides on it as a whole, and file names in it are relative to
 * that file. */
TEST(test_several_files) {
        const KubeconfigFile files[] = {
                FILE_OF("one", "users: [{name: u, user: {tokenFile: t1}}]\n"
                               "contexts: [{name: only, context: {cluster: c, user: u}}]"),
                FILE_OF("two", "current-context: both\n"
                               "users: [{name: u, user: {token: t2}}]\n"
                               "contexts: [{name: both, context: {cluster: c, user: u, "
                               "namespace: space}}]"),
                FILE_OF("three", "current-context: only\n"
                                 "contexts: [{name: both, context: {cluster: d, user: v}}]\n"
                                 "clusters: [{name: c, cluster: {server: 'https://h', "
                                 "certificate-authority: ca}}]"),
        };
        cleanup(kubeconfig_spec_done) KubeconfigSpec spec = KUBECONFIG_SPEC_INIT;

        assert_ok(kubeconfig_spec_parse(files, 3, NULL, NULL, &spec, NULL));
        assert_string_equal(spec.context, "both");
        assert_string_equal(spec.namespace, "space");
        assert_string_equal(spec.user, "u");
        assert_string_equal(spec.token_file, "/one/t1");
        assert_null(spec.token);
        assert_string_equal(spec.ca.file, "/three/ca");
}

/* A refusal names the file that is wrong. */
TEST(test_wrong_file) {
        static const struct {
                const char *second;
                const char *context;
                const char *message;
        } cases[] = {
                { "kind: Pod", NULL, "/two/config: kind: expected \"Config\"" },
                { "clusters: [{name: c, cluster: {}}]", "x",
                  "/two/config: clusters[0].cluster.server: is missing" },
                { "{}", "x",
                  "/one/config: contexts[0].context.cluster: there is no cluster \"c\"" },
                { "clusters: [{name: c, cluster: {server: 'https://h'}}]", "lost",
                  "/one/config: contexts[1].context.user: there is no user \"u\"" },
                { "{}", "y", "/one/config: there is no context \"y\"" },
                { "current-context: z", NULL,
                  "/two/config: current-context: there is no context \"z\"" },
                { "{}", NULL,
                  "/one/config: current-context: is missing, and no context was chosen" },
        };

        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                const KubeconfigFile files[] = {
                        FILE_OF("one", "contexts: [{name: x, context: {cluster: c}}, "
                                       "{name: lost, context: {cluster: c, user: u}}]"),
                        FILE_OF("two", cases[i].second),
                };
                cleanup(error_done) Error error = ERROR_INIT;
                KubeconfigSpec spec = KUBECONFIG_SPEC_INIT;

                assert_true(kubeconfig_spec_parse(files, 2, cases[i].context, NULL, &spec, &error) <
                            0);
                assert_string_equal(error_message(&error), cases[i].message);
        }
}

TEST(test_exec) {
        cleanup(kubeconfig_spec_done) KubeconfigSpec spec = read_spec(
                HEAD CONTEXTS CLUSTER(SERVER
                                      ", extensions: [{name: other, extension: 1}, {name: "
                                      "client.authentication.k8s.io/exec, extension: {a: [1, x]}}]")
                        USER("exec: {apiVersion: " EXEC_CREDENTIAL_V1BETA1 ", command: aws,"
                             "args: [get, ''], env: [{name: A, value: 'b=c'}, {name: E}],"
                             "installHint: get it, provideClusterInfo: true,"
                             "interactiveMode: IfAvailable}"));

        assert_string_equal(spec.exec.api_version, EXEC_CREDENTIAL_V1BETA1);
        assert_string_equal(spec.exec.arguments[0], "get");
        assert_string_equal(spec.exec.arguments[1], "");
        assert_null(spec.exec.arguments[2]);
        assert_string_equal(spec.exec.environment[0], "A=b=c");
        assert_string_equal(spec.exec.environment[1], "E=");
        assert_null(spec.exec.environment[2]);
        assert_string_equal(spec.exec.install_hint, "get it");
        assert_true(spec.exec.wants_cluster);
        assert_string_equal(spec.exec.cluster_config, "{\"a\":[1,\"x\"]}");
}

/* kubectl does not run it then. */
TEST(test_exec_beside_others) {
        static const char *const others[] = {
                "token: t",
                "tokenFile: t",
                "username: u",
                "client-certificate: x, client-key: k",
        };

        for (size_t i = 0; i < N_ELEMENTS(others); i++) {
                cleanup(kubeconfig_spec_done) KubeconfigSpec spec = KUBECONFIG_SPEC_INIT;
                char text[512];

                (void) snprintf(text, sizeof(text),
                                WITH_USER("exec: {apiVersion: " EXEC_CREDENTIAL_V1
                                          ", command: x}, %s"),
                                others[i]);
                spec = read_spec(text);
                assert_null(spec.exec.api_version);
        }
}

/* A cut file is refused or means the same; memory errors show under the sanitizers. */
TEST(test_truncated) {
        static const char text[] = WITH_EXEC("command: x, args: [a], env: [{name: a}]");

        for (size_t size = 0; size < strlen(text); size++) {
                cleanup(kubeconfig_spec_done) KubeconfigSpec spec = KUBECONFIG_SPEC_INIT;
                cleanup(free_p) char *copy = malloc(size + 1);
                int r;

                assert_non_null(copy);
                memcpy(copy, text, size);
                r = parse_one(copy, size, NULL, &spec, NULL);
                assert_true((r < 0) == !spec.server);
        }
}
