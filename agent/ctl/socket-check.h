/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Why a socket cannot be used
 */

#include <stddef.h>

/* Connects and hangs up. Returns 0, or the negative errno: -ENOENT, -ENOTSOCK, -ECONNREFUSED,
 * -EACCES ... */
int socket_check(const char *path);

/* The same in words: "no such file". */
const char *socket_check_to_string(int result);

/* The words, and what to do about it, for the socket of the agent: "no such file; is it running?
 * try: systemctl status inplaced". NULL if there is no memory. */
char *socket_check_advise(const char *path, int result);
