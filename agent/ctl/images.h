/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * inplacectl images
 *
 * Every image that the runtime holds, and who asked for it.
 */

#include "agent/ctl/options.h"

/* Returns an ExitStatus, or a negative errno for a local failure. */
int command_images(const Options *options);
