/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/recreate/recreate-queue.h"

#include <string.h>

static int compare_pods(const RecreateSpec *a, const RecreateSpec *b) {
        int order = strcmp(a->pod_uid ?: "", b->pod_uid ?: "");

        if (order != 0)
                return order;

        order = strcmp(a->namespace, b->namespace);
        return order != 0 ? order : strcmp(a->pod_name ?: "", b->pod_name ?: "");
}

bool recreate_queue_is_same_pod(const RecreateSpec *a, const RecreateSpec *b) {
        return compare_pods(a, b) == 0;
}

static int weight(const RecreateSpec *spec) {
        switch (spec->status.phase) {
        case RECREATE_RECREATING: return 0;
        case RECREATE_PENDING: return 1;
        case RECREATE_NONE:
        case RECREATE_SUCCEEDED:
        case RECREATE_FAILED:
        case RECREATE_COMPLETED:
        case _RECREATE_PHASE_MAX: break;
        }

        return 2;
}

int recreate_queue_compare(const RecreateSpec *a, const RecreateSpec *b) {
        int order = compare_pods(a, b);

        if (order != 0)
                return order;
        if (weight(a) != weight(b))
                return weight(a) - weight(b);
        if (a->created_at != b->created_at)
                return a->created_at < b->created_at ? -1 : 1;

        return strcmp(a->name, b->name);
}
