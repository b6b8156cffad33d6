/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Credential provider plugins, real programs, and what becomes of their answers
 *
 * Each plugin writes a line to the file "runs" and a byte to the pipe "started". One that is called
 * "slow" then waits until a test writes a line to the pipe "gate". All answer with what is in the
 * file of their name.
 */

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/auth/credential-providers.h"
#include "tests/unit/stderr-capture.h"
#include "tests/unit/scratch-folder.h"
#include "tests/unit/unit.h"

#define SECRET "hunter2"
#define V1 "credentialprovider.kubelet.k8s.io/v1"
#define ANSWER(user, scope, more)                                                            \
        "{\"kind\":\"CredentialProviderResponse\",\"apiVersion\":\"" V1                      \
        "\",\"cacheKeyType\":\"" scope "\"," more "\"auth\":{\"*.io\":{\"username\":\"" user \
        "\",\"password\":\"" SECRET "\"}}}"

typedef struct Fixture {
        char folder[64];
        sd_event *event;
        Log *log;
        CredentialProviders *providers;
        int gate; /* holds both ends open */
        int started;
} Fixture;

/* A caller, and the answer that it got. */
typedef struct Question {
        CredentialProvidersAsk *ask;
        unsigned n_answers;
        bool drops_itself;
        char users[128];
        char error[512];
} Question;

static void path_of(const Fixture *fixture, const char *name, char path[static 256]) {
        assert_true(snprintf(path, 256, "%s/%s", fixture->folder, name) < 256);
}

static void read_file(const Fixture *fixture, const char *name, char *to, size_t size) {
        char path[256];
        FILE *file;

        path_of(fixture, name, path);
        file = fopen(path, "re");
        to[0] = '\0';
        if (!file)
                return;
        to[fread(to, 1, size - 1, file)] = '\0';
        fclose(file);
}

static void write_plugin(const Fixture *fixture, const char *name, const char *before) {
        char text[1024], file[64];

        snprintf(file, sizeof(file), "bin/%s", name);
        snprintf(text, sizeof(text),
                 "#!/bin/sh\ncd %s\necho \"%s $* $VARIABLE\" >> runs\nexec 3>>started\n"
                 "echo >&3\ncat > %s.request\n%s\nexec cat %s\n",
                 fixture->folder, name, name, before, name);
        scratch_write(fixture->folder, file, text);
}

static int open_pipe(const Fixture *fixture, const char *name) {
        char path[256];
        int fd;

        path_of(fixture, name, path);
        assert_ok(mkfifo(path, 0600));
        fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
        assert_true(fd >= 0);
        return fd;
}

static void open_fixture(Fixture *fixture) {
        scratch_make(fixture->folder);
        scratch_folder(fixture->folder, "bin");
        fixture->gate = open_pipe(fixture, "gate");
        fixture->started = open_pipe(fixture, "started");
        write_plugin(fixture, "quick", "");
        write_plugin(fixture, "slow", "read line < gate");

        assert_true(sd_event_new(&fixture->event) >= 0);
        assert_ok(log_new(LOG_FORMAT_TEXT, LOG_DEBUG, &fixture->log));
}

static void close_fixture(Fixture *fixture) {
        credential_providers_free(fixture->providers);
        log_free(fixture->log);
        sd_event_unref(fixture->event);
        close(fixture->gate);
        close(fixture->started);
        remove_tree(fixture->folder);
}

DEFINE_FIXTURE(Fixture, open_fixture, close_fixture)

#define PLUGIN(name, images, keep, more)                               \
        "- {name: " name ", apiVersion: " V1 ", matchImages: [" images \
        "], defaultCacheDuration: " keep more "}\n"

static void write_config(Fixture *fixture, const char *plugins) {
        char text[2048];

        snprintf(text, sizeof(text),
                 "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\n"
                 "providers:\n%s",
                 plugins);
        scratch_write(fixture->folder, "config.yaml", text);
}

/* plugins: NULL if there is no file. */
static int configure(Fixture *fixture, const char *plugins, Error *reterr) {
        char config[256], bin[256];

        if (plugins)
                write_config(fixture, plugins);
        path_of(fixture, "config.yaml", config);
        path_of(fixture, "bin", bin);
        return credential_providers_new(fixture->event, fixture->log, config, bin,
                                        &fixture->providers, reterr);
}

static void start(Fixture *fixture, const char *plugins) {
        assert_ok(configure(fixture, plugins, NULL));
}

static int on_ready(const Keyring *keyring, const Error *error, void *userdata) {
        cleanup(credential_list_done) CredentialList list = CREDENTIAL_LIST_INIT;
        Question *question = userdata;
        size_t n = 0;

        if (question->drops_itself)
                question->ask = credential_providers_ask_unref(question->ask);

        question->n_answers++;
        question->users[0] = '\0';
        assert_ok(keyring_lookup(keyring, "r.io/a", &list));
        for (size_t i = 0; i < list.n_items; i++)
                n += (size_t) snprintf(question->users + n, sizeof(question->users) - n, "%s%s",
                                       i ? " " : "", list.items[i]->username);
        snprintf(question->error, sizeof(question->error), "%s", error ? error_message(error) : "");
        return 0;
}

static void ask_for(Fixture *fixture, const char *image, bool must_be_fresh, Question *question) {
        question->ask = credential_providers_ask_unref(question->ask);
        question->n_answers = 0;
        assert_ok(credential_providers_ask(fixture->providers, image, must_be_fresh, on_ready,
                                           question, &question->ask));
        assert_int_equal(question->n_answers, 0);
}

static void turn(Fixture *fixture) {
        assert_true(sd_event_run(fixture->event, WAIT_USEC) > 0);
}

static void wait_for(Fixture *fixture, Question *question) {
        while (question->n_answers == 0)
                turn(fixture);
        question->ask = credential_providers_ask_unref(question->ask);
        assert_int_equal(question->n_answers, 1);
}

/* Asks and waits for the users. */
static void expect(Fixture *fixture, const char *image, bool must_be_fresh, const char *users) {
        Question question = { .n_answers = 0 };

        ask_for(fixture, image, must_be_fresh, &question);
        wait_for(fixture, &question);
        assert_string_equal(question.users, users);
        assert_string_equal(question.error, "");
}

static unsigned count_runs(const Fixture *fixture) {
        char text[4096];
        unsigned n = 0;

        read_file(fixture, "runs", text, sizeof(text));
        for (const char *at = text; (at = strchr(at, '\n')); at++)
                n++;
        return n;
}

/* Blocks until so many more plugins run. */
static void wait_started(const Fixture *fixture, size_t n) {
        while (n > 0) {
                struct pollfd poll_fd = { .fd = fixture->started, .events = POLLIN };
                char text[16];
                ssize_t size;

                assert_int_equal(poll(&poll_fd, 1, (int) (WAIT_USEC / 1000)), 1);
                size = read(fixture->started, text, n < sizeof(text) ? n : sizeof(text));
                assert_true(size > 0);
                n -= (size_t) size;
        }
}

static void open_gate(const Fixture *fixture, unsigned n) {
        for (unsigned i = 0; i < n; i++)
                assert_int_equal(write(fixture->gate, "\n", 1), 1);
}

static unsigned count_children(void) {
        char text[4096];
        FILE *file = fopen("/proc/thread-self/children", "re");
        unsigned n = 0;

        assert_non_null(file);
        text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
        fclose(file);
        for (const char *at = text; (at = strchr(at, ' ')); at++)
                n++;
        return n;
}

TEST_F(test_no_config, Fixture *fixture) {
        assert_ok(credential_providers_new(fixture->event, fixture->log, "/nowhere/config",
                                           "/nowhere", &fixture->providers, NULL));
        expect(fixture, "r.io/a", false, "");
}

/* The node may write the file after the agent was started. */
TEST_F(test_late_config, Fixture *fixture) {
        start(fixture, NULL);
        expect(fixture, "r.io/a", false, "");

        write_config(fixture, PLUGIN("quick", "r.io", "1h", ""));
        scratch_write(fixture->folder, "quick", ANSWER("q", "Image", ""));
        expect(fixture, "r.io/a", false, "q");
}

/* A configuration is used once it is corrected, and not in part before. */
TEST_F(test_bad_config, Fixture *fixture) {
        cleanup(error_done) Error error = ERROR_INIT;

        scratch_write(fixture->folder, "quick", ANSWER("q", "Image", ""));
        assert_ok(configure(fixture,
                            PLUGIN("quick", "r.io", "1h", "") PLUGIN("a/b", "r.io", "1h", ""),
                            &error));
        assert_contains(error_message(&error), "config.yaml: providers[1].name: ");
        expect(fixture, "r.io/a", false, "");

        write_config(fixture, PLUGIN("quick", "r.io", "1h", ""));
        expect(fixture, "r.io/a", false, "q");
}

#define CONFIG(plugins) \
        "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n" plugins

static const struct FolderRow {
        const char *first; /* text of config.d/10.yml */
        const char *message;
} folder_rows[] = {
        { CONFIG(PLUGIN("quick", "r.io", "1h", "")), NULL },
        { CONFIG(PLUGIN("slow", "r.io", "1h", "")), "9.yaml: the plugin slow is given in another" },
        { CONFIG(PLUGIN("a/b", "r.io", "1h", "")), "10.yml: providers[0].name: " },
        { NULL, "config.d: no file *.json, *.yaml or *.yml" },
};

/* A folder of files is as one file, in the order of their names. */
TEST_ROWS_F(test_folder, folder_rows, message, const struct FolderRow *row, Fixture *fixture) {
        cleanup(error_done) Error error = ERROR_INIT;
        char config[256], bin[256];

        scratch_folder(fixture->folder, "config.d");
        scratch_write(fixture->folder, "config.d/note", "no configuration");
        if (row->first) {
                scratch_write(fixture->folder, "config.d/10.yml", row->first);
                scratch_write(fixture->folder, "config.d/9.yaml",
                              CONFIG(PLUGIN("slow", "r.io", "1h", "")));
        }
        path_of(fixture, "config.d", config);
        path_of(fixture, "bin", bin);
        assert_ok(credential_providers_new(fixture->event, fixture->log, config, bin,
                                           &fixture->providers, &error));
        if (row->message) {
                assert_contains(error_message(&error), row->message);
                return;
        }

        assert_int_equal(error.kind, ERROR_NONE);
        scratch_write(fixture->folder, "quick", ANSWER("q", "Image", ""));
        scratch_write(fixture->folder, "slow", ANSWER("s", "Image", ""));
        assert_int_equal(write(fixture->gate, "\n", 1), 1);
        expect(fixture, "r.io/a", false, "q s");
        fixture->providers = credential_providers_free(fixture->providers);
}

TEST_F(test_answer, Fixture *fixture) {
        char text[1024];

        scratch_write(fixture->folder, "quick", ANSWER("u", "Image", ""));
        start(fixture, PLUGIN("quick", "r.io", "1h",
                              ", args: [one, 'two three'], env: [{name: VARIABLE, value: v}]"));

        expect(fixture, "r.io/a", false, "u");
        read_file(fixture, "runs", text, sizeof(text));
        assert_string_equal(text, "quick one two three v\n");
        read_file(fixture, "quick.request", text, sizeof(text));
        assert_string_equal(text, "{\"kind\":\"CredentialProviderRequest\",\"apiVersion\":\"" V1
                                  "\",\"image\":\"r.io/a\"}");

        expect(fixture, "other.org/a", false, "");
        assert_int_equal(count_runs(fixture), 1);
}

static const struct CacheRow {
        const char *answer;
        unsigned n_runs[4]; /* behind r.io/a, r.io/a, r.io/b, s.io/a */
} cache_rows[] = {
        { ANSWER("u", "Image", ""), { 1, 1, 2, 3 } },
        { ANSWER("u", "Registry", ""), { 1, 1, 1, 2 } },
        { ANSWER("u", "Global", ""), { 1, 1, 1, 1 } },
        { ANSWER("u", "Global", "\"cacheDuration\":\"0s\","), { 1, 2, 3, 4 } },
        { ANSWER("u", "Global", "\"cacheDuration\":\"1h\","), { 1, 1, 1, 1 } },
};

/* An answer is kept for an image, a registry, or all images, and for as long as it says. */
TEST_ROWS_F(test_cache, cache_rows, answer, const struct CacheRow *row, Fixture *fixture) {
        static const char *const images[] = { "r.io/a", "r.io/a", "r.io/b", "s.io/a" };

        scratch_write(fixture->folder, "quick", row->answer);
        scratch_write(fixture->folder, "runs", "");
        start(fixture, PLUGIN("quick", "'*.io'", "1h", ""));
        for (size_t k = 0; k < 4; k++) {
                expect(fixture, images[k], false, "u");
                assert_int_equal(count_runs(fixture), row->n_runs[k]);
        }
        fixture->providers = credential_providers_free(fixture->providers);
}

TEST_F(test_default_of_nothing, Fixture *fixture) {
        scratch_write(fixture->folder, "quick", ANSWER("u", "Image", ""));
        start(fixture, PLUGIN("quick", "r.io", "0s", ""));
        expect(fixture, "r.io/a", false, "u");
        expect(fixture, "r.io/a", false, "u");
        assert_int_equal(count_runs(fixture), 2);
}

TEST_F(test_fresh, Fixture *fixture) {
        scratch_write(fixture->folder, "quick", ANSWER("old", "Registry", ""));
        start(fixture, PLUGIN("quick", "r.io", "1h", ""));
        expect(fixture, "r.io/a", false, "old");
        scratch_write(fixture->folder, "quick", ANSWER("new", "Registry", ""));
        expect(fixture, "r.io/a", false, "old");
        expect(fixture, "r.io/a", true, "new");
        expect(fixture, "r.io/b", false, "new");
        assert_int_equal(count_runs(fixture), 2);
}

TEST_F(test_two_plugins, Fixture *fixture) {
        write_plugin(fixture, "second", "");
        scratch_write(fixture->folder, "quick", ANSWER("first", "Image", ""));
        scratch_write(fixture->folder, "second", ANSWER("second", "Image", ""));
        start(fixture, PLUGIN("quick", "'*.io'", "1h", "") PLUGIN("missing", "other.io", "1h", "")
                               PLUGIN("second", "r.io", "1h", ""));
        expect(fixture, "r.io/a", false, "first second");
        expect(fixture, "r.io/b", false, "first second");
        assert_int_equal(count_runs(fixture), 4);
}

TEST_F(test_run_is_shared, Fixture *fixture) {
        Question questions[3] = { { .drops_itself = true }, { .n_answers = 0 } };

        scratch_write(fixture->folder, "slow", ANSWER("u", "Image", "\"cacheDuration\":\"0s\","));
        start(fixture, PLUGIN("slow", "r.io", "0s", ""));
        ask_for(fixture, "r.io/a", false, &questions[0]);
        ask_for(fixture, "r.io/a", true, &questions[1]);
        ask_for(fixture, "r.io/a", false, &questions[2]);
        questions[2].ask = credential_providers_ask_unref(questions[2].ask);
        wait_started(fixture, 1);
        open_gate(fixture, 1);

        wait_for(fixture, &questions[0]);
        wait_for(fixture, &questions[1]);
        assert_string_equal(questions[0].users, "u");
        assert_string_equal(questions[1].users, "u");
        assert_int_equal(questions[2].n_answers, 0);
        assert_int_equal(count_runs(fixture), 1);
}

TEST_F(test_at_most_four, Fixture *fixture) {
        static const char *const images[] = { "r.io/a", "r.io/b", "r.io/c",
                                              "r.io/d", "r.io/e", "r.io/f" };
        Question questions[6] = { { .n_answers = 0 } };
        unsigned n_before = count_children();

        scratch_write(fixture->folder, "slow", ANSWER("u", "Image", ""));
        start(fixture, PLUGIN("slow", "r.io", "1h", ""));
        for (size_t i = 0; i < 6; i++)
                ask_for(fixture, images[i], false, &questions[i]);
        assert_int_equal(count_children() - n_before, 4);
        wait_started(fixture, 4);

        /* A dropped question that runs makes room for another one; one that waits for its turn does not. */
        questions[5].ask = credential_providers_ask_unref(questions[5].ask);
        questions[0].ask = credential_providers_ask_unref(questions[0].ask);
        turn(fixture); /* the next one begins */
        wait_started(fixture, 1);
        /* a killed program might pass the gate until then */
        while (count_children() - n_before > 4)
                turn(fixture);
        assert_int_equal(count_children() - n_before, 4);

        open_gate(fixture, 4);
        for (size_t i = 1; i < 5; i++)
                wait_for(fixture, &questions[i]);
        assert_int_equal(questions[0].n_answers + questions[5].n_answers, 0);
        assert_int_equal(count_runs(fixture), 5);
}

/* The plugin is ended at once, and does not hold the pipe any more. */
TEST_F(test_drop_kills, Fixture *fixture) {
        Question question = { .n_answers = 0 };
        struct pollfd poll_fd;
        char path[256];
        int reader;

        scratch_write(fixture->folder, "slow", ANSWER("u", "Image", ""));
        start(fixture, PLUGIN("slow", "r.io", "1h", ""));
        ask_for(fixture, "r.io/a", false, &question);
        wait_started(fixture, 1);

        path_of(fixture, "started", path);
        reader = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        close(fixture->started);
        fixture->started = reader;
        poll_fd = (struct pollfd){ .fd = reader };
        assert_ok(poll(&poll_fd, 1, 0));

        question.ask = credential_providers_ask_unref(question.ask);
        assert_int_equal(poll(&poll_fd, 1, (int) (WAIT_USEC / 1000)), 1);
        assert_true(poll_fd.revents & POLLHUP);
        assert_int_equal(question.n_answers, 0);
}

static void expect_failure(Fixture *fixture, const char *users, const char *words) {
        Question question = { .n_answers = 0 };

        ask_for(fixture, "r.io/a", false, &question);
        wait_for(fixture, &question);
        assert_string_equal(question.users, users);
        if (!strstr(question.error, words))
                fail_msg("'%s' does not contain '%s'", question.error, words);
        assert_null(strstr(question.error, SECRET));
}

static unsigned count_words(const char *text, const char *words) {
        unsigned n = 0;

        for (const char *at = text; (at = strstr(at, words)); at++)
                n++;
        return n;
}

/* Reported once, until something is different; the others are not touched. */
TEST_F(test_failures, Fixture *fixture) {
        const char *said;
        Stderr captured;

        write_plugin(fixture, "broken", "echo no token >&2; cat broken; exit 3");
        scratch_write(fixture->folder, "broken", ANSWER("b", "Image", ""));
        scratch_write(fixture->folder, "quick", ANSWER("u", "Image", ""));
        start(fixture, PLUGIN("broken", "r.io", "1h", "") PLUGIN("quick", "r.io", "1h", ""));

        stderr_pipe(&captured);
        expect_failure(fixture, "u", "credential provider broken: ended with status 3");
        expect_failure(fixture, "u", "credential provider broken: ended with status 3");
        write_plugin(fixture, "broken", "");
        scratch_write(fixture->folder, "broken", ANSWER("b", "Nothing", ""));
        expect_failure(fixture, "u", "credential provider broken: its answer is invalid: ");
        expect_failure(fixture, "u", "cacheKeyType: expected");
        scratch_write(fixture->folder, "broken", ANSWER("b", "Image", ""));
        expect(fixture, "r.io/a", false, "b u");
        said = stderr_restore(&captured);

        assert_int_equal(count_words(said, "ended with status 3"), 1);
        assert_int_equal(count_words(said, "cacheKeyType"), 1);
        assert_int_equal(count_words(said, "\"broken\" works again"), 1);
        assert_null(strstr(said, SECRET));
}

TEST_F(test_missing_program, Fixture *fixture) {
        const char *said;
        Stderr captured;

        start(fixture, PLUGIN("missing", "r.io", "1h", ""));
        stderr_pipe(&captured);
        expect_failure(fixture, "", "credential provider missing: cannot be started: ");
        said = stderr_restore(&captured);
        assert_int_equal(count_words(said, "missing"), 1);
}
