/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The inside of a cluster: cluster.c is its life, cluster-parts.c what it does once it knows
 * which version is served, cluster-check.c when it doubts what it knows, cluster-diagnosis.c how
 * it is
 */

#include "agent/cluster/cluster.h"
#include "agent/cluster/desired.h"
#include "agent/cluster/registration.h"
#include "agent/cluster/status-writer.h"
#include "agent/kube/discovery.h"
#include "agent/kube/event.h"
#include "agent/kube/report.h"
#include "agent/kube/watch.h"

#define CLUSTER_GROUP "apps.kruise.io"

struct Cluster {
        Log *log;
        char *node_name;
        bool must_register;
        KubeCalled on_called;
        void (*on_watch_restart)(void *userdata);
        void (*on_written)(const Error *error, void *userdata);
        void (*on_changed)(void *userdata);
        void (*on_reachable)(void *userdata);
        void *userdata;

        KubeClient *client;
        KubeEvents *events;
        KubeSecrets *secrets;
        Images *images;
        ImagesWatcher watcher;
        Desired *desired;

        bool was_away;
        bool was_synced;
        KubeDiscovery *discovery;
        sd_event_source *rediscover;
        unsigned n_failures; /* of the discovery, or of what it found, in a row */
        Error absence;       /* why there is no version, or unset */
        KubeReport report;
        char *version; /* of the group, and then there are all of these: */
        KubeWatch *watch;
        bool is_shown;   /* this watch has shown the object */
        KubeCall *check; /* whether the object is what the watch has shown */
        StatusWriter *writer;
        Registration *registration; /* if somebody wants it */
};

/* Finds out which version is served, and watches it. */
int cluster_discover(Cluster *cluster);

/* The newest state of the NodeImage. */
int cluster_on_object(Cluster *cluster, const KubeObject *object);

/* cluster-check.c: what the watch has shown is in doubt. */
int cluster_check_object(Cluster *cluster);

/* Lets go of all that needs a served version. */
void cluster_drop_parts(Cluster *cluster);

static inline void cluster_tell(Cluster *cluster) {
        cluster->on_changed(cluster->userdata);
}
