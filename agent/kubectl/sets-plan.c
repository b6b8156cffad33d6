/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/sets-plan.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/rfc3339.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/document/label-selector.h"
#include "agent/image/image-ref.h"
#include "agent/kubectl/preload-plan.h"
#include "agent/kubectl/workload.h"

const char *set_selector(json_object *set) {
        return object_annotation(set, IMAGE_SET_SELECTOR);
}

int64_t set_limit(json_object *set, const char *annotation) {
        const char *text = object_annotation(set, annotation);

        return text ? strtol(text, NULL, 10) : 0;
}

bool set_is_set(json_object *node_image) {
        return json_get_text(object_at(node_image, "metadata.labels"), IMAGE_SET_LABEL) &&
               set_selector(node_image);
}

static int make_tag(const SetContent *content, const char *tag, json_object **ret) {
        json_object *made = json_object_new_object();
        char now[RFC3339_SIZE];

        *ret = made;
        return patch_add_text(made, "tag", tag)
                       ?: patch_add_text(made, "createdAt", rfc3339_format(content->now_sec, now))
                       ?: patch_add_text(made, "imagePullPolicy", "IfNotPresent");
}

/* Adds pull secrets to those that the image has in the set; without any the patch leaves the list as it is. */
static int add_secrets(const SetContent *content, json_object *known, json_object *image) {
        json_object *list = json_get(known, "pullSecrets", json_type_array);

        if (!content->secrets || json_object_object_length(content->secrets) == 0)
                return 0;
        if (list && patch_add(image, "pullSecrets", json_copy(list)) < 0)
                return -ENOMEM;
        return preload_add_secrets(content->secrets, content->namespace, image);
}

/* Adds the image, whose other tags may be there. known: spec.images before; NULL: none. */
static int add_image(const SetContent *content, const PreloadImage *wanted, json_object *known,
                     json_object *images) {
        json_object *image = json_get(images, wanted->name, json_type_object), *tag;
        int r = 0;

        if (!image) {
                image = patch_wrap("tags", json_object_new_array());
                r = patch_add(images, wanted->name, image);
                if (r >= 0)
                        r = add_secrets(content, json_get(known, wanted->name, json_type_object),
                                        image);
        }
        if (r < 0 || preload_find_tag(image, wanted->tag))
                return r;

        tag = json_object_get(
                preload_find_tag(json_get(known, wanted->name, json_type_object), wanted->tag));
        if (!tag)
                r = make_tag(content, wanted->tag, &tag);
        return r < 0 ? r : patch_append(json_get(image, "tags", json_type_array), tag);
}

static int make_images(const SetContent *content, json_object *known, json_object **ret,
                       Error *reterr) {
        cleanup(json_object_put_p) json_object *images = json_object_new_object();
        int r = images ? 0 : -ENOMEM;

        for (size_t i = 0; r >= 0 && i < content->n_images; i++) {
                cleanup(preload_image_done) PreloadImage wanted = { .name = NULL };

                r = preload_image_parse(content->images[i], &wanted, reterr);
                if (r >= 0)
                        r = add_image(content, &wanted, known, images);
        }
        if (r < 0)
                return r;

        *ret = take_ptr(images);
        return 0;
}

static int check_selector(const SetContent *content, Error *reterr) {
        bool matches;

        return content->selector ? label_selector_match(content->selector, NULL, &matches, reterr)
                                 : 0;
}

/* Makes the annotations that differ from those of a set without any. is_new: there is nothing to remove. */
static int make_annotations(const SetContent *content, bool is_new, json_object **ret) {
        json_object *annotations = json_object_new_object();
        int r = 0;

        *ret = annotations;
        if (content->selector || is_new)
                r = patch_add_text(annotations, IMAGE_SET_SELECTOR, content->selector ?: "");
        if (r >= 0 && content->first)
                r = patch_add_text(annotations, IMAGE_SET_FIRST, content->first);
        if (r < 0 || !content->parallelism || (is_new && !content->parallelism[0]))
                return r;

        return content->parallelism[0]
                       ? patch_add_text(annotations, IMAGE_SET_PARALLELISM, content->parallelism)
                       : patch_add_null(annotations, IMAGE_SET_PARALLELISM);
}

int set_make(const SetContent *content, json_object **ret, Error *reterr) {
        cleanup(json_object_put_p) json_object *object = json_object_new_object();
        json_object *metadata = json_object_new_object(), *images = NULL, *annotations;
        int r = check_selector(content, reterr);

        if (r >= 0)
                r = make_images(content, /* known= */ NULL, &images, reterr);
        if (r < 0) {
                json_object_put(metadata);
                return r;
        }

        r = patch_add_text(object, "kind", "NodeImage") ?: patch_add(object, "metadata", metadata);
        r = patch_add(object, "spec", patch_wrap("images", images)) ?: r;
        if (r >= 0)
                r = patch_add_text(metadata, "name", content->name)
                            ?: patch_add(metadata, "labels",
                                         patch_wrap(IMAGE_SET_LABEL, json_object_new_string("")))
                            ?: make_annotations(content, /* is_new= */ true, &annotations)
                            ?: patch_add(metadata, "annotations", annotations);
        if (r >= 0)
                *ret = take_ptr(object);
        return r;
}

/* Removes what is not wanted any more. */
static int remove_others(json_object *known, json_object *images) {
        int r = 0;

        if (!known)
                return 0;

        json_object_object_foreach(known, name, image) {
                (void) image;
                if (r >= 0 && !json_object_object_get_ex(images, name, NULL))
                        r = patch_add_null(images, name);
        }
        return r;
}

int set_change(json_object *set, const SetContent *content, json_object **ret, Error *reterr) {
        json_object *known = object_at(set, "spec.images"), *images = NULL, *metadata, *annotations;
        cleanup(json_object_put_p) json_object *patch = NULL;
        cleanup(json_object_put_p) json_object *after = json_copy(set);
        int r = check_selector(content, reterr);

        *ret = NULL;
        if (r >= 0)
                r = make_images(content, known, &images, reterr);
        if (r < 0)
                return r;

        patch = patch_wrap("spec", patch_wrap("images", images));
        metadata = json_object_new_object();
        r = patch_add(patch, "metadata", metadata) ?: remove_others(known, images);
        if (r >= 0 && (content->selector || content->first || content->parallelism))
                r = make_annotations(content, /* is_new= */ false, &annotations)
                            ?: patch_add(metadata, "annotations", annotations);
        if (r >= 0)
                r = after ? json_merge_patch(&after, patch) : -ENOMEM;
        if (r < 0 || json_object_equal(set, after))
                return r;

        r = patch_add_text(metadata, "resourceVersion",
                           object_text(set, "metadata.resourceVersion"));
        if (r >= 0)
                *ret = take_ptr(patch);
        return r;
}

size_t set_n_images(json_object *set) {
        json_object *images = object_at(set, "spec.images");
        size_t n = 0;

        if (!images)
                return 0;

        json_object_object_foreach(images, name, image) {
                json_object *tags = json_get(image, "tags", json_type_array);

                (void) name;
                n += tags ? json_object_array_length(tags) : 0;
        }
        return n;
}

/* Counts the tags of the image that have this phase on the node. */
static size_t count_tags(json_object *tags, json_object *status, const char *phase) {
        size_t n = 0;

        for (size_t i = 0; tags && i < json_object_array_length(tags); i++) {
                const char *tag = json_get_text(json_object_array_get_idx(tags, i), "tag");

                n += json_is(preload_find_tag(status, tag ?: ""), "phase", phase);
        }
        return n;
}

int set_count(json_object *set, json_object *node_image, SetCount *count, Error *reterr) {
        json_object *images = object_at(set, "spec.images");
        json_object *statuses = object_at(node_image, "status.imageStatuses");
        size_t n_succeeded = 0, n_failed = 0;
        bool matches;
        int r = label_selector_match(set_selector(set) ?: "",
                                     object_at(node_image, "metadata.labels"), &matches, reterr);

        if (r < 0 || !matches || !images)
                return r;

        json_object_object_foreach(images, name, image) {
                json_object *tags = json_get(image, "tags", json_type_array);
                json_object *status = json_get(statuses, name, json_type_object);

                n_succeeded += count_tags(tags, status, "Succeeded");
                n_failed += count_tags(tags, status, "Failed");
        }
        count->n_nodes++;
        count->n_ready += n_succeeded == set_n_images(set);
        count->n_failed += n_failed > 0;
        return 0;
}
