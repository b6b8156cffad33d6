/* SPDX-License-Identifier: Apache-2.0 */

/* The flags of kubectl-inplace, as kubectl takes them. */

#include "tests/unit/unit.h"

#include "agent/kubectl/flags.h"

#define N_WORDS 8

static int parse(const char *line, char *buffer, char **words, Flags *ret, Error *reterr) {
        int n = 1;

        words[0] = (char *) "kubectl-inplace";
        strcpy(buffer, line);
        for (char *word; (word = strsep(&buffer, " "));)
                words[n++] = word;
        words[n] = NULL;
        return flags_parse(n, words, ret, reterr);
}

TEST(test_accepted) {
        static const char *const lines[] = {
                "status -n=x -A -l=a=b web -w",
                "status -n x -Aw --selector a=b web",
                "--namespace=x status --all-namespaces=true web --selector=a=b --watch",
                "status web -nx -A -la=b --watch=true --dry-run=none",
        };

        for (size_t i = 0; i < N_ELEMENTS(lines); i++) {
                char buffer[256], *words[N_WORDS + 4];
                Flags flags;

                assert_ok(parse(lines[i], buffer, words, &flags, NULL));
                assert_string_equal(flags.namespace, "x");
                assert_string_equal(flags.selector, "a=b");
                assert_true(flags.all_namespaces && flags.watch && !flags.is_dry_run);
                assert_int_equal(flags.n_arguments, 2);
                assert_string_equal(flags.arguments[0], "status");
                assert_string_equal(flags.arguments[1], "web");
        }
}

/* Other programs of the C library would end at the first argument then. */
TEST(test_posix_environment) {
        char buffer[256], *words[N_WORDS + 4];
        Flags flags;

        assert_int_equal(setenv("POSIXLY_CORRECT", "1", /* replace= */ 1), 0);
        assert_ok(parse("status web -n x -- -w", buffer, words, &flags, NULL));
        assert_int_equal(unsetenv("POSIXLY_CORRECT"), 0);
        assert_string_equal(flags.namespace, "x");
        assert_false(flags.watch);
        assert_int_equal(flags.n_arguments, 3);
        assert_string_equal(flags.arguments[0], "status");
        assert_string_equal(flags.arguments[1], "web");
        assert_string_equal(flags.arguments[2], "-w");
        assert_null(flags.arguments[3]);
}

static const struct FormatsRow {
        const char *line;
        OutputFormat format;
        bool wants_names;
} formats_rows[] = {
        { "status", OUTPUT_TABLE, false },        { "status -o wide", OUTPUT_WIDE, false },
        { "status -ojson", OUTPUT_JSON, false },  { "status --output=yaml", OUTPUT_YAML, false },
        { "status -o name", OUTPUT_TABLE, true },
};

TEST_ROWS(test_formats, formats_rows, line, const struct FormatsRow *row) {
        char buffer[256], *words[N_WORDS + 4];
        Flags flags;

        assert_ok(parse(row->line, buffer, words, &flags, NULL));
        assert_int_equal(flags.format, row->format);
        assert_int_equal(flags.wants_names, row->wants_names);
}

static const struct DryRunRow {
        const char *line;
        bool is_dry_run;
} dry_run_rows[] = {
        { "restart web", false },
        { "restart web --dry-run=none", false },
        { "restart --dry-run web", true },
        { "restart --dry-run=client web", true },
        { "restart --dry-run=server web", true },
};

TEST_ROWS(test_dry_run, dry_run_rows, line, const struct DryRunRow *row) {
        char buffer[256], *words[N_WORDS + 4];
        Flags flags;

        assert_ok(parse(row->line, buffer, words, &flags, NULL));
        assert_int_equal(flags.is_dry_run, row->is_dry_run);
        assert_int_equal(flags.n_arguments, 2);
}

static const struct RefusedRow {
        const char *line;
        const char *message;
} refused_rows[] = {
        { "status --tokne=hunter2", "unknown flag \"--tokne\" (did you mean --token?)" },
        { "status --token=hunter2\n", "--token: the value has a control character in it" },
        { "status --unheard", "unknown flag \"--unheard\"" },
        { "status --wacth", "unknown flag \"--wacth\" (did you mean --watch?)" },
        { "status -x", "unknown flag \"-x\"" },
        { "status -n", "-n needs a value" },
        { "status --namespace=", "--namespace: the value is empty" },
        { "status --watch=yes", "--watch: \"yes\" is none of true|false" },
        { "status -o xml", "--output: \"xml\" is none of wide|json|yaml|name" },
        { "restart --dry-run=all", "--dry-run: \"all\" is none of none|server|client" },
        { "restart --max-unavailable 0", "--max-unavailable: \"0\": expected at least 1" },
        { "restart --max-unavailable=0%", "--max-unavailable: \"0%\": expected at least 1" },
        { "restart --max-unavailable a",
          "--max-unavailable: \"a\": expected a number, or a percentage such as 25%" },
        { "restart --max-unavailable 101%",
          "--max-unavailable: \"101%\": expected a number, or a percentage such as 25%" },
        { "set image x --partition 5%", "--partition: \"5%\": expected a number" },
        { "set image x --partition x", "--partition: \"x\": expected a number" },
        { "set image x --first 5%", "--first: \"5%\": expected a number of at least 1" },
        { "set image x --first x", "--first: \"x\": expected a number of at least 1" },
        { "rollout x --first -1", "--first: \"-1\": expected a number of at least 1" },
        { "rollout x --first 0", "--first: \"0\": expected a number of at least 1" },
};

TEST_ROWS(test_refused, refused_rows, line, const struct RefusedRow *row) {
        cleanup(error_done) Error error = ERROR_INIT;
        char buffer[256], *words[N_WORDS + 4];
        Flags flags;

        assert_true(parse(row->line, buffer, words, &flags, &error) < 0);
        assert_string_equal(error_message(&error), row->message);
}

TEST(test_of_another_command) {
        cleanup(error_done) Error error = ERROR_INIT;
        char buffer[256], *words[N_WORDS + 4];
        Flags flags;

        assert_ok(parse("doctor --timeout 1m -w", buffer, words, &flags, NULL));
        assert_int_equal(flags.timeout_sec, 60);
        assert_ok(flags_check(&flags, COMMAND_STATUS, NULL));
        assert_true(flags_check(&flags, COMMAND_DOCTOR, &error) < 0);
        assert_string_equal(error_message(&error), "--watch is no flag of this command");
}

static const struct KruiseRow {
        const char *line;
        const char *message; /* NULL: it is accepted */
} kruise_rows[] = {
        { "rollout x", NULL },
        { "rollout x --first 1",
          "--first has no effect on OpenKruise's controller, which follows the workload's "
          "spec.updateStrategy: set it there" },
        { "rollout x --undo",
          "there is no record of what its images were: set them with \"set image\" instead" },
        { "rollout x --release",
          "--release has no effect on OpenKruise's controller, which goes on by itself: set paused "
          "in spec.updateStrategy to stop it" },
};

TEST_ROWS(test_of_kruise, kruise_rows, line, const struct KruiseRow *row) {
        cleanup(error_done) Error error = ERROR_INIT;
        char buffer[256], *words[N_WORDS + 4];
        Flags flags;

        assert_ok(parse(row->line, buffer, words, &flags, NULL));
        assert_int_equal(flags_check_kruise(&flags, &error) < 0, row->message != NULL);
        if (row->message)
                assert_string_equal(error_message(&error), row->message);
}
