/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether this node is part of a cluster, and if so its connection to it
 */

#include "agent/agent-metrics.h"
#include "agent/auth/auth.h"
#include "agent/cluster/cluster.h"
#include "agent/options.h"

/* All zero: the node stands alone. Stays where it is. */
typedef struct AgentCluster {
        Cluster *cluster;
        AgentMetrics *metrics;
        void (*on_changed)(void *userdata); /* the readiness may differ */
        void (*on_reachable)(void *userdata);
        void *userdata;
} AgentCluster;

/* The other members are set before. Nobody is asked yet, see cluster_start(). Tells the subject of
 * the diagnosis, and where pull secrets are. */
int agent_cluster_init(AgentCluster *cluster, sd_event *event, Log *log, const Options *options,
                       DiagnosisSubject *subject, Auth *auth, Error *reterr);
/* An ImagesOutcome whose userdata is the AgentCluster: counts it, and tells the cluster. */
void agent_cluster_on_served(const Image *image, const Want *want, void *userdata);

void agent_cluster_done(AgentCluster *cluster);
