/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * inplacectl status
 *
 * This node as a NodeImage object: what is wanted, what became of it, what is wrong.
 */

#include "agent/ctl/options.h"

/* Returns an ExitStatus, or a negative errno for a local failure. */
int command_status(const Options *options);
