/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which layers are fetched on demand
 *
 * A remote snapshotter (containerd's docs/remote-snapshotter.md) prepares a layer without its content, and
 * fetches that when files are read, and in the background. Labels of the image's configuration name the
 * snapshotters that have its layers, labels of a snapshot say how it is kept. No label says how much has
 * arrived; stargz-snapshotter and SOCI show it in files.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Layers whose content the runtime fetches when it is read. */
typedef struct ImageOnDemand {
        unsigned n_layers;      /* 0: none, or the runtime does not say it */
        unsigned n_layers_all;  /* layers of the image */
        bool is_counted;        /* the bytes are known */
        uint64_t bytes_present; /* present bytes of bytes_total */
        uint64_t bytes_total;   /* bytes of these layers, as in the registry */
} ImageOnDemand;

/* Finds the snapshotter's name in a label of an image's configuration, whose value is the topmost
 * snapshot. NULL: another label, or a snapshotter of containerd's own, which has all unpacked
 * layers on the disk. */
const char *on_demand_snapshotter(const char *label);

/* Labels of a snapshot. */
bool on_demand_is_mark(const char *label);   /* the snapshot's content is fetched on demand */
bool on_demand_is_digest(const char *label); /* digest of the layer's blob */

/* Adds up the bytes of these layers from the snapshotters' files, one JSON object per line. found
 * is counted only if the files have each layer. */
int on_demand_count(const char *lines, size_t size, char *const *digests, size_t n_digests,
                    ImageOnDemand *found);

/* Whether all bytes are there, or nothing is fetched on demand. */
bool on_demand_is_complete(const ImageOnDemand *found);

/* Whether there are such layers, and their bytes cannot be seen: perhaps for a moment, while a mount is hidden. */
bool on_demand_is_hidden(const ImageOnDemand *found);

/* "2 of 3 layers are fetched on demand, 0.1 of 10.1 MB of them are on the node". NULL: no memory. The
 * caller owns the text. */
char *on_demand_describe(const ImageOnDemand *found);
