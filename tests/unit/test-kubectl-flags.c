/* SPDX-License-Identifier: Apache-2.0 */

/* The flags of kubectl-inplace, as kubectl takes them. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "agent/base/cleanup.h"
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

static void test_accepted(void **state) {
        static const char *const lines[] = {
                "status -n=x -A -l a=b web -w",
                "status -n x -Aw --selector a=b web",
                "--namespace=x status --all-namespaces=true web --selector=a=b --watch",
                "status web -nx -A -la=b --watch=true --dry-run=none",
        };

        for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
                char buffer[256], *words[N_WORDS + 4];
                Flags flags;

                assert_int_equal(parse(lines[i], buffer, words, &flags, NULL), 0);
                assert_string_equal(flags.namespace, i == 0 ? "=x" : "x");
                assert_string_equal(flags.selector, "a=b");
                assert_true(flags.all_namespaces && flags.watch && !flags.is_dry_run);
                assert_int_equal(flags.n_arguments, 2);
                assert_string_equal(flags.arguments[0], "status");
                assert_string_equal(flags.arguments[1], "web");
        }
}

static void test_formats(void **state) {
        static const struct {
                const char *line;
                OutputFormat format;
                bool wants_names;
        } cases[] = {
                { "status", OUTPUT_TABLE, false },
                { "status -o wide", OUTPUT_WIDE, false },
                { "status -ojson", OUTPUT_JSON, false },
                { "status --output=yaml", OUTPUT_YAML, false },
                { "status -o name", OUTPUT_TABLE, true },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                char buffer[256], *words[N_WORDS + 4];
                Flags flags;

                assert_int_equal(parse(cases[i].line, buffer, words, &flags, NULL), 0);
                assert_int_equal(flags.format, cases[i].format);
                assert_int_equal(flags.wants_names, cases[i].wants_names);
        }
}

static void test_dry_run(void **state) {
        static const struct {
                const char *line;
                bool is_dry_run;
        } cases[] = {
                { "restart web", false },
                { "restart web --dry-run=none", false },
                { "restart --dry-run web", true },
                { "restart --dry-run=client web", true },
                { "restart --dry-run=server web", true },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                char buffer[256], *words[N_WORDS + 4];
                Flags flags;

                assert_int_equal(parse(cases[i].line, buffer, words, &flags, NULL), 0);
                assert_int_equal(flags.is_dry_run, cases[i].is_dry_run);
                assert_int_equal(flags.n_arguments, 2);
        }
}

static void test_refused(void **state) {
        static const struct {
                const char *line;
                const char *message;
        } cases[] = {
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
                { "restart --max-unavailable=0%",
                  "--max-unavailable: \"0%\": expected at least 1" },
                { "restart --max-unavailable a",
                  "--max-unavailable: \"a\": expected a number, or a percentage such as 25%" },
                { "set image x --partition 5%", "--partition: \"5%\": expected a number" },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                cleanup(error_done) Error error = ERROR_INIT;
                char buffer[256], *words[N_WORDS + 4];
                Flags flags;

                assert_true(parse(cases[i].line, buffer, words, &flags, &error) < 0);
                assert_string_equal(error_message(&error), cases[i].message);
        }
}

static void test_of_another_command(void **state) {
        cleanup(error_done) Error error = ERROR_INIT;
        char buffer[256], *words[N_WORDS + 4];
        Flags flags;

        assert_int_equal(parse("doctor --timeout 1m -w", buffer, words, &flags, NULL), 0);
        assert_int_equal(flags.timeout_sec, 60);
        assert_int_equal(flags_check(&flags, COMMAND_STATUS, NULL), 0);
        assert_true(flags_check(&flags, COMMAND_DOCTOR, &error) < 0);
        assert_string_equal(error_message(&error), "--watch is no flag of this command");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_accepted),
                cmocka_unit_test(test_formats),
                cmocka_unit_test(test_dry_run),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_of_another_command),
        };

        return cmocka_run_group_tests_name("kubectl-flags", tests, NULL, NULL);
}
