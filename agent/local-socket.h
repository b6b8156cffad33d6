/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where the socket of the local API is, and who may use it beside root
 */

#include <sys/types.h>

#include "agent/base/log.h"

/* A name or a number; NULL: the group "inplaced", if /etc/group has it; "": nobody. (gid_t) -1 is nobody,
 * also if the group that was named does not exist, which is logged. */
gid_t local_socket_find_group(const char *name, Log *log);

/* The same for those who may restart containers; NULL: nobody. */
gid_t local_socket_find_restart_group(const char *name, Log *log);

/* Makes the folder that the socket is in, if its own parent is there. systemd's RuntimeDirectory= makes
 * it where there is systemd. */
void local_socket_make_folder(const char *socket);
