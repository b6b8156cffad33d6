/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/preload-plan.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/rfc3339.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/image/image-ref.h"
#include "agent/kubectl/workload.h"

#define SLOWER 4u /* than the slowest node that has answered */
#define NODES_NAMED 5

int preload_image_parse(const char *reference, PreloadImage *ret, Error *reterr) {
        cleanup(preload_image_done) PreloadImage image = { .name = NULL };
        ImageRef ref;
        int r;

        r = image_ref_parse(reference, SHORT_NAMES_HUB, &ref, reterr);
        if (r < 0)
                return r;

        r = image_ref_familiar_name(&ref, &image.name);
        if (r < 0)
                return r;

        image.tag = strdup(image_ref_tag_or_digest(&ref));
        if (!image.tag)
                return -ENOMEM;

        *ret = image;
        image = (PreloadImage){ .name = NULL };
        return 0;
}

void preload_image_done(PreloadImage *image) {
        free(image->name);
        free(image->tag);
        *image = (PreloadImage){ .name = NULL };
}

/* Reading a NodeImage */

int preload_node_init(PreloadNode *node, const PreloadTask *task, const char *name) {
        *node = (PreloadNode){
                .task = task,
                .name = strdup(name),
                .pulls = calloc(task->n_images, sizeof(*node->pulls)),
        };
        if (!node->name || !node->pulls)
                return -ENOMEM;

        for (size_t i = 0; i < task->n_images; i++)
                node->pulls[i].awaited = -1;
        return 0;
}

void preload_node_done(PreloadNode *node) {
        for (size_t i = 0; node->pulls && i < node->task->n_images; i++) {
                free(node->pulls[i].spec);
                free(node->pulls[i].message);
                free(node->pulls[i].reason);
        }
        free(node->pulls);
        free(node->name);
        free(node->version);
        free(node->refusal);
}

static bool has_secret(json_object *secrets, const char *namespace, const char *name) {
        for (size_t i = 0; secrets && i < json_object_array_length(secrets); i++) {
                json_object *secret = json_object_array_get_idx(secrets, i);

                if (json_is(secret, "namespace", namespace) && json_is(secret, "name", name))
                        return true;
        }

        return false;
}

static bool lacks_secrets(json_object *secrets, const PreloadTask *task) {
        json_object_object_foreach(task->secrets, name, none) {
                (void) none;
                if (!has_secret(secrets, task->namespace, name))
                        return true;
        }

        return false;
}

/* All tags of an image share its pull secrets: a tag of one namespace would be pulled with the secrets of another, or fail for
 * want of one that the other does not have. */
static bool is_foreign(json_object *image, const PreloadTask *task) {
        json_object *secrets = json_get(image, "pullSecrets", json_type_array);
        size_t n = secrets ? json_object_array_length(secrets) : 0;

        for (size_t i = 0; i < n; i++)
                if (!json_is(json_object_array_get_idx(secrets, i), "namespace", task->namespace))
                        return true;
        return image && n == 0 && json_object_object_length(task->secrets) > 0;
}

static PreloadPhase phase_of(json_object *status) {
        if (!json_get_filled(status, "completionTime"))
                return json_is(status, "phase", "Pulling") ? PRELOAD_PULLING : PRELOAD_WAITING;

        return json_is(status, "phase", "Succeeded") ? PRELOAD_SUCCEEDED : PRELOAD_FAILED;
}

/* Returns a version that neither spec nor status has; -1 stands for none. Small numbers follow the last one, as
 * only the difference matters. */
static int64_t version_after(int64_t spec, int64_t status) {
        int64_t last = spec > status ? spec : status;
        int64_t next = last < 0 ? 0 : last < INT64_MAX ? last + 1 : 1;

        while (next == spec || next == status)
                next++;
        return next;
}

json_object *preload_find_tag(json_object *image, const char *tag) {
        return json_find(json_get(image, "tags", json_type_array), "tag", tag);
}

/* spec and status: entries of the tag, or NULL. */
static int pull_read(PreloadPull *pull, json_object *spec, json_object *status) {
        int64_t percent = json_get_integer(status, "progress");

        pull->version = json_get_integer(spec, "version");
        pull->next_version = version_after(spec ? pull->version : -1,
                                           status ? json_get_integer(status, "version") : -1);
        pull->is_taken_up = spec && status && json_get_integer(status, "version") == pull->version;
        if (!pull->is_taken_up)
                status = NULL;

        pull->phase = spec ? phase_of(status) : PRELOAD_ABSENT;
        pull->percent = !status || percent < 0 ? 0 : percent > 100 ? 100 : percent;
        return text_set(&pull->message, json_get_filled(status, "message"));
}

/* The request is noted that is to be waited for, or what has become of it. */
static int pull_take(PreloadPull *pull) {
        bool is_over = pull->phase == PRELOAD_SUCCEEDED || pull->phase == PRELOAD_FAILED;

        if (pull->awaited < 0 || pull->outcome != PRELOAD_ABSENT)
                return 0;
        if (pull->phase == PRELOAD_ABSENT || pull->version < pull->awaited) {
                pull->outcome = pull->was_seen ? PRELOAD_FAILED : PRELOAD_ABSENT;
                return pull->was_seen ? text_set(&pull->reason, "Withdrawn: by another client") : 0;
        }

        pull->was_seen = true;
        pull->outcome = is_over ? pull->phase : PRELOAD_ABSENT;
        return is_over ? text_set(&pull->reason, pull->message) : 0;
}

/* Whether there is a request that is to be waited for, though it was not made here. */
static bool is_ours(const PreloadTask *task, json_object *spec, size_t i) {
        json_object *owners = json_get(spec, "ownerReferences", json_type_array);

        return spec && (task->mode == PRELOAD_WATCH ||
                        (task->jobs && json_find(owners, "uid", task->jobs[i].uid)));
}

static int read_image(PreloadNode *node, json_object *images, json_object *statuses, size_t i) {
        const PreloadImage *wanted = &node->task->images[i];
        json_object *image = json_get(images, wanted->name, json_type_object);
        json_object *spec = preload_find_tag(image, wanted->tag);
        PreloadPull *pull = &node->pulls[i];
        int r;

        free(take_ptr(pull->spec));
        r = image ? json_copy_text(image, &pull->spec) : 0;
        if (r >= 0)
                r = pull_read(pull, spec,
                              preload_find_tag(json_get(statuses, wanted->name, json_type_object),
                                               wanted->tag));
        if (r < 0)
                return r;

        pull->lacks_secrets =
                lacks_secrets(json_get(image, "pullSecrets", json_type_array), node->task);
        pull->is_apart = node->task->keeps_apart && !pull->was_seen &&
                         (is_foreign(image, node->task) || (node->is_full && !spec));
        if (pull->awaited < 0 && is_ours(node->task, spec, i))
                pull->awaited = pull->version;
        return pull_take(pull);
}

/* Only the size of the NodeImage may still speak against a request. */
static bool is_size_asked(const PreloadNode *node, json_object *images) {
        const PreloadTask *task = node->task;

        for (size_t i = 0; task->keeps_apart && !node->is_written && i < task->n_images; i++) {
                json_object *image = json_get(images, task->images[i].name, json_type_object);

                if (!node->pulls[i].was_seen && !is_foreign(image, task) &&
                    !preload_find_tag(image, task->images[i].tag))
                        return true;
        }
        return false;
}

int preload_node_read(PreloadNode *node, json_object *node_image) {
        json_object *images = json_get(json_get(node_image, "spec", json_type_object), "images",
                                       json_type_object);
        json_object *statuses = json_get(json_get(node_image, "status", json_type_object),
                                         "imageStatuses", json_type_object);
        int r;

        if (is_size_asked(node, images)) {
                const char *text = json_to_text(node_image);

                if (!text)
                        return -ENOMEM;
                node->is_full = strlen(text) > PRELOAD_SIZE_MAX;
        }
        r = text_set(&node->version,
                     json_get_text(json_get(node_image, "metadata", json_type_object),
                                   "resourceVersion")
                             ?: "");
        for (size_t i = 0; r >= 0 && i < node->task->n_images; i++)
                r = read_image(node, images, statuses, i);
        return r;
}

/* It can be waited for as it is. A tag that is to be resolved may have moved since that pull began. */
static bool is_under_way(const PreloadTask *task, const PreloadPull *pull) {
        return (pull->phase == PRELOAD_WAITING || pull->phase == PRELOAD_PULLING) &&
               !pull->lacks_secrets && !task->resolves;
}

int preload_node_expect(PreloadNode *node) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < node->task->n_images; i++) {
                PreloadPull *pull = &node->pulls[i];

                pull->was_apart = pull->is_apart;
                pull->awaited = pull->is_apart                   ? -1
                                : is_under_way(node->task, pull) ? pull->version
                                                                 : pull->next_version;
                r = pull_take(pull);
        }

        return r;
}

/* Writing a request */

/* The member of that name; an empty one is added where there is none. Borrowed; NULL: no memory. */
static json_object *obtain(json_object *parent, const char *key, json_type type) {
        json_object *member = json_get(parent, key, type);

        if (!member) {
                member = type == json_type_array ? json_object_new_array()
                                                 : json_object_new_object();
                if (patch_add(parent, key, member) < 0)
                        return NULL;
        }

        return member;
}

/* Asks for the digests in the status; OpenKruise copies the sandbox config of a job to NodeImages. */
static int add_question(json_object *image) {
        json_object *sandbox = obtain(image, "sandboxConfig", json_type_object);

        return patch_add_text(obtain(sandbox, "annotations", json_type_object),
                              IMAGE_ANNOTATION_RESOLVE, "true");
}

static const char *policy_of(const PreloadTask *task) {
        return task->resolves ? "Always" : "IfNotPresent";
}

static json_object *new_tag(const PreloadTask *task, const char *tag, int64_t version) {
        cleanup(json_object_put_p) json_object *entry = json_object_new_object();
        char now[RFC3339_SIZE];

        if (patch_add_text(entry, "tag", tag) < 0 ||
            patch_add_text(entry, "createdAt", rfc3339_format(task->now_sec, now)) < 0 ||
            patch_add(entry, "version", json_object_new_int64(version)) < 0 ||
            patch_add_text(entry, "imagePullPolicy", policy_of(task)) < 0 ||
            patch_add(entry, "pullPolicy",
                      patch_wrap("ttlSecondsAfterFinished", json_object_new_int64(task->ttl_sec))) <
                    0)
                return NULL;

        return take_ptr(entry);
}

int preload_add_secrets(json_object *secrets, const char *namespace, json_object *image) {
        json_object_object_foreach(secrets, name, none) {
                json_object *list = obtain(image, "pullSecrets", json_type_array), *secret;

                (void) none;
                if (has_secret(list, namespace, name))
                        continue;

                secret = patch_wrap("namespace", json_object_new_string(namespace));
                if (patch_append(list, secret) < 0 || patch_add_text(secret, "name", name) < 0)
                        return -ENOMEM;
        }

        return 0;
}

/* An entry that is there keeps what its authors said of it, but for a policy by which no node asks the registry. */
static int add_request(const PreloadTask *task, const char *tag, const PreloadPull *pull,
                       json_object *image) {
        json_object *known = preload_find_tag(image, tag);

        if (preload_add_secrets(task->secrets, task->namespace, image) < 0 ||
            (task->resolves && add_question(image) < 0) ||
            (known && task->resolves &&
             patch_add_text(known, "imagePullPolicy", policy_of(task)) < 0))
                return -ENOMEM;

        return known ? patch_add(known, "version", json_object_new_int64(pull->next_version))
                     : patch_append(obtain(image, "tags", json_type_array),
                                    new_tag(task, tag, pull->next_version));
}

static void remove_tag(json_object *image, const char *tag) {
        json_object *tags = json_get(image, "tags", json_type_array);

        for (size_t i = tags ? json_object_array_length(tags) : 0; i-- > 0;)
                if (json_is(json_object_array_get_idx(tags, i), "tag", tag))
                        (void) json_object_array_del_idx(tags, i, 1);
}

/* The image as the patch has it so far, else as the NodeImage has it; borrowed. */
static int obtain_image(json_object *images, const char *name, const PreloadPull *pull,
                        json_object **ret) {
        json_object *image = NULL;
        int r = 0;

        if (json_object_object_get_ex(images, name, ret))
                return 0;

        if (pull->spec)
                r = json_parse(pull->spec, strlen(pull->spec), &image, /* reterr= */ NULL);
        else
                image = json_object_new_object();
        *ret = image;
        return r < 0 ? r : patch_add(images, name, image);
}

static int patch_image(const PreloadNode *node, size_t i, json_object *images) {
        const PreloadTask *task = node->task;
        const char *name = task->images[i].name, *tag = task->images[i].tag;
        const PreloadPull *pull = &node->pulls[i];
        json_object *image;
        int r;

        if (task->mode == PRELOAD_WITHDRAW ? pull->phase == PRELOAD_ABSENT
                                           : pull->is_apart || is_under_way(task, pull))
                return 0;

        r = obtain_image(images, name, pull, &image);
        if (r < 0 || task->mode != PRELOAD_WITHDRAW)
                return r < 0 ? r : add_request(task, tag, pull, image);

        remove_tag(image, tag);
        return 0;
}

/* An image without tags goes. */
static int remove_empty(json_object *images) {
        int r = 0;

        json_object_object_foreach(images, name, image) {
                json_object *tags = json_get(image, "tags", json_type_array);

                if (r >= 0 && json_object_array_length(tags) == 0)
                        r = patch_add_null(images, name);
        }
        return r;
}

int preload_node_patch(const PreloadNode *node, json_object **ret) {
        json_object *images = json_object_new_object();
        cleanup(json_object_put_p) json_object *patch =
                patch_wrap("spec", patch_wrap("images", images));
        int r = patch ? 0 : -ENOMEM;

        for (size_t i = 0; r >= 0 && i < node->task->n_images; i++)
                r = patch_image(node, i, images);
        if (r >= 0 && node->task->mode == PRELOAD_WITHDRAW)
                r = remove_empty(images);
        if (r < 0)
                return r;

        *ret = json_object_object_length(images) > 0 ? take_ptr(patch) : NULL;
        return 0;
}

/* Which nodes, and how many. */

static bool is_stopped(const PreloadCounts *counts, const PreloadLimits *limits) {
        return counts->n_failed > limits->max_failures;
}

uint64_t preload_patience_usec(uint64_t slowest_usec) {
        uint64_t usec = slowest_usec * SLOWER;

        return usec > PRELOAD_LATE_USEC ? usec : PRELOAD_LATE_USEC;
}

size_t preload_room(const PreloadCounts *counts, const PreloadLimits *limits) {
        size_t room;

        if (is_stopped(counts, limits) || counts->n_running >= limits->parallelism)
                return 0;

        room = limits->parallelism - counts->n_running;
        return room < counts->n_idle ? room : counts->n_idle;
}

bool preload_is_over(const PreloadCounts *counts, const PreloadLimits *limits) {
        return counts->n_running == 0 && !(counts->n_silent > 0 && counts->are_answering) &&
               (counts->n_idle == 0 || is_stopped(counts, limits));
}

/* The state of a node. */

/* The image's job has ended without this node. */
static bool is_left(const PreloadNode *node, size_t i) {
        return node->task->jobs && node->task->jobs[i].has_ended && node->pulls[i].awaited < 0;
}

static bool is_taken_up(const PreloadNode *node, size_t i) {
        const PreloadPull *pull = &node->pulls[i];

        return pull->outcome != PRELOAD_ABSENT || (pull->was_seen && pull->is_taken_up);
}

bool preload_node_is_unanswered(const PreloadNode *node) {
        bool has_begun = false;

        for (size_t i = 0; i < node->task->n_images; i++) {
                if (is_taken_up(node, i))
                        return false;
                has_begun = has_begun || node->pulls[i].awaited >= 0;
        }

        return has_begun;
}

int64_t preload_node_progress(const PreloadNode *node) {
        int64_t progress = node->has_begun;

        for (size_t i = 0; i < node->task->n_images; i++)
                progress += node->pulls[i].outcome != PRELOAD_ABSENT ? 102
                            : is_taken_up(node, i)                   ? 1 + node->pulls[i].percent
                                                                     : 0;
        return progress;
}

static bool is_skipped(const PreloadPull *pull) {
        return pull->is_apart || pull->was_apart;
}

/* Sums up the pulls of a node's images. */
static PreloadNodeState state_of_pulls(const PreloadNode *node) {
        size_t n_begun = 0, n_over = 0, n_failed = 0;

        for (size_t i = 0; i < node->task->n_images; i++) {
                const PreloadPull *pull = &node->pulls[i];

                n_begun += pull->awaited >= 0 || is_left(node, i);
                n_over += pull->outcome != PRELOAD_ABSENT || is_skipped(pull) || is_left(node, i);
                n_failed += pull->outcome == PRELOAD_FAILED || is_left(node, i);
        }

        if (node->task->mode == PRELOAD_WATCH && n_begun == 0)
                return PRELOAD_NODE_UNCONCERNED;
        if (n_over == (node->task->mode == PRELOAD_WATCH ? n_begun : node->task->n_images))
                return n_failed > 0 ? PRELOAD_NODE_FAILED : PRELOAD_NODE_DONE;

        if (n_begun == 0 && !node->has_begun)
                return PRELOAD_NODE_IDLE;
        if (node->is_late && preload_node_is_unanswered(node))
                return PRELOAD_NODE_SILENT;

        return node->task->is_stalled ? PRELOAD_NODE_FAILED : PRELOAD_NODE_RUNNING;
}

static PreloadNodeState state_of_withdrawal(const PreloadNode *node) {
        for (size_t i = 0; i < node->task->n_images; i++)
                if (node->pulls[i].phase != PRELOAD_ABSENT)
                        return !node->has_begun         ? PRELOAD_NODE_IDLE
                               : node->task->is_stalled ? PRELOAD_NODE_FAILED
                                                        : PRELOAD_NODE_RUNNING;

        return node->has_begun ? PRELOAD_NODE_DONE : PRELOAD_NODE_UNCONCERNED;
}

PreloadNodeState preload_node_state(const PreloadNode *node) {
        if (node->task->is_dry_run && node->is_written)
                return PRELOAD_NODE_DONE;
        if (!node->version)
                return node->task->mode == PRELOAD_PULL ? PRELOAD_NODE_FAILED
                                                        : PRELOAD_NODE_UNCONCERNED;
        if (node->refusal)
                return PRELOAD_NODE_FAILED;

        return node->task->mode == PRELOAD_WITHDRAW ? state_of_withdrawal(node)
                                                    : state_of_pulls(node);
}

int preload_node_lose(PreloadNode *node) {
        PreloadNodeState state = preload_node_state(node);

        if (state == PRELOAD_NODE_DONE || state == PRELOAD_NODE_UNCONCERNED)
                return 0;
        if (node->task->mode != PRELOAD_WITHDRAW)
                return text_set(&node->refusal, "NodeGone: its NodeImage was deleted");

        /* So is the request. */
        for (size_t i = 0; i < node->task->n_images; i++)
                node->pulls[i].phase = PRELOAD_ABSENT;
        return 0;
}

static const char *preload_node_state_to_string(PreloadNodeState state) {
        switch (state) {
        case PRELOAD_NODE_IDLE: return "NotRequested";
        case PRELOAD_NODE_RUNNING: return "Running";
        case PRELOAD_NODE_DONE: return "Succeeded";
        case PRELOAD_NODE_FAILED: return "Failed";
        case PRELOAD_NODE_SILENT: return "NoAnswer";
        case PRELOAD_NODE_UNCONCERNED:
        case _PRELOAD_NODE_STATE_MAX: break;
        }

        return "";
}

const char *preload_node_message(const PreloadNode *node) {
        PreloadNodeState state = preload_node_state(node);

        if (node->refusal)
                return node->refusal;
        if (!node->version)
                return "NoNodeImage: no agent has registered the node";

        for (size_t i = 0; i < node->task->n_images; i++) {
                if (node->pulls[i].outcome == PRELOAD_FAILED)
                        return node->pulls[i].reason ?: "Failed: without a reason";
                if (is_left(node, i))
                        return "NotTaken: the ImagePullJob ended without this node";
        }
        if (state == PRELOAD_NODE_SILENT)
                return "no agent answers";
        if (state == PRELOAD_NODE_FAILED && node->task->mode == PRELOAD_WITHDRAW)
                return "NoProgress: the request is still there after ten minutes";
        for (size_t i = 0; i < node->task->n_images; i++)
                if (node->pulls[i].message)
                        return node->pulls[i].message;

        return state == PRELOAD_NODE_FAILED ? "NoProgress: nothing has changed for ten minutes"
                                            : NULL;
}

const char *preload_node_awaited(const PreloadNode *node) {
        if (node->task->mode == PRELOAD_WITHDRAW)
                return "the request is still there";
        if (preload_node_is_unanswered(node))
                return "no agent has begun";

        return preload_node_message(node) ?: "the image is being pulled";
}

void preload_image_count(const PreloadNode *node, size_t i, PreloadImageCounts *counts) {
        const PreloadPull *pull = &node->pulls[i];
        PreloadNodeState state = preload_node_state(node);

        if (state == PRELOAD_NODE_UNCONCERNED)
                return;

        counts->n_nodes++;
        if (pull->outcome == PRELOAD_SUCCEEDED)
                counts->n_done++;
        else if (state == PRELOAD_NODE_FAILED || state == PRELOAD_NODE_SILENT)
                counts->n_failed++;
        else if (pull->awaited >= 0 && is_taken_up(node, i))
                counts->n_running++;
        else if (pull->awaited >= 0)
                counts->n_waiting++;
        if (pull->awaited >= 0)
                counts->percent += pull->outcome == PRELOAD_SUCCEEDED ? 100 : pull->percent;
}

static json_object *list_names(json_object *map) {
        cleanup(json_object_put_p) json_object *list = json_object_new_array();

        json_object_object_foreach(map, name, none) {
                (void) none;
                if (patch_append(list, json_object_new_string(name)) < 0)
                        return NULL;
        }

        return take_ptr(list);
}

json_object *preload_job_make(const char *version, const char *image, const PreloadTask *task,
                              size_t parallelism, json_object *names) {
        static const char form[] =
                "{\"kind\":\"ImagePullJob\",\"metadata\":{\"generateName\":\"preload-\",\"labels\":{"
                "\"" PRELOAD_JOB_LABEL "\":\"" PRELOAD_JOB_LABEL_VALUE "\"}},"
                "\"spec\":{\"completionPolicy\":{\"type\":\"Always\"}}}";
        cleanup(json_object_put_p) json_object *job = json_parse_known(form);
        json_object *spec = object_at(job, "spec");
        char group_version[64];

        (void) snprintf(group_version, sizeof(group_version), PRELOAD_GROUP "/%s", version);
        if (patch_add(spec, "selector", patch_wrap("names", names)) < 0 ||
            patch_add_text(job, "apiVersion", group_version) < 0 ||
            patch_add_text(spec, "image", image) < 0 ||
            (task->resolves && (add_question(spec) < 0 ||
                                patch_add_text(spec, "imagePullPolicy", policy_of(task)) < 0)) ||
            patch_add_number(spec, "parallelism", parallelism) < 0 ||
            patch_add(object_at(spec, "completionPolicy"), "ttlSecondsAfterFinished",
                      json_object_new_int64(task->ttl_sec)) < 0 ||
            (json_object_object_length(task->secrets) > 0 &&
             patch_add(spec, "pullSecrets", list_names(task->secrets)) < 0))
                return NULL;

        return take_ptr(job);
}

/* The class of a failure: one word before a colon. 0: there is none. */
static size_t class_size(const char *message) {
        size_t size = strspn(message, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");

        return message[size] == ':' ? size : 0;
}

static struct PreloadReason *find_reason(PreloadReasons *reasons, const char *reason) {
        for (size_t i = 0; i < reasons->n_items; i++)
                if (strcmp(reasons->items[i].reason, reason) == 0)
                        return &reasons->items[i];

        return NULL;
}

static int add_reason(PreloadReasons *reasons, const char *reason, const char *message) {
        struct PreloadReason *items, *added;

        items = reallocarray(reasons->items, reasons->n_items + 1, sizeof(*items));
        if (!items)
                return -ENOMEM;

        reasons->items = items;
        added = &items[reasons->n_items++];
        *added = (struct PreloadReason){
                .reason = strdup(reason),
                .message = strdup(message),
                .nodes = strdup(""),
        };
        return added->reason && added->message && added->nodes ? 0 : -ENOMEM;
}

static int name_node(struct PreloadReason *reason, const char *node) {
        char *nodes;

        if (++reason->n_nodes > NODES_NAMED + 1)
                return 0;
        if (text_format(&nodes, "%s%s%s", reason->nodes, reason->n_nodes > 1 ? ", " : "",
                        reason->n_nodes > NODES_NAMED ? "..." : node) < 0)
                return -ENOMEM;

        free(reason->nodes);
        reason->nodes = nodes;
        return 0;
}

int preload_reasons_add(PreloadReasons *reasons, const char *node, const char *message) {
        size_t size = class_size(message);
        cleanup(free_p) char *reason = size > 0 ? strndup(message, size) : strdup(message);
        struct PreloadReason *found;
        int r;

        if (!reason)
                return -ENOMEM;

        found = find_reason(reasons, reason);
        if (!found) {
                r = add_reason(reasons, reason,
                               size > 0 ? message + size + 1 + strspn(message + size + 1, " ")
                                        : "");
                if (r < 0)
                        return r;
                found = &reasons->items[reasons->n_items - 1];
        }

        return name_node(found, node);
}

int preload_reasons_format(const PreloadReasons *reasons, char **ret) {
        cleanup(free_p) char *text = NULL;
        size_t size = 0;
        FILE *to = text_open(&text, &size);

        if (!to)
                return -ENOMEM;

        for (size_t i = 0; i < reasons->n_items; i++) {
                const struct PreloadReason *item = &reasons->items[i];

                (void) fprintf(to, "%s on ", item->reason);
                if (item->n_nodes == 1)
                        (void) fprintf(to, "node %s", item->nodes);
                else
                        (void) fprintf(to, "%zu nodes (%s)", item->n_nodes, item->nodes);
                (void) fprintf(to, "%s%s\n", item->message[0] ? ": " : "", item->message);
        }
        if (text_close(to, &text) < 0)
                return -ENOMEM;

        *ret = take_ptr(text);
        return 0;
}

void preload_reasons_done(PreloadReasons *reasons) {
        for (size_t i = 0; i < reasons->n_items; i++) {
                free(reasons->items[i].reason);
                free(reasons->items[i].message);
                free(reasons->items[i].nodes);
        }
        free(reasons->items);
        *reasons = PRELOAD_REASONS_INIT;
}

/* The agent's message about each image that is there. */
static json_object *list_resolved(const PreloadNode *node) {
        cleanup(json_object_put_p) json_object *list = json_object_new_array();

        for (size_t i = 0; list && i < node->task->n_images; i++)
                if (patch_append(list, json_object_new_string(node->pulls[i].reason ?: "")) < 0)
                        return NULL;

        return take_ptr(list);
}

static bool has_apart(const PreloadNode *node) {
        for (size_t i = 0; i < node->task->n_images; i++)
                if (is_skipped(&node->pulls[i]))
                        return true;

        return false;
}

int preload_result_add(PreloadResult *result, PreloadReasons *reasons, const PreloadNode *node) {
        PreloadNodeState state = preload_node_state(node);
        const char *message = state == PRELOAD_NODE_DONE ? NULL : preload_node_message(node);
        json_object *item;

        if (state == PRELOAD_NODE_UNCONCERNED)
                return 0;

        result->n_nodes++;
        result->n_done += state == PRELOAD_NODE_DONE;
        result->n_failed += state == PRELOAD_NODE_FAILED || state == PRELOAD_NODE_SILENT;
        result->n_silent += state == PRELOAD_NODE_SILENT;
        result->n_apart += has_apart(node);
        item = patch_wrap("name", json_object_new_string(node->name));
        if (patch_append(result->nodes, item) < 0 ||
            patch_add_text(item, "phase", preload_node_state_to_string(state)) < 0 ||
            (message && patch_add_text(item, "message", message) < 0) ||
            (node->task->resolves && state == PRELOAD_NODE_DONE &&
             patch_add(item, "resolved", list_resolved(node)) < 0))
                return -ENOMEM;

        return state == PRELOAD_NODE_FAILED || state == PRELOAD_NODE_SILENT
                       ? preload_reasons_add(reasons, node->name, message)
                       : 0;
}

void preload_result_done(PreloadResult *result) {
        free(result->reasons);
        json_object_put(result->nodes);
        *result = (PreloadResult){ .n_nodes = 0 };
}
