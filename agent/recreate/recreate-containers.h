/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The containers that a request names
 *
 * Combines the runtime's list, the pod's status and the results of the request's stops into the facts
 * by which recreate_plan_step() decides. No loop, no clock.
 */

#include "agent/pod/pod.h"
#include "agent/pod/runtime-pods.h"
#include "agent/pod/stops.h"
#include "agent/recreate/recreate-plan.h"

typedef struct RequestContainer {
        char *name;
        char *id; /* ID of the newest container in the runtime; NULL: none */
        bool is_running;
        bool is_exited;
        bool was_killed;
        int64_t restart_count;
        int64_t created_at_nsec; /* nanoseconds since 1970 */
        uint64_t seen_usec;      /* time at which it was first seen running */
        char *ended_id;          /* ID of the container that a stop ended, or found ended */
        uint64_t rest_usec;      /* time of the next stop, at the earliest */
} RequestContainer;

typedef struct RequestContainers {
        RequestContainer *items; /* containers in the order of the spec; NULL: not set */
        size_t n_items;
} RequestContainers;

/* Sets the containers of the spec, without any data yet. */
int request_containers_set(RequestContainers *containers, const RecreateSpec *spec);
void request_containers_done(RequestContainers *containers);

/* The containers have the names and the order of the spec. */
bool request_containers_are_of(const RequestContainers *containers, const RecreateSpec *spec);
/* NULL: none of that name. */
RequestContainer *request_containers_find(const RequestContainers *containers, const char *name);

/* Notes the runtime's list; pod NULL: no containers of the pod. owner: the owner's name of the
 * request's stops. */
int request_containers_note(RequestContainers *containers, const RecreateSpec *spec,
                            const RuntimePod *pod, const Stops *stops, const char *owner,
                            uint64_t now_usec);
/* Notes that a stop has ended the container, or found it ended. */
int request_container_note_end(RequestContainer *container, const char *id, bool was_killed);

typedef struct RequestContainersView {
        uint64_t now_usec; /* monotonic */
        int64_t wall_usec; /* microseconds since 1970, by this node's clock and by the server's */
        int64_t server_usec;
        const Pod *pod; /* NULL: none, or unknown */
        bool are_pods_known;
        const char *stopping; /* name of the container that is being stopped, or NULL */
} RequestContainersView;

/* Makes the facts, one for each container; the caller frees *ret. */
int request_containers_to_facts(const RequestContainers *containers, const RecreateSpec *spec,
                                const RequestContainersView *view, RecreateFact **ret);
