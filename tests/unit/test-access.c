/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Access to the API server, from files
 */

#include "tests/unit/access-fixture.h"
#include "tests/unit/unit.h"

static void set_variables(const char *host, const char *port) {
        assert_int_equal(host ? setenv("KUBERNETES_SERVICE_HOST", host, 1)
                              : unsetenv("KUBERNETES_SERVICE_HOST"),
                         0);
        assert_int_equal(port ? setenv("KUBERNETES_SERVICE_PORT", port, 1)
                              : unsetenv("KUBERNETES_SERVICE_PORT"),
                         0);
}

static void open_pod(Fixture *fixture) {
        set_variables("10.96.0.1", "443");
        put(fixture, "token", "one\n");
        put(fixture, "ca.crt", PEM_A);
        if (try_open(fixture, true, NULL) < 0)
                fail_msg("%s", error_message(&fixture->error));
}

TEST_F(test_pod, Fixture *fixture) {
        open_pod(fixture);
        assert_token(fixture, "one");
        assert_string_equal(fixture->credentials->server, "https://10.96.0.1:443");
        assert_string_equal(fixture->credentials->ca, PEM_A);
        assert_null(fixture->credentials->certificate);
        assert_null(fixture->credentials->username);
        assert_false(fixture->credentials->is_unverified);
        assert_string_equal(kube_access_source(fixture->access), "the pod's service account");
        assert_null(kube_access_trouble(fixture->access));
}

/* An old pod has no file with its namespace. */
TEST_F(test_namespace_of_pod, Fixture *fixture) {
        open_pod(fixture);
        assert_null(kube_access_namespace(fixture->access));
        fixture->access = kube_access_free(fixture->access);
        put(fixture, "namespace", "tools\n");
        assert_ok(try_open(fixture, true, NULL));
        assert_string_equal(kube_access_namespace(fixture->access), "tools");
}

TEST_F(test_pod_ipv6, Fixture *fixture) {
        open_pod(fixture);
        fixture->access = kube_access_free(fixture->access);
        set_variables("fd00::1", "443");
        assert_ok(try_open(fixture, true, NULL));
        assert_int_equal(get(fixture), 1);
        assert_string_equal(fixture->credentials->server, "https://[fd00::1]:443");
}

TEST_F(test_is_pod, Fixture *fixture) {
        set_variables("10.96.0.1", "443");
        assert_false(kube_access_is_pod(fixture->folder));
        put(fixture, "token", "one");
        assert_true(kube_access_is_pod(fixture->folder));
        set_variables("10.96.0.1", NULL);
        assert_false(kube_access_is_pod(fixture->folder));
        set_variables("", "443");
        assert_false(kube_access_is_pod(fixture->folder));

        assert_true(try_open(fixture, true, NULL) < 0);
        assert_error(fixture, ERROR_INVALID, "KUBERNETES_SERVICE_HOST");
}

TEST_F(test_pod_without_files, Fixture *fixture) {
        set_variables("10.96.0.1", "443");
        put(fixture, "ca.crt", PEM_A);
        assert_true(try_open(fixture, true, NULL) < 0);
        assert_error(fixture, ERROR_INVALID, "/token: No such file or directory");

        put(fixture, "token", " \n");
        assert_true(try_open(fixture, true, NULL) < 0);
        assert_error(fixture, ERROR_INVALID, "/token: is empty");

        put(fixture, "token", "hunter2\nhunter2");
        assert_true(try_open(fixture, true, NULL) < 0);
        assert_error(fixture, ERROR_INVALID, "/token: has a control character in its token");
        assert_null(strstr(error_message(&fixture->error), "hunter2"));

        put(fixture, "token", "one");
        put(fixture, "ca.crt", "hunter2");
        assert_true(try_open(fixture, true, NULL) < 0);
        assert_error(fixture, ERROR_INVALID, "/ca.crt: is not PEM");
        assert_null(fixture->access);
}

/* A new token does not end connections; the same content in a new file does not either. */
TEST_F(test_rotation, Fixture *fixture) {
        unsigned before;

        open_pod(fixture);
        before = generation(fixture);
        put(fixture, "token", " two ");
        put(fixture, "ca.crt", PEM_A);
        assert_token(fixture, "two");
        assert_int_equal(fixture->credentials->generation, before);

        put(fixture, "ca.crt", PEM_B);
        assert_token(fixture, "two");
        assert_string_equal(fixture->credentials->ca, PEM_B);
        assert_int_not_equal(fixture->credentials->generation, before);
}

/* As in a pod, where a file is a link. */
TEST_F(test_swapped_link, Fixture *fixture) {
        char link[64];

        set_variables("10.96.0.1", "443");
        put(fixture, "ca.crt", PEM_A);
        put(fixture, "v1", "one");
        put(fixture, "v2", "two");
        assert_ok(symlink("v1", in(fixture, "token")));
        assert_ok(try_open(fixture, true, NULL));
        assert_token(fixture, "one");

        assert_ok(symlink("v2", in(fixture, "link")));
        strcpy(link, fixture->path);
        assert_ok(rename(link, in(fixture, "token")));
        assert_token(fixture, "two");
}

/* Written over in place, at once, with as many bytes: the times may not show it. */
TEST_F(test_written_in_place, Fixture *fixture) {
        char token[16];

        open_pod(fixture);
        for (int i = 100; i < 200; i++) {
                FILE *file = fopen(in(fixture, "token"), "r+e");

                assert_non_null(file);
                (void) snprintf(token, sizeof(token), "%d", i);
                assert_true(fputs(token, file) >= 0);
                assert_ok(fclose(file));
                assert_token(fixture, token);
        }
}

/* A token file that is gone does no harm until the server refuses the old token; then it is reported. */
TEST_F(test_lost_token, Fixture *fixture) {
        open_pod(fixture);
        assert_token(fixture, "one");
        drop(fixture, "token");
        assert_token(fixture, "one");
        assert_trouble(fixture, "/token: No such file or directory");
        put(fixture, "token", "");
        assert_token(fixture, "one");
        assert_trouble(fixture, "/token: is empty");

        kube_access_refuse_token(fixture->access);
        assert_true(get(fixture) < 0);
        assert_error(fixture, ERROR_INVALID, "/token: is empty");
        kube_access_accept_token(fixture->access);
        assert_token(fixture, "one");

        put(fixture, "token", "two");
        assert_token(fixture, "two");
        assert_null(kube_access_trouble(fixture->access));
}

/* It can only be known to be the newest one. */
TEST_F(test_refused_token, Fixture *fixture) {
        open_pod(fixture);
        assert_token(fixture, "one");
        kube_access_refuse_token(fixture->access);
        assert_token(fixture, "one");
        assert_int_equal(fixture->n_changed, 0);
}

TEST_F(test_not_a_file, Fixture *fixture) {
        open_pod(fixture);
        drop(fixture, "token");
        assert_ok(mkfifo(in(fixture, "token"), 0600));
        assert_token(fixture, "one");
        assert_trouble(fixture, "/token: is not a file");
}

TEST_F(test_too_large, Fixture *fixture) {
        cleanup(free_p) char *token = calloc(1, 70000);

        assert_non_null(token);
        memset(token, 'x', 69999);
        open_pod(fixture);
        put(fixture, "token", token);
        assert_token(fixture, "one");
        assert_trouble(fixture, "/token: is too large");
}

TEST_F(test_config, Fixture *fixture) {
        char source[128];

        put(fixture, "ca", PEM_A);
        open_config(fixture, CONFIG(", certificate-authority: ca, tls-server-name: api, "
                                    "proxy-url: 'http://p'",
                                    "username: a, password: b"));
        assert_int_equal(get(fixture), 1);
        assert_string_equal(fixture->credentials->server, "https://h:6443");
        assert_string_equal(fixture->credentials->ca, PEM_A);
        assert_string_equal(fixture->credentials->tls_server_name, "api");
        assert_string_equal(fixture->credentials->proxy, "http://p");
        assert_string_equal(fixture->credentials->username, "a");
        assert_string_equal(fixture->credentials->password, "b");
        assert_null(fixture->credentials->token);
        (void) snprintf(source, sizeof(source), "kubeconfig %s, context dev",
                        in(fixture, "config"));
        assert_string_equal(kube_access_source(fixture->access), source);
}

TEST_F(test_config_refused, Fixture *fixture) {
        assert_true(try_open(fixture, false, NULL) < 0);
        assert_error(fixture, ERROR_INVALID, "/config: No such file or directory");

        put(fixture, "config", CONFIG("", "token: [hunter2]"));
        assert_true(try_open(fixture, false, NULL) < 0);
        assert_error(fixture, ERROR_INVALID,
                     "/config: users[0].user.token: expected a string (in quotes)");
        assert_true(try_open(fixture, false, "other") < 0);
        assert_error(fixture, ERROR_INVALID, "/config: there is no context \"other\"");

        assert_null(fixture->access);
}

/* The files that a kubeconfig names may be written later than it, so that a start is worth repeating. */
TEST_F(test_config_without_its_files, Fixture *fixture) {
        put(fixture, "config", CONFIG("", "tokenFile: t"));
        assert_true(try_open(fixture, false, NULL) < 0);
        assert_error(fixture, ERROR_UNAVAILABLE, "/t: No such file or directory");

        put(fixture, "t", "");
        assert_true(try_open(fixture, false, NULL) < 0);
        assert_error(fixture, ERROR_UNAVAILABLE, "/t: is empty");
        assert_null(fixture->access);

        put(fixture, "t", "one");
        assert_ok(try_open(fixture, false, NULL));
        assert_token(fixture, "one");
}

TEST_F(test_config_changed, Fixture *fixture) {
        unsigned before;

        open_config(fixture, CONFIG("", "token: one"));
        before = generation(fixture);
        put(fixture, "config", CONFIG(", tls-server-name: api", "token: two"));
        assert_token(fixture, "two");
        assert_string_equal(fixture->credentials->tls_server_name, "api");
        assert_int_not_equal(fixture->credentials->generation, before);
}

TEST_F(test_config_broken, Fixture *fixture) {
        unsigned before;

        open_config(fixture, CONFIG("", "token: one"));
        before = generation(fixture);
        put(fixture, "config", CONFIG("", "token: 5"));
        assert_token(fixture, "one");
        assert_trouble(fixture, "/config: users[0].user.token: expected a string (in quotes)");
        assert_token(fixture, "one");
        assert_int_equal(fixture->credentials->generation, before);

        kube_access_refuse_token(fixture->access);
        assert_true(get(fixture) < 0);
        assert_error(fixture, ERROR_INVALID, "users[0].user.token");

        drop(fixture, "config");
        assert_true(get(fixture) < 0);
        assert_error(fixture, ERROR_INVALID, "/config: No such file or directory");
        put(fixture, "config", CONFIG("", "token: two"));
        assert_token(fixture, "two");
        assert_null(kube_access_trouble(fixture->access));
}

/* The kubeconfig comes first, and the files that it names a little later. */
TEST_F(test_config_before_its_files, Fixture *fixture) {
        open_config(fixture, CONFIG("", "token: one"));
        put(fixture, "config", CONFIG("", "tokenFile: t"));
        assert_token(fixture, "one");
        assert_trouble(fixture, "/t: No such file or directory");
        put(fixture, "t", "two");
        assert_token(fixture, "two");
        assert_null(kube_access_trouble(fixture->access));
}

TEST_F(test_token_beside_file, Fixture *fixture) {
        open_config(fixture, CONFIG("", "token: given, tokenFile: t"));
        assert_token(fixture, "given");
        put(fixture, "t", "read");
        assert_token(fixture, "read");
        drop(fixture, "t");
        assert_token(fixture, "read");
}

/* As the kubelet does it: one file for both. */
static int try_open_list(Fixture *fixture) {
        char list[128];
        const KubeAccessOptions options = {
                .event = fixture->event,
                .kubeconfig_list = list,
                .on_changed = on_changed,
                .userdata = fixture,
        };

        (void) snprintf(list, sizeof(list), "%1$s/nowhere:%1$s/empty:%1$s/config", fixture->folder);
        error_done(&fixture->error);
        return kube_access_new(&options, &fixture->access, &fixture->error);
}

/* kubectl takes a file without a byte for one that is missing. */
TEST_F(test_list_with_an_empty_file, Fixture *fixture) {
        put(fixture, "empty", "");
        assert_true(try_open_list(fixture) < 0);
        assert_error(fixture, ERROR_NOT_FOUND, "/config: No such file or directory");

        put(fixture, "config", "\n");
        assert_true(try_open_list(fixture) < 0);
        assert_error(fixture, ERROR_INVALID, "/config: is empty");

        put(fixture, "config", CONFIG("", "token: one"));
        assert_ok(try_open_list(fixture));
        assert_token(fixture, "one");
}

TEST_F(test_certificate, Fixture *fixture) {
        unsigned before;

        put(fixture, "pem", PEM_A);
        open_config(fixture, CONFIG("", "client-certificate: pem, client-key: pem"));
        before = generation(fixture);
        put(fixture, "pem", PEM_B);
        assert_int_equal(get(fixture), 1);
        assert_string_equal(fixture->credentials->certificate, PEM_B);
        assert_string_equal(fixture->credentials->key, PEM_B);
        assert_int_not_equal(fixture->credentials->generation, before);
}
