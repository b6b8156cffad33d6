/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * inplacectl restart
 *
 * Has containers of a pod stopped, so that the kubelet starts them again, and shows what becomes of
 * each. Whoever interrupts it drops what has not begun.
 */

#include "agent/ctl/options.h"

/* Returns an ExitStatus, or a negative errno for a local failure. */
int command_restart(const Options *options);
