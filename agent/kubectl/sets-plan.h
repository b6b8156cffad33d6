/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Image sets as a command writes and counts them
 *
 * See cluster/image-sets.h. Pure.
 */

#include <json-c/json_types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/error.h"

/* Content of a set. Borrowed. */
typedef struct SetContent {
        const char *name;
        const char *selector;      /* NULL: as it is, and all nodes in a new set */
        const char *const *images; /* references as people write them */
        size_t n_images;
        const char *first;       /* a number; NULL: as it is, and none in a new set */
        const char *parallelism; /* a number; "": none, NULL: as it is, and none in a new set */
        const char *namespace;   /* namespace of the secrets */
        json_object *secrets;    /* {name: null} */
        int64_t now_sec;
} SetContent;

bool set_is_set(json_object *node_image);
const char *set_selector(json_object *set); /* borrowed */
/* Returns the number in an annotation of the set; 0: none. */
int64_t set_limit(json_object *set, const char *annotation);

/* Makes the object, without a version. The caller owns *ret. */
int set_make(const SetContent *content, json_object **ret, Error *reterr);

/* Makes a merge patch that gives the set this content, and is refused if the set has changed meanwhile. A tag that it
 * has already stays as it is. *ret is NULL if nothing differs; the caller owns it. */
int set_change(json_object *set, const SetContent *content, json_object **ret, Error *reterr);

/* The nodes that a set selects. */
typedef struct SetCount {
        size_t n_nodes;
        size_t n_ready;  /* nodes that have all its images */
        size_t n_failed; /* nodes where the pull of one has failed */
} SetCount;

size_t set_n_images(json_object *set); /* tags */

/* Counts a node by its NodeImage. Refuses a faulty selector. */
int set_count(json_object *set, json_object *node_image, SetCount *count, Error *reterr);
