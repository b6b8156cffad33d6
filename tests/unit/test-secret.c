/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Pull secrets
 */

#include "agent/kube/secret-spec.h"
#include "agent/kube/secret.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/fake-kube.h"
#include "tests/unit/unit.h"

#define USEC_PER_SEC ((uint64_t) 1000000)
#define PATH "/api/v1/namespaces/team/secrets/regcred"
#define JSON_TYPE "\"type\":\"kubernetes.io/dockerconfigjson\""
#define CFG_TYPE "\"type\":\"kubernetes.io/dockercfg\""
#define VALUE "c2VjcmV0" /* "secret" */
#define SECRET "{" JSON_TYPE ",\"data\":{\".dockerconfigjson\":\"" VALUE "\"}}"
#define OTHER_SECRET "{" JSON_TYPE ",\"data\":{\".dockerconfigjson\":\"b3RoZXI=\"}}"

/* clang-format off */
static const struct Spec {
        const char *json;
        const char *text;    /* NULL: it is refused */
        const char *message; /* the whole of it */
} specs[] = {
        { SECRET, "secret", NULL },
        { OTHER_SECRET, "other", NULL },
        { "{" CFG_TYPE ",\"data\":{\".dockercfg\":\"e30=\",\"x\":\"eA==\"}}", "{}", NULL },
        { "{\"type\":\"Opaque\",\"data\":{\".dockerconfigjson\":\"" VALUE "\"}}", NULL,
          "its type is \"Opaque\", and that of a pull secret is kubernetes.io/dockerconfigjson or "
          "kubernetes.io/dockercfg" },
        { "{\"data\":{\".dockerconfigjson\":\"" VALUE "\"}}", NULL,
          "its type is missing, and that of a pull secret is kubernetes.io/dockerconfigjson or "
          "kubernetes.io/dockercfg" },
        { "{" CFG_TYPE ",\"data\":{\".dockerconfigjson\":\"" VALUE "\"}}", NULL,
          "it has no key .dockercfg" },
        { "{" JSON_TYPE "}", NULL, "it has no key .dockerconfigjson" },
        { "{" JSON_TYPE ",\"data\":null}", NULL, "it has no key .dockerconfigjson" },
        { "{" JSON_TYPE ",\"data\":[\"" VALUE "\"]}", NULL, "it has no key .dockerconfigjson" },
        { "{" JSON_TYPE ",\"data\":{\".dockerconfigjson\":\"\"}}", NULL,
          "the value of its key .dockerconfigjson is empty" },
        { "{" JSON_TYPE ",\"data\":{\".dockerconfigjson\":\"" VALUE "!\"}}", NULL,
          "the value of its key .dockerconfigjson is not base64" },
        { "{" JSON_TYPE ",\"data\":{\".dockerconfigjson\":\"" VALUE "\\u0000\"}}", NULL,
          "the value of its key .dockerconfigjson is not base64" },
        { "{" JSON_TYPE ",\"data\":{\".dockerconfigjson\":4711}}", NULL,
          "the value of its key .dockerconfigjson is not base64" },
        { "{" JSON_TYPE ",\"data\":{\".dockerconfigjson\":null}}", NULL,
          "the value of its key .dockerconfigjson is not base64" },
        { "[]", NULL, "the answer is not an object" },
        { "{} {}", NULL, "not valid JSON at byte 3: unexpected character" },
        { "", NULL, "not valid JSON: it ends too early" },
        { "{" JSON_TYPE ",\"data\":{\".dockerconfigjson\":\"" VALUE, NULL,
          "not valid JSON: it ends too early" },
};

/* Answers of the server that fail, and the errors that they lead to. */
static const struct Failure {
        int code;
        const char *body;
        ErrorKind kind;
        const char *message;
} failures[] = {
        { 404, "{}", ERROR_NOT_FOUND, "secret team/regcred: it does not exist" },
        { 403, "{}", ERROR_DENIED, "secret team/regcred: it may not be read: code 403" },
        { 400, "{}", ERROR_INVALID, "secret team/regcred: it cannot be read: code 400" },
        { 200, "{" JSON_TYPE "}", ERROR_INVALID,
          "secret team/regcred: it has no key .dockerconfigjson" },
};
/* clang-format on */

TEST_ROWS(test_specs, specs, json, const struct Spec *row) {
        SecretText text = SECRET_TEXT_INIT;
        Error error = ERROR_INIT;
        int r;

        r = secret_spec_parse(row->json, strlen(row->json), &text, &error);
        if ((r >= 0) != !!row->text)
                fail_msg("%s: %s", row->json, r < 0 ? error_message(&error) : "");
        if (r < 0) {
                assert_null(text.data);
                assert_int_equal(error.kind, ERROR_INVALID);
                assert_string_equal(error.message, row->message);
        } else {
                assert_int_equal(text.size, strlen(row->text));
                assert_memory_equal(text.data, row->text, text.size);
        }
        secret_text_done(&text);
        error_done(&error);
}

typedef struct Asker {
        KubeSecretAsk *ask;
        unsigned n_reads;
        char text[32];
        ErrorKind kind;
        char message[128];
        KubeSecrets **to_free; /* within the callback */
} Asker;

static int on_read(const char *text, size_t size, const Error *error, void *userdata) {
        Asker *asker = userdata;

        asker->n_reads++;
        asker->ask = kube_secret_ask_unref(asker->ask);
        if (asker->to_free)
                *asker->to_free = kube_secrets_free(*asker->to_free);

        assert_true(!text == !!error);
        asker->kind = error ? error->kind : ERROR_NONE;
        memset(asker->text, 0, sizeof(asker->text));
        if (text)
                memcpy(asker->text, text, size);
        (void) snprintf(asker->message, sizeof(asker->message), "%s",
                        error ? error_message(error) : "");
        return 0;
}

static void ask_for(KubeSecrets *secrets, Asker *asker, const char *name, bool must_be_fresh) {
        unsigned n_reads = asker->n_reads;

        assert_ok(kube_secrets_get(secrets, "team", name, must_be_fresh, on_read, asker,
                                   &asker->ask));
        assert_int_equal(asker->n_reads, n_reads);
}

static void ask(KubeSecrets *secrets, Asker *asker) {
        ask_for(secrets, asker, "regcred", false);
}

static void ask_afresh(KubeSecrets *secrets, Asker *asker) {
        ask_for(secrets, asker, "regcred", true);
}

static void wait_until_read(const Asker *asker, unsigned n_reads) {
        while (asker->n_reads < n_reads) {
                assert_int_equal(fake_kube.n_calls, 0);
                assert_true(sd_event_run(fake_kube.event, 60 * USEC_PER_SEC) > 0);
        }
        assert_int_equal(asker->n_reads, n_reads);
}

static KubeSecrets *open_secrets(uint64_t keep_usec) {
        KubeSecrets *secrets;

        fake_kube_open();
        assert_ok(kube_secrets_new(&fake_kube, keep_usec, &secrets));
        return secrets;
}

static void close_secrets(KubeSecrets *secrets) {
        kube_secrets_free(secrets);
        fake_clock_done();
        fake_kube_close();
}

static void pass_time(uint64_t usec) {
        fake_clock_pass(fake_kube.event, usec);
}

/* A pause between two tries is over. */
static void wait_for_call(void) {
        while (fake_kube.n_calls == 0)
                fake_clock_skip(fake_kube.event);
}

TEST(test_one_request_for_all) {
        KubeSecrets *secrets = open_secrets(0);
        Asker askers[3] = { 0 };

        ask(secrets, &askers[0]);
        ask(secrets, &askers[1]);
        ask_afresh(secrets, &askers[2]);
        assert_int_equal(fake_kube.n_begun, 1);
        assert_string_equal(fake_kube.calls[0]->request.method, "GET");
        assert_string_equal(fake_kube.calls[0]->request.path, PATH);

        assert_ok(fake_kube_answer(200, SECRET));
        for (unsigned i = 0; i < 3; i++) {
                wait_until_read(&askers[i], 1);
                assert_string_equal(askers[i].text, "secret");
        }

        /* The answer is then kept for a while, also from callers that ask for a fresh one. */
        ask(secrets, &askers[0]);
        ask_afresh(secrets, &askers[1]);
        wait_until_read(&askers[0], 2);
        wait_until_read(&askers[1], 2);
        assert_string_equal(askers[1].text, "secret");
        assert_int_equal(fake_kube.n_begun, 1);
        close_secrets(secrets);
}

TEST(test_what_is_refused_is_read_again) {
        KubeSecrets *secrets = open_secrets(6 * USEC_PER_SEC);
        Asker fresh = { 0 }, other = { 0 };

        ask(secrets, &fresh);
        assert_ok(fake_kube_answer(200, SECRET));
        wait_until_read(&fresh, 1);

        pass_time(6 * USEC_PER_SEC / 60);
        ask(secrets, &other);
        ask_afresh(secrets, &fresh);
        assert_int_equal(fake_kube.n_begun, 2);
        fake_clock_turn(fake_kube.event);
        assert_int_equal(other.n_reads, 1);
        assert_int_equal(fresh.n_reads, 1);

        /* The kept secret is all there is as long as the server is away. */
        assert_ok(fake_kube_reply(
                fake_kube.calls[0],
                (KubeReply){ .code = 503, .body = "", .retry_after_usec = 60 * USEC_PER_SEC }));
        wait_until_read(&fresh, 2);
        assert_int_equal(fresh.kind, ERROR_UNAVAILABLE);
        ask(secrets, &other);
        wait_until_read(&other, 2);
        assert_string_equal(other.text, "secret");

        ask_afresh(secrets, &fresh);
        assert_ok(fake_kube_answer(200, OTHER_SECRET));
        wait_until_read(&fresh, 3);
        assert_string_equal(fresh.text, "other");
        ask(secrets, &other);
        wait_until_read(&other, 3);
        assert_string_equal(other.text, "other");
        assert_int_equal(fake_kube.n_begun, 3);
        close_secrets(secrets);
}

TEST(test_it_is_kept_for_a_while) {
        KubeSecrets *secrets = open_secrets(USEC_PER_SEC / 10);
        Asker asker = { 0 };

        ask(secrets, &asker);
        assert_ok(fake_kube_answer(200, SECRET));
        wait_until_read(&asker, 1);
        pass_time(USEC_PER_SEC / 10);
        ask(secrets, &asker);
        assert_int_equal(fake_kube.n_calls, 1);

        /* The kept answer expires while the next one is on its way. */
        pass_time(USEC_PER_SEC / 2);
        assert_ok(fake_kube_answer(404, ""));
        wait_until_read(&asker, 2);
        pass_time(USEC_PER_SEC / 60 + 1000);
        ask(secrets, &asker);
        assert_int_equal(fake_kube.n_calls, 1);
        close_secrets(secrets);
        assert_int_equal(asker.n_reads, 2);
        kube_secret_ask_unref(asker.ask);
}

TEST(test_each_has_its_time) {
        KubeSecrets *secrets = open_secrets(6 * USEC_PER_SEC);
        Asker asker = { 0 };

        ask(secrets, &asker);
        assert_ok(fake_kube_answer(200, SECRET));
        wait_until_read(&asker, 1);
        ask_for(secrets, &asker, "missing", false);
        assert_ok(fake_kube_answer(404, ""));
        wait_until_read(&asker, 2);

        pass_time(USEC_PER_SEC + USEC_PER_SEC / 2);
        ask(secrets, &asker);
        wait_until_read(&asker, 3);
        ask_for(secrets, &asker, "missing", false);
        assert_int_equal(fake_kube.n_begun, 3);
        asker.ask = kube_secret_ask_unref(asker.ask);
        close_secrets(secrets);
}

TEST_ROWS(test_failures, failures, body, const struct Failure *row) {
        KubeSecrets *secrets = open_secrets(0);
        Asker asker = { 0 };

        ask(secrets, &asker);
        assert_ok(fake_kube_answer(row->code, row->body));
        wait_until_read(&asker, 1);
        assert_int_equal(asker.kind, row->kind);
        assert_string_equal(asker.message, row->message);

        ask(secrets, &asker);
        wait_until_read(&asker, 2);
        assert_int_equal(asker.kind, row->kind);
        assert_int_equal(fake_kube.n_begun, 1);
        close_secrets(secrets);
}

TEST(test_a_few_more_tries) {
        KubeSecrets *secrets = open_secrets(0);
        Asker asker = { 0 };

        ask(secrets, &asker);
        assert_true(fake_kube.calls[0]->request.timeout_usec <= 10 * USEC_PER_SEC);
        for (unsigned i = 0; i < 3; i++) {
                assert_ok(fake_kube_answer(i == 1 ? 429 : 0, ""));
                assert_int_equal(asker.n_reads, 0);
                wait_for_call();
        }
        assert_true(fake_kube.calls[0]->request.timeout_usec < 10 * USEC_PER_SEC);
        assert_ok(fake_kube_answer(200, SECRET));
        wait_until_read(&asker, 1);
        assert_string_equal(asker.text, "secret");
        close_secrets(secrets);
}

TEST(test_server_is_away) {
        KubeSecrets *secrets = open_secrets(0);
        Asker asker = { 0 };

        ask(secrets, &asker);
        for (unsigned i = 0; i < 4; i++) {
                wait_for_call();
                assert_ok(fake_kube_answer(0, ""));
        }
        wait_until_read(&asker, 1);
        assert_int_equal(asker.kind, ERROR_UNAVAILABLE);
        assert_string_equal(asker.message,
                            "secret team/regcred: the API server does not answer: code 0");

        ask(secrets, &asker);
        assert_ok(fake_kube_reply(
                fake_kube.calls[0],
                (KubeReply){ .code = 429, .body = "", .retry_after_usec = 10 * USEC_PER_SEC }));
        wait_until_read(&asker, 2);
        assert_int_equal(asker.kind, ERROR_UNAVAILABLE);
        assert_string_equal(asker.message,
                            "secret team/regcred: the API server cannot answer now: code 429");
        close_secrets(secrets);
}

TEST(test_size_is_bounded) {
        KubeSecrets *secrets = open_secrets(0);
        size_t size = (2 << 20) + 1;
        char *body = malloc(size);
        Asker asker = { 0 };

        assert_non_null(body);
        memset(body, ' ', size);
        memcpy(body, SECRET, strlen(SECRET));

        ask(secrets, &asker);
        assert_ok(fake_kube_reply(fake_kube.calls[0], (KubeReply){ 200, body, size, 0 }));
        wait_until_read(&asker, 1);
        assert_int_equal(asker.kind, ERROR_INVALID);
        assert_string_equal(asker.message, "secret team/regcred: it is larger than 2 MiB");

        ask_for(secrets, &asker, "other", false);
        assert_ok(fake_kube_reply(fake_kube.calls[0], (KubeReply){ 200, body, size - 1, 0 }));
        wait_until_read(&asker, 2);
        assert_string_equal(asker.text, "secret");
        free(body);
        close_secrets(secrets);
}

TEST(test_impossible_names) {
        static const char *const names[] = { "", ".", "..", "a/b", "A", "a%2f", "-a", "a-", "a\n" };
        KubeSecrets *secrets = open_secrets(0);
        Asker asker = { 0 };

        for (unsigned i = 0; i < N_ELEMENTS(names); i++) {
                ask_for(secrets, &asker, names[i], false);
                wait_until_read(&asker, i + 1);
                assert_int_equal(asker.kind, ERROR_INVALID);
        }
        assert_string_equal(asker.message,
                            "secret \"a?\" of the namespace \"team\": this cannot be its name");
        assert_int_equal(fake_kube.n_begun, 0);
        close_secrets(secrets);
}

TEST(test_few_are_kept) {
        KubeSecrets *secrets = open_secrets(0);
        Asker asker = { 0 }, first = { 0 };
        char name[16];

        for (unsigned i = 0; i < 65; i++) {
                (void) snprintf(name, sizeof(name), "number-%u", i);
                ask_for(secrets, &asker, name, false);
                assert_ok(fake_kube_answer(200, SECRET));
                wait_until_read(&asker, i + 1);

                /* It is used all the time, so it stays. */
                ask_for(secrets, &first, "number-0", false);
                wait_until_read(&first, i + 1);
        }

        ask_for(secrets, &asker, "number-1", false);
        assert_int_equal(fake_kube.n_calls, 1);
        asker.ask = kube_secret_ask_unref(asker.ask);
        close_secrets(secrets);
}

/* More are there for as long as callers wait for each. */
TEST(test_few_are_kept_of_many_at_once) {
        KubeSecrets *secrets = open_secrets(0);
        Asker askers[65] = { 0 };
        char name[16];

        for (unsigned i = 0; i < N_ELEMENTS(askers); i++) {
                (void) snprintf(name, sizeof(name), "number-%u", i);
                ask_for(secrets, &askers[i], name, false);
        }
        for (unsigned i = 0; i < N_ELEMENTS(askers); i++)
                assert_ok(fake_kube_answer(200, SECRET));
        for (unsigned i = 0; i < N_ELEMENTS(askers); i++)
                wait_until_read(&askers[i], 1);

        ask_for(secrets, &askers[0], "number-0", false);
        assert_int_equal(fake_kube.n_calls, 1);
        askers[0].ask = kube_secret_ask_unref(askers[0].ask);
        close_secrets(secrets);
}

TEST(test_dropping) {
        KubeSecrets *secrets = open_secrets(0);
        Asker dropped = { 0 }, last = { 0 };

        /* The request goes with the last who waits for it. */
        ask(secrets, &dropped);
        ask(secrets, &last);
        dropped.ask = kube_secret_ask_unref(dropped.ask);
        assert_int_equal(fake_kube.n_calls, 1);
        last.ask = kube_secret_ask_unref(last.ask);
        assert_int_equal(fake_kube.n_calls, 0);

        /* The caller drops the read while it waits for the next try, and when the answer is there. */
        ask(secrets, &last);
        assert_ok(fake_kube_answer(0, ""));
        last.ask = kube_secret_ask_unref(last.ask);
        ask(secrets, &last);
        assert_ok(fake_kube_answer(200, SECRET));
        last.ask = kube_secret_ask_unref(last.ask);
        fake_clock_turn(fake_kube.event);
        assert_int_equal(dropped.n_reads + last.n_reads, 0);
        assert_null(kube_secret_ask_unref(NULL));
        close_secrets(secrets);
}

TEST(test_all_is_freed_in_a_callback) {
        KubeSecrets *secrets = open_secrets(0);
        Asker askers[3] = { { .to_free = &secrets }, { .to_free = &secrets }, { 0 } };

        ask(secrets, &askers[0]);
        ask(secrets, &askers[1]);
        assert_ok(fake_kube_answer(200, SECRET));
        ask_for(secrets, &askers[2], "other", false);
        fake_clock_turn(fake_kube.event);
        assert_null(secrets);
        assert_int_equal(askers[0].n_reads + askers[1].n_reads, 1);
        assert_string_equal(askers[askers[0].n_reads ? 0 : 1].text, "secret");
        assert_int_equal(askers[2].n_reads, 0);
        for (unsigned i = 0; i < 3; i++)
                kube_secret_ask_unref(askers[i].ask);
        fake_clock_done();
        fake_kube_close();
}
