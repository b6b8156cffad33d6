/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/cluster/registration-spec.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/cluster/observed-status.h"
#include "agent/cluster/patch-spec.h"
#include "agent/cluster/registration.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"

static struct json_object *get_metadata(struct json_object *object) {
        return observed_member(object, "metadata", json_type_object);
}

static struct json_object *get_labels(struct json_object *object) {
        return observed_member(get_metadata(object), "labels", json_type_object);
}

/* NULL if it is missing or empty. */
static const char *get_text(struct json_object *object, const char *key) {
        struct json_object *value = observed_member(object, key, json_type_string);

        return value && json_object_get_string_len(value) > 0 ? json_object_get_string(value)
                                                              : NULL;
}

static bool has_label(struct json_object *object, const char *key, const char *value) {
        const char *text = get_text(get_labels(object), key);

        return text && strcmp(text, value) == 0;
}

bool registration_spec_is_virtual(struct json_object *node) {
        return has_label(node, "type", "virtual-kubelet");
}

bool registration_spec_is_ours(struct json_object *object) {
        return has_label(object, REGISTRATION_LABEL, REGISTRATION_LABEL_VALUE);
}

/* The labels that the object should have. */
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

/* A list of the Node alone; NULL: no memory. */
static struct json_object *make_owners(const char *name, const char *uid) {
        cleanup(json_object_put_p) json_object *list = json_object_new_array_ext(1);
        cleanup(json_object_put_p) json_object *owner =
                patch_wrap("uid", json_object_new_string(uid));

        if (!list || !owner || patch_add_text(owner, "apiVersion", "v1") < 0 ||
            patch_add_text(owner, "kind", "Node") < 0 || patch_add_text(owner, "name", name) < 0 ||
            patch_append(list, take_ptr(owner)) < 0)
                return NULL;

        return take_ptr(list);
}

static int add_metadata(struct json_object *body, struct json_object *node, const char *name,
                        const char *uid) {
        cleanup(json_object_put_p) json_object *metadata = json_object_new_object();
        struct json_object *labels;
        int r;

        if (!metadata)
                return -ENOMEM;
        r = patch_add_text(metadata, "name", name);
        if (r < 0)
                return r;
        r = make_labels(node, &labels);
        if (r < 0)
                return r;
        r = patch_add(metadata, "labels", labels);
        if (r < 0)
                return r;
        r = patch_add(metadata, "ownerReferences", make_owners(name, uid));
        if (r < 0)
                return r;

        return patch_add(body, "metadata", take_ptr(metadata));
}

int registration_spec_body(struct json_object *node, const char *version, struct json_object **ret,
                           Error *reterr) {
        cleanup(json_object_put_p) json_object *body = json_object_new_object();
        cleanup(free_p) char *api_version = NULL;
        const char *name = get_text(get_metadata(node), "name");
        const char *uid = get_text(get_metadata(node), "uid");
        int r;

        if (!name || !uid)
                return error_set(reterr, ERROR_INVALID, "the Node that the server sent has no %s",
                                 name ? "uid" : "name");

        if (asprintf(&api_version, "apps.kruise.io/%s", version) < 0) {
                api_version = NULL;
                return -ENOMEM;
        }
        if (!body || patch_add_text(body, "apiVersion", api_version) < 0 ||
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

/* What makes of one object of labels the other one. */
static int diff_labels(struct json_object *labels, struct json_object *wanted,
                       struct json_object *changes) {
        int r;

        json_object_object_foreach(wanted, key, value) {
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
                if (json_object_object_get_ex(wanted, old_key, NULL))
                        continue;
                r = patch_add_null(changes, old_key);
                if (r < 0)
                        return r;
        }

        return 0;
}

int registration_spec_patch_labels(struct json_object *object, struct json_object *node,
                                   struct json_object **ret) {
        cleanup(json_object_put_p) json_object *changes = json_object_new_object();
        cleanup(json_object_put_p) json_object *wanted = NULL;
        struct json_object *metadata, *patch = NULL;
        int r;

        if (!changes)
                return -ENOMEM;
        r = make_labels(node, &wanted);
        if (r < 0)
                return r;
        r = diff_labels(get_labels(object), wanted, changes);
        if (r < 0)
                return r;

        if (json_object_object_length(changes) > 0) {
                metadata = patch_guard(object);
                patch = metadata ? patch_wrap("metadata", metadata) : NULL;
                if (!patch || patch_add(metadata, "labels", take_ptr(changes)) < 0) {
                        json_object_put(patch);
                        return -ENOMEM;
                }
        }

        *ret = patch;
        return 0;
}
