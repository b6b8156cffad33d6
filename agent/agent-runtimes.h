/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where runtimes are looked for: the endpoints of the options, or the usual places
 */

#include "agent/options.h"
#include "cri/runtimes.h"

/* The callbacks are those of *callbacks, whose paths do not count. */
int agent_runtimes_new(CompletionQueue *completions, const Options *options,
                       const RuntimesOptions *callbacks, Runtimes **ret);
