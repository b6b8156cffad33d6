/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Pods that can be found by name and by UID: part of pods.h
 */

#include "agent/pod/pod.h"

/* Both arrays have the same pods in them, which are owned. */
typedef struct PodList {
        Pod **by_name; /* namespace, and name */
        Pod **by_uid;  /* and then as above: a server may tell nonsense */
        size_t n_items;
        size_t n_room;
} PodList;

/* Takes the pod over, if it does not fail. The one that had its name before goes to the caller, who
 * owns it; NULL: there was none. */
int pod_list_put(PodList *list, Pod **pod, Pod **ret_before);

/* The caller owns it. NULL: there is none. */
Pod *pod_list_take(PodList *list, const char *namespace, const char *name);

const Pod *pod_list_find(const PodList *list, const char *namespace, const char *name);
const Pod *pod_list_find_uid(const PodList *list, const char *uid);

void pod_list_done(PodList *list);
