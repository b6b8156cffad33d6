/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Updates in place in words
 *
 * Records may have been written by any user: a time that is none is printed as it is, without an age. The caller
 * owns what is returned. Pure.
 */

#include <json-c/json_types.h>
#include <stdint.h>

#include "agent/kubectl/rollout-census.h"

/* "app=v2, side=v2" */
int rollout_text_images(json_object *images, char **ret);

/* The images of these containers, {container: ...}, in the pods as they were written: "app=v2", or "app=v2 (1 pod);
 * app=v1 (2 pods)"; "" without pods. */
int rollout_text_kept(const RolloutView *view, json_object *containers, char **ret);

/* "2026-11-23T04:58:00Z (12m ago)" */
int rollout_text_time(const char *time, int64_t now_sec, char **ret);

/* "the update of 2026-11-23T04:58:00Z (12m ago) by "alice": app from v2 back to v1" */
int rollout_text_undo(json_object *record, int64_t now_sec, char **ret);

/* "the kubelet may start pod web-1 and 2 more up to 20s later: ..."; NULL: none, as far as their annotations show. */
int rollout_text_delay(const Census *census, json_object *record, int64_t now_sec, char **ret);

/* "update to app=v2 by "alice" since 40s (2026-11-23T05:09:20Z) has not ended: 1 of 2 pods
 * updated". census: NULL: its pods are not known. */
int rollout_text_open(json_object *record, const RolloutView *view, const Census *census,
                      int64_t now_sec, char **ret);
