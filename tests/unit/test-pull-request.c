/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests the requests to the runtime
 */

#include "agent/image/pull-request.h"
#include "tests/unit/unit.h"

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

typedef struct Fixture {
        DesiredImage desired;
        ImageRef ref;
        PullRequest request;
} Fixture;

static void fixture_init(Fixture *fixture) {
        *fixture = (Fixture){ .request = { .i_credential = 0 } };
        assert_ok(desired_image_init(&fixture->desired, "reg.example/team/app", "1"));
        assert_ok(image_ref_parse("reg.example/team/app:1", SHORT_NAMES_HUB, &fixture->ref, NULL));
}

static void fixture_done(Fixture *fixture) {
        pull_request_done(&fixture->request);
        desired_image_done(&fixture->desired);
}

static Keyring *make_keyring(const char *text, const char *source) {
        Keyring *keyring;

        if (!text)
                return NULL;

        assert_ok(keyring_new(&keyring));
        assert_ok(keyring_add_text(keyring, source, text, strlen(text), NULL));
        return keyring;
}

static const CriPullRequest *make_request(Fixture *fixture, const char *named,
                                          const char *general) {
        PullCredentials pull_keys = {
                .named = make_keyring(named, "named"),
                .general = make_keyring(general, "general"),
        };

        assert_ok(pull_request_init(&fixture->request, &fixture->desired, &fixture->ref,
                                    "reg.example/team/app:1", &pull_keys));
        assert_null(pull_keys.named);
        assert_null(pull_keys.general);
        return pull_request_message(&fixture->request);
}

static const char *source_of(const PullRequest *request) {
        return request->credentials.items[request->i_credential]->source;
}

TEST_ROWS(test_keys, keys, name, const struct Keys *row) {
        cleanup(fixture_done) Fixture fixture;
        const CriPullRequest *message;
        char users[128] = "", password[16];

        fixture_init(&fixture);
        message = make_request(&fixture, row->named, row->general);
        if (!row->users[0]) {
                assert_null(message->auth);
                assert_false(pull_request_next_credential(&fixture.request));
                assert_null(message->auth);
                return;
        }

        do {
                sprintf(users + strlen(users), "%s@%s ", message->auth->username,
                        source_of(&fixture.request));
                sprintf(password, "p-%s", message->auth->username);
                assert_string_equal(message->auth->password, password);
        } while (pull_request_next_credential(&fixture.request));
        assert_string_equal(users, row->users);
}

/* At the end of the list the last one stays. */
TEST(test_no_credential_is_left) {
        cleanup(fixture_done) Fixture fixture;
        const CriPullRequest *message;

        fixture_init(&fixture);
        message = make_request(&fixture, "{" ENTRY("reg.example", "a") "}",
                               "{" ENTRY("reg.example", "b") "}");
        assert_true(pull_request_next_credential(&fixture.request));
        for (unsigned i = 0; i < 3; i++) {
                assert_false(pull_request_next_credential(&fixture.request));
                assert_string_equal(message->auth->username, "b");
                assert_string_equal(source_of(&fixture.request), "general");
        }
}

/* Parts that a credential lacks are empty, and nothing of the one before remains. */
TEST(test_tokens) {
        cleanup(fixture_done) Fixture fixture;
        const CriPullRequest *message;

        fixture_init(&fixture);
        message = make_request(&fixture, "{" ENTRY("reg.example", "a") "}",
                               "{\"reg.example\":{\"auth\":\"dTo=\",\"identitytoken\":\"i\"},"
                               "\"reg.example/team\":{\"registrytoken\":\"r\"}}");
        assert_true(pull_request_next_credential(&fixture.request));
        assert_string_equal(message->auth->username, "");
        assert_string_equal(message->auth->password, "");
        assert_string_equal(message->auth->identity_token, "");
        assert_string_equal(message->auth->registry_token, "r");

        assert_true(pull_request_next_credential(&fixture.request));
        assert_string_equal(message->auth->identity_token, "i");
        assert_string_equal(message->auth->username,
                            ""); /* though "docker login" writes one beside it */
        assert_string_equal(message->auth->registry_token, "");
}

/* Keyrings are found by the image's normalized name, in each spelling. */
TEST(test_docker_hub) {
        cleanup(fixture_done) Fixture fixture;
        PullCredentials pull_keys = {
                .general = make_keyring("{" ENTRY("https://index.docker.io/v1/", "hub") "}", "x"),
        };

        fixture_init(&fixture);
        assert_ok(image_ref_parse("nginx", SHORT_NAMES_HUB, &fixture.ref, NULL));
        assert_ok(pull_request_init(&fixture.request, &fixture.desired, &fixture.ref, "nginx",
                                    &pull_keys));
        assert_string_equal(pull_request_message(&fixture.request)->auth->username, "hub");
        assert_string_equal(pull_request_message(&fixture.request)->image->image, "nginx");
}

/* A runtime that searches would give them to every registry of its list, in its order. */
TEST(test_searched_name_gets_none) {
        cleanup(fixture_done) Fixture fixture;
        PullCredentials pull_keys = {
                .named = make_keyring("{" ENTRY("docker.io", "named") "}", "y"),
                .general = make_keyring("{" ENTRY("https://index.docker.io/v1/", "hub") "}", "x"),
        };

        fixture_init(&fixture);
        assert_ok(image_ref_parse("nginx", SHORT_NAMES_SEARCHED, &fixture.ref, NULL));
        assert_ok(pull_request_init(&fixture.request, &fixture.desired, &fixture.ref,
                                    "nginx:latest", &pull_keys));
        assert_null(pull_request_message(&fixture.request)->auth);
}

static void print_sandbox(const CriSandboxConfig *sandbox, char *to) {
        for (size_t i = 0; i < sandbox->n_labels; i++)
                to += sprintf(to, "%s=%s ", sandbox->labels[i]->key, sandbox->labels[i]->value);
        to += sprintf(to, "|");
        for (size_t i = 0; i < sandbox->n_annotations; i++)
                to += sprintf(to, " %s=%s", sandbox->annotations[i]->key,
                              sandbox->annotations[i]->value);
}

/* A desired image without a sandbox gets one nevertheless: some runtimes rely on it. */
TEST(test_mark_alone) {
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

TEST(test_sandbox_of_the_desired) {
        cleanup(fixture_done) Fixture fixture;
        char text[256];

        fixture_init(&fixture);
        assert_ok(desired_image_add_label(&fixture.desired, "app", "web"));
        assert_ok(desired_image_add_label(&fixture.desired, "tier", ""));
        assert_ok(desired_image_add_annotation(&fixture.desired, "note", "x"));
        print_sandbox(make_request(&fixture, NULL, NULL)->sandbox_config, text);
        assert_string_equal(text, "app=web tier= | note=x " MARK);
}

/* containerd chooses the snapshotter by the handler. Older releases read the annotation alone. */
TEST(test_runtime_handler) {
        static const char annotation[] = "io.containerd.cri.runtime-handler";
        cleanup(fixture_done) Fixture fixture;
        const CriPullRequest *message;
        char text[256];

        fixture_init(&fixture);
        assert_ok(desired_image_add_annotation(&fixture.desired, "note", "x"));
        message = make_request(&fixture, NULL, NULL);
        assert_string_equal(message->image->runtime_handler, "");

        pull_request_done(&fixture.request);
        assert_ok(desired_image_add_annotation(&fixture.desired, annotation, "kata"));
        message = make_request(&fixture, NULL, NULL);
        assert_string_equal(message->image->runtime_handler, "kata");
        print_sandbox(message->sandbox_config, text);
        assert_contains(text, " io.containerd.cri.runtime-handler=kata ");
}

/* A request is unpacked as it was packed: all parts point to the right place. */
TEST(test_packs) {
        cleanup(fixture_done) Fixture fixture;
        const CriPullRequest *message;
        CriPullRequest *again;
        uint8_t buffer[1024];
        size_t size;

        fixture_init(&fixture);
        assert_ok(desired_image_add_label(&fixture.desired, "app", "web"));
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
TEST(test_used_again) {
        cleanup(fixture_done) Fixture fixture;

        fixture_init(&fixture);
        make_request(&fixture, "{" ENTRY("reg.example", "a") "}", NULL);
        pull_request_done(&fixture.request);
        pull_request_done(&fixture.request);
        assert_null(make_request(&fixture, NULL, NULL)->auth);
}

TEST(test_keys_done) {
        PullCredentials pull_keys = { .named = make_keyring("{" ENTRY("reg.example", "a") "}",
                                                            "x") };

        pull_credentials_done(&pull_keys);
        assert_null(pull_keys.named);
        pull_credentials_done(&pull_keys);
}
