/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What the runtime is asked for
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/base/cleanup.h"
#include "agent/image/pull-request.h"

#define MARK "apps.kruise.io/pulling-image-by=inplaced"

#define ENTRY(key, user) "\"" key "\":{\"username\":\"" user "\",\"password\":\"p-" user "\"}"

/* Two keyrings, each a config file or NULL, and who tries to pull reg.example/team/app. */
static const struct Keys {
        const char *name;
        const char *named;
        const char *general;
        const char *users; /* in this order; empty: anonymous */
} keys[] = {
        { "without keys it is anonymous", NULL, NULL, "" },
        { "no key fits", "{" ENTRY("other.example", "a") "}", "{" ENTRY("b.example", "b") "}", "" },
        { "the node's key", NULL, "{" ENTRY("reg.example", "node") "}", "node@general " },
        { "the image's key", "{" ENTRY("reg.example", "image") "}", NULL, "image@named " },
        { "the image's key comes first", "{" ENTRY("reg.example", "image") "}",
          "{" ENTRY("reg.example", "node") "}", "image@named node@general " },
        { "also when the node's fits better", "{" ENTRY("reg.example", "image") "}",
          "{" ENTRY("reg.example/team/app", "node") "}", "image@named node@general " },
        { "the better fit within one", NULL,
          "{" ENTRY("reg.example", "all") "," ENTRY("reg.example/team", "team") "}",
          "team@general all@general " },
        { "the image's keys do not fit", "{" ENTRY("other.example", "image") "}",
          "{" ENTRY("reg.example", "node") "}", "node@general " },
};

#define N_KEYS (sizeof(keys) / sizeof(keys[0]))

typedef struct Fixture {
        DesiredImage desired;
        ImageRef ref;
        PullRequest request;
} Fixture;

static void fixture_init(Fixture *fixture) {
        *fixture = (Fixture){ .request = { .i_credential = 0 } };
        assert_int_equal(desired_image_init(&fixture->desired, "reg.example/team/app", "1"), 0);
        assert_int_equal(image_ref_parse("reg.example/team/app:1", SHORT_NAMES_HUB, &fixture->ref,
                                         NULL),
                         0);
}

static void fixture_done(Fixture *fixture) {
        pull_request_done(&fixture->request);
        desired_image_done(&fixture->desired);
}

static Keyring *make_keyring(const char *text, const char *source) {
        Keyring *keyring;

        if (!text)
                return NULL;

        assert_int_equal(keyring_new(&keyring), 0);
        assert_int_equal(keyring_add_text(keyring, source, text, strlen(text), NULL), 0);
        return keyring;
}

static const CriPullRequest *make_request(Fixture *fixture, const char *named,
                                          const char *general) {
        PullKeys pull_keys = {
                .named = make_keyring(named, "named"),
                .general = make_keyring(general, "general"),
        };

        assert_int_equal(pull_request_init(&fixture->request, &fixture->desired, &fixture->ref,
                                           "reg.example/team/app:1", &pull_keys),
                         0);
        assert_null(pull_keys.named);
        assert_null(pull_keys.general);
        return pull_request_message(&fixture->request);
}

static void test_keys(void **state) {
        const struct Keys *row = *state;
        cleanup(fixture_done) Fixture fixture;
        const CriPullRequest *message;
        char users[128] = "", password[16];

        fixture_init(&fixture);
        message = make_request(&fixture, row->named, row->general);
        if (!row->users[0]) {
                assert_null(message->auth);
                assert_null(pull_request_source(&fixture.request));
                assert_false(pull_request_next_credential(&fixture.request));
                assert_null(message->auth);
                return;
        }

        do {
                sprintf(users + strlen(users), "%s@%s ", message->auth->username,
                        pull_request_source(&fixture.request));
                sprintf(password, "p-%s", message->auth->username);
                assert_string_equal(message->auth->password, password);
        } while (pull_request_next_credential(&fixture.request));
        assert_string_equal(users, row->users);
}

/* At the end of the list the last one stays. */
static void test_no_credential_is_left(void **state) {
        cleanup(fixture_done) Fixture fixture;
        const CriPullRequest *message;

        fixture_init(&fixture);
        message = make_request(&fixture, "{" ENTRY("reg.example", "a") "}",
                               "{" ENTRY("reg.example", "b") "}");
        assert_true(pull_request_next_credential(&fixture.request));
        for (unsigned i = 0; i < 3; i++) {
                assert_false(pull_request_next_credential(&fixture.request));
                assert_string_equal(message->auth->username, "b");
                assert_string_equal(pull_request_source(&fixture.request), "general");
        }
}

/* What a credential lacks is empty, and nothing of the one before remains. */
static void test_tokens(void **state) {
        cleanup(fixture_done) Fixture fixture;
        const CriPullRequest *message;

        fixture_init(&fixture);
        message = make_request(&fixture, "{" ENTRY("reg.example", "a") "}",
                               "{\"reg.example\":{\"identitytoken\":\"i\"},"
                               "\"reg.example/team\":{\"registrytoken\":\"r\"}}");
        assert_true(pull_request_next_credential(&fixture.request));
        assert_string_equal(message->auth->username, "");
        assert_string_equal(message->auth->password, "");
        assert_string_equal(message->auth->identity_token, "");
        assert_string_equal(message->auth->registry_token, "r");

        assert_true(pull_request_next_credential(&fixture.request));
        assert_string_equal(message->auth->identity_token, "i");
        assert_string_equal(message->auth->registry_token, "");
}

/* Keys are found by what the image is, whatever it is called. */
static void test_docker_hub(void **state) {
        cleanup(fixture_done) Fixture fixture;
        PullKeys pull_keys = {
                .general = make_keyring("{" ENTRY("https://index.docker.io/v1/", "hub") "}", "x"),
        };

        fixture_init(&fixture);
        assert_int_equal(image_ref_parse("nginx", SHORT_NAMES_HUB, &fixture.ref, NULL), 0);
        assert_int_equal(pull_request_init(&fixture.request, &fixture.desired, &fixture.ref,
                                           "nginx", &pull_keys),
                         0);
        assert_string_equal(pull_request_message(&fixture.request)->auth->username, "hub");
        assert_string_equal(pull_request_message(&fixture.request)->image->image, "nginx");
}

/* A runtime that searches would give them to every registry of its list, in its order. */
static void test_searched_name_gets_none(void **state) {
        cleanup(fixture_done) Fixture fixture;
        PullKeys pull_keys = {
                .named = make_keyring("{" ENTRY("docker.io", "named") "}", "y"),
                .general = make_keyring("{" ENTRY("https://index.docker.io/v1/", "hub") "}", "x"),
        };

        fixture_init(&fixture);
        assert_int_equal(image_ref_parse("nginx", SHORT_NAMES_SEARCHED, &fixture.ref, NULL), 0);
        assert_int_equal(pull_request_init(&fixture.request, &fixture.desired, &fixture.ref,
                                           "nginx:latest", &pull_keys),
                         0);
        assert_null(pull_request_message(&fixture.request)->auth);
        assert_null(pull_request_source(&fixture.request));
}

static void print_sandbox(const CriSandboxConfig *sandbox, char *to) {
        for (size_t i = 0; i < sandbox->n_labels; i++)
                to += sprintf(to, "%s=%s ", sandbox->labels[i]->key, sandbox->labels[i]->value);
        to += sprintf(to, "|");
        for (size_t i = 0; i < sandbox->n_annotations; i++)
                to += sprintf(to, " %s=%s", sandbox->annotations[i]->key,
                              sandbox->annotations[i]->value);
}

/* A desired image that says nothing about a sandbox has one nevertheless: some runtimes rely on it. */
static void test_mark_alone(void **state) {
        cleanup(fixture_done) Fixture fixture;
        const CriPullRequest *message;
        char text[256];

        fixture_init(&fixture);
        message = make_request(&fixture, NULL, NULL);
        assert_non_null(message->sandbox_config);
        print_sandbox(message->sandbox_config, text);
        assert_string_equal(text, "| " MARK);
        assert_string_equal(message->image->image, "reg.example/team/app:1");
}

static void test_sandbox_of_the_desired(void **state) {
        cleanup(fixture_done) Fixture fixture;
        char text[256];

        fixture_init(&fixture);
        assert_int_equal(desired_image_add_label(&fixture.desired, "app", "web"), 0);
        assert_int_equal(desired_image_add_label(&fixture.desired, "tier", ""), 0);
        assert_int_equal(desired_image_add_annotation(&fixture.desired, "note", "x"), 0);
        print_sandbox(make_request(&fixture, NULL, NULL)->sandbox_config, text);
        assert_string_equal(text, "app=web tier= | note=x " MARK);
}

/* What goes over the wire is what comes out of it: all parts point to the right place. */
static void test_packs(void **state) {
        cleanup(fixture_done) Fixture fixture;
        const CriPullRequest *message;
        CriPullRequest *again;
        uint8_t buffer[1024];
        size_t size;

        fixture_init(&fixture);
        assert_int_equal(desired_image_add_label(&fixture.desired, "app", "web"), 0);
        message = make_request(&fixture, "{" ENTRY("reg.example", "a") "}", NULL);
        size = runtime__v1__pull_image_request__get_packed_size(message);
        assert_in_range(size, 1, sizeof(buffer));
        runtime__v1__pull_image_request__pack(message, buffer);

        again = runtime__v1__pull_image_request__unpack(NULL, size, buffer);
        assert_non_null(again);
        assert_string_equal(again->image->image, "reg.example/team/app:1");
        assert_string_equal(again->auth->username, "a");
        assert_string_equal(again->sandbox_config->labels[0]->value, "web");
        assert_int_equal(again->sandbox_config->n_annotations, 1);
        runtime__v1__pull_image_request__free_unpacked(again, NULL);
}

/* Done makes it all zero again, for the next attempt. */
static void test_used_again(void **state) {
        cleanup(fixture_done) Fixture fixture;

        fixture_init(&fixture);
        make_request(&fixture, "{" ENTRY("reg.example", "a") "}", NULL);
        pull_request_done(&fixture.request);
        pull_request_done(&fixture.request);
        assert_null(make_request(&fixture, NULL, NULL)->auth);
}

static void test_keys_done(void **state) {
        PullKeys pull_keys = { .named = make_keyring("{" ENTRY("reg.example", "a") "}", "x") };

        pull_keys_done(&pull_keys);
        assert_null(pull_keys.named);
        pull_keys_done(&pull_keys);
}

int main(void) {
        struct CMUnitTest tests[8 + N_KEYS] = {
                cmocka_unit_test(test_no_credential_is_left),
                cmocka_unit_test(test_tokens),
                cmocka_unit_test(test_docker_hub),
                cmocka_unit_test(test_searched_name_gets_none),
                cmocka_unit_test(test_mark_alone),
                cmocka_unit_test(test_sandbox_of_the_desired),
                cmocka_unit_test(test_packs),
                cmocka_unit_test(test_used_again),
                cmocka_unit_test(test_keys_done),
        };

        for (size_t i = 0; i < N_KEYS; i++)
                tests[8 + i] = (struct CMUnitTest){
                        .name = keys[i].name,
                        .test_func = test_keys,
                        .initial_state = (void *) &keys[i],
                };

        return _cmocka_run_group_tests("request", tests, 8 + N_KEYS, NULL, NULL);
}
