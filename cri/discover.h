/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where runtimes have their sockets
 */

#define DISCOVER_SOCKETS_MAX 8

/* The usual places, without the host's root before them, in the order of preference. Ended by
 * NULL. */
extern const char *const discover_usual_sockets[];

/* The same in the DaemonSet of kruise-daemon, which mounts the host's /var/run there. Ended by NULL. */
#define DISCOVER_KRUISE_FOLDER "/hostvarrun"
extern const char *const discover_kruise_sockets[];
