/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Connects this node to its cluster
 *
 * Discovers the version of NodeImage that the API server has, watches the one that is named like this
 * node, passes its desired images on, and writes their status back. While the server is away the agent
 * goes on, and reports when it is back.
 */

#include "agent/base/diagnosis-visitor.h"
#include "agent/base/log.h"
#include "agent/cluster/images-ready.h"
#include "agent/image/images.h"
#include "agent/kube/client.h"
#include "agent/kube/event.h"
#include "agent/kube/secret.h"

typedef struct Cluster Cluster;

typedef struct ClusterOptions {
        sd_event *event;
        Log *log;
        Metrics *metrics;                 /* may be NULL */
        const char *node_name;            /* copied */
        const KubeAccessOptions *access;  /* address and credentials of the API server */
        bool must_register;               /* make a NodeImage if no controller does */
        ImagesReadySettings images_ready; /* copied; needs must_register */

        void (*on_changed)(void *userdata);   /* readiness or its reason may have changed */
        void (*on_reachable)(void *userdata); /* the API server answers: back-offs may end */
        void *userdata;
} ClusterOptions;

/* Fails if it can never work, such as without the kubeconfig. Sends nothing yet. */
int cluster_new(const ClusterOptions *options, Cluster **ret, Error *reterr);

/* Releases the images; call it before they are freed. */
void cluster_stop(Cluster *cluster);
/* Call it after cluster_stop(). Returns NULL. */
Cluster *cluster_free(Cluster *cluster);

/* Returns the client, which other parts use as well; borrowed. */
KubeClient *cluster_client(Cluster *cluster);
KubeEvents *cluster_events(Cluster *cluster);

/* The source of pull secrets; borrowed. */
KubeSecrets *cluster_secrets(Cluster *cluster);

/* Begins to watch. The images are borrowed and have to outlive the cluster. */
int cluster_start(Cluster *cluster, Images *images);

/* Whether this node serves image sets. */
bool cluster_serves_sets(const Cluster *cluster);

/* An ImagesDone whose userdata is the Cluster. */
void cluster_on_done(const Image *image, const ImageRequest *request, void *userdata);

DiagnosisSource cluster_diagnosis(const Cluster *cluster);
