/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/cluster/images-ready.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/base/repeat.h"
#include "agent/base/text.h"
#include "agent/base/time-units.h"
#include "agent/cluster/images-ready-plan.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/kube/resource.h"
#include "agent/kube/writer.h"

#define RESOURCE "nodes"
#define ACCURACY_USEC 1000
/* Each write of a Node goes to all who watch Nodes, so the message may be late. */
#define MESSAGE_USEC (5 * USEC_PER_SEC)

struct ImagesReady {
        ImagesReadyOptions options;
        ImagesWatcher watcher;
        ImageSetsWatcher sets_watcher;
        KubeResource *resource;
        KubeWriter condition;
        KubeWriter taint;
        Timer deadline;
        uint64_t started_usec;
        ReadyImage *images; /* as they were decided upon last */
        size_t n_images;
        bool has_images; /* the sets were known once */

        bool has_node;          /* the Node was seen once */
        bool had_given_up;      /* the condition said so when it was seen first */
        bool is_complete;       /* all labels of the Node are set */
        bool is_shown;          /* the watch shows that the condition is True */
        json_object *observed;  /* our condition as it was shown or written last; NULL: none */
        json_object *taints;    /* NULL: none */
        ReadyDecision decision; /* the last that was not open */
        bool is_decided;        /* it still holds */
        int64_t changed_at;     /* when it changed, in seconds since the epoch */
        uint64_t sent_usec;
};

DEFINE_CLEANUP(ImagesReady *, images_ready_free)

/* Images of the sets */

typedef struct ReadyList {
        const char *wait;
        const ImagesReady *ready;
        ReadyImage *images;
        size_t n_images;
} ReadyList;

static void ready_list_done(ReadyList *list) {
        free(list->images);
}

static ReadyImage *find_image(ReadyImage *images, size_t n_images, uint64_t digest) {
        for (size_t i = 0; i < n_images; i++)
                if (images[i].digest == digest)
                        return &images[i];

        return NULL;
}

/* The runtime lacks the image, and its pull has to wait before the first attempt. */
static bool is_held_back(const ImageStatus *status) {
        return status->step == IMAGE_STEP_WAITING_FOR_SLOT ||
               status->step == IMAGE_STEP_WAITING_FOR_DISK ||
               status->step == IMAGE_STEP_WAITING_FOR_POD;
}

/* The request keeps its success when the image is removed later, and while it is pulled again. */
static ReadyState find_state(const Image *image, const ImageStatus *status, bool was_missing) {
        ImagePhase phase = image ? image_status(image)->phase : IMAGE_WAITING;

        if (!status ||
            (status->phase == IMAGE_WAITING && status->attempt == 0 && !is_held_back(status)))
                return READY_UNCHECKED;
        if (status->phase != IMAGE_SUCCEEDED || phase == IMAGE_MISSING)
                return READY_MISSING;

        return was_missing && phase != IMAGE_SUCCEEDED ? READY_MISSING : READY_THERE;
}

/* An image of several sets counts once. What an earlier run gave up is not waited for. */
static int add_image(const char *owner, const DesiredImage *desired, void *userdata) {
        ReadyList *list = userdata;
        const ImagesReady *ready = list->ready;
        ReadyImage added = {
                .name = desired->name,
                .tag = desired->tag,
                .digest = repeat_digest(repeat_digest(0, desired->name), desired->tag),
        };
        ReadyImage *same = find_image(list->images, list->n_images, added.digest);
        const ReadyImage *before = find_image(ready->images, ready->n_images, added.digest);
        Image *image;
        int r;

        r = images_find_desired(ready->options.images, desired, &image);
        if (r < 0)
                return r;

        if (image && image_status(image)->step == IMAGE_STEP_WAITING_FOR_SLOT)
                list->wait = image_status(image)->message;
        added.state =
                find_state(image, image ? image_status_for(image, owner, desired->name) : NULL,
                           before && before->state == READY_MISSING);
        if (same && added.state < same->state)
                same->state = added.state;
        if (same)
                return 0;
        if (array_grow(&list->images, list->n_images, sizeof(ReadyImage)) < 0)
                return -ENOMEM;

        added.since_usec = before && added.state != READY_THERE
                                   ? before->since_usec
                                   : kube_client_now_usec(ready->options.client);
        added.was_given_up =
                added.state != READY_THERE &&
                (before ? before->was_given_up : !ready->has_images && ready->had_given_up);
        list->images[list->n_images++] = added;
        return 0;
}

static int list_images(ImagesReady *ready, const char **ret_wait) {
        cleanup(ready_list_done) ReadyList list = { .ready = ready };
        int r;

        r = image_sets_each(ready->options.sets, add_image, &list);
        if (r < 0)
                return r;

        free(ready->images);
        ready->images = take_ptr(list.images);
        ready->n_images = list.n_images;
        ready->has_images = true;
        *ret_wait = list.wait;
        return 0;
}

static int decide(ImagesReady *ready, ReadyDecision *ret) {
        bool is_known = ready->is_complete && image_sets_are_known(ready->options.sets);
        const char *wait = NULL;
        int r;

        r = is_known ? list_images(ready, &wait) : 0;
        if (r < 0)
                return r;

        return images_ready_plan(
                &(ReadyInput){
                        .images = ready->images,
                        .n_images = ready->n_images,
                        .wait = wait,
                        .is_known = is_known,
                        .is_ready = json_is(ready->observed, "status", "True"),
                        .since_usec = ready->started_usec,
                        .deadline_usec = ready->options.settings.deadline_usec,
                        .now_usec = kube_client_now_usec(ready->options.client),
                },
                ret);
}

/* The condition */

static const char *status_of(const ReadyDecision *decision) {
        return decision->is_ready ? "True" : "False";
}

static void note_decision(ImagesReady *ready, ReadyDecision *decision) {
        bool is_new = !ready->decision.message || ready->decision.is_ready != decision->is_ready ||
                      strcmp(ready->decision.reason, decision->reason) != 0;

        ready->is_decided = !decision->is_open;
        if (decision->is_open)
                return;

        if (is_new)
                log_info(ready->options.log, NULL, "%s: %s.",
                         decision->is_ready ? "This node is ready for pods"
                                            : "This node waits for images",
                         decision->message);
        if (is_new || strcmp(ready->decision.message, decision->message) != 0)
                ready->changed_at = time(NULL);
        ready_decision_done(&ready->decision);
        ready->decision = *decision;
        decision->message = NULL;
}

/* Merged by its type. Times are those of the change, so that a repeated write is the same text. */
static json_object *make_condition(const ImagesReady *ready) {
        const ReadyDecision *decision = &ready->decision;
        cleanup(json_object_put_p) json_object *condition = json_object_new_object(),
                                               *list = json_object_new_array();
        const char *since = json_is(ready->observed, "status", status_of(decision))
                                    ? json_get_filled(ready->observed, "lastTransitionTime")
                                    : NULL;
        int r;

        r = patch_add_text(condition, "type", IMAGES_READY_CONDITION)
                    ?: patch_add_text(condition, "status", status_of(decision))
                    ?: patch_add_text(condition, "reason", decision->reason)
                    ?: patch_add_text(condition, "message", decision->message)
                    ?: patch_add_time(condition, "lastHeartbeatTime", ready->changed_at)
                    ?: since ? patch_add_text(condition, "lastTransitionTime", since)
                             : patch_add_time(condition, "lastTransitionTime", ready->changed_at);
        if (r >= 0)
                r = patch_append(list, take_ptr(condition));

        return r < 0 ? NULL : patch_wrap("status", patch_wrap("conditions", take_ptr(list)));
}

static int compare_condition(KubeWrite *ret_write, void *userdata) {
        cleanup(ready_decision_done) ReadyDecision decision = { .message = NULL };
        ImagesReady *ready = userdata;
        bool is_same, has_message;
        int r;

        r = decide(ready, &decision);
        if (r >= 0)
                r = decision.next_usec < UINT64_MAX
                            ? timer_start_at(&ready->deadline, decision.next_usec)
                            : (timer_stop(&ready->deadline), 0);
        if (r < 0)
                return r;

        note_decision(ready, &decision);
        if (!ready->is_decided)
                return kube_writer_request(&ready->taint);

        is_same = json_is(ready->observed, "status", status_of(&ready->decision)) &&
                  json_is(ready->observed, "reason", ready->decision.reason);
        has_message = json_is(ready->observed, "message", ready->decision.message);
        if (is_same && has_message)
                return kube_writer_request(&ready->taint);

        if (is_same && ready->sent_usec > 0)
                ret_write->not_before_usec = ready->sent_usec + MESSAGE_USEC;
        ret_write->body = make_condition(ready);
        return ret_write->body ? 0 : -ENOMEM;
}

static void on_condition_sent(void *userdata) {
        ImagesReady *ready = userdata;

        ready->sent_usec = kube_client_now_usec(ready->options.client);
}

/* Borrowed; NULL: it has none. */
static json_object *find_condition(json_object *object) {
        json_object *status = json_get(object, "status", json_type_object);
        json_object *conditions = json_get(status, "conditions", json_type_array);

        return json_find(conditions, "type", IMAGES_READY_CONDITION);
}

static void observe(ImagesReady *ready, json_object *object) {
        json_object *found = find_condition(object);

        (void) json_object_get(found); /* before the old one goes: it may be the same */
        json_object_put(ready->observed);
        ready->observed = found;
}

static int on_condition_written(json_object *body, void *userdata) {
        if (body)
                observe(userdata, body);
        return 0;
}

/* The taint */

/* Makes the list without the taint; *ret is NULL if there is none to remove. */
static int remove_taint(const ImagesReady *ready, json_object **ret) {
        cleanup(json_object_put_p) json_object *rest = json_object_new_array();
        size_t n = ready->taints ? json_object_array_length(ready->taints) : 0, n_left = 0;

        for (size_t i = 0; i < n; i++) {
                json_object *taint = json_object_array_get_idx(ready->taints, i);

                if (json_is(taint, "key", ready->options.settings.startup_taint))
                        continue;
                if (patch_append(rest, json_object_get(taint)) < 0)
                        return -ENOMEM;
                n_left++;
        }

        *ret = n_left < n ? take_ptr(rest) : NULL;
        return rest || *ret ? 0 : -ENOMEM;
}

/* The writer names the version that the list was read from, so no other taint gets lost. The condition comes first:
 * who waits for it must find it. */
static int compare_taint(KubeWrite *ret_write, void *userdata) {
        ImagesReady *ready = userdata;
        json_object *rest = NULL;
        int r;

        if (!ready->options.settings.startup_taint || !ready->is_shown ||
            (ready->is_decided && !ready->decision.is_ready))
                return 0;

        r = remove_taint(ready, &rest);
        if (r < 0 || !rest)
                return r;

        ret_write->body = patch_wrap("spec", patch_wrap("taints", rest));
        return ret_write->body ? 0 : -ENOMEM;
}

static void note_taints(ImagesReady *ready, json_object *object) {
        json_object *taints =
                json_get(json_get(object, "spec", json_type_object), "taints", json_type_array);

        (void) json_object_get(taints);
        json_object_put(ready->taints);
        ready->taints = taints;
}

static void on_taint_sent(void *userdata) {
}

static int on_taint_written(json_object *body, void *userdata) {
        ImagesReady *ready = userdata;

        log_info(ready->options.log, NULL, "Removed the startup taint \"%s\" from the Node.",
                 ready->options.settings.startup_taint);
        if (body)
                note_taints(ready, body);
        return 0;
}

/* The Node */

/* Karpenter, or the cloud provider, taints the Node until it has set its labels. */
static bool is_complete(json_object *taints) {
        return !json_find(taints, "key", "karpenter.sh/unregistered") &&
               !json_find(taints, "key", "node.cloudprovider.kubernetes.io/uninitialized");
}

static int on_object(const KubeObject *object, void *userdata) {
        ImagesReady *ready = userdata;
        json_object *metadata = json_get(object->json, "metadata", json_type_object);
        int r;

        r = kube_writer_show(&ready->condition, object);
        if (r > 0)
                observe(ready, object->json);
        if (r >= 0)
                r = kube_writer_show(&ready->taint, object);
        if (r > 0) {
                note_taints(ready, object->json);
                ready->is_complete = is_complete(ready->taints);
                ready->is_shown = json_is(find_condition(object->json), "status", "True");
        }
        if (r < 0)
                return r;

        if (!ready->has_node)
                ready->had_given_up = json_is(ready->observed, "reason", "GaveUp");
        ready->has_node = true;
        return image_sets_set_labels(ready->options.sets,
                                     json_get(metadata, "labels", json_type_object));
}

static int on_gone(const KubeObject *object, void *userdata) {
        ImagesReady *ready = userdata;

        kube_writer_forget(&ready->condition);
        kube_writer_forget(&ready->taint);
        ready->observed = (json_object_put(ready->observed), NULL);
        ready->taints = (json_object_put(ready->taints), NULL);
        ready->is_shown = false;
        return 0;
}

static void on_list(void *userdata) {
        ImagesReady *ready = userdata;

        kube_writer_list(&ready->condition);
        kube_writer_list(&ready->taint);
}

static int request_compare(void *userdata) {
        ImagesReady *ready = userdata;

        return kube_writer_request(&ready->condition);
}

/* A Node that cannot be watched, or does not exist, keeps no status of the NodeImage back. */
static int on_changed(void *userdata) {
        ImagesReady *ready = userdata;
        int r;

        r = image_sets_waive_labels(ready->options.sets, kube_resource_is_settled(ready->resource));
        return r < 0 ? r : request_compare(ready);
}

static int on_image(Image *image, void *userdata) {
        return request_compare(userdata);
}

static void on_write_changed(void *userdata) {
}

/* Life cycle */

static void init_writers(ImagesReady *ready) {
        KubeWriterOptions options = {
                .client = ready->options.client,
                .log = ready->options.log,
                .resource = RESOURCE,
                .name = ready->options.node_name,
                .failed = "Cannot write the condition " IMAGES_READY_CONDITION,
                .recovered = "Writing the condition " IMAGES_READY_CONDITION " works again",
                .is_merged_by_keys = true,
                .compare = compare_condition,
                .on_sent = on_condition_sent,
                .on_written = on_condition_written,
                .on_changed = on_write_changed,
                .userdata = ready,
        };

        kube_writer_init(&ready->condition, &options);
        options.failed = "Cannot remove the startup taint";
        options.recovered = "Removing the startup taint works again";
        options.is_merged_by_keys = false;
        options.is_spec = true;
        options.compare = compare_taint;
        options.on_sent = on_taint_sent;
        options.on_written = on_taint_written;
        kube_writer_init(&ready->taint, &options);
}

static int add_resource(ImagesReady *ready) {
        static const char *const versions[] = { "v1", NULL };
        cleanup(free_p) char *fields = NULL;

        if (text_format(&fields, "metadata.name=%s", ready->options.node_name) < 0)
                return -ENOMEM;

        return kube_resource_new(
                &(KubeResourceOptions){
                        .client = ready->options.client,
                        .log = ready->options.log,
                        .metrics = ready->options.metrics,
                        .versions = versions,
                        .resource = RESOURCE,
                        .subject = "the Node",
                        .selections = { { .fields = fields,
                                          .on_object = on_object,
                                          .on_gone = on_gone,
                                          .on_list = on_list } },
                        .on_changed = on_changed,
                        .userdata = ready,
                },
                &ready->resource);
}

int images_ready_new(const ImagesReadyOptions *options, ImagesReady **ret) {
        cleanup(images_ready_free_p) ImagesReady *ready = calloc(1, sizeof(*ready));
        int r;

        if (!ready)
                return -ENOMEM;

        ready->options = *options;
        ready->started_usec = kube_client_now_usec(options->client);
        ready->watcher = (ImagesWatcher){ .on_image = on_image, .userdata = ready };
        ready->sets_watcher =
                (ImageSetsWatcher){ .on_changed = request_compare, .userdata = ready };
        images_watch(options->images, &ready->watcher);
        timer_init(&ready->deadline, kube_client_event(options->client), ACCURACY_USEC,
                   request_compare, ready);

        init_writers(ready);
        r = add_resource(ready);
        if (r < 0)
                return r;

        ready->condition.resource = ready->resource;
        ready->taint.resource = ready->resource;
        image_sets_watch(options->sets, &ready->sets_watcher);
        *ret = take_ptr(ready);
        return 0;
}

ImagesReady *images_ready_free(ImagesReady *ready) {
        if (!ready)
                return NULL;

        image_sets_unwatch(ready->options.sets, &ready->sets_watcher);
        images_unwatch(ready->options.images, &ready->watcher);
        kube_resource_free(ready->resource);
        kube_writer_done(&ready->condition);
        kube_writer_done(&ready->taint);
        timer_done(&ready->deadline);
        json_object_put(ready->observed);
        json_object_put(ready->taints);
        ready_decision_done(&ready->decision);
        free(ready->images);
        free(ready);
        return NULL;
}

int images_ready_kick(ImagesReady *ready) {
        int r;

        r = kube_resource_kick(ready->resource);
        if (r >= 0)
                r = kube_writer_kick(&ready->condition);
        return r < 0 ? r : kube_writer_kick(&ready->taint);
}

int images_ready_visit(const ImagesReady *ready, const DiagnosisVisitor *visitor) {
        static const char of_condition[] =
                "give the agent the rights of packaging/kubernetes/components/images-ready";
        static const char of_taint[] =
                "give the agent the rights of packaging/kubernetes/components/startup-taint; with "
                "the identity of the kubelet it can never have them";
        const struct {
                const Error *error;
                const char *if_denied;
        } writes[] = { { kube_resource_error(ready->resource), of_condition },
                       { &ready->condition.error, of_condition },
                       { &ready->taint.error, of_taint } };

        for (size_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++)
                if (writes[i].error->kind != ERROR_NONE)
                        return visitor->on_problem("readiness of images",
                                                   error_message(writes[i].error),
                                                   writes[i].error->kind == ERROR_DENIED
                                                           ? writes[i].if_denied
                                                           : "the agent tries again",
                                                   visitor->userdata);

        return ready->is_decided ? visitor->on_fact("readiness of images", ready->decision.message,
                                                    visitor->userdata)
                                 : 0;
}
