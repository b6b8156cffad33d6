/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Who may use the local API beside root
 */

#include <sys/types.h>

#include "agent/base/log.h"

/* A name or a number; NULL: the group "inplaced", if there is one; "": nobody. (gid_t) -1 is nobody,
 * also if the group that was named does not exist, which is logged. */
gid_t socket_group_find(const char *name, Log *log);
