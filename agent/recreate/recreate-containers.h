/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is known of the containers that a request names
 *
 * Put together from what the runtime lists, what the pod's status says, and what the stops of the
 * request have led to; the outcome is what recreate_plan_step() decides by. No loop, no clock.
 */

#include "agent/pod/pod.h"
#include "agent/pod/runtime-pods.h"
#include "agent/pod/stops.h"
#include "agent/recreate/recreate-plan.h"

typedef struct RequestContainer {
        char *name;
        char *id; /* of the newest in the runtime; NULL: there is none */
        bool is_running;
        bool is_exited;
        bool was_killed;
        int64_t restart_count;
        int64_t created_at_nsec; /* since 1970 */
        uint64_t seen_usec;      /* when this one was first seen running */
        char *ended_id;          /* of one that a stop has ended, or found ended */
        uint64_t rest_usec;      /* not to be stopped before */
} RequestContainer;

typedef struct RequestContainers {
        RequestContainer *items; /* as in the spec; NULL: none were set */
        size_t n_items;
} RequestContainers;

/* Those of the spec, of which nothing is known yet. */
int request_containers_set(RequestContainers *containers, const RecreateSpec *spec);
void request_containers_done(RequestContainers *containers);

/* They are those of the spec, in its order. */
bool request_containers_are_of(const RequestContainers *containers, const RecreateSpec *spec);
/* NULL: there is none of that name. */
RequestContainer *request_containers_find(const RequestContainers *containers, const char *name);

/* The runtime has listed the pod; NULL: it has none of its containers. owner: of the stops of the
 * request. */
int request_containers_note(RequestContainers *containers, const RecreateSpec *spec,
                            const RuntimePod *pod, const Stops *stops, const char *owner,
                            uint64_t now_usec);
/* A stop has ended it, or found it ended. */
int request_container_note_end(RequestContainer *container, const char *id, bool was_killed);

typedef struct RequestContainersView {
        uint64_t now_usec; /* monotonic */
        int64_t wall_usec; /* since 1970, by this node's clock, and by the server's */
        int64_t server_usec;
        const Pod *pod; /* NULL: there is none, or none is known */
        bool are_pods_known;
        const char *stopping; /* the name of the container that is being stopped, or NULL */
} RequestContainersView;

/* What is known now, one for each container; the caller frees *ret. */
int request_containers_to_facts(const RequestContainers *containers, const RecreateSpec *spec,
                                const RequestContainersView *view, RecreateFact **ret);
