/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/pod/pods.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/quote.h"
#include "agent/base/text.h"
#include "agent/kube/resource.h"
#include "agent/pod/pod-spec.h"

#define REFUSED_MAX 64

/* Pods by namespace and name. Not by UID, since other writers' texts contain UIDs: the agent
 * compares such a UID with that of the pod of the name. */
typedef struct PodList {
        Pod **items; /* owned, in that order */
        size_t n_items;
} PodList;

struct Pods {
        Log *log;
        void (*on_changed)(void *userdata);
        void *userdata;
        KubeResource *resource;
        PodList list;
        PodsWatcher *watchers;
        char *refused[REFUSED_MAX]; /* "namespace/name" of pods with a warning in the log */
        size_t n_refused;
};

DEFINE_CLEANUP(Pods *, pods_free)
DEFINE_CLEANUP(Pod *, pod_free)

typedef struct PodKey {
        const char *namespace;
        const char *name;
} PodKey;

static int compare(const void *item, const void *key) {
        const Pod *pod = item;
        const PodKey *searched = key;
        int r = strcmp(pod->namespace, searched->namespace);

        return r != 0 ? r : strcmp(pod->name, searched->name);
}

static bool list_find(const PodList *list, const char *namespace, const char *name,
                      size_t *ret_at) {
        const PodKey key = { .namespace = namespace, .name = name };

        return sorted_find(list->items, list->n_items, compare, &key, ret_at);
}

/* Takes the pod over, unless it fails. *ret_before is the former pod of the name, owned by the
 * caller; NULL: none. */
static int pod_list_put(PodList *list, Pod **pod, Pod **ret_before) {
        size_t at;
        int r;

        if (list_find(list, (*pod)->namespace, (*pod)->name, &at)) {
                *ret_before = list->items[at];
                list->items[at] = take_ptr(*pod);
                return 0;
        }

        r = sorted_insert(&list->items, &list->n_items, at, *pod);
        if (r < 0)
                return r;

        *pod = NULL;
        *ret_before = NULL;
        return 0;
}

/* The caller owns it. NULL: there is none. */
static Pod *pod_list_take(PodList *list, const char *namespace, const char *name) {
        size_t at;
        Pod *pod;

        if (!list_find(list, namespace, name, &at))
                return NULL;

        pod = list->items[at];
        sorted_remove(list->items, &list->n_items, at);
        return pod;
}

static const Pod *pod_list_find(const PodList *list, const char *namespace, const char *name) {
        size_t at;

        return list_find(list, namespace, name, &at) ? list->items[at] : NULL;
}

static void pod_list_done(PodList *list) {
        for (size_t i = 0; i < list->n_items; i++)
                pod_free(list->items[i]);
        free(list->items);
        *list = (PodList){ .n_items = 0 };
}

/* Returns the index of the name among those with a warning, or their number. */
static size_t pods_find_refused(const Pods *pods, const char *namespace, const char *name) {
        size_t size = strlen(namespace), i;

        for (i = 0; i < pods->n_refused; i++)
                if (strncmp(pods->refused[i], namespace, size) == 0 &&
                    pods->refused[i][size] == '/' && strcmp(pods->refused[i] + size + 1, name) == 0)
                        break;

        return i;
}

static void pods_forget_refused(Pods *pods, const char *namespace, const char *name) {
        size_t i = pods_find_refused(pods, namespace, name);

        if (i == pods->n_refused)
                return;

        free(pods->refused[i]);
        pods->refused[i] = pods->refused[--pods->n_refused];
}

/* Warns once for each pod, up to a limit, so that invalid pods do not fill the log. */
static int pods_refuse(Pods *pods, const KubeObject *object, const Error *error) {
        if (pods->n_refused == REFUSED_MAX ||
            pods_find_refused(pods, object->namespace, object->name) < pods->n_refused)
                return 0;

        if (text_format(&pods->refused[pods->n_refused], "%s/%s", object->namespace, object->name) <
            0)
                return -ENOMEM;

        pods->n_refused++;
        log_warning(pods->log, LOG_FIELDS({ "MESSAGE_ID", MESSAGE_DOCUMENT_REFUSED }),
                    "Cannot read pod %s of namespace %s, keeping its previous state: %s.",
                    quote(object->name, (char[QUOTE_SIZE]){ 0 }),
                    quote(object->namespace, (char[QUOTE_SIZE]){ 0 }), error_message(error));
        return 0;
}

static int pods_notify_pod(Pods *pods, const Pod *pod, const Pod *before) {
        PodsWatcher *next;
        int r = 0;

        for (PodsWatcher *watcher = pods->watchers; r >= 0 && watcher; watcher = next) {
                next = watcher->next;
                r = watcher->on_pod(pod, before, watcher->userdata);
        }

        return r;
}

static int pods_notify_gone(Pods *pods, const Pod *pod) {
        PodsWatcher *next;
        int r = 0;

        for (PodsWatcher *watcher = pods->watchers; r >= 0 && watcher; watcher = next) {
                next = watcher->next;
                r = watcher->on_gone(pod, watcher->userdata);
        }

        return r;
}

static int pods_notify_state(Pods *pods, bool is_synced) {
        PodsWatcher *next;
        int r = 0;

        for (PodsWatcher *watcher = pods->watchers; r >= 0 && watcher; watcher = next) {
                next = watcher->next;
                r = watcher->on_state(is_synced, watcher->userdata);
        }

        return r;
}

static int on_object(const KubeObject *object, void *userdata) {
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(pod_free_p) Pod *pod = NULL;
        cleanup(pod_free_p) Pod *before = NULL;
        Pods *pods = userdata;
        const Pod *newest;
        int r;

        r = pod_spec_parse(object->bytes, object->n_bytes, &pod, &error);
        if (error.kind != ERROR_NONE)
                return pods_refuse(pods, object, &error);
        if (r < 0)
                return r;

        newest = pod;
        r = pod_list_put(&pods->list, &pod, &before);
        if (r < 0)
                return r;

        return pods_notify_pod(pods, newest, before);
}

static int on_gone(const KubeObject *object, void *userdata) {
        cleanup(pod_free_p) Pod *pod = NULL;
        Pods *pods = userdata;

        pods_forget_refused(pods, object->namespace, object->name);
        pod = pod_list_take(&pods->list, object->namespace, object->name);
        return pod ? pods_notify_gone(pods, pod) : 0;
}

static int on_changed(void *userdata) {
        Pods *pods = userdata;

        if (pods->on_changed)
                pods->on_changed(pods->userdata);
        return pods_notify_state(pods, pods_are_synced(pods));
}

/* A server without the resource, as in a test, has no pods. */
static int pods_add_resource(Pods *pods, const PodsOptions *options) {
        static const char *const versions[] = { "v1", NULL };
        cleanup(free_p) char *fields = NULL;

        if (text_format(&fields, "spec.nodeName=%s", options->node_name) < 0)
                return -ENOMEM;

        return kube_resource_new(
                &(KubeResourceOptions){
                        .client = options->client,
                        .log = options->log,
                        .metrics = options->metrics,
                        .versions = versions,
                        .resource = "pods",
                        .subject = "the pods of this node",
                        .is_optional = true,
                        .is_protobuf = true,
                        .selections = { { .fields = fields,
                                          .on_object = on_object,
                                          .on_gone = on_gone } },
                        .on_changed = on_changed,
                        .userdata = pods,
                },
                &pods->resource);
}

int pods_new(const PodsOptions *options, Pods **ret) {
        cleanup(pods_free_p) Pods *pods = NULL;
        int r;

        pods = malloc(sizeof(*pods));
        if (!pods)
                return -ENOMEM;

        *pods = (Pods){
                .log = options->log,
                .on_changed = options->on_changed,
                .userdata = options->userdata,
        };
        r = pods_add_resource(pods, options);
        if (r < 0)
                return r;

        *ret = take_ptr(pods);
        return 0;
}

Pods *pods_free(Pods *pods) {
        if (!pods)
                return NULL;

        pods->resource = kube_resource_free(pods->resource);
        while (pods->watchers)
                pods_unwatch(pods, pods->watchers);
        while (pods->n_refused > 0)
                free(pods->refused[--pods->n_refused]);
        pod_list_done(&pods->list);
        free(pods);
        return NULL;
}

void pods_watch(Pods *pods, PodsWatcher *watcher) {
        list_prepend(&pods->watchers, watcher);
}

void pods_unwatch(Pods *pods, PodsWatcher *watcher) {
        list_remove(&pods->watchers, watcher);
}

bool pods_are_synced(const Pods *pods) {
        return kube_resource_is_synced(pods->resource);
}

const Error *pods_error(const Pods *pods) {
        return kube_resource_error(pods->resource);
}

const Pod *pods_find(const Pods *pods, const char *namespace, const char *name) {
        return pod_list_find(&pods->list, namespace, name);
}

size_t pods_count(const Pods *pods) {
        return pods->list.n_items;
}

const Pod *pods_get(const Pods *pods, size_t i) {
        return pods->list.items[i];
}

int pods_kick(Pods *pods) {
        return kube_resource_kick(pods->resource);
}
