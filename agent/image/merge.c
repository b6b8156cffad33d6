/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/merge.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"

static int64_t longer(int64_t a, int64_t b) {
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

static bool is_same_text(const char *a, const char *b) {
        return strcmp(a ?: "", b ?: "") == 0;
}

static bool has_secret(const DesiredImage *desired, const SecretRef *secret) {
        for (size_t i = 0; i < desired->n_secrets; i++)
                if (is_same_text(desired->secrets[i].namespace, secret->namespace) &&
                    is_same_text(desired->secrets[i].name, secret->name))
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

/* Two sandbox configs cannot be mixed: the first one that says anything counts. */
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
        int r;

        into->version = larger(into->version, from->version);
        into->created_at = earlier(into->created_at, from->created_at);
        into->timeout_sec = larger(into->timeout_sec, from->timeout_sec);
        into->backoff_limit = larger(into->backoff_limit, from->backoff_limit);
        into->active_deadline_sec = longer(into->active_deadline_sec, from->active_deadline_sec);
        into->ttl_sec = longer(into->ttl_sec, from->ttl_sec);
        if (from->policy == PULL_POLICY_ALWAYS)
                into->policy = PULL_POLICY_ALWAYS;

        r = merge_secrets(into, from);
        if (r < 0)
                return r;

        r = merge_sandbox(into, from);
        if (r < 0)
                return r;

        return merge_owners(into, from);
}

int merge_desired_images(const DesiredImage *const *desired_images, size_t n_desired,
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

bool merge_is_within(const DesiredImage *desired, const DesiredImage *merged) {
        for (size_t i = 0; i < desired->n_secrets; i++)
                if (!has_secret(merged, &desired->secrets[i]))
                        return false;

        return larger(desired->timeout_sec, merged->timeout_sec) == merged->timeout_sec &&
               larger(desired->backoff_limit, merged->backoff_limit) == merged->backoff_limit &&
               longer(desired->active_deadline_sec, merged->active_deadline_sec) ==
                       merged->active_deadline_sec;
}
