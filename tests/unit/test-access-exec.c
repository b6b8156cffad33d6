/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Access to the API server, by means of a program
 */

#include "tests/unit/access-fixture.h"
#include "tests/unit/unit.h"

#define EXEC(more) "exec: {apiVersion: " EXEC_CREDENTIAL_V1 ", command: ./program" more "}"
#define ANSWER(members)                                                     \
        "{\"kind\":\"ExecCredential\",\"apiVersion\":\"" EXEC_CREDENTIAL_V1 \
        "\",\"status\":{" members "}}"

/* Notes that it runs, and then does what the test says. */
static void put_program(Fixture *fixture, const char *script) {
        char text[512];

        (void) snprintf(text, sizeof(text), "#!/bin/sh\ncd %s\necho >>runs\n%s\n", fixture->folder,
                        script);
        put(fixture, "program", text);
        assert_ok(chmod(in(fixture, "program"), 0700));
}

static void put_answer(Fixture *fixture, const char *members) {
        char text[512];

        (void) snprintf(text, sizeof(text), ANSWER("%s"), members);
        put(fixture, "answer", text);
}

static void open_exec(Fixture *fixture) {
        put_program(fixture, "cat answer");
        open_config(fixture, CONFIG("", EXEC("")));
}

static off_t n_runs(Fixture *fixture) {
        struct stat status;

        return stat(in(fixture, "runs"), &status) == 0 ? status.st_size : 0;
}

static void await(Fixture *fixture) {
        unsigned n = fixture->n_changed;

        while (fixture->n_changed == n)
                assert_true(sd_event_run(fixture->event, UINT64_MAX) >= 0);
}

/* Also for the loop, which reads its clock once a turn. */
static void pass(Fixture *fixture, unsigned seconds) {
        clock_offset_sec += seconds;
        assert_ok(sd_event_run(fixture->event, 0));
}

/* Asks, lets the program run, and has a token. */
static void assert_made(Fixture *fixture, const char *token) {
        int r = get(fixture);

        if (r < 0)
                print_error("%s\n", error_message(&fixture->error));
        assert_int_equal(r, 0);
        await(fixture);
        assert_token(fixture, token);
}

static void assert_fails(Fixture *fixture, ErrorKind kind, const char *part) {
        assert_ok(get(fixture));
        await(fixture);
        assert_true(get(fixture) < 0);
        assert_error(fixture, kind, part);
}

TEST_F(test_token, Fixture *fixture) {
        put_answer(fixture, "\"token\":\"one\"");
        open_exec(fixture);
        assert_int_equal(n_runs(fixture), 0);
        assert_ok(get(fixture));
        assert_ok(get(fixture));
        assert_int_equal(fixture->n_changed, 0);
        await(fixture);
        for (unsigned i = 0; i < 10; i++)
                assert_token(fixture, "one");
        assert_int_equal(n_runs(fixture), 1);
        assert_int_equal(fixture->n_changed, 1);
}

TEST_F(test_what_it_is_given, Fixture *fixture) {
        put(fixture, "ca", PEM_A);
        put_program(fixture,
                    "printf '" ANSWER("\"token\":\"%s %s %d\"") "' \"$1\" \"$NAME\" "
                                                                "${#KUBERNETES_EXEC_INFO}");
        open_config(fixture, CONFIG(", certificate-authority: ca",
                                    EXEC(", args: [a b], env: [{name: NAME, value: c d}]")));
        assert_made(fixture, "a b c d 101");
}

TEST_F(test_cluster_info, Fixture *fixture) {
        char text[512] = "";
        FILE *file;

        put_answer(fixture, "\"token\":\"one\"");
        put(fixture, "ca", PEM_A);
        put_program(fixture, "printf %s \"$KUBERNETES_EXEC_INFO\" >info; cat answer");
        open_config(fixture, CONFIG(", certificate-authority: ca, extensions: [{name: "
                                    "client.authentication.k8s.io/exec, extension: {a: 1}}]",
                                    EXEC(", provideClusterInfo: true")));
        assert_made(fixture, "one");
        file = fopen(in(fixture, "info"), "re");
        assert_non_null(file);
        assert_non_null(fgets(text, sizeof(text), file));
        fclose(file);
        assert_string_equal(text, "{\"spec\":{\"interactive\":false,\"cluster\":{\"server\":"
                                  "\"https://h:6443\",\"certificate-authority-data\":"
                                  "\"LS0tLS1CRUdJTiBBLS0tLS0K\",\"config\":{\"a\":1}}},"
                                  "\"kind\":\"ExecCredential\",\"apiVersion\":"
                                  "\"client.authentication.k8s.io/v1\"}");
}

/* A failure is returned to each caller, and the program is not run again for a while. */
TEST_F(test_failure, Fixture *fixture) {
        put_answer(fixture, "\"token\":\"one\"");
        put_program(fixture, "echo hunter2; echo no profile >&2; exit 3");
        open_config(fixture, CONFIG("", EXEC("")));
        assert_fails(fixture, ERROR_DENIED, "/program\" ended with status 3: no profile");
        for (unsigned i = 0; i < 10; i++)
                assert_true(get(fixture) < 0);
        assert_null(strstr(error_message(&fixture->error), "hunter2"));
        assert_int_equal(n_runs(fixture), 1);

        pass(fixture, 2);
        assert_fails(fixture, ERROR_DENIED, "no profile");
        assert_int_equal(n_runs(fixture), 2);
        pass(fixture, 1); /* no longer enough */
        assert_true(get(fixture) < 0);
        assert_int_equal(n_runs(fixture), 2);

        put_program(fixture, "cat answer");
        pass(fixture, 2);
        assert_made(fixture, "one");
}

TEST_F(test_senseless_answer, Fixture *fixture) {
        put_answer(fixture, "\"token\":[\"hunter2\"]");
        open_exec(fixture);
        assert_fails(fixture, ERROR_INVALID,
                     "/program\" gave an invalid answer: status.token: expected a "
                     "string (in quotes)");
        assert_null(strstr(error_message(&fixture->error), "hunter2"));
}

TEST_F(test_missing_program, Fixture *fixture) {
        open_config(fixture, CONFIG("", EXEC(", installHint: \"get it\\nthere\"")));
        assert_fails(fixture, ERROR_INVALID,
                     "/program\" cannot be started: No such file or directory; hint: \"get "
                     "it?there\"");
}

/* A token that is refused at once is made anew, but not again and again. */
TEST_F(test_refused, Fixture *fixture) {
        put_answer(fixture, "\"token\":\"one\"");
        open_exec(fixture);
        assert_made(fixture, "one");

        pass(fixture, 2);
        put_answer(fixture, "\"token\":\"two\"");
        kube_access_refuse_token(fixture->access);
        kube_access_refuse_token(fixture->access);
        assert_made(fixture, "two");

        kube_access_refuse_token(fixture->access);
        assert_true(get(fixture) < 0);
        assert_error(fixture, ERROR_DENIED, "the server refuses the credentials of the program ");
        assert_int_equal(n_runs(fixture), 2);
        pass(fixture, 3);
        put_answer(fixture, "\"token\":\"three\"");
        assert_made(fixture, "three");

        pass(fixture, 2); /* the third time takes longer */
        kube_access_refuse_token(fixture->access);
        assert_true(get(fixture) < 0);
        pass(fixture, 3);
        assert_made(fixture, "three");

        pass(fixture, 61); /* this one was good for a while */
        kube_access_refuse_token(fixture->access);
        assert_made(fixture, "three");
        assert_int_equal(n_runs(fixture), 5);
}

static void put_expiring(Fixture *fixture, const char *token, int64_t lifetime_sec) {
        char members[256], until[RFC3339_SIZE];

        (void) snprintf(members, sizeof(members), "\"token\":\"%s\",\"expirationTimestamp\":\"%s\"",
                        token, rfc3339_format(time(NULL) + clock_offset_sec + lifetime_sec, until));
        put_answer(fixture, members);
}

/* A new one is made while the old one is still good, so that no call waits for it. */
TEST_F(test_renewal, Fixture *fixture) {
        put_expiring(fixture, "one", 1000);
        open_exec(fixture);
        assert_made(fixture, "one");
        pass(fixture, 960);
        assert_token(fixture, "one");
        assert_int_equal(n_runs(fixture), 1);

        pass(fixture, 20);
        put_expiring(fixture, "two", 1000);
        assert_token(fixture, "one");
        await(fixture);
        assert_token(fixture, "two");

        pass(fixture, 1001);
        put_expiring(fixture, "three", 1000);
        assert_made(fixture, "three");
        assert_int_equal(n_runs(fixture), 3);
}

TEST_F(test_failed_renewal, Fixture *fixture) {
        put_expiring(fixture, "one", 1000);
        open_exec(fixture);
        assert_made(fixture, "one");
        pass(fixture, 980);
        drop(fixture, "answer");
        assert_token(fixture, "one");
        await(fixture);
        assert_token(fixture, "one");
        assert_int_equal(n_runs(fixture), 2);
        pass(fixture, 30);
        assert_fails(fixture, ERROR_DENIED, "ended with status 1");
}

TEST_F(test_expired_answer, Fixture *fixture) {
        put_expiring(fixture, "one", -1);
        open_exec(fixture);
        assert_fails(fixture, ERROR_INVALID, "status.expirationTimestamp: it expired at ");
}

TEST_F(test_certificate, Fixture *fixture) {
        static const char pair[] = "\"clientCertificateData\":\"-----BEGIN %s\","
                                   "\"clientKeyData\":\"-----BEGIN %s\"";
        char members[256];
        unsigned before;

        (void) snprintf(members, sizeof(members), pair, "1", "1");
        put_answer(fixture, members);
        open_exec(fixture);
        assert_ok(get(fixture));
        await(fixture);
        before = generation(fixture);
        assert_string_equal(fixture->credentials->certificate, "-----BEGIN 1");
        assert_string_equal(fixture->credentials->key, "-----BEGIN 1");
        assert_null(fixture->credentials->token);

        pass(fixture, 100);
        kube_access_refuse_token(fixture->access);
        assert_ok(get(fixture));
        await(fixture);
        assert_int_equal(generation(fixture), before);

        pass(fixture, 100);
        (void) snprintf(members, sizeof(members), pair, "1", "2");
        put_answer(fixture, members);
        kube_access_refuse_token(fixture->access);
        assert_ok(get(fixture));
        await(fixture);
        assert_int_not_equal(generation(fixture), before);
        assert_string_equal(fixture->credentials->key, "-----BEGIN 2");
}

/* The callers that wait for the program are notified of its end. */
TEST_F(test_config_changed_meanwhile, Fixture *fixture) {
        put_answer(fixture, "\"token\":\"one\"");
        open_exec(fixture);
        assert_ok(get(fixture));
        put(fixture, "config", CONFIG("", "token: two"));
        assert_ok(get(fixture));
        await(fixture);
        assert_token(fixture, "two");
}

TEST_F(test_freed_inside, Fixture *fixture) {
        put_answer(fixture, "\"token\":\"one\"");
        open_exec(fixture);
        fixture->is_freed_inside = true;
        assert_ok(get(fixture));
        await(fixture);
        assert_null(fixture->access);
}

TEST_F(test_freed_meanwhile, Fixture *fixture) {
        put_program(fixture, "exec sleep 1000");
        open_config(fixture, CONFIG("", EXEC("")));
        assert_ok(get(fixture));
        fixture->access = kube_access_free(fixture->access);
        assert_int_equal(fixture->n_changed, 0);
}
