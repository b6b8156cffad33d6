/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "agent/base/backoff.h"
#include "agent/base/cleanup.h"
#include "agent/recreate/recreate-request.h"
#include "cri/client.h"

#define NSEC_PER_SEC ((int64_t) 1000000000)
#define USEC_PER_SEC ((int64_t) 1000000)

const char *recreate_request_runtime_uid(const RecreateRequest *request) {
        const Pod *pod = recreate_request_pod(request);

        return pod ? pod->runtime_uid : request->spec->pod_uid;
}

const RuntimePod *recreate_request_find_running(const RecreateRequest *request,
                                                const RuntimePods *running) {
        const RecreateSpec *spec = request->spec;
        const char *uid = recreate_request_runtime_uid(request);

        return uid && spec->pod_name
                       ? runtime_pods_find(running, spec->namespace, spec->pod_name, uid)
                       : NULL;
}

static bool is_of(const CriContainer *container, const char *name) {
        const char *label = cri_container_label(container, LABEL_CONTAINER_NAME);

        return label && strcmp(label, name) == 0;
}

static bool is_running(const CriContainerList *list, const char *id) {
        for (size_t i = 0; i < list->n_containers; i++)
                if (strcmp(list->containers[i]->id, id) == 0)
                        return list->containers[i]->state ==
                               RUNTIME__V1__CONTAINER_STATE__CONTAINER_RUNNING;

        return false;
}

/* Whether one of its containers was ended for this request. One that runs was not, whatever has
 * begun with it. */
static bool was_killed(const RecreateRequest *request, const CriContainerList *list,
                       const RequestContainer *container, const char *context_id) {
        const Stops *stops = request->recreate->stops;
        const char *id = context_id ? strstr(context_id, "://") : NULL;
        cleanup(free_p) char *owner = NULL;

        if (asprintf(&owner, "recreate/%s", request->spec->uid) < 0) {
                owner = NULL;
                return false;
        }

        id = id ? id + strlen("://") : NULL;
        if (id && !is_running(list, id) && stops_has_stopped(stops, owner, id))
                return true;

        for (size_t i = 0; i < list->n_containers; i++) {
                const CriContainer *listed = list->containers[i];

                if (is_of(listed, container->name) && !is_running(list, listed->id) &&
                    stops_has_stopped(stops, owner, listed->id))
                        return true;
        }

        return false;
}

static void note_missing(RequestContainer *container) {
        free(container->id);
        container->id = NULL;
}

static int note_newest(RequestContainer *container, const RuntimeContainer *newest,
                       uint64_t now_usec) {
        if (!container->id || strcmp(container->id, newest->id) != 0) {
                free(container->id);
                container->id = strdup(newest->id);
                if (!container->id)
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

static int note_list(RecreateRequest *request, const CriContainerList *list) {
        cleanup(runtime_pods_done) RuntimePods pods = RUNTIME_PODS_INIT;
        uint64_t now_usec = recreate_now_usec(request->recreate);
        const RuntimePod *pod;
        int r;

        r = runtime_pods_read(list, &pods);
        if (r < 0)
                return r;

        pod = recreate_request_find_running(request, &pods);
        for (size_t i = 0; i < request->n_containers; i++) {
                RequestContainer *container = &request->containers[i];
                const RuntimeContainer *newest =
                        pod ? runtime_pod_find(pod, container->name) : NULL;

                container->was_killed = was_killed(request, list, container,
                                                   request->spec->containers[i].context_id);
                r = newest ? note_newest(container, newest, now_usec) : 0;
                if (r < 0)
                        return r;
                if (!newest)
                        note_missing(container);
        }

        return 0;
}

static int on_listed(const void *reply, const Error *error, void *userdata) {
        RecreateRequest *request = userdata;
        uint32_t random = 0;
        int r;

        request->list = rpc_call_unref(request->list);
        if (error) {
                (void) getrandom(&random, sizeof(random), GRND_NONBLOCK);
                request->is_stale = true;
                request->list_rest_usec = recreate_now_usec(request->recreate) +
                                          backoff_usec(++request->n_list_failures, random);
                log_debug(request->recreate->log, NULL,
                          "Cannot look at the pod of the restart request `%s/%s`: %s.",
                          request->spec->namespace, request->spec->name, error_message(error));
                return recreate_look(request->recreate);
        }

        request->n_list_failures = 0;
        r = note_list(request, reply);
        return r < 0 ? r : recreate_look(request->recreate);
}

int recreate_request_ask(RecreateRequest *request, RpcClient *client) {
        uint64_t now_usec = recreate_now_usec(request->recreate);
        const char *uid = recreate_request_runtime_uid(request);

        if (request->list || !uid)
                return 0;
        if (request->list_rest_usec > now_usec) {
                recreate_request_wait(request, request->list_rest_usec - now_usec);
                return 0;
        }

        request->is_stale = false;
        return cri_list_pod_containers(client, uid, on_listed, request, &request->list);
}

static bool has_id(const char *container_id, const char *id) {
        const char *end = container_id ? strstr(container_id, "://") : NULL;

        return end && id && strcmp(end + strlen("://"), id) == 0;
}

/* A controller's copy of the pod's status, for when the pod cannot be seen. */
static bool is_ready_in_snapshot(const RecreateSpec *spec, const RequestContainer *container) {
        for (size_t i = 0; i < spec->n_snapshot; i++)
                if (strcmp(spec->snapshot[i].name, container->name) == 0)
                        return spec->snapshot[i].is_ready &&
                               has_id(spec->snapshot[i].container_id, container->id);

        return false;
}

/* Because it has been seen running for so long, or by the clock of this node. The pod tells the
 * second in which it began, of which it may have been the end. */
static uint64_t get_age(const RecreateRequest *request, const RequestContainer *container,
                        const PodContainer *in_pod) {
        uint64_t seen_usec = recreate_now_usec(request->recreate) - container->seen_usec;
        int64_t now_usec = recreate_wall_usec(), end_usec;

        if (!container->is_running)
                return 0;
        if (!in_pod || !has_id(in_pod->container_id, container->id) ||
            in_pod->started_at_sec <= 0 || in_pod->started_at_sec >= now_usec / USEC_PER_SEC)
                return seen_usec;

        end_usec = (in_pod->started_at_sec + 1) * USEC_PER_SEC;
        return (uint64_t) (now_usec - end_usec) > seen_usec ? (uint64_t) (now_usec - end_usec)
                                                            : seen_usec;
}

/* Unless it had not even begun, and runs now. */
static bool is_ended(const RequestContainer *container) {
        return !container->is_running && container->id && container->ended_id &&
               strcmp(container->id, container->ended_id) == 0;
}

/* The runtime goes by the clock of this node, a request's creation by the server's. */
static int64_t get_created_sec(const RecreateRequest *request, const RequestContainer *container) {
        int64_t ahead_usec = recreate_wall_usec() - recreate_server_usec(request->recreate);

        return (container->created_at_nsec / (NSEC_PER_SEC / USEC_PER_SEC) - ahead_usec) /
               USEC_PER_SEC;
}

static void fill_fact(RecreateRequest *request, const RequestContainer *container, const Pod *pod,
                      RecreateFact *ret) {
        uint64_t now_usec = recreate_now_usec(request->recreate);
        const PodContainer *in_pod = pod ? pod_find(pod, container->name) : NULL;
        const char *id = container->id;

        *ret = (RecreateFact){
                .is_here = id,
                .is_running = container->is_running,
                .is_exited = container->is_exited || is_ended(container),
                .id = id,
                .was_killed = container->was_killed,
                .restart_count = container->restart_count,
                .created_at_sec = get_created_sec(request, container),
                .age_usec = id ? get_age(request, container, in_pod) : 0,
                .is_pod_known = pod,
                .is_in_pod = in_pod,
                .is_ready = in_pod && in_pod->is_ready && in_pod->is_running &&
                            has_id(in_pod->container_id, id),
                .is_stopping = request->stop && strcmp(request->stop_name, container->name) == 0,
                .rest_usec = container->rest_usec > now_usec ? container->rest_usec - now_usec : 0,
        };
        if (!pod || !pods_are_synced(request->recreate->pods))
                ret->is_ready = ret->is_ready || is_ready_in_snapshot(request->spec, container);
}

int recreate_request_make_facts(RecreateRequest *request, RecreateFact **ret) {
        const Pod *pod = recreate_request_pod(request);
        RecreateFact *facts;

        facts = calloc(request->n_containers + 1, sizeof(facts[0]));
        if (!facts)
                return -ENOMEM;

        for (size_t i = 0; i < request->n_containers; i++)
                fill_fact(request, &request->containers[i], pod, &facts[i]);

        *ret = facts;
        return 0;
}
