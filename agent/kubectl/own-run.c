/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/own-run.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "agent/base/time-units.h"
#include "agent/kubectl/run-result.h"

#define PROGRAM "/proc/self/exe"
/* A run that makes no progress ends by itself, and a large one takes days: this ends one that hangs. */
#define RUN_USEC (30 * 24 * 3600 * USEC_PER_SEC)

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
