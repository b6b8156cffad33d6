/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/node/node-image.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/hash.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/image/image-spec.h"
#include "agent/node/owner.h"

/* Annotations. */
#define NODE_IMAGE_EXPIRED "inplaced.io/expired"
#define NODE_IMAGE_OUTCOMES "inplaced.io/outcomes"
#define NODE_IMAGE_PINS "inplaced.io/pins"
#define NODE_IMAGE_LIMITS "inplaced.io/limits"
#define NODE_IMAGE_SHORT_NAMES "inplaced.io/short-names"
#define SHORT_NAMES_ARE_SEARCHED "Searched" /* else they are Docker Hub's */

/* Desired images as JSON: the reverse of image-spec.h */

/* The following functions return NULL if there is no memory. */

static json_object *owner_ref_to_json(const OwnerRef *owner) {
        cleanup(json_object_put_p) json_object *object = json_object_new_object();
        int r;

        r = patch_add_filled(object, "apiVersion", owner->api_version)
                    ?: patch_add_filled(object, "kind", owner->kind)
                    ?: patch_add_filled(object, "namespace", owner->namespace)
                    ?: patch_add_filled(object, "name", owner->name)
                    ?: patch_add_filled(object, "uid", owner->uid)
                    ?: patch_add_filled(object, "resourceVersion", owner->resource_version)
                    ?: patch_add_filled(object, "fieldPath", owner->field_path);
        return r < 0 ? NULL : take_ptr(object);
}

/* An owner may spell an image in several ways. Returns the name of this request; NULL: it is the image's. */
static const char *spelling_of(const Image *image, const ImageRequest *request) {
        const char *name = request->desired.name;

        return strcmp(name, image_name(image)) == 0 ? NULL : name;
}

static json_object *request_to_json(const Image *image, const ImageRequest *request) {
        OwnerRef owner = owner_to_reference(request->owner, &request->desired);
        char version[32];

        if (!owner_is_request(request->owner))
                owner.field_path = (char *) spelling_of(image, request);
        owner.resource_version = request->is_done ? version : NULL;
        (void) snprintf(version, sizeof(version), "%" PRId64, request->desired.version);
        return owner_ref_to_json(&owner);
}

static json_object *owners_to_json(const DesiredImage *desired, const Image *image) {
        cleanup(json_object_put_p) json_object *list = json_object_new_array();
        int r = 0;

        for (size_t i = 0; r >= 0 && i < desired->n_owners; i++)
                if (!text_equal(desired->owners[i].api_version, OWNER_API_VERSION))
                        r = patch_append(list, owner_ref_to_json(&desired->owners[i]));
        for (const ImageRequest *request = image_requests(image); r >= 0 && request;
             request = request->next)
                if (!request->is_expired && owner_kind(request->owner))
                        r = patch_append(list, request_to_json(image, request));

        return r < 0 ? NULL : take_ptr(list);
}

static int put_limit(json_object *object, const char *key, int64_t limit) {
        return limit == DESIRED_IMAGE_NO_LIMIT
                       ? 0
                       : patch_add(object, key, json_object_new_int64(limit));
}

static json_object *secrets_to_json(const DesiredImage *desired) {
        cleanup(json_object_put_p) json_object *list = json_object_new_array();
        int r = 0;

        for (size_t i = 0; r >= 0 && i < desired->n_secrets; i++) {
                json_object *secret = json_object_new_object(); /* taken over by the list */

                r = patch_append(list, secret)
                    ?: patch_add_filled(secret, "namespace", desired->secrets[i].namespace)
                    ?: patch_add_filled(secret, "name", desired->secrets[i].name);
        }

        return r < 0 ? NULL : take_ptr(list);
}

static json_object *key_values_to_json(const KeyValue *items, size_t n_items) {
        cleanup(json_object_put_p) json_object *object = json_object_new_object();
        int r = 0;

        for (size_t i = 0; r >= 0 && i < n_items; i++)
                r = items[i].value ? patch_add_text(object, items[i].key, items[i].value) : 0;
        return r < 0 ? NULL : take_ptr(object);
}

static json_object *sandbox_to_json(const DesiredImage *desired) {
        cleanup(json_object_put_p) json_object *object = json_object_new_object();
        int r;

        r = patch_add(object, "labels", key_values_to_json(desired->labels, desired->n_labels))
                    ?: patch_add(object, "annotations",
                                 key_values_to_json(desired->annotations, desired->n_annotations));
        return r < 0 ? NULL : take_ptr(object);
}

static int put_limits(json_object *object, const DesiredImage *desired) {
        return put_limit(object, "timeoutSeconds", desired->timeout_sec)
                       ?: put_limit(object, "backoffLimit", desired->backoff_limit)
                       ?: put_limit(object, "refusalLimit", desired->refusal_limit)
                       ?: put_limit(object, "ttlSecondsAfterFinished", desired->ttl_sec)
                       ?: put_limit(object, "activeDeadlineSeconds",
                                    desired->active_deadline_sec);
}

static const char *policy_to_text(const DesiredImage *desired) {
        return desired->policy == PULL_POLICY_ALWAYS ? "Always" : "IfNotPresent";
}

static json_object *policy_to_json(const DesiredImage *desired) {
        cleanup(json_object_put_p) json_object *object = json_object_new_object();

        return put_limits(object, desired) < 0 ? NULL : take_ptr(object);
}

/* Makes an entry of spec.images.NAME.tags with all owners of the image. What a NodeImage has once for all tags of a name stands
 * with each tag, since tags are requested by different owners. */
static json_object *desired_tag_to_json(const DesiredImage *desired, const Image *image) {
        cleanup(json_object_put_p) json_object *tag = json_object_new_object();
        int r;

        r = patch_add_text(tag, "tag", image_tag(image))
                    ?: patch_add_time(tag, "createdAt", desired->created_at)
                    ?: patch_add_nonzero(tag, "version", desired->version)
                    ?: patch_add_text(tag, "imagePullPolicy", policy_to_text(desired))
                    ?: patch_add(tag, "pullPolicy", policy_to_json(desired));
        if (r >= 0 && desired->is_complete)
                r = patch_add_bool(tag, "complete", true);
        if (r >= 0 && desired->is_pinned)
                r = patch_add_bool(tag, "pin", true);
        if (r >= 0 && desired->n_secrets > 0)
                r = patch_add(tag, "pullSecrets", secrets_to_json(desired));
        if (r >= 0 && desired->n_labels + desired->n_annotations > 0)
                r = patch_add(tag, "sandboxConfig", sandbox_to_json(desired));
        if (r >= 0)
                r = patch_add(tag, "ownerReferences", owners_to_json(desired, image));
        return r < 0 ? NULL : take_ptr(tag);
}

/* Makes the annotation's entry of a done request, without its outcome. */
static json_object *done_request_to_json(const Image *image, const ImageRequest *request) {
        cleanup(json_object_put_p) json_object *object = json_object_new_object();
        int r;

        r = patch_add_text(object, "name", image_name(image))
                    ?: patch_add_text(object, "tag", image_tag(image))
                    ?: patch_add_text(object, "owner", request->owner)
                    ?: patch_add_filled(object, "spelling", spelling_of(image, request))
                    ?: patch_add(object, "version",
                                           json_object_new_int64(request->desired.version));
        return r < 0 ? NULL : take_ptr(object);
}

/* The same with its outcome. */
static json_object *outcome_to_json(const Image *image, const ImageRequest *request) {
        cleanup(json_object_put_p) json_object *object = done_request_to_json(image, request);
        const ImageStatus *status = image_status_for(image, request->owner, request->desired.name);
        int r;

        r = patch_add(object, "status",
                      image_status_to_json(status, image_name(image), image_tag(image)));
        return r < 0 ? NULL : take_ptr(object);
}

/* Also has what the request itself demands: the spec shows only the most of all requests. */
static json_object *limits_to_json(const Image *image, const ImageRequest *request) {
        cleanup(json_object_put_p) json_object *object = done_request_to_json(image, request);
        const DesiredImage *desired = &request->desired;
        int r;

        r = put_limits(object, desired)
                    ?: patch_add_text(object, "imagePullPolicy", policy_to_text(desired))
                    ?: patch_add_bool(object, "complete", desired->is_complete);
        return r < 0 ? NULL : take_ptr(object);
}

/* Writing. */

/* Prints a value and releases it. NULL: no memory. */
static int print_json(FILE *file, json_object *value) {
        const char *text;

        if (!value)
                return -ENOMEM;

        text = json_to_text(value);
        if (text)
                (void) fputs(text, file);
        json_object_put(value);
        return text ? 0 : -ENOMEM;
}

static int print_string(FILE *file, const char *text) {
        return print_json(file, text ? json_object_new_string(text) : NULL);
}

/* An expired request must not run again after a restart. */
static bool is_expired(const Image *image, const ImageRequest *request) {
        return request->is_expired;
}

/* The request's outcome differs from the image's status. */
static bool has_outcome(const Image *image, const ImageRequest *request) {
        return request->is_done && !request->is_expired &&
               image_status_for(image, request->owner, request->desired.name) !=
                       image_status(image);
}

static bool is_pinned(const Image *image, const ImageRequest *request) {
        return request->desired.is_pinned && !request->is_expired;
}

static bool has_same_limits(const DesiredImage *a, const DesiredImage *b) {
        return a->timeout_sec == b->timeout_sec && a->backoff_limit == b->backoff_limit &&
               a->refusal_limit == b->refusal_limit && a->ttl_sec == b->ttl_sec &&
               a->active_deadline_sec == b->active_deadline_sec && a->policy == b->policy &&
               a->is_complete == b->is_complete;
}

/* An image whose requests have all expired is not desired. */
static bool has_limits(const Image *image, const ImageRequest *request) {
        return !request->is_expired && !request->desired.is_pinned &&
               !has_same_limits(&request->desired, desired_image(image));
}

/* An annotation for data that a NodeImage has no field for, and the requests in it. */
typedef struct Note {
        const char *key;
        bool (*is_noted)(const Image *image, const ImageRequest *request);
        json_object *(*to_json)(const Image *image, const ImageRequest *request);
} Note;

static const Note notes[] = {
        { NODE_IMAGE_EXPIRED, is_expired, done_request_to_json },
        { NODE_IMAGE_OUTCOMES, has_outcome, outcome_to_json },
        { NODE_IMAGE_PINS, is_pinned, limits_to_json },
        { NODE_IMAGE_LIMITS, has_limits, limits_to_json },
};

static int note_collect(const Note *note, const Image *image, json_object *list) {
        for (const ImageRequest *request = image_requests(image); request;
             request = request->next) {
                int r = note->is_noted(image, request)
                                ? patch_append(list, note->to_json(image, request))
                                : 0;

                if (r < 0)
                        return r;
        }

        return 0;
}

static size_t count_images(const NodeImageOptions *options) {
        return options->only ? options->n_only : images_count(options->images);
}

static const Image *get_image(const NodeImageOptions *options, size_t i) {
        return options->only ? options->only[i] : images_get(options->images, i);
}

static int note_print(const Note *note, const NodeImageOptions *options, FILE *file) {
        cleanup(json_object_put_p) json_object *list = json_object_new_array();
        int r = list ? 0 : -ENOMEM;

        for (size_t i = 0; r >= 0 && i < count_images(options); i++)
                r = note_collect(note, get_image(options, i), list);
        if (r < 0 || json_object_array_length(list) == 0)
                return r;

        (void) fprintf(file, ",\n      \"%s\": ", note->key);
        return print_string(file, json_to_text(list));
}

static int print_metadata(const NodeImageOptions *options, FILE *file) {
        int r;

        (void) fputs("  \"metadata\": {\n    \"name\": ", file);
        r = print_string(file, options->node_name);
        if (r < 0)
                return r;

        (void) fputs(",\n    \"annotations\": {\n      \"inplaced.io/runtime\": ", file);
        r = print_string(file, options->runtime ?: "");
        if (r < 0)
                return r;

        if (images_short_names(options->images) == SHORT_NAMES_SEARCHED)
                (void) fputs(",\n      \"" NODE_IMAGE_SHORT_NAMES "\": \"" SHORT_NAMES_ARE_SEARCHED
                             "\"",
                             file);
        for (size_t i = 0; r >= 0 && i < sizeof(notes) / sizeof(notes[0]); i++)
                r = note_print(&notes[i], options, file);
        (void) fputs("\n    }\n  },\n", file);
        return r;
}

static int print_spec_tag(const Image *image, FILE *file) {
        return print_json(file, desired_tag_to_json(desired_image(image), image));
}

static int print_status_tag(const Image *image, FILE *file) {
        return print_json(file, image_status_to_own_json(image_status(image), image_name(image),
                                                         image_tag(image)));
}

typedef int (*PrintImage)(const Image *image, FILE *file);

/* The desired images, sorted by the names in this object. */
typedef struct Shown {
        const Image **items;
        size_t n_items;
} Shown;

static void shown_done(Shown *shown) {
        free(shown->items);
}

static int by_name(const void *a, const void *b) {
        const Image *x = *(const Image *const *) a, *y = *(const Image *const *) b;

        return strcmp(image_name(x), image_name(y)) ?: strcmp(image_tag(x), image_tag(y));
}

/* The images are sorted by key, where a malformed reference may stand between two tags of its
 * name. */
static int shown_collect(const NodeImageOptions *options, Shown *ret) {
        Shown shown = { .items = calloc(count_images(options) + 1, sizeof(shown.items[0])) };

        if (!shown.items)
                return -ENOMEM;

        for (size_t i = 0; i < count_images(options); i++)
                if (image_is_desired(get_image(options, i)))
                        shown.items[shown.n_items++] = get_image(options, i);
        qsort(shown.items, shown.n_items, sizeof(shown.items[0]), by_name);

        *ret = shown;
        return 0;
}

/* Prints an object of name → tags, each tag on a line. */
static int print_images(const Shown *shown, PrintImage print_tag, FILE *file) {
        const Image *first = NULL; /* first image of the current name */
        int r = 0;

        for (size_t i = 0; r >= 0 && i < shown->n_items; i++) {
                const Image *image = shown->items[i];
                bool is_same = first && strcmp(image_name(first), image_name(image)) == 0;

                if (!is_same) {
                        (void) fputs(first ? "\n      ]},\n      " : "\n      ", file);
                        r = print_string(file, image_name(image));
                        (void) fputs(": {\"tags\": [", file);
                        first = image;
                }
                if (r >= 0) {
                        (void) fputs(is_same ? ",\n        " : "\n        ", file);
                        r = print_tag(image, file);
                }
        }
        if (first)
                (void) fputs("\n      ]}\n    ", file);

        return r;
}

/* Counts all images, even if the object shows only some. */
static void print_counts(const Images *images, FILE *file) {
        size_t counts[_IMAGE_PHASE_MAX] = { 0 }, desired = 0;

        for (size_t i = 0; i < images_count(images); i++) {
                const Image *image = images_get(images, i);

                if (!image_is_desired(image))
                        continue;
                counts[image_status(image)->phase]++;
                desired++;
        }

        (void) fprintf(file,
                       "    \"desired\": %zu,\n    \"succeeded\": %zu,\n    \"failed\": %zu,\n"
                       "    \"pulling\": %zu,\n    \"waiting\": %zu,\n    \"missing\": %zu",
                       desired, counts[IMAGE_SUCCEEDED], counts[IMAGE_FAILED],
                       counts[IMAGE_PULLING], counts[IMAGE_WAITING] + counts[IMAGE_BACKING_OFF],
                       counts[IMAGE_MISSING]);
}

uint64_t node_image_fingerprint(const Image *image) {
        const ImageStatus *status = image_status(image);
        uint64_t sum = HASH64_START;

        sum = hash64_number(sum, status->phase);
        sum = hash64_number(sum, image_status_progress(status));
        sum = hash64_number(sum, status->waiting_at);
        sum = hash64_number(sum, status->started_at);
        sum = hash64_number(sum, status->completed_at);
        sum = hash64_number(sum, status->version);
        sum = hash64_number(sum, status->attempt);
        sum = hash64_number(sum, status->next_attempt_at);
        sum = hash64_text_or_null(sum, image_status_message(status));
        sum = hash64_text_or_null(sum, status->image_id);
        for (const ImageRequest *request = image_requests(image); request;
             request = request->next) {
                sum = hash64_text_or_null(sum, request->owner);
                sum = desired_image_hash(sum, &request->desired);
                sum = hash64_number(sum, request->is_expired);
                sum = hash64_number(sum, request->is_done);
                sum = hash64_number(sum, request->outcome ? request->outcome->completed_at : 0);
        }

        return sum > 0 ? sum : 1;
}

int node_image_write(const NodeImageOptions *options, FILE *file) {
        cleanup(shown_done) Shown shown = { .items = NULL };
        int r;

        r = shown_collect(options, &shown);
        if (r < 0)
                return r;

        (void) fputs("{\n  \"apiVersion\": \"apps.kruise.io/v1alpha1\",\n"
                     "  \"kind\": \"NodeImage\",\n",
                     file);
        r = print_metadata(options, file);
        if (r < 0)
                return r;

        (void) fputs("  \"spec\": {\n    \"images\": {", file);
        r = print_images(&shown, print_spec_tag, file);
        if (r < 0)
                return r;

        (void) fputs("}\n  },\n  \"status\": {\n", file);
        print_counts(options->images, file);
        (void) fputs(",\n    \"imageStatuses\": {", file);
        r = print_images(&shown, print_status_tag, file);
        if (r < 0)
                return r;

        (void) fputs("}\n  }\n}\n", file);
        return ferror(file) ? -EIO : 0;
}

int node_image_to_text(const NodeImageOptions *options, char **ret) {
        cleanup(free_p) char *text = NULL;
        size_t size;
        FILE *file;
        int r;

        file = text_open(&text, &size);
        if (!file)
                return -ENOMEM;

        r = node_image_write(options, file);
        if (text_close(file, &text) < 0 && r >= 0)
                r = -ENOMEM;
        if (r < 0)
                return r;

        *ret = take_ptr(text);
        return 0;
}

/* Reading it back. */

/* A desired image of an owner from before the restart; an owner may have several. */
typedef struct Restored {
        char *owner;
        DesiredImage desired;
} Restored;

typedef struct RestoredList {
        NodeImageLacks lacks;
        void *userdata;
        json_object *pins, *limits; /* lists; NULL: none */
        Restored *items;
        size_t n_items;
} RestoredList;

static void restored_list_done(RestoredList *list) {
        for (size_t i = 0; i < list->n_items; i++) {
                desired_image_done(&list->items[i].desired);
                free(list->items[i].owner);
        }
        free(list->items);
        json_object_put(list->pins);
        json_object_put(list->limits);
}

/* Returns the entry of a request; NULL: there is none. */
static json_object *find_noted(json_object *list, const DesiredImage *desired, const char *owner) {
        for (size_t i = 0; list && i < json_object_array_length(list); i++) {
                json_object *item = json_object_array_get_idx(list, i);

                if (text_equal(json_get_text(item, "name"), desired->name) &&
                    text_equal(json_get_text(item, "tag"), desired->tag) &&
                    text_equal(json_get_text(item, "owner"), owner))
                        return item;
        }

        return NULL;
}

/* The file may have any number, and a limit must not overflow when it is counted in microseconds. */
static int64_t get_limit(json_object *limits, const char *key, int64_t otherwise) {
        json_object *limit = json_get(limits, key, json_type_int);
        int64_t number = limit ? json_object_get_int64(limit) : -1;

        if (number < 0)
                return otherwise;
        return number < INT32_MAX ? number : INT32_MAX;
}

static void restore_own(const RestoredList *list, const char *owner, DesiredImage *desired) {
        const int64_t none = DESIRED_IMAGE_NO_LIMIT;
        json_object *pin = find_noted(list->pins, desired, owner);
        json_object *limits = pin ?: find_noted(list->limits, desired, owner);
        json_object *complete = json_get(limits, "complete", json_type_boolean);
        const char *policy = json_get_text(limits, "imagePullPolicy");

        desired->is_pinned = pin;
        if (!limits)
                return;
        if (policy)
                desired->policy = text_equal(policy, "Always") ? PULL_POLICY_ALWAYS
                                                               : PULL_POLICY_IF_NOT_PRESENT;
        if (complete)
                desired->is_complete = json_object_get_boolean(complete);
        desired->timeout_sec = get_limit(limits, "timeoutSeconds", desired->timeout_sec);
        desired->backoff_limit = get_limit(limits, "backoffLimit", none);
        desired->refusal_limit = get_limit(limits, "refusalLimit", none);
        desired->ttl_sec = get_limit(limits, "ttlSecondsAfterFinished", none);
        desired->active_deadline_sec = get_limit(limits, "activeDeadlineSeconds", none);
}

static int64_t version_of(const OwnerRef *owner) {
        return owner->resource_version ? strtoll(owner->resource_version, NULL, 10) : 0;
}

/* Takes the owner over. Of the merged image's owners, a local request keeps only the reference to itself, and none of
 * what the tags of a name share, which the socket has no words for. */
static int add_request(RestoredList *list, const DesiredImage *desired, char *owner,
                       const OwnerRef *reference, int64_t version) {
        DesiredImage copy;
        int r;

        r = array_grow(&list->items, list->n_items, sizeof(list->items[0]))
                    ?: desired_image_copy(desired, &copy);
        if (r < 0) {
                free(owner);
                return r;
        }

        desired_image_clear_owners(&copy);
        copy.version = version;
        restore_own(list, owner, &copy);
        if (owner_is_request(owner)) {
                desired_image_clear_shared(&copy);
                copy.is_resolved = false;
                r = desired_image_add_owner(&copy, &(OwnerRef){
                                                           .api_version = reference->api_version,
                                                           .kind = reference->kind,
                                                           .name = reference->name,
                                                           .uid = reference->uid,
                                                           .field_path = reference->field_path,
                                                   });
                if (r < 0) {
                        desired_image_done(&copy);
                        free(owner);
                        return r;
                }
        }
        list->items[list->n_items++] = (Restored){ .owner = owner, .desired = copy };
        return 0;
}

static json_object *find_status_tag(json_object *root, const DesiredImage *desired) {
        json_object *status = json_get(root, "status", json_type_object);
        json_object *images = json_get(status, "imageStatuses", json_type_object);
        json_object *image = json_get(images, desired->name, json_type_object);

        return json_find(json_get(image, "tags", json_type_array), "tag", desired->tag);
}

/* Only the caller stands in a reference of the local API. */
static const char *spelling_in(const OwnerRef *reference, const char *owner,
                               const DesiredImage *desired) {
        return owner_is_request(owner) ? NULL : reference->field_path ?: desired->name;
}

/* The request of an owner with a version is done, if the image is finished. */
static int restore_owner(Images *images, const DesiredImage *desired, const OwnerRef *reference,
                         bool is_finished, RestoredList *requests) {
        bool is_done = is_finished && reference->resource_version;
        cleanup(free_p) char *owner = NULL;
        int r;

        r = owner_from_reference(reference, &owner);
        if (r < 0)
                return r == -EINVAL ? 0 : r;

        r = images_restore_request(images, desired->name, desired->tag,
                                   &(FormerRequest){
                                           .owner = owner,
                                           .spelling = spelling_in(reference, owner, desired),
                                           .version = version_of(reference),
                                           .is_done = is_done,
                                   });
        if (r < 0)
                return r;

        r = owner_is_request(owner) ? 1 : requests->lacks(owner, requests->userdata);
        if (r <= 0)
                return r;
        /* The caller lost its connection by the restart, and calls again if it still waits. A set is shown
         * again, with the limits that its pulls have to keep. */
        if (owner_is_call(owner) ? !reference->resource_version : owner_is_set(owner) && !is_done)
                return 0;

        return add_request(requests, desired, take_ptr(owner), reference,
                           reference->resource_version || owner_is_request(owner)
                                   ? version_of(reference)
                                   : desired->version);
}

static int restore_tag(Images *images, json_object *root, const DesiredImage *desired,
                       RestoredList *requests) {
        json_object *entry = find_status_tag(root, desired);
        cleanup(image_status_done) ImageStatus status = { 0 };
        bool is_finished;
        int r;

        r = entry ? image_status_read_final(entry, desired->name, &status) : false;
        if (r < 0)
                return r;

        is_finished = r > 0 && status.completed_at > 0;
        if (is_finished) {
                r = images_restore(images, desired->name, desired->tag, &status);
                if (r < 0)
                        return r;
        }

        for (size_t i = 0; i < desired->n_owners; i++) {
                r = restore_owner(images, desired, &desired->owners[i], is_finished, requests);
                if (r < 0)
                        return r;
        }

        return 0;
}

/* Shows the outcome as the image's status if no other one is known: none may be pulling it any more. */
static int restore_outcome(Images *images, const char *name, const char *tag,
                           ImageStatus *outcome) {
        Image *image;
        int r;

        r = images_find(images, name, tag, &image);
        if (r < 0 || !image || image_phase_is_final(image_status(image)->phase))
                return r;

        return images_restore(images, name, tag, outcome);
}

/* A request without a status has expired. */
static int restore_done(Images *images, json_object *item) {
        const char *name = json_get_text(item, "name"), *tag = json_get_text(item, "tag");
        const char *owner = json_get_text(item, "owner");
        cleanup(image_status_done) ImageStatus outcome = { 0 };
        json_object *status = json_get(item, "status", json_type_object);
        const FormerRequest former = {
                .owner = owner,
                .spelling = json_get_text(item, "spelling") ?: name,
                .version = json_get_integer(item, "version"),
                .is_done = true,
                .is_expired = !status,
                .outcome = status ? &outcome : NULL,
        };
        int r = true;

        if (!name || !tag || !owner || !owner_kind(owner))
                return 0;
        if (status)
                r = image_status_read_final(status, name, &outcome);
        if (r <= 0)
                return r;

        r = images_restore_request(images, name, tag, &former);
        return r < 0 || !status ? r : restore_outcome(images, name, tag, &outcome);
}

static const char *find_annotation(json_object *root, const char *key) {
        json_object *metadata = json_get(root, "metadata", json_type_object);
        json_object *annotations = json_get(metadata, "annotations", json_type_object);

        return json_get_text(annotations, key);
}

/* Sets *ret to the list of an annotation, which the caller owns, or to NULL: it has none. */
static int read_note(json_object *root, const char *key, json_object **ret) {
        cleanup(json_object_put_p) json_object *list = NULL;
        const char *text = find_annotation(root, key);

        if (text && json_parse(text, strlen(text), &list, NULL) == -ENOMEM)
                return -ENOMEM;

        *ret = json_object_is_type(list, json_type_array) ? take_ptr(list) : NULL;
        return 0;
}

static int restore_note(Images *images, json_object *root, const char *key) {
        cleanup(json_object_put_p) json_object *list = NULL;
        int r;

        r = read_note(root, key, &list);
        for (size_t i = 0; list && r >= 0 && i < json_object_array_length(list); i++)
                r = restore_done(images, json_object_array_get_idx(list, i));
        return r;
}

static int by_owner(const void *a, const void *b) {
        return strcmp(((const Restored *) a)->owner, ((const Restored *) b)->owner);
}

static RequestKind kind_of(const char *owner) {
        return owner_is_request(owner) ? REQUEST_EPHEMERAL
               : owner_is_file(owner)  ? REQUEST_DESIRED
               : owner_is_set(owner)   ? REQUEST_RESTORE
                                       : REQUEST_ONCE;
}

/* Sets all desired images of a request together, since each call replaces the earlier ones. */
static int restore_requests(Images *images, RestoredList *requests) {
        size_t next;
        int r;

        if (requests->n_items > 0)
                qsort(requests->items, requests->n_items, sizeof(requests->items[0]), by_owner);

        for (size_t i = 0; i < requests->n_items; i = next) {
                cleanup(desired_images_done) DesiredImages desired_images = DESIRED_IMAGES_INIT;
                const char *owner = requests->items[i].owner;

                for (next = i;
                     next < requests->n_items && strcmp(requests->items[next].owner, owner) == 0;
                     next++) {
                        DesiredImage copy;

                        r = desired_image_copy(&requests->items[next].desired, &copy);
                        if (r < 0)
                                return r;

                        r = desired_images_take(&desired_images, &copy);
                        if (r < 0)
                                return r;
                }

                r = images_set_desired(images, owner, &desired_images, kind_of(owner));
                if (r < 0)
                        return r;
        }

        return 0;
}

static int restore(Images *images, json_object *root, NodeImageLacks lacks, void *userdata,
                   Error *reterr) {
        cleanup(desired_images_done) DesiredImages desired_images = DESIRED_IMAGES_INIT;
        cleanup(restored_list_done) RestoredList requests = {
                .lacks = lacks,
                .userdata = userdata,
        };
        cleanup(error_done) Error skipped = ERROR_INIT;
        int r;

        r = image_spec_parse_own(root, &desired_images, &skipped, reterr);
        if (r >= 0 &&
            text_equal(find_annotation(root, NODE_IMAGE_SHORT_NAMES), SHORT_NAMES_ARE_SEARCHED))
                r = images_set_short_names(images, SHORT_NAMES_SEARCHED);
        if (r < 0)
                return r;

        r = read_note(root, NODE_IMAGE_PINS, &requests.pins)
                    ?: read_note(root, NODE_IMAGE_LIMITS, &requests.limits);
        if (r < 0)
                return r;

        for (size_t i = 0; i < desired_images.n_items; i++) {
                const DesiredImage *desired = &desired_images.items[i];

                if (desired->fault && skipped.kind == ERROR_NONE)
                        (void) error_set(&skipped, ERROR_INVALID, "%s", desired->fault);
                r = desired->fault ? 0 : restore_tag(images, root, desired, &requests);
                if (r < 0)
                        return r;
        }

        r = restore_note(images, root, NODE_IMAGE_EXPIRED);
        if (r < 0)
                return r;

        r = restore_note(images, root, NODE_IMAGE_OUTCOMES);
        if (r >= 0)
                r = restore_requests(images, &requests);
        if (r >= 0 && skipped.kind != ERROR_NONE)
                (void) error_copy(reterr, &skipped);
        return r;
}

int node_image_restore(Images *images, const char *text, size_t size, NodeImageLacks lacks,
                       void *userdata, Error *reterr) {

        cleanup(json_object_put_p) json_object *root = NULL;
        int r;

        r = json_parse(text, size, &root, reterr);
        return r < 0 ? r : restore(images, root, lacks, userdata, reterr);
}
