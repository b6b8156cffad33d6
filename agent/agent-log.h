/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the log says about runtimes: one line for each news, none for each try
 */

#include "agent/base/log.h"
#include "cri/runtimes.h"

/* The state of one has changed. */
void agent_log_runtime(Log *log, const Runtimes *runtimes, const Runtime *runtime);

/* All have been tried once: says so if nobody has answered at all. */
void agent_log_silence(Log *log, const Runtimes *runtimes);
