/* SPDX-License-Identifier: Apache-2.0 */

/* When the agent of a node is asked again. */

#include "tests/unit/unit.h"

#include "agent/base/program.h"
#include "agent/kubectl/node-pulls.h"

#define ASKED_USEC (1000 * SEC)

/* The last question; see tests/CMakeLists.txt. */
static struct {
        ProgramDone on_done;
        void *userdata;
} question;

int __wrap_program_run(sd_event *event, const ProgramOptions *options, ProgramDone on_done,
                       void *userdata, Program **ret);
Program *__wrap_program_free(Program *program);

int __wrap_program_run(sd_event *event, const ProgramOptions *options, ProgramDone on_done,
                       void *userdata, Program **ret) {
        question.on_done = on_done;
        question.userdata = userdata;
        *ret = (Program *) &question;
        return 0;
}

Program *__wrap_program_free(Program *program) {
        return NULL;
}

static int on_change(void *userdata) {
        return 0;
}

static const struct DueRow {
        const char *name;
        bool is_followed;
        unsigned n_questions;
        bool has_failed; /* the last one */
        uint64_t age_usec;
        bool is_due;
} due_rows[] = {
        { "it was never asked", true, 0, false, 0, true },
        { "it has just been asked", true, 1, false, SEC, false },
        { "the question ends soon", true, 1, false, 26 * SEC, true },
        { "the question ends soon, and the next one was asked", true, 2, false, 26 * SEC, false },
        { "it has just failed", true, 1, true, SEC, false },
        { "it failed a while ago", true, 1, true, 11 * SEC, true },
        { "once is enough", false, 1, false, 26 * SEC, false },
};

/* Each question is a program here and one on the node, so that they are few. */
TEST_ROWS(test_due, due_rows, name, const struct DueRow *row) {
        const Flags flags = { .watch = row->is_followed };
        cleanup(node_pulls_free_p) NodePulls *node = NULL;
        cleanup(error_done) Error error = ERROR_INIT;

        assert_ok(node_pulls_new(
                &(NodePullsOptions){ .flags = &flags, .node = "worker-1", .on_change = on_change },
                &node));
        for (unsigned i = 0; i < row->n_questions; i++)
                assert_ok(node_pulls_ask(node, "inplaced/inplaced-x7k2p", NULL, ASKED_USEC));
        if (row->has_failed) {
                (void) error_set(&error, ERROR_UNAVAILABLE, "ended with status 1");
                assert_ok(question.on_done("", 0, &error, question.userdata));
                assert_non_null(node_pulls_trouble(node));
        }
        assert_int_equal(node_pulls_is_due(node, ASKED_USEC + row->age_usec), row->is_due);
}
