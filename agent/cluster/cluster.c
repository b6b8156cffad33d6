/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/cluster/cluster.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/cluster/cluster-internal.h"
#include "agent/cluster/outcome-events.h"
#include "agent/kube/path.h"
#include "agent/kube/retry.h"

#define COMPONENT "inplaced"

/* Newer first: what is stored need not be converted then. */
static const char *const versions[] = { "v1beta1", "v1alpha1", NULL };

DEFINE_CLEANUP(Cluster *, cluster_free)

static int cluster_discover(Cluster *cluster);

static void cluster_tell(Cluster *cluster) {
        cluster->on_changed(cluster->userdata);
}

static int on_image(Image *image, void *userdata) {
        Cluster *cluster = userdata;

        return cluster->writer ? status_writer_look(cluster->writer) : 0;
}

/* What an earlier life has done is claimed by the first list, or never. */
static int cluster_on_first_sync(Cluster *cluster) {
        if (cluster->was_synced)
                return 0;

        cluster->was_synced = true;
        images_restore_end(cluster->images);
        log_info(cluster->log, NULL, "Watching the NodeImage `%s` (%s) of %s.", cluster->node_name,
                 cluster->version, kube_client_target(cluster->client));
        return 0;
}

static int cluster_register(Cluster *cluster, const KubeObject *object) {
        return cluster->registration ? registration_on_object(cluster->registration, object) : 0;
}

static int on_object(const KubeObject *object, void *userdata) {
        Cluster *cluster = userdata;
        int r;

        r = desired_set(cluster->desired, object);
        if (r < 0)
                return r;

        r = cluster_register(cluster, object);
        if (r < 0)
                return r;

        cluster_tell(cluster);
        return status_writer_look(cluster->writer);
}

static int on_gone(const KubeObject *object, void *userdata) {
        Cluster *cluster = userdata;
        int r;

        r = desired_clear(cluster->desired);
        if (r < 0)
                return r;

        log_info(cluster->log, NULL, "The NodeImage `%s` is gone.", object->name);
        cluster_tell(cluster);
        return kube_watch_state(cluster->watch) == KUBE_WATCH_SYNCED
                       ? cluster_register(cluster, NULL)
                       : 0;
}

/* The parts that need a served version. */
static void cluster_drop_parts(Cluster *cluster) {
        cluster->watch = kube_watch_free(cluster->watch);
        cluster->writer = status_writer_free(cluster->writer);
        cluster->registration = registration_free(cluster->registration);
        cluster->version = (free(cluster->version), NULL);
}

static int cluster_on_synced(Cluster *cluster) {
        int r;

        r = cluster_on_first_sync(cluster);
        if (r < 0)
                return r;

        return desired_uid(cluster->desired) ? 0 : cluster_register(cluster, NULL);
}

static int on_watch_state(KubeWatchState state, void *userdata) {
        Cluster *cluster = userdata;
        const Error *error = kube_watch_error(cluster->watch);
        int r;

        r = status_writer_set_synced(cluster->writer, state == KUBE_WATCH_SYNCED);
        if (r < 0)
                return r;

        if (state == KUBE_WATCH_SYNCED)
                r = cluster_on_synced(cluster);
        if (r < 0)
                return r;

        if (state == KUBE_WATCH_TROUBLED && error->kind == ERROR_NOT_FOUND) {
                cluster_drop_parts(cluster);
                r = cluster_discover(cluster);
        }

        cluster_tell(cluster);
        return r;
}

static void on_watch_restart(void *userdata) {
        Cluster *cluster = userdata;

        cluster->on_watch_restart(cluster->userdata);
}

static void on_written(const Error *error, void *userdata) {
        Cluster *cluster = userdata;

        cluster->on_written(error, cluster->userdata);
        cluster_tell(cluster);
}

static int cluster_add_registration(Cluster *cluster) {
        const RegistrationOptions options = {
                .client = cluster->client,
                .log = cluster->log,
                .version = cluster->version,
                .node_name = cluster->node_name,
        };

        return cluster->must_register ? registration_new(&options, &cluster->registration) : 0;
}

static int cluster_add_watch(Cluster *cluster) {
        cleanup(free_p) char *name = NULL, *selector = NULL;
        KubeWatchOptions options = {
                .client = cluster->client,
                .path = { .group = CLUSTER_GROUP,
                          .version = cluster->version,
                          .resource = "nodeimages" },
                .on_object = on_object,
                .on_gone = on_gone,
                .on_state = on_watch_state,
                .on_restart = on_watch_restart,
                .userdata = cluster,
        };
        int r;

        r = kube_path_escape(cluster->node_name, &name);
        if (r < 0)
                return r;

        if (asprintf(&selector, "fieldSelector=metadata.name%%3D%s", name) < 0) {
                selector = NULL;
                return -ENOMEM;
        }

        options.selector = selector;
        return kube_watch_new(&options, &cluster->watch);
}

static int cluster_add_parts(Cluster *cluster, const char *version) {
        StatusWriterOptions writer = {
                .client = cluster->client,
                .log = cluster->log,
                .desired = cluster->desired,
                .on_written = on_written,
                .userdata = cluster,
        };
        int r;

        cluster->version = strdup(version);
        if (!cluster->version)
                return -ENOMEM;

        writer.version = cluster->version;
        r = status_writer_new(&writer, &cluster->writer);
        if (r < 0)
                return r;

        r = cluster_add_registration(cluster);
        if (r < 0)
                return r;

        return cluster_add_watch(cluster);
}

static int on_rediscover(sd_event_source *source, uint64_t usec, void *userdata) {
        return cluster_discover(userdata);
}

static int cluster_discover_later(Cluster *cluster) {
        sd_event *event = kube_client_event(cluster->client);
        uint32_t random = 0;

        (void) getrandom(&random, sizeof(random), GRND_NONBLOCK);
        cluster->n_failures++;
        cluster->rediscover = sd_event_source_disable_unref(cluster->rediscover);
        return sd_event_add_time_relative(event, &cluster->rediscover, CLOCK_MONOTONIC,
                                          kube_retry_usec(cluster->n_failures, NULL, random), 0,
                                          on_rediscover, cluster);
}

static int on_discovered(const char *version, const Error *error, void *userdata) {
        Cluster *cluster = userdata;
        cleanup(error_done) Error absent = ERROR_INIT;

        cluster->discovery = kube_discovery_free(cluster->discovery);
        if (!version && !error) {
                (void) error_set(&absent, ERROR_NOT_FOUND,
                                 "the API server has no NodeImages of " CLUSTER_GROUP);
                error = &absent;
        }

        if (error && strcmp(error_message(error), error_message(&cluster->absence)) != 0)
                log_warning(cluster->log, NULL, "Waiting for the API server: %s.",
                            error_message(error));
        error_done(&cluster->absence);
        if (error)
                (void) error_copy(&cluster->absence, error);
        cluster_tell(cluster);
        if (error)
                return cluster_discover_later(cluster);

        cluster->n_failures = 0;
        return cluster_add_parts(cluster, version);
}

static int cluster_discover(Cluster *cluster) {
        cluster->rediscover = sd_event_source_disable_unref(cluster->rediscover);
        cluster->discovery = kube_discovery_free(cluster->discovery);
        return kube_discover(cluster->client, CLUSTER_GROUP, versions, "nodeimages", on_discovered,
                             cluster, &cluster->discovery);
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
}

static void on_reachable(const Error *trouble, void *userdata) {
        Cluster *cluster = userdata;

        if (trouble)
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
        kube_secrets_free(cluster->secrets);
        kube_events_free(cluster->events);
        kube_client_free(cluster->client);
        error_done(&cluster->absence);
        free(cluster->node_name);
        free(cluster);
        return NULL;
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

void cluster_on_outcome(const Image *image, void *userdata) {
        Cluster *cluster = userdata;
        const ImageWish *wish = desired_find_finished(cluster->desired, image);
        cleanup(free_p) char *api_version = NULL;
        KubeReference reference = {
                .kind = "NodeImage",
                .name = desired_name(cluster->desired),
                .uid = desired_uid(cluster->desired),
        };

        if (!wish || !cluster->version ||
            asprintf(&api_version, CLUSTER_GROUP "/%s", cluster->version) < 0)
                return;

        reference.api_version = api_version;
        (void) outcome_events_send(cluster->events, &reference, wish, image_status(image));
}
