/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/cluster/cluster.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/cluster/cluster-internal.h"
#include "agent/cluster/outcome-events.h"

#define COMPONENT "inplaced"

DEFINE_CLEANUP(Cluster *, cluster_free)

static int on_image(Image *image, void *userdata) {
        Cluster *cluster = userdata;

        return cluster->writer ? status_writer_look(cluster->writer) : 0;
}

/* Whoever waits for the server need not wait any longer. */
static void cluster_kick(Cluster *cluster) {
        if (cluster->rediscover)
                (void) cluster_discover(cluster);
        if (cluster->watch)
                (void) kube_watch_kick(cluster->watch);
        if (cluster->writer)
                (void) status_writer_kick(cluster->writer);
        if (cluster->registration)
                (void) registration_kick(cluster->registration);
        (void) kube_events_kick(cluster->events);
        cluster->on_reachable(cluster->userdata);
}

static void on_reachable(const Error *trouble, void *userdata) {
        Cluster *cluster = userdata;

        if (trouble && cluster->was_away)
                log_info(cluster->log, NULL, "The API server still does not answer: %s.",
                         error_message(trouble));
        else if (trouble)
                log_warning(cluster->log, NULL, "The API server does not answer: %s.",
                            error_message(trouble));
        else if (cluster->was_away)
                log_info(cluster->log, NULL, "The API server answers again.");
        cluster->was_away = trouble;
        if (!trouble)
                cluster_kick(cluster);
        cluster_tell(cluster);
}

static void on_called(const char *verb, int code, uint64_t duration_usec, void *userdata) {
        Cluster *cluster = userdata;

        cluster->on_called(verb, code, duration_usec, cluster->userdata);
}

static int cluster_add_client(Cluster *cluster, const ClusterOptions *options, Error *reterr) {
        const KubeClientOptions client = {
                .event = options->event,
                .access = options->access,
                .on_called = on_called,
                .on_reachable = on_reachable,
                .userdata = cluster,
        };
        KubeEventsOptions events = {
                .log = options->log,
                .component = COMPONENT,
                .node_name = options->node_name,
        };
        int r;

        r = kube_client_new(&client, &cluster->client, reterr);
        if (r < 0)
                return r;

        cluster->report = (KubeReport){
                .client = cluster->client,
                .log = cluster->log,
                .subject = "Waiting for the API server",
                .speaks_for_all = true,
        };

        events.client = cluster->client;
        r = kube_events_new(&events, &cluster->events);
        if (r < 0)
                return r;

        return kube_secrets_new(cluster->client, 0, &cluster->secrets);
}

int cluster_new(const ClusterOptions *options, Cluster **ret, Error *reterr) {
        cleanup(cluster_free_p) Cluster *cluster = NULL;
        int r;

        cluster = malloc(sizeof(*cluster));
        if (!cluster)
                return -ENOMEM;

        *cluster = (Cluster){
                .log = options->log,
                .must_register = options->must_register,
                .on_called = options->on_called,
                .on_watch_restart = options->on_watch_restart,
                .on_written = options->on_written,
                .on_changed = options->on_changed,
                .on_reachable = options->on_reachable,
                .userdata = options->userdata,
                .node_name = strdup(options->node_name),
        };
        if (!cluster->node_name)
                return -ENOMEM;

        r = cluster_add_client(cluster, options, reterr);
        if (r < 0)
                return r;

        *ret = take_ptr(cluster);
        return 0;
}

void cluster_stop(Cluster *cluster) {
        if (cluster->images)
                images_unwatch(cluster->images, &cluster->watcher);
        cluster->images = NULL;
        cluster->rediscover = sd_event_source_disable_unref(cluster->rediscover);
        cluster->discovery = kube_discovery_free(cluster->discovery);
        cluster_drop_parts(cluster);
        cluster->desired = desired_free(cluster->desired);
}

Cluster *cluster_free(Cluster *cluster) {
        if (!cluster)
                return NULL;

        cluster_stop(cluster);
        kube_report_done(&cluster->report);
        kube_secrets_free(cluster->secrets);
        kube_events_free(cluster->events);
        kube_client_free(cluster->client);
        error_done(&cluster->absence);
        free(cluster->node_name);
        free(cluster);
        return NULL;
}

KubeClient *cluster_client(Cluster *cluster) {
        return cluster->client;
}

KubeEvents *cluster_events(Cluster *cluster) {
        return cluster->events;
}

KubeSecrets *cluster_secrets(Cluster *cluster) {
        return cluster->secrets;
}

int cluster_start(Cluster *cluster, Images *images) {
        int r;

        r = desired_new(cluster->log, images, &cluster->desired);
        if (r < 0)
                return r;

        cluster->images = images;
        cluster->watcher = (ImagesWatcher){ .on_image = on_image, .userdata = cluster };
        images_watch(images, &cluster->watcher);
        return cluster_discover(cluster);
}

void cluster_on_served(const Image *image, const Want *want, void *userdata) {
        Cluster *cluster = userdata;
        const ImageStatus *status = image_status_for(image, want->owner, want->wish.name);
        cleanup(free_p) char *api_version = NULL;
        KubeReference reference = {
                .kind = "NodeImage",
                .name = desired_name(cluster->desired),
                .uid = desired_uid(cluster->desired),
        };

        if (!status || !desired_is_owner(cluster->desired, want->owner) || !cluster->version ||
            asprintf(&api_version, CLUSTER_GROUP "/%s", cluster->version) < 0)
                return;

        reference.api_version = api_version;
        (void) outcome_events_send(cluster->events, &reference, &want->wish, status);
}
