/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/cluster/tidy-spec.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdbool.h>

#include "agent/base/cleanup.h"
#include "agent/base/repeat.h"
#include "agent/base/rfc3339.h"
#include "agent/cluster/observed-status.h"
#include "agent/cluster/patch-spec.h"
#include "agent/cluster/status-diff.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"

typedef struct Tidying {
        struct json_object *status; /* as observed, or NULL */
        struct json_object *images; /* the patch for them */
        int64_t now;
        TidyPlan plan;
} Tidying;

/* One that is missing is as given; false: it is something else. */
static bool read_number(struct json_object *object, const char *key, int64_t otherwise,
                        int64_t *ret) {
        struct json_object *value;

        *ret = otherwise;
        if (!json_object_object_get_ex(object, key, &value) || !value)
                return true;

        *ret = json_object_get_int64(value);
        return json_object_is_type(value, json_type_int);
}

/* When the tag may leave, as far as is known; INT64_MAX: not yet. */
static int64_t find_end(const Tidying *tidying, const char *name, struct json_object *item) {
        struct json_object *tag = observed_member(item, "tag", json_type_string);
        struct json_object *policy = observed_member(item, "pullPolicy", json_type_object);
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

/* That this tag leaves, of which it is known that it may since then. */
static void note_leaving(TidyPlan *plan, const char *name, struct json_object *item, int64_t end) {
        struct json_object *tag = observed_member(item, "tag", json_type_string);
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
        struct json_object *tags = observed_member(image, "tags", json_type_array);
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

        patch = patch_wrap("metadata", patch_guard(object));
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
        struct json_object *spec = observed_member(object, "spec", json_type_object);
        struct json_object *images = observed_member(spec, "images", json_type_object);
        Tidying tidying = {
                .status = observed_member(object, "status", json_type_object),
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
