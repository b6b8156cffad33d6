/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/node/wish-json.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/document/json-cleanup.h"
#include "agent/base/rfc3339.h"
#include "agent/node/node-image.h"
#include "agent/node/owner.h"

/* Takes the value over; NULL means that there was no memory for it. */
static bool add(json_object *object, const char *key, json_object *value) {
        return value && json_object_object_add(object, key, value) == 0;
}

static bool add_text(json_object *object, const char *key, const char *text) {
        return !text || add(object, key, json_object_new_string(text));
}

static bool append(json_object *list, json_object *value) {
        return value && json_object_array_add(list, value) == 0;
}

static json_object *owner_ref_to_json(const OwnerRef *owner) {
        cleanup(json_object_put_p) json_object *object = json_object_new_object();
        bool ok;

        ok = object && add_text(object, "apiVersion", owner->api_version) &&
             add_text(object, "kind", owner->kind) &&
             add_text(object, "namespace", owner->namespace) &&
             add_text(object, "name", owner->name) && add_text(object, "uid", owner->uid) &&
             add_text(object, "resourceVersion", owner->resource_version) &&
             add_text(object, "fieldPath", owner->field_path);
        return ok ? take_ptr(object) : NULL;
}

static json_object *want_to_json(const Want *want) {
        char version[32];
        OwnerRef owner = {
                .api_version = (char *) NODE_IMAGE_OWNER_API,
                .kind = (char *) owner_kind(want->owner),
                .name = (char *) owner_name(want->owner),
                .resource_version = want->is_served ? version : NULL,
        };

        (void) snprintf(version, sizeof(version), "%" PRId64, want->wish.version);
        return owner_ref_to_json(&owner);
}

static json_object *owners_to_json(const ImageWish *wish, const Image *image) {
        cleanup(json_object_put_p) json_object *list = json_object_new_array();

        if (!list)
                return NULL;

        for (size_t i = 0; i < wish->n_owners; i++)
                if (!append(list, owner_ref_to_json(&wish->owners[i])))
                        return NULL;
        for (const Want *want = image_wants(image); want; want = want->next)
                if (!want->is_expired && owner_kind(want->owner) &&
                    !append(list, want_to_json(want)))
                        return NULL;

        return take_ptr(list);
}

static json_object *policy_to_json(const ImageWish *wish) {
        cleanup(json_object_put_p) json_object *object = json_object_new_object();
        bool ok;

        ok = object && add(object, "timeoutSeconds", json_object_new_int64(wish->timeout_sec)) &&
             add(object, "backoffLimit", json_object_new_int64(wish->backoff_limit)) &&
             (wish->ttl_sec == WISH_NO_LIMIT ||
              add(object, "ttlSecondsAfterFinished", json_object_new_int64(wish->ttl_sec))) &&
             (wish->active_deadline_sec == WISH_NO_LIMIT ||
              add(object, "activeDeadlineSeconds",
                  json_object_new_int64(wish->active_deadline_sec)));
        return ok ? take_ptr(object) : NULL;
}

json_object *wish_tag_to_json(const ImageWish *wish, const Image *image) {
        cleanup(json_object_put_p) json_object *tag = json_object_new_object();
        const char *policy = wish->policy == PULL_POLICY_ALWAYS ? "Always" : "IfNotPresent";
        char time[RFC3339_SIZE];
        bool ok;

        ok = tag && add_text(tag, "tag", image_tag(image)) &&
             (wish->created_at == 0 ||
              add_text(tag, "createdAt", rfc3339_format(wish->created_at, time))) &&
             (wish->version == 0 || add(tag, "version", json_object_new_int64(wish->version))) &&
             add_text(tag, "imagePullPolicy", policy) &&
             add(tag, "pullPolicy", policy_to_json(wish)) &&
             add(tag, "ownerReferences", owners_to_json(wish, image));
        return ok ? take_ptr(tag) : NULL;
}

static json_object *secrets_to_json(const ImageWish *wish) {
        cleanup(json_object_put_p) json_object *list = json_object_new_array();

        for (size_t i = 0; list && i < wish->n_secrets; i++) {
                cleanup(json_object_put_p) json_object *secret = json_object_new_object();

                if (!secret || !add_text(secret, "namespace", wish->secrets[i].namespace) ||
                    !add_text(secret, "name", wish->secrets[i].name) ||
                    !append(list, json_object_get(secret)))
                        return NULL;
        }

        return take_ptr(list);
}

static json_object *key_values_to_json(const KeyValue *items, size_t n_items) {
        cleanup(json_object_put_p) json_object *object = json_object_new_object();

        for (size_t i = 0; object && i < n_items; i++)
                if (!add_text(object, items[i].key, items[i].value))
                        return NULL;

        return take_ptr(object);
}

static json_object *sandbox_to_json(const ImageWish *wish) {
        cleanup(json_object_put_p) json_object *object = json_object_new_object();
        bool ok;

        ok = object && add(object, "labels", key_values_to_json(wish->labels, wish->n_labels)) &&
             add(object, "annotations", key_values_to_json(wish->annotations, wish->n_annotations));
        return ok ? take_ptr(object) : NULL;
}

/* Appends ", KEY: VALUE" and lets go of the value. */
static int print_member(char **text, const char *key, json_object *value) {
        cleanup(json_object_put_p) json_object *owned = value;
        char *longer;

        if (!owned ||
            asprintf(&longer, "%s, \"%s\": %s", *text ?: "", key,
                     json_object_to_json_string_ext(
                             owned, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)) < 0)
                return -ENOMEM;

        free(*text);
        *text = longer;
        return 0;
}

int wish_shared_to_text(const ImageWish *wish, char **ret) {
        cleanup(free_p) char *text = strdup("");
        int r = text ? 0 : -ENOMEM;

        if (r >= 0 && wish->n_secrets > 0)
                r = print_member(&text, "pullSecrets", secrets_to_json(wish));
        if (r >= 0 && wish->n_labels + wish->n_annotations > 0)
                r = print_member(&text, "sandboxConfig", sandbox_to_json(wish));
        if (r < 0)
                return r;

        *ret = take_ptr(text);
        return 0;
}

json_object *served_want_to_json(const Image *image, const Want *want) {
        cleanup(json_object_put_p) json_object *object = json_object_new_object();
        bool ok;

        ok = object && add_text(object, "name", image_name(image)) &&
             add_text(object, "tag", image_tag(image)) && add_text(object, "owner", want->owner) &&
             add(object, "version", json_object_new_int64(want->wish.version));
        return ok ? take_ptr(object) : NULL;
}

json_object *outcome_to_json(const Image *image, const Want *want) {
        cleanup(json_object_put_p) json_object *object = served_want_to_json(image, want);
        const ImageStatus *status = image_status_for(image, want->owner, want->wish.name);
        bool ok;

        ok = object && add(object, "status",
                           image_status_to_json(status, image_name(image), image_tag(image)));
        return ok ? take_ptr(object) : NULL;
}
