/* SPDX-License-Identifier: Apache-2.0 */

/*
 * All sources of credentials, as one: which are asked, in what order, and what becomes of bad ones
 *
 * The API server is played here: it answers the reads of secrets when the test says so.
 */

#include "agent/auth/auth.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/fake-kube.h"
#include "tests/unit/stderr-capture.h"
#include "tests/unit/scratch-folder.h"
#include "tests/unit/unit.h"

#define KEEP_USEC ((uint64_t) 60 * 1000000)
#define SECRET "hunter2"
#define ENTRY(user) "{\"r.io\":{\"username\":\"" user "\",\"password\":\"" SECRET "\"}}"

/* Answers with the secret "NAMESPACE/NAME" and this text; NULL: there is no such secret. */
static void answer(const char *label, const char *text) {
        static const char digits[] =
                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        const char *name = strchr(label, '/') + 1;
        char path[128], data[1024], body[1200];
        size_t size = text ? strlen(text) : 0, n = 0;
        KubeCall *call = NULL;

        snprintf(path, sizeof(path), "/api/v1/namespaces/%.*s/secrets/%s", (int) (name - label - 1),
                 label, name);
        for (size_t i = 0; i < fake_kube.n_calls; i++)
                if (strcmp(fake_kube.calls[i]->request.path, path) == 0)
                        call = fake_kube.calls[i];
        if (!call)
                fail_msg("%s is not read", path);

        for (size_t i = 0; i < size; i += 3) {
                uint32_t bits = (uint32_t) (uint8_t) text[i] << 16;

                bits |= i + 1 < size ? (uint32_t) (uint8_t) text[i + 1] << 8 : 0;
                bits |= i + 2 < size ? (uint32_t) (uint8_t) text[i + 2] : 0;
                for (int k = 3; k >= 0; k--)
                        data[n++] = i + (size_t) (3 - k) > size ? '=' : digits[bits >> 6 * k & 63];
        }
        data[n] = '\0';
        snprintf(body, sizeof(body),
                 "{\"type\":\"kubernetes.io/dockerconfigjson\",\"data\":{\".dockerconfigjson\":"
                 "\"%s\"}}",
                 data);
        assert_ok(fake_kube_answer_call(call, text ? 200 : 404, body));
}

typedef struct Fixture {
        char folder[64];
        Log *log;
        AuthDir *dir;
        DockerConfig *docker;
        CredentialProviders *providers;
        Auth *auth;
        KubeSecrets *secrets;
        DesiredImage desired;
        ImageRef ref;

        PullCredentialsAsk *ask;
        bool drops_itself;
        unsigned n_answers;
        char named[128]; /* users, or "-" if there is no such keyring */
        char general[128];
        char lacking[128];
        char error[512];
        ErrorKind kind;
} Fixture;

/* With a plugin "tool" for r.io, which runs this. */
static void start(Fixture *fixture, const char *tool) {
        char config[256], bin[256], home[256], dir[256];

        snprintf(config, sizeof(config), "%s/config.yaml", fixture->folder);
        snprintf(bin, sizeof(bin), "%s/bin", fixture->folder);
        snprintf(home, sizeof(home), "%s/home", fixture->folder);
        snprintf(dir, sizeof(dir), "%s/auth.d", fixture->folder);

        if (tool) {
                scratch_write(fixture->folder, "config.yaml",
                              "apiVersion: kubelet.config.k8s.io/v1\n"
                              "kind: CredentialProviderConfig\n"
                              "providers: [{name: tool, matchImages: [r.io],\n"
                              "  apiVersion: credentialprovider.kubelet.k8s.io/v1,\n"
                              "  defaultCacheDuration: 1h}]\n");
                scratch_write(fixture->folder, "bin/tool", tool);
        }

        assert_ok(auth_dir_new(dir, &fixture->dir));
        assert_ok(docker_config_new(home, &fixture->docker));
        assert_ok(credential_providers_new(fake_kube.event, fixture->log, config, bin,
                                           &fixture->providers, NULL));
        assert_ok(auth_new(
                &(AuthOptions){
                        .event = fake_kube.event,
                        .log = fixture->log,
                        .dir = fixture->dir,
                        .docker = fixture->docker,
                        .providers = fixture->providers,
                },
                &fixture->auth));
}

static void open_fixture(Fixture *fixture) {
        scratch_make(fixture->folder);
        scratch_folder(fixture->folder, "auth.d");
        scratch_folder(fixture->folder, "home");
        scratch_folder(fixture->folder, "home/.docker");
        scratch_folder(fixture->folder, "bin");
        fake_kube_open();
        assert_ok(kube_secrets_new(&fake_kube, KEEP_USEC, &fixture->secrets));
        assert_ok(log_new(LOG_FORMAT_TEXT, LOG_DEBUG, &fixture->log));
        assert_ok(desired_image_init(&fixture->desired, "r.io/a", "1"));
        assert_ok(image_ref_parse("r.io/a:1", SHORT_NAMES_HUB, &fixture->ref, NULL));
}

static void close_fixture(Fixture *fixture) {
        assert_int_equal(fake_kube.n_calls, 0);
        auth_free(fixture->auth);
        kube_secrets_free(fixture->secrets);
        credential_providers_free(fixture->providers);
        docker_config_free(fixture->docker);
        auth_dir_free(fixture->dir);
        desired_image_done(&fixture->desired);
        log_free(fixture->log);
        fake_clock_done();
        fake_kube_close();
        remove_tree(fixture->folder);
}

DEFINE_FIXTURE(Fixture, open_fixture, close_fixture)

static void print_users(const Keyring *keyring, char to[static 128]) {
        cleanup(credential_list_done) CredentialList list = CREDENTIAL_LIST_INIT;
        size_t n = 0;

        strcpy(to, keyring ? "" : "-");
        if (keyring)
                assert_ok(keyring_lookup(keyring, "r.io/a", &list));
        for (size_t i = 0; i < list.n_items; i++)
                n += (size_t) snprintf(to + n, 128 - n, "%s%s", i ? " " : "",
                                       list.items[i]->username);
}

static int on_keys(PullCredentials *keys, const Error *error, void *userdata) {
        Fixture *fixture = userdata;
        PullCredentialsSource source = auth_source(fixture->auth);

        if (fixture->drops_itself)
                fixture->ask = source.drop(fixture->ask);

        fixture->n_answers++;
        print_users(keys->named, fixture->named);
        print_users(keys->general, fixture->general);
        snprintf(fixture->lacking, sizeof(fixture->lacking), "%s", keys->lacking ?: "");
        snprintf(fixture->error, sizeof(fixture->error), "%s", error ? error_message(error) : "");
        fixture->kind = error ? error->kind : ERROR_NONE;
        return 0;
}

static void ask(Fixture *fixture, bool was_denied) {
        PullCredentialsSource source = auth_source(fixture->auth);
        const PullCredentialsQuestion question = {
                .desired = &fixture->desired,
                .ref = &fixture->ref,
                .was_denied = was_denied,
        };

        fixture->n_answers = 0;
        assert_int_equal(source.ask(source.source, &question, on_keys, fixture, &fixture->ask), 0);
        assert_int_equal(fixture->n_answers, 0);
}

static void drop(Fixture *fixture) {
        fixture->ask = auth_source(fixture->auth).drop(fixture->ask);
}

static void wait_for(Fixture *fixture) {
        while (fixture->n_answers == 0)
                assert_true(sd_event_run(fake_kube.event, WAIT_USEC) > 0);
        drop(fixture);
        assert_int_equal(fixture->n_answers, 1);
}

static void expect(Fixture *fixture, const char *named, const char *general) {
        wait_for(fixture);
        assert_string_equal(fixture->error, "");
        assert_string_equal(fixture->named, named);
        assert_string_equal(fixture->general, general);
}

static void expect_refusal(Fixture *fixture, const char *words) {
        wait_for(fixture);
        assert_ptr_equal(strstr(fixture->error, "no pull secret can be used: "), fixture->error);
        if (!strstr(fixture->error, words))
                fail_msg("'%s' does not contain '%s'", fixture->error, words);
        assert_null(strstr(fixture->error, SECRET));
}

static void request_secret(Fixture *fixture, const char *namespace, const char *name) {
        assert_ok(desired_image_add_secret(&fixture->desired, namespace, name));
}

#define TOOL(user)                                                                              \
        "#!/bin/sh\necho '{\"kind\":\"CredentialProviderResponse\",\"cacheKeyType\":\"Image\"," \
        "\"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\"auth\":" ENTRY(user) "}'\n"

TEST_F(test_nothing, Fixture *fixture) {
        start(fixture, NULL);
        ask(fixture, false);
        expect(fixture, "-", "");
}

/* The folder, docker's configuration, the plugins. */
TEST_F(test_general_order, Fixture *fixture) {
        scratch_write(fixture->folder, "home/.docker/config.json",
                      "{\"auths\":" ENTRY("docker") "}");
        scratch_write(fixture->folder, "auth.d/x.json", ENTRY("dir"));
        start(fixture, TOOL("tool"));
        ask(fixture, false);
        expect(fixture, "-", "dir docker tool");

        scratch_write(fixture->folder, "bin/tool", TOOL("new"));
        ask(fixture, false);
        expect(fixture, "-", "dir docker tool");
        ask(fixture, true);
        expect(fixture, "-", "dir docker new");
}

/* A bad source is passed over, and reported once. */
TEST_F(test_general_bad, Fixture *fixture) {
        const char *said;
        Stderr captured;

        scratch_write(fixture->folder, "home/.docker/config.json", "{\"auths\":\"" SECRET "\"}");
        scratch_write(fixture->folder, "auth.d/bad.json", "{\"r.io\":\"" SECRET "\"}");
        scratch_write(fixture->folder, "auth.d/good.json", ENTRY("good"));
        start(fixture, "#!/bin/sh\nexit 1\n");
        stderr_pipe(&captured);
        for (size_t i = 0; i < 3; i++) {
                ask(fixture, false);
                expect(fixture, "-", "good");
        }
        said = stderr_restore(&captured);

        assert_contains(said, "config.json: \"auths\" is not an object");
        assert_contains(said, "bad.json\": the entry \"r.io\" is not an object");
        assert_contains(said, "credential provider tool: ended with status 1");
        assert_null(strstr(strstr(said, "bad.json\":") + 1, "bad.json\":"));
        assert_null(strstr(said, SECRET));
}

/* Without an API server a secret is a file, whatever its namespace. */
TEST_F(test_named_files, Fixture *fixture) {
        scratch_write(fixture->folder, "auth.d/a.json", ENTRY("a"));
        scratch_write(fixture->folder, "auth.d/b.json", ENTRY("b"));
        scratch_write(fixture->folder, "auth.d/c.json", ENTRY("c"));
        request_secret(fixture, NULL, "c");
        request_secret(fixture, "ns", "a");
        request_secret(fixture, "", "missing");
        start(fixture, NULL);
        ask(fixture, false);
        expect(fixture, "c a", "a b c");
}

TEST_F(test_named_files_refused, Fixture *fixture) {
        scratch_write(fixture->folder, "auth.d/a.json", "{\"r.io\":\"" SECRET "\"}");
        request_secret(fixture, NULL, "missing");
        request_secret(fixture, NULL, "a");
        start(fixture, NULL);
        ask(fixture, false);
        expect_refusal(fixture, "a.json\": the entry \"r.io\" is not an object");
}

/* In the order of the desired image, not of the answers. */
TEST_F(test_server, Fixture *fixture) {
        scratch_write(fixture->folder, "auth.d/file.json", ENTRY("file"));
        request_secret(fixture, "ns", "a");
        request_secret(fixture, NULL, "file");
        request_secret(fixture, "ns", "b");
        start(fixture, NULL);
        auth_set_secrets(fixture->auth, fixture->secrets);
        ask(fixture, true);
        answer("ns/b", "{\"auths\":" ENTRY("b") "}");
        answer("ns/a", ENTRY("a"));
        expect(fixture, "a file b", "file");

        /* A secret read a moment ago is read again only if the registry denied it. */
        fake_clock_pass(fake_kube.event, KEEP_USEC / 2);
        ask(fixture, false);
        assert_int_equal(fake_kube.n_calls, 0);
        expect(fixture, "a file b", "file");
        ask(fixture, true);
        assert_int_equal(fake_kube.n_calls, 2);
        drop(fixture);
        assert_int_equal(fake_kube.n_calls, 0);
}

static unsigned count(const char *text, const char *part) {
        unsigned n = 0;

        for (; (text = strstr(text, part)); text++)
                n++;
        return n;
}

/* Unusable parts beside a usable one are reported once for each reason. */
TEST_F(test_server_partly, Fixture *fixture) {
        const char *said;
        Stderr captured;

        request_secret(fixture, "ns", "a\nb");
        request_secret(fixture, "ns", "bad");
        request_secret(fixture, "ns", "good");
        start(fixture, NULL);
        auth_set_secrets(fixture->auth, fixture->secrets);
        stderr_pipe(&captured);
        for (size_t i = 0; i < 4; i++) {
                ask(fixture, false);
                answer("ns/bad", i < 2 ? "{" SECRET : "[]");
                answer("ns/good", ENTRY("good"));
                expect(fixture, "good", "");
                fake_clock_pass(fake_kube.event, KEEP_USEC);
        }
        said = stderr_restore(&captured);

        assert_int_equal(count(said, "pull secret \"ns/a?b\", continuing without it: "), 1);
        assert_int_equal(count(said, "pull secret \"ns/bad\", continuing without it: "), 2);
        assert_int_equal(count(said, "not valid JSON"), 1);
        assert_int_equal(count(said, "not a JSON object"), 1);
        assert_null(strstr(said, SECRET));
}

/* No pull waits for a plugin when there is nothing to pull with. */
TEST_F(test_server_refused, Fixture *fixture) {
        request_secret(fixture, "ns", "a");
        request_secret(fixture, "ns", "b");
        start(fixture, "#!/bin/sh\nexec sleep 1000\n");
        auth_set_secrets(fixture->auth, fixture->secrets);
        ask(fixture, false);
        answer("ns/b", NULL);
        answer("ns/a", "{");
        expect_refusal(fixture, "not valid JSON");
}

/* The names may be all that is left of earlier requests for the image. */
TEST_F(test_server_has_none, Fixture *fixture) {
        scratch_write(fixture->folder, "auth.d/file.json", ENTRY("file"));
        request_secret(fixture, "ns", "a");
        request_secret(fixture, "ns", "b");
        start(fixture, TOOL("tool"));
        auth_set_secrets(fixture->auth, fixture->secrets);
        ask(fixture, false);
        answer("ns/b", NULL);
        answer("ns/a", NULL);
        expect(fixture, "", "file tool");
        assert_string_equal(fixture->lacking, "secret ns/a: it does not exist");

        fake_clock_pass(fake_kube.event, KEEP_USEC);
        ask(fixture, false);
        answer("ns/b", ENTRY("b"));
        answer("ns/a", NULL);
        expect(fixture, "b", "file tool");
        assert_string_equal(fixture->lacking, "");
}

/* A secret that could not be read may be a good one, so it gives the reason. */
TEST_F(test_server_goes_before_some, Fixture *fixture) {
        static const char *const labels[] = { "ns/a", "ns/b" };

        request_secret(fixture, "ns", "a");
        request_secret(fixture, "ns", "b");
        start(fixture, NULL);
        for (size_t i = 0; i < 2; i++) {
                auth_set_secrets(fixture->auth, fixture->secrets);
                ask(fixture, false);
                answer(labels[i], NULL);
                fake_clock_turn(fake_kube.event);
                auth_set_secrets(fixture->auth, NULL);
                expect_refusal(fixture, labels[1 - i]);
                assert_int_equal(fixture->kind, ERROR_UNAVAILABLE);
                fake_clock_pass(fake_kube.event, KEEP_USEC);
        }
}

TEST_F(test_server_goes, Fixture *fixture) {
        request_secret(fixture, "ns", "a");
        request_secret(fixture, "ns", "b");
        start(fixture, NULL);
        auth_set_secrets(fixture->auth, fixture->secrets);
        ask(fixture, false);
        answer("ns/a", ENTRY("a"));
        fake_clock_turn(fake_kube.event);
        auth_set_secrets(fixture->auth, NULL);
        assert_int_equal(fake_kube.n_calls, 0);
        expect(fixture, "a", "");

        fake_clock_pass(fake_kube.event, KEEP_USEC);
        auth_set_secrets(fixture->auth, fixture->secrets);
        ask(fixture, false);
        auth_set_secrets(fixture->auth, NULL);
        expect_refusal(fixture,
                       "secret ns/b: this agent no longer reads secrets from the API server");
}

TEST_F(test_many_secrets, Fixture *fixture) {
        char label[32];

        for (size_t i = 0; i < 100; i++) {
                snprintf(label, sizeof(label), "%zu", i);
                request_secret(fixture, "ns", label);
        }
        start(fixture, NULL);
        auth_set_secrets(fixture->auth, fixture->secrets);
        ask(fixture, false);
        for (size_t i = 0; i < 100; i++) {
                assert_true(fake_kube.n_calls <= 8);
                snprintf(label, sizeof(label), "ns/%zu", i);
                answer(label, i == 50 ? ENTRY("fifty") : "{}");
                fake_clock_turn(fake_kube.event);
        }
        expect(fixture, "fifty", "");
        assert_int_equal(fake_kube.n_begun, 100);
}

TEST_F(test_drop_at_any_time, Fixture *fixture) {
        request_secret(fixture, "ns", "a");
        request_secret(fixture, "ns", "b");
        start(fixture, "#!/bin/sh\nexec sleep 1000\n");
        auth_set_secrets(fixture->auth, fixture->secrets);

        fake_clock_pass(fake_kube.event, KEEP_USEC);
        ask(fixture, false);
        drop(fixture);
        fake_clock_pass(fake_kube.event, KEEP_USEC);
        ask(fixture, false);
        answer("ns/a", ENTRY("a"));
        drop(fixture);
        fake_clock_pass(fake_kube.event, KEEP_USEC);
        ask(fixture, false);
        answer("ns/a", NULL);
        answer("ns/b", NULL);
        drop(fixture);
        fake_clock_turn(fake_kube.event);
        assert_int_equal(fixture->n_answers, 0);

        assert_null(auth_source(fixture->auth).drop(NULL));
        fixture->drops_itself = true;
        fake_clock_pass(fake_kube.event, KEEP_USEC);
        ask(fixture, false);
        answer("ns/a", NULL);
        answer("ns/b", "{");
        expect_refusal(fixture, "ns/b");
}
