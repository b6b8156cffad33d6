/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The environment of another program that is run
 *
 * A program inherits the agent's environment, as plugins inherit the kubelet's, without two things. systemd's
 * variables for this process would let another one speak in its name. The passwords of proxies are the
 * agent's: a program that needs one gets it in the environment that its configuration adds.
 */

/* "NAME=value" each, ended by NULL; additions come first and replace our own. Both are borrowed by
 * the result, which one free() frees. NULL: no memory. */
const char **child_environment_new(char *const *own, const char *const *additions);
