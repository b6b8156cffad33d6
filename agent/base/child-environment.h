/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The environment of another program that is run
 *
 * It is our own, as the kubelet hands its own to plugins, without two things. What systemd gives to
 * this process alone would let another one speak in its name. The passwords of proxies are for who
 * was given them: a program that needs one has it in the environment that its configuration adds.
 */

/* "NAME=value" each, ended by NULL; additions come first and replace our own. Both are borrowed by
 * the result, which one free() frees. NULL: no memory. */
const char **child_environment_new(char *const *own, const char *const *additions);
