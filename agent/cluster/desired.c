/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/cluster/desired.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/image/image-spec.h"

#define OWNER_PREFIX "nodeimage/"

struct Desired {
        Log *log;
        Images *images;

        char *owner; /* NULL: there is no object */
        char *name;
        char *version;   /* the newest resourceVersion that is known, or NULL */
        bool is_listing; /* the status shown next counts whatever its version is */
        bool has_spec;   /* one that could be used, however old */
        WishList wishes;
        json_object *status; /* as observed or written last, or NULL */
        Error error;
};

DEFINE_CLEANUP(Desired *, desired_free)

int desired_new(Log *log, Images *images, Desired **ret) {
        Desired *desired;

        desired = malloc(sizeof(*desired));
        if (!desired)
                return -ENOMEM;

        *desired = (Desired){ .log = log, .images = images };
        *ret = desired;
        return 0;
}

static void desired_forget(Desired *desired) {
        desired->owner = (free(desired->owner), NULL);
        desired->name = (free(desired->name), NULL);
        desired->version = (free(desired->version), NULL);
        desired->has_spec = false;
        wish_list_done(&desired->wishes);
        desired->wishes = WISH_LIST_INIT;
        json_object_put(desired->status);
        desired->status = NULL;
        error_done(&desired->error);
}

Desired *desired_free(Desired *desired) {
        if (!desired)
                return NULL;

        desired_forget(desired);
        free(desired);
        return NULL;
}

int desired_clear(Desired *desired) {
        int r;

        if (!desired->owner)
                return 0;

        r = images_set_wishes(desired->images, desired->owner, &WISH_LIST_INIT, false);
        desired_forget(desired);
        return r;
}

/* Another UID is another object, whatever its name. */
static int desired_identify(Desired *desired, const KubeObject *object) {
        const char *uid = desired_uid(desired);
        int r;

        if (uid && strcmp(uid, object->uid) == 0)
                return 0;

        r = desired_clear(desired);
        if (r < 0)
                return r;

        desired->name = strdup(object->name);
        if (!desired->name)
                return -ENOMEM;

        if (asprintf(&desired->owner, OWNER_PREFIX "%s", object->uid) < 0) {
                desired->owner = NULL;
                return -ENOMEM;
        }

        return 0;
}

/* Takes the error over, which may be unset. */
static void desired_set_error(Desired *desired, Error *error, bool is_partial) {
        if (error->kind != ERROR_NONE &&
            (desired->error.kind == ERROR_NONE ||
             strcmp(error_message(&desired->error), error_message(error)) != 0))
                log_warning(desired->log, LOG_FIELDS({ "MESSAGE_ID", MESSAGE_DOCUMENT_REFUSED }),
                            "Cannot use %sthe NodeImage `%s`, going on with %s: %s.",
                            is_partial ? "a part of " : "", desired->name,
                            is_partial ? "the rest" : "what it said before", error_message(error));
        error_done(&desired->error);
        desired->error = *error;
        *error = ERROR_INIT;
}

/* Finished tags stay until a controller takes them out of the spec, so nothing expires here. */
static int desired_set_wishes(Desired *desired, json_object *node_image) {
        cleanup(error_done) Error error = ERROR_INIT, skipped = ERROR_INIT;
        WishList wishes = WISH_LIST_INIT;
        int r;

        r = image_spec_parse_each(node_image, &wishes, &skipped, &error);
        if (error.kind != ERROR_NONE) {
                desired_set_error(desired, &error, false);
                return 0;
        }
        if (r < 0)
                return r;

        desired_set_error(desired, &skipped, true);

        for (size_t i = 0; i < wishes.n_items; i++)
                wishes.items[i].ttl_sec = WISH_NO_LIMIT;

        wish_list_done(&desired->wishes);
        desired->wishes = wishes;
        desired->has_spec = true;
        return images_set_wishes(desired->images, desired->owner, &desired->wishes, false);
}

/* Versions are numbers in all API servers there are; where they are not, each object is news. */
static bool is_older(const char *version, const char *than) {
        size_t a = strlen(version), b = strlen(than);

        if (strspn(version, "0123456789") != a || strspn(than, "0123456789") != b)
                return false;

        return a != b ? a < b : strcmp(version, than) < 0;
}

static int desired_set_version(Desired *desired, const char *version) {
        char *copy = strdup(version);

        if (!copy)
                return -ENOMEM;

        free(desired->version);
        desired->version = copy;
        return 0;
}

static int desired_set_status(Desired *desired, const KubeObject *object) {
        json_object *status = NULL;

        if (!desired->is_listing && desired->version &&
            is_older(object->resource_version, desired->version))
                return 0;

        desired->is_listing = false;
        (void) json_object_object_get_ex(object->json, "status", &status);
        json_object_get(status);
        json_object_put(desired->status);
        desired->status = status;
        return desired_set_version(desired, object->resource_version);
}

/* What is finished in the object's status is not done again; if we are at it, we stop. */
static int desired_settle(Desired *desired) {
        for (size_t i = 0; i < desired->wishes.n_items; i++) {
                const ImageWish *wish = &desired->wishes.items[i];
                cleanup(image_status_done) ImageStatus status = { 0 };
                Image *image = images_find(desired->images, wish->name, wish->tag);
                json_object *entry =
                        status_find_finished(desired->status, wish->name, wish->tag, wish->version);
                int r;

                if (!image || !entry ||
                    image_status_from_json(entry, wish->name, &status, NULL) < 0)
                        continue;

                r = image_settle(image, desired->owner, wish->name, wish->version, &status);
                if (r < 0)
                        return r;
        }

        return 0;
}

int desired_set(Desired *desired, const KubeObject *object) {
        int r;

        r = desired_identify(desired, object);
        if (r < 0)
                return r;

        r = desired_set_wishes(desired, object->json);
        if (r < 0)
                return r;

        r = desired_set_status(desired, object);
        if (r < 0)
                return r;

        return desired_settle(desired);
}

/* Another NodeImage than this one that wants something, or NULL. */
static const char *find_stranger(const Desired *desired) {
        for (size_t i = 0; i < images_count(desired->images); i++)
                for (const Want *want = image_wants(images_get(desired->images, i)); want;
                     want = want->next)
                        if (strncmp(want->owner, OWNER_PREFIX, strlen(OWNER_PREFIX)) == 0 &&
                            (!desired->owner || strcmp(want->owner, desired->owner) != 0))
                                return want->owner;

        return NULL;
}

int desired_on_first_sync(Desired *desired) {
        const char *owner;

        images_restore_end(desired->images);
        while ((owner = find_stranger(desired))) {
                cleanup(free_p) char *copy = strdup(owner);
                int r;

                if (!copy)
                        return -ENOMEM;

                r = images_set_wishes(desired->images, copy, &WISH_LIST_INIT, false);
                if (r < 0)
                        return r;
        }

        return 0;
}

const char *desired_uid(const Desired *desired) {
        return desired->owner ? desired->owner + strlen(OWNER_PREFIX) : NULL;
}

const char *desired_name(const Desired *desired) {
        return desired->name;
}

const char *desired_resource_version(const Desired *desired) {
        return desired->version;
}

void desired_on_list(Desired *desired) {
        desired->is_listing = true;
}

void desired_on_listed(Desired *desired) {
        desired->is_listing = false;
}

const Error *desired_error(const Desired *desired) {
        return &desired->error;
}

size_t desired_n_images(const Desired *desired) {
        return desired->wishes.n_items;
}

/* NULL: Waiting. */
static const ImageStatus *desired_status(const Desired *desired, const ImageWish *wish) {
        const Image *image = images_find(desired->images, wish->name, wish->tag);

        return image ? image_status_for(image, desired->owner, wish->name) : NULL;
}

unsigned desired_n_in_work(const Desired *desired, unsigned many) {
        unsigned n = 0;

        for (size_t i = 0; i < desired->wishes.n_items && n <= many; i++) {
                const ImageStatus *status = desired_status(desired, &desired->wishes.items[i]);

                if (!status || !image_phase_is_final(status->phase))
                        n++;
        }

        return n;
}

int desired_diff(const Desired *desired, json_object **ret_patch) {
        size_t n = desired->wishes.n_items;
        cleanup(free_p) StatusEntry *entries = calloc(n + 1, sizeof(*entries));

        *ret_patch = NULL;
        if (!entries)
                return -ENOMEM;
        /* Without a spec nobody knows what is wanted, and so not what the status should be. */
        if (!desired->owner || !desired->has_spec)
                return STATUS_SAME;

        for (size_t i = 0; i < n; i++) {
                const ImageWish *wish = &desired->wishes.items[i];

                entries[i] = (StatusEntry){
                        .name = wish->name,
                        .tag = wish->tag,
                        .version = wish->version,
                        .status = desired_status(desired, wish),
                };
        }

        return status_diff(desired->status, entries, n, ret_patch);
}

int desired_on_written(Desired *desired, json_object *patch, const char *resource_version) {
        json_object *status = NULL;
        int r;

        if (!desired->owner || !json_object_object_get_ex(patch, "status", &status))
                return 0;

        /* The watch was quicker than the reply: what it has shown has the write in it. */
        if (desired->version && is_older(resource_version, desired->version))
                return 0;

        r = desired_set_version(desired, resource_version);
        if (r < 0)
                return r;

        return json_merge_patch(&desired->status, status);
}

bool desired_is_owner(const Desired *desired, const char *owner) {
        return desired->owner && strcmp(desired->owner, owner) == 0;
}
