/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The probes of this node's pods (NodePodProbe of apps.kruise.io)
 *
 * Watches the object that is named like the node, runs the probes in its spec, and writes the results
 * into its status, from which OpenKruise's controller of PodProbeMarkers sets conditions of pods.
 */

#include "agent/pod/context.h"
#include "agent/probe/probe.h"

typedef struct Probes Probes;

/* Discovers the kind, and begins to watch. The context is borrowed. */
int probes_new(const PodContext *context, Probes **ret);
Probes *probes_free(Probes *probes);

/* A runtime came or went. */
int probes_runtime_changed(Probes *probes);

/* Ends all back-offs, since the API server is known to answer. */
int probes_kick(Probes *probes);

/* Why the object cannot be watched or written, or unset. A server without the kind is no error. */
const Error *probes_error(const Probes *probes);

/* In the order of pod UID and name. Borrowed until the loop goes on; i is less than the count. */
size_t probes_count(const Probes *probes);
const Probe *probes_get(const Probes *probes, size_t i);
