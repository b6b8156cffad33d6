/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the status of a NodeImage says about the tags of an image
 *
 * Anybody may have written it, so nothing is taken for granted: what does not make sense is passed
 * over. Nothing is changed.
 */

#include <json-c/json_types.h>

#include "agent/image/image-status.h"

typedef struct ObservedTag {
        const char *tag; /* borrowed from the entry */
        struct json_object *entry;
        size_t index; /* in the list */
} ObservedTag;

/* For looking many tags up. Borrows from the object. */
typedef struct ObservedTags {
        struct json_object *list; /* as it is in the object; NULL if it is none */
        ObservedTag *items;       /* those that are entries at all, sorted by tag, then by index */
        size_t n_items;
} ObservedTags;

/* images: imageStatuses, or NULL. */
int observed_tags_read(struct json_object *images, const char *name, ObservedTags *ret);
void observed_tags_done(ObservedTags *tags);

/* The entry of a tag, or NULL. Of several, which there should not be, one that finishes the version. */
struct json_object *observed_tags_find(const ObservedTags *tags, const char *tag, int64_t version);

/* Looks up one tag that finishes the version. Quick if the list is sorted, as it should be. */
struct json_object *observed_find_finished(struct json_object *images, const char *name,
                                           const char *tag, int64_t version);

/* _IMAGE_PHASE_MAX: none that is known. */
ImagePhase observed_phase(struct json_object *entry);

/* It ended, well or not, for this version: it has a final phase and a time. */
bool observed_is_finished(struct json_object *entry, int64_t version);

/* When it ended, in seconds since the epoch; 0: it did not. */
int64_t observed_completed_at(struct json_object *entry);

/* The member if it is of the type, else NULL. The object may be NULL or none. */
struct json_object *observed_member(struct json_object *object, const char *key, json_type type);
