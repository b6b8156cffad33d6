/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The command line of inplacectl
 */

#include "agent/ctl/commands.h"
#include "tests/unit/stderr-capture.h"

#define SAYS "test-ctl-main: "
#define WORDS_MAX 6

int ctl_main(int argc, char **argv);
int __wrap_command_pull(const Options *options);

static const Options *asked; /* by the command that ran; NULL: none did */

int __wrap_command_pull(const Options *options) {
        static Options copy;

        copy = *options;
        asked = &copy;
        return EXIT_STATUS_PARTLY;
}

/* clang-format off */
static const struct Row {
        const char *name;
        const char *words[WORDS_MAX];
        const char *out; /* the first line */
        const char *err;
        int status;
} rows[] = {
        { "nothing", { NULL }, "", SAYS "no command was given; try: inplacectl help\n", EXIT_STATUS_USAGE },
        { "an overview", { "help" }, "Usage: inplacectl [OPTION...] COMMAND [ARGUMENT...]", "", EXIT_STATUS_DONE },
        { "an overview by option", { "--help" }, "Usage: inplacectl [OPTION...] COMMAND [ARGUMENT...]", "", EXIT_STATUS_DONE },
        { "a version", { "--version" }, "inplacectl " INPLACED_VERSION, "", EXIT_STATUS_DONE },
        { "the version of a command", { "pull", "--version" }, "inplacectl " INPLACED_VERSION, "", EXIT_STATUS_DONE },
        { "help for a command", { "help", "unpin" }, "Usage: inplacectl [OPTION...] unpin IMAGE...", "", EXIT_STATUS_DONE },
        { "help for a command by option", { "pulls", "-h" }, "Usage: inplacectl [OPTION...] pulls", "", EXIT_STATUS_DONE },
        { "help for no command", { "help", "x" }, "", SAYS "unknown command \"x\"; try: inplacectl help\n", EXIT_STATUS_USAGE },
        { "too much help", { "help", "pull", "x" }, "", SAYS "superfluous argument \"x\"; try: inplacectl help help\n", EXIT_STATUS_USAGE },
        { "a command with a mistake", { "pul", "a" }, "", SAYS "unknown command \"pul\" (did you mean \"pull\"?); try: inplacectl help\n", EXIT_STATUS_USAGE },
        { "no command", { "xyzxyz" }, "", SAYS "unknown command \"xyzxyz\"; try: inplacectl help\n", EXIT_STATUS_USAGE },
        { "too few arguments", { "pull" }, "", SAYS "too few arguments, it is: inplacectl pull IMAGE...; try: inplacectl help pull\n", EXIT_STATUS_USAGE },
        { "too many arguments", { "cancel", "a", "b" }, "", SAYS "superfluous argument \"b\"; try: inplacectl help cancel\n", EXIT_STATUS_USAGE },
        { "an argument for a command without", { "pulls", "a" }, "", SAYS "superfluous argument \"a\"; try: inplacectl help pulls\n", EXIT_STATUS_USAGE },
        { "an option of another command", { "cancel", "--pin", "a" }, "", SAYS "--pin is no option of cancel; try: inplacectl help cancel\n", EXIT_STATUS_USAGE },
        { "another option of another command", { "status", "--timeout", "1s" }, "", SAYS "--timeout is no option of status; try: inplacectl help status\n", EXIT_STATUS_USAGE },
        { "no option", { "pull", "--xyz", "a" }, "", SAYS "unknown or ambiguous option \"--xyz\"; try: inplacectl help\n", EXIT_STATUS_USAGE },
        { "a command", { "pull", "--pin", "a" }, "", "", EXIT_STATUS_PARTLY },
};
/* clang-format on */

TEST_ROWS(test_words, rows, name, const struct Row *row) {
        char *argv[WORDS_MAX + 2] = { (char *) "inplacectl" };
        Stderr out, err;
        int argc = 1, status;

        while (row->words[argc - 1]) {
                argv[argc] = (char *) row->words[argc - 1];
                argc++;
        }
        asked = NULL;
        stdout_pipe(&out);
        stderr_pipe(&err);
        status = ctl_main(argc, argv);
        (void) stderr_restore(&err);
        (void) stderr_restore(&out);
        out.text[strcspn(out.text, "\n")] = '\0';
        assert_string_equal(out.text, row->out);
        assert_string_equal(err.text, row->err);
        assert_int_equal(status, row->status);
        assert_int_equal(asked != NULL, status == EXIT_STATUS_PARTLY);
        if (asked) {
                assert_int_equal(asked->n_arguments, 1);
                assert_string_equal(asked->arguments[0], "a");
                assert_true(asked->pin);
        }
}

/* Each command is in the overview, with the first line of its help. */
TEST(test_overview) {
        char *argv[] = { (char *) "inplacectl", (char *) "help", NULL };
        static const char *const lines[] = {
                "  pull IMAGE...            Pulls images onto this node and shows the progress. Ctrl-C withdraws the request.\n",
                "  cancel REQUEST|IMAGE     Withdraws a request, or your requests for an image, unless they are finished.\n",
                "  -o, --output table|wide|json|yaml   default table\n",
        };
        Stderr out;

        stdout_pipe(&out);
        assert_int_equal(ctl_main(2, argv), EXIT_STATUS_DONE);
        (void) stderr_restore(&out);
        for (size_t i = 0; i < N_ELEMENTS(lines); i++)
                assert_contains(out.text, lines[i]);
}
