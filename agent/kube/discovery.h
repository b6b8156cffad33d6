/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which version of a kind the API server serves
 */

#include "agent/kube/client.h"

typedef struct KubeDiscovery KubeDiscovery;

/* version: the first requested version that serves the resource, with its subresource "status";
 * borrowed. NULL: none, or the error has the reason. */
typedef int (*KubeDiscovered)(const char *version, const Error *error, void *userdata);

/* versions: in order of preference, ended by NULL; borrowed, as are the texts, until the end. Asks
 * once; when to ask again is up to the caller. on_discovered is not called from within. */
int kube_discover(KubeClient *client, const char *group, const char *const *versions,
                  const char *resource, KubeDiscovered on_discovered, void *userdata,
                  KubeDiscovery **ret);

/* Ends it; no callback runs after that. Returns NULL. */
KubeDiscovery *kube_discovery_free(KubeDiscovery *discovery);
