/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/desired-image.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"

/* All strings of an OwnerRef, for what is done to each of them alike. */
static const size_t owner_strings[] = {
        offsetof(OwnerRef, api_version), offsetof(OwnerRef, kind),
        offsetof(OwnerRef, namespace),   offsetof(OwnerRef, name),
        offsetof(OwnerRef, uid),         offsetof(OwnerRef, resource_version),
        offsetof(OwnerRef, field_path),
};

#define N_OWNER_STRINGS (sizeof(owner_strings) / sizeof(owner_strings[0]))

static char **owner_string(const OwnerRef *owner, size_t i) {
        return (char **) ((char *) owner + owner_strings[i]);
}

static int copy_string(const char *text, char **ret) {
        *ret = text ? strdup(text) : NULL;
        return text && !*ret ? -ENOMEM : 0;
}

static bool equal_strings(const char *a, const char *b) {
        return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Makes room for one more item. */
static int grow(void *items, size_t n_items, size_t item_size) {
        void **array = items;
        void *grown;

        grown = reallocarray(*array, n_items + 1, item_size);
        if (!grown)
                return -ENOMEM;

        *array = grown;
        return 0;
}

static void owner_ref_done(OwnerRef *owner) {
        for (size_t i = 0; i < N_OWNER_STRINGS; i++)
                free(*owner_string(owner, i));
}

static bool owner_ref_equal(const OwnerRef *a, const OwnerRef *b) {
        for (size_t i = 0; i < N_OWNER_STRINGS; i++)
                if (owner_strings[i] != offsetof(OwnerRef, resource_version) &&
                    !equal_strings(*owner_string(a, i), *owner_string(b, i)))
                        return false;

        return true;
}

static void key_values_done(KeyValue *items, size_t n_items) {
        for (size_t i = 0; i < n_items; i++) {
                free(items[i].key);
                free(items[i].value);
        }
        free(items);
}

static bool key_values_equal(const KeyValue *a, const KeyValue *b, size_t n_items) {
        for (size_t i = 0; i < n_items; i++)
                if (!equal_strings(a[i].key, b[i].key) || !equal_strings(a[i].value, b[i].value))
                        return false;

        return true;
}

/* Keeps the items sorted by their key, so that two maps compare equal whatever order they were
 * written in. A key that is there already gets the new value. */
static int key_values_put(KeyValue **items, size_t *n_items, const char *key, const char *value) {
        cleanup(free_p) char *key_copy = NULL;
        cleanup(free_p) char *value_copy = NULL;
        size_t at = 0;
        int r;

        if (copy_string(key, &key_copy) < 0 || copy_string(value ?: "", &value_copy) < 0)
                return -ENOMEM;

        while (at < *n_items && strcmp((*items)[at].key, key) < 0)
                at++;
        if (at < *n_items && strcmp((*items)[at].key, key) == 0) {
                free((*items)[at].value);
                (*items)[at].value = take_ptr(value_copy);
                return 0;
        }

        r = grow(items, *n_items, sizeof(**items));
        if (r < 0)
                return r;

        memmove(*items + at + 1, *items + at, (*n_items - at) * sizeof(**items));
        (*items)[at] = (KeyValue){ .key = take_ptr(key_copy), .value = take_ptr(value_copy) };
        (*n_items)++;
        return 0;
}

int desired_image_init(DesiredImage *desired, const char *name, const char *tag) {
        cleanup(desired_image_done) DesiredImage fresh = {
                .policy = PULL_POLICY_ALWAYS,
                .timeout_sec = DESIRED_IMAGE_TIMEOUT_SEC_DEFAULT,
                .backoff_limit = DESIRED_IMAGE_BACKOFF_LIMIT_DEFAULT,
                .active_deadline_sec = DESIRED_IMAGE_NO_LIMIT,
                .ttl_sec = DESIRED_IMAGE_NO_LIMIT,
        };

        assert(name);
        assert(tag);

        if (copy_string(name, &fresh.name) < 0 || copy_string(tag, &fresh.tag) < 0)
                return -ENOMEM;

        *desired = fresh;
        fresh = (DesiredImage){ .name = NULL };
        return 0;
}

static int copy_lists(const DesiredImage *desired, DesiredImage *copy) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < desired->n_secrets; i++)
                r = desired_image_add_secret(copy, desired->secrets[i].namespace,
                                             desired->secrets[i].name);
        for (size_t i = 0; r == 0 && i < desired->n_labels; i++)
                r = desired_image_add_label(copy, desired->labels[i].key, desired->labels[i].value);
        for (size_t i = 0; r == 0 && i < desired->n_annotations; i++)
                r = desired_image_add_annotation(copy, desired->annotations[i].key,
                                                 desired->annotations[i].value);
        for (size_t i = 0; r == 0 && i < desired->n_owners; i++)
                r = desired_image_add_owner(copy, &desired->owners[i]);
        return r;
}

int desired_image_copy(const DesiredImage *desired, DesiredImage *ret) {
        cleanup(desired_image_done) DesiredImage copy = { .name = NULL };
        int r;

        r = desired_image_init(&copy, desired->name, desired->tag);
        if (r < 0)
                return r;

        if (copy_string(desired->fault, &copy.fault) < 0)
                return -ENOMEM;

        copy.version = desired->version;
        copy.created_at = desired->created_at;
        copy.policy = desired->policy;
        copy.timeout_sec = desired->timeout_sec;
        copy.backoff_limit = desired->backoff_limit;
        copy.active_deadline_sec = desired->active_deadline_sec;
        copy.ttl_sec = desired->ttl_sec;

        r = copy_lists(desired, &copy);
        if (r < 0)
                return r;

        *ret = copy;
        copy = (DesiredImage){ .name = NULL };
        return 0;
}

void desired_image_clear_owners(DesiredImage *desired) {
        for (size_t i = 0; i < desired->n_owners; i++)
                owner_ref_done(&desired->owners[i]);
        free(take_ptr(desired->owners));
        desired->n_owners = 0;
}

void desired_image_done(DesiredImage *desired) {
        for (size_t i = 0; i < desired->n_secrets; i++) {
                free(desired->secrets[i].namespace);
                free(desired->secrets[i].name);
        }
        free(desired->secrets);

        key_values_done(desired->labels, desired->n_labels);
        key_values_done(desired->annotations, desired->n_annotations);

        desired_image_clear_owners(desired);

        free(desired->fault);
        free(desired->tag);
        free(desired->name);
        *desired = (DesiredImage){ .name = NULL };
}

int desired_image_add_secret(DesiredImage *desired, const char *namespace, const char *name) {
        cleanup(free_p) char *namespace_copy = NULL;
        cleanup(free_p) char *name_copy = NULL;
        int r;

        assert(name);

        if (copy_string(namespace, &namespace_copy) < 0 || copy_string(name, &name_copy) < 0)
                return -ENOMEM;

        r = grow(&desired->secrets, desired->n_secrets, sizeof(*desired->secrets));
        if (r < 0)
                return r;

        desired->secrets[desired->n_secrets++] = (SecretRef){
                .namespace = take_ptr(namespace_copy),
                .name = take_ptr(name_copy),
        };
        return 0;
}

int desired_image_add_label(DesiredImage *desired, const char *key, const char *value) {
        assert(key);

        return key_values_put(&desired->labels, &desired->n_labels, key, value);
}

int desired_image_add_annotation(DesiredImage *desired, const char *key, const char *value) {
        assert(key);

        return key_values_put(&desired->annotations, &desired->n_annotations, key, value);
}

int desired_image_add_owner(DesiredImage *desired, const OwnerRef *owner) {
        cleanup(owner_ref_done) OwnerRef copy = { .api_version = NULL };
        int r;

        for (size_t i = 0; i < N_OWNER_STRINGS; i++)
                if (copy_string(*owner_string(owner, i), owner_string(&copy, i)) < 0)
                        return -ENOMEM;

        r = grow(&desired->owners, desired->n_owners, sizeof(*desired->owners));
        if (r < 0)
                return r;

        desired->owners[desired->n_owners++] = copy;
        copy = (OwnerRef){ .api_version = NULL };
        return 0;
}

static bool equal_numbers(const DesiredImage *a, const DesiredImage *b) {
        return a->version == b->version && a->created_at == b->created_at &&
               a->policy == b->policy && a->timeout_sec == b->timeout_sec &&
               a->backoff_limit == b->backoff_limit &&
               a->active_deadline_sec == b->active_deadline_sec && a->ttl_sec == b->ttl_sec &&
               a->n_secrets == b->n_secrets && a->n_labels == b->n_labels &&
               a->n_annotations == b->n_annotations && a->n_owners == b->n_owners;
}

bool desired_image_equal(const DesiredImage *a, const DesiredImage *b) {
        if (!equal_numbers(a, b) || !equal_strings(a->name, b->name) ||
            !equal_strings(a->tag, b->tag) || !equal_strings(a->fault, b->fault))
                return false;

        for (size_t i = 0; i < a->n_secrets; i++)
                if (!equal_strings(a->secrets[i].namespace, b->secrets[i].namespace) ||
                    !equal_strings(a->secrets[i].name, b->secrets[i].name))
                        return false;

        for (size_t i = 0; i < a->n_owners; i++)
                if (!owner_ref_equal(&a->owners[i], &b->owners[i]))
                        return false;

        return key_values_equal(a->labels, b->labels, a->n_labels) &&
               key_values_equal(a->annotations, b->annotations, a->n_annotations);
}

/* There may be many thousand: each one more must not copy all of them. */
static int desired_images_grow(DesiredImages *list) {
        size_t n = list->n_items < 8 ? 8 : 2 * list->n_items;
        DesiredImage *grown;

        if (list->n_items < list->n_allocated)
                return 0;

        grown = reallocarray(list->items, n, sizeof(*grown));
        if (!grown)
                return -ENOMEM;

        list->items = grown;
        list->n_allocated = n;
        return 0;
}

int desired_images_take(DesiredImages *list, DesiredImage *desired) {
        int r;

        r = desired_images_grow(list);
        if (r < 0) {
                desired_image_done(desired);
                return r;
        }

        list->items[list->n_items++] = *desired;
        *desired = (DesiredImage){ .name = NULL };
        return 0;
}

void desired_images_done(DesiredImages *list) {
        for (size_t i = 0; i < list->n_items; i++)
                desired_image_done(&list->items[i]);
        free(list->items);
        *list = DESIRED_IMAGES_INIT;
}
