/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/own-run.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "agent/base/time-units.h"
#include "agent/kubectl/controller-plan.h"
#include "agent/kubectl/run-result.h"

#define PROGRAM "/proc/self/exe"
/* A run that makes no progress ends by itself, and a large one takes days: this ends one that hangs. */
#define RUN_USEC (30 * 24 * 3600 * USEC_PER_SEC)
#define MEMORY_LIMIT "/sys/fs/cgroup/memory.max" /* "max": there is none */
#define GUARD_USEC (100 * USEC_PER_MSEC)

DEFINE_CLEANUP(FILE *, fclose)

int own_run(Session *session, const Flags *flags, const char *const *words, ProgramDone on_done,
            void *userdata, Program **ret) {
        cleanup(free_p) const char **arguments = NULL;
        size_t n = 0;

        while (words[n])
                n++;
        arguments = calloc(n + FLAGS_CONNECTION_MAX + 1, sizeof(*arguments));
        if (!arguments)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++)
                arguments[i] = words[i];
        (void) flags_connection(flags, arguments + n);
        return program_run(session_event(session),
                           &(ProgramOptions){ .path = PROGRAM,
                                              .arguments = arguments,
                                              .output_max = RUN_RESULT_MAX,
                                              .timeout_usec = RUN_USEC },
                           on_done, userdata, ret);
}

/* The runs may grow until they are seen the next time, so a quarter of what this process leaves stays free. */
static size_t read_memory_max(void) {
        cleanup(fclose_p) FILE *file = fopen(MEMORY_LIMIT, "re");
        size_t limit, own = program_memory(NULL);

        if (!file || fscanf(file, "%zu", &limit) != 1)
                return SIZE_MAX;
        return limit > own ? (limit - own) / 4 * 3 : 0;
}

static int on_guard(void *userdata) {
        OwnRunGuard *guard = userdata;
        cleanup(error_done) Error error = ERROR_INIT;
        OwnRun runs[OWN_RUNS_MAX];
        UpdateLoad loads[OWN_RUNS_MAX];
        size_t n = guard->list(guard->userdata, runs), worst;
        int r = n > 0 ? timer_start(&guard->timer, GUARD_USEC) : 0;

        if (r < 0)
                return r;
        for (size_t i = 0; i < n; i++)
                loads[i] = (UpdateLoad){ runs[i].namespace, program_memory(runs[i].program) };
        worst = update_over_memory(loads, n, read_memory_max());
        if (worst == n)
                return 0;
        (void) error_set(&error, ERROR_UNAVAILABLE,
                         "it takes %zu MiB of memory, and the controller has too little for all "
                         "that it does: raise its memory limit, or have smaller templates and pods",
                         loads[worst].size >> 20);
        return program_end(runs[worst].program, &error);
}

int own_run_guard(OwnRunGuard *guard, Session *session) {
        if (!guard->timer.call)
                timer_init(&guard->timer, session_event(session), GUARD_USEC / 10, on_guard, guard);
        return timer_is_running(&guard->timer) ? 0 : timer_start(&guard->timer, GUARD_USEC);
}
