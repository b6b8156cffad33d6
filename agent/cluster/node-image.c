/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/cluster/node-image.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/image/image-spec.h"
#include "agent/kube/patch.h"

#define OWNER_PREFIX "nodeimage/"

struct ClusterNodeImage {
        Log *log;
        Images *images;

        char *owner; /* NULL: there is no object */
        char *name;
        char *version;   /* the newest resourceVersion that is known, or NULL */
        bool is_listing; /* the status shown next counts whatever its version is */
        bool has_spec;   /* one that could be used, however old */
        DesiredImages desired_images;
        json_object *status; /* as observed or written last, or NULL */
        Error error;
};

DEFINE_CLEANUP(ClusterNodeImage *, cluster_node_image_free)

int cluster_node_image_new(Log *log, Images *images, ClusterNodeImage **ret) {
        ClusterNodeImage *node_image;

        node_image = malloc(sizeof(*node_image));
        if (!node_image)
                return -ENOMEM;

        *node_image = (ClusterNodeImage){ .log = log, .images = images };
        *ret = node_image;
        return 0;
}

static void cluster_node_image_forget(ClusterNodeImage *node_image) {
        node_image->owner = (free(node_image->owner), NULL);
        node_image->name = (free(node_image->name), NULL);
        node_image->version = (free(node_image->version), NULL);
        node_image->has_spec = false;
        desired_images_done(&node_image->desired_images);
        node_image->desired_images = DESIRED_IMAGES_INIT;
        json_object_put(node_image->status);
        node_image->status = NULL;
        error_done(&node_image->error);
}

ClusterNodeImage *cluster_node_image_free(ClusterNodeImage *node_image) {
        if (!node_image)
                return NULL;

        cluster_node_image_forget(node_image);
        free(node_image);
        return NULL;
}

int cluster_node_image_clear(ClusterNodeImage *node_image) {
        int r;

        if (!node_image->owner)
                return 0;

        r = images_set_desired(node_image->images, node_image->owner, &DESIRED_IMAGES_INIT, false);
        cluster_node_image_forget(node_image);
        return r;
}

/* Another UID is another object, whatever its name. */
static int cluster_node_image_identify(ClusterNodeImage *node_image, const KubeObject *object) {
        const char *uid = cluster_node_image_uid(node_image);
        int r;

        if (uid && strcmp(uid, object->uid) == 0)
                return 0;

        r = cluster_node_image_clear(node_image);
        if (r < 0)
                return r;

        node_image->name = strdup(object->name);
        if (!node_image->name)
                return -ENOMEM;

        if (asprintf(&node_image->owner, OWNER_PREFIX "%s", object->uid) < 0) {
                node_image->owner = NULL;
                return -ENOMEM;
        }

        return 0;
}

/* Takes the error over, which may be unset. */
static void cluster_node_image_set_error(ClusterNodeImage *node_image, Error *error,
                                         bool is_partial) {
        if (error->kind != ERROR_NONE &&
            (node_image->error.kind == ERROR_NONE ||
             strcmp(error_message(&node_image->error), error_message(error)) != 0))
                log_warning(node_image->log, LOG_FIELDS({ "MESSAGE_ID", MESSAGE_DOCUMENT_REFUSED }),
                            "Cannot use %sthe NodeImage `%s`, going on with %s: %s.",
                            is_partial ? "a part of " : "", node_image->name,
                            is_partial ? "the rest" : "what it said before", error_message(error));
        error_done(&node_image->error);
        node_image->error = *error;
        *error = ERROR_INIT;
}

/* Finished tags stay until a controller takes them out of the spec, so nothing expires here. */
static int cluster_node_image_set_desired_images(ClusterNodeImage *node_image,
                                                 json_object *object) {
        cleanup(error_done) Error error = ERROR_INIT, skipped = ERROR_INIT;
        DesiredImages desired_images = DESIRED_IMAGES_INIT;
        int r;

        r = image_spec_parse_each(object, &desired_images, &skipped, &error);
        if (error.kind != ERROR_NONE) {
                cluster_node_image_set_error(node_image, &error, false);
                return 0;
        }
        if (r < 0)
                return r;

        cluster_node_image_set_error(node_image, &skipped, true);

        for (size_t i = 0; i < desired_images.n_items; i++)
                desired_images.items[i].ttl_sec = DESIRED_IMAGE_NO_LIMIT;

        desired_images_done(&node_image->desired_images);
        node_image->desired_images = desired_images;
        node_image->has_spec = true;
        return images_set_desired(node_image->images, node_image->owner,
                                  &node_image->desired_images, false);
}

static int cluster_node_image_set_version(ClusterNodeImage *node_image, const char *version) {
        char *copy = strdup(version);

        if (!copy)
                return -ENOMEM;

        free(node_image->version);
        node_image->version = copy;
        return 0;
}

static int cluster_node_image_set_status(ClusterNodeImage *node_image, const KubeObject *object) {
        json_object *status = NULL;

        if (!node_image->is_listing && node_image->version &&
            kube_version_is_older(object->resource_version, node_image->version))
                return 0;

        node_image->is_listing = false;
        (void) json_object_object_get_ex(object->json, "status", &status);
        json_object_get(status);
        json_object_put(node_image->status);
        node_image->status = status;
        return cluster_node_image_set_version(node_image, object->resource_version);
}

/* What is finished in the object's status is not done again; a pull of it that runs is stopped. */
static int cluster_node_image_set_done(ClusterNodeImage *node_image) {
        for (size_t i = 0; i < node_image->desired_images.n_items; i++) {
                const DesiredImage *desired = &node_image->desired_images.items[i];
                cleanup(image_status_done) ImageStatus status = { 0 };
                Image *image = images_find(node_image->images, desired->name, desired->tag);
                json_object *entry = status_find_finished(node_image->status, desired->name,
                                                          desired->tag, desired->version);
                int r;

                if (!image || !entry ||
                    image_status_from_json(entry, desired->name, &status, NULL) < 0)
                        continue;

                r = image_set_done(image, node_image->owner, desired->name, desired->version,
                                   &status);
                if (r < 0)
                        return r;
        }

        return 0;
}

int cluster_node_image_set(ClusterNodeImage *node_image, const KubeObject *object) {
        int r;

        r = cluster_node_image_identify(node_image, object);
        if (r < 0)
                return r;

        r = cluster_node_image_set_desired_images(node_image, object->json);
        if (r < 0)
                return r;

        r = cluster_node_image_set_status(node_image, object);
        if (r < 0)
                return r;

        return cluster_node_image_set_done(node_image);
}

/* The owner of a request that is from another NodeImage than this one, or NULL. */
static const char *find_other_owner(const ClusterNodeImage *node_image) {
        for (size_t i = 0; i < images_count(node_image->images); i++)
                for (const ImageRequest *request =
                             image_requests(images_get(node_image->images, i));
                     request; request = request->next)
                        if (strncmp(request->owner, OWNER_PREFIX, strlen(OWNER_PREFIX)) == 0 &&
                            (!node_image->owner || strcmp(request->owner, node_image->owner) != 0))
                                return request->owner;

        return NULL;
}

int cluster_node_image_on_first_sync(ClusterNodeImage *node_image) {
        const char *owner;

        images_restore_end(node_image->images);
        while ((owner = find_other_owner(node_image))) {
                cleanup(free_p) char *copy = strdup(owner);
                int r;

                if (!copy)
                        return -ENOMEM;

                r = images_set_desired(node_image->images, copy, &DESIRED_IMAGES_INIT, false);
                if (r < 0)
                        return r;
        }

        return 0;
}

const char *cluster_node_image_uid(const ClusterNodeImage *node_image) {
        return node_image->owner ? node_image->owner + strlen(OWNER_PREFIX) : NULL;
}

const char *cluster_node_image_name(const ClusterNodeImage *node_image) {
        return node_image->name;
}

const char *cluster_node_image_resource_version(const ClusterNodeImage *node_image) {
        return node_image->version;
}

void cluster_node_image_on_list(ClusterNodeImage *node_image) {
        node_image->is_listing = true;
}

void cluster_node_image_on_listed(ClusterNodeImage *node_image) {
        node_image->is_listing = false;
}

const Error *cluster_node_image_error(const ClusterNodeImage *node_image) {
        return &node_image->error;
}

size_t cluster_node_image_n_images(const ClusterNodeImage *node_image) {
        return node_image->desired_images.n_items;
}

/* NULL: Waiting. */
static const ImageStatus *cluster_node_image_status(const ClusterNodeImage *node_image,
                                                    const DesiredImage *desired) {
        const Image *image = images_find(node_image->images, desired->name, desired->tag);

        return image ? image_status_for(image, node_image->owner, desired->name) : NULL;
}

unsigned cluster_node_image_n_in_work(const ClusterNodeImage *node_image, unsigned many) {
        unsigned n = 0;

        for (size_t i = 0; i < node_image->desired_images.n_items && n <= many; i++) {
                const ImageStatus *status =
                        cluster_node_image_status(node_image, &node_image->desired_images.items[i]);

                if (!status || !image_phase_is_final(status->phase))
                        n++;
        }

        return n;
}

int cluster_node_image_diff(const ClusterNodeImage *node_image, json_object **ret_patch) {
        size_t n = node_image->desired_images.n_items;
        cleanup(free_p) StatusEntry *entries = calloc(n + 1, sizeof(*entries));

        *ret_patch = NULL;
        if (!entries)
                return -ENOMEM;
        /* Without a spec it is not known what the status should be. */
        if (!node_image->owner || !node_image->has_spec)
                return STATUS_SAME;

        for (size_t i = 0; i < n; i++) {
                const DesiredImage *desired = &node_image->desired_images.items[i];

                entries[i] = (StatusEntry){
                        .name = desired->name,
                        .tag = desired->tag,
                        .version = desired->version,
                        .status = cluster_node_image_status(node_image, desired),
                };
        }

        return status_diff(node_image->status, entries, n, ret_patch);
}

int cluster_node_image_on_written(ClusterNodeImage *node_image, json_object *patch,
                                  const char *resource_version) {
        json_object *status = NULL;
        int r;

        if (!node_image->owner || !json_object_object_get_ex(patch, "status", &status))
                return 0;

        /* The watch was quicker than the reply: what it has shown has the write in it. */
        if (node_image->version && kube_version_is_older(resource_version, node_image->version))
                return 0;

        r = cluster_node_image_set_version(node_image, resource_version);
        if (r < 0)
                return r;

        return json_merge_patch(&node_image->status, status);
}

bool cluster_node_image_is_owner(const ClusterNodeImage *node_image, const char *owner) {
        return node_image->owner && strcmp(node_image->owner, owner) == 0;
}
