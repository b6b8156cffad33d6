/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * This node as part of a cluster
 *
 * Finds out which version of NodeImage the API server has, watches the one that is named like this
 * node, gives its desired images to the images, and writes back what became of them. While the server is
 * away everything goes on, and is reported when it is back.
 */

#include "agent/base/diagnosis-visitor.h"
#include "agent/base/log.h"
#include "agent/image/images.h"
#include "agent/kube/client.h"
#include "agent/kube/event.h"
#include "agent/kube/secret.h"

typedef struct Cluster Cluster;

typedef struct ClusterOptions {
        sd_event *event;
        Log *log;
        Metrics *metrics;                /* may be NULL */
        const char *node_name;           /* copied */
        const KubeAccessOptions *access; /* where the API server is */
        bool must_register;              /* make a NodeImage if no controller does */

        void (*on_changed)(void *userdata); /* readiness, or a sentence about it, may differ */
        void (*on_reachable)(
                void *userdata); /* the API server answers: no wait is needed any more */
        void *userdata;
} ClusterOptions;

/* Refuses what cannot ever work, such as a kubeconfig that is not there. Sends nothing yet. */
int cluster_new(const ClusterOptions *options, Cluster **ret, Error *reterr);

/* Lets go of the images; to be called before they are freed. */
void cluster_stop(Cluster *cluster);
/* After that. Returns NULL. */
Cluster *cluster_free(Cluster *cluster);

/* For other parts that use the API server; borrowed. */
KubeClient *cluster_client(Cluster *cluster);
KubeEvents *cluster_events(Cluster *cluster);

/* Where pull secrets come from; borrowed. */
KubeSecrets *cluster_secrets(Cluster *cluster);

/* Begins to watch for these, which are borrowed and have to outlive the cluster. */
int cluster_start(Cluster *cluster, Images *images);

/* An ImagesDone whose userdata is the Cluster. */
void cluster_on_done(const Image *image, const ImageRequest *request, void *userdata);

DiagnosisSource cluster_diagnosis(const Cluster *cluster);
