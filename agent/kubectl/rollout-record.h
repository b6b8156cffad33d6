/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Record of an update in place, in an annotation of the workload
 *
 * It says by whom, the images before and after, and the part of the spec that gives the workload back. So the workload
 * itself shows what is under way, and any program can go on with it. Any user who may write the workload may have
 * written it. Pure.
 */

#include <json-c/json_types.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/base/error.h"

#define ROLLOUT_ANNOTATION "inplaced.io/rollout"

/* The record of the workload, owned by the caller: NULL if there is none, or one that does not matter any
 * more. Refused if it cannot be read. */
int rollout_record_read(json_object *workload, json_object **ret, Error *reterr);

/* Each reads a record, which is borrowed, and so are the results. */
bool rollout_record_is_open(json_object *record); /* it has begun and has not ended */
bool record_is_undo(json_object *record);         /* it is open, on the way back */
bool record_leads_back(json_object *record);      /* the same, also when it is closed */
bool record_undoes(json_object *record);          /* an update that had ended, by going forward */
bool record_sets_images(json_object *record);     /* also those of the template */
json_object *record_images(json_object *record, bool is_before);
/* The images that the pods should have, also when it is closed. */
json_object *record_target(json_object *record);
/* The number of pods after which the update waits; 0: it does not. */
int64_t record_first(json_object *record);
/* The partition that a StatefulSet has after this update. */
int64_t record_partition(json_object *record);
/* The partition before it. */
int64_t record_former_partition(json_object *record);

/* The images that this update has written into a template that follows the pods; NULL: it has not yet. */
json_object *record_written(json_object *record);

/* A patch of the workload with this record, and with the version that was seen. NULL: no memory. */
json_object *takeover_patch(json_object *workload, json_object *record);
/* The record of an update that writes the images before or after into the template in the same request: from then on
 * others in there are another client's. NULL: no memory. */
json_object *takeover_patch_written(json_object *workload, json_object *record, bool is_before);
/* The record in another state; gives_back: and the controller may act again. */
int takeover_patch_state(json_object *workload, json_object *record, const char *state,
                         bool gives_back, json_object **ret);
/* Notes in the record of an ended update that an attempt after it was refused at that time, so that --undo
 * does not take it for that attempt; NULL: not any more. */
int takeover_patch_refused(json_object *workload, json_object *record, const char *time,
                           json_object **ret);
/* Adds these images to the template that a patch of the workload writes. */
int takeover_add_images(json_object *patch, json_object *workload, json_object *images);
