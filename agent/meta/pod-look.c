/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/meta/pod-look.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/meta/image-ids.h"
#include "agent/meta/running-env-spec.h"
#include "agent/pod/runtime-pod.h"
#include "cri/client.h"

#define INFO_KEY "info"

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

static int on_list(const void *reply, const Error *error, void *userdata) {
        PodLook *look = userdata;
        cleanup(runtime_pods_done) RuntimePods pods = RUNTIME_PODS_INIT;
        const RuntimePod *pod;
        int r;

        look->call = rpc_call_unref(look->call);
        if (error)
                return look->on_done(NULL, error, look->userdata);

        r = runtime_pods_read(reply, &pods);
        if (r < 0)
                return r;

        pod = runtime_pods_find(&pods, look->namespace, look->pod, look->runtime_uid);
        for (size_t i = 0; pod && i < look->n_items; i++) {
                const RuntimeContainer *container = runtime_pod_find(pod, look->items[i].name);

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

int pod_look_new(const PodLookOptions *options, PodLook **ret) {
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

        r = options->must_list ? cri_list_pod_containers(look->client, look->runtime_uid, on_list,
                                                         look, &look->call)
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
