/* SPDX-License-Identifier: Apache-2.0 */

/* Which command runs, what is said about one that is unknown, and what a shell has completed. */

#include "tests/unit/unit.h"

#include "agent/base/text.h"
#include "agent/kubectl/commands.h"
#include "agent/kubectl/complete.h"
#include "agent/view/output.h"
#include "tests/unit/complaint.h"

/* The main() of the program, see tests/CMakeLists.txt. */
int kubectl_main(int argc, char **argv);

static const char *ran; /* NULL: no command */
static struct {
        const FlagSpec *flag;
        CommandId command;
        size_t n_arguments;
        char current[64];
} completed;

int __wrap_session_new(const SessionOptions *options, Session **ret, Error *reterr);
int __wrap_kubectl_status(Session *session, const Flags *flags);
int __wrap_kubectl_carry_out(Session *session, const Flags *flags);
int __wrap_kubectl_restart_pods(Session *session, const Flags *flags);
int __wrap_complete_from_cluster(const CompleteRequest *request, const char **ret);

int __wrap_session_new(const SessionOptions *options, Session **ret, Error *reterr) {
        return 0;
}

int __wrap_kubectl_status(Session *session, const Flags *flags) {
        ran = "status";
        return EXIT_STATUS_DONE;
}

int __wrap_kubectl_carry_out(Session *session, const Flags *flags) {
        ran = "__carry-out";
        return EXIT_STATUS_DONE;
}

int __wrap_kubectl_restart_pods(Session *session, const Flags *flags) {
        ran = "__restart-pods";
        return EXIT_STATUS_DONE;
}

int __wrap_complete_from_cluster(const CompleteRequest *request, const char **ret) {
        completed.flag = request->flag;
        completed.command = request->command;
        completed.n_arguments = request->n_arguments;
        (void) snprintf(completed.current, sizeof(completed.current), "%s", request->current);
        return 0;
}

#define WORDS_MAX 8

/* Words are separated by spaces, and the last one may be empty. */
static int run_words(const char *words) {
        cleanup(free_p) char *copy = strdup(words);
        char *argv[WORDS_MAX + 1] = { (char *) "kubectl-inplace" }, *rest = copy;
        int argc = 1;

        while (rest && argc < WORDS_MAX)
                argv[argc++] = strsep(&rest, " ");
        ran = NULL;
        forget_complaint();
        return kubectl_main(argc, argv);
}

static const struct CommandRow {
        const char *words;
        const char *ran;
} command_rows[] = {
        { "status", "status" },
        { "status -n shop", "status" },
        { "__carry-out deployment/web", "__carry-out" },
        { "__restart-pods deployment/web 900 web-0", "__restart-pods" },
};

/* The controller runs two that are in no help. */
TEST_ROWS(test_command, command_rows, words, const struct CommandRow *row) {
        assert_int_equal(run_words(row->words), EXIT_STATUS_DONE);
        assert_string_equal(ran, row->ran);
}

static const struct UnknownRow {
        const char *words;
        const char *said;
} unknown_rows[] = {
        { "statsu", "unknown command \"statsu\" (did you mean \"status\"?); try: kubectl inplace "
                    "help status" },
        { "set", "unknown command \"set\" (did you mean \"set image\"?); try: kubectl inplace help "
                 "set image" },
        { "set images deployment/web",
          "unknown command \"set images\" (did you mean \"set image\"?); try: kubectl inplace help "
          "set image" },
        { "quite-another", "unknown command \"quite-another\"; try: kubectl inplace help" },
};

TEST_ROWS(test_unknown_command, unknown_rows, words, const struct UnknownRow *row) {
        assert_int_equal(run_words(row->words), EXIT_STATUS_USAGE);
        assert_null(ran);
        assert_string_equal(said, row->said);
        forget_complaint();
}

static const struct WordRow {
        const char *words;
        const char *flag; /* flag whose value is completed; NULL: an argument is */
        CommandId command;
        size_t n_arguments;
        const char *current;
} word_rows[] = {
        { "status ", NULL, COMMAND_STATUS, 0, "" },
        { "status -n sh", "--namespace", COMMAND_STATUS, 0, "sh" },
        { "status --namespace=sh", "--namespace", COMMAND_STATUS, 0, "sh" },
        { "status -n shop we", NULL, COMMAND_STATUS, 0, "we" },
        { "set image deployment/web ap", NULL, COMMAND_SET_IMAGE, 1, "ap" },
};

TEST_ROWS(test_completed_word, word_rows, words, const struct WordRow *row) {
        cleanup(free_p) char *words = NULL;

        memset(&completed, 0, sizeof(completed));
        assert_ok(text_format(&words, "__complete %s", row->words));
        assert_int_equal(run_words(words), EXIT_STATUS_DONE);
        assert_ptr_equal(completed.flag, row->flag ? flags_find(row->flag) : NULL);
        assert_int_equal(completed.command, row->command);
        assert_int_equal(completed.n_arguments, row->n_arguments);
        assert_string_equal(completed.current, row->current);
}
