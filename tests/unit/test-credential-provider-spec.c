/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Credential provider plugins: their configuration, what is written to them and by them, and for how
 * long an answer is kept
 */

#include "agent/auth/credential-cache.h"
#include "agent/auth/credential-provider-spec.h"
#include "tests/unit/unit.h"

#define SECRET "hunter2"
#define V1 "credentialprovider.kubelet.k8s.io/v1"

DEFINE_CLEANUP(CredentialCache *, credential_cache_free)

/* clang-format off */
#define HEAD "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\n"
#define PLUGIN(more) HEAD "providers: [{name: ecr, apiVersion: " V1 ", matchImages: ['*.io'], " \
        "defaultCacheDuration: 12h" more "}]\n"

static const struct BadConfigsRow {
        const char *text;
        const char *words;
} bad_configs[] = {
        { "",                                                         "holds 0 documents" },
        { PLUGIN("") "---\n" PLUGIN(""),                              "holds 2 documents" },
        { "[]",                                                       "is not a CredentialProviderConfig" },
        { "kind: Pod",                                                "is not a CredentialProviderConfig" },
        { "kind: CredentialProviderConfig",                           "apiVersion: expected" },
        { "kind: CredentialProviderConfig\napiVersion: kubelet.config.k8s.io/v2", "got \"kubelet.config.k8s.io/v2\"" },
        { HEAD,                                                       "providers: names no plugin" },
        { HEAD "providers: []",                                       "providers: names no plugin" },
        { HEAD "providers: {}",                                       "providers: expected a list" },
        { HEAD "providers: [7]",                                      "providers[0]: expected an object" },
        { HEAD "metadata: {}\nproviders: []",                         "metadata: there is no such field" },
        { PLUGIN(", extra: 1"),                                       "providers[0].extra: there is no such field" },
        { PLUGIN(", Args: []"),                                       "providers[0].Args: there is no such field" },
        { PLUGIN(", args: [1]"),                                      "providers[0].args[0]: expected a string" },
        { PLUGIN(", args: x"),                                        "providers[0].args: expected a list" },
        { PLUGIN(", env: [x]"),                                       "providers[0].env[0]: expected an object" },
        { PLUGIN(", env: [{name: '', value: x}]"),                    "providers[0].env[0]: a variable needs a name" },
        { PLUGIN(", env: [{name: a=b, value: x}]"),                   "providers[0].env[0]: a variable needs a name" },
        { HEAD "providers:\n"
          "- {name: b, apiVersion: " V1 ", matchImages: [x], defaultCacheDuration: 1s}\n"
          "- {name: a, apiVersion: " V1 ", matchImages: [x], defaultCacheDuration: 1s}\n"
          "- {name: a, apiVersion: " V1 ", matchImages: [z], defaultCacheDuration: 1s}\n",
                                                                      "providers[2]: the plugin a is given twice" },
        { PLUGIN(", env: [{name: A, value: 12345}]"),                 "providers[0].env[0].value: expected a string (in quotes)" },
        { PLUGIN(", env: [{name: A, value: x, from: y}]"),            "providers[0].env[0].from: there is no such field" },
        { HEAD "providers: [{}]",                                     "providers[0].name: a plugin needs a name" },
        { HEAD "providers: [{name: a/b}]",                            "providers[0].name: \"a/b\" is not the name of a program" },
        { HEAD "providers: [{name: a b}]",                            "is not the name of a program" },
        { HEAD "providers: [{name: .}]",                              "is not the name of a program" },
        { HEAD "providers: [{name: ..}]",                             "is not the name of a program" },
        { HEAD "providers: [{name: a}]",                              "providers[0].apiVersion: expected credentialprovider" },
        { HEAD "providers: [{name: a, apiVersion: v1}]",              "got \"v1\"" },
        { HEAD "providers: [{name: a, apiVersion: " V1 "}]",          "providers[0].matchImages: is empty" },
        { HEAD "providers: [{name: a, apiVersion: " V1 ", matchImages: ['']}]", "providers[0].matchImages[0]: is empty" },
        { HEAD "providers: [{name: a, apiVersion: " V1 ", matchImages: [x]}]",  "providers[0].defaultCacheDuration: is missing" },
        { HEAD "providers: [{name: a, apiVersion: " V1 ", matchImages: [x], defaultCacheDuration: -1s}]", "is negative" },
        { HEAD "providers: [{name: a, apiVersion: " V1 ", matchImages: [x], defaultCacheDuration: '5'}]", "expected a duration such as" },
        { HEAD "providers:\n"
          "- {name: a, apiVersion: " V1 ", matchImages: [x], defaultCacheDuration: 1s}\n"
          "- {name: a, apiVersion: " V1 ", matchImages: [z], defaultCacheDuration: 1s}\n",
                                                                      "providers[1]: the plugin a is given twice" },
        { PLUGIN(", env: [{name: A, value: " SECRET "}, {name: B, value: [" SECRET "]}]"), "providers[0].env[1].value: expected" },
};

static const struct DurationsRow {
        const char *text;
        int64_t usec; /* -1: refused */
} durations[] = {
        { "0",           0 },
        { "0s",          0 },
        { "12h0m0s",     INT64_C(43200000000) },
        { "1.5h",        INT64_C(5400000000) },
        { "300ms",       300000 },
        { "+5m30s",      330000000 },
        { "1us",         1 },
        { "1\xc2\xb5s",  1 },
        { "1\xce\xbcs",  1 },
        { "999ns",       0 },
        { "1500ns",      1 },
        { ".5s",         500000 },
        { "5.s",         5000000 },
        { "-2s",         -2000000 },
        { "-0",          0 },
        { "2540400h",    INT64_C(9145440000000000) },
        { "0.100000000000000000000000000000001s", 100000 },
        { "18446744073.9s", -1 }, /* more nanoseconds than there are numbers, by the fraction alone */
        { "",            -1 },
        { "-",           -1 },
        { "5",           -1 },
        { "s",           -1 },
        { ".s",          -1 },
        { "5 s",         -1 },
        { "1d",          -1 },
        { "1h30",        -1 },
        { "1..5h",       -1 },
        { "--5s",        -1 },
        { "0x5s",        -1 },
        { "2562048h",    -1 },
        { "99999999999999999999h", -1 },
        { "2562047h2562047h",      -1 },
};

#define ANSWER(more) "{\"kind\":\"CredentialProviderResponse\",\"apiVersion\":\"" V1 "\"," more "}"
#define AUTH(auth) ANSWER("\"cacheKeyType\":\"Image\",\"auth\":" auth)

static const struct BadAnswersRow {
        const char *text;
        const char *words;
} bad_answers[] = {
        { "",                                                        "it ends too early" },
        { "no credentials",                                          "not valid JSON" },
        { "[]",                                                      "not a JSON object" },
        { "{}",                                                      "kind: expected \"CredentialProviderResponse\", got nothing" },
        { "{\"kind\":\"CredentialProviderRequest\"}",                "kind: expected" },
        { "{\"kind\":\"CredentialProviderResponse\"}",               "apiVersion: expected \"" V1 "\", got nothing" },
        { "{\"kind\":\"CredentialProviderResponse\",\"apiVersion\":\"" V1 "beta1\"}", "got \"" V1 "beta1\"" },
        { ANSWER("\"auth\":{}"),                                     "cacheKeyType: expected \"Image\", \"Registry\" or \"Global\", got nothing" },
        { ANSWER("\"cacheKeyType\":\"image\""),                      "got \"image\"" },
        { ANSWER("\"cacheKeyType\":\"Image\",\"cacheDuration\":60"), "cacheDuration: expected a string" },
        { ANSWER("\"cacheKeyType\":\"Image\",\"cacheDuration\":\"x\""), "cacheDuration: expected a duration" },
        { AUTH("\"" SECRET "\""),                                    "auth: not an object" },
        { AUTH("{\"r.io\":\"" SECRET "\"}"),                         "the entry \"r.io\" is not an object" },
        { AUTH("{\"r.io\":{\"username\":\"u\",\"password\":[\"" SECRET "\"]}}"), "is not a string" },
        { AUTH("{\"r.io\":{\"password\":\"" SECRET "\"}}") "x",      "not valid JSON" },
};
/* clang-format on */

TEST_ROWS(test_bad_configs, bad_configs, text, const struct BadConfigsRow *row) {
        cleanup(credential_providers_spec_done) CredentialProvidersSpec spec =
                CREDENTIAL_PROVIDERS_SPEC_INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        const char *text = row->text;

        assert_true(credential_providers_spec_parse(text, strlen(text), &spec, &error) < 0);
        assert_int_equal(error.kind, ERROR_INVALID);
        if (!strstr(error_message(&error), row->words))
                fail_msg("'%s' is refused as '%s'", text, error_message(&error));
        assert_null(strstr(error_message(&error), SECRET));
        assert_null(strstr(error_message(&error), "12345"));
        assert_null(spec.items);
}

TEST(test_config) {
        static const char text[] =
                "apiVersion: kubelet.config.k8s.io/v1beta1\n"
                "kind: CredentialProviderConfig\n"
                "providers:\n"
                "- name: ecr-credential-provider\n"
                "  matchImages: ['*.dkr.ecr.*.amazonaws.com', 'reg.example.com:5000/team']\n"
                "  defaultCacheDuration: 12h\n"
                "  apiVersion: credentialprovider.kubelet.k8s.io/v1alpha1\n"
                "  args: [get-credentials, '-v']\n"
                "  env:\n"
                "  - {name: AWS_PROFILE, value: first}\n"
                "  - {name: EMPTY}\n"
                "  - {name: AWS_PROFILE, value: a=b}\n"
                "- {name: other, matchImages: [docker.io], defaultCacheDuration: 0s,\n"
                "   apiVersion: credentialprovider.kubelet.k8s.io/v1, tokenAttributes: null}\n"
                "- {name: third, matchImages: [docker.io], defaultCacheDuration: 0s,\n"
                "   apiVersion: credentialprovider.kubelet.k8s.io/v1,\n"
                "   tokenAttributes: {requireServiceAccount: true}}\n";
        cleanup(credential_providers_spec_done) CredentialProvidersSpec spec =
                CREDENTIAL_PROVIDERS_SPEC_INIT;
        const CredentialProviderSpec *ecr;

        assert_ok(credential_providers_spec_parse(text, strlen(text), &spec, NULL));
        assert_int_equal(spec.n_items, 3);

        ecr = &spec.items[0];
        assert_string_equal(ecr->name, "ecr-credential-provider");
        assert_string_equal(ecr->api_version, "credentialprovider.kubelet.k8s.io/v1alpha1");
        assert_int_equal(ecr->keep_usec, UINT64_C(43200000000));
        assert_string_equal(ecr->arguments[0], "get-credentials");
        assert_string_equal(ecr->arguments[1], "-v");
        assert_null(ecr->arguments[2]);
        assert_string_equal(ecr->environment[0], "AWS_PROFILE=a=b");
        assert_string_equal(ecr->environment[1], "EMPTY=");
        assert_null(ecr->environment[2]);

        assert_true(credential_provider_spec_matches(ecr, "1.dkr.ecr.eu-west-1.amazonaws.com/a"));
        assert_false(credential_provider_spec_matches(ecr, "dkr.ecr.eu-west-1.amazonaws.com/a"));
        assert_true(credential_provider_spec_matches(ecr, "reg.example.com:5000/team/app"));
        assert_false(credential_provider_spec_matches(ecr, "reg.example.com/team/app"));
        assert_true(credential_provider_spec_matches(&spec.items[1], "docker.io/library/nginx"));

        assert_false(spec.items[1].needs_token);
        assert_true(spec.items[2].needs_token);
        assert_false(credential_provider_spec_matches(&spec.items[2], "docker.io/library/nginx"));

        assert_int_equal(spec.items[1].keep_usec, 0);
        assert_null(spec.items[1].arguments[0]);
        assert_null(spec.items[1].environment[0]);
}

TEST(test_two_files) {
        static const char *const files[] = {
                HEAD "providers: [{name: a, apiVersion: " V1
                     ", matchImages: [x], defaultCacheDuration: 1s}]",
                HEAD "providers:\n"
                     "- {name: b, apiVersion: " V1 ", matchImages: [x], defaultCacheDuration: 1s}\n"
                     "- {name: c, apiVersion: " V1
                     ", matchImages: [x], defaultCacheDuration: 1s}\n",
                HEAD "providers:\n"
                     "- {name: d, apiVersion: " V1 ", matchImages: [x], defaultCacheDuration: 1s}\n"
                     "- {name: b, apiVersion: " V1
                     ", matchImages: [x], defaultCacheDuration: 1s}\n",
        };
        cleanup(credential_providers_spec_done) CredentialProvidersSpec all =
                CREDENTIAL_PROVIDERS_SPEC_INIT;
        cleanup(error_done) Error error = ERROR_INIT;

        for (size_t i = 0; i < N_ELEMENTS(files); i++) {
                cleanup(credential_providers_spec_done) CredentialProvidersSpec spec =
                        CREDENTIAL_PROVIDERS_SPEC_INIT;
                int r;

                assert_ok(credential_providers_spec_parse(files[i], strlen(files[i]), &spec, NULL));
                r = credential_providers_spec_add(&all, &spec, &error);
                assert_int_equal(r < 0, i == 2);
        }
        assert_string_equal(error_message(&error), "the plugin b is given in another file, too");
        assert_int_equal(all.n_items, 3);
        assert_string_equal(all.items[2].name, "c");
}

TEST_ROWS(test_durations, durations, text, const struct DurationsRow *row) {
        int64_t usec = -1;
        int r = go_duration_parse(row->text, &usec, NULL);

        if (usec != row->usec || (r < 0) != (usec == -1))
                fail_msg("'%s' is %jd", row->text, (intmax_t) usec);
}

TEST(test_request) {
        cleanup(free_p) char *text = NULL;

        assert_ok(credential_provider_request_format(V1, "reg.io:5000/a/b", &text));
        assert_string_equal(text, "{\"kind\":\"CredentialProviderRequest\",\"apiVersion\":\"" V1
                                  "\",\"image\":\"reg.io:5000/a/b\"}");
}

TEST_ROWS(test_bad_answers, bad_answers, text, const struct BadAnswersRow *row) {
        cleanup(credential_provider_response_done) CredentialProviderResponse answer =
                CREDENTIAL_PROVIDER_RESPONSE_INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        const char *text = row->text;

        assert_true(credential_provider_response_parse(text, strlen(text), V1, &answer, &error) <
                    0);
        assert_int_equal(error.kind, ERROR_INVALID);
        if (!strstr(error_message(&error), row->words))
                fail_msg("'%s' is refused as '%s'", text, error_message(&error));
        assert_null(strstr(error_message(&error), SECRET));
        assert_int_equal(answer.credentials.n_entries, 0);
}

static void read_answer(const char *text, CredentialProviderResponse *ret) {
        assert_ok(credential_provider_response_parse(text, strlen(text), V1, ret, NULL));
}

TEST(test_answer) {
        cleanup(credential_provider_response_done) CredentialProviderResponse answer =
                CREDENTIAL_PROVIDER_RESPONSE_INIT;

        read_answer(ANSWER("\"cacheKeyType\":\"Registry\",\"cacheDuration\":\"5m\",\"new\":1,"
                           "\"auth\":{\"r.io\":{\"username\":\"u\",\"password\":\"p\"},"
                           "\"*.r.io\":{\"username\":\"AWS\",\"password\":\"q\"}}") "\n",
                    &answer);
        assert_int_equal(answer.scope, CREDENTIAL_SCOPE_REGISTRY);
        assert_true(answer.has_keep);
        assert_int_equal(answer.keep_usec, 300000000);
        assert_int_equal(answer.credentials.n_entries, 2);
        assert_string_equal(answer.credentials.entries[1].key, "*.r.io");
        assert_string_equal(answer.credentials.entries[1].username, "AWS");
        assert_string_equal(answer.credentials.entries[1].password, "q");
}

TEST(test_answer_without) {
        cleanup(credential_provider_response_done) CredentialProviderResponse answer =
                CREDENTIAL_PROVIDER_RESPONSE_INIT;

        read_answer(AUTH("null"), &answer);
        assert_false(answer.has_keep);
        assert_int_equal(answer.credentials.n_entries, 0);
        credential_provider_response_done(&answer);

        read_answer(ANSWER("\"cacheKeyType\":\"Global\",\"cacheDuration\":\"-5m\""), &answer);
        assert_int_equal(answer.scope, CREDENTIAL_SCOPE_GLOBAL);
        assert_true(answer.has_keep);
        assert_int_equal(answer.keep_usec, 0);
}

static CredentialAnswer *make_answer(void) {
        CredentialAnswer *answer;
        Keyring *keyring;

        assert_ok(keyring_new(&keyring));
        assert_ok(credential_answer_new(keyring, &answer));
        return answer;
}

static CredentialAnswer *put(CredentialCache *cache, size_t i_plugin, CredentialScope scope,
                             const char *name, uint64_t now, uint64_t keep) {
        CredentialAnswer *answer = make_answer();

        assert_ok(credential_cache_put(cache, i_plugin, scope, name, now, keep, answer));
        credential_answer_unref(answer);
        return answer; /* only to be compared */
}

TEST(test_cache_scopes) {
        cleanup(credential_cache_free_p) CredentialCache *cache = NULL;
        CredentialAnswer *image, *registry, *global;

        assert_ok(credential_cache_new(10, &cache));
        registry = put(cache, 0, CREDENTIAL_SCOPE_REGISTRY, "r.io/a", 0, 100);
        image = put(cache, 0, CREDENTIAL_SCOPE_IMAGE, "r.io/a", 0, 50);
        global = put(cache, 1, CREDENTIAL_SCOPE_GLOBAL, "r.io/a", 0, 100);

        assert_ptr_equal(credential_cache_find(cache, 0, "r.io/a", 49), image);
        assert_ptr_equal(credential_cache_find(cache, 0, "r.io/a", 50), registry);
        assert_ptr_equal(credential_cache_find(cache, 0, "r.io/b", 49), registry);
        assert_null(credential_cache_find(cache, 0, "r.io:5000/b", 49));
        assert_null(credential_cache_find(cache, 0, "r.i/b", 49));
        assert_null(credential_cache_find(cache, 0, "r.io/b", 100));
        assert_ptr_equal(credential_cache_find(cache, 1, "other/x", 99), global);
        assert_null(credential_cache_find(cache, 2, "other/x", 99));
}

TEST(test_cache_replaces) {
        cleanup(credential_cache_free_p) CredentialCache *cache = NULL;
        CredentialAnswer *second;

        assert_ok(credential_cache_new(10, &cache));
        put(cache, 0, CREDENTIAL_SCOPE_REGISTRY, "r.io/a", 0, 100);
        second = put(cache, 0, CREDENTIAL_SCOPE_REGISTRY, "r.io/b", 10, UINT64_MAX);
        assert_int_equal(credential_cache_count(cache), 1);
        assert_ptr_equal(credential_cache_find(cache, 0, "r.io/a", UINT64_MAX - 1), second);

        put(cache, 0, CREDENTIAL_SCOPE_REGISTRY, "r.io/c", 20, 0);
        assert_int_equal(credential_cache_count(cache), 0);
}

TEST(test_cache_forgets_what_ends_first) {
        cleanup(credential_cache_free_p) CredentialCache *cache = NULL;

        assert_ok(credential_cache_new(3, &cache));
        put(cache, 0, CREDENTIAL_SCOPE_IMAGE, "r.io/a", 0, 300);
        put(cache, 0, CREDENTIAL_SCOPE_IMAGE, "r.io/b", 0, 200);
        put(cache, 0, CREDENTIAL_SCOPE_IMAGE, "r.io/c", 0, 100);
        put(cache, 0, CREDENTIAL_SCOPE_IMAGE, "r.io/d", 0, 400);
        assert_null(credential_cache_find(cache, 0, "r.io/c", 0));
        assert_non_null(credential_cache_find(cache, 0, "r.io/b", 0));
}

TEST(test_cache_is_bounded) {
        cleanup(credential_cache_free_p) CredentialCache *cache = NULL;
        char name[32];

        assert_ok(credential_cache_new(3, &cache));
        for (uint64_t i = 0; i < 10; i++) {
                snprintf(name, sizeof(name), "r.io/%d", (int) i);
                put(cache, 0, CREDENTIAL_SCOPE_IMAGE, name, 0, i == 1 ? 1000 : 100 + i);
                assert_true(credential_cache_count(cache) <= 3);
        }
        assert_non_null(credential_cache_find(cache, 0, "r.io/1", 0));
        assert_non_null(credential_cache_find(cache, 0, "r.io/9", 0));
        assert_null(credential_cache_find(cache, 0, "r.io/2", 0));

        credential_cache_purge(cache, 109);
        assert_int_equal(credential_cache_count(cache), 1);
        credential_cache_purge(cache, 1000);
        assert_int_equal(credential_cache_count(cache), 0);
}

/* An answer outlives the cache for those who use it. */
TEST(test_answer_is_shared) {
        CredentialCache *cache;
        CredentialAnswer *answer = make_answer();

        assert_ok(credential_cache_new(1, &cache));
        assert_ok(credential_cache_put(cache, 0, CREDENTIAL_SCOPE_GLOBAL, "a/b", 0, 5, answer));
        credential_cache_free(cache);
        assert_non_null(credential_answer_keyring(answer));
        assert_null(credential_answer_unref(answer));
}
