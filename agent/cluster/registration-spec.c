/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/cluster/registration-spec.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/repeat.h"
#include "agent/base/rfc3339.h"
#include "agent/base/text.h"
#include "agent/cluster/status-diff.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"

#define REGISTRATION_LABEL "app.kubernetes.io/managed-by"
#define REGISTRATION_LABEL_VALUE "inplaced"

/* Makes metadata with the UID and the resourceVersion of the object, owned by the caller; NULL: no
 * memory. With them the server refuses a patch if the object has changed or was recreated. */
static struct json_object *make_guard(struct json_object *object) {
        static const char *const keys[] = { "uid", "resourceVersion" };
        cleanup(json_object_put_p) json_object *guard = json_object_new_object();
        struct json_object *metadata = json_get(object, "metadata", json_type_object);

        for (size_t i = 0; guard && i < sizeof(keys) / sizeof(keys[0]); i++) {
                struct json_object *value = json_get(metadata, keys[i], json_type_string);

                if (value && patch_add(guard, keys[i], json_object_get(value)) < 0)
                        return NULL;
        }

        return take_ptr(guard);
}

static struct json_object *get_metadata(struct json_object *object) {
        return json_get(object, "metadata", json_type_object);
}

static struct json_object *get_labels(struct json_object *object) {
        return json_get(get_metadata(object), "labels", json_type_object);
}

bool registration_spec_is_virtual(struct json_object *node) {
        return json_is(get_labels(node), "type", "virtual-kubelet");
}

bool registration_spec_is_ours(struct json_object *object) {
        return json_is(get_labels(object), REGISTRATION_LABEL, REGISTRATION_LABEL_VALUE);
}

/* Makes the wanted labels of the object. */
static int make_labels(struct json_object *node, struct json_object **ret) {
        cleanup(json_object_put_p) json_object *labels = json_object_new_object();
        struct json_object *source = get_labels(node);
        int r;

        if (!labels)
                return -ENOMEM;

        if (source) {
                json_object_object_foreach(source, key, value) {
                        if (!json_object_is_type(value, json_type_string))
                                continue;
                        r = patch_add_text(labels, key, json_object_get_string(value));
                        if (r < 0)
                                return r;
                }
        }
        r = patch_add_text(labels, REGISTRATION_LABEL, REGISTRATION_LABEL_VALUE);
        if (r < 0)
                return r;

        *ret = take_ptr(labels);
        return 0;
}

/* Makes ownerReferences with the Node; NULL: no memory. */
static struct json_object *make_owners(const char *name, const char *uid) {
        cleanup(json_object_put_p) json_object *list = json_object_new_array_ext(1);
        cleanup(json_object_put_p) json_object *owner =
                patch_wrap("uid", json_object_new_string(uid));

        if (!list || patch_add_text(owner, "apiVersion", "v1") < 0 ||
            patch_add_text(owner, "kind", "Node") < 0 || patch_add_text(owner, "name", name) < 0 ||
            patch_append(list, take_ptr(owner)) < 0)
                return NULL;

        return take_ptr(list);
}

/* NULL: no memory. */
static struct json_object *make_annotations(void) {
        return patch_wrap(REGISTRATION_VERSION_ANNOTATION,
                          json_object_new_string(INPLACED_VERSION));
}

static bool has_version(struct json_object *object) {
        return json_is(json_get(get_metadata(object), "annotations", json_type_object),
                       REGISTRATION_VERSION_ANNOTATION, INPLACED_VERSION);
}

static int add_metadata(struct json_object *body, struct json_object *node, const char *name,
                        const char *uid) {
        cleanup(json_object_put_p) json_object *metadata = json_object_new_object();
        struct json_object *labels;

        return patch_add_text(metadata, "name", name)
               ?: make_labels(node, &labels)
               ?: patch_add(metadata, "labels", labels)
               ?: patch_add(metadata, "annotations", make_annotations())
               ?: patch_add(metadata, "ownerReferences", make_owners(name, uid))
               ?: patch_add(body, "metadata", take_ptr(metadata));
}

int registration_spec_body(struct json_object *node, const char *version, struct json_object **ret,
                           Error *reterr) {
        cleanup(json_object_put_p) json_object *body = json_object_new_object();
        cleanup(free_p) char *api_version = NULL;
        const char *name = json_get_filled(get_metadata(node), "name");
        const char *uid = json_get_filled(get_metadata(node), "uid");
        int r;

        if (!name || !uid)
                return error_set(reterr, ERROR_INVALID, "the Node that the server sent has no %s",
                                 name ? "uid" : "name");

        if (text_format(&api_version, "apps.kruise.io/%s", version) < 0)
                return -ENOMEM;
        if (patch_add_text(body, "apiVersion", api_version) < 0 ||
            patch_add_text(body, "kind", "NodeImage") < 0)
                return -ENOMEM;
        r = add_metadata(body, node, name, uid);
        if (r < 0)
                return r;
        r = patch_add(body, "spec", json_object_new_object());
        if (r < 0)
                return r;

        *ret = take_ptr(body);
        return 0;
}

/* Adds the changes from labels to desired. */
static int diff_labels(struct json_object *labels, struct json_object *desired,
                       struct json_object *changes) {
        int r;

        json_object_object_foreach(desired, key, value) {
                if (json_object_equal(json_object_object_get(labels, key), value))
                        continue;
                r = patch_add(changes, key, json_object_get(value));
                if (r < 0)
                        return r;
        }
        if (!labels)
                return 0;

        json_object_object_foreach(labels, old_key, old_value) {
                (void) old_value;
                if (json_object_object_get_ex(desired, old_key, NULL))
                        continue;
                r = patch_add_null(changes, old_key);
                if (r < 0)
                        return r;
        }

        return 0;
}

int registration_spec_patch_metadata(struct json_object *object, struct json_object *node,
                                     struct json_object **ret) {
        cleanup(json_object_put_p) json_object *changes = json_object_new_object();
        cleanup(json_object_put_p) json_object *desired = NULL;
        struct json_object *metadata, *patch = NULL;
        bool is_versioned = has_version(object);
        int r;

        if (!changes)
                return -ENOMEM;
        r = make_labels(node, &desired);
        if (r < 0)
                return r;
        r = diff_labels(get_labels(object), desired, changes);
        if (r < 0)
                return r;

        if (json_object_object_length(changes) > 0 || !is_versioned) {
                metadata = make_guard(object);
                patch = metadata ? patch_wrap("metadata", metadata) : NULL;
                if (!patch ||
                    (json_object_object_length(changes) > 0 &&
                     patch_add(metadata, "labels", take_ptr(changes)) < 0) ||
                    (!is_versioned && patch_add(metadata, "annotations", make_annotations()) < 0)) {
                        json_object_put(patch);
                        return -ENOMEM;
                }
        }

        *ret = patch;
        return 0;
}

/* Removal of finished tags */

typedef struct Tidying {
        struct json_object *status; /* as observed, or NULL */
        struct json_object *images; /* the patch for them */
        int64_t now;
        TidyPlan plan;
} Tidying;

/* Sets *ret to otherwise if the key is missing; false: it is not a number. */
static bool read_number(struct json_object *object, const char *key, int64_t otherwise,
                        int64_t *ret) {
        struct json_object *value;

        *ret = otherwise;
        if (!json_object_object_get_ex(object, key, &value) || !value)
                return true;

        *ret = json_object_get_int64(value);
        return json_object_is_type(value, json_type_int);
}

/* Returns when the tag may be removed; INT64_MAX: unknown yet. */
static int64_t find_end(const Tidying *tidying, const char *name, struct json_object *item) {
        struct json_object *tag = json_get(item, "tag", json_type_string);
        struct json_object *policy = json_get(item, "pullPolicy", json_type_object);
        int64_t version, ttl_sec, end;
        struct json_object *finished;

        if (!tag || !read_number(item, "version", 0, &version) ||
            !read_number(policy, "ttlSecondsAfterFinished", -1, &ttl_sec) || ttl_sec < 0)
                return INT64_MAX;

        finished =
                status_find_finished(tidying->status, name, json_object_get_string(tag), version);
        if (!finished || __builtin_add_overflow(observed_completed_at(finished), ttl_sec, &end))
                return INT64_MAX;

        return end;
}

/* Notes a tag to remove, and the time since which it may be. */
static void note_leaving(TidyPlan *plan, const char *name, struct json_object *item, int64_t end) {
        struct json_object *tag = json_get(item, "tag", json_type_string);
        char time[RFC3339_SIZE];

        plan->n_tags++;
        plan->digest = repeat_digest(plan->digest, name);
        plan->digest = repeat_digest(plan->digest, json_object_get_string(tag));
        plan->digest = repeat_digest(plan->digest, rfc3339_format(end, time));
}

static int tidy_tags(Tidying *tidying, const char *name, struct json_object *tags,
                     struct json_object *kept) {
        int r;

        for (size_t i = 0; i < json_object_array_length(tags); i++) {
                struct json_object *item = json_object_array_get_idx(tags, i);
                int64_t end = find_end(tidying, name, item);

                if (end <= tidying->now) {
                        note_leaving(&tidying->plan, name, item, end);
                        continue;
                }
                if (end < tidying->plan.next_at)
                        tidying->plan.next_at = end;

                r = item ? patch_append(kept, json_object_get(item)) : 0;
                if (r < 0)
                        return r;
        }

        return 0;
}

static int tidy_image(Tidying *tidying, const char *name, struct json_object *image) {
        cleanup(json_object_put_p) json_object *kept = NULL;
        struct json_object *tags = json_get(image, "tags", json_type_array);
        size_t n_before = tidying->plan.n_tags;
        int r;

        if (!tags)
                return 0;
        kept = json_object_new_array_ext((int) json_object_array_length(tags));
        if (!kept)
                return -ENOMEM;

        r = tidy_tags(tidying, name, tags, kept);
        if (r < 0 || tidying->plan.n_tags == n_before)
                return r;

        if (json_object_array_length(kept) == 0)
                return patch_add_null(tidying->images, name);
        return patch_add(tidying->images, name, patch_wrap("tags", take_ptr(kept)));
}

static int make_patch(struct json_object *object, struct json_object *images,
                      struct json_object **ret) {
        cleanup(json_object_put_p) json_object *patch = NULL;
        int r;

        patch = patch_wrap("metadata", make_guard(object));
        if (!patch)
                return -ENOMEM;
        r = patch_add(patch, "spec", patch_wrap("images", json_object_get(images)));
        if (r < 0)
                return r;

        *ret = take_ptr(patch);
        return 0;
}

int tidy_spec_plan(struct json_object *object, int64_t now, TidyPlan *ret) {
        cleanup(json_object_put_p) json_object *patch_of_images = json_object_new_object();
        struct json_object *spec = json_get(object, "spec", json_type_object);
        struct json_object *images = json_get(spec, "images", json_type_object);
        Tidying tidying = {
                .status = json_get(object, "status", json_type_object),
                .images = patch_of_images,
                .now = now,
                .plan.next_at = INT64_MAX,
        };
        int r;

        if (!patch_of_images)
                return -ENOMEM;

        if (images) {
                json_object_object_foreach(images, name, image) {
                        r = tidy_image(&tidying, name, image);
                        if (r < 0)
                                return r;
                }
        }

        if (tidying.plan.n_tags > 0) {
                r = make_patch(object, patch_of_images, &tidying.plan.patch);
                if (r < 0)
                        return r;
        }

        *ret = tidying.plan;
        return 0;
}
