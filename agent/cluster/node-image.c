/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/cluster/node-image.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/base/text.h"
#include "agent/cluster/image-sets.h"
#include "agent/cluster/registration-spec.h"
#include "agent/cluster/registration.h"
#include "agent/cluster/status-diff.h"
#include "agent/cluster/write-pace.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/image/image-spec.h"
#include "agent/kube/resource.h"
#include "agent/kube/writer.h"
#include "agent/node/owner.h"

#define GROUP "apps.kruise.io"
#define RESOURCE "nodeimages"
#define REASON_SUCCEEDED "PullImageSucceed"
#define REASON_FAILED "PullImageFailed"
#define RIGHTS_OF "give the agent the rights of packaging/kubernetes/"

struct ClusterNodeImage {
        KubeClient *client;
        KubeEvents *events;
        Log *log;
        Metrics *metrics;
        Images *images;
        ImagesWatcher watcher;
        char *node_name;
        bool must_register;
        bool has_other_labels;
        void (*on_changed)(void *userdata);
        void *userdata;

        KubeResource *resource;
        KubeWriter writer;
        WritePace pace;
        Registration *registration; /* set if configured, while the server has the kind */
        ImageSets *sets;            /* set if configured: OpenKruise's jobs do without */
        ImageSetsWatcher sets_watcher;

        char *owner;   /* NULL: there is no object */
        bool has_spec; /* a valid spec was read, perhaps an older one */
        DesiredImages desired_images;
        json_object *status; /* as observed or written last, or NULL */
        Error error;         /* why the spec, or a part of it without a status, is invalid */
};

DEFINE_CLEANUP(ClusterNodeImage *, cluster_node_image_free)

static void notify(const ClusterNodeImage *node_image) {
        node_image->on_changed(node_image->userdata);
}

/* NULL: there is no object. */
static const char *uid_of(const ClusterNodeImage *node_image) {
        return node_image->owner ? owner_name(node_image->owner) : NULL;
}

/* The spec */

static void forget(ClusterNodeImage *node_image) {
        kube_writer_forget(&node_image->writer);
        node_image->owner = (free(node_image->owner), NULL);
        node_image->has_spec = false;
        desired_images_done(&node_image->desired_images);
        node_image->desired_images = DESIRED_IMAGES_INIT;
        json_object_put(node_image->status);
        node_image->status = NULL;
        error_done(&node_image->error);
}

static int clear(ClusterNodeImage *node_image) {
        int r;

        if (!node_image->owner)
                return 0;

        r = images_set_desired(node_image->images, node_image->owner, &DESIRED_IMAGES_INIT,
                               REQUEST_ONCE);
        forget(node_image);
        return r;
}

/* An object with another UID is another object, even of the same name. */
static int identify(ClusterNodeImage *node_image, const KubeObject *object) {
        const char *uid = uid_of(node_image);
        int r;

        if (uid && strcmp(uid, object->uid) == 0)
                return 0;

        r = clear(node_image);
        if (r < 0)
                return r;

        if (text_format(&node_image->owner, OWNER_NODE_IMAGE "%s", object->uid) < 0)
                return -ENOMEM;

        return 0;
}

/* Notes the error, which may be unset. */
static void set_error(ClusterNodeImage *node_image, const Error *error, bool is_partial) {
        bool is_set = error->kind != ERROR_NONE;

        if (error_update(&node_image->error, is_set ? error : NULL) && is_set)
                log_warning(node_image->log, LOG_FIELDS({ "MESSAGE_ID", MESSAGE_DOCUMENT_REFUSED }),
                            "Cannot use %sthe NodeImage \"%s\", continuing with %s: %s.",
                            is_partial ? "a part of " : "", node_image->node_name,
                            is_partial ? "the rest" : "its previous spec", error_message(error));
}

/* Nothing expires here: finished tags stay until a controller removes them from the spec. */
static int set_desired_images(ClusterNodeImage *node_image, json_object *object) {
        cleanup(error_done) Error error = ERROR_INIT, skipped = ERROR_INIT;
        DesiredImages desired_images = DESIRED_IMAGES_INIT;
        int r;

        r = image_spec_parse_each(object, &desired_images, &skipped, &error);
        if (error.kind != ERROR_NONE) {
                set_error(node_image, &error, false);
                return 0;
        }
        if (r < 0)
                return r;

        set_error(node_image, &skipped, true);

        /* OpenKruise's manager strips "docker.io/" from names. */
        for (size_t i = 0; i < desired_images.n_items; i++) {
                desired_images.items[i].ttl_sec = DESIRED_IMAGE_NO_LIMIT;
                desired_images.items[i].is_hub = true;
        }

        desired_images_done(&node_image->desired_images);
        node_image->desired_images = desired_images;
        node_image->has_spec = true;
        return images_set_desired(node_image->images, node_image->owner,
                                  &node_image->desired_images,
                                  registration_spec_is_ours(object) ? REQUEST_RESTORE
                                                                    : REQUEST_ONCE);
}

static int set_status(ClusterNodeImage *node_image, const KubeObject *object) {
        json_object *status = NULL;
        int r;

        r = kube_writer_show(&node_image->writer, object);
        if (r <= 0)
                return r;

        (void) json_object_object_get_ex(object->json, "status", &status);
        json_object_get(status);
        json_object_put(node_image->status);
        node_image->status = status;
        return 0;
}

/* Marks requests as done that are finished in the object's status, which stops their pulls. */
static int set_done(ClusterNodeImage *node_image) {
        for (size_t i = 0; i < node_image->desired_images.n_items; i++) {
                const DesiredImage *desired = &node_image->desired_images.items[i];
                cleanup(image_status_done) ImageStatus status = { 0 };
                json_object *entry = status_find_finished(node_image->status, desired->name,
                                                          desired->tag, desired->version);
                Image *image;
                int r;

                r = images_find_desired(node_image->images, desired, &image);
                if (r < 0)
                        return r;
                if (!image || !entry)
                        continue;

                r = image_status_read_final(entry, desired->name, &status);
                if (r < 0)
                        return r;
                if (r == 0)
                        continue;

                r = image_set_done(image, node_image->owner, desired->name, desired->version,
                                   &status);
                if (r < 0)
                        return r;
        }

        return 0;
}

/* Applies the spec of the object, which is borrowed. An invalid tag fails alone; with an invalid
 * spec the last good one stays in force. */
static int take(ClusterNodeImage *node_image, const KubeObject *object) {
        int r;

        r = identify(node_image, object);
        if (r < 0)
                return r;

        r = set_desired_images(node_image, object->json);
        if (r < 0)
                return r;

        r = set_status(node_image, object);
        if (r < 0)
                return r;

        return set_done(node_image);
}

/* Finds the owner of a request by another NodeImage than this one, or NULL. */
static const char *find_other_owner(const ClusterNodeImage *node_image) {
        for (size_t i = 0; i < images_count(node_image->images); i++)
                for (const ImageRequest *request =
                             image_requests(images_get(node_image->images, i));
                     request; request = request->next)
                        if (owner_is_node_image(request->owner) &&
                            (!node_image->owner || strcmp(request->owner, node_image->owner) != 0))
                                return request->owner;

        return NULL;
}

/* The watch has synced for the first time: ends the restoring of the previous run's state, and
 * drops the requests of former NodeImages. */
static int drop_other_owners(ClusterNodeImage *node_image) {
        const char *owner;

        images_restore_end(node_image->images);
        while ((owner = find_other_owner(node_image))) {
                cleanup(free_p) char *copy = strdup(owner);
                int r;

                if (!copy)
                        return -ENOMEM;

                r = images_set_desired(node_image->images, copy, &DESIRED_IMAGES_INIT,
                                       REQUEST_ONCE);
                if (r < 0)
                        return r;
        }

        return 0;
}

/* The status */

/* The tags of the spec, and those of sets. */
typedef struct StatusList {
        Images *images;
        StatusEntry *entries;
        size_t n_entries;
} StatusList;

static void status_list_done(StatusList *list) {
        free(list->entries);
}

static int add_entry(const char *owner, const DesiredImage *desired, void *userdata) {
        StatusList *list = userdata;
        Image *image;
        int r;

        r = images_find_desired(list->images, desired, &image);
        if (r < 0)
                return r;
        if (array_grow(&list->entries, list->n_entries, sizeof(StatusEntry)) < 0)
                return -ENOMEM;

        list->entries[list->n_entries++] = (StatusEntry){
                .name = desired->name,
                .tag = desired->tag,
                .version = desired->version,
                .status = image ? image_status_for(image, owner, desired->name) : NULL,
                .is_of_set = owner_is_set(owner),
        };
        return 0;
}

/* A tag that several have is shown as the spec has it, else as the first of the sets has it. */
static int list_entries(const ClusterNodeImage *node_image, StatusList *ret) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < node_image->desired_images.n_items; i++)
                r = add_entry(node_image->owner, &node_image->desired_images.items[i], ret);
        return r < 0 ? r : image_sets_each(node_image->sets, add_entry, ret);
}

/* Counts unfinished images, but not beyond a few and one more. */
static unsigned count_in_work(const StatusList *list) {
        unsigned n = 0;

        for (size_t i = 0; i < list->n_entries && n <= WRITE_PACE_FEW; i++) {
                const ImageStatus *status = list->entries[i].status;

                if (!status || !image_phase_is_final(status->phase))
                        n++;
        }

        return n;
}

static int make_diff(const ClusterNodeImage *node_image, json_object **ret_patch,
                     unsigned *ret_in_work) {
        cleanup(status_list_done) StatusList list = { .images = node_image->images };
        int r;

        *ret_patch = NULL;
        /* Without a spec, or before the sets are shown, the wanted status is unknown. */
        if (!node_image->owner || !node_image->has_spec ||
            !image_sets_are_settled(node_image->sets))
                return STATUS_SAME;

        r = list_entries(node_image, &list);
        if (r < 0)
                return r;

        *ret_in_work = count_in_work(&list);
        return status_diff(node_image->status, list.entries, list.n_entries, ret_patch);
}

/* A change during a write is late already when that ends. */
static int request_compare(ClusterNodeImage *node_image) {
        if (node_image->writer.body)
                write_pace_on_possible_change(&node_image->pace,
                                              kube_client_now_usec(node_image->client));

        return kube_writer_request(&node_image->writer);
}

/* Compares, and decides when to write. */
static int compare_status(KubeWrite *ret_write, void *userdata) {
        ClusterNodeImage *node_image = userdata;
        WritePace *pace = &node_image->pace;
        uint64_t now = kube_client_now_usec(node_image->client);
        unsigned n_in_work = 0;
        int r;

        if (node_image->writer.patch.n_conflicts > 0)
                write_pace_on_conflict(pace);
        if (write_pace_is_collecting(pace, now)) {
                ret_write->not_before_usec = write_pace_next_usec(pace, now);
                return 0;
        }

        r = make_diff(node_image, &ret_write->body, &n_in_work);
        if (r < 0)
                return r;
        if (r == STATUS_SAME) {
                write_pace_on_same(pace);
                return 0;
        }

        write_pace_on_change(pace,
                             (WriteChange){ .is_progress = r == STATUS_PROGRESS,
                                            .n_in_work = n_in_work },
                             now);
        ret_write->not_before_usec = write_pace_next_usec(pace, now);
        return 0;
}

static void on_sent(void *userdata) {
        ClusterNodeImage *node_image = userdata;

        write_pace_on_write(&node_image->pace, kube_client_now_usec(node_image->client));
}

static int on_written(json_object *body, void *userdata) {
        ClusterNodeImage *node_image = userdata;
        json_object *status = NULL;

        metrics_set(node_image->metrics, METRIC_NODE_IMAGE_LAST_WRITE, NULL, (double) time(NULL));
        notify(node_image);
        return json_object_object_get_ex(body, "status", &status)
                       ? json_merge_patch(&node_image->status, status)
                       : 0;
}

static void on_write_changed(void *userdata) {
        notify(userdata);
}

static void init_writer(ClusterNodeImage *node_image) {
        write_pace_init(&node_image->pace);
        kube_writer_init(&node_image->writer, &(KubeWriterOptions){
                                                      .client = node_image->client,
                                                      .log = node_image->log,
                                                      .metrics = node_image->metrics,
                                                      .metric = METRIC_NODE_IMAGE_WRITES,
                                                      .group = GROUP,
                                                      .resource = RESOURCE,
                                                      .name = node_image->node_name,
                                                      .failed = "Cannot write the status",
                                                      .recovered = "Writing the status works again",
                                                      .compare = compare_status,
                                                      .on_sent = on_sent,
                                                      .on_written = on_written,
                                                      .on_changed = on_write_changed,
                                                      .userdata = node_image,
                                              });
}

/* Objects from the watch */

static int show_registration(const ClusterNodeImage *node_image, const KubeObject *object) {
        return node_image->registration ? registration_on_object(node_image->registration, object)
                                        : 0;
}

/* The labels are those of the Node, in an object of the agent as in one of a controller. */
static int show_labels(const ClusterNodeImage *node_image, json_object *object) {
        json_object *metadata = json_get(object, "metadata", json_type_object);

        return node_image->sets && !node_image->has_other_labels
                       ? image_sets_set_labels(node_image->sets,
                                               json_get(metadata, "labels", json_type_object))
                       : 0;
}

static int on_object(const KubeObject *object, void *userdata) {
        ClusterNodeImage *node_image = userdata;
        int r;

        r = take(node_image, object);
        if (r >= 0)
                r = show_labels(node_image, object->json);
        if (r < 0)
                return r;

        r = show_registration(node_image, object);
        if (r < 0)
                return r;

        notify(node_image);
        return request_compare(node_image);
}

static int on_gone(const KubeObject *object, void *userdata) {
        ClusterNodeImage *node_image = userdata;
        int r;

        r = clear(node_image);
        if (r < 0)
                return r;

        log_info(node_image->log, NULL, "The NodeImage \"%s\" is gone.", node_image->node_name);
        notify(node_image);
        return kube_resource_is_synced(node_image->resource) ? show_registration(node_image, NULL)
                                                             : 0;
}

static void on_list(void *userdata) {
        ClusterNodeImage *node_image = userdata;

        kube_writer_list(&node_image->writer);
}

static int on_synced(bool is_first, void *userdata) {
        ClusterNodeImage *node_image = userdata;
        int r;

        r = is_first ? drop_other_owners(node_image) : 0;
        if (r < 0)
                return r;

        return node_image->owner ? 0 : show_registration(node_image, NULL);
}

static int on_resource_changed(void *userdata) {
        ClusterNodeImage *node_image = userdata;

        notify(node_image);
        return request_compare(node_image);
}

static int on_version(const char *version, void *userdata) {
        ClusterNodeImage *node_image = userdata;

        kube_writer_forget(&node_image->writer);
        write_pace_init(&node_image->pace);
        node_image->registration = registration_free(node_image->registration);
        if (!version || !node_image->must_register)
                return 0;

        return registration_new(
                &(RegistrationOptions){
                        .client = node_image->client,
                        .log = node_image->log,
                        .version = version,
                        .node_name = node_image->node_name,
                },
                &node_image->registration);
}

static int add_resource(ClusterNodeImage *node_image) {
        /* Newer first, since the server need not convert stored objects then. */
        static const char *const versions[] = { "v1beta1", "v1alpha1", NULL };
        cleanup(free_p) char *subject = NULL, *fields = NULL;

        if (text_format(&subject, "the NodeImage \"%s\"", node_image->node_name) < 0)
                return -ENOMEM;

        if (text_format(&fields, "metadata.name=%s", node_image->node_name) < 0)
                return -ENOMEM;

        return kube_resource_new(
                &(KubeResourceOptions){
                        .client = node_image->client,
                        .log = node_image->log,
                        .metrics = node_image->metrics,
                        .group = GROUP,
                        .versions = versions,
                        .resource = RESOURCE,
                        .subject = subject,
                        .speaks_for_all = true,
                        .selections = { { .fields = fields,
                                          .on_object = on_object,
                                          .on_gone = on_gone,
                                          .on_list = on_list } },
                        .on_version = on_version,
                        .on_synced = on_synced,
                        .on_changed = on_resource_changed,
                        .userdata = node_image,
                },
                &node_image->resource);
}

/*
 * Events about images, for those who have requested them
 *
 * The reasons are OpenKruise's. A success is an event of the NodeImage; a failure also one of each of the
 * owners of the tag, too.
 */

static int message_of(const char *reference, const ImageStatus *status, char **ret) {
        if (status->phase != IMAGE_SUCCEEDED)
                return text_format(ret, "Image %s %s", reference, status->message ?: "failed");
        if (status->was_present)
                return text_format(ret, "Image %s was already present", reference);
        return text_format(ret, "Image %s, elapsedTime %.3fs", reference,
                           (double) status->duration_usec / 1e6);
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

/* subject: the object of the event. The status is final. */
static int send_outcome(KubeEvents *events, const KubeReference *subject,
                        const DesiredImage *desired, const ImageStatus *status) {
        cleanup(free_p) char *reference = NULL, *message = NULL;
        int r;

        r = image_ref_join(desired->name, desired->tag, &reference);
        if (r < 0)
                return r;

        r = message_of(reference, status, &message);
        if (r < 0)
                return r;

        if (status->phase == IMAGE_SUCCEEDED)
                return kube_event_send(events, subject, "Normal", REASON_SUCCEEDED, message);

        r = notify_owners(events, desired, message);
        if (r < 0)
                return r;

        return kube_event_send(events, subject, "Warning", REASON_FAILED, message);
}

void cluster_node_image_on_done(ClusterNodeImage *node_image, const Image *image,
                                const ImageRequest *request) {
        const ImageStatus *status = image_status_for(image, request->owner, request->desired.name);
        const char *version = kube_resource_version(node_image->resource);
        cleanup(free_p) char *api_version = NULL;
        KubeReference reference = {
                .kind = "NodeImage",
                .name = node_image->node_name,
                .uid = uid_of(node_image),
        };

        if (!status || !node_image->owner || strcmp(node_image->owner, request->owner) != 0 ||
            !version || text_format(&api_version, GROUP "/%s", version) < 0)
                return;

        reference.api_version = api_version;
        (void) send_outcome(node_image->events, &reference, &request->desired, status);
}

/* The diagnosis */

const Error *cluster_node_image_watch_error(const ClusterNodeImage *node_image) {
        return kube_resource_error(node_image->resource);
}

const char *cluster_node_image_obstacle(const ClusterNodeImage *node_image) {
        const Error *error = kube_resource_error(node_image->resource);

        if (error->kind != ERROR_NONE)
                return error_message(error);
        if (!kube_resource_version(node_image->resource))
                return "waiting for the API server";
        if (!kube_resource_was_synced(node_image->resource))
                return "waiting for the list of NodeImages";

        return NULL;
}

const Error *cluster_node_image_write_error(const ClusterNodeImage *node_image) {
        return &node_image->writer.error;
}

static int visit_object(const ClusterNodeImage *node_image, const DiagnosisVisitor *visitor) {
        cleanup(free_p) char *text = NULL;

        if (node_image->error.kind != ERROR_NONE)
                return visitor->on_problem(
                        "NodeImage", error_message(&node_image->error),
                        "correct its spec; until then the agent uses the rest of it, or the "
                        "last good one",
                        visitor->userdata);
        if (!kube_resource_was_synced(node_image->resource))
                return 0;
        if (!node_image->owner)
                return visitor->on_fact(
                        "NodeImage",
                        node_image->must_register
                                ? "none yet; the agent creates it"
                                : "none yet; a controller or --register-node creates it",
                        visitor->userdata);

        if (text_format(&text, "%s (%s), tags: %zu", node_image->node_name,
                        kube_resource_version(node_image->resource) ?: "?",
                        node_image->desired_images.n_items) < 0)
                return -ENOMEM;

        return visitor->on_fact("NodeImage", text, visitor->userdata);
}

static int visit_error(const DiagnosisVisitor *visitor, const char *subject, const Error *error,
                       const char *if_denied) {
        if (error->kind == ERROR_NONE)
                return 0;

        return visitor->on_problem(subject, error_message(error),
                                   error->kind == ERROR_DENIED ? if_denied
                                                               : "the agent tries again",
                                   visitor->userdata);
}

int cluster_node_image_visit(const ClusterNodeImage *node_image, const DiagnosisVisitor *visitor) {
        int r;

        r = visit_object(node_image, visitor);
        if (r >= 0)
                r = image_sets_visit(node_image->sets, visitor);
        if (r >= 0)
                r = visit_error(visitor, "status of the NodeImage", &node_image->writer.error,
                                RIGHTS_OF "base/rbac.yaml");
        if (r >= 0 && node_image->registration)
                r = visit_error(visitor, "registration of the node",
                                registration_error(node_image->registration),
                                RIGHTS_OF "components/registration");
        return r;
}

/* Life cycle */

static int on_image(Image *image, void *userdata) {
        return request_compare(userdata);
}

static int on_sets_changed(void *userdata) {
        return request_compare(userdata);
}

static int add_sets(ClusterNodeImage *node_image) {
        int r;

        r = image_sets_new(
                &(ImageSetsOptions){
                        .client = node_image->client,
                        .log = node_image->log,
                        .metrics = node_image->metrics,
                        .images = node_image->images,
                },
                &node_image->sets);
        if (r < 0)
                return r;

        node_image->sets_watcher =
                (ImageSetsWatcher){ .on_changed = on_sets_changed, .userdata = node_image };
        image_sets_watch(node_image->sets, &node_image->sets_watcher);
        return 0;
}

int cluster_node_image_new(const ClusterNodeImageOptions *options, ClusterNodeImage **ret) {
        cleanup(cluster_node_image_free_p) ClusterNodeImage *node_image = NULL;
        int r;

        node_image = malloc(sizeof(*node_image));
        if (!node_image)
                return -ENOMEM;

        *node_image = (ClusterNodeImage){
                .client = options->client,
                .events = options->events,
                .log = options->log,
                .metrics = options->metrics,
                .images = options->images,
                .watcher = { .on_image = on_image, .userdata = node_image },
                .node_name = strdup(options->node_name),
                .must_register = options->must_register,
                .has_other_labels = options->has_other_labels,
                .on_changed = options->on_changed,
                .userdata = options->userdata,
        };
        init_writer(node_image);
        images_watch(node_image->images, &node_image->watcher);
        if (!node_image->node_name)
                return -ENOMEM;

        r = add_resource(node_image);
        if (r >= 0 && node_image->must_register)
                r = add_sets(node_image);
        if (r < 0)
                return r;

        node_image->writer.resource = node_image->resource;
        *ret = take_ptr(node_image);
        return 0;
}

ClusterNodeImage *cluster_node_image_free(ClusterNodeImage *node_image) {
        if (!node_image)
                return NULL;

        images_unwatch(node_image->images, &node_image->watcher);
        kube_resource_free(node_image->resource);
        image_sets_free(node_image->sets);
        registration_free(node_image->registration);
        forget(node_image);
        kube_writer_done(&node_image->writer);
        free(node_image->node_name);
        free(node_image);
        return NULL;
}

ImageSets *cluster_node_image_sets(const ClusterNodeImage *node_image) {
        return node_image->sets;
}

int cluster_node_image_kick(ClusterNodeImage *node_image) {
        int r;

        r = kube_resource_kick(node_image->resource);
        if (r >= 0)
                r = kube_writer_kick(&node_image->writer);
        if (r >= 0 && node_image->sets)
                r = image_sets_kick(node_image->sets);
        if (r >= 0 && node_image->registration)
                r = registration_kick(node_image->registration);
        return r;
}
