/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/inplace/verify.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/quote.h"
#include "agent/base/text.h"
#include "agent/image/image-ref.h"
#include "agent/pod/runtime-pods.h"
#include "cri/client.h"

/* A running container. Texts are borrowed from the runtime's pods, unless noted. */
typedef struct Item {
        const RuntimePod *pod;
        const RuntimeContainer *container;
        bool is_recorded; /* the reference is a name of the image, perhaps not the pod's */
        char *reference;  /* owned, as the following texts */
        char *reference_id;
        char *running_id;
        char *message;
} Item;

struct Verify {
        RpcClient *client;
        const Pods *api_pods;
        char *namespace;
        char *pod;
        bool records_names; /* the runtime reports a name of the image in ContainerStatus */
        RuntimePodsCall *call;
        RuntimePods pods;
        RpcCall *status_call;
        size_t at; /* index of the item whose name is being read */
        Item *items;
        size_t n_items;
        ImageIds *ids;
        int (*on_done)(const VerifyRow *rows, size_t n_rows, const Error *error, void *userdata);
        void *userdata;
};

DEFINE_CLEANUP(Verify *, verify_free)

static VerifyRow row_of(const Item *item) {
        return (VerifyRow){
                .namespace = item->pod->namespace,
                .pod = item->pod->name,
                .uid = item->pod->uid,
                .container = item->container->name,
                .reference = item->reference,
                .reference_id = item->reference_id ?: "",
                .running_id = item->running_id ?: "",
                .verdict = verdict_of(item->reference_id, item->running_id),
                .message = item->message ?: "",
        };
}

static int verify_refuse(Verify *verify) {
        cleanup(error_done) Error error = ERROR_INIT;
        char quoted[QUOTE_SIZE];

        (void) error_set(&error, ERROR_NOT_FOUND, "no container of pod %s runs on this node",
                         quote(verify->pod, quoted));
        return verify->on_done(NULL, 0, &error, verify->userdata);
}

static int verify_finish(Verify *verify) {
        cleanup(free_p) VerifyRow *rows = calloc(verify->n_items + 1, sizeof(*rows));

        if (!rows)
                return -ENOMEM;

        for (size_t i = 0; i < verify->n_items; i++)
                rows[i] = row_of(&verify->items[i]);

        return verify->on_done(rows, verify->n_items, NULL, verify->userdata);
}

static int item_say(Item *item, const Error *error) {
        Verdict verdict = verdict_of(item->reference_id, item->running_id);

        if (verdict == VERDICT_CURRENT)
                return 0;
        if (verdict == VERDICT_STALE)
                return text_format(&item->message,
                                   "it runs a different image from what %s is on this node%s",
                                   item->reference,
                                   item->is_recorded
                                           ? ", which is one of the names that its image had "
                                             "when it was made"
                                           : "");
        if (!item->reference_id || !item->running_id)
                return text_format(&item->message, "the runtime cannot be asked: %s",
                                   error ? error_message(error) : "it reports no image");
        if (!item->reference[0])
                return text_set(
                        &item->message,
                        "the requested image is unknown: the runtime does not keep its name");
        if (!item->reference_id[0])
                return text_format(&item->message, "%s is not on this node", item->reference);

        return text_set(&item->message, "the image that it runs is not on this node any more");
}

static bool asks_running_id(const Item *item) {
        return item->container->image_ref[0] && !image_id_is_valid(item->container->image_ref);
}

static int item_take(Item *item, const char *const *ids, size_t *at, const Error *error) {
        const char *image_ref = item->container->image_ref;
        int r;

        r = text_copy(item->reference[0] ? ids[(*at)++] : "", &item->reference_id);
        if (r < 0)
                return r;

        r = asks_running_id(item) ? text_copy(ids[(*at)++], &item->running_id)
                                  : image_id_normalize(image_ref, &item->running_id);
        if (r < 0)
                return r;

        return item_say(item, error);
}

static int verify_take_ids(Verify *verify, const char *const *ids, const Error *error) {
        size_t at = 0;

        for (size_t i = 0; i < verify->n_items; i++) {
                int r = item_take(&verify->items[i], ids, &at, error);

                if (r < 0)
                        return r;
        }

        return verify_finish(verify);
}

static int on_ids(const char *const *ids, const Error *error, void *userdata) {
        return verify_take_ids(userdata, ids, error);
}

static int verify_ask_ids(Verify *verify) {
        cleanup(free_p) const char **references =
                calloc(2 * verify->n_items + 1, sizeof(*references));
        size_t n = 0;

        if (!references)
                return -ENOMEM;

        for (size_t i = 0; i < verify->n_items; i++) {
                const Item *item = &verify->items[i];

                if (item->reference[0])
                        references[n++] = item->reference;
                if (asks_running_id(item))
                        references[n++] = item->container->image_ref;
        }

        if (n == 0)
                return verify_take_ids(verify, NULL, NULL);

        return image_ids_new(verify->client, references, n, on_ids, verify, &verify->ids);
}

/* The kubelet may have resolved the pod's reference to this one. On CRI-O it also resolves to
 * digests. */
static bool is_resolved(const Verify *verify, const char *image) {
        return image_id_is_valid(image) || (verify->records_names && strchr(image, '@'));
}

static bool needs_name(const Verify *verify, const Item *item) {
        return verify->records_names && !item->reference[0];
}

static int verify_ask_names(Verify *verify);

/* The name of a container that is gone stays unknown. */
static int on_container(const void *reply, const Error *error, void *userdata) {
        Verify *verify = userdata;
        Item *item = &verify->items[verify->at++];
        const CriContainerStatus *status = reply;
        const CriImageSpec *image = error || !status->status ? NULL : status->status->image;
        int r = 0;

        verify->status_call = rpc_call_unref(verify->status_call);
        if (image && image->user_specified_image[0]) {
                r = text_set(&item->reference, image->user_specified_image);
        } else if (image && !image_id_is_valid(image->image)) {
                item->is_recorded = true;
                r = text_set(&item->reference, image->image);
        }
        return r < 0 ? r : verify_ask_names(verify);
}

/* Asks for one name after another: with an API server there are hardly any. */
static int verify_ask_names(Verify *verify) {
        while (verify->at < verify->n_items && !needs_name(verify, &verify->items[verify->at]))
                verify->at++;
        if (verify->at == verify->n_items)
                return verify_ask_ids(verify);

        return cri_container_status(verify->client, verify->items[verify->at].container->id,
                                    /* is_verbose= */ false, on_container, verify,
                                    &verify->status_call);
}

/* Returns the reference that the runtime remembers, or "". */
static const char *remembered(const Verify *verify, const RuntimeContainer *container) {
        return is_resolved(verify, container->image) ? "" : container->image;
}

/* Returns the pod's reference, if the API server has the pod; else the one that the runtime
 * remembers. */
static const char *find_reference(const Verify *verify, const RuntimePod *pod,
                                  const RuntimeContainer *container) {
        const Pod *api_pod =
                verify->api_pods ? pods_find(verify->api_pods, pod->namespace, pod->name) : NULL;
        const PodContainer *state;

        if (!api_pod || strcmp(api_pod->runtime_uid, pod->uid) != 0)
                return remembered(verify, container);

        state = pod_find(api_pod, container->name);
        return state && state->image[0] ? state->image : remembered(verify, container);
}

static int verify_add(Verify *verify, const RuntimePod *pod, const RuntimeContainer *container) {
        Item item = {
                .pod = pod,
                .container = container,
                .reference = strdup(find_reference(verify, pod, container)),
        };

        if (!item.reference || array_grow(&verify->items, verify->n_items, sizeof(item)) < 0) {
                free(item.reference);
                return -ENOMEM;
        }

        verify->items[verify->n_items++] = item;
        return 0;
}

static int verify_add_pod(Verify *verify, const RuntimePod *pod) {
        if ((verify->namespace && strcmp(pod->namespace, verify->namespace) != 0) ||
            (verify->pod && strcmp(pod->name, verify->pod) != 0))
                return 0;

        for (size_t i = 0; i < pod->n_containers; i++) {
                int r = 0;

                if (pod->containers[i].is_running)
                        r = verify_add(verify, pod, &pod->containers[i]);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int on_list(RuntimePods *pods, const Error *error, void *userdata) {
        Verify *verify = userdata;

        verify->call = runtime_pods_call_free(verify->call);
        if (error)
                return verify->on_done(NULL, 0, error, verify->userdata);

        verify->pods = *pods;
        *pods = RUNTIME_PODS_INIT;
        for (size_t i = 0; i < verify->pods.n_items; i++) {
                int r = verify_add_pod(verify, &verify->pods.items[i]);

                if (r < 0)
                        return r;
        }

        return verify->n_items == 0 && verify->pod ? verify_refuse(verify)
                                                   : verify_ask_names(verify);
}

int verify_new(const VerifyOptions *options, Verify **ret) {
        cleanup(verify_free_p) Verify *verify = NULL;
        int r;

        verify = malloc(sizeof(*verify));
        if (!verify)
                return -ENOMEM;

        *verify = (Verify){
                .client = options->client,
                .records_names = strcmp(options->runtime_name, "cri-o") == 0,
                .api_pods = options->pods,
                .on_done = options->on_done,
                .userdata = options->userdata,
        };
        if (text_copy(options->namespace, &verify->namespace) < 0 ||
            text_copy(options->pod, &verify->pod) < 0)
                return -ENOMEM;

        r = runtime_pods_list(verify->client,
                              &(RuntimePodsFilter){ .namespace = verify->namespace,
                                                    .pod = verify->pod },
                              on_list, verify, &verify->call);
        if (r < 0)
                return r;

        *ret = take_ptr(verify);
        return 0;
}

Verify *verify_free(Verify *verify) {
        if (!verify)
                return NULL;

        runtime_pods_call_free(verify->call);
        rpc_call_unref(verify->status_call);
        image_ids_free(verify->ids);
        for (size_t i = 0; i < verify->n_items; i++) {
                free(verify->items[i].reference);
                free(verify->items[i].reference_id);
                free(verify->items[i].running_id);
                free(verify->items[i].message);
        }
        free(verify->items);
        runtime_pods_done(&verify->pods);
        free(verify->namespace);
        free(verify->pod);
        free(verify);
        return NULL;
}
