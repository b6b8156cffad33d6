/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * inplacectl pull
 *
 * Asks the agent for images and shows what becomes of them. Whoever interrupts it withdraws the
 * request. An agent that goes away meanwhile is looked for and asked again.
 */

#include "agent/ctl/options.h"

/* Returns an ExitStatus, or a negative errno for a local failure. */
int command_pull(const Options *options);
