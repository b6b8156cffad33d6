/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/pod/runtime-pods.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "cri/client.h"

#define SELECTORS_MAX 3

/* A container with its sort keys. */
typedef struct Found {
        const CriContainer *container;
        const char *namespace;
        const char *pod;
        const char *uid;
        const char *name;
        unsigned restart_count;
} Found;

const char *cri_container_label(const CriContainer *container, const char *key) {
        for (size_t i = 0; i < container->n_labels; i++)
                if (strcmp(container->labels[i]->key, key) == 0)
                        return container->labels[i]->value;

        return NULL;
}

const char *cri_container_annotation(const CriContainer *container, const char *key) {
        for (size_t i = 0; i < container->n_annotations; i++)
                if (strcmp(container->annotations[i]->key, key) == 0)
                        return container->annotations[i]->value;

        return NULL;
}

/* 0 if it is not a number, or a larger one. */
static uint64_t read_number(const char *text, int base, uint64_t max) {
        const char *digits = base == 16 ? "0123456789abcdefABCDEF" : "0123456789";
        uint64_t number;

        if (!text || text[strspn(text, digits)] != '\0')
                return 0;

        errno = 0;
        number = strtoull(text, NULL, base);
        return errno == 0 && number <= max ? number : 0;
}

static bool container_find_pod(const CriContainer *container, Found *ret) {
        *ret = (Found){
                .container = container,
                .namespace = cri_container_label(container, LABEL_POD_NAMESPACE),
                .pod = cri_container_label(container, LABEL_POD_NAME),
                .uid = cri_container_label(container, LABEL_POD_UID),
                .name = cri_container_label(container, LABEL_CONTAINER_NAME),
                .restart_count =
                        (unsigned) read_number(cri_container_annotation(container,
                                                                        ANNOTATION_RESTART_COUNT),
                                               10, INT32_MAX),
        };
        return ret->namespace && ret->pod && ret->uid && ret->name;
}

static bool is_same_pod(const Found *a, const Found *b) {
        return strcmp(a->uid, b->uid) == 0 && strcmp(a->pod, b->pod) == 0 &&
               strcmp(a->namespace, b->namespace) == 0;
}

/* The newest container of a name comes first. */
static int compare_found(const void *left, const void *right) {
        const Found *a = left, *b = right;
        int r;

        if ((r = strcmp(a->namespace, b->namespace)) != 0 || (r = strcmp(a->pod, b->pod)) != 0 ||
            (r = strcmp(a->uid, b->uid)) != 0 || (r = strcmp(a->name, b->name)) != 0)
                return r;
        if (a->container->created_at != b->container->created_at)
                return a->container->created_at > b->container->created_at ? -1 : 1;
        if (a->restart_count != b->restart_count)
                return a->restart_count > b->restart_count ? -1 : 1;

        return strcmp(a->container->id, b->container->id);
}

static const char *choose(const char *text, const char *otherwise) {
        return text[0] ? text : otherwise;
}

static int read_container(const Found *found, RuntimeContainer *to) {
        const CriContainer *from = found->container;
        const char *image =
                from->image ? choose(from->image->user_specified_image, from->image->image) : "";

        *to = (RuntimeContainer){
                .is_running = from->state == RUNTIME__V1__CONTAINER_STATE__CONTAINER_RUNNING,
                .is_exited = from->state == RUNTIME__V1__CONTAINER_STATE__CONTAINER_EXITED,
                .created_at_nsec = from->created_at,
                .restart_count = found->restart_count,
                .kubelet_hash = read_number(cri_container_annotation(from, ANNOTATION_HASH), 16,
                                            UINT64_MAX),
        };
        if (text_copy(found->name, &to->name) < 0 || text_copy(from->id, &to->id) < 0 ||
            text_copy(from->pod_sandbox_id, &to->sandbox_id) < 0 ||
            text_copy(image, &to->image) < 0 ||
            text_copy(choose(from->image_id, from->image_ref), &to->image_ref) < 0)
                return -ENOMEM;

        return 0;
}

static int read_pod(const Found *found, size_t n_found, RuntimePod *pod) {
        *pod = (RuntimePod){
                .containers = calloc(n_found, sizeof(*pod->containers)),
                .former = calloc(n_found, sizeof(*pod->former)),
        };
        if (!pod->containers || !pod->former || text_copy(found->namespace, &pod->namespace) < 0 ||
            text_copy(found->pod, &pod->name) < 0 || text_copy(found->uid, &pod->uid) < 0)
                return -ENOMEM;

        for (size_t i = 0; i < n_found; i++) {
                bool is_former = i > 0 && strcmp(found[i].name, found[i - 1].name) == 0;
                int r;

                r = read_container(&found[i], is_former ? &pod->former[pod->n_former++]
                                                        : &pod->containers[pod->n_containers++]);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int read_pods(const Found *found, size_t n_found, RuntimePods *pods) {
        size_t n;

        for (size_t i = 0; i < n_found; i += n) {
                int r;

                for (n = 1; i + n < n_found && is_same_pod(&found[i], &found[i + n]); n++)
                        ;
                r = read_pod(&found[i], n, &pods->items[pods->n_items++]);
                if (r < 0)
                        return r;
        }

        return 0;
}

static size_t count_pods(const Found *found, size_t n_found) {
        size_t n = 0;

        for (size_t i = 0; i < n_found; i++)
                if (i == 0 || !is_same_pod(&found[i - 1], &found[i]))
                        n++;
        return n;
}

int runtime_pods_read(const CriContainerList *list, RuntimePods *ret) {
        cleanup(runtime_pods_done) RuntimePods pods = RUNTIME_PODS_INIT;
        cleanup(free_p) Found *found = NULL;
        size_t n_found = 0;
        int r;

        found = malloc((list->n_containers + 1) * sizeof(*found));
        if (!found)
                return -ENOMEM;

        for (size_t i = 0; i < list->n_containers; i++)
                if (container_find_pod(list->containers[i], &found[n_found]))
                        n_found++;
        qsort(found, n_found, sizeof(*found), compare_found);

        pods.items = calloc(count_pods(found, n_found) + 1, sizeof(*pods.items));
        if (!pods.items)
                return -ENOMEM;

        r = read_pods(found, n_found, &pods);
        if (r < 0)
                return r;

        *ret = pods;
        pods = RUNTIME_PODS_INIT;
        return 0;
}

static void container_done(RuntimeContainer *container) {
        free(container->name);
        free(container->id);
        free(container->sandbox_id);
        free(container->image);
        free(container->image_ref);
}

static void pod_done(RuntimePod *pod) {
        for (size_t i = 0; i < pod->n_containers; i++)
                container_done(&pod->containers[i]);
        for (size_t i = 0; i < pod->n_former; i++)
                container_done(&pod->former[i]);
        free(pod->containers);
        free(pod->former);
        free(pod->namespace);
        free(pod->name);
        free(pod->uid);
}

void runtime_pods_done(RuntimePods *pods) {
        for (size_t i = 0; i < pods->n_items; i++)
                pod_done(&pods->items[i]);
        free(pods->items);
        *pods = RUNTIME_PODS_INIT;
}

const RuntimePod *runtime_pods_find(const RuntimePods *pods, const char *namespace,
                                    const char *name, const char *uid) {
        for (size_t i = 0; i < pods->n_items; i++) {
                const RuntimePod *pod = &pods->items[i];

                if (strcmp(pod->uid, uid) == 0 && strcmp(pod->name, name) == 0 &&
                    strcmp(pod->namespace, namespace) == 0)
                        return pod;
        }

        return NULL;
}

const RuntimeContainer *runtime_pod_find(const RuntimePod *pod, const char *container) {
        for (size_t i = 0; i < pod->n_containers; i++)
                if (strcmp(pod->containers[i].name, container) == 0)
                        return &pod->containers[i];

        return NULL;
}

/* Calls to the runtime */

struct RuntimePodsCall {
        RpcCall *rpc;
        char *id; /* ID of the container to find */
        RuntimePodsDone on_pods;
        RuntimeContainerDone on_container;
        void *userdata;
};

DEFINE_CLEANUP(RuntimePodsCall *, runtime_pods_call_free)

static int on_pods_listed(const void *reply, const Error *error, void *userdata) {
        cleanup(runtime_pods_done) RuntimePods pods = RUNTIME_PODS_INIT;
        cleanup(error_done) Error refused = ERROR_INIT;
        RuntimePodsCall *call = userdata;
        int r;

        call->rpc = rpc_call_unref(call->rpc);
        if (error) {
                (void) error_set(&refused, error->kind, "the runtime cannot be asked: %s",
                                 error_message(error));
                return call->on_pods(NULL, &refused, call->userdata);
        }

        r = runtime_pods_read(reply, &pods);
        return r < 0 ? r : call->on_pods(&pods, NULL, call->userdata);
}

/* Compares the ID, since the runtime also accepts a prefix. */
static const CriContainer *find_by_id(const CriContainerList *list, const char *id) {
        for (size_t i = 0; i < list->n_containers; i++)
                if (strcmp(list->containers[i]->id, id) == 0)
                        return list->containers[i];

        return NULL;
}

static int on_container_listed(const void *reply, const Error *error, void *userdata) {
        RuntimePodsCall *call = userdata;

        call->rpc = rpc_call_unref(call->rpc);
        return call->on_container(error ? NULL : find_by_id(reply, call->id), error,
                                  call->userdata);
}

static int call_new(void *userdata, RuntimePodsCall **ret) {
        RuntimePodsCall *call = malloc(sizeof(*call));

        if (!call)
                return -ENOMEM;

        *call = (RuntimePodsCall){ .userdata = userdata };
        *ret = call;
        return 0;
}

int runtime_pods_list(RpcClient *client, const RuntimePodsFilter *filter, RuntimePodsDone on_done,
                      void *userdata, RuntimePodsCall **ret) {
        const char *const keys[SELECTORS_MAX] = { LABEL_POD_NAME, LABEL_POD_NAMESPACE,
                                                  LABEL_POD_UID };
        const char *const values[SELECTORS_MAX] = { filter->pod, filter->namespace, filter->uid };
        Runtime__V1__ContainerFilter__LabelSelectorEntry entries[SELECTORS_MAX];
        Runtime__V1__ContainerFilter__LabelSelectorEntry *selector[SELECTORS_MAX];
        CriContainerFilter cri_filter = RUNTIME__V1__CONTAINER_FILTER__INIT;
        cleanup(runtime_pods_call_free_p) RuntimePodsCall *call = NULL;
        size_t n = 0;
        int r;

        r = call_new(userdata, &call);
        if (r < 0)
                return r;

        for (size_t i = 0; i < SELECTORS_MAX; i++) {
                if (!values[i] || !values[i][0])
                        continue;

                runtime__v1__container_filter__label_selector_entry__init(&entries[n]);
                entries[n].key = (char *) keys[i];
                entries[n].value = (char *) values[i];
                selector[n] = &entries[n];
                n++;
        }

        cri_filter.label_selector = selector;
        cri_filter.n_label_selector = n;
        call->on_pods = on_done;
        r = cri_list_containers(client, n > 0 ? &cri_filter : NULL, on_pods_listed, call,
                                &call->rpc);
        if (r < 0)
                return r;

        *ret = take_ptr(call);
        return 0;
}

int runtime_pods_find_container(RpcClient *client, const char *id, RuntimeContainerDone on_done,
                                void *userdata, RuntimePodsCall **ret) {
        CriContainerFilter filter = RUNTIME__V1__CONTAINER_FILTER__INIT;
        cleanup(runtime_pods_call_free_p) RuntimePodsCall *call = NULL;
        int r;

        r = call_new(userdata, &call);
        if (r < 0)
                return r;

        call->id = strdup(id);
        if (!call->id)
                return -ENOMEM;

        filter.id = call->id;
        call->on_container = on_done;
        r = cri_list_containers(client, &filter, on_container_listed, call, &call->rpc);
        if (r < 0)
                return r;

        *ret = take_ptr(call);
        return 0;
}

RuntimePodsCall *runtime_pods_call_free(RuntimePodsCall *call) {
        if (!call)
                return NULL;

        rpc_call_unref(call->rpc);
        free(call->id);
        free(call);
        return NULL;
}
