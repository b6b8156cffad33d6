/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where runtimes have their sockets
 */

#include <stddef.h>

#include "agent/base/error.h"

#define DISCOVER_SOCKETS_MAX 8

/* The usual places, without the host's root before them, in the order of preference. Ended by
 * NULL. */
extern const char *const discover_usual_sockets[];

/* The same in the DaemonSet of kruise-daemon, which mounts the host's /var/run there. Ended by NULL. */
#define DISCOVER_KRUISE_FOLDER "/hostvarrun"
extern const char *const discover_kruise_sockets[];

/* "unix:///run/x.sock" or "/run/x.sock" → "/run/x.sock", borrowed from the endpoint. */
int discover_endpoint_path(const char *endpoint, const char **ret, Error *reterr);
