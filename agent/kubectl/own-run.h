/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs of this program by its controller
 *
 * A run is a process of its own, so that it may take its time, and can be ended.
 */

#include "agent/base/loop.h"
#include "agent/base/program.h"
#include "agent/kubectl/flags.h"
#include "agent/kubectl/session.h"

/* With the same connection to the API server. words: ended by NULL. on_done: see program_run(). */
int own_run(Session *session, const Flags *flags, const char *const *words, ProgramDone on_done,
            void *userdata, Program **ret);

#define OWN_RUNS_MAX 36 /* updates, and restarts for changed configuration */

/* A run that is under way; both are borrowed. */
typedef struct OwnRun {
        Program *program;
        const char *namespace;
} OwnRun;

/* Keeps all runs within the memory of the container: the kernel would end the controller with them. */
typedef struct OwnRunGuard {
        Timer timer;
        size_t (*list)(void *userdata, OwnRun ret[static OWN_RUNS_MAX]);
        void *userdata;
} OwnRunGuard;

/* Call it when a run has begun; the guard stops by itself after the last one. timer_done() ends it. */
int own_run_guard(OwnRunGuard *guard, Session *session);
