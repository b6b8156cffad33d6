/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/backoff.h"
#include "agent/base/cleanup.h"
#include "agent/meta/meta-internal.h"
#include "agent/pod/env-hash.h"

#define LOOKS_MAX 8
#define REFRESH_USEC (300 * USEC_PER_SEC)
#define REFRESH_JITTER_USEC (30 * USEC_PER_SEC)

/* Ordinary init containers have ended when anything here matters. */
static bool is_looked_at(const PodContainer *state) {
        return state->kind != POD_CONTAINER_INIT && state->container_id[0];
}

static bool wants_env(const MetaContainer *container) {
        return meta_pod_takes_part(container->pod) && meta_container_has_env(container);
}

static bool lacks_env(const MetaContainer *container) {
        return container->fact.id && wants_env(container) && !container->fact.knows_env;
}

static bool container_wants_list(const MetaContainer *container) {
        const PodContainer *state = meta_container_state(container);

        if (!is_looked_at(state))
                return false;
        if (container->is_incomplete || container->has_successor || lacks_env(container))
                return true;

        return !meta_container_is_known(container) &&
               (!container->looked_id || strcmp(container->looked_id, state->container_id) != 0);
}

static bool container_wants_reference(const MetaContainer *container) {
        const PodContainer *state = meta_container_state(container);

        return is_looked_at(state) && state->image[0] &&
               (container->pod->must_refresh || !container->reference ||
                strcmp(container->reference, state->image) != 0);
}

static bool pod_wants_list(const MetaPod *pod) {
        for (size_t i = 0; i < pod->n_containers; i++)
                if (container_wants_list(&pod->containers[i]))
                        return true;

        return false;
}

static bool pod_wants_reference(const MetaPod *pod) {
        for (size_t i = 0; i < pod->n_containers; i++)
                if (container_wants_reference(&pod->containers[i]))
                        return true;

        return false;
}

bool meta_pod_is_settled(const MetaPod *pod) {
        if (pod->look && pod->is_listing)
                return false;

        return pod->n_look_failures > 0 || !pod_wants_list(pod);
}

static int replace(char **text, const char *with) {
        char *copy = strdup(with);

        if (!copy)
                return -ENOMEM;

        free(*text);
        *text = copy;
        return 0;
}

/* The runtime is the one of the container that the pod's status named. */
static int fact_set(MetaContainer *container, const PodLookAnswer *answer) {
        const char *named = container->looked_id;
        const char *end = strstr(named, "://");
        MetaFact *fact = &container->fact;
        char *full_id;
        int r;

        if (asprintf(&full_id, "%.*s://%s", end ? (int) (end - named) : 0, named, answer->id) < 0)
                return -ENOMEM;

        free(fact->full_id);
        fact->full_id = full_id;
        r = replace(&fact->id, answer->id);
        if (r < 0)
                return r;

        r = replace(&fact->image, container->asked_image ?: "");
        if (r < 0)
                return r;

        fact->restart_count = answer->restart_count;
        fact->kubelet_hash = answer->kubelet_hash;
        fact->env_hash = 0;
        fact->knows_env = false;
        container->kubelet_usec = 0;
        container->retry_usec = 0;
        return replace(&fact->running_id, "");
}

/* What was not known before. */
static int fact_complete(MetaContainer *container, const PodLookAnswer *answer) {
        MetaFact *fact = &container->fact;

        if (!meta_container_has_env(container)) {
                fact->env_hash = ENV_HASH_NONE;
                fact->knows_env = true;
        } else if (!fact->knows_env && container->has_asked_env &&
                   (answer->env_hash != 0 || !answer->is_incomplete)) {
                fact->env_hash = answer->env_hash;
                fact->knows_env = true;
        }

        return answer->running_id[0] ? replace(&fact->running_id, answer->running_id) : 0;
}

/* The one before the one that is known. The kubelet remembers it, also when we do not. */
static const char *container_former_id(const MetaContainer *container) {
        const PodContainer *state = meta_container_state(container);

        return meta_container_is_known(container) ? state->former_id : state->container_id;
}

/* What an earlier life of the agent has stopped, for the value that is still asked for. Before its
 * successor is known nothing follows from it. */
static int container_recall(MetaContainer *container) {
        const char *former = container_former_id(container), *id;
        MetaRestart restart;
        char scheme[64];
        int r;

        if (container->stop || container->stopped.id || !former ||
            !pod_split_container_id(former, scheme, sizeof(scheme), &id) ||
            strcmp(id, container->fact.id) == 0 ||
            !meta_stop_find(container->pod->meta, container->expected_hash, id, &restart))
                return 0;

        r = replace(&container->stopped.id, id);
        container->stopped.restart = restart;
        container->stopped.is_ours = true;
        container->stopped.has_changed = false;
        return r;
}

static int container_take_fact(MetaContainer *container, const PodLookAnswer *answer) {
        MetaFact *fact = &container->fact;
        bool is_new = !fact->id || strcmp(fact->id, answer->id) != 0;
        int r;

        if (is_new) {
                r = fact_set(container, answer);
                if (r < 0)
                        return r;
        }

        fact->was_running = answer->is_running;
        r = fact_complete(container, answer);
        if (r < 0)
                return r;

        if (fact->kubelet_hash != 0 &&
            fact->kubelet_hash == meta_container_state(container)->plain_hash)
                container->pod->meta->knows_kubelet = true;

        r = is_new ? container_recall(container) : 0;
        if (r < 0)
                return r;

        return meta_container_judge(container);
}

static int container_take(MetaContainer *container, const PodLookAnswer *answer, bool is_listing) {
        char *asked_id = take_ptr(container->asked_id);
        cleanup(free_p) char *asked_image = NULL;
        int r;

        if (is_listing) {
                free(container->looked_id);
                container->looked_id = asked_id;
                container->has_successor = false;
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
        return replace(&container->reference_id, answer->reference_id);
}

/* The runtime has no such container, or is only just making it, while something is still to be known
 * of the one before. It is no failure of the runtime, and nothing to be asked again at once. */
static bool is_fruitless(const MetaPod *pod, const PodLookAnswer *answers) {
        for (size_t i = 0; pod->is_listing && i < pod->n_containers; i++)
                if (!answers[i].id[0] && lacks_env(&pod->containers[i]))
                        return true;

        return false;
}

/* error: NULL if nothing is to be said about it. */
static void pod_look_failed(MetaPod *pod, const Error *error) {
        if (error && !pod->is_look_trouble_told)
                log_warning(pod->meta->options.log, NULL,
                            "Cannot find out all about the containers of pod `%s/%s`, trying "
                            "again: %s.",
                            pod->pod->namespace, pod->pod->name, error_message(error));
        pod->is_look_trouble_told = pod->is_look_trouble_told || error;
        pod->n_look_failures++;
        pod->look_retry_usec =
                meta_now(pod->meta) + backoff_usec(pod->n_look_failures, meta_random());
}

static void pod_look_succeeded(MetaPod *pod) {
        pod->is_look_trouble_told = false;
        pod->n_look_failures = 0;
        pod->look_retry_usec = 0;
}

static int on_look(const PodLookAnswer *answers, const Error *error, void *userdata) {
        MetaPod *pod = userdata;
        PodLook *look = take_ptr(pod->look);
        int r = 0;

        pod->meta->n_looks--;
        for (size_t i = 0; answers && r >= 0 && i < pod->n_containers; i++)
                r = container_take(&pod->containers[i], &answers[i], pod->is_listing);
        if (error || (answers && is_fruitless(pod, answers)))
                pod_look_failed(pod, error);
        else
                pod_look_succeeded(pod);

        pod->refresh_usec =
                meta_now(pod->meta) + REFRESH_USEC + meta_random() % REFRESH_JITTER_USEC;
        pod_look_free(look);
        if (r < 0)
                return r;

        r = meta_continue(pod->meta);
        if (r < 0)
                return r;

        return meta_pod_step(pod);
}

/* Remembers what was asked, since the pod may be another state of itself by the answer. */
static int container_ask(MetaContainer *container, PodLookQuestion *ret) {
        const PodContainer *state = meta_container_state(container);
        const MetaFact *fact = &container->fact;
        bool is_all_known =
                fact->id && fact->running_id[0] && (!wants_env(container) || fact->knows_env);
        int r;

        container->has_asked_env = is_looked_at(state) && wants_env(container);
        *ret = (PodLookQuestion){ .name = "", .reference = "", .known_id = "" };
        if (!is_looked_at(state))
                return 0;

        r = replace(&container->asked_id, state->container_id);
        if (r < 0)
                return r;

        r = replace(&container->asked_image, state->image);
        if (r < 0)
                return r;

        ret->name = state->name;
        ret->reference = state->image;
        ret->env_names = container->has_asked_env ? state->env_names : NULL;
        ret->known_id = is_all_known ? fact->id : "";
        return 0;
}

static int pod_begin_look(MetaPod *pod, RpcClient *client, bool must_list) {
        cleanup(free_p) PodLookQuestion *questions =
                calloc(pod->n_containers + 1, sizeof(*questions));
        const PodLookOptions options = {
                .client = client,
                .namespace = pod->pod->namespace,
                .pod = pod->pod->name,
                .runtime_uid = pod->pod->runtime_uid,
                .must_list = must_list,
                .questions = questions,
                .n_questions = pod->n_containers,
                .on_done = on_look,
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

        r = pod_look_new(&options, &pod->look);
        if (r < 0)
                return r;

        pod->is_listing = must_list;
        pod->must_refresh = false;
        pod->look_usec = meta_now(pod->meta);
        pod->meta->n_looks++;
        return 0;
}

int meta_pod_look(MetaPod *pod) {
        RpcClient *client = runtimes_client(pod->meta->options.runtimes);
        uint64_t now = meta_now(pod->meta);
        bool must_list;

        pod->wants_look = false;
        if (pod->look || meta_pod_is_over(pod))
                return 0;

        if (pod->refresh_usec > 0 && pod->refresh_usec <= now)
                pod->must_refresh = true;
        must_list = pod_wants_list(pod);
        if (!must_list && !pod_wants_reference(pod)) {
                if (pod->refresh_usec > now)
                        meta_pod_wake_at(pod, pod->refresh_usec);
                return 0;
        }

        /* The runtime's return leads here again. */
        if (!client)
                return 0;
        if (pod->look_retry_usec > now) {
                meta_pod_wake_at(pod, pod->look_retry_usec);
                return 0;
        }

        pod->wants_look = pod->meta->n_looks >= LOOKS_MAX;
        return pod->wants_look ? 0 : pod_begin_look(pod, client, must_list);
}
