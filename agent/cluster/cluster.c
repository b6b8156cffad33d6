/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/cluster/cluster.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/cluster/node-image.h"
#include "agent/cluster/pull-slots.h"

#define COMPONENT "inplaced"

struct Cluster {
        Log *log;
        Metrics *metrics;
        char *node_name;
        bool must_register;
        void (*on_changed)(void *userdata);
        void (*on_reachable)(void *userdata);
        void *userdata;

        KubeClient *client;
        KubeEvents *events;
        KubeSecrets *secrets;
        ImagesReadySettings images_ready;
        char *startup_taint;          /* owned, of images_ready */
        ClusterNodeImage *node_image; /* from cluster_start() to cluster_stop(), as is the next */
        ImagesReady *ready;           /* set if configured */
        PullSlots *slots;             /* set if the node serves image sets */
        bool was_away;
};

DEFINE_CLEANUP(Cluster *, cluster_free)

static void cluster_notify(Cluster *cluster) {
        cluster->on_changed(cluster->userdata);
}

/* The diagnosis */

/* Returns why the agent cannot use the API server; NULL: it can. */
static const char *find_obstacle(const Cluster *cluster) {
        const Error *trouble = kube_client_trouble(cluster->client);

        if (trouble && trouble->kind != ERROR_NONE)
                return error_message(trouble);

        return cluster->node_image ? cluster_node_image_obstacle(cluster->node_image)
                                   : "waiting for the API server";
}

static bool is_ready(const void *source, const char **ret_why) {
        const Cluster *cluster = source;
        const char *obstacle = find_obstacle(cluster);
        const Error *error =
                cluster->node_image ? cluster_node_image_write_error(cluster->node_image) : NULL;

        if (!obstacle && error && error->kind != ERROR_NONE)
                obstacle = error_message(error);
        if (obstacle)
                *ret_why = obstacle;
        return !obstacle;
}

static const char *advice_for(const Cluster *cluster) {
        const Error *trouble = kube_client_trouble(cluster->client);
        ErrorKind kind = cluster->node_image
                                 ? cluster_node_image_watch_error(cluster->node_image)->kind
                                 : ERROR_NONE;

        if (trouble && trouble->kind == ERROR_DENIED)
                return "check the credentials and the certificate authority";
        if (kind == ERROR_NOT_FOUND)
                return "install OpenKruise, or the CRDs of packaging/kubernetes/crds";
        if (kind == ERROR_DENIED)
                return "give the agent the rights of packaging/kubernetes/base/rbac.yaml";

        return "pulls continue; the agent reports them as soon as it answers";
}

static int visit_server(const Cluster *cluster, const DiagnosisVisitor *visitor) {
        const char *obstacle = find_obstacle(cluster);

        if (obstacle)
                return visitor->on_problem("API server", obstacle, advice_for(cluster),
                                           visitor->userdata);

        return visitor->on_fact("API server", kube_client_target(cluster->client),
                                visitor->userdata);
}

static int visit(const void *source, const DiagnosisVisitor *visitor) {
        const Cluster *cluster = source;
        int r;

        r = visit_server(cluster, visitor);
        if (r < 0 || !cluster->node_image)
                return r;

        r = cluster_node_image_visit(cluster->node_image, visitor);
        return r < 0 || !cluster->ready ? r : images_ready_visit(cluster->ready, visitor);
}

static const char *target(const void *source) {
        const Cluster *cluster = source;

        return kube_client_target(cluster->client);
}

DiagnosisSource cluster_diagnosis(const Cluster *cluster) {
        return (DiagnosisSource){
                .visit = visit,
                .is_ready = is_ready,
                .target = target,
                .source = cluster,
        };
}

/* The life of a cluster */

/* Ends the back-offs of all calls to the server. */
static void cluster_kick(Cluster *cluster) {
        if (cluster->node_image)
                (void) cluster_node_image_kick(cluster->node_image);
        if (cluster->ready)
                (void) images_ready_kick(cluster->ready);
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
        cluster_notify(cluster);
}

static int cluster_add_client(Cluster *cluster, const ClusterOptions *options, Error *reterr) {
        const KubeClientOptions client = {
                .event = options->event,
                .access = options->access,
                .metrics = options->metrics,
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
                .metrics = options->metrics,
                .must_register = options->must_register,
                .images_ready = options->images_ready,
                .on_changed = options->on_changed,
                .on_reachable = options->on_reachable,
                .userdata = options->userdata,
                .node_name = strdup(options->node_name),
        };
        if (!cluster->node_name ||
            text_copy(options->images_ready.startup_taint, &cluster->startup_taint) < 0)
                return -ENOMEM;

        cluster->images_ready.startup_taint = cluster->startup_taint;

        r = cluster_add_client(cluster, options, reterr);
        if (r < 0)
                return r;

        *ret = take_ptr(cluster);
        return 0;
}

void cluster_stop(Cluster *cluster) {
        cluster->slots = pull_slots_free(cluster->slots);
        cluster->ready = images_ready_free(cluster->ready);
        cluster->node_image = cluster_node_image_free(cluster->node_image);
}

Cluster *cluster_free(Cluster *cluster) {
        if (!cluster)
                return NULL;

        cluster_stop(cluster);
        kube_secrets_free(cluster->secrets);
        kube_events_free(cluster->events);
        kube_client_free(cluster->client);
        free(cluster->startup_taint);
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
        const ClusterNodeImageOptions node_image = {
                .client = cluster->client,
                .events = cluster->events,
                .log = cluster->log,
                .metrics = cluster->metrics,
                .images = images,
                .node_name = cluster->node_name,
                .must_register = cluster->must_register,
                .has_other_labels = cluster->images_ready.is_on,
                .on_changed = cluster->on_changed,
                .userdata = cluster->userdata,
        };
        int r;

        log_info(cluster->log, NULL, "The API server is %s.", kube_client_target(cluster->client));
        r = cluster_node_image_new(&node_image, &cluster->node_image);
        if (r >= 0 && cluster->must_register)
                r = pull_slots_new(
                        &(PullSlotsOptions){
                                .client = cluster->client,
                                .log = cluster->log,
                                .images = images,
                                .sets = cluster_node_image_sets(cluster->node_image),
                                .node_name = cluster->node_name,
                        },
                        &cluster->slots);
        if (r < 0 || !cluster->images_ready.is_on)
                return r;

        return images_ready_new(
                &(ImagesReadyOptions){
                        .client = cluster->client,
                        .log = cluster->log,
                        .metrics = cluster->metrics,
                        .images = images,
                        .sets = cluster_node_image_sets(cluster->node_image),
                        .node_name = cluster->node_name,
                        .settings = cluster->images_ready,
                },
                &cluster->ready);
}

bool cluster_serves_sets(const Cluster *cluster) {
        return cluster->must_register;
}

void cluster_on_done(const Image *image, const ImageRequest *request, void *userdata) {
        Cluster *cluster = userdata;

        if (cluster->node_image)
                cluster_node_image_on_done(cluster->node_image, image, request);
}
