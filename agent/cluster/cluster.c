/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/cluster/cluster.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/cluster/node-image.h"
#include "agent/cluster/registration.h"
#include "agent/cluster/status-writer.h"
#include "agent/kube/discovery.h"
#include "agent/kube/path.h"
#include "agent/kube/report.h"
#include "agent/kube/retry.h"
#include "agent/kube/watch-message.h"
#include "agent/kube/watch.h"

#define COMPONENT "inplaced"
#define CLUSTER_GROUP "apps.kruise.io"
#define REASON_SUCCEEDED "PullImageSucceed"
#define REASON_FAILED "PullImageFailed"

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
        ClusterNodeImage *node_image;

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

DEFINE_CLEANUP(Cluster *, cluster_free)

static void cluster_tell(Cluster *cluster) {
        cluster->on_changed(cluster->userdata);
}

static int cluster_register(Cluster *cluster, const KubeObject *object) {
        return cluster->registration ? registration_on_object(cluster->registration, object) : 0;
}

/* The newest state of the NodeImage. */
static int cluster_on_object(Cluster *cluster, const KubeObject *object) {
        int r;

        cluster->is_shown = true;
        r = cluster_node_image_set(cluster->node_image, object);
        if (r < 0)
                return r;

        r = cluster_register(cluster, object);
        if (r < 0)
                return r;

        cluster_tell(cluster);
        return status_writer_on_object(cluster->writer);
}

/*
 * Whether the NodeImage is what the watch has shown
 *
 * After the cluster's store was restored from a backup, the server takes a watch from a version that is
 * not there any more and shows nothing. One that was not started again even lists what it remembers of
 * the lost future. Only a GET of the object is sure to be answered by the store.
 */

static int cluster_take_object(Cluster *cluster, const KubeObject *object) {
        const char *known = cluster_node_image_resource_version(cluster->node_image);
        int r;

        if (known && strcmp(object->resource_version, known) == 0)
                return 0;

        log_info(cluster->log, NULL,
                 "The NodeImage `%s` is not what the watch has shown: listing it anew.",
                 cluster->node_name);
        cluster_node_image_on_list(cluster->node_image);
        r = cluster_on_object(cluster, object);
        return r < 0 ? r : kube_watch_relist(cluster->watch);
}

/* A refusal is met again by the next write, which asks again. */
static int on_checked(const KubeReply *reply, const Error *error, void *userdata) {
        cleanup(watch_reader_done) WatchReader reader = WATCH_READER_INIT(false);
        cleanup(watch_event_done) WatchEvent event = WATCH_EVENT_INIT;
        cleanup(error_done) Error unread = ERROR_INIT;
        Cluster *cluster = userdata;
        int r;

        cluster->check = kube_call_unref(cluster->check);
        if (error)
                return error->kind == ERROR_NOT_FOUND ? kube_watch_relist(cluster->watch) : 0;

        r = watch_object_read(&reader, (Slice){ .data = reply->body, .size = reply->size }, &event,
                              &unread);
        if (r < 0)
                return unread.kind == ERROR_NONE ? r : 0;

        return cluster_take_object(cluster, &event.object);
}

static int cluster_check_object(Cluster *cluster) {
        const KubePath path = {
                .group = CLUSTER_GROUP,
                .version = cluster->version,
                .resource = "nodeimages",
                .name = cluster->node_name,
        };
        KubeRequest request = {
                .verb = "get",
                .method = "GET",
                .on_replied = on_checked,
                .userdata = cluster,
        };
        cleanup(free_p) char *text = NULL;
        int r;

        if (cluster->check)
                return 0;

        r = kube_path_format(&path, &text);
        if (r < 0)
                return r;

        request.path = text;
        return kube_call(cluster->client, &request, &cluster->check);
}

/* What depends on the version that is served */

/* Newer first: what is stored need not be converted then. */
static const char *const versions[] = { "v1beta1", "v1alpha1", NULL };

/* What an earlier life has done is claimed by the first list, or never. */
static int cluster_on_first_sync(Cluster *cluster) {
        cluster->was_synced = true;
        log_info(cluster->log, NULL, "Watching the NodeImage `%s` (%s) of %s.", cluster->node_name,
                 cluster->version, kube_client_target(cluster->client));
        return cluster_node_image_on_first_sync(cluster->node_image);
}

static int on_object(const KubeObject *object, void *userdata) {
        return cluster_on_object(userdata, object);
}

static int cluster_on_gone(Cluster *cluster) {
        int r;

        r = cluster_node_image_clear(cluster->node_image);
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

/* Lets go of all that needs a served version. */
static void cluster_drop_parts(Cluster *cluster) {
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
        cluster_node_image_on_listed(cluster->node_image);
        if (kube_report_well(&cluster->report) && cluster->was_synced)
                log_info(cluster->log, NULL, "Watching the NodeImage `%s` again.",
                         cluster->node_name);

        r = cluster->was_synced ? 0 : cluster_on_first_sync(cluster);
        if (r < 0)
                return r;

        /* It went while its kind was not served, so no watch has seen it go. */
        if (!cluster->is_shown && cluster_node_image_uid(cluster->node_image))
                r = cluster_on_gone(cluster);
        if (r < 0)
                return r;

        return cluster_node_image_uid(cluster->node_image) ? 0 : cluster_register(cluster, NULL);
}

static int on_rediscover(sd_event_source *source, uint64_t usec, void *userdata);

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

        cluster_node_image_on_list(cluster->node_image);
}

static void on_watch_restart(void *userdata) {
        Cluster *cluster = userdata;

        cluster->on_watch_restart(cluster->userdata);
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
        cluster_node_image_on_list(cluster->node_image);
        options.selector = selector;
        return kube_watch_new(&options, &cluster->watch);
}

static int cluster_add_parts(Cluster *cluster, const char *version) {
        StatusWriterOptions writer = {
                .client = cluster->client,
                .log = cluster->log,
                .node_image = cluster->node_image,
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

/* Finds out which version is served, and watches it. */
static int cluster_discover(Cluster *cluster) {
        cluster->rediscover = sd_event_source_disable_unref(cluster->rediscover);
        cluster->discovery = kube_discovery_free(cluster->discovery);
        return kube_discover(cluster->client, CLUSTER_GROUP, versions, "nodeimages", on_discovered,
                             cluster, &cluster->discovery);
}

static int on_rediscover(sd_event_source *source, uint64_t usec, void *userdata) {
        return cluster_discover(userdata);
}

/*
 * Events about images, for those who have asked for them
 *
 * The reasons are OpenKruise's. A success is told about the NodeImage; a failure about each of the
 * owners of the tag, too.
 */

/* "nginx:1.27", "nginx@sha256:..." */
static int reference_of(const DesiredImage *desired, char **ret) {
        const char *separator = strchr(desired->tag, ':') ? "@" : ":";

        return asprintf(ret, "%s%s%s", desired->name, separator, desired->tag) < 0 ? -ENOMEM : 0;
}

static int message_of(const char *reference, const ImageStatus *status, char **ret) {
        int n;

        if (status->phase != IMAGE_SUCCEEDED)
                n = asprintf(ret, "Image %s %s", reference, status->message ?: "failed");
        else if (status->was_present)
                n = asprintf(ret, "Image %s was already present", reference);
        else
                n = asprintf(ret, "Image %s, elapsedTime %.3fs", reference,
                             (double) status->duration_usec / 1e6);
        return n < 0 ? -ENOMEM : 0;
}

static int tell_owners(KubeEvents *events, const DesiredImage *desired, const char *message) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < desired->n_owners; i++) {
                const OwnerRef *owner = &desired->owners[i];
                const KubeReference reference = {
                        .api_version = owner->api_version,
                        .kind = owner->kind,
                        .namespace = owner->namespace,
                        .name = owner->name,
                        .uid = owner->uid,
                        .resource_version = owner->resource_version,
                        .field_path = owner->field_path,
                };

                if (owner->kind && owner->name)
                        r = kube_event_send(events, &reference, "Warning", REASON_FAILED, message);
        }

        return r;
}

/* node_image: what the event is about. The status is final. */
static int send_outcome(KubeEvents *events, const KubeReference *node_image,
                        const DesiredImage *desired, const ImageStatus *status) {
        cleanup(free_p) char *reference = NULL, *message = NULL;
        int r;

        r = reference_of(desired, &reference);
        if (r < 0)
                return r;

        r = message_of(reference, status, &message);
        if (r < 0)
                return r;

        if (status->phase == IMAGE_SUCCEEDED)
                return kube_event_send(events, node_image, "Normal", REASON_SUCCEEDED, message);

        r = tell_owners(events, desired, message);
        if (r < 0)
                return r;

        return kube_event_send(events, node_image, "Warning", REASON_FAILED, message);
}

/* The diagnosis */

/* What stands between this node and the API server; NULL: nothing. */
static const char *find_obstacle(const Cluster *cluster) {
        const Error *trouble = kube_client_trouble(cluster->client);

        if (trouble && trouble->kind != ERROR_NONE)
                return error_message(trouble);
        if (cluster->absence.kind != ERROR_NONE)
                return error_message(&cluster->absence);
        if (!cluster->watch)
                return "waiting for the API server";
        if (kube_watch_state(cluster->watch) == KUBE_WATCH_TROUBLED)
                return error_message(kube_watch_error(cluster->watch));
        if (!cluster->was_synced)
                return "waiting for the list of NodeImages";

        return NULL;
}

static bool is_ready(const void *source, const char **ret_why) {
        const Cluster *cluster = source;
        const char *obstacle = find_obstacle(cluster);
        const Error *error = cluster->writer ? status_writer_error(cluster->writer) : NULL;

        if (!obstacle && error && error->kind != ERROR_NONE)
                obstacle = error_message(error);
        if (obstacle)
                *ret_why = obstacle;
        return !obstacle;
}

static const char *advice_for(const Cluster *cluster) {
        const Error *trouble = kube_client_trouble(cluster->client);

        if (trouble && trouble->kind == ERROR_DENIED)
                return "check the credentials and the certificate authority";
        if (cluster->absence.kind == ERROR_NOT_FOUND)
                return "install OpenKruise, or the CRDs of packaging/kubernetes/crds";
        if (cluster->watch && kube_watch_error(cluster->watch)->kind == ERROR_DENIED)
                return "give the agent the rights of packaging/kubernetes/base/rbac.yaml";

        return "pulls go on meanwhile, and are reported when it is there";
}

static int visit_server(const Cluster *cluster, const DiagnosisVisitor *visitor) {
        const char *obstacle = find_obstacle(cluster);

        if (obstacle)
                return visitor->on_problem("API server", obstacle, advice_for(cluster),
                                           visitor->userdata);

        return visitor->on_fact("API server", kube_client_target(cluster->client),
                                visitor->userdata);
}

static int visit_node_image(const Cluster *cluster, const DiagnosisVisitor *visitor) {
        const Error *error = cluster_node_image_error(cluster->node_image);
        cleanup(free_p) char *text = NULL;
        int n;

        if (error->kind != ERROR_NONE)
                return visitor->on_problem("NodeImage", error_message(error),
                                           "correct its spec; until then the rest of it "
                                           "counts, or the last good one",
                                           visitor->userdata);
        if (!cluster->was_synced)
                return 0;
        if (!cluster_node_image_uid(cluster->node_image))
                return visitor->on_fact("NodeImage",
                                        cluster->must_register
                                                ? "none yet, will be made"
                                                : "none yet; a controller or --register-node makes "
                                                  "it",
                                        visitor->userdata);

        n = asprintf(&text, "%s (%s), tags: %zu", cluster_node_image_name(cluster->node_image),
                     cluster->version ?: "?", cluster_node_image_n_images(cluster->node_image));
        if (n < 0) {
                text = NULL;
                return -ENOMEM;
        }

        return visitor->on_fact("NodeImage", text, visitor->userdata);
}

static int visit_error(const DiagnosisVisitor *visitor, const char *subject, const Error *error) {
        if (error->kind == ERROR_NONE)
                return 0;

        return visitor->on_problem(subject, error_message(error),
                                   error->kind == ERROR_DENIED
                                           ? "give the agent the rights of "
                                             "packaging/kubernetes/base/rbac.yaml"
                                           : "it is tried again",
                                   visitor->userdata);
}

static int visit(const void *source, const DiagnosisVisitor *visitor) {
        const Cluster *cluster = source;
        int r;

        r = visit_server(cluster, visitor);
        if (r < 0)
                return r;

        r = visit_node_image(cluster, visitor);
        if (r >= 0 && cluster->writer)
                r = visit_error(visitor, "status of the NodeImage",
                                status_writer_error(cluster->writer));
        if (r >= 0 && cluster->registration)
                r = visit_error(visitor, "registration of the node",
                                registration_error(cluster->registration));
        return r;
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
        cluster->node_image = cluster_node_image_free(cluster->node_image);
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

        r = cluster_node_image_new(cluster->log, images, &cluster->node_image);
        if (r < 0)
                return r;

        cluster->images = images;
        cluster->watcher = (ImagesWatcher){ .on_image = on_image, .userdata = cluster };
        images_watch(images, &cluster->watcher);
        return cluster_discover(cluster);
}

void cluster_on_done(const Image *image, const ImageRequest *request, void *userdata) {
        Cluster *cluster = userdata;
        const ImageStatus *status = image_status_for(image, request->owner, request->desired.name);
        cleanup(free_p) char *api_version = NULL;
        KubeReference reference = {
                .kind = "NodeImage",
                .name = cluster_node_image_name(cluster->node_image),
                .uid = cluster_node_image_uid(cluster->node_image),
        };

        if (!status || !cluster_node_image_is_owner(cluster->node_image, request->owner) ||
            !cluster->version || asprintf(&api_version, CLUSTER_GROUP "/%s", cluster->version) < 0)
                return;

        reference.api_version = api_version;
        (void) send_outcome(cluster->events, &reference, &request->desired, status);
}
