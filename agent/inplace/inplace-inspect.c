/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/random.h"
#include "agent/base/text.h"
#include "agent/inplace/inplace-pod.h"
#include "agent/inplace/inspection.h"
#include "agent/pod/env-hash.h"

#define INSPECTIONS_MAX 8
#define REFRESH_USEC (300 * USEC_PER_SEC)
#define REFRESH_JITTER_USEC (30 * USEC_PER_SEC)

DEFINE_CLEANUP(Inspection *, inspection_free)

/* Decides what to inspect and when, and applies the answers. */

/* Skips ordinary init containers, which have ended before any inspection matters. */
static bool is_inspected(const PodContainer *state) {
        return state->kind != POD_CONTAINER_INIT && state->container_id[0];
}

static bool wants_env(const InPlaceContainer *container) {
        return inplace_pod_follows_env(container->pod) && inplace_container_has_env(container);
}

static bool lacks_env(const InPlaceContainer *container) {
        return container->fact.id && wants_env(container) && !container->fact.knows_env;
}

static bool container_wants_list(const InPlaceContainer *container) {
        const PodContainer *state = inplace_container_state(container);

        if (!is_inspected(state))
                return false;
        if (container->is_incomplete || container->restart.state == INPLACE_RESTART_REPLACED ||
            lacks_env(container))
                return true;

        return !inplace_container_is_known(container) &&
               (!container->inspected_id ||
                strcmp(container->inspected_id, state->container_id) != 0);
}

static bool container_wants_reference(const InPlaceContainer *container) {
        const PodContainer *state = inplace_container_state(container);

        return is_inspected(state) && state->image[0] &&
               (container->pod->inspection.must_refresh || !container->reference ||
                strcmp(container->reference, state->image) != 0);
}

static bool pod_wants_list(const InPlacePod *pod) {
        for (size_t i = 0; i < pod->n_containers; i++)
                if (container_wants_list(&pod->containers[i]))
                        return true;

        return false;
}

static bool pod_wants_reference(const InPlacePod *pod) {
        for (size_t i = 0; i < pod->n_containers; i++)
                if (container_wants_reference(&pod->containers[i]))
                        return true;

        return false;
}

bool inplace_pod_is_settled(const InPlacePod *pod) {
        if (pod->inspection.state == INPLACE_INSPECTION_LISTING)
                return false;

        return pod->inspection.retry.n_failures > 0 || !pod_wants_list(pod);
}

/* Makes the full ID with the runtime of the container in the pod's status. */
static int fact_set(InPlaceContainer *container, const InspectionAnswer *answer) {
        const char *named = container->inspected_id;
        const char *end = strstr(named, "://");
        InPlaceFact *fact = &container->fact;
        char *full_id;
        int r;

        if (text_format(&full_id, "%.*s://%s", end ? (int) (end - named) : 0, named, answer->id) <
            0)
                return -ENOMEM;

        free(fact->full_id);
        fact->full_id = full_id;
        r = text_set(&fact->id, answer->id);
        if (r < 0)
                return r;

        r = text_set(&fact->image, container->asked_image ?: "");
        if (r < 0)
                return r;

        fact->restart_count = answer->restart_count;
        fact->kubelet_hash = answer->kubelet_hash;
        fact->env_hash = 0;
        fact->knows_env = false;
        container->kubelet_usec = 0;
        container->attempts.retry_usec = 0;
        return text_set(&fact->running_id, "");
}

/* Fills in the values that were unknown. */
static int fact_complete(InPlaceContainer *container, const InspectionAnswer *answer) {
        InPlaceFact *fact = &container->fact;

        if (!inplace_container_has_env(container)) {
                fact->env_hash = ENV_HASH_NONE;
                fact->knows_env = true;
        } else if (!fact->knows_env && container->has_asked_env &&
                   (answer->env_hash != 0 || !answer->is_incomplete)) {
                fact->env_hash = answer->env_hash;
                fact->knows_env = true;
        }

        return answer->running_id[0] ? text_set(&fact->running_id, answer->running_id) : 0;
}

static int container_take_fact(InPlaceContainer *container, const InspectionAnswer *answer) {
        InPlaceFact *fact = &container->fact;
        bool is_new = !fact->id || strcmp(fact->id, answer->id) != 0;
        int r;

        if (is_new) {
                r = fact_set(container, answer);
                if (r < 0)
                        return r;
        }

        fact->was_running = answer->is_running;
        if (answer->has_other_image)
                container->pod->has_new_image = true;
        r = fact_complete(container, answer);
        if (r < 0)
                return r;

        if (answer->is_hash_plain ||
            (fact->kubelet_hash != 0 &&
             fact->kubelet_hash == inplace_container_state(container)->plain_hash))
                container->pod->inplace->knows_kubelet = true;

        r = is_new ? inplace_container_restore_restart(container) : 0;
        if (r < 0)
                return r;

        return inplace_container_check_result(container);
}

static int container_take(InPlaceContainer *container, const InspectionAnswer *answer,
                          bool is_listing) {
        char *asked_id = take_ptr(container->asked_id);
        cleanup(free_p) char *asked_image = NULL;
        int r;

        if (is_listing) {
                free(container->inspected_id);
                container->inspected_id = asked_id;
                if (container->restart.state == INPLACE_RESTART_REPLACED)
                        container->restart.state = INPLACE_RESTART_STOPPED;
        } else {
                free(asked_id);
        }

        r = is_listing && answer->id[0] ? container_take_fact(container, answer) : 0;
        if (r < 0)
                return r;

        container->is_incomplete = answer->is_incomplete;
        asked_image = take_ptr(container->asked_image);
        if (!asked_image || (answer->is_incomplete && !answer->reference_id[0]))
                return 0;

        free(container->reference);
        container->reference = take_ptr(asked_image);
        return text_set(&container->reference_id, answer->reference_id);
}

/* The runtime has no such container, or is still making it, and the agent lacks data of the one
 * before. The runtime has not failed, but asking again at once would not help. */
static bool is_fruitless(const InPlacePod *pod, const InspectionAnswer *answers) {
        for (size_t i = 0; i < pod->n_containers; i++)
                if (!answers[i].id[0] && lacks_env(&pod->containers[i]))
                        return true;

        return false;
}

/* error: NULL if there is nothing to log. */
static int pod_inspection_failed(InPlacePod *pod, const Error *error) {
        if (error && log_once(&pod->inspection.logged, error_message(error)))
                log_warning(pod->inplace->context->log, NULL,
                            "Cannot inspect all containers of pod \"%s/%s\", trying again: %s.",
                            pod->pod->namespace, pod->pod->name, error_message(error));
        return retry_later(&pod->inspection.retry, 0);
}

static int pod_inspection_succeeded(InPlacePod *pod) {
        (void) log_once(&pod->inspection.logged, NULL);
        retry_reset(&pod->inspection.retry);
        return 0;
}

static int on_inspected(const InspectionAnswer *answers, const Error *error, void *userdata) {
        InPlacePod *pod = userdata;
        cleanup(inspection_free_p) Inspection *inspection = take_ptr(pod->inspection.pending);
        bool is_listing = pod->inspection.state == INPLACE_INSPECTION_LISTING;
        int r = 0;

        pod->inspection.state = INPLACE_INSPECTION_NONE;
        pod->inplace->n_inspections--;
        for (size_t i = 0; answers && r >= 0 && i < pod->n_containers; i++)
                r = container_take(&pod->containers[i], &answers[i], is_listing);
        if (r < 0)
                return r;

        if (error || (is_listing && answers && is_fruitless(pod, answers)))
                r = pod_inspection_failed(pod, error);
        else
                r = pod_inspection_succeeded(pod);
        if (r < 0)
                return r;

        pod->inspection.refresh_usec =
                inplace_now(pod->inplace) + REFRESH_USEC + random_number() % REFRESH_JITTER_USEC;
        r = inplace_continue(pod->inplace);
        if (r < 0)
                return r;

        return inplace_pod_reconcile(pod);
}

/* Remembers the question, since the pod may have changed by the time of the answer. */
static int container_ask(InPlaceContainer *container, InspectionQuestion *ret) {
        const PodContainer *state = inplace_container_state(container);
        const InPlaceFact *fact = &container->fact;
        bool is_all_known =
                fact->id && fact->running_id[0] && (!wants_env(container) || fact->knows_env);
        int r;

        container->has_asked_env = is_inspected(state) && wants_env(container);
        *ret = (InspectionQuestion){ .name = "", .reference = "", .known_id = "" };
        if (!is_inspected(state))
                return 0;

        r = text_set(&container->asked_id, state->container_id);
        if (r < 0)
                return r;

        r = text_set(&container->asked_former_id, state->former_id);
        if (r < 0)
                return r;

        r = text_set(&container->asked_image, state->image);
        if (r < 0)
                return r;

        ret->name = state->name;
        ret->reference = state->image;
        ret->env_names = container->has_asked_env ? state->env_names : NULL;
        ret->known_id = is_all_known ? fact->id : "";
        return 0;
}

static int pod_begin_inspection(InPlacePod *pod, RpcClient *client, bool must_list) {
        cleanup(free_p) InspectionQuestion *questions =
                calloc(pod->n_containers + 1, sizeof(*questions));
        const InspectionOptions options = {
                .client = client,
                .namespace = pod->pod->namespace,
                .pod = pod->pod->name,
                .runtime_uid = pod->pod->runtime_uid,
                .must_list = must_list,
                .questions = questions,
                .n_questions = pod->n_containers,
                .on_done = on_inspected,
                .userdata = pod,
        };
        int r;

        if (!questions)
                return -ENOMEM;

        for (size_t i = 0; i < pod->n_containers; i++) {
                r = container_ask(&pod->containers[i], &questions[i]);
                if (r < 0)
                        return r;
        }

        r = inspection_new(&options, &pod->inspection.pending);
        if (r < 0)
                return r;

        pod->inspection.state =
                must_list ? INPLACE_INSPECTION_LISTING : INPLACE_INSPECTION_RESOLVING;
        pod->inspection.must_refresh = false;
        pod->inspection.began_usec = inplace_now(pod->inplace);
        pod->inplace->n_inspections++;
        return 0;
}

int inplace_pod_inspect(InPlacePod *pod) {
        RpcClient *client = runtimes_client(pod->inplace->context->runtimes);
        InPlaceInspection *inspection = &pod->inspection;
        uint64_t now = inplace_now(pod->inplace);
        bool must_list;

        if (inplace_pod_is_inspecting(pod))
                return 0;

        inspection->state = INPLACE_INSPECTION_NONE;
        if (inplace_pod_is_over(pod))
                return 0;

        if (inspection->refresh_usec > 0 && inspection->refresh_usec <= now)
                inspection->must_refresh = true;
        must_list = pod_wants_list(pod);
        if (!must_list && !pod_wants_reference(pod)) {
                if (inspection->refresh_usec > now)
                        inplace_pod_wake_at(pod, inspection->refresh_usec);
                return 0;
        }

        /* The return of the runtime causes another inspection. */
        if (!client || retry_is_waiting(&inspection->retry))
                return 0;
        if (pod->inplace->n_inspections >= INSPECTIONS_MAX) {
                inspection->state = INPLACE_INSPECTION_QUEUED;
                return 0;
        }

        return pod_begin_inspection(pod, client, must_list);
}
