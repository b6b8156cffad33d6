/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * inplacectl version
 *
 * The versions of this program, of the agent and of the runtime.
 */

#include "agent/ctl/options.h"

/* Returns an ExitStatus, or a negative errno for a local failure. */
int command_version(const Options *options);
