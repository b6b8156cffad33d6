/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How the kubelet restarts a container without help: its image is spelled in another way
 *
 * The kubelet replaces a container when the text of its image changes. The text that names the same content is
 * the digest that the node reports, with or without the tag: so nothing is pulled, but where the pull policy is
 * Always. An annotation of the pod keeps the image as it was written, and which texts were used when: the kubelet
 * delays a container that it starts repeatedly, and counts for each text alone. Pure.
 */

#include <json-c/json_types.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/base/error.h"

/* {"labels": {key: value}, "annotations": ...}, where null removes; "key=value" and "key-", ended by NULL. The caller
 * owns *ret. */
int restart_changes_parse(const char *const *labels, const char *const *annotations,
                          json_object **ret, Error *reterr);

/* Refused if the workload with this selector would lose the pod. */
int restart_changes_check(json_object *changes, json_object *pod, json_object *selector,
                          Error *reterr);

/* Refused if an update has changed the image of the container, and the container from before is still there, or the pod is
 * out of service still. */
int restart_image_check(json_object *pod, const char *container, Error *reterr);

/* Whether the kubelet starts the container again after any exit status, and it alone. */
bool restart_image_comes_back(json_object *pod, const char *container);

/* The same of these containers, a list of names. */
bool restart_image_all_come_back(json_object *pod, json_object *containers);

/* Refused if it has ended, and the kubelet might not start it again, for another image neither. */
int restart_image_check_ended(json_object *pod, const char *container, Error *reterr);

/* Refused if a request, which stops these containers, could end one of them for ever, and the pod with it. */
int restart_image_check_stop(json_object *pod, json_object *containers, Error *reterr);

/* The strategic merge patch that restarts these containers, a list of names; refused for a static pod, where no digest of an
 * image is known, or where what runs may be another image than that of the spec, or where the kubelet would delay the start
 * of a container, or might not be able to pull, while its restart policy or rules may end it.
 * *ret_delay_sec: how long the kubelet will delay a start, as far as the annotation shows. The caller owns *ret. */
int restart_image_patch(json_object *pod, json_object *containers, json_object *changes,
                        int64_t now_sec, json_object **ret, int64_t *ret_delay_sec, Error *reterr);

/* Whether the pod has been written by this patch, which may be NULL. */
bool restart_image_is_written(json_object *pod, json_object *patch);

/* Adds to the annotations of a patch of the pod that containers, {name: image}, start with these images now: those
 * that the kubelet starts because of that patch. */
int restart_image_note(json_object *pod, json_object *images, int64_t now_sec,
                       json_object *annotations);
/* How long the kubelet will delay the first of them, as far as the annotation shows; 0: it will not. */
int64_t restart_image_delay(json_object *pod, json_object *images, int64_t now_sec);

/* When the container got the image that it has, from a restart or an update, by the annotation; 0: from neither. */
int64_t restart_image_began(json_object *pod, const char *container);

/* The kubelet is about to replace a container for the image that a restart or an update has written, as far as the annotation
 * shows: a pod is ready until the container before has ended. Not for ever, as there may be no kubelet that does so. */
bool restart_image_is_awaited(json_object *pod, int64_t now_sec);

/* The patch that spells the images as before, for containers that could not be started, but not those for which another
 * client has written an image since. The caller owns *ret; NULL: there is nothing to write. */
int restart_image_unpatch(json_object *before, json_object *pod, json_object *containers,
                          json_object **ret);
