/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which of several requests for one pod comes first
 *
 * Pure. A pod is told by its UID, so that a request for an earlier pod of the same name is in
 * nobody's way.
 */

#include "agent/recreate/recreate-spec.h"

/* Both are about the same pod. */
bool recreate_queue_is_same_pod(const RecreateSpec *a, const RecreateSpec *b);

/* For qsort(): those of a pod stand together; of them, first the one that has begun, then those
 * that know that they wait, then the others; the older first, and those of one second by their
 * names. */
int recreate_queue_compare(const RecreateSpec *a, const RecreateSpec *b);
