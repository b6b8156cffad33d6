/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/cluster/cluster-internal.h"
#include "agent/kube/path.h"
#include "agent/kube/retry.h"

/* Newer first: what is stored need not be converted then. */
static const char *const versions[] = { "v1beta1", "v1alpha1", NULL };

/* What an earlier life has done is claimed by the first list, or never. */
static int cluster_on_first_sync(Cluster *cluster) {
        cluster->was_synced = true;
        log_info(cluster->log, NULL, "Watching the NodeImage `%s` (%s) of %s.", cluster->node_name,
                 cluster->version, kube_client_target(cluster->client));
        return desired_on_first_sync(cluster->desired);
}

static int cluster_register(Cluster *cluster, const KubeObject *object) {
        return cluster->registration ? registration_on_object(cluster->registration, object) : 0;
}

int cluster_on_object(Cluster *cluster, const KubeObject *object) {
        int r;

        cluster->is_shown = true;
        r = desired_set(cluster->desired, object);
        if (r < 0)
                return r;

        r = cluster_register(cluster, object);
        if (r < 0)
                return r;

        cluster_tell(cluster);
        return status_writer_on_object(cluster->writer);
}

static int on_object(const KubeObject *object, void *userdata) {
        return cluster_on_object(userdata, object);
}

static int cluster_on_gone(Cluster *cluster) {
        int r;

        r = desired_clear(cluster->desired);
        if (r < 0)
                return r;

        log_info(cluster->log, NULL, "The NodeImage `%s` is gone.", cluster->node_name);
        cluster_tell(cluster);
        return 0;
}

static int on_gone(const KubeObject *object, void *userdata) {
        Cluster *cluster = userdata;
        int r;

        r = cluster_on_gone(cluster);
        if (r < 0)
                return r;

        return kube_watch_state(cluster->watch) == KUBE_WATCH_SYNCED
                       ? cluster_register(cluster, NULL)
                       : 0;
}

void cluster_drop_parts(Cluster *cluster) {
        kube_report_answered(&cluster->report);
        cluster->check = kube_call_unref(cluster->check);
        cluster->watch = kube_watch_free(cluster->watch);
        cluster->writer = status_writer_free(cluster->writer);
        cluster->registration = registration_free(cluster->registration);
        cluster->version = (free(cluster->version), NULL);
}

static int cluster_on_synced(Cluster *cluster) {
        int r;

        cluster->n_failures = 0;
        desired_on_listed(cluster->desired);
        if (kube_report_well(&cluster->report) && cluster->was_synced)
                log_info(cluster->log, NULL, "Watching the NodeImage `%s` again.",
                         cluster->node_name);

        r = cluster->was_synced ? 0 : cluster_on_first_sync(cluster);
        if (r < 0)
                return r;

        /* It went while its kind was not served, so no watch has seen it go. */
        if (!cluster->is_shown && desired_uid(cluster->desired))
                r = cluster_on_gone(cluster);
        if (r < 0)
                return r;

        return desired_uid(cluster->desired) ? 0 : cluster_register(cluster, NULL);
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
        return loop_add_time_relative(event, &cluster->rediscover, CLOCK_MONOTONIC,
                                      kube_retry_usec(cluster->n_failures, NULL, random), 0,
                                      on_rediscover, cluster);
}

static int cluster_on_absent(Cluster *cluster, const Error *why) {
        int r;

        r = kube_report_trouble(&cluster->report, why);
        if (r < 0)
                return r;

        (void) error_copy(&cluster->absence, why);
        cluster_tell(cluster);
        return cluster_discover_later(cluster);
}

/* Discovery may go on to name what is not there: it is not asked without a pause. */
static int cluster_on_unserved(Cluster *cluster, const Error *why) {
        cleanup(error_done) Error copy = ERROR_INIT;

        (void) error_copy(&copy, why);
        cluster_drop_parts(cluster);
        return cluster_on_absent(cluster, &copy);
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

        r = state == KUBE_WATCH_TROUBLED ? kube_report_trouble(&cluster->report, error) : 0;
        if (r < 0)
                return r;
        if (state == KUBE_WATCH_TROUBLED && error->kind == ERROR_NOT_FOUND)
                return cluster_on_unserved(cluster, error);

        cluster_tell(cluster);
        return 0;
}

static void on_list(void *userdata) {
        Cluster *cluster = userdata;

        desired_on_list(cluster->desired);
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

static void on_settled(void *userdata) {
        cluster_tell(userdata);
}

static int on_doubt(void *userdata) {
        return cluster_check_object(userdata);
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
                .on_list = on_list,
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

        /* It has seen nothing yet, so all that it shows first is of a list. */
        cluster->is_shown = false;
        desired_on_list(cluster->desired);
        options.selector = selector;
        return kube_watch_new(&options, &cluster->watch);
}

static int cluster_add_parts(Cluster *cluster, const char *version) {
        StatusWriterOptions writer = {
                .client = cluster->client,
                .log = cluster->log,
                .desired = cluster->desired,
                .on_written = on_written,
                .on_settled = on_settled,
                .on_doubt = on_doubt,
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

static int on_discovered(const char *version, const Error *error, void *userdata) {
        Cluster *cluster = userdata;
        cleanup(error_done) Error absent = ERROR_INIT;

        cluster->discovery = kube_discovery_free(cluster->discovery);
        error_done(&cluster->absence);
        if (error)
                return cluster_on_absent(cluster, error);
        if (!version) {
                (void) error_set(&absent, ERROR_NOT_FOUND,
                                 "the API server has no NodeImages of " CLUSTER_GROUP);
                return cluster_on_absent(cluster, &absent);
        }

        kube_report_answered(&cluster->report);
        cluster_tell(cluster);
        return cluster_add_parts(cluster, version);
}

int cluster_discover(Cluster *cluster) {
        cluster->rediscover = sd_event_source_disable_unref(cluster->rediscover);
        cluster->discovery = kube_discovery_free(cluster->discovery);
        return kube_discover(cluster->client, CLUSTER_GROUP, versions, "nodeimages", on_discovered,
                             cluster, &cluster->discovery);
}
