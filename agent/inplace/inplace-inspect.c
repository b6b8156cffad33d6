/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/backoff.h"
#include "agent/base/cleanup.h"
#include "agent/inplace/image-ids.h"
#include "agent/inplace/inplace-internal.h"
#include "agent/inplace/running-env-spec.h"
#include "agent/pod/env-hash.h"
#include "agent/pod/runtime-pods.h"
#include "cri/client.h"

#define LOOKS_MAX 8
#define REFRESH_USEC (300 * USEC_PER_SEC)
#define REFRESH_JITTER_USEC (30 * USEC_PER_SEC)
#define INFO_KEY "info"

/*
 * One look at the containers of a pod: which they are, what environment they were made with, which
 * images they run, and which images their references are now
 */

typedef struct PodLookQuestion {
        const char *name;
        const char *reference;  /* that the pod asks for; "": none */
        char *const *env_names; /* whose hash is asked for, ended by NULL; NULL: it is not */
        const char *known_id;   /* of a container about which all is known but for its reference */
} PodLookQuestion;

/* Texts are "" where nothing is known; borrowed during the call. */
typedef struct PodLookAnswer {
        const char
                *id; /* of the newest container of this name, unless it is only just being made */
        bool is_running;
        unsigned restart_count;
        uint64_t kubelet_hash;
        uint32_t env_hash; /* 0: not asked for, or not known */
        const char *running_id;
        const char *reference_id;
        bool is_incomplete; /* it is worth being asked again */
} PodLookAnswer;

/* As many answers as questions, in their order, where some may be incomplete because of the error;
 * no answers if nothing could be found out. */
typedef int (*PodLookDone)(const PodLookAnswer *answers, const Error *error, void *userdata);

typedef struct PodLookOptions {
        RpcClient *client;
        const char *namespace;
        const char *pod;
        const char *runtime_uid;
        /* Otherwise only the references are looked up, of which there is at least one then. */
        bool must_list;
        const PodLookQuestion *questions;
        size_t n_questions;
        PodLookDone on_done; /* once; not from within pod_look_new(); it may be freed there */
        void *userdata;
} PodLookOptions;

typedef struct Item {
        char *name;
        char *reference;
        char **env_names;
        char *known_id;

        char *id; /* NULL: none */
        char *image_ref;
        char *running_id;
        char *reference_id;
        bool is_running;
        unsigned restart_count;
        uint64_t kubelet_hash;
        uint32_t env_hash;
        bool is_incomplete;
} Item;

struct PodLook {
        RpcClient *client;
        Item *items;
        size_t n_items;
        char *namespace;
        char *pod;
        char *runtime_uid;
        RuntimePodsCall *listing;
        RpcCall *call;
        size_t at; /* the item whose environment is asked for */
        ImageIds *ids;
        Error error;
        PodLookDone on_done;
        void *userdata;
};

DEFINE_CLEANUP(PodLook *, pod_look_free)

/* -ENOMEM unless it could be copied. */
static int replace(char **text, const char *with) {
        char *copy = strdup(with);

        if (!copy)
                return -ENOMEM;

        free(*text);
        *text = copy;
        return 0;
}

static int look_finish(PodLook *look) {
        cleanup(free_p) PodLookAnswer *answers = calloc(look->n_items + 1, sizeof(*answers));

        if (!answers)
                return -ENOMEM;

        for (size_t i = 0; i < look->n_items; i++) {
                const Item *item = &look->items[i];

                answers[i] = (PodLookAnswer){
                        .id = item->id ?: "",
                        .is_running = item->is_running,
                        .restart_count = item->restart_count,
                        .kubelet_hash = item->kubelet_hash,
                        .env_hash = item->env_hash,
                        .running_id = item->running_id ?: "",
                        .reference_id = item->reference_id ?: "",
                        .is_incomplete = item->is_incomplete,
                };
        }

        return look->on_done(answers, look->error.kind != ERROR_NONE ? &look->error : NULL,
                             look->userdata);
}

/* Containers about which everything is known are not asked about, nor is what an ID means. */
static bool needs_running_id(const Item *item) {
        return item->image_ref && item->image_ref[0] && !item->running_id;
}

static int item_take_ids(Item *item, const char *const *ids, size_t *at) {
        int r = 0;

        if (item->reference[0]) {
                const char *id = ids[(*at)++];

                item->is_incomplete = item->is_incomplete || !id;
                r = id ? replace(&item->reference_id, id) : 0;
        }
        if (r >= 0 && needs_running_id(item)) {
                const char *id = ids[(*at)++];

                item->is_incomplete = item->is_incomplete || !id;
                r = id ? replace(&item->running_id, id) : 0;
        }

        return r;
}

static int on_ids(const char *const *ids, const Error *error, void *userdata) {
        PodLook *look = userdata;
        size_t at = 0;

        if (error && look->error.kind == ERROR_NONE)
                (void) error_copy(&look->error, error);

        for (size_t i = 0; i < look->n_items; i++) {
                int r = item_take_ids(&look->items[i], ids, &at);

                if (r < 0)
                        return r;
        }

        return look_finish(look);
}

static int look_ask_ids(PodLook *look) {
        cleanup(free_p) const char **references =
                calloc(2 * look->n_items + 1, sizeof(*references));
        size_t n = 0;

        if (!references)
                return -ENOMEM;

        for (size_t i = 0; i < look->n_items; i++) {
                const Item *item = &look->items[i];

                if (item->reference[0])
                        references[n++] = item->reference;
                if (needs_running_id(item))
                        references[n++] = item->image_ref;
        }

        if (n == 0)
                return look_finish(look);

        return image_ids_new(look->client, references, n, on_ids, look, &look->ids);
}

static const char *find_info(const CriContainerStatus *status) {
        for (size_t i = 0; i < status->n_info; i++)
                if (strcmp(status->info[i]->key, INFO_KEY) == 0)
                        return status->info[i]->value;

        return "";
}

static int look_ask_env(PodLook *look);

/* Why it cannot be told is remembered; whether it is worth asking again, the runtime alone
 * knows. */
static int on_container(const void *reply, const Error *error, void *userdata) {
        PodLook *look = userdata;
        cleanup(error_done) Error refusal = ERROR_INIT;
        Item *item = &look->items[look->at++];
        int r = 0;

        look->call = rpc_call_unref(look->call);
        if (!error) {
                r = running_env_hash(find_info(reply), item->env_names, &item->env_hash, &refusal);
                error = refusal.kind != ERROR_NONE ? &refusal : NULL;
                if (r < 0 && !error)
                        return r;
        }

        if (error) {
                item->is_incomplete = true;
                if (look->error.kind == ERROR_NONE)
                        (void) error_copy(&look->error, error);
        }

        return look_ask_env(look);
}

static bool needs_env(const Item *item) {
        return item->id && item->env_names && strcmp(item->id, item->known_id) != 0;
}

/* One after another: hardly any pod has more than one. */
static int look_ask_env(PodLook *look) {
        while (look->at < look->n_items && !needs_env(&look->items[look->at]))
                look->at++;
        if (look->at == look->n_items)
                return look_ask_ids(look);

        return cri_container_status(look->client, look->items[look->at].id, true, on_container,
                                    look, &look->call);
}

static int item_take(Item *item, const RuntimeContainer *container) {
        int r;

        r = replace(&item->id, container->id);
        if (r < 0)
                return r;

        item->is_running = container->is_running;
        item->restart_count = container->restart_count;
        item->kubelet_hash = container->kubelet_hash;
        if (strcmp(item->id, item->known_id) == 0)
                return 0;

        r = replace(&item->image_ref, container->image_ref);
        if (r < 0 || !image_ids_is_id(container->image_ref))
                return r;

        return replace(&item->running_id, container->image_ref);
}

static int on_list(RuntimePods *pods, const Error *error, void *userdata) {
        PodLook *look = userdata;
        const RuntimePod *pod;

        look->listing = runtime_pods_call_free(look->listing);
        if (error)
                return look->on_done(NULL, error, look->userdata);

        pod = runtime_pods_find(pods, look->namespace, look->pod, look->runtime_uid);
        for (size_t i = 0; pod && i < look->n_items; i++) {
                const RuntimeContainer *container = runtime_pod_find(pod, look->items[i].name);
                int r;

                if (!container || (!container->is_running && !container->is_exited))
                        continue;

                r = item_take(&look->items[i], container);
                if (r < 0)
                        return r;
        }

        return look_ask_env(look);
}

static void names_free(char **names) {
        for (size_t i = 0; names && names[i]; i++)
                free(names[i]);
        free(names);
}

static int copy_names(char *const *names, char ***ret) {
        size_t n = 0;
        char **copy;

        while (names[n])
                n++;

        copy = calloc(n + 1, sizeof(*copy));
        if (!copy)
                return -ENOMEM;

        *ret = copy;
        for (size_t i = 0; i < n; i++) {
                copy[i] = strdup(names[i]);
                if (!copy[i])
                        return -ENOMEM;
        }

        return 0;
}

static int look_add(PodLook *look, const PodLookQuestion *question) {
        Item *item = &look->items[look->n_items++];

        item->name = strdup(question->name);
        item->reference = strdup(question->reference);
        item->known_id = strdup(question->known_id);
        if (!item->name || !item->reference || !item->known_id)
                return -ENOMEM;

        return question->env_names ? copy_names(question->env_names, &item->env_names) : 0;
}

static int look_fill(PodLook *look, const PodLookOptions *options) {
        look->namespace = strdup(options->namespace);
        look->pod = strdup(options->pod);
        look->runtime_uid = strdup(options->runtime_uid);
        look->items = calloc(options->n_questions + 1, sizeof(*look->items));
        if (!look->namespace || !look->pod || !look->runtime_uid || !look->items)
                return -ENOMEM;

        for (size_t i = 0; i < options->n_questions; i++) {
                int r = look_add(look, &options->questions[i]);

                if (r < 0)
                        return r;
        }

        return 0;
}

/* Everything is copied. */
static int pod_look_new(const PodLookOptions *options, PodLook **ret) {
        cleanup(pod_look_free_p) PodLook *look = NULL;
        int r;

        look = malloc(sizeof(*look));
        if (!look)
                return -ENOMEM;

        *look = (PodLook){
                .client = options->client,
                .on_done = options->on_done,
                .userdata = options->userdata,
        };
        r = look_fill(look, options);
        if (r < 0)
                return r;

        r = options->must_list ? runtime_pods_list(look->client,
                                                   &(RuntimePodsFilter){ .uid = look->runtime_uid },
                                                   on_list, look, &look->listing)
                               : look_ask_ids(look);
        if (r < 0)
                return r;

        *ret = take_ptr(look);
        return 0;
}

static void item_done(Item *item) {
        names_free(item->env_names);
        free(item->name);
        free(item->reference);
        free(item->known_id);
        free(item->id);
        free(item->image_ref);
        free(item->running_id);
        free(item->reference_id);
}

PodLook *pod_look_free(PodLook *look) {
        if (!look)
                return NULL;

        runtime_pods_call_free(look->listing);
        rpc_call_unref(look->call);
        image_ids_free(look->ids);
        for (size_t i = 0; i < look->n_items; i++)
                item_done(&look->items[i]);
        error_done(&look->error);
        free(look->items);
        free(look->runtime_uid);
        free(look->pod);
        free(look->namespace);
        free(look);
        return NULL;
}

/* What of the pod is looked at, when, and what follows from the answers. */

/* Ordinary init containers have ended when anything here matters. */
static bool is_looked_at(const PodContainer *state) {
        return state->kind != POD_CONTAINER_INIT && state->container_id[0];
}

static bool wants_env(const InPlaceContainer *container) {
        return inplace_pod_takes_part(container->pod) && inplace_container_has_env(container);
}

static bool lacks_env(const InPlaceContainer *container) {
        return container->fact.id && wants_env(container) && !container->fact.knows_env;
}

static bool container_wants_list(const InPlaceContainer *container) {
        const PodContainer *state = inplace_container_state(container);

        if (!is_looked_at(state))
                return false;
        if (container->is_incomplete || container->has_successor || lacks_env(container))
                return true;

        return !inplace_container_is_known(container) &&
               (!container->looked_id || strcmp(container->looked_id, state->container_id) != 0);
}

static bool container_wants_reference(const InPlaceContainer *container) {
        const PodContainer *state = inplace_container_state(container);

        return is_looked_at(state) && state->image[0] &&
               (container->pod->must_refresh || !container->reference ||
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
        if (pod->look && pod->is_listing)
                return false;

        return pod->n_look_failures > 0 || !pod_wants_list(pod);
}

/* The runtime is the one of the container that the pod's status named. */
static int fact_set(InPlaceContainer *container, const PodLookAnswer *answer) {
        const char *named = container->looked_id;
        const char *end = strstr(named, "://");
        InPlaceFact *fact = &container->fact;
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
static int fact_complete(InPlaceContainer *container, const PodLookAnswer *answer) {
        InPlaceFact *fact = &container->fact;

        if (!inplace_container_has_env(container)) {
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
static const char *container_former_id(const InPlaceContainer *container) {
        const PodContainer *state = inplace_container_state(container);

        return inplace_container_is_known(container) ? state->former_id : state->container_id;
}

/* What an earlier life of the agent has stopped, for the value that is still asked for. Before its
 * successor is known nothing follows from it. */
static int container_recall(InPlaceContainer *container) {
        const char *former = container_former_id(container), *id;
        InPlaceRestart restart;
        char scheme[64];
        int r;

        if (container->stop || container->stopped.id || !former ||
            !pod_split_container_id(former, scheme, sizeof(scheme), &id) ||
            strcmp(id, container->fact.id) == 0 ||
            !inplace_stop_find(container->pod->meta, container->expected_hash, id, &restart))
                return 0;

        r = replace(&container->stopped.id, id);
        container->stopped.restart = restart;
        container->stopped.is_ours = true;
        container->stopped.has_changed = false;
        return r;
}

static int container_take_fact(InPlaceContainer *container, const PodLookAnswer *answer) {
        InPlaceFact *fact = &container->fact;
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
            fact->kubelet_hash == inplace_container_state(container)->plain_hash)
                container->pod->meta->knows_kubelet = true;

        r = is_new ? container_recall(container) : 0;
        if (r < 0)
                return r;

        return inplace_container_judge(container);
}

static int container_take(InPlaceContainer *container, const PodLookAnswer *answer,
                          bool is_listing) {
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
static bool is_fruitless(const InPlacePod *pod, const PodLookAnswer *answers) {
        for (size_t i = 0; pod->is_listing && i < pod->n_containers; i++)
                if (!answers[i].id[0] && lacks_env(&pod->containers[i]))
                        return true;

        return false;
}

/* error: NULL if nothing is to be said about it. */
static void pod_look_failed(InPlacePod *pod, const Error *error) {
        if (error && !pod->is_look_trouble_told)
                log_warning(pod->meta->options.log, NULL,
                            "Cannot find out all about the containers of pod `%s/%s`, trying "
                            "again: %s.",
                            pod->pod->namespace, pod->pod->name, error_message(error));
        pod->is_look_trouble_told = pod->is_look_trouble_told || error;
        pod->n_look_failures++;
        pod->look_retry_usec =
                inplace_now(pod->meta) + backoff_usec(pod->n_look_failures, inplace_random());
}

static void pod_look_succeeded(InPlacePod *pod) {
        pod->is_look_trouble_told = false;
        pod->n_look_failures = 0;
        pod->look_retry_usec = 0;
}

static int on_look(const PodLookAnswer *answers, const Error *error, void *userdata) {
        InPlacePod *pod = userdata;
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
                inplace_now(pod->meta) + REFRESH_USEC + inplace_random() % REFRESH_JITTER_USEC;
        pod_look_free(look);
        if (r < 0)
                return r;

        r = inplace_continue(pod->meta);
        if (r < 0)
                return r;

        return inplace_pod_step(pod);
}

/* Remembers what was asked, since the pod may be another state of itself by the answer. */
static int container_ask(InPlaceContainer *container, PodLookQuestion *ret) {
        const PodContainer *state = inplace_container_state(container);
        const InPlaceFact *fact = &container->fact;
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

static int pod_begin_look(InPlacePod *pod, RpcClient *client, bool must_list) {
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
        pod->look_usec = inplace_now(pod->meta);
        pod->meta->n_looks++;
        return 0;
}

int inplace_pod_look(InPlacePod *pod) {
        RpcClient *client = runtimes_client(pod->meta->options.runtimes);
        uint64_t now = inplace_now(pod->meta);
        bool must_list;

        pod->wants_look = false;
        if (pod->look || inplace_pod_is_over(pod))
                return 0;

        if (pod->refresh_usec > 0 && pod->refresh_usec <= now)
                pod->must_refresh = true;
        must_list = pod_wants_list(pod);
        if (!must_list && !pod_wants_reference(pod)) {
                if (pod->refresh_usec > now)
                        inplace_pod_wake_at(pod, pod->refresh_usec);
                return 0;
        }

        /* The runtime's return leads here again. */
        if (!client)
                return 0;
        if (pod->look_retry_usec > now) {
                inplace_pod_wake_at(pod, pod->look_retry_usec);
                return 0;
        }

        pod->wants_look = pod->meta->n_looks >= LOOKS_MAX;
        return pod->wants_look ? 0 : pod_begin_look(pod, client, must_list);
}
