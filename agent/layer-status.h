/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What snapshotters show of the layers that they fetch on demand
 *
 * stargz-snapshotter and SOCI mount each layer by FUSE and show in a file of it how much has arrived
 * (stargz: docs/overview.md, "State directory"). Such a file may block its reader for ever, therefore the
 * agent runs itself as another process, inplaced --print-layer-status, to read all of them.
 */

#include <stdio.h>

#define LAYER_STATUS_MOUNTS "/proc/self/mounts"

/* Prints each file as one line of JSON, of those mounts that root has made. Returns the exit status. */
int layer_status_print(const char *mounts_path, FILE *file);
