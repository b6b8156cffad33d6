/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Plan of a refresh: which tags of a workload are resolved again, and what follows from their digests
 *
 * An image that is written with a digest alone has no tag to resolve. The digest goes behind the tag, "app:1@sha256:...",
 * where the next refresh finds the tag again; runtimes and kubelets go by the digest. Pure.
 */

#include <json-c/json_types.h>
#include <stdint.h>

#include "agent/base/error.h"
#include "agent/kubectl/rollout-kinds.h"

/* *ret: {container: "app:1"}, the images without their digests. *ret_fixed: "a, b", containers whose image has no tag; "" if
 * there are none. The caller owns both. */
int refresh_find_tags(json_object *template, json_object **ret, char **ret_fixed, Error *reterr);

/* "a, b": volumes that are images, which cannot change in a pod; "": there are none. The caller owns *ret. */
int refresh_name_volumes(json_object *template, char **ret);

/* images: {image: null}; nodes: those of a PreloadResult of these images. *ret: {image: [digest]}, those that all nodes have for it: more than one
 * where the same content was pushed in several forms. Refused if a node reports none, or nodes have different
 * ones. The caller owns *ret. */
int refresh_read_digests(json_object *images, json_object *nodes, json_object **ret, Error *reterr);

/* Finds the containers that do not run such a digest in all pods. *ret: {container: image}, to be set; empty: all is up to date.
 * *ret_before: the same with the digests that pods run now, as far as they are known: the way back must not lead to the tag,
 * which has moved. Pods with ordinals below the partition stay as they are, whatever they run. The caller owns both. */
int refresh_plan(const RolloutView *view, int64_t partition, json_object *tags,
                 json_object *digests, json_object **ret, json_object **ret_before);
