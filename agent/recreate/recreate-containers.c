/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/recreate/recreate-containers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/text.h"
#include "agent/base/time-units.h"

#define SEC ((uint64_t) 1000000)

int request_containers_set(RequestContainers *containers, const RecreateSpec *spec) {
        request_containers_done(containers);
        containers->items = calloc(spec->n_containers + 1, sizeof(containers->items[0]));
        if (!containers->items)
                return -ENOMEM;

        for (size_t i = 0; i < spec->n_containers; i++) {
                containers->items[i].name = strdup(spec->containers[i].name);
                if (!containers->items[i].name)
                        return -ENOMEM;
                containers->n_items++;
        }

        return 0;
}

void request_containers_done(RequestContainers *containers) {
        for (size_t i = 0; i < containers->n_items; i++) {
                free(containers->items[i].name);
                free(containers->items[i].id);
                free(containers->items[i].ended_id);
        }
        free(containers->items);
        *containers = (RequestContainers){ .items = NULL };
}

bool request_containers_are_of(const RequestContainers *containers, const RecreateSpec *spec) {
        if (containers->n_items != spec->n_containers || !containers->items)
                return false;

        for (size_t i = 0; i < spec->n_containers; i++)
                if (strcmp(containers->items[i].name, spec->containers[i].name) != 0)
                        return false;

        return true;
}

RequestContainer *request_containers_find(const RequestContainers *containers, const char *name) {
        for (size_t i = 0; i < containers->n_items; i++)
                if (strcmp(containers->items[i].name, name) == 0)
                        return &containers->items[i];

        return NULL;
}

static bool is_running(const RuntimePod *pod, const char *id) {
        for (size_t i = 0; pod && i < pod->n_containers; i++)
                if (strcmp(pod->containers[i].id, id) == 0)
                        return pod->containers[i].is_running;
        for (size_t i = 0; pod && i < pod->n_former; i++)
                if (strcmp(pod->former[i].id, id) == 0)
                        return pod->former[i].is_running;

        return false;
}

static bool is_stopped(const RuntimeContainer *container, const Stops *stops, const char *owner) {
        return !container->is_running && stops_has_stopped(stops, owner, container->id);
}

/* Whether a stop of this request has ended a container of that name. A container that still runs
 * does not count, even if its stop has begun. */
static bool was_killed(const RuntimePod *pod, const RecreateContainer *container,
                       const Stops *stops, const char *owner) {
        const char *id = container->context_id ? strstr(container->context_id, "://") : NULL;
        const RuntimeContainer *newest = pod ? runtime_pod_find(pod, container->name) : NULL;
        const char *stopped = stops_find_stopped(stops, owner, container->name);

        if (stopped && !is_running(pod, stopped))
                return true;

        /* Records of older versions do not name the container. */
        id = id ? id + strlen("://") : NULL;
        if (id && !is_running(pod, id) && stops_has_stopped(stops, owner, id))
                return true;
        if (newest && is_stopped(newest, stops, owner))
                return true;

        for (size_t i = 0; pod && i < pod->n_former; i++)
                if (strcmp(pod->former[i].name, container->name) == 0 &&
                    is_stopped(&pod->former[i], stops, owner))
                        return true;

        return false;
}

static int note_newest(RequestContainer *container, const RuntimeContainer *newest,
                       uint64_t now_usec) {
        if (!container->id || strcmp(container->id, newest->id) != 0) {
                if (text_set(&container->id, newest->id) < 0)
                        return -ENOMEM;
                container->is_running = false;
        }
        if (newest->is_running && !container->is_running)
                container->seen_usec = now_usec;

        container->is_running = newest->is_running;
        container->is_exited = newest->is_exited;
        container->restart_count = newest->restart_count;
        container->created_at_nsec = newest->created_at_nsec;
        return 0;
}

int request_containers_note(RequestContainers *containers, const RecreateSpec *spec,
                            const RuntimePod *pod, const Stops *stops, const char *owner,
                            uint64_t now_usec) {
        for (size_t i = 0; i < containers->n_items; i++) {
                RequestContainer *container = &containers->items[i];
                const RuntimeContainer *newest =
                        pod ? runtime_pod_find(pod, container->name) : NULL;
                int r;

                container->was_killed = was_killed(pod, &spec->containers[i], stops, owner);
                r = newest ? note_newest(container, newest, now_usec) : 0;
                if (r < 0)
                        return r;
                if (!newest)
                        container->id = (free(container->id), NULL);
        }

        return 0;
}

int request_container_note_end(RequestContainer *container, const char *id, bool was_killed) {
        free(container->ended_id);
        container->ended_id = strdup(id);
        container->was_killed = container->was_killed || was_killed;
        return container->ended_id ? 0 : -ENOMEM;
}

static bool has_id(const char *container_id, const char *id) {
        const char *end = container_id ? strstr(container_id, "://") : NULL;

        return end && id && strcmp(end + strlen("://"), id) == 0;
}

/* Reads the controller's copy of the pod's status, for when the agent cannot see the pod. */
static bool is_ready_in_snapshot(const RecreateSpec *spec, const RequestContainer *container) {
        for (size_t i = 0; i < spec->n_snapshot; i++)
                if (strcmp(spec->snapshot[i].name, container->name) == 0)
                        return spec->snapshot[i].is_ready &&
                               has_id(spec->snapshot[i].container_id, container->id);

        return false;
}

/* Returns the longer of two ages: since it was seen running, and by this node's clock since its
 * start in the pod's status. That start is in whole seconds, so one more second is taken off. */
static uint64_t get_age(const RequestContainer *container, const PodContainer *in_pod,
                        const RequestContainersView *view) {
        uint64_t seen_usec = view->now_usec - container->seen_usec, age_usec;

        if (!container->id || !container->is_running)
                return 0;
        if (!in_pod || !has_id(in_pod->container_id, container->id) ||
            in_pod->started_at_sec <= 0 ||
            in_pod->started_at_sec >= view->wall_usec / (int64_t) SEC)
                return seen_usec;

        age_usec = (uint64_t) (view->wall_usec - (in_pod->started_at_sec + 1) * (int64_t) SEC);
        return age_usec > seen_usec ? age_usec : seen_usec;
}

/* A container that a stop found not started may run by now. */
static bool is_ended(const RequestContainer *container) {
        return !container->is_running && container->id && container->ended_id &&
               strcmp(container->id, container->ended_id) == 0;
}

/* Converts the runtime's time, by this node's clock, to the server's clock, which the request's
 * creation time uses. */
static int64_t get_created_sec(const RequestContainer *container,
                               const RequestContainersView *view) {
        int64_t ahead_usec = view->wall_usec - view->server_usec;

        return (container->created_at_nsec / NSEC_PER_USEC - ahead_usec) / (int64_t) SEC;
}

static RecreateFact make_fact(const RequestContainer *container, const RecreateSpec *spec,
                              const RequestContainersView *view) {
        const PodContainer *in_pod = view->pod ? pod_find(view->pod, container->name) : NULL;
        bool is_this = in_pod && has_id(in_pod->container_id, container->id);
        RecreateFact fact = {
                .is_here = container->id,
                .is_running = container->is_running,
                .is_exited = container->is_exited || is_ended(container),
                .id = container->id,
                .was_killed = container->was_killed,
                .restart_count = container->restart_count,
                .created_at_sec = get_created_sec(container, view),
                .age_usec = get_age(container, in_pod, view),
                .is_pod_known = view->pod,
                .is_in_pod = in_pod,
                .runs_once =
                        in_pod ? in_pod->kind == POD_CONTAINER_INIT : view->pod && container->id,
                .rules_decide = in_pod && in_pod->rules_decide,
                .stays_ended = is_this && in_pod->stays_ended,
                .is_ready = is_this && in_pod->is_ready && in_pod->is_running,
                .is_stopping = view->stopping && strcmp(view->stopping, container->name) == 0,
                .rest_usec = container->rest_usec > view->now_usec
                                     ? container->rest_usec - view->now_usec
                                     : 0,
        };

        if (!view->pod || !view->are_pods_known)
                fact.is_ready = fact.is_ready || is_ready_in_snapshot(spec, container);
        return fact;
}

int request_containers_to_facts(const RequestContainers *containers, const RecreateSpec *spec,
                                const RequestContainersView *view, RecreateFact **ret) {
        RecreateFact *facts;

        facts = calloc(containers->n_items + 1, sizeof(facts[0]));
        if (!facts)
                return -ENOMEM;

        for (size_t i = 0; i < containers->n_items; i++)
                facts[i] = make_fact(&containers->items[i], spec, view);

        *ret = facts;
        return 0;
}
