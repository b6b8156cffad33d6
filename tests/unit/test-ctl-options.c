/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/ctl/options.h"
#include "tests/unit/unit.h"

#define ARGUMENTS_MAX 16

static int parse(const char *const *words, Options *ret, Error *reterr) {
        char *argv[ARGUMENTS_MAX + 2] = { "inplacectl" };
        static char *kept[ARGUMENTS_MAX + 2]; /* the options point into it */
        int argc = 1;

        for (; words[argc - 1]; argc++)
                argv[argc] = (char *) words[argc - 1];

        memcpy(kept, argv, sizeof(argv));
        return options_parse(argc, kept, ret, reterr);
}

#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })

TEST(test_defaults) {
        Options options;

        assert_ok(parse(WORDS("status"), &options, NULL));
        assert_string_equal(options.command, "status");
        assert_string_equal(options.socket_path, SOCKET_PATH_DEFAULT);
        assert_int_equal(options.format, OUTPUT_TABLE);
        assert_int_equal(options.n_arguments, 0);
        assert_false(options.always_pull);
        assert_false(options.has_attempts);
        assert_int_equal(options.timeout_sec, 0);
        assert_null(options.misplaced[OPTION_GROUP_NONE]);
}

TEST(test_options_stand_anywhere) {
        Options options;

        assert_ok(parse(WORDS("--socket", "unix:///run/s", "pull", "--timeout=10m", "a", "-o",
                              "json", "b", "--pull-policy", "Always", "--complete", "--pin",
                              "--attempts=0", "--attempt-timeout", "90", "-q"),
                        &options, NULL));
        assert_string_equal(options.socket_path, "/run/s");
        assert_string_equal(options.command, "pull");
        assert_int_equal(options.n_arguments, 2);
        assert_string_equal(options.arguments[0], "a");
        assert_string_equal(options.arguments[1], "b");
        assert_int_equal(options.format, OUTPUT_JSON);
        assert_int_equal(options.timeout_sec, 600);
        assert_int_equal(options.attempt_timeout_sec, 90);
        assert_true(options.has_attempts);
        assert_int_equal(options.n_attempts, 0);
        assert_true(options.always_pull);
        assert_true(options.complete);
        assert_true(options.pin);
        assert_true(options.quiet);
        assert_string_equal(options.misplaced[OPTION_GROUP_NONE], "quiet");
        assert_null(options.misplaced[OPTION_GROUP_PULL]);
        assert_string_equal(options.misplaced[OPTION_GROUP_RESTART], "quiet");

        assert_ok(parse(WORDS("pull", "a", "--attempts", "9"), &options, NULL));
        assert_int_equal(options.n_attempts, 9);
}

/* Other programs of the C library would end at the first argument then. */
TEST(test_posix_environment) {
        Options options;

        assert_int_equal(setenv("POSIXLY_CORRECT", "1", /* replace= */ 1), 0);
        assert_ok(parse(WORDS("pull", "a", "--pin", "b", "--", "--pin"), &options, NULL));
        assert_int_equal(unsetenv("POSIXLY_CORRECT"), 0);
        assert_true(options.pin);
        assert_string_equal(options.command, "pull");
        assert_int_equal(options.n_arguments, 3);
        assert_string_equal(options.arguments[0], "a");
        assert_string_equal(options.arguments[1], "b");
        assert_string_equal(options.arguments[2], "--pin");
        assert_null(options.arguments[3]);
}

TEST(test_without_command) {
        Options options;

        assert_ok(parse(WORDS("--help"), &options, NULL));
        assert_true(options.wants_help);
        assert_null(options.command);
        assert_int_equal(options.n_arguments, 0);
}

TEST(test_case_of_the_policy) {
        Options options;

        assert_ok(parse(WORDS("pull", "--pull-policy=always", "a"), &options, NULL));
        assert_true(options.always_pull);
        assert_ok(parse(WORDS("pull", "--pull-policy=ifnotpresent", "a"), &options, NULL));
        assert_false(options.always_pull);
}

TEST(test_options_of_restart) {
        Options options;

        assert_ok(parse(WORDS("restart", "web/app", "-n", "team", "--wait", "--grace", "5s",
                              "--reason", "new secret", "--timeout=1m"),
                        &options, NULL));
        assert_string_equal(options.namespace, "team");
        assert_true(options.wait && options.has_grace);
        assert_int_equal(options.grace_sec, 5);
        assert_string_equal(options.reason, "new secret");
        assert_int_equal(options.timeout_sec, 60);
        assert_null(options.misplaced[OPTION_GROUP_RESTART]);
        assert_string_equal(options.misplaced[OPTION_GROUP_VERIFY], "timeout");

        assert_ok(parse(WORDS("restart", "web", "--grace=0"), &options, NULL));
        assert_true(options.has_grace);
        assert_int_equal(options.grace_sec, 0);

        assert_ok(parse(WORDS("verify", "--namespace=team"), &options, NULL));
        assert_null(options.misplaced[OPTION_GROUP_VERIFY]);
        assert_string_equal(options.misplaced[OPTION_GROUP_PULL], "namespace");
}

TEST(test_options_are_arguments_after_two_dashes) {
        Options options;

        assert_ok(parse(WORDS("pull", "--", "--quiet"), &options, NULL));
        assert_int_equal(options.n_arguments, 1);
        assert_string_equal(options.arguments[0], "--quiet");
        assert_false(options.quiet);
}

static const struct WrongUsageIsRefusedInWordsRow {
        const char *words[4];
        const char *part; /* part of the message */
} wrong_usage_is_refused_in_words_rows[] = {
        { { "restart", "--grace=99h" }, "--grace: \"99h\" is longer than 24h" },
        { { "pull", "--deadline=5s" }, "\"--deadline=5s\" (did you mean --timeout?)" },
        { { "pull", "--deadline", "5s" }, "\"--deadline\" (did you mean --timeout?)" },
        { { "pull", "--attempt-timeout=soon" }, "--attempt-timeout: \"soon\" is not" },
        { { "pull", "--timeout=0" }, "--timeout: a duration has to be" },
        { { "status", "--socket=" }, "--socket: the path is empty" },
        { { "--bogus" }, "\"--bogus\"" },
        { { "status", "-x" }, "\"-x\"" },
        { { "restart", "--grace=-1", "x" }, "\"-1\"" },
        { { "restart", "--grace=25h", "x" }, "\"25h\"" },
        { { "-o" }, "-o needs an argument" },
        { { "-o", "xml" }, "\"xml\"" },
        { { "--timeout", "soon" }, "\"soon\"" },
        { { "--timeout", "999999h" }, "\"999999h\"" },
        { { "--attempt-timeout", "0" }, "zero" },
        { { "--attempts", "-1" }, "--attempts: \"-1\" is no number" },
        { { "--attempts", "3x" }, "--attempts: \"3x\" is no number" },
        { { "--attempts", "" }, "--attempts: \"\" is no number" },
        { { "--attempts", "2147483648" }, "--attempts: \"2147483648\" is no number" },
        { { "--pull-policy", "Never" }, "\"Never\"" },
        { { "--help=yes" }, "takes no argument" },
};

TEST_ROWS(test_wrong_usage_is_refused_in_words, wrong_usage_is_refused_in_words_rows, part,
          const struct WrongUsageIsRefusedInWordsRow *row) {
        cleanup(error_done) Error error = ERROR_INIT;
        Options options;

        assert_true(parse(row->words, &options, &error) < 0);
        assert_int_equal(error.kind, ERROR_INVALID);
        if (!strstr(error_message(&error), row->part))
                fail_msg("'%s' does not say %s", error_message(&error), row->part);
}
