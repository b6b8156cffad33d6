/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Pods by namespace and name: part of pods.h
 *
 * Not by UID, which is what many a text of somebody else's names: whoever has one compares it with
 * that of the pod that he means.
 */

#include "agent/pod/pod.h"

typedef struct PodList {
        Pod **items; /* owned, in that order */
        size_t n_items;
        size_t n_room;
} PodList;

/* Takes the pod over, if it does not fail. The one that had its name before goes to the caller, who
 * owns it; NULL: there was none. */
int pod_list_put(PodList *list, Pod **pod, Pod **ret_before);

/* The caller owns it. NULL: there is none. */
Pod *pod_list_take(PodList *list, const char *namespace, const char *name);

const Pod *pod_list_find(const PodList *list, const char *namespace, const char *name);

void pod_list_done(PodList *list);
