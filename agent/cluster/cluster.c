/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/cluster/cluster.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/cluster/node-image.h"
#include "agent/cluster/registration.h"
#include "agent/cluster/status-writer.h"
#include "agent/kube/resource.h"

#define COMPONENT "inplaced"
#define CLUSTER_GROUP "apps.kruise.io"
#define REASON_SUCCEEDED "PullImageSucceed"
#define REASON_FAILED "PullImageFailed"

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
        Images *images;
        ImagesWatcher watcher;
        ClusterNodeImage *node_image;

        bool was_away;
        KubeResource *resource;
        StatusWriter *writer;       /* while a version is served, as is the registration */
        Registration *registration; /* if it is asked for */
};

DEFINE_CLEANUP(Cluster *, cluster_free)

static void cluster_notify(Cluster *cluster) {
        cluster->on_changed(cluster->userdata);
}

static int cluster_register(Cluster *cluster, const KubeObject *object) {
        return cluster->registration ? registration_on_object(cluster->registration, object) : 0;
}

/* The NodeImage, as the watch shows it */

static int on_object(const KubeObject *object, void *userdata) {
        Cluster *cluster = userdata;
        int r;

        r = cluster_node_image_set(cluster->node_image, object);
        if (r < 0)
                return r;

        r = cluster_register(cluster, object);
        if (r < 0)
                return r;

        cluster_notify(cluster);
        return status_writer_on_object(cluster->writer);
}

static int on_gone(const KubeObject *object, void *userdata) {
        Cluster *cluster = userdata;
        int r;

        r = cluster_node_image_clear(cluster->node_image);
        if (r < 0)
                return r;

        log_info(cluster->log, NULL, "The NodeImage `%s` is gone.", cluster->node_name);
        cluster_notify(cluster);
        return kube_resource_is_synced(cluster->resource) ? cluster_register(cluster, NULL) : 0;
}

static void on_list(void *userdata) {
        Cluster *cluster = userdata;

        cluster_node_image_on_list(cluster->node_image);
}

static int on_synced(bool is_first, void *userdata) {
        Cluster *cluster = userdata;
        int r;

        cluster_node_image_on_listed(cluster->node_image);
        /* What a previous run has done is claimed by the first list, or never. */
        r = is_first ? cluster_node_image_on_first_sync(cluster->node_image) : 0;
        if (r < 0)
                return r;

        return cluster_node_image_uid(cluster->node_image) ? 0 : cluster_register(cluster, NULL);
}

static int on_resource_changed(void *userdata) {
        Cluster *cluster = userdata;
        int r = 0;

        if (cluster->writer)
                r = status_writer_set_synced(cluster->writer,
                                             kube_resource_is_synced(cluster->resource));
        cluster_notify(cluster);
        return r;
}

/* What depends on the version that is served */

static void on_written(const Error *error, void *userdata) {
        Cluster *cluster = userdata;

        metrics_count(cluster->metrics, METRIC_NODE_IMAGE_WRITES, !error);
        if (!error)
                metrics_set(cluster->metrics, METRIC_NODE_IMAGE_LAST_WRITE, NULL,
                            (double) time(NULL));
        cluster_notify(cluster);
}

static void on_settled(void *userdata) {
        cluster_notify(userdata);
}

static int on_stale(void *userdata) {
        const Cluster *cluster = userdata;
        const char *version = cluster_node_image_resource_version(cluster->node_image);

        return kube_resource_check(cluster->resource, 0, /* namespace= */ NULL, cluster->node_name,
                                   version ?: "");
}

static void cluster_drop_writers(Cluster *cluster) {
        cluster->writer = status_writer_free(cluster->writer);
        cluster->registration = registration_free(cluster->registration);
}

static int cluster_add_writer(Cluster *cluster, const char *version) {
        const StatusWriterOptions options = {
                .client = cluster->client,
                .log = cluster->log,
                .node_image = cluster->node_image,
                .version = version,
                .on_written = on_written,
                .on_settled = on_settled,
                .on_stale = on_stale,
                .userdata = cluster,
        };

        return status_writer_new(&options, &cluster->writer);
}

static int cluster_add_registration(Cluster *cluster, const char *version) {
        const RegistrationOptions options = {
                .client = cluster->client,
                .log = cluster->log,
                .version = version,
                .node_name = cluster->node_name,
        };

        return cluster->must_register ? registration_new(&options, &cluster->registration) : 0;
}

static int on_version(const char *version, void *userdata) {
        Cluster *cluster = userdata;
        int r;

        cluster_drop_writers(cluster);
        if (!version)
                return 0;

        r = cluster_add_writer(cluster, version);
        return r < 0 ? r : cluster_add_registration(cluster, version);
}

static int cluster_add_resource(Cluster *cluster) {
        /* Newer first: what is stored need not be converted then. */
        static const char *const versions[] = { "v1beta1", "v1alpha1", NULL };
        cleanup(free_p) char *subject = NULL, *fields = NULL;

        if (asprintf(&subject, "the NodeImage `%s`", cluster->node_name) < 0) {
                subject = NULL;
                return -ENOMEM;
        }

        if (asprintf(&fields, "metadata.name=%s", cluster->node_name) < 0) {
                fields = NULL;
                return -ENOMEM;
        }

        return kube_resource_new(
                &(KubeResourceOptions){
                        .client = cluster->client,
                        .log = cluster->log,
                        .metrics = cluster->metrics,
                        .group = CLUSTER_GROUP,
                        .versions = versions,
                        .resource = "nodeimages",
                        .subject = subject,
                        .speaks_for_all = true,
                        .selections = { { .fields = fields,
                                          .on_object = on_object,
                                          .on_gone = on_gone,
                                          .on_list = on_list } },
                        .on_version = on_version,
                        .on_synced = on_synced,
                        .on_changed = on_resource_changed,
                        .userdata = cluster,
                },
                &cluster->resource);
}

/*
 * Events about images, for those who have requested them
 *
 * The reasons are OpenKruise's. A success is an event of the NodeImage; a failure also one of each of the
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

static int notify_owners(KubeEvents *events, const DesiredImage *desired, const char *message) {
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

        r = notify_owners(events, desired, message);
        if (r < 0)
                return r;

        return kube_event_send(events, node_image, "Warning", REASON_FAILED, message);
}

/* The diagnosis */

/* What stands between this node and the API server; NULL: nothing. */
static const char *find_obstacle(const Cluster *cluster) {
        const Error *trouble = kube_client_trouble(cluster->client), *error;

        if (trouble && trouble->kind != ERROR_NONE)
                return error_message(trouble);
        if (!cluster->resource)
                return "waiting for the API server";
        error = kube_resource_error(cluster->resource);
        if (error->kind != ERROR_NONE)
                return error_message(error);
        if (!kube_resource_version(cluster->resource))
                return "waiting for the API server";
        if (!kube_resource_was_synced(cluster->resource))
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
        ErrorKind kind =
                cluster->resource ? kube_resource_error(cluster->resource)->kind : ERROR_NONE;

        if (trouble && trouble->kind == ERROR_DENIED)
                return "check the credentials and the certificate authority";
        if (kind == ERROR_NOT_FOUND)
                return "install OpenKruise, or the CRDs of packaging/kubernetes/crds";
        if (kind == ERROR_DENIED)
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
        if (!cluster->resource || !kube_resource_was_synced(cluster->resource))
                return 0;
        if (!cluster_node_image_uid(cluster->node_image))
                return visitor->on_fact("NodeImage",
                                        cluster->must_register
                                                ? "none yet, will be made"
                                                : "none yet; a controller or --register-node makes "
                                                  "it",
                                        visitor->userdata);

        n = asprintf(&text, "%s (%s), tags: %zu", cluster_node_image_name(cluster->node_image),
                     kube_resource_version(cluster->resource) ?: "?",
                     cluster_node_image_n_images(cluster->node_image));
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

        return cluster->writer ? status_writer_compare(cluster->writer) : 0;
}

/* What waits for the server need not wait any longer. */
static void cluster_kick(Cluster *cluster) {
        if (cluster->resource)
                (void) kube_resource_kick(cluster->resource);
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
        cluster->resource = kube_resource_free(cluster->resource);
        cluster_drop_writers(cluster);
        cluster->node_image = cluster_node_image_free(cluster->node_image);
}

Cluster *cluster_free(Cluster *cluster) {
        if (!cluster)
                return NULL;

        cluster_stop(cluster);
        kube_secrets_free(cluster->secrets);
        kube_events_free(cluster->events);
        kube_client_free(cluster->client);
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
        log_info(cluster->log, NULL, "The API server is %s.", kube_client_target(cluster->client));
        return cluster_add_resource(cluster);
}

void cluster_on_done(const Image *image, const ImageRequest *request, void *userdata) {
        Cluster *cluster = userdata;
        const ImageStatus *status = image_status_for(image, request->owner, request->desired.name);
        const char *version = cluster->resource ? kube_resource_version(cluster->resource) : NULL;
        cleanup(free_p) char *api_version = NULL;
        KubeReference reference = {
                .kind = "NodeImage",
                .name = cluster_node_image_name(cluster->node_image),
                .uid = cluster_node_image_uid(cluster->node_image),
        };

        if (!status || !cluster_node_image_is_owner(cluster->node_image, request->owner) ||
            !version || asprintf(&api_version, CLUSTER_GROUP "/%s", version) < 0)
                return;

        reference.api_version = api_version;
        (void) send_outcome(cluster->events, &reference, &request->desired, status);
}
