/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Hashes the environment that a container was made with, from the runtime's report
 *
 * Only its hash leaves this file: values of an environment may be secrets. Pure.
 */

#include <stdint.h>

#include "agent/base/error.h"

/* info: the JSON in a verbose ContainerStatus, under "info", of containerd or CRI-O. names: the
 * variables to hash, ended by NULL; a variable that is not set is empty. */
int running_env_hash(const char *info, char *const *names, uint32_t *ret, Error *reterr);
