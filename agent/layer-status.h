/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads the state of layers that snapshotters fetch on demand
 *
 * stargz-snapshotter and SOCI mount each layer by FUSE, with a file that shows how much has arrived
 * (stargz: docs/overview.md, "State directory"). Such a file may block its reader for ever, so the agent
 * runs itself as another process, inplaced --print-layer-status, to read all of them.
 */

#include <stdio.h>

#define LAYER_STATUS_MOUNTS "/proc/self/mounts"

/* Prints each file as one line of JSON, for mounts by root only. Returns the exit status. */
int layer_status_print(const char *mounts_path, FILE *file);
