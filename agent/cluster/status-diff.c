/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/cluster/status-diff.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/rfc3339.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"

/*
 * The tags of an image in the status of a NodeImage
 *
 * Any writer may have made it, so the code checks all types and skips invalid parts. It changes nothing.
 */

static bool has_version(struct json_object *entry, int64_t version) {
        struct json_object *value;

        if (!json_object_object_get_ex(entry, "version", &value) || !value)
                return version == 0;

        return json_object_is_type(value, json_type_int) && json_object_get_int64(value) == version;
}

/* Returns _IMAGE_PHASE_MAX for an unknown phase. */
static ImagePhase observed_phase(struct json_object *entry) {
        const char *text = json_get_text(entry, "phase");
        ImagePhase phase = 0;

        while (phase < _IMAGE_PHASE_MAX &&
               (!text || strcmp(text, image_phase_to_string(phase)) != 0))
                phase++;

        return phase;
}

int64_t observed_completed_at(struct json_object *entry) {
        const char *text = json_get_text(entry, "completionTime");
        int64_t time;

        return text && rfc3339_parse(text, &time) >= 0 ? time : 0;
}

/* The entry is finished for this version: it has a final phase and a time. */
static bool observed_is_finished(struct json_object *entry, int64_t version) {
        ImagePhase phase = observed_phase(entry);

        return phase < _IMAGE_PHASE_MAX && image_phase_is_final(phase) &&
               observed_completed_at(entry) != 0 && has_version(entry, version);
}

static struct json_object *get_list(struct json_object *images, const char *name) {
        struct json_object *image = json_get(images, name, json_type_object);

        return json_get(image, "tags", json_type_array);
}

typedef struct ObservedTag {
        const char *tag; /* borrowed from the entry */
        struct json_object *entry;
        size_t index; /* index in the list */
} ObservedTag;

/* An index to find many tags. Borrows from the object. */
typedef struct ObservedTags {
        struct json_object *list; /* the object's list; NULL if it is not a list */
        ObservedTag *items;       /* valid entries, sorted by tag, then by index */
        size_t n_items;
} ObservedTags;

static int compare_tags(const void *a, const void *b) {
        const ObservedTag *x = a, *y = b;
        int order = strcmp(x->tag, y->tag);

        return order != 0 ? order : (x->index > y->index) - (x->index < y->index);
}

/* images: imageStatuses, or NULL. */
static int observed_tags_read(struct json_object *images, const char *name, ObservedTags *ret) {
        ObservedTags tags = { .list = get_list(images, name) };
        size_t n = tags.list ? json_object_array_length(tags.list) : 0;

        tags.items = calloc(n + 1, sizeof(tags.items[0]));
        if (!tags.items)
                return -ENOMEM;

        for (size_t i = 0; i < n; i++) {
                struct json_object *entry = json_object_array_get_idx(tags.list, i);
                const char *tag = json_get_text(entry, "tag");

                if (tag)
                        tags.items[tags.n_items++] =
                                (ObservedTag){ .tag = tag, .entry = entry, .index = i };
        }
        qsort(tags.items, tags.n_items, sizeof(tags.items[0]), compare_tags);

        *ret = tags;
        return 0;
}

static void observed_tags_done(ObservedTags *tags) {
        free(tags->items);
}

/* Finds the entry of a tag, or NULL. Of duplicates, which should not exist, prefers one that is
 * finished for the version. */
static struct json_object *observed_tags_find(const ObservedTags *tags, const char *tag,
                                              int64_t version) {
        struct json_object *found = NULL;
        size_t low = 0, high = tags->n_items;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (strcmp(tags->items[middle].tag, tag) < 0)
                        low = middle + 1;
                else
                        high = middle;
        }

        for (; low < tags->n_items && strcmp(tags->items[low].tag, tag) == 0; low++) {
                if (observed_is_finished(tags->items[low].entry, version))
                        return tags->items[low].entry;
                found = found ?: tags->items[low].entry;
        }

        return found;
}

static bool has_tag(struct json_object *entry, const char *tag) {
        const char *text = json_get_text(entry, "tag");

        return text && strcmp(text, tag) == 0;
}

/* Returns the index of the tag in a sorted list. */
static size_t guess_index(struct json_object *list, const char *tag) {
        size_t low = 0, high = json_object_array_length(list);

        while (low < high) {
                size_t middle = low + (high - low) / 2;
                const char *text = json_get_text(json_object_array_get_idx(list, middle), "tag");

                if (text && strcmp(text, tag) < 0)
                        low = middle + 1;
                else
                        high = middle;
        }

        return low;
}

/* Finds a tag that is finished for the version; fast if the list is sorted, as it should be. */
static struct json_object *find_finished(struct json_object *images, const char *name,
                                         const char *tag, int64_t version) {
        struct json_object *list = get_list(images, name);
        bool is_found = false;
        size_t i;

        if (!list)
                return NULL;

        i = guess_index(list, tag);
        if (!has_tag(json_object_array_get_idx(list, i), tag))
                i = 0; /* it is not there, or the list is not sorted */

        for (; i < json_object_array_length(list); i++) {
                struct json_object *entry = json_object_array_get_idx(list, i);

                if (has_tag(entry, tag)) {
                        is_found = true;
                        if (observed_is_finished(entry, version))
                                return entry;
                } else if (is_found) {
                        break;
                }
        }

        return NULL;
}

/* Differences */

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

/* Ignores members that other writers have added to an entry. */
static StatusDifference compare_entries(struct json_object *observed, struct json_object *desired) {
        static const char *const keys[] = { "tag",     "phase",   "startTime", "completionTime",
                                            "version", "imageID", "message" };

        if (!observed)
                return STATUS_DIFFERENT;
        for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
                if (!equal_members(observed, desired, keys[i]))
                        return STATUS_DIFFERENT;

        return equal_members(observed, desired, "progress") ? STATUS_SAME : STATUS_PROGRESS;
}

static struct json_object *entry_to_json(const StatusEntry *entry) {
        ImageStatus status =
                entry->status ? *entry->status : (ImageStatus){ .phase = IMAGE_WAITING };

        status.version = entry->version;
        if (status.phase == IMAGE_BACKING_OFF ||
            status.phase == IMAGE_MISSING) /* OpenKruise has no such phases */
                status.phase = status.started_at > 0 ? IMAGE_PULLING : IMAGE_WAITING;
        return image_status_to_json(&status, entry->name, entry->tag);
}

/* Sets *ret to the finished entry, which stays as it is, except for the reason that keeps the image from being
 * pinned: it is found out, and changes, after the end of the pull. */
static int keep_entry(const ImageStatus *status, struct json_object *observed,
                      struct json_object **ret) {
        const char *said = json_get_text(observed, "message");
        bool is_pin = said && strncmp(said, IMAGE_NOT_PINNED, strlen(IMAGE_NOT_PINNED)) == 0;
        cleanup(json_object_put_p) struct json_object *copy = NULL;

        if (!status || status->phase != IMAGE_SUCCEEDED ||
            observed_phase(observed) != IMAGE_SUCCEEDED ||
            text_equal(is_pin ? said : NULL, status->pin)) {
                *ret = json_object_get(observed);
                return STATUS_SAME;
        }

        copy = json_copy(observed);
        if (!copy)
                return -ENOMEM;
        json_object_object_del(copy, "message");
        if (patch_add_filled(copy, "message", image_status_message(status)) < 0)
                return -ENOMEM;

        *ret = take_ptr(copy);
        return STATUS_DIFFERENT;
}

/* Sets *ret to the wanted entry: the observed one itself if it is right. */
static int choose_entry(const StatusEntry *entry, struct json_object *observed,
                        struct json_object **ret) {
        cleanup(json_object_put_p) json_object *desired = NULL;
        StatusDifference difference;
        bool has_ended = entry->status && image_phase_is_final(entry->status->phase);

        if (observed && observed_is_finished(observed, entry->version) &&
            !(entry->is_of_set && has_ended))
                return keep_entry(entry->status, observed, ret);

        desired = entry_to_json(entry);
        if (!desired)
                return -ENOMEM;

        difference = compare_entries(observed, desired);
        *ret = difference == STATUS_SAME ? json_object_get(observed) : take_ptr(desired);
        return (int) difference;
}

static void diff_note(Diff *diff, StatusDifference difference) {
        if (difference > diff->difference)
                diff->difference = difference;
}

static void diff_count(Diff *diff, struct json_object *item) {
        static const Count counts[_IMAGE_PHASE_MAX] = {
                [IMAGE_WAITING] = COUNT_WAITING,     [IMAGE_PULLING] = COUNT_PULLING,
                [IMAGE_BACKING_OFF] = COUNT_PULLING, /* the agent never writes these; others may */
                [IMAGE_SUCCEEDED] = COUNT_SUCCEEDED, [IMAGE_FAILED] = COUNT_FAILED,
                [IMAGE_MISSING] = COUNT_WAITING,
        };

        diff->counts[COUNT_DESIRED]++;
        diff->counts[counts[observed_phase(item)]]++;
}

/* Compares the entries of one name. */
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

/* Keeps the entries for one tag in their order. */
static int compare_places(const void *a, const void *b) {
        const StatusEntry *x = *(const StatusEntry *const *) a;
        const StatusEntry *y = *(const StatusEntry *const *) b;

        return compare_keys(a, b) ?: (x > y) - (x < y);
}

static int diff_sort(Diff *diff, const StatusEntry *entries, size_t n_entries) {
        diff->entries = calloc(n_entries + 1, sizeof(diff->entries[0]));
        if (!diff->entries)
                return -ENOMEM;

        for (size_t i = 0; i < n_entries; i++)
                diff->entries[i] = &entries[i];
        qsort(diff->entries, n_entries, sizeof(diff->entries[0]), compare_places);

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

/* OpenKruise before 1.9 has no such count in its schema, and the server drops it: if it alone is
 * missing, that must not cause a write, again and again. */
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

                observed = json_get(diff->observed, keys[i], json_type_int);
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

        diff->difference = STATUS_DIFFERENT; /* present, but not an object */
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
                .observed_images = json_get(observed, "imageStatuses", json_type_object),
                .images = json_object_new_object(),
        };

        if (!diff.images)
                return -ENOMEM;
        return diff_sort(&diff, entries, n_entries)
               ?: diff_images(&diff)
               ?: diff_gone_images(&diff)
               ?: diff_finish(&diff, ret_patch);
}

struct json_object *status_find_finished(struct json_object *observed, const char *name,
                                         const char *tag, int64_t version) {
        return find_finished(json_get(observed, "imageStatuses", json_type_object), name, tag,
                             version);
}
