/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * All that is about pods: stopping containers, and in a cluster what runs and what has to be
 * restarted
 */

#include "agent/agent-metrics.h"
#include "agent/cluster/cluster.h"
#include "agent/meta/meta.h"
#include "agent/options.h"
#include "agent/recreate/recreate.h"

/* Stays where it is. */
typedef struct AgentPods {
        AgentMetrics *metrics;
        void (*on_changed)(void *userdata); /* the readiness may differ */
        void *userdata;

        KubeClient *client; /* NULL: the node stands alone, and there are no pods, meta, recreate */
        Kubelet *kubelet;
        Stops *stops;
        Pods *pods;
        Meta *meta;
        Recreate *recreate;
} AgentPods;

/* The first three members are set before. cluster: NULL if the node stands alone. Tells the subject
 * of the diagnosis. */
int agent_pods_init(AgentPods *pods, sd_event *event, Log *log, const Options *options,
                    Cluster *cluster, Runtimes *runtimes, DiagnosisSubject *subject, Error *reterr);
void agent_pods_done(AgentPods *pods);

int agent_pods_runtime_changed(AgentPods *pods);
int agent_pods_image_changed(AgentPods *pods, const Image *image);

/* The API server answers: nobody need wait longer. */
int agent_pods_kick(AgentPods *pods);
