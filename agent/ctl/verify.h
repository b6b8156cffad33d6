/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * inplacectl verify
 *
 * Which image each container runs, and which one it should.
 */

#include "agent/ctl/options.h"

/* Returns an ExitStatus, or a negative errno for a local failure. */
int command_verify(const Options *options);
