/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How the process of a Program begins, see program.h
 *
 * Leads a session and a process group of its own. What it gets on stdin is a file in memory rather
 * than a pipe: nothing has to be fed to it, and nobody minds if it does not read.
 */

#include <sys/types.h>

#include "agent/base/program.h"

typedef struct Spawned {
        pid_t pid;
        int life; /* a pidfd */
        int out;  /* what it writes; reading does not block */
        int err;
} Spawned;

#define SPAWNED_INIT ((Spawned){ .life = -1, .out = -1, .err = -1 })

/* Takes path, arguments, environment and input from the options. Returns 0, an errno that says why
 * it cannot be started, or a negative errno for a local failure. */
int spawn(const ProgramOptions *options, Spawned *ret);

/* Closes the descriptors. */
void spawned_done(Spawned *spawned);
