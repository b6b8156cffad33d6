/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/preload-plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/rfc3339.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"

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

static json_object *find_tag(json_object *tags, const char *tag, size_t *ret_index) {
        for (size_t i = 0; tags && i < json_object_array_length(tags); i++) {
                json_object *item = json_object_array_get_idx(tags, i);

                if (!json_is(item, "tag", tag))
                        continue;

                *ret_index = i;
                return item;
        }

        return NULL;
}

static bool has_secret(json_object *secrets, const char *namespace, const char *name) {
        for (size_t i = 0; secrets && i < json_object_array_length(secrets); i++) {
                json_object *secret = json_object_array_get_idx(secrets, i);

                if (json_is(secret, "namespace", namespace) && json_is(secret, "name", name))
                        return true;
        }

        return false;
}

static uint32_t missing_secrets(json_object *secrets, const PreloadTerms *terms) {
        uint32_t missing = 0;

        for (size_t i = 0; i < terms->n_secrets; i++)
                if (!has_secret(secrets, terms->namespace, terms->secrets[i]))
                        missing |= UINT32_C(1) << i;

        return missing;
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

static int read_status(json_object *status, PreloadEntry *entry) {
        int64_t version = json_get_integer(status, "version");

        entry->next_version = version_after(entry->phase == PRELOAD_ABSENT ? -1 : entry->version,
                                            status ? version : -1);
        if (entry->phase == PRELOAD_ABSENT || !status || version != entry->version)
                return 0;

        entry->phase = phase_of(status);
        entry->is_taken_up = true;
        entry->percent = json_get_integer(status, "progress");
        entry->percent = entry->percent < 0 ? 0 : entry->percent > 100 ? 100 : entry->percent;
        return text_set(&entry->message, json_get_filled(status, "message"));
}

int preload_entry_read(json_object *node_image, const PreloadImage *image,
                       const PreloadTerms *terms, PreloadEntry *ret) {
        json_object *images = json_get(json_get(node_image, "spec", json_type_object), "images",
                                       json_type_object);
        json_object *of_name = json_get(images, image->name, json_type_object);
        json_object *tags = json_get(of_name, "tags", json_type_array);
        json_object *secrets = json_get(of_name, "pullSecrets", json_type_array);
        json_object *statuses = json_get(json_get(node_image, "status", json_type_object),
                                         "imageStatuses", json_type_object);
        cleanup(preload_entry_done) PreloadEntry entry = {
                .has_images = images,
                .has_name = tags,
                .has_secrets = secrets,
                .n_tags = tags ? json_object_array_length(tags) : 0,
                .missing_secrets = missing_secrets(secrets, terms),
        };
        json_object *tag = find_tag(tags, image->tag, &entry.tag_index);
        size_t at;
        int r = 0;

        if (tag) {
                entry.phase = PRELOAD_WAITING;
                entry.version = json_get_integer(tag, "version");
                entry.owners = json_object_get(json_get(tag, "ownerReferences", json_type_array));
        }
        if (r >= 0)
                r = read_status(find_tag(json_get(json_get(statuses, image->name, json_type_object),
                                                  "tags", json_type_array),
                                         image->tag, &at),
                                &entry);
        if (r < 0)
                return r;

        *ret = entry;
        entry = (PreloadEntry){ .owners = NULL };
        return 0;
}

void preload_entry_done(PreloadEntry *entry) {
        json_object_put(entry->owners);
        free(entry->message);
        *entry = (PreloadEntry){ .owners = NULL };
}

bool preload_entry_is_of(const PreloadEntry *entry, const char *uid) {
        size_t n = entry->owners ? json_object_array_length(entry->owners) : 0;

        for (size_t i = 0; i < n; i++)
                if (json_is(json_object_array_get_idx(entry->owners, i), "uid", uid))
                        return true;

        return false;
}

bool preload_entry_is_under_way(const PreloadEntry *entry) {
        return (entry->phase == PRELOAD_WAITING || entry->phase == PRELOAD_PULLING) &&
               entry->missing_secrets == 0;
}

/* Writing a request */

/* "/spec/images/NAME" and what follows; NULL: no memory. */
static char *pointer_to(const char *name, const char *rest) {
        cleanup(free_p) char *text = NULL;
        size_t size = 0;
        FILE *to = open_memstream(&text, &size);

        if (!to)
                return NULL;

        (void) fputs("/spec/images/", to);
        for (; *name; name++)
                if (*name == '~' || *name == '/')
                        (void) fputs(*name == '~' ? "~0" : "~1", to);
                else
                        (void) fputc(*name, to);
        (void) fputs(rest, to);
        return fclose(to) == 0 ? take_ptr(text) : NULL;
}

/* value is taken over; NULL: there is none. */
static int add_step(json_object *steps, const char *op, const char *path, json_object *value) {
        cleanup(json_object_put_p) json_object *owned = value;
        cleanup(json_object_put_p) json_object *step = json_object_new_object();

        if (!path || !step || patch_add_text(step, "op", op) < 0 ||
            patch_add_text(step, "path", path) < 0 ||
            (value && patch_add(step, "value", take_ptr(owned)) < 0))
                return -ENOMEM;

        return patch_append(steps, take_ptr(step));
}

/* Fails as a conflict where the object is another one by now. */
static json_object *new_steps(const char *version) {
        cleanup(json_object_put_p) json_object *steps = json_object_new_array();

        if (!steps || add_step(steps, "replace", "/metadata/resourceVersion",
                               json_object_new_string(version)) < 0)
                return NULL;

        return take_ptr(steps);
}

static json_object *new_tag(const PreloadImage *image, const PreloadEntry *entry,
                            const PreloadTerms *terms) {
        cleanup(json_object_put_p) json_object *tag = json_object_new_object();
        char now[RFC3339_SIZE];

        if (!tag || patch_add_text(tag, "tag", image->tag) < 0 ||
            patch_add_text(tag, "createdAt", rfc3339_format(terms->now_sec, now)) < 0 ||
            patch_add(tag, "version", json_object_new_int64(entry->next_version)) < 0 ||
            patch_add_text(tag, "imagePullPolicy", "IfNotPresent") < 0 ||
            patch_add(tag, "pullPolicy",
                      patch_wrap("ttlSecondsAfterFinished",
                                 json_object_new_int64(terms->ttl_sec))) < 0)
                return NULL;

        return take_ptr(tag);
}

static json_object *new_secrets(const PreloadTerms *terms, uint32_t which) {
        cleanup(json_object_put_p) json_object *secrets = json_object_new_array();

        for (size_t i = 0; secrets && i < terms->n_secrets; i++) {
                json_object *secret;

                if (!(which & UINT32_C(1) << i))
                        continue;

                secret = patch_wrap("namespace", json_object_new_string(terms->namespace));
                if (!secret || patch_add_text(secret, "name", terms->secrets[i]) < 0) {
                        json_object_put(secret);
                        return NULL;
                }
                if (patch_append(secrets, secret) < 0)
                        return NULL;
        }

        return take_ptr(secrets);
}

static int add_secrets(json_object *steps, const PreloadImage *image, const PreloadEntry *entry,
                       const PreloadTerms *terms) {
        cleanup(json_object_put_p) json_object *secrets = NULL;
        cleanup(free_p) char *path =
                pointer_to(image->name, entry->has_secrets ? "/pullSecrets/-" : "/pullSecrets");
        int r = 0;

        if (entry->missing_secrets == 0)
                return 0;

        secrets = new_secrets(terms, entry->missing_secrets);
        if (!secrets)
                return -ENOMEM;
        if (!entry->has_secrets)
                return add_step(steps, "add", path, take_ptr(secrets));

        for (size_t i = 0; r >= 0 && i < json_object_array_length(secrets); i++)
                r = add_step(steps, "add", path,
                             json_object_get(json_object_array_get_idx(secrets, i)));
        return r;
}

/* An entry that is there keeps what its authors said of it. */
static int add_version(json_object *steps, const PreloadImage *image, const PreloadEntry *entry) {
        cleanup(free_p) char *path = NULL;
        char rest[48];

        (void) snprintf(rest, sizeof(rest), "/tags/%zu/version", entry->tag_index);
        path = pointer_to(image->name, rest);
        return add_step(steps, "add", path, json_object_new_int64(entry->next_version));
}

static int add_request(json_object *steps, const PreloadImage *image, const PreloadEntry *entry,
                       const PreloadTerms *terms) {
        cleanup(free_p) char *name = pointer_to(image->name, ""),
                             *tags = pointer_to(image->name, "/tags"),
                             *end = pointer_to(image->name, "/tags/-");
        int r = 0;

        if (!entry->has_images)
                r = add_step(steps, "add", "/spec/images", json_object_new_object());
        if (r >= 0 && !entry->has_name)
                r = add_step(steps, "add", name, json_object_new_object());
        if (r >= 0 && !entry->has_name)
                r = add_step(steps, "add", tags, json_object_new_array());
        if (r >= 0)
                r = add_secrets(steps, image, entry, terms);
        if (r < 0)
                return r;

        return entry->phase == PRELOAD_ABSENT
                       ? add_step(steps, "add", end, new_tag(image, entry, terms))
                       : add_version(steps, image, entry);
}

int preload_patch_request(const PreloadImage *images, const PreloadEntry *entries, size_t n,
                          const PreloadTerms *terms, const char *version, json_object **ret) {
        cleanup(json_object_put_p) json_object *steps = new_steps(version);
        size_t n_steps = 0;

        if (!steps)
                return -ENOMEM;

        for (size_t i = 0; i < n; i++) {
                PreloadEntry entry = entries[i];

                if (preload_entry_is_under_way(&entry))
                        continue;

                /* As it is after the steps before. */
                for (size_t k = 0; k < i; k++)
                        if (!preload_entry_is_under_way(&entries[k])) {
                                bool is_same = strcmp(images[k].name, images[i].name) == 0;

                                entry.has_images = true;
                                entry.has_name = entry.has_name || is_same;
                                entry.missing_secrets = is_same ? 0 : entry.missing_secrets;
                        }
                if (add_request(steps, &images[i], &entry, terms) < 0)
                        return -ENOMEM;
                n_steps++;
        }

        *ret = n_steps > 0 ? take_ptr(steps) : NULL;
        return 0;
}

static bool is_named_before(const PreloadImage *images, const PreloadEntry *entries, size_t i) {
        for (size_t k = 0; k < i; k++)
                if (entries[k].phase != PRELOAD_ABSENT &&
                    strcmp(images[k].name, images[i].name) == 0)
                        return true;

        return false;
}

int preload_patch_withdraw(const PreloadImage *images, const PreloadEntry *entries, size_t n,
                           const char *version, json_object **ret) {
        cleanup(json_object_put_p) json_object *steps = new_steps(version);
        size_t n_steps = 0;

        if (!steps)
                return -ENOMEM;

        for (size_t i = 0; i < n; i++) {
                cleanup(free_p) char *path = NULL;
                char rest[48] = "";

                if (entries[i].phase == PRELOAD_ABSENT || is_named_before(images, entries, i))
                        continue;

                if (entries[i].n_tags > 1)
                        (void) snprintf(rest, sizeof(rest), "/tags/%zu", entries[i].tag_index);
                path = pointer_to(images[i].name, rest);
                if (add_step(steps, "remove", path, NULL) < 0)
                        return -ENOMEM;
                n_steps++;
        }

        *ret = n_steps > 0 ? take_ptr(steps) : NULL;
        return 0;
}

/* Which nodes, and how many. */

static bool is_stopped(const PreloadCounts *counts, const PreloadLimits *limits) {
        return counts->n_failed > limits->max_failures;
}

size_t preload_room(const PreloadCounts *counts, const PreloadLimits *limits) {
        size_t room;

        if (is_stopped(counts, limits) || counts->n_running >= limits->parallelism)
                return 0;

        room = limits->parallelism - counts->n_running;
        return room < counts->n_idle ? room : counts->n_idle;
}

bool preload_is_over(const PreloadCounts *counts, const PreloadLimits *limits) {
        return counts->n_running == 0 && (counts->n_idle == 0 || is_stopped(counts, limits));
}

/* Reasons. */

int preload_pull_begin(PreloadPull *pull, const PreloadEntry *entry, bool is_requested) {
        pull->version = is_requested ? entry->next_version : entry->version;
        return preload_pull_take(pull, entry);
}

static int conclude(PreloadPull *pull, PreloadPhase outcome, const char *message) {
        pull->outcome = outcome;
        return text_set(&pull->message, message);
}

int preload_pull_take(PreloadPull *pull, const PreloadEntry *entry) {
        if (pull->version < 0 || pull->outcome != PRELOAD_ABSENT)
                return 0;
        if (entry->phase == PRELOAD_ABSENT || entry->version < pull->version)
                return pull->was_seen
                               ? conclude(pull, PRELOAD_FAILED, "Withdrawn: by another client")
                               : 0;

        pull->was_seen = true;
        if (entry->phase != PRELOAD_SUCCEEDED && entry->phase != PRELOAD_FAILED)
                return 0;

        return conclude(pull, entry->phase, entry->message);
}

/* The image's job has ended without this node. */
static bool is_left(const PreloadNodeView *node, size_t i) {
        return node->jobs && node->jobs[i].has_ended && node->pulls[i].version < 0;
}

static bool is_taken_up(const PreloadNodeView *node, size_t i) {
        const PreloadPull *pull = &node->pulls[i];

        return pull->outcome != PRELOAD_ABSENT || (pull->was_seen && node->entries[i].is_taken_up);
}

bool preload_node_is_unanswered(const PreloadNodeView *node) {
        bool has_begun = false;

        for (size_t i = 0; i < node->n_images; i++) {
                if (is_taken_up(node, i))
                        return false;
                has_begun = has_begun || node->pulls[i].version >= 0;
        }

        return has_begun;
}

int64_t preload_node_progress(const PreloadNodeView *node) {
        int64_t progress = node->has_begun || node->is_over;

        for (size_t i = 0; i < node->n_images; i++)
                progress += node->pulls[i].outcome != PRELOAD_ABSENT ? 102
                            : is_taken_up(node, i)                   ? 1 + node->entries[i].percent
                                                                     : 0;
        return progress;
}

/* Sums up the pulls of a node's images. */
static PreloadNodeState state_of_pulls(const PreloadNodeView *node) {
        size_t n_begun = 0, n_over = 0, n_failed = 0;

        for (size_t i = 0; i < node->n_images; i++) {
                const PreloadPull *pull = &node->pulls[i];

                n_begun += pull->version >= 0 || is_left(node, i);
                n_over += pull->outcome != PRELOAD_ABSENT || is_left(node, i);
                n_failed += pull->outcome == PRELOAD_FAILED || is_left(node, i);
        }

        if (node->mode == PRELOAD_WATCH && n_begun == 0)
                return PRELOAD_NODE_UNCONCERNED;
        if (n_over == (node->mode == PRELOAD_WATCH ? n_begun : node->n_images))
                return n_failed > 0 ? PRELOAD_NODE_FAILED : PRELOAD_NODE_DONE;

        if (n_begun == 0 && !node->has_begun)
                return PRELOAD_NODE_IDLE;
        if (node->is_late && preload_node_is_unanswered(node))
                return PRELOAD_NODE_SILENT;

        return node->is_stalled ? PRELOAD_NODE_FAILED : PRELOAD_NODE_RUNNING;
}

static PreloadNodeState state_of_withdrawal(const PreloadNodeView *node) {
        for (size_t i = 0; i < node->n_images; i++)
                if (node->entries[i].phase != PRELOAD_ABSENT)
                        return node->has_begun ? PRELOAD_NODE_RUNNING : PRELOAD_NODE_IDLE;

        return node->has_begun ? PRELOAD_NODE_DONE : PRELOAD_NODE_UNCONCERNED;
}

PreloadNodeState preload_node_state(const PreloadNodeView *node) {
        if (node->is_over)
                return PRELOAD_NODE_DONE;
        if (!node->is_registered)
                return node->mode == PRELOAD_PULL ? PRELOAD_NODE_FAILED : PRELOAD_NODE_UNCONCERNED;
        if (node->refusal)
                return PRELOAD_NODE_FAILED;

        return node->mode == PRELOAD_WITHDRAW ? state_of_withdrawal(node) : state_of_pulls(node);
}

const char *preload_node_state_to_string(PreloadNodeState state) {
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

const char *preload_node_message(const PreloadNodeView *node) {
        PreloadNodeState state = preload_node_state(node);

        if (node->refusal)
                return node->refusal;
        if (!node->is_registered)
                return "NoNodeImage: no agent has registered the node";

        for (size_t i = 0; i < node->n_images; i++) {
                if (node->pulls[i].outcome == PRELOAD_FAILED)
                        return node->pulls[i].message ?: "Failed: without a reason";
                if (is_left(node, i))
                        return "NotTaken: the ImagePullJob ended without this node";
        }
        if (state == PRELOAD_NODE_SILENT)
                return "no agent answers";
        for (size_t i = 0; i < node->n_images; i++)
                if (node->entries[i].message)
                        return node->entries[i].message;

        return state == PRELOAD_NODE_FAILED ? "NoProgress: nothing has changed for ten minutes"
                                            : NULL;
}

const char *preload_node_awaited(const PreloadNodeView *node) {
        if (node->mode == PRELOAD_WITHDRAW)
                return "the request is still there";
        if (preload_node_is_unanswered(node))
                return "no agent has begun";

        return preload_node_message(node) ?: "the image is being pulled";
}

void preload_image_count(const PreloadNodeView *node, size_t i, PreloadImageCounts *counts) {
        const PreloadPull *pull = &node->pulls[i];
        PreloadNodeState state = preload_node_state(node);

        if (state == PRELOAD_NODE_UNCONCERNED)
                return;

        counts->n_nodes++;
        if (pull->outcome == PRELOAD_SUCCEEDED)
                counts->n_done++;
        else if (state == PRELOAD_NODE_FAILED || state == PRELOAD_NODE_SILENT)
                counts->n_failed++;
        else if (pull->version >= 0 && is_taken_up(node, i))
                counts->n_running++;
        else if (pull->version >= 0)
                counts->n_waiting++;
        if (pull->version >= 0)
                counts->percent +=
                        pull->outcome == PRELOAD_SUCCEEDED ? 100 : node->entries[i].percent;
}

static json_object *make_secrets(const PreloadTerms *terms) {
        cleanup(json_object_put_p) json_object *list = json_object_new_array();

        for (size_t i = 0; list && i < terms->n_secrets; i++)
                if (patch_append(list, json_object_new_string(terms->secrets[i])) < 0)
                        return NULL;

        return take_ptr(list);
}

static json_object *make_job_spec(const char *image, const PreloadTerms *terms, size_t parallelism,
                                  json_object *names) {
        cleanup(json_object_put_p) json_object *spec =
                patch_wrap("selector", patch_wrap("names", names));
        json_object *policy = patch_wrap("type", json_object_new_string("Always"));

        if (patch_add(spec, "completionPolicy", policy) < 0 ||
            patch_add(policy, "ttlSecondsAfterFinished", json_object_new_int64(terms->ttl_sec)) <
                    0 ||
            patch_add_text(spec, "image", image) < 0 ||
            patch_add(spec, "parallelism", json_object_new_int64((int64_t) parallelism)) < 0 ||
            (terms->n_secrets > 0 && patch_add(spec, "pullSecrets", make_secrets(terms)) < 0))
                return NULL;

        return take_ptr(spec);
}

json_object *preload_job_make(const char *version, const char *image, const PreloadTerms *terms,
                              size_t parallelism, json_object *names) {
        cleanup(json_object_put_p) json_object *job =
                patch_wrap("spec", make_job_spec(image, terms, parallelism, names));
        json_object *metadata = patch_wrap("generateName", json_object_new_string("preload-"));
        char group_version[64];

        (void) snprintf(group_version, sizeof(group_version), PRELOAD_GROUP "/%s", version);
        if (patch_add(job, "metadata", metadata) < 0 ||
            patch_add(metadata, "labels",
                      patch_wrap(PRELOAD_JOB_LABEL,
                                 json_object_new_string(PRELOAD_JOB_LABEL_VALUE))) < 0 ||
            patch_add_text(job, "apiVersion", group_version) < 0 ||
            patch_add_text(job, "kind", "ImagePullJob") < 0)
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
        FILE *to = open_memstream(&text, &size);

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
        if (fclose(to) != 0)
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

int preload_result_add(PreloadResult *result, PreloadReasons *reasons, const char *name,
                       const PreloadNodeView *node) {
        PreloadNodeState state = preload_node_state(node);
        const char *message = state == PRELOAD_NODE_DONE ? NULL : preload_node_message(node);
        json_object *item;

        if (state == PRELOAD_NODE_UNCONCERNED)
                return 0;

        result->n_nodes++;
        result->n_done += state == PRELOAD_NODE_DONE;
        result->n_failed += state == PRELOAD_NODE_FAILED || state == PRELOAD_NODE_SILENT;
        result->n_silent += state == PRELOAD_NODE_SILENT;
        item = patch_wrap("name", json_object_new_string(name));
        if (patch_append(result->nodes, item) < 0 ||
            patch_add_text(item, "phase", preload_node_state_to_string(state)) < 0 ||
            (message && patch_add_text(item, "message", message) < 0))
                return -ENOMEM;

        return state == PRELOAD_NODE_FAILED || state == PRELOAD_NODE_SILENT
                       ? preload_reasons_add(reasons, name, message)
                       : 0;
}

void preload_result_done(PreloadResult *result) {
        free(result->reasons);
        json_object_put(result->nodes);
        *result = (PreloadResult){ .n_nodes = 0 };
}
