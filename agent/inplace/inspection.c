/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/inplace/inspection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/image/image-ref.h"
#include "agent/inplace/image-ids.h"
#include "agent/inplace/running-env-spec.h"
#include "agent/pod/env-hash.h"
#include "agent/pod/runtime-pods.h"
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
        bool has_other_image;
        unsigned restart_count;
        uint64_t kubelet_hash;
        bool is_hash_plain;
        uint32_t env_hash;
        bool is_incomplete;
} Item;

struct Inspection {
        RpcClient *client;
        Item *items;
        size_t n_items;
        char *namespace;
        char *pod;
        char *runtime_uid;
        RuntimePodsCall *listing;
        RpcCall *call;
        size_t at; /* index of the item whose environment is being read */
        ImageIds *ids;
        Error error;
        InspectionDone on_done;
        void *userdata;
};

DEFINE_CLEANUP(Inspection *, inspection_free)

static int inspection_finish(Inspection *inspection) {
        cleanup(free_p) InspectionAnswer *answers =
                calloc(inspection->n_items + 1, sizeof(*answers));

        if (!answers)
                return -ENOMEM;

        for (size_t i = 0; i < inspection->n_items; i++) {
                const Item *item = &inspection->items[i];

                answers[i] = (InspectionAnswer){
                        .id = item->id ?: "",
                        .is_running = item->is_running,
                        .has_other_image = item->has_other_image,
                        .restart_count = item->restart_count,
                        .kubelet_hash = item->kubelet_hash,
                        .is_hash_plain = item->is_hash_plain,
                        .env_hash = item->env_hash,
                        .running_id = item->running_id ?: "",
                        .reference_id = item->reference_id ?: "",
                        .is_incomplete = item->is_incomplete,
                };
        }

        return inspection->on_done(answers,
                                   inspection->error.kind != ERROR_NONE ? &inspection->error : NULL,
                                   inspection->userdata);
}

/* Does not ask about containers that are fully known, nor about references that are IDs. */
static bool needs_running_id(const Item *item) {
        return item->image_ref && item->image_ref[0] && !item->running_id;
}

static int item_take_ids(Item *item, const char *const *ids, size_t *at) {
        int r = 0;

        if (item->reference[0]) {
                const char *id = ids[(*at)++];

                item->is_incomplete = item->is_incomplete || !id;
                r = id ? text_set(&item->reference_id, id) : 0;
        }
        if (r >= 0 && needs_running_id(item)) {
                const char *id = ids[(*at)++];

                item->is_incomplete = item->is_incomplete || !id;
                r = id ? text_set(&item->running_id, id) : 0;
        }

        return r;
}

static int on_ids(const char *const *ids, const Error *error, void *userdata) {
        Inspection *inspection = userdata;
        size_t at = 0;

        if (error && inspection->error.kind == ERROR_NONE)
                (void) error_copy(&inspection->error, error);

        for (size_t i = 0; i < inspection->n_items; i++) {
                int r = item_take_ids(&inspection->items[i], ids, &at);

                if (r < 0)
                        return r;
        }

        return inspection_finish(inspection);
}

static int inspection_ask_ids(Inspection *inspection) {
        cleanup(free_p) const char **references =
                calloc(2 * inspection->n_items + 1, sizeof(*references));
        size_t n = 0;

        if (!references)
                return -ENOMEM;

        for (size_t i = 0; i < inspection->n_items; i++) {
                const Item *item = &inspection->items[i];

                if (item->reference[0])
                        references[n++] = item->reference;
                if (needs_running_id(item))
                        references[n++] = item->image_ref;
        }

        if (n == 0)
                return inspection_finish(inspection);

        return image_ids_new(inspection->client, references, n, on_ids, inspection,
                             &inspection->ids);
}

static const char *find_info(const CriContainerStatus *status) {
        for (size_t i = 0; i < status->n_info; i++)
                if (strcmp(status->info[i]->key, INFO_KEY) == 0)
                        return status->info[i]->value;

        return "";
}

static int inspection_ask_env(Inspection *inspection);

/* Keeps the reason of a failure; only the runtime knows whether asking again helps. */
static int on_container(const void *reply, const Error *error, void *userdata) {
        Inspection *inspection = userdata;
        cleanup(error_done) Error refusal = ERROR_INIT;
        Item *item = &inspection->items[inspection->at++];
        int r = 0;

        inspection->call = rpc_call_unref(inspection->call);
        if (!error) {
                r = running_env_hash(find_info(reply), item->env_names, &item->env_hash, &refusal);
                error = refusal.kind != ERROR_NONE ? &refusal : NULL;
                if (r < 0 && !error)
                        return r;
        }

        if (error) {
                item->is_incomplete = true;
                if (inspection->error.kind == ERROR_NONE)
                        (void) error_copy(&inspection->error, error);
        }

        return inspection_ask_env(inspection);
}

static bool needs_env(const Item *item) {
        return item->id && item->env_names && strcmp(item->id, item->known_id) != 0;
}

/* Asks for one environment after another: hardly any pod has more than one. */
static int inspection_ask_env(Inspection *inspection) {
        while (inspection->at < inspection->n_items &&
               !needs_env(&inspection->items[inspection->at]))
                inspection->at++;
        if (inspection->at == inspection->n_items)
                return inspection_ask_ids(inspection);

        return cri_container_status(inspection->client, inspection->items[inspection->at].id, true,
                                    on_container, inspection, &inspection->call);
}

static int item_take(Item *item, const RuntimeContainer *container) {
        int r;

        r = text_set(&item->id, container->id);
        if (r < 0)
                return r;

        item->is_running = container->is_running;
        item->restart_count = container->restart_count;
        item->kubelet_hash = container->kubelet_hash;
        if (strcmp(item->id, item->known_id) == 0)
                return 0;

        item->is_hash_plain =
                container->kubelet_hash == plain_hash(container->name, container->image);
        r = text_set(&item->image_ref, container->image_ref);
        if (r < 0 || !image_id_is_valid(container->image_ref))
                return r;

        free(take_ptr(item->running_id));
        return image_id_normalize(container->image_ref, &item->running_id);
}

/* Compares with earlier containers of the same name: by the kubelet's hash as well, since another
 * kubelet may write the same image's reference in another way. */
static bool has_other_image(const RuntimePod *pod, const RuntimeContainer *newest) {
        for (size_t i = 0; i < pod->n_former; i++) {
                const RuntimeContainer *former = &pod->former[i];

                if (strcmp(former->name, newest->name) == 0 &&
                    former->kubelet_hash != newest->kubelet_hash &&
                    strcmp(former->image_ref, newest->image_ref) != 0)
                        return true;
        }

        return false;
}

static int on_list(RuntimePods *pods, const Error *error, void *userdata) {
        Inspection *inspection = userdata;
        const RuntimePod *pod;

        inspection->listing = runtime_pods_call_free(inspection->listing);
        if (error)
                return inspection->on_done(NULL, error, inspection->userdata);

        pod = runtime_pods_find(pods, inspection->namespace, inspection->pod,
                                inspection->runtime_uid);
        for (size_t i = 0; pod && i < inspection->n_items; i++) {
                const RuntimeContainer *container =
                        runtime_pod_find(pod, inspection->items[i].name);
                int r;

                if (!container || (!container->is_running && !container->is_exited))
                        continue;

                inspection->items[i].has_other_image = has_other_image(pod, container);
                r = item_take(&inspection->items[i], container);
                if (r < 0)
                        return r;
        }

        return inspection_ask_env(inspection);
}

static int inspection_add(Inspection *inspection, const InspectionQuestion *question) {
        Item *item = &inspection->items[inspection->n_items++];

        item->name = strdup(question->name);
        item->reference = strdup(question->reference);
        item->known_id = strdup(question->known_id);
        if (!item->name || !item->reference || !item->known_id)
                return -ENOMEM;

        return texts_copy(question->env_names, &item->env_names);
}

static int inspection_fill(Inspection *inspection, const InspectionOptions *options) {
        inspection->namespace = strdup(options->namespace);
        inspection->pod = strdup(options->pod);
        inspection->runtime_uid = strdup(options->runtime_uid);
        inspection->items = calloc(options->n_questions + 1, sizeof(*inspection->items));
        if (!inspection->namespace || !inspection->pod || !inspection->runtime_uid ||
            !inspection->items)
                return -ENOMEM;

        for (size_t i = 0; i < options->n_questions; i++) {
                int r = inspection_add(inspection, &options->questions[i]);

                if (r < 0)
                        return r;
        }

        return 0;
}

int inspection_new(const InspectionOptions *options, Inspection **ret) {
        cleanup(inspection_free_p) Inspection *inspection = NULL;
        int r;

        inspection = malloc(sizeof(*inspection));
        if (!inspection)
                return -ENOMEM;

        *inspection = (Inspection){
                .client = options->client,
                .on_done = options->on_done,
                .userdata = options->userdata,
        };
        r = inspection_fill(inspection, options);
        if (r < 0)
                return r;

        r = options->must_list
                    ? runtime_pods_list(inspection->client,
                                        &(RuntimePodsFilter){ .uid = inspection->runtime_uid },
                                        on_list, inspection, &inspection->listing)
                    : inspection_ask_ids(inspection);
        if (r < 0)
                return r;

        *ret = take_ptr(inspection);
        return 0;
}

static void item_done(Item *item) {
        texts_free(item->env_names);
        free(item->name);
        free(item->reference);
        free(item->known_id);
        free(item->id);
        free(item->image_ref);
        free(item->running_id);
        free(item->reference_id);
}

Inspection *inspection_free(Inspection *inspection) {
        if (!inspection)
                return NULL;

        runtime_pods_call_free(inspection->listing);
        rpc_call_unref(inspection->call);
        image_ids_free(inspection->ids);
        for (size_t i = 0; i < inspection->n_items; i++)
                item_done(&inspection->items[i]);
        error_done(&inspection->error);
        free(inspection->items);
        free(inspection->runtime_uid);
        free(inspection->pod);
        free(inspection->namespace);
        free(inspection);
        return NULL;
}
