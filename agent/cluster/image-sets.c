/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/cluster/image-sets.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/list.h"
#include "agent/base/repeat.h"
#include "agent/base/text.h"
#include "agent/document/label-selector.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"
#include "agent/image/image-ref.h"
#include "agent/image/image-spec.h"
#include "agent/kube/resource.h"
#include "agent/node/owner.h"

typedef struct ImageSet {
        LIST_LINKS(struct ImageSet);
        char *owner;
        char *selector; /* NULL: it is no set, such as the NodeImage of a Node with that label */
        DesiredImages desired_images;
        ImageSetLimits limits;
        bool is_served; /* whether the selector matches this node */
        Error error;    /* fault of its selector, or of a part of its spec */
} ImageSet;

struct ImageSets {
        ImageSetsOptions options;
        KubeResource *resource;
        json_object *labels;
        bool has_labels;  /* the labels are known */
        bool is_waived;   /* see image_sets_waive_labels() */
        bool has_dropped; /* see image_sets_drop_former() */
        ImageSet *sets;
        ImageSetsWatcher *watchers;
};

DEFINE_CLEANUP(ImageSets *, image_sets_free)

static ImageSet *image_set_free(ImageSet *set) {
        free(set->owner);
        free(set->selector);
        desired_images_done(&set->desired_images);
        error_done(&set->error);
        free(set);
        return NULL;
}

static const char *image_set_name(const ImageSet *set) {
        return owner_name(set->owner);
}

static int notify(const ImageSets *sets) {
        int r = 0;

        for (ImageSetsWatcher *watcher = sets->watchers; r >= 0 && watcher; watcher = watcher->next)
                r = watcher->on_changed(watcher->userdata);
        return r;
}

static void image_set_complain(ImageSet *set, const ImageSets *sets, const Error *error) {
        if (error_update(&set->error, error->kind == ERROR_NONE ? NULL : error) &&
            error->kind != ERROR_NONE)
                log_warning(sets->options.log,
                            LOG_FIELDS({ "MESSAGE_ID", MESSAGE_DOCUMENT_REFUSED }),
                            "Cannot use all of the image set \"%s\": %s.", image_set_name(set),
                            error_message(error));
}

/* Requests the images, or takes the requests back. A set whose selector is faulty matches no node. */
static int image_set_apply(ImageSet *set, ImageSets *sets) {
        cleanup(error_done) Error error = ERROR_INIT;
        bool was_served = set->is_served;

        set->is_served = false;
        if (sets->has_labels && set->selector)
                (void) label_selector_match(set->selector, sets->labels, &set->is_served, &error);
        if (error.kind != ERROR_NONE)
                image_set_complain(set, sets, &error);
        if (!set->is_served && !was_served)
                return 0;

        return images_set_desired(sets->options.images, set->owner,
                                  set->is_served ? &set->desired_images : &DESIRED_IMAGES_INIT,
                                  REQUEST_RESTORE);
}

/* Without a number that can be read there is no limit. */
static int read_limit(json_object *annotations, const char *key, unsigned *ret, Error *reterr) {
        const char *text = json_get_text(annotations, key);
        unsigned long number = 0;
        char *end;

        if (text && text[0] >= '0' && text[0] <= '9') {
                number = strtoul(text, &end, 10);
                number = end[0] || number > IMAGE_SET_LIMIT_MAX ? 0 : number;
        }
        *ret = (unsigned) number;
        if (!text || number > 0)
                return 0;

        return error_set(reterr, ERROR_INVALID, "the annotation %s is no number from 1 to %d", key,
                         IMAGE_SET_LIMIT_MAX);
}

/* A new version asks for the image again, and so for the first nodes. */
static uint64_t digest_of(const DesiredImage *image) {
        uint64_t digest = repeat_digest(repeat_digest(0, image->name), image->tag);
        char version[24];

        if (image->version == 0)
                return digest;

        (void) snprintf(version, sizeof(version), "%" PRId64, image->version);
        return repeat_digest(digest, version);
}

/* A spec that cannot be read leaves the last good one in force. */
static int image_set_read(ImageSet *set, ImageSets *sets, json_object *object) {
        cleanup(error_done) Error error = ERROR_INIT, skipped = ERROR_INIT, limit = ERROR_INIT;
        json_object *metadata = json_get(object, "metadata", json_type_object);
        json_object *annotations = json_get(metadata, "annotations", json_type_object);
        DesiredImages desired_images = DESIRED_IMAGES_INIT;
        uint64_t digest = 0;
        int r = text_set(&set->selector, json_get_text(annotations, IMAGE_SET_SELECTOR));

        if (!set->selector)
                error_done(&set->error);
        if (r < 0 || !set->selector)
                return r;

        set->limits.name = image_set_name(set);
        (void) read_limit(annotations, IMAGE_SET_PARALLELISM, &set->limits.parallelism, &limit);
        (void) read_limit(annotations, IMAGE_SET_FIRST, &set->limits.first,
                          limit.kind == ERROR_NONE ? &limit : NULL);
        r = image_spec_parse_set(object, &desired_images, &skipped, &error);
        image_set_complain(set, sets,
                           error.kind != ERROR_NONE     ? &error
                           : skipped.kind != ERROR_NONE ? &skipped
                                                        : &limit);
        if (error.kind != ERROR_NONE || r < 0)
                return error.kind != ERROR_NONE ? 0 : r;

        for (size_t i = 0; i < desired_images.n_items; i++) {
                desired_images.items[i].ttl_sec = DESIRED_IMAGE_NO_LIMIT;
                desired_images.items[i].is_hub = true;
                digest += digest_of(&desired_images.items[i]);
        }
        desired_images_done(&set->desired_images);
        set->desired_images = desired_images;
        set->limits.digest = digest;
        return 0;
}

static ImageSet *find(const ImageSets *sets, const char *name) {
        ImageSet *set = sets->sets;

        while (set && strcmp(image_set_name(set), name) != 0)
                set = set->next;
        return set;
}

static int find_or_add(ImageSets *sets, const char *name, ImageSet **ret) {
        ImageSet *set = find(sets, name);

        if (!set) {
                set = calloc(1, sizeof(*set));
                if (!set)
                        return -ENOMEM;
                if (text_format(&set->owner, OWNER_SET "%s", name) < 0) {
                        image_set_free(set);
                        return -ENOMEM;
                }
                list_prepend(&sets->sets, set);
        }

        *ret = set;
        return 0;
}

/* Finds the owner of a request by a set that this node does not serve, or NULL. */
static const char *find_former(const ImageSets *sets) {
        for (size_t i = 0; i < images_count(sets->options.images); i++)
                for (const ImageRequest *request =
                             image_requests(images_get(sets->options.images, i));
                     request; request = request->next) {
                        const ImageSet *set;

                        if (!owner_is_set(request->owner))
                                continue;

                        set = find(sets, owner_name(request->owner));
                        if (!set || !set->is_served)
                                return request->owner;
                }

        return NULL;
}

/* Once all sets are known, takes back the requests of the previous run for those that are gone, or do not
 * select this node any more. */
static int image_sets_drop_former(ImageSets *sets) {
        const char *owner;

        if (sets->has_dropped || !image_sets_are_known(sets))
                return 0;

        sets->has_dropped = true;
        while ((owner = find_former(sets))) {
                cleanup(free_p) char *copy = strdup(owner);
                int r = copy ? images_set_desired(sets->options.images, copy, &DESIRED_IMAGES_INIT,
                                                  REQUEST_RESTORE)
                             : -ENOMEM;

                if (r < 0)
                        return r;
        }

        return 0;
}

static int on_object(const KubeObject *object, void *userdata) {
        ImageSets *sets = userdata;
        ImageSet *set;
        int r;

        r = find_or_add(sets, object->name, &set);
        if (r >= 0)
                r = image_set_read(set, sets, object->json);
        if (r >= 0)
                r = image_set_apply(set, sets);
        return r < 0 ? r : notify(sets);
}

static int on_gone(const KubeObject *object, void *userdata) {
        ImageSets *sets = userdata;
        ImageSet *set = find(sets, object->name);
        int r;

        if (!set)
                return 0;

        r = images_set_desired(sets->options.images, set->owner, &DESIRED_IMAGES_INIT,
                               REQUEST_RESTORE);
        list_remove(&sets->sets, set);
        image_set_free(set);
        return r < 0 ? r : notify(sets);
}

static int on_synced(bool is_first, void *userdata) {
        ImageSets *sets = userdata;

        if (is_first)
                images_heard(sets->options.images);
        return image_sets_drop_former(sets);
}

static int on_changed(void *userdata) {
        return notify(userdata);
}

int image_sets_new(const ImageSetsOptions *options, ImageSets **ret) {
        static const char *const versions[] = { "v1beta1", "v1alpha1", NULL };
        cleanup(image_sets_free_p) ImageSets *sets = calloc(1, sizeof(*sets));
        int r;

        if (!sets)
                return -ENOMEM;

        sets->options = *options;
        r = kube_resource_new(
                &(KubeResourceOptions){
                        .client = options->client,
                        .log = options->log,
                        .metrics = options->metrics,
                        .group = "apps.kruise.io",
                        .versions = versions,
                        .resource = "nodeimages",
                        .subject = "the image sets",
                        .is_optional = true,
                        .selections = { { .labels = IMAGE_SET_LABEL,
                                          .on_object = on_object,
                                          .on_gone = on_gone } },
                        .on_synced = on_synced,
                        .on_changed = on_changed,
                        .userdata = sets,
                },
                &sets->resource);
        if (r < 0)
                return r;

        images_await(options->images);
        *ret = take_ptr(sets);
        return 0;
}

ImageSets *image_sets_free(ImageSets *sets) {
        if (!sets)
                return NULL;

        kube_resource_free(sets->resource);
        json_object_put(sets->labels);
        while (sets->sets) {
                ImageSet *set = sets->sets;

                list_remove(&sets->sets, set);
                image_set_free(set);
        }
        free(sets);
        return NULL;
}

int image_sets_kick(ImageSets *sets) {
        return kube_resource_kick(sets->resource);
}

int image_sets_set_labels(ImageSets *sets, json_object *labels) {
        int r = 0;

        if (sets->has_labels && json_object_equal(sets->labels, labels))
                return 0;

        json_object_put(sets->labels);
        sets->labels = json_object_get(labels);
        sets->has_labels = true;
        for (ImageSet *set = sets->sets; r >= 0 && set; set = set->next)
                r = image_set_apply(set, sets);
        if (r >= 0)
                r = image_sets_drop_former(sets);
        return r < 0 ? r : notify(sets);
}

int image_sets_waive_labels(ImageSets *sets, bool is_waived) {
        if (sets->is_waived == is_waived)
                return 0;

        sets->is_waived = is_waived;
        return notify(sets);
}

bool image_sets_are_known(const ImageSets *sets) {
        return sets->has_labels && kube_resource_was_synced(sets->resource);
}

bool image_sets_are_settled(const ImageSets *sets) {
        return !sets ||
               ((sets->has_labels || sets->is_waived) && kube_resource_is_settled(sets->resource));
}

void image_sets_watch(ImageSets *sets, ImageSetsWatcher *watcher) {
        list_prepend(&sets->watchers, watcher);
}

void image_sets_unwatch(ImageSets *sets, ImageSetsWatcher *watcher) {
        list_remove(&sets->watchers, watcher);
}

static bool has_limits(const ImageSet *set) {
        return set->is_served && (set->limits.parallelism > 0 || set->limits.first > 0);
}

bool image_sets_have_limits(const ImageSets *sets) {
        for (const ImageSet *set = sets->sets; set; set = set->next)
                if (has_limits(set))
                        return true;

        return false;
}

const ImageSetLimits *image_sets_limits(const ImageSets *sets, const char *owner) {
        for (const ImageSet *set = sets->sets; set; set = set->next)
                if (has_limits(set) && strcmp(set->owner, owner) == 0)
                        return &set->limits;

        return NULL;
}

int image_sets_each(const ImageSets *sets, ImageSetsVisitor visitor, void *userdata) {
        int r = 0;

        for (const ImageSet *set = sets ? sets->sets : NULL; set; set = set->next)
                for (size_t i = 0; r >= 0 && set->is_served && i < set->desired_images.n_items; i++)
                        r = visitor(set->owner, &set->desired_images.items[i], userdata);
        return r;
}

int image_sets_visit(const ImageSets *sets, const DiagnosisVisitor *visitor) {
        int r = 0;

        for (const ImageSet *set = sets ? sets->sets : NULL; r >= 0 && set; set = set->next)
                if (set->error.kind != ERROR_NONE)
                        r = visitor->on_problem(image_set_name(set), error_message(&set->error),
                                                "correct the image set; until then this node uses "
                                                "what it can read of it",
                                                visitor->userdata);
        return r;
}
