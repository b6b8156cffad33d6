/* SPDX-License-Identifier: Apache-2.0 */

/* How the controller keeps its runs within the memory of its container. */

#include "tests/unit/unit.h"

#include "agent/kubectl/own-run.h"

#define OWN 200u

/* The container; its functions stand for those of others, see tests/CMakeLists.txt. A run is a place in this array. */
static char runs[2];
static size_t sizes[2];
static const Program *ended;

FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);
int __wrap_program_end(Program *program, const Error *error);
size_t __wrap_program_memory(const Program *program);
sd_event *__wrap_session_event(const Session *session);
int __wrap_timer_start(Timer *timer, uint64_t delay_usec);

FILE *__wrap_fopen(const char *path, const char *mode) {
        static char text[] = "1000\n";

        return strcmp(path, "/sys/fs/cgroup/memory.max") == 0
                       ? fmemopen(text, sizeof(text) - 1, "r")
                       : __real_fopen(path, mode);
}

int __wrap_program_end(Program *program, const Error *error) {
        assert_contains(error_message(error), "raise its memory limit");
        ended = program;
        return 0;
}

size_t __wrap_program_memory(const Program *program) {
        return program ? sizes[(const char *) program - runs] : OWN;
}

sd_event *__wrap_session_event(const Session *session) {
        return NULL;
}

int __wrap_timer_start(Timer *timer, uint64_t delay_usec) {
        return 0;
}

static size_t list_runs(void *userdata, OwnRun ret[static OWN_RUNS_MAX]) {
        for (size_t i = 0; i < N_ELEMENTS(runs); i++)
                ret[i] = (OwnRun){ .program = (Program *) &runs[i],
                                   .namespace = i == 0 ? "shop" : "bank" };
        return N_ELEMENTS(runs);
}

static const struct GuardRow {
        const char *name;
        size_t sizes[2];
        const char *ended; /* NULL: none is */
} guard_rows[] = {
        { "enough", { 300, 300 }, NULL },
        { "the first takes most", { 400, 300 }, &runs[0] },
        { "the second does", { 100, 600 }, &runs[1] },
};

/* A quarter of what the controller leaves stays free. */
TEST_ROWS(test_guard, guard_rows, name, const struct GuardRow *row) {
        OwnRunGuard guard = { .list = list_runs };

        ended = NULL;
        memcpy(sizes, row->sizes, sizeof(sizes));
        assert_ok(own_run_guard(&guard, NULL));
        assert_ok(guard.timer.call(guard.timer.userdata));
        assert_ptr_equal(ended, row->ended);
}
