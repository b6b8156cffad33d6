/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs of this program by its controller
 *
 * A run is a process of its own, so that it may take its time, and can be ended.
 */

#include "agent/base/program.h"
#include "agent/kubectl/flags.h"
#include "agent/kubectl/session.h"

/* With the same connection to the API server. words: ended by NULL. on_done: see program_run(). */
int own_run(Session *session, const Flags *flags, const char *const *words, ProgramDone on_done,
            void *userdata, Program **ret);
