/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Another program that is run for its answer
 *
 * Gives it a text on stdin and takes its stdout, within limits of time and size. A program that is over a
 * limit, or no longer needed, is killed with all processes that it started. Processes that it leaves behind
 * when it ends are killed as well; if they have left its session, at the latest when no other program runs.
 * The program has no blocked or ignored signal, no open descriptor but the three, and not all of our
 * environment (child-environment.h). Only the first line of its stderr is kept, for the error.
 */

#include <sys/types.h>
#include <systemd/sd-event.h>

#include "agent/base/error.h"

typedef struct Program Program;

typedef struct ProgramOptions {
        const char *path;             /* absolute, or a name that is looked up in PATH */
        const char *const *arguments; /* without the program's name, ended by NULL; or NULL */
        const char *const
                *environment; /* "NAME=value" in addition to our own, ended by NULL; or NULL */
        const char *input;    /* may be NULL; needed during the call only */
        size_t input_size;
        size_t output_max;     /* bytes; one more is a refusal */
        uint64_t timeout_usec; /* from start to end */

        /* Shows output as it comes. Returns how many bytes at its beginning were taken: they count no more, and the
         * next call, or on_done, shows what follows them. Negative: a local failure. The output is borrowed
         * during the call, in which the program must not be freed. NULL: all is shown at the end. */
        ssize_t (*on_output)(const char *output, size_t output_size, void *userdata);
} ProgramOptions;

/* Ended with status 0: output is what it wrote, borrowed during the call and wiped afterwards; it
 * ends with a NUL that output_size does not count. Otherwise error says why, without any of the
 * output, as what follows the program's name: "ended with status 1: no such profile". Its kind is
 * NOT_FOUND, DENIED or INVALID for one that cannot be started as it is, INVALID for too much
 * output, TIMEOUT, or UNAVAILABLE.
 * Runs once, never from within program_run(); the program may be freed in it. */
typedef int (*ProgramDone)(const char *output, size_t output_size, const Error *error,
                           void *userdata);

/* Everything is copied. on_done is also called if it cannot be started. */
int program_run(sd_event *event, const ProgramOptions *options, ProgramDone on_done, void *userdata,
                Program **ret);

/* Bytes of memory that the program has for itself, without its children; 0: it does not run. NULL: this process. */
size_t program_memory(const Program *program);
/* Ends a program as one that is over a limit: on_done gets that error. */
int program_end(Program *program, const Error *error);
/* Kills the program if it still runs; on_done is not called then. Returns NULL. */
Program *program_free(Program *program);
