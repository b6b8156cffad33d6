/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/document/json-cleanup.h"
#include "agent/image/image-spec.h"
#include "agent/node/node-image.h"
#include "agent/node/owner.h"

/* A wish of an owner as it was before the restart; several may belong to one owner. */
typedef struct Restored {
        char *owner;
        ImageWish wish;
} Restored;

typedef struct RestoredList {
        bool in_cluster;
        Restored *items;
        size_t n_items;
} RestoredList;

static void restored_list_done(RestoredList *list) {
        for (size_t i = 0; i < list->n_items; i++) {
                image_wish_done(&list->items[i].wish);
                free(list->items[i].owner);
        }
        free(list->items);
}

static int64_t version_of(const OwnerRef *owner) {
        return owner->resource_version ? strtoll(owner->resource_version, NULL, 10) : 0;
}

/* Takes the owner over. The owners of the merged wish are not the request's. */
static int add_request(RestoredList *list, const ImageWish *wish, char *owner, int64_t version) {
        Restored *items;
        ImageWish copy;
        int r;

        items = reallocarray(list->items, list->n_items + 1, sizeof(items[0]));
        if (!items) {
                free(owner);
                return -ENOMEM;
        }

        list->items = items;
        r = image_wish_copy(wish, &copy);
        if (r < 0) {
                free(owner);
                return r;
        }

        image_wish_clear_owners(&copy);
        copy.version = version;
        items[list->n_items++] = (Restored){ .owner = owner, .wish = copy };
        return 0;
}

static json_object *find_status_tag(json_object *root, const ImageWish *wish) {
        json_object *status, *images, *image, *tags, *tag;

        if (!json_object_object_get_ex(root, "status", &status) ||
            !json_object_object_get_ex(status, "imageStatuses", &images) ||
            !json_object_object_get_ex(images, wish->name, &image) ||
            !json_object_object_get_ex(image, "tags", &tags) ||
            !json_object_is_type(tags, json_type_array))
                return NULL;

        for (size_t i = 0; i < json_object_array_length(tags); i++) {
                json_object *entry = json_object_array_get_idx(tags, i);

                if (json_object_object_get_ex(entry, "tag", &tag) &&
                    strcmp(json_object_get_string(tag) ?: "", wish->tag) == 0)
                        return entry;
        }

        return NULL;
}

/* Whoever is named with a version has been served, if the image is finished. */
static int restore_owner(Images *images, const ImageWish *wish, const OwnerRef *reference,
                         bool is_finished, RestoredList *requests) {
        cleanup(free_p) char *owner = NULL;
        int r;

        r = owner_from_reference(reference, &owner);
        if (r < 0)
                return r == -EINVAL ? 0 : r;

        if (is_finished && reference->resource_version) {
                r = images_restore_served(images, wish->name, wish->tag, owner,
                                          version_of(reference), false, NULL);
                if (r < 0)
                        return r;
        }

        if (!owner_is_request(owner) && !(owner_is_node_image(owner) && requests->in_cluster))
                return 0;

        return add_request(requests, wish, take_ptr(owner),
                           reference->resource_version || owner_is_request(owner)
                                   ? version_of(reference)
                                   : wish->version);
}

static int restore_tag(Images *images, json_object *root, const ImageWish *wish,
                       RestoredList *requests) {
        json_object *entry = find_status_tag(root, wish);
        cleanup(image_status_done) ImageStatus status = { 0 };
        bool is_finished;
        int r;

        is_finished = entry && image_status_from_json(entry, wish->name, &status, NULL) >= 0 &&
                      image_phase_is_final(status.phase) && status.completed_at > 0;
        if (is_finished) {
                r = images_restore(images, wish->name, wish->tag, &status);
                if (r < 0)
                        return r;
        }

        for (size_t i = 0; i < wish->n_owners; i++) {
                r = restore_owner(images, wish, &wish->owners[i], is_finished, requests);
                if (r < 0)
                        return r;
        }

        return 0;
}

static const char *get_text(json_object *object, const char *key) {
        json_object *value;

        return json_object_object_get_ex(object, key, &value) ? json_object_get_string(value)
                                                              : NULL;
}

/* Without a status, the time of the want is over. */
static int restore_served(Images *images, json_object *item) {
        const char *name = get_text(item, "name"), *tag = get_text(item, "tag");
        const char *owner = get_text(item, "owner");
        cleanup(image_status_done) ImageStatus outcome = { 0 };
        json_object *version = NULL, *status = NULL;

        if (!name || !tag || !owner || !owner_kind(owner))
                return 0;
        if (json_object_object_get_ex(item, "status", &status) &&
            (image_status_from_json(status, name, &outcome, NULL) < 0 ||
             !image_phase_is_final(outcome.phase)))
                return 0;

        (void) json_object_object_get_ex(item, "version", &version);
        return images_restore_served(images, name, tag, owner, json_object_get_int64(version),
                                     !status, status ? &outcome : NULL);
}

static int restore_note(Images *images, json_object *root, const char *key) {
        cleanup(json_object_put_p) json_object *list = NULL;
        json_object *metadata, *annotations;
        const char *text;
        int r = 0;

        if (!json_object_object_get_ex(root, "metadata", &metadata) ||
            !json_object_object_get_ex(metadata, "annotations", &annotations))
                return 0;

        text = get_text(annotations, key);
        list = text ? json_tokener_parse(text) : NULL;
        if (!json_object_is_type(list, json_type_array))
                return 0;

        for (size_t i = 0; r >= 0 && i < json_object_array_length(list); i++)
                r = restore_served(images, json_object_array_get_idx(list, i));
        return r;
}

static int by_owner(const void *a, const void *b) {
        return strcmp(((const Restored *) a)->owner, ((const Restored *) b)->owner);
}

/* All wishes of one request together, since each call replaces what came before. */
static int restore_requests(Images *images, RestoredList *requests) {
        size_t next;
        int r;

        if (requests->n_items > 0)
                qsort(requests->items, requests->n_items, sizeof(requests->items[0]), by_owner);

        for (size_t i = 0; i < requests->n_items; i = next) {
                cleanup(wish_list_done) WishList wishes = WISH_LIST_INIT;
                const char *owner = requests->items[i].owner;

                for (next = i;
                     next < requests->n_items && strcmp(requests->items[next].owner, owner) == 0;
                     next++) {
                        ImageWish copy;

                        r = image_wish_copy(&requests->items[next].wish, &copy);
                        if (r < 0)
                                return r;

                        r = wish_list_take(&wishes, &copy);
                        if (r < 0)
                                return r;
                }

                r = images_set_wishes(images, owner, &wishes, owner_is_request(owner));
                if (r < 0)
                        return r;
        }

        return 0;
}

static int restore(Images *images, json_object *root, bool in_cluster, Error *reterr) {
        cleanup(wish_list_done) WishList wishes = WISH_LIST_INIT;
        cleanup(restored_list_done) RestoredList requests = { .in_cluster = in_cluster };
        int r;

        r = image_spec_parse_own(root, &wishes, reterr);
        if (r < 0)
                return r;

        for (size_t i = 0; i < wishes.n_items; i++) {
                r = restore_tag(images, root, &wishes.items[i], &requests);
                if (r < 0)
                        return r;
        }

        r = restore_note(images, root, NODE_IMAGE_EXPIRED);
        if (r < 0)
                return r;

        r = restore_note(images, root, NODE_IMAGE_OUTCOMES);
        if (r < 0)
                return r;

        return restore_requests(images, &requests);
}

int node_image_restore(Images *images, const char *text, size_t size, bool in_cluster,
                       Error *reterr) {

        cleanup(json_tokener_free_p) json_tokener *tokener = json_tokener_new();
        cleanup(json_object_put_p) json_object *root = NULL;

        if (!tokener)
                return -ENOMEM;

        root = json_tokener_parse_ex(tokener, text, (int) size);
        if (!root)
                return error_set(reterr, ERROR_INVALID, "not JSON: %s",
                                 json_tokener_error_desc(json_tokener_get_error(tokener)));

        return restore(images, root, in_cluster, reterr);
}
