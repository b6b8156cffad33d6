/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/desired-image.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/hash.h"
#include "agent/base/text.h"

/* All strings of an OwnerRef, for loops over them. */
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

static void owner_ref_done(OwnerRef *owner) {
        for (size_t i = 0; i < N_OWNER_STRINGS; i++)
                free(*owner_string(owner, i));
}

static bool owner_ref_equal(const OwnerRef *a, const OwnerRef *b) {
        for (size_t i = 0; i < N_OWNER_STRINGS; i++)
                if (owner_strings[i] != offsetof(OwnerRef, resource_version) &&
                    !text_equal(*owner_string(a, i), *owner_string(b, i)))
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
                if (!text_equal(a[i].key, b[i].key) || !text_equal(a[i].value, b[i].value))
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

        if (text_copy(key, &key_copy) < 0 || text_copy(value ?: "", &value_copy) < 0)
                return -ENOMEM;

        while (at < *n_items && strcmp((*items)[at].key, key) < 0)
                at++;
        if (at < *n_items && strcmp((*items)[at].key, key) == 0) {
                free((*items)[at].value);
                (*items)[at].value = take_ptr(value_copy);
                return 0;
        }

        r = array_grow(items, *n_items, sizeof(**items));
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
                .backoff_limit = DESIRED_IMAGE_NO_LIMIT,
                .refusal_limit = DESIRED_IMAGE_NO_LIMIT,
                .active_deadline_sec = DESIRED_IMAGE_NO_LIMIT,
                .ttl_sec = DESIRED_IMAGE_NO_LIMIT,
        };

        assert(name);
        assert(tag);

        if (text_copy(name, &fresh.name) < 0 || text_copy(tag, &fresh.tag) < 0)
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

        if (text_copy(desired->fault, &copy.fault) < 0)
                return -ENOMEM;

        copy.is_hub = desired->is_hub;
        copy.version = desired->version;
        copy.created_at = desired->created_at;
        copy.policy = desired->policy;
        copy.timeout_sec = desired->timeout_sec;
        copy.backoff_limit = desired->backoff_limit;
        copy.refusal_limit = desired->refusal_limit;
        copy.active_deadline_sec = desired->active_deadline_sec;
        copy.ttl_sec = desired->ttl_sec;
        copy.is_complete = desired->is_complete;
        copy.is_resolved = desired->is_resolved;
        copy.is_pinned = desired->is_pinned;

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

void desired_image_clear_shared(DesiredImage *desired) {
        for (size_t i = 0; i < desired->n_secrets; i++) {
                free(desired->secrets[i].namespace);
                free(desired->secrets[i].name);
        }
        free(take_ptr(desired->secrets));
        desired->n_secrets = 0;

        key_values_done(take_ptr(desired->labels), desired->n_labels);
        key_values_done(take_ptr(desired->annotations), desired->n_annotations);
        desired->n_labels = desired->n_annotations = 0;
}

void desired_image_done(DesiredImage *desired) {
        desired_image_clear_shared(desired);
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

        if (text_copy(namespace, &namespace_copy) < 0 || text_copy(name, &name_copy) < 0)
                return -ENOMEM;

        r = array_grow(&desired->secrets, desired->n_secrets, sizeof(*desired->secrets));
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
                if (text_copy(*owner_string(owner, i), owner_string(&copy, i)) < 0)
                        return -ENOMEM;

        r = array_grow(&desired->owners, desired->n_owners, sizeof(*desired->owners));
        if (r < 0)
                return r;

        desired->owners[desired->n_owners++] = copy;
        copy = (OwnerRef){ .api_version = NULL };
        return 0;
}

bool desired_image_equal_sandbox(const DesiredImage *a, const DesiredImage *b) {
        return a->n_labels == b->n_labels && a->n_annotations == b->n_annotations &&
               key_values_equal(a->labels, b->labels, a->n_labels) &&
               key_values_equal(a->annotations, b->annotations, a->n_annotations);
}

static bool equal_numbers(const DesiredImage *a, const DesiredImage *b) {
        return a->is_hub == b->is_hub && a->version == b->version &&
               a->created_at == b->created_at && a->policy == b->policy &&
               a->is_complete == b->is_complete && a->is_resolved == b->is_resolved &&
               a->is_pinned == b->is_pinned && a->timeout_sec == b->timeout_sec &&
               a->backoff_limit == b->backoff_limit && a->refusal_limit == b->refusal_limit &&
               a->active_deadline_sec == b->active_deadline_sec && a->ttl_sec == b->ttl_sec &&
               a->n_secrets == b->n_secrets && a->n_owners == b->n_owners;
}

bool desired_image_equal(const DesiredImage *a, const DesiredImage *b) {
        if (!equal_numbers(a, b) || !text_equal(a->name, b->name) || !text_equal(a->tag, b->tag) ||
            !text_equal(a->fault, b->fault))
                return false;

        for (size_t i = 0; i < a->n_secrets; i++)
                if (!text_equal(a->secrets[i].namespace, b->secrets[i].namespace) ||
                    !text_equal(a->secrets[i].name, b->secrets[i].name))
                        return false;

        for (size_t i = 0; i < a->n_owners; i++)
                if (!owner_ref_equal(&a->owners[i], &b->owners[i]))
                        return false;

        return desired_image_equal_sandbox(a, b);
}

static uint64_t hash_numbers(uint64_t hash, const DesiredImage *desired) {
        const int64_t numbers[] = {
                desired->is_hub,
                desired->version,
                desired->created_at,
                desired->policy,
                desired->is_complete,
                desired->is_resolved,
                desired->is_pinned,
                desired->timeout_sec,
                desired->backoff_limit,
                desired->refusal_limit,
                desired->active_deadline_sec,
                desired->ttl_sec,
                (int64_t) desired->n_secrets,
                (int64_t) desired->n_owners,
                (int64_t) desired->n_labels,
                (int64_t) desired->n_annotations,
        };

        return hash64_bytes(hash, numbers, sizeof(numbers));
}

static uint64_t hash_owner(uint64_t hash, const OwnerRef *owner) {
        for (size_t i = 0; i < N_OWNER_STRINGS; i++)
                if (owner_strings[i] != offsetof(OwnerRef, resource_version))
                        hash = hash64_text_or_null(hash, *owner_string(owner, i));

        return hash;
}

static uint64_t hash_key_values(uint64_t hash, const KeyValue *items, size_t n_items) {
        for (size_t i = 0; i < n_items; i++) {
                hash = hash64_text_or_null(hash, items[i].key);
                hash = hash64_text_or_null(hash, items[i].value);
        }

        return hash;
}

uint64_t desired_image_hash(uint64_t hash, const DesiredImage *desired) {
        hash = hash_numbers(hash, desired);
        hash = hash64_text_or_null(hash, desired->name);
        hash = hash64_text_or_null(hash, desired->tag);
        hash = hash64_text_or_null(hash, desired->fault);

        for (size_t i = 0; i < desired->n_secrets; i++) {
                hash = hash64_text_or_null(hash, desired->secrets[i].namespace);
                hash = hash64_text_or_null(hash, desired->secrets[i].name);
        }

        for (size_t i = 0; i < desired->n_owners; i++)
                hash = hash_owner(hash, &desired->owners[i]);

        hash = hash_key_values(hash, desired->labels, desired->n_labels);
        return hash_key_values(hash, desired->annotations, desired->n_annotations);
}

int desired_images_take(DesiredImages *list, DesiredImage *desired) {
        int r;

        r = array_grow(&list->items, list->n_items, sizeof(list->items[0]));
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

static int64_t wider(int64_t a, int64_t b) {
        if (a == DESIRED_IMAGE_NO_LIMIT || b == DESIRED_IMAGE_NO_LIMIT)
                return DESIRED_IMAGE_NO_LIMIT;

        return a > b ? a : b;
}

static int64_t larger(int64_t a, int64_t b) {
        return a > b ? a : b;
}

static int64_t earlier(int64_t a, int64_t b) {
        if (a == 0 || b == 0)
                return a + b;

        return a < b ? a : b;
}

static bool has_secret(const DesiredImage *desired, const SecretRef *secret) {
        for (size_t i = 0; i < desired->n_secrets; i++)
                if (text_equal(desired->secrets[i].namespace ?: "", secret->namespace ?: "") &&
                    text_equal(desired->secrets[i].name, secret->name))
                        return true;

        return false;
}

static int merge_secrets(DesiredImage *into, const DesiredImage *from) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < from->n_secrets; i++)
                if (!has_secret(into, &from->secrets[i]))
                        r = desired_image_add_secret(into, from->secrets[i].namespace,
                                                     from->secrets[i].name);
        return r;
}

/* Two sandbox configs cannot be mixed: the first one that is not empty counts. */
static int merge_sandbox(DesiredImage *into, const DesiredImage *from) {
        int r = 0;

        if (into->n_labels > 0 || into->n_annotations > 0)
                return 0;

        for (size_t i = 0; r >= 0 && i < from->n_labels; i++)
                r = desired_image_add_label(into, from->labels[i].key, from->labels[i].value);
        for (size_t i = 0; r >= 0 && i < from->n_annotations; i++)
                r = desired_image_add_annotation(into, from->annotations[i].key,
                                                 from->annotations[i].value);
        return r;
}

static int merge_owners(DesiredImage *into, const DesiredImage *from) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < from->n_owners; i++)
                r = desired_image_add_owner(into, &from->owners[i]);
        return r;
}

static int merge_one(DesiredImage *into, const DesiredImage *from) {
        into->version = larger(into->version, from->version);
        into->created_at = earlier(into->created_at, from->created_at);
        into->timeout_sec = larger(into->timeout_sec, from->timeout_sec);
        into->backoff_limit = wider(into->backoff_limit, from->backoff_limit);
        into->refusal_limit = wider(into->refusal_limit, from->refusal_limit);
        into->active_deadline_sec = wider(into->active_deadline_sec, from->active_deadline_sec);
        into->ttl_sec = wider(into->ttl_sec, from->ttl_sec);
        if (from->policy == PULL_POLICY_ALWAYS)
                into->policy = PULL_POLICY_ALWAYS;
        into->is_complete = into->is_complete || from->is_complete;
        into->is_resolved = into->is_resolved || from->is_resolved;
        into->is_pinned = into->is_pinned || from->is_pinned;

        return merge_secrets(into, from) ?: merge_sandbox(into, from) ?: merge_owners(into, from);
}

int desired_image_merge(const DesiredImage *const *desired_images, size_t n_desired,
                        DesiredImage *ret) {
        cleanup(desired_image_done) DesiredImage merged = { .name = NULL };
        int r;

        assert(n_desired > 0);

        r = desired_image_copy(desired_images[0], &merged);
        free(take_ptr(merged.fault));
        for (size_t i = 1; r >= 0 && i < n_desired; i++)
                r = merge_one(&merged, desired_images[i]);
        if (r < 0)
                return r;

        *ret = merged;
        merged = (DesiredImage){ .name = NULL };
        return 0;
}

bool desired_image_shares_attempts(const DesiredImage *desired, const DesiredImage *merged) {
        for (size_t i = 0; i < desired->n_secrets; i++)
                if (!has_secret(merged, &desired->secrets[i]))
                        return false;

        return desired->timeout_sec <= merged->timeout_sec;
}

bool desired_image_is_within(const DesiredImage *desired, const DesiredImage *merged) {
        return desired_image_shares_attempts(desired, merged) &&
               wider(desired->backoff_limit, merged->backoff_limit) == merged->backoff_limit &&
               wider(desired->refusal_limit, merged->refusal_limit) == merged->refusal_limit &&
               wider(desired->active_deadline_sec, merged->active_deadline_sec) ==
                       merged->active_deadline_sec;
}
