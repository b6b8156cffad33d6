/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * inplacectl doctor
 *
 * What the agent found on this node, what is wrong with it and how to mend it.
 */

#include "agent/ctl/options.h"

/* Returns an ExitStatus, or a negative errno for a local failure. */
int command_doctor(const Options *options);
