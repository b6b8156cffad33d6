/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Registry credentials
 */

#include "agent/image/credentials-spec.h"
#include "agent/image/credentials.h"
#include "tests/unit/unit.h"

#define SECRET "hunter2"
#define SECRET_AUTH "Ym9iOmh1bnRlcjI=" /* bob:hunter2 */

DEFINE_CLEANUP(Keyring *, keyring_free)

static Keyring *make_keyring(void) {
        Keyring *keyring;

        assert_ok(keyring_new(&keyring));
        return keyring;
}

static void add(Keyring *keyring, const char *source, const char *text) {
        assert_ok(keyring_add_text(keyring, source, text, strlen(text), NULL));
}

/* The user names that a lookup finds, as "first second ". */
static void print_users(const Keyring *keyring, const char *name, char *to, size_t size) {
        cleanup(credential_list_done) CredentialList list = CREDENTIAL_LIST_INIT;
        size_t n = 0;

        to[0] = '\0';
        assert_ok(keyring_lookup(keyring, name, &list));
        for (size_t i = 0; i < list.n_items; i++)
                n += (size_t) snprintf(to + n, size - n, "%s%s", i ? " " : "",
                                       list.items[i]->username);
        assert_true(n < size);
}

#define LABEL_64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define LABEL_256 LABEL_64 LABEL_64 LABEL_64 LABEL_64

/* clang-format off */

/* Keys of entries, whose user is called like its place in this list; an image; who is tried. */
static const struct Match {
        const char *keys[5];
        const char *name;
        const char *users;
} matches[] = {
        { { "reg.example.com" },                 "reg.example.com/a",           "0" },
        { { "https://reg.example.com" },         "reg.example.com/a",           "0" },
        { { "http://reg.example.com/" },         "reg.example.com/a",           "0" },
        { { "https://reg.example.com/v1/" },     "reg.example.com/a",           "0" },
        { { "https://reg.example.com/v2/" },     "reg.example.com/a",           "0" },
        { { "reg.example.com/v2/team" },         "reg.example.com/team/a",      "0" },
        { { "reg.example.com/v2" },              "reg.example.com/a",           ""  },
        { { "reg.example.com/v2" },              "reg.example.com/v2/a",        "0" },
        { { "https://reg.example.com/?a=b#c" },  "reg.example.com/a",           "0" },
        { { "https://me:pw@reg.example.com/x" }, "reg.example.com/x",           "0" },
        { { "ftp://reg.example.com" },           "reg.example.com/a",           ""  },
        { { "" },                                "reg.example.com/a",           ""  },
        { { "https://" },                        "reg.example.com/a",           ""  },

        { { "example.com" },                     "reg.example.com/a",           ""  },
        { { "*.example.com" },                   "reg.example.com/a",           "0" },
        { { "*.example.com" },                   "example.com/a",               ""  },
        { { "*.example.com" },                   "a.reg.example.com/a",         ""  },
        { { "*.*.example.com" },                 "a.reg.example.com/a",         "0" },
        { { "r*g.*ple.com" },                    "reg.example.com/a",           "0" },
        { { "r?g.example.com" },                 "reg.example.com/a",           ""  }, /* as in a URL */
        { { "r[a-f]g.example.[cd]om" },          "reg.example.com/a",           "0" },
        { { "r[!a-f]g.example.com" },            "reg.example.com/a",           ""  },
        { { "*" },                               "localhost/a",                 "0" },
        { { "*" },                               "reg.example.com/a",           ""  },
        { { "reg.example.com." },                "reg.example.com/a",           ""  },
        { { "[" },                               "reg.example.com/a",           ""  },
        { { LABEL_256 ".example.com" },          "reg.example.com/a",           ""  }, /* longer than any name */

        { { "reg.example.com" },                 "reg.example.com:5000/a",      ""  },
        { { "reg.example.com:5000" },            "reg.example.com:5000/a",      "0" },
        { { "reg.example.com:5000" },            "reg.example.com/a",           ""  },
        { { "reg.example.com:5000" },            "reg.example.com:5001/a",      ""  },
        { { "*.example.com:5000/team" },         "reg.example.com:5000/team/a", "0" },
        { { "[::1]:5000" },                      "[::1]:5000/a",                "0" },
        { { "[::1]" },                           "[::1]/a",                     "0" },
        { { "[::1]" },                           "[::1]:5000/a",                ""  },
        { { "127.0.0.1:5000" },                  "127.0.0.1:5000/a",            "0" },
        { { "localhost:5000" },                  "localhost:5000/a",            "0" },

        { { "reg.example.com/team" },            "reg.example.com/team/a",      "0" },
        { { "reg.example.com/team" },            "reg.example.com/teams/a",     "0" },
        { { "reg.example.com/team" },            "reg.example.com/other/a",     ""  },
        { { "reg.example.com/team/" },           "reg.example.com/team/a",      "0" },
        { { "reg.example.com/team/" },           "reg.example.com/teams/a",     ""  },
        { { "reg.example.com/*" },               "reg.example.com/team/a",      ""  },

        { { "reg.example.com", "reg.example.com/team", "reg.example.com/team/a", "*.example.com", "other.example.com" },
                                                 "reg.example.com/team/a",      "2 1 0 3" },
        { { "reg.example.com", "https://reg.example.com/v2/", "http://reg.example.com" },
                                                 "reg.example.com/a",           "0 1 2" },

        { { "https://index.docker.io/v1/" },     "docker.io/library/nginx",     "0" },
        { { "index.docker.io" },                 "docker.io/team/app",          "0" },
        { { "docker.io" },                       "docker.io/library/nginx",     "0" },
        { { "https://index.docker.io/v1/", "docker.io/team" },
                                                 "docker.io/team/app",          "1" },
        { { "https://index.docker.io/v1/", "index.docker.io" },
                                                 "docker.io/team/app",          "0 1" },
        { { "https://index.docker.io/v1/", "docker.io/team" },
                                                 "docker.io/library/nginx",     "0" },
        { { "index.docker.io/team" },            "docker.io/team/app",          ""  },
        { { "https://index.docker.io/v1/" },     "quay.io/library/nginx",       ""  },
        { { "https://index.docker.io/v1/" },     "localhost/nginx",             ""  },
        { { "https://index.docker.io/v1/" },     "docker.io:443/library/nginx", ""  },
};

static const struct Entry {
        const char *text;
        const char *username;
        const char *password;
        const char *identity_token;
        const char *registry_token;
} entries[] = {
        { "{\"auths\":{\"r.io\":{\"username\":\"u\",\"password\":\"p\"}}}",             "u", "p", NULL, NULL },
        { "{\"r.io\":{\"username\":\"u\",\"password\":\"p\",\"email\":\"e\"}}",         "u", "p", NULL, NULL },
        { "{\"auths\":{\"r.io\":{\"auth\":\"dTpw\"}}}",                                 "u", "p", NULL, NULL },
        { "{\"r.io\":{\"auth\":\"dTpwdw==\"}}",                                         "u", "pw", NULL, NULL },
        { "{\"r.io\":{\"auth\":\"dTpwdw\"}}",                                           "u", "pw", NULL, NULL },
        { "{\"r.io\":{\"auth\":\"dTpwOnc=\"}}",                                         "u", "p:w", NULL, NULL },
        { "{\"r.io\":{\"auth\":\"dTo=\"}}",                                             "u", NULL, NULL, NULL },
        { "{\"r.io\":{\"auth\":\"dTpwAAA=\"}}",                                         "u", "p", NULL, NULL },
        { "{\"r.io\":{\"auth\":\"dTpw\",\"username\":\"x\",\"password\":\"y\"}}",       "u", "p", NULL, NULL },
        { "{\"r.io\":{\"auth\":\"\",\"username\":\"x\",\"password\":\"y\"}}",           "x", "y", NULL, NULL },
        { "{\"r.io\":{\"auth\":null,\"username\":\"x\",\"password\":null}}",            "x", NULL, NULL, NULL },
        { "{\"r.io\":{\"Username\":\"x\",\"identityToken\":\"t\"}}",                    "x", NULL, "t", NULL },
        { "{\"auths\":{\"r.io\":{\"registrytoken\":\"t\"}},\"credsStore\":\"desktop\"}", NULL, NULL, NULL, "t" },
        { "{\"r.io\":{\"password\":\"p\\u00e9\"}}",                                     NULL, "p\303\251", NULL, NULL },
        { " \n{\"r.io\":{\"password\":\"p\"}} \n",                                      NULL, "p", NULL, NULL },
};

/* Texts that are right and have no credentials in them. */
static const char *const nothing[] = {
        "", "{}", "{\"auths\":{}}", "{\"auths\":null}", "{\"auths\":{\"r.io\":{}}}",
        "{\"auths\":{\"r.io\":null}}", "{\"r.io\":{\"auth\":\"\"}}",
        "{\"auths\":{\"https://index.docker.io/v1/\":{}},\"credsStore\":\"desktop\"}",
};

static const struct Refusal {
        const char *text;
        const char *words;
} refusals[] = {
        { " ",                                                                 "it ends too early" },
        { "{\"r.io\":{\"password\":\"" SECRET "\"",                            "it ends too early" },
        { "{\"r.io\":{\"password\":\"" SECRET "\"}} x",                        "not valid JSON at byte" },
        { "{\"r.io\":{\"password\":" SECRET "}}",                              "not valid JSON at byte 20" },
        { "{\"r.io\":{'password':'" SECRET "'}}",                              "not valid JSON at byte" },
        { "{\"r.io\":{\"password\":\"" SECRET "\377\"}}",                      "not valid JSON at byte" },
        { "[\"" SECRET "\"]",                                                  "not a JSON object" },
        { "\"" SECRET "\"",                                                    "not a JSON object" },
        { "null ",                                                             "not a JSON object" },
        { "{\"auths\":\"" SECRET "\"}",                                        "\"auths\" is not an object" },
        { "{\"auths\":[\"" SECRET "\"]}",                                      "\"auths\" is not an object" },
        { "{\"auths\":{\"r.io\":\"" SECRET "\"}}",                             "the entry \"r.io\" is not an object" },
        { "{\"r.io\":\"" SECRET "\"}",                                         "the entry \"r.io\" is not an object" },
        { "{\"r.io\":{\"password\":[\"" SECRET "\"]}}",                        "the field \"password\" of \"r.io\" is not a string" },
        { "{\"r.io\":{\"username\":1,\"password\":\"" SECRET "\"}}",           "the field \"username\" of \"r.io\" is not a string" },
        { "{\"r.io\":{\"auth\":{\"x\":\"" SECRET "\"}}}",                      "the field \"auth\" of \"r.io\" is not a string" },
        { "{\"r.io\":{\"password\":\"" SECRET "\\u0000\"}}",                   "has a NUL" },
        { "{\"r.io\":{\"auth\":\"" SECRET "!\"}}",                             "the field \"auth\" of \"r.io\" is not base64" },
        { "{\"r.io\":{\"auth\":\"" SECRET_AUTH "x\"}}",                        "the field \"auth\" of \"r.io\" is not base64" },
        { "{\"r.io\":{\"auth\":\"aHVudGVyMg==\"}}",                            "is not base64 of \"username:password\"" },
        { "{\"r.io\":{\"auth\":\"AAA=\"}}",                                    "is not base64 of \"username:password\"" },
        { "{\"r.io\":{\"auth\":\"dQA6cA==\"}}",                                "is not base64 of \"username:password\"" },
        { "{\"https://me:" SECRET "@r.io\":{\"auth\":1}}",                     "the field \"auth\" of \"r.io\" is not a string" },
        { "{\"good.io\":{\"auth\":\"dTpw\"},\"r.io\":{\"auth\":\"!\"}}",       "of \"r.io\" is not base64" },
        { "{\"credsStore\":\"desktop\"}",                                      "kept by a helper program" },
        { "{\"credHelpers\":{\"gcr.io\":\"gcloud\"}}",                         "kept by a helper program" },
        { "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",                 "not valid JSON at byte 1" },
};
/* clang-format on */

TEST_ROWS(test_match, matches, name, const struct Match *match) {
        cleanup(keyring_free_p) Keyring *keyring = make_keyring();
        char text[512] = "{\"auths\":{", users[64];

        for (size_t i = 0; i < 5 && match->keys[i]; i++)
                snprintf(text + strlen(text), sizeof(text) - strlen(text),
                         "%s\"%s\":{\"username\":\"%zu\",\"password\":\"p\"}", i ? "," : "",
                         match->keys[i], i);
        strcat(text, "}}");
        add(keyring, "test", text);

        print_users(keyring, match->name, users, sizeof(users));
        if (strcmp(users, match->users) != 0)
                fail_msg("%s for %s finds '%s', not '%s'", text, match->name, users, match->users);
}

static void assert_same(const char *text, const char *expected) {
        if (!expected)
                assert_null(text);
        else
                assert_string_equal(text, expected);
}

TEST_ROWS(test_entry, entries, text, const struct Entry *entry) {
        cleanup(credential_list_done) CredentialList list = CREDENTIAL_LIST_INIT;
        cleanup(keyring_free_p) Keyring *keyring = make_keyring();

        add(keyring, "test.json", entry->text);
        assert_ok(keyring_lookup(keyring, "r.io/a", &list));
        assert_int_equal(list.n_items, 1);
        assert_same(list.items[0]->username, entry->username);
        assert_same(list.items[0]->password, entry->password);
        assert_same(list.items[0]->identity_token, entry->identity_token);
        assert_same(list.items[0]->registry_token, entry->registry_token);
        assert_string_equal(list.items[0]->source, "test.json");
}

TEST(test_nothing) {
        for (size_t i = 0; i < N_ELEMENTS(nothing); i++) {
                cleanup(credentials_spec_done) CredentialsSpec spec = CREDENTIALS_SPEC_INIT;

                assert_ok(credentials_spec_parse(nothing[i], strlen(nothing[i]), &spec, NULL));
                assert_int_equal(spec.n_entries, 0);
        }
}

TEST_ROWS(test_refusal, refusals, text, const struct Refusal *refusal) {
        cleanup(keyring_free_p) Keyring *keyring = make_keyring();
        cleanup(error_done) Error error = ERROR_INIT;
        char users[64];
        int r;

        r = keyring_add_text(keyring, "my\nfile", refusal->text, strlen(refusal->text), &error);
        assert_true(r < 0);
        assert_int_equal(error.kind, ERROR_INVALID);
        if (!strstr(error_message(&error), refusal->words))
                fail_msg("'%s' does not contain '%s'", error_message(&error), refusal->words);

        assert_ptr_equal(strstr(error_message(&error), "credentials \"my?file\": "),
                         error_message(&error));
        assert_null(strstr(error_message(&error), SECRET));
        assert_null(strstr(error_message(&error), SECRET_AUTH));
        assert_null(strchr(error_message(&error), '\n'));

        print_users(keyring, "good.io/a", users, sizeof(users));
        assert_string_equal(users, "");
}

/* In several sources, insertion order holds within a key, and a refusal touches no other source. */
TEST(test_sources) {
        cleanup(credential_list_done) CredentialList list = CREDENTIAL_LIST_INIT;
        cleanup(keyring_free_p) Keyring *keyring = make_keyring();

        add(keyring, "one", "{\"r.io\":{\"auth\":\"YTpw\"}}");
        add(keyring, "two",
            "{\"r.io/x\":{\"auth\":\"Yjpw\"},\"https://r.io\":{\"auth\":\"Yzpw\"}}");
        assert_true(keyring_add_text(keyring, "bad", "{\"r.io\":{\"auth\":\"ZDpw\"},", 26, NULL) <
                    0);
        add(keyring, "three", "{\"r.io\":{\"auth\":\"ZTpw\"}}");

        assert_ok(keyring_lookup(keyring, "r.io/x/y", &list));
        assert_int_equal(list.n_items, 4);
        assert_string_equal(list.items[0]->username, "b");
        assert_string_equal(list.items[0]->source, "two");
        assert_string_equal(list.items[1]->username, "a");
        assert_string_equal(list.items[1]->source, "one");
        assert_string_equal(list.items[2]->username, "c");
        assert_string_equal(list.items[2]->source, "two");
        assert_string_equal(list.items[3]->username, "e");
        assert_string_equal(list.items[3]->source, "three");
}

/* A copy has the same order, and stays when its source is gone. */
TEST(test_copy) {
        cleanup(credential_list_done) CredentialList list = CREDENTIAL_LIST_INIT;
        cleanup(keyring_free_p) Keyring *keyring = make_keyring();
        Keyring *other = make_keyring();

        add(keyring, "own", "{\"r.io\":{\"auth\":\"YTpw\"}}");
        add(other, "one", "{\"r.io\":{\"auth\":\"Yjpw\",\"identitytoken\":\"t\"}}");
        add(other, "two",
            "{\"r.io/x\":{\"registrytoken\":\"k\",\"username\":\"c\"},"
            "\"r.io\":{\"auth\":\"ZDpw\"}}");
        assert_ok(keyring_add_all(keyring, other));
        keyring_free(other);

        assert_ok(keyring_lookup(keyring, "r.io/x/y", &list));
        assert_int_equal(list.n_items, 4);
        assert_string_equal(list.items[0]->username, "c");
        assert_string_equal(list.items[0]->registry_token, "k");
        assert_null(list.items[0]->password);
        assert_string_equal(list.items[1]->source, "own");
        assert_string_equal(list.items[2]->username, "b");
        assert_string_equal(list.items[2]->identity_token, "t");
        assert_string_equal(list.items[2]->source, "one");
        assert_string_equal(list.items[3]->username, "d");
        assert_string_equal(list.items[3]->source, "two");
}

/* A file that can only be a config.json may be good for other things than credentials. */
TEST(test_config_only) {
        static const char *const without[] = { "{\"psFormat\":\"table\"}",
                                               "{\"proxies\":{\"default\":{\"username\":\"u\"}}}",
                                               "{\"auths\":null}", "" };
        static const char with[] =
                "{\"psFormat\":\"table\",\"auths\":{\"r.io\":{\"auth\":\"dTpw\"}}}";
        cleanup(credentials_spec_done) CredentialsSpec spec = CREDENTIALS_SPEC_INIT;

        for (size_t i = 0; i < N_ELEMENTS(without); i++) {
                assert_ok(
                        credentials_spec_parse_config(without[i], strlen(without[i]), &spec, NULL));
                assert_int_equal(spec.n_entries, 0);
                credentials_spec_done(&spec);
        }

        assert_ok(credentials_spec_parse_config(with, strlen(with), &spec, NULL));
        assert_int_equal(spec.n_entries, 1);
        assert_string_equal(spec.entries[0].username, "u");
}

/* Credentials that were found stay at their address when more are added. */
TEST(test_found_stays) {
        cleanup(credential_list_done) CredentialList list = CREDENTIAL_LIST_INIT;
        cleanup(keyring_free_p) Keyring *keyring = make_keyring();

        add(keyring, "one", "{\"r.io\":{\"auth\":\"YTpw\"}}");
        assert_ok(keyring_lookup(keyring, "r.io/a", &list));
        for (size_t i = 0; i < 100; i++)
                add(keyring, "more", "{\"r.io\":{\"auth\":\"Yjpw\"}}");

        assert_string_equal(list.items[0]->username, "a");
        assert_string_equal(list.items[0]->source, "one");
}

/* Two keyrings, one after the other, into one list. */
TEST(test_lookup_appends) {
        cleanup(credential_list_done) CredentialList list = CREDENTIAL_LIST_INIT;
        cleanup(keyring_free_p) Keyring *first = make_keyring();
        cleanup(keyring_free_p) Keyring *second = make_keyring();

        add(first, "one", "{\"docker.io\":{\"auth\":\"YTpw\"}}");
        add(second, "two", "{\"index.docker.io\":{\"auth\":\"Yjpw\"}}");
        assert_ok(keyring_lookup(first, "docker.io/library/nginx", &list));
        assert_ok(keyring_lookup(second, "docker.io/library/nginx", &list));
        assert_int_equal(list.n_items, 2);
        assert_string_equal(list.items[1]->username, "b");
}

TEST(test_too_large) {
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(credentials_spec_done) CredentialsSpec spec = CREDENTIALS_SPEC_INIT;
        cleanup(free_p) char *text = malloc(CREDENTIALS_SIZE_MAX + 1);

        assert_non_null(text);
        memset(text, ' ', CREDENTIALS_SIZE_MAX + 1);
        text[0] = '{';
        text[CREDENTIALS_SIZE_MAX - 1] = '}';
        assert_ok(credentials_spec_parse(text, CREDENTIALS_SIZE_MAX, &spec, NULL));
        assert_true(credentials_spec_parse(text, CREDENTIALS_SIZE_MAX + 1, &spec, &error) < 0);
        assert_string_equal(error_message(&error), "larger than 1048576 bytes");
}

TEST(test_embedded_nul) {
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(credentials_spec_done) CredentialsSpec spec = CREDENTIALS_SPEC_INIT;
        static const char text[] = "{}\0{\"r.io\":1}";

        assert_true(credentials_spec_parse(text, sizeof(text) - 1, &spec, &error) < 0);
        assert_string_equal(error_message(&error), "not valid JSON: it has a NUL");
}

/* Names of entries may have a password in them, too. */
TEST(test_unknown_keys) {
        cleanup(unknown_keys_done) UnknownKeys unknown = UNKNOWN_KEYS_INIT;
        static const char text[] = "{\"auths\":{\"https://me:" SECRET "@r.io\":"
                                   "{\"pasword\":\"" SECRET "\",\"" SECRET "\":1}}}";

        assert_ok(credentials_spec_check_keys(text, strlen(text), &unknown));
        assert_int_equal(unknown.n_texts, 2);
        for (size_t i = 0; i < unknown.n_texts; i++)
                assert_null(strstr(unknown.texts[i], SECRET));
}

TEST(test_empty_entries) {
        static const struct {
                const char *text, *words;
        } rows[] = {
                { "{\"auths\":{\"r.io\":{}}}", "the entry \"r.io\" holds no credentials: write" },
                { "{\"auths\":{\"r.io\":null}}", "the entry \"r.io\" holds no credentials: write" },
                { "{\"auths\":{\"r.io\":{}},\"credHelpers\":{\"r.io\":\"gcloud\"}}",
                  "the entry \"r.io\" holds no credentials: a helper" },
                { "{\"auths\":{\"r.io\":{\"auth\":\"dTpw\"}}}", NULL },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                cleanup(unknown_keys_done) UnknownKeys unknown = UNKNOWN_KEYS_INIT;

                assert_ok(
                        credentials_spec_check_keys(rows[i].text, strlen(rows[i].text), &unknown));
                assert_int_equal(unknown.n_texts, rows[i].words ? 1 : 0);
                if (rows[i].words)
                        assert_contains(unknown.texts[0], rows[i].words);
        }
}

/* As many entries as fit, all for the same host, and a pattern made to be slow. */
TEST(test_many_entries) {
        cleanup(credential_list_done) CredentialList list = CREDENTIAL_LIST_INIT;
        cleanup(keyring_free_p) Keyring *keyring = make_keyring();
        cleanup(free_p) char *text = malloc(CREDENTIALS_SIZE_MAX);
        size_t n = 0, n_entries = 10000;

        assert_non_null(text);
        n += (size_t) sprintf(text, "{");
        for (size_t i = 0; i < n_entries; i++)
                n += (size_t) sprintf(text + n, "%s\"*a*a*a*a*a*a*a*a*b/%zu\":{\"auth\":\"dTpw\"}",
                                      i ? "," : "", i);
        n += (size_t) sprintf(text + n, ",\"r\":{\"auth\":\"dTpw\"}}");

        assert_ok(keyring_add_text(keyring, "many", text, n, NULL));
        assert_ok(keyring_lookup(keyring, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/1", &list));
        assert_int_equal(list.n_items, 0);
        assert_ok(keyring_lookup(keyring, "aaaaaaaaaaaaaaaaaaaaaaaaaaab/77", &list));
        assert_int_equal(list.n_items, 2); /* "/7" and "/77" */
}
