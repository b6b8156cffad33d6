/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/cluster/status-diff.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/cluster/observed-status.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"

typedef enum Count {
        COUNT_DESIRED,
        COUNT_SUCCEEDED,
        COUNT_FAILED,
        COUNT_PULLING,
        COUNT_WAITING,
        _COUNT_MAX,
} Count;

typedef struct Diff {
        struct json_object *observed; /* the status and its images; NULL if they are no objects */
        struct json_object *observed_images;
        const StatusEntry **entries; /* sorted by name and tag, each once */
        size_t n_entries;

        struct json_object *images; /* the patch for them; owned */
        int64_t counts[_COUNT_MAX];
        StatusDifference difference;
} Diff;

static void diff_done(Diff *diff) {
        json_object_put(diff->images);
        free(diff->entries);
}

static bool equal_members(struct json_object *a, struct json_object *b, const char *key) {
        struct json_object *x = NULL, *y = NULL;

        (void) json_object_object_get_ex(a, key, &x);
        (void) json_object_object_get_ex(b, key, &y);
        return json_object_equal(x, y);
}

/* What others have added to an entry is no difference. */
static StatusDifference compare_entries(struct json_object *observed, struct json_object *wanted) {
        static const char *const keys[] = { "tag",     "phase",   "startTime", "completionTime",
                                            "version", "imageID", "message" };

        if (!observed)
                return STATUS_DIFFERENT;
        for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
                if (!equal_members(observed, wanted, keys[i]))
                        return STATUS_DIFFERENT;

        return equal_members(observed, wanted, "progress") ? STATUS_SAME : STATUS_PROGRESS;
}

static struct json_object *entry_to_json(const StatusEntry *entry) {
        ImageStatus status =
                entry->status ? *entry->status : (ImageStatus){ .phase = IMAGE_WAITING };

        status.version = entry->version;
        return image_status_to_json(&status, entry->name, entry->tag);
}

/* *ret is what has to stand in the status: the observed entry itself if it is right. */
static int choose_entry(const StatusEntry *entry, struct json_object *observed,
                        struct json_object **ret) {
        cleanup(json_object_put_p) json_object *wanted = NULL;
        StatusDifference difference;

        if (observed && observed_is_finished(observed, entry->version)) {
                *ret = json_object_get(observed);
                return STATUS_SAME;
        }

        wanted = entry_to_json(entry);
        if (!wanted)
                return -ENOMEM;

        difference = compare_entries(observed, wanted);
        *ret = difference == STATUS_SAME ? json_object_get(observed) : take_ptr(wanted);
        return (int) difference;
}

static void diff_note(Diff *diff, StatusDifference difference) {
        if (difference > diff->difference)
                diff->difference = difference;
}

static void diff_count(Diff *diff, struct json_object *item) {
        static const Count counts[_IMAGE_PHASE_MAX] = {
                [IMAGE_WAITING] = COUNT_WAITING,
                [IMAGE_PULLING] = COUNT_PULLING,
                [IMAGE_SUCCEEDED] = COUNT_SUCCEEDED,
                [IMAGE_FAILED] = COUNT_FAILED,
        };

        diff->counts[COUNT_DESIRED]++;
        diff->counts[counts[observed_phase(item)]]++;
}

/* The entries of one name. */
static int diff_image(Diff *diff, const StatusEntry **entries, size_t n_entries) {
        cleanup(json_object_put_p) json_object *tags = json_object_new_array_ext((int) n_entries);
        cleanup(observed_tags_done) ObservedTags observed = { .list = NULL };
        StatusDifference difference = STATUS_SAME;
        int r;

        if (!tags)
                return -ENOMEM;
        r = observed_tags_read(diff->observed_images, entries[0]->name, &observed);
        if (r < 0)
                return r;

        if (!observed.list || json_object_array_length(observed.list) != n_entries)
                difference = STATUS_DIFFERENT;
        for (size_t i = 0; i < n_entries; i++) {
                struct json_object *item, *found;

                found = observed_tags_find(&observed, entries[i]->tag, entries[i]->version);
                r = choose_entry(entries[i], found, &item);
                if (r < 0)
                        return r;
                if (r > (int) difference)
                        difference = (StatusDifference) r;
                if (observed.list && json_object_array_get_idx(observed.list, i) != found)
                        difference = STATUS_DIFFERENT;

                diff_count(diff, item);
                r = patch_append(tags, item);
                if (r < 0)
                        return r;
        }

        diff_note(diff, difference);
        return difference == STATUS_SAME ? 0
                                         : patch_add(diff->images, entries[0]->name,
                                                     patch_wrap("tags", take_ptr(tags)));
}

static int compare_names(const void *a, const void *b) {
        const StatusEntry *x = *(const StatusEntry *const *) a;
        const StatusEntry *y = *(const StatusEntry *const *) b;

        return strcmp(x->name, y->name);
}

static int compare_keys(const void *a, const void *b) {
        const StatusEntry *x = *(const StatusEntry *const *) a;
        const StatusEntry *y = *(const StatusEntry *const *) b;
        int order = compare_names(a, b);

        return order != 0 ? order : strcmp(x->tag, y->tag);
}

static int diff_sort(Diff *diff, const StatusEntry *entries, size_t n_entries) {
        diff->entries = calloc(n_entries + 1, sizeof(diff->entries[0]));
        if (!diff->entries)
                return -ENOMEM;

        for (size_t i = 0; i < n_entries; i++)
                diff->entries[i] = &entries[i];
        qsort(diff->entries, n_entries, sizeof(diff->entries[0]), compare_keys);

        for (size_t i = 0; i < n_entries; i++)
                if (i == 0 || compare_keys(&diff->entries[i - 1], &diff->entries[i]) != 0)
                        diff->entries[diff->n_entries++] = diff->entries[i];
        return 0;
}

/* The entries are sorted, so those of one name stand together. */
static int diff_images(Diff *diff) {
        size_t n;
        int r;

        for (size_t i = 0; i < diff->n_entries; i += n) {
                n = 1;
                while (i + n < diff->n_entries &&
                       compare_names(&diff->entries[i], &diff->entries[i + n]) == 0)
                        n++;

                r = diff_image(diff, diff->entries + i, n);
                if (r < 0)
                        return r;
        }

        return 0;
}

static bool diff_has_name(const Diff *diff, const char *name) {
        const StatusEntry key = { .name = name }, *pointer = &key;

        return bsearch(&pointer, diff->entries, diff->n_entries, sizeof(diff->entries[0]),
                       compare_names);
}

static int diff_gone_images(Diff *diff) {
        int r;

        if (!diff->observed_images)
                return 0;

        json_object_object_foreach(diff->observed_images, name, image) {
                (void) image;
                if (diff_has_name(diff, name))
                        continue;

                diff->difference = STATUS_DIFFERENT;
                r = patch_add_null(diff->images, name);
                if (r < 0)
                        return r;
        }

        return 0;
}

/* The schema of OpenKruise before 1.9 has no such count, and what is not in the schema is dropped:
 * that it is missing must not alone cause a write, again and again. */
static bool diff_lacks_waiting(const Diff *diff) {
        return !json_object_object_get(diff->observed, "waiting") &&
               diff->difference != STATUS_DIFFERENT;
}

static int diff_counts(Diff *diff, struct json_object *status) {
        static const char *const keys[_COUNT_MAX] = {
                [COUNT_DESIRED] = "desired", [COUNT_SUCCEEDED] = "succeeded",
                [COUNT_FAILED] = "failed",   [COUNT_PULLING] = "pulling",
                [COUNT_WAITING] = "waiting",
        };
        int r;

        for (Count i = 0; i < _COUNT_MAX; i++) {
                struct json_object *observed;

                observed = observed_member(diff->observed, keys[i], json_type_int);
                if ((observed && json_object_get_int64(observed) == diff->counts[i]) ||
                    (i == COUNT_WAITING && diff_lacks_waiting(diff)))
                        continue;

                diff->difference = STATUS_DIFFERENT;
                r = patch_add(status, keys[i], json_object_new_int64(diff->counts[i]));
                if (r < 0)
                        return r;
        }

        return 0;
}

static int diff_add_images(Diff *diff, struct json_object *status) {
        if (json_object_object_length(diff->images) > 0)
                return patch_add(status, "imageStatuses", take_ptr(diff->images));

        if (diff->observed_images || !json_object_object_get(diff->observed, "imageStatuses"))
                return 0;

        diff->difference = STATUS_DIFFERENT; /* it is there, but no object */
        return patch_add_null(status, "imageStatuses");
}

static int diff_finish(Diff *diff, struct json_object **ret_patch) {
        cleanup(json_object_put_p) json_object *status = json_object_new_object();
        struct json_object *patch = NULL;
        int r;

        if (!status)
                return -ENOMEM;

        r = diff_counts(diff, status);
        if (r < 0)
                return r;
        r = diff_add_images(diff, status);
        if (r < 0)
                return r;

        if (diff->difference != STATUS_SAME) {
                patch = patch_wrap("status", take_ptr(status));
                if (!patch)
                        return -ENOMEM;
        }

        *ret_patch = patch;
        return (int) diff->difference;
}

int status_diff(struct json_object *observed, const StatusEntry *entries, size_t n_entries,
                struct json_object **ret_patch) {
        cleanup(diff_done) Diff diff = {
                .observed = json_object_is_type(observed, json_type_object) ? observed : NULL,
                .observed_images = observed_member(observed, "imageStatuses", json_type_object),
                .images = json_object_new_object(),
        };
        int r;

        if (!diff.images)
                return -ENOMEM;
        r = diff_sort(&diff, entries, n_entries);
        if (r < 0)
                return r;

        r = diff_images(&diff);
        if (r < 0)
                return r;
        r = diff_gone_images(&diff);
        if (r < 0)
                return r;
        return diff_finish(&diff, ret_patch);
}

struct json_object *status_find_finished(struct json_object *observed, const char *name,
                                         const char *tag, int64_t version) {
        return observed_find_finished(observed_member(observed, "imageStatuses", json_type_object),
                                      name, tag, version);
}
