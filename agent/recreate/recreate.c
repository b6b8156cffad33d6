/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/recreate/recreate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/base/text.h"
#include "agent/recreate/recreate-context.h"
#include "agent/recreate/recreate-controller-spec.h"
#include "agent/recreate/recreate-controller.h"

#define COPIES 3 /* at most: the agent also keeps the states that it wants and has sent */

DEFINE_CLEANUP(Recreate *, recreate_free)

static void notify_changed(Recreate *recreate) {
        recreate->context->on_changed(recreate->context->userdata);
}

/* The pods */

static int note_pod(Recreate *recreate, const Pod *pod) {
        bool has_request = false;

        for (size_t i = 0; i < recreate->n_requests; i++)
                if (recreate->requests[i]->spec->pod_uid
                            ? strcmp(recreate->requests[i]->spec->pod_uid, pod->uid) == 0
                            : strcmp(recreate->requests[i]->spec->pod_name ?: "", pod->name) == 0)
                        has_request = recreate->requests[i]->list.is_due = true;

        return has_request ? recreate_reconcile(recreate) : 0;
}

static int on_pod(const Pod *pod, const Pod *before, void *userdata) {
        Recreate *recreate = userdata;
        int r;

        r = note_pod(recreate, pod);
        return r < 0 ? r : recreate_unassigned_on_pod(recreate, pod);
}

static int on_pod_gone(const Pod *pod, void *userdata) {
        return note_pod(userdata, pod);
}

static int on_pods_state(bool is_synced, void *userdata) {
        return recreate_reconcile(userdata);
}

static void watch_pods(Recreate *recreate) {
        recreate->watcher = (PodsWatcher){
                .on_pod = on_pod,
                .on_gone = on_pod_gone,
                .on_state = on_pods_state,
                .userdata = recreate,
        };
        pods_watch(recreate->context->pods, &recreate->watcher);
}

/* All requests */

static size_t size_of(const RecreateSpec *spec) {
        size_t size = COPIES * recreate_spec_size(spec);

        return size > RECREATE_SIZE_MIN ? size : RECREATE_SIZE_MIN;
}

static void give_room(RecreateRequest *request) {
        recreate_room_give(&request->recreate->rooms[RECREATE_OURS], request->spec->namespace,
                           request->size);
        request->size = 0;
}

static void free_request(RecreateRequest *request) {
        give_room(request);
        recreate_request_free(request);
}

/* The watch may show it again later. No container, pod or write depends on it. */
static bool may_wait(const RecreateRequest *request) {
        return !request->stop.stop && !request->write.call && !request->owes_report &&
               !recreate_controller_owes_gate(request);
}

static void displace(RecreateRequest *request) {
        give_room(request);
        recreate_request_show_gone(request);
}

static RecreateRequest *find_displaceable(const Recreate *recreate, const char *namespace) {
        for (size_t i = recreate->n_requests; i > 0; i--) {
                RecreateRequest *request = recreate->requests[i - 1];

                if (request->size > 0 && strcmp(request->spec->namespace, namespace) == 0 &&
                    may_wait(request))
                        return request;
        }

        return NULL;
}

/* Displaces requests of namespaces with more until there is room. Returns whether there is. A half of
 * the room that is free, in which requests are listed again, has to be enough for any of them. */
static bool make_room(Recreate *recreate, const RecreateSpec *spec, size_t size) {
        const char *namespace = spec->namespace, *loser;

        if (size > RECREATE_ROOM_MAX / 2) {
                log_warning(recreate->context->log, NULL,
                            "The restart request \"%s/%s\" is too large to be served.", namespace,
                            spec->name);
                return false;
        }

        while ((loser = recreate_room_loser(&recreate->rooms[RECREATE_OURS], namespace, size))) {
                RecreateRequest *last =
                        loser == namespace ? NULL : find_displaceable(recreate, loser);

                recreate_note_overfull(recreate, RECREATE_OURS);
                if (!last)
                        return false;
                displace(last);
        }

        return true;
}

/* Takes the spec over, even on failure. *ret is NULL if there is no room. */
static int add(Recreate *recreate, RecreateSpec *spec, RecreateRequest **ret) {
        size_t size = size_of(spec);
        RecreateRequest *request;
        int r;

        *ret = NULL;
        if (!make_room(recreate, spec, size)) {
                recreate_spec_free(spec);
                return 0;
        }

        r = array_grow(&recreate->requests, recreate->n_requests, sizeof(*ret));
        if (r < 0) {
                recreate_spec_free(spec);
                return r;
        }

        r = recreate_request_new(recreate, spec, &request);
        if (r < 0)
                return r;

        recreate->requests[recreate->n_requests++] = *ret = request;
        request->size = size;
        return recreate_room_take(&recreate->rooms[RECREATE_OURS], spec->namespace, size);
}

/* Counts what a request takes now that it has changed; if there is no room for that, it waits. */
static int resize(Recreate *recreate, RecreateRequest *request) {
        const char *namespace = request->spec->namespace;
        size_t size = size_of(request->spec);

        if (request->stale.spec)
                size += recreate_spec_size(request->stale.spec);
        if (size == request->size)
                return 0;

        give_room(request);
        if (!make_room(recreate, request->spec, size) && may_wait(request)) {
                displace(request);
                return 0;
        }
        request->size = size;
        return recreate_room_take(&recreate->rooms[RECREATE_OURS], namespace, size);
}

/* The watch */

static RecreateRequest *find(const Recreate *recreate, const char *uid) {
        for (size_t i = 0; i < recreate->n_requests; i++)
                if (strcmp(recreate->requests[i]->spec->uid, uid) == 0)
                        return recreate->requests[i];

        return NULL;
}

/* Another request has the name, and would get the writes for this one. */
static void replace(Recreate *recreate, const RecreateSpec *by) {
        for (size_t i = 0; i < recreate->n_requests; i++) {
                RecreateRequest *request = recreate->requests[i];

                if (strcmp(request->spec->name, by->name) != 0 ||
                    strcmp(request->spec->namespace, by->namespace) != 0)
                        continue;
                recreate_request_show_gone(request);
                request->is_missing = true;
        }
}

/* Takes the spec over, even on failure. */
static int show(Recreate *recreate, RecreateSpec *spec) {
        RecreateRequest *request = find(recreate, spec->uid);
        int r;

        if (request) {
                r = recreate_request_show(request, spec);
                return r < 0 ? r : resize(recreate, request);
        }

        replace(recreate, spec);
        return add(recreate, spec, &request);
}

static int show_object(Recreate *recreate, const KubeObject *object) {
        cleanup(error_done) Error error = ERROR_INIT;
        RecreateSpec *spec;
        int r;

        r = recreate_spec_parse(object->json, recreate->dialect, &spec, &error);
        if (r < 0 && error.kind == ERROR_NONE)
                return r;
        if (r < 0) {
                log_warning(recreate->context->log, NULL, "A restart request cannot be read: %s.",
                            error_message(&error));
                return 0;
        }

        r = show(recreate, spec);
        return r < 0 ? r : recreate_reconcile(recreate);
}

static int on_object(const KubeObject *object, void *userdata) {
        return show_object(userdata, object);
}

static int on_unassigned(const KubeObject *object, void *userdata) {
        return recreate_unassigned_show(userdata, object);
}

static int show_gone(Recreate *recreate, const KubeObject *object) {
        RecreateRequest *request = find(recreate, object->uid);

        if (!request)
                return 0;

        recreate_request_show_gone(request);
        return recreate_reconcile(recreate);
}

static int on_gone(const KubeObject *object, void *userdata) {
        return show_gone(userdata, object);
}

static int on_unassigned_gone(const KubeObject *object, void *userdata) {
        return recreate_unassigned_gone(userdata, object->uid);
}

/* Notes that the watch shows no request any more. */
static void lose_all(Recreate *recreate) {
        recreate_unassigned_drop(recreate);
        for (size_t i = 0; i < recreate->n_requests; i++)
                recreate_request_show_gone(recreate->requests[i]);
}

static int on_version(const char *version, void *userdata) {
        Recreate *recreate = userdata;

        recreate->version = version;
        if (version)
                recreate->dialect =
                        strcmp(version, "v1alpha1") == 0 ? RECREATE_V1ALPHA1 : RECREATE_V1BETA1;
        else
                lose_all(recreate);
        return 0;
}

static int on_resource_changed(void *userdata) {
        Recreate *recreate = userdata;

        notify_changed(recreate);
        return recreate_reconcile(recreate);
}

static int add_resource(Recreate *recreate) {
        /* Newer first, since the server need not convert stored objects then. */
        static const char *const versions[] = { "v1beta1", "v1alpha1", NULL };
        cleanup(free_p) char *labels = NULL;

        if (text_format(&labels, RECREATE_LABEL_NODE "=%s," RECREATE_LABEL_ACTIVE "=true",
                        recreate->context->node_name) < 0)
                return -ENOMEM;

        return kube_resource_new(
                &(KubeResourceOptions){
                        .client = recreate->context->client,
                        .log = recreate->context->log,
                        .metrics = recreate->context->metrics,
                        .group = RECREATE_GROUP,
                        .versions = versions,
                        .resource = RECREATE_RESOURCE,
                        .subject = "the restart requests",
                        .is_optional = true,
                        .selections = { [RECREATE_OURS] = { .labels = labels,
                                                            .on_object = on_object,
                                                            .on_gone = on_gone },
                                        [RECREATE_UNASSIGNED] = { .labels = "!" RECREATE_LABEL_NODE,
                                                                  .on_object = on_unassigned,
                                                                  .on_gone = on_unassigned_gone } },
                        .on_version = on_version,
                        .on_changed = on_resource_changed,
                        .userdata = recreate,
                },
                &recreate->resource);
}

/* Turns */

static void sweep(Recreate *recreate) {
        size_t n = 0;

        for (size_t i = 0; i < recreate->n_requests; i++) {
                RecreateRequest *request = recreate->requests[i];

                if (recreate_request_is_done(request) && !recreate_controller_owes_gate(request))
                        free_request(request);
                else
                        recreate->requests[n++] = request;
        }

        recreate->n_requests = n;
}

static int compare(const void *a, const void *b) {
        RecreateRequest *const *x = a, *const *y = b;

        return recreate_queue_compare((*x)->spec, (*y)->spec);
}

static bool may_have_turn(const RecreateRequest *request) {
        return !recreate_request_is_over(request) && !request->spec->problem;
}

/* Chooses the request of a pod to serve. While a request that is over or cannot be served still
 * stops a container, no other is served. */
static const RecreateRequest *choose(RecreateRequest *const *requests, size_t n) {
        const RecreateRequest *chosen = NULL;

        for (size_t i = 0; i < n; i++) {
                if (recreate_request_is_stopping(requests[i]))
                        return may_have_turn(requests[i]) ? requests[i] : NULL;
                if (!chosen && may_have_turn(requests[i]))
                        chosen = requests[i];
        }

        return chosen;
}

static size_t count_of_pod(RecreateRequest *const *requests, size_t n) {
        size_t i = 1;

        while (i < n && recreate_queue_is_same_pod(requests[0]->spec, requests[i]->spec))
                i++;

        return i;
}

static int reconcile_request(RecreateRequest *request, bool has_turn) {
        int r;

        r = recreate_request_begin(request);
        if (r >= 0)
                r = recreate_controller_decide(request, has_turn);
        if (r >= 0)
                r = recreate_request_serve(request, has_turn);
        if (r >= 0)
                r = recreate_controller_act(request, has_turn);

        return r < 0 ? r : recreate_request_end(request);
}

static int reconcile_pod(RecreateRequest *const *requests, size_t n) {
        const RecreateRequest *chosen = choose(requests, n);
        int r = 0;

        for (size_t i = 0; i < n && r >= 0; i++)
                r = reconcile_request(requests[i], requests[i] == chosen);

        return r;
}

static RecreateRequest *find_named(const Recreate *recreate, const char *namespace,
                                   const char *name) {
        for (size_t i = 0; i < recreate->n_requests; i++) {
                const RecreateSpec *spec = recreate->requests[i]->spec;

                if (strcmp(spec->name, name) == 0 && strcmp(spec->namespace, namespace) == 0)
                        return recreate->requests[i];
        }

        return NULL;
}

static int add_remnant(Recreate *recreate, const Pod *pod, const char *name) {
        RecreateRequest *request;
        RecreateSpec *spec;
        int r;

        r = recreate_controller_remnant(pod, name, &spec);
        if (r < 0)
                return r;
        r = add(recreate, spec, &request);
        if (r < 0 || !request)
                return r;

        request->is_gone = true;
        request->gate = REQUEST_GATE_FOUND_CLOSED;
        return 0;
}

/* A pod names the request as keeping it unready. */
static int note_closed(Recreate *recreate, const Pod *pod, const char *name) {
        RecreateRequest *request = find_named(recreate, pod->namespace, name);

        if (!request ||
            (!request->spec->is_managed && !recreate_gate_may_be_of(request->spec, pod->name)))
                return add_remnant(recreate, pod, name);
        if (!request->spec->is_managed)
                return 0;

        request->may_have_closed = true; /* in a previous run */
        return text_set(&request->gate_pod, pod->name);
}

static int find_remnants_of_pod(Recreate *recreate, const Pod *pod) {
        cleanup(texts_free_p) char **names = NULL;
        int r;

        if (!pod->has_kruise_gate || !pod->kruise_message)
                return 0;

        r = recreate_gate_requests(pod, &names);
        for (size_t i = 0; r >= 0 && names[i]; i++)
                r = note_closed(recreate, pod, names[i]);

        return r;
}

/* Finds, once all pods and requests are known, pods that are kept unready by requests which were
 * deleted or changed while no agent ran. */
static int find_remnants(Recreate *recreate) {
        int r = 0;

        if (recreate->has_found_remnants || !pods_are_synced(recreate->context->pods) ||
            !kube_resource_is_synced(recreate->resource))
                return 0;

        recreate->has_found_remnants = true;
        for (size_t i = 0; i < pods_count(recreate->context->pods) && r >= 0; i++)
                r = find_remnants_of_pod(recreate, pods_get(recreate->context->pods, i));

        return r;
}

/* Shows the dropped requests again once half of the room is free. Not from within a watch. */
static int list_rest(Recreate *recreate, RecreateSelection selection) {
        if (!recreate->is_overfull[selection] || !recreate->version ||
            recreate->rooms[selection].size > RECREATE_ROOM_MAX / 2)
                return 0;

        recreate->is_overfull[selection] = false;
        return kube_resource_show_again(recreate->resource, selection);
}

static int on_reconcile(void *userdata) {
        Recreate *recreate = userdata;
        size_t n;
        int r;

        r = find_remnants(recreate);
        if (r < 0)
                return r;

        if (recreate->n_requests > 0)
                qsort(recreate->requests, recreate->n_requests, sizeof(recreate->requests[0]),
                      compare);
        for (size_t i = 0; i < recreate->n_requests; i += n) {
                n = count_of_pod(recreate->requests + i, recreate->n_requests - i);
                r = reconcile_pod(recreate->requests + i, n);
                if (r < 0)
                        return r;
        }

        sweep(recreate);
        r = list_rest(recreate, RECREATE_OURS);
        return r < 0 ? r : list_rest(recreate, RECREATE_UNASSIGNED);
}

int recreate_new(const PodContext *context, Recreate **ret) {
        cleanup(recreate_free_p) Recreate *recreate = NULL;
        int r;

        recreate = calloc(1, sizeof(*recreate));
        if (!recreate)
                return -ENOMEM;

        recreate->context = context;
        deferred_init(&recreate->reconcile, context->event, on_reconcile, recreate);
        watch_pods(recreate);
        r = recreate_note_runtimes(recreate);
        if (r >= 0)
                r = add_resource(recreate);
        if (r < 0)
                return r;

        *ret = take_ptr(recreate);
        return 0;
}

Recreate *recreate_free(Recreate *recreate) {
        if (!recreate)
                return NULL;

        pods_unwatch(recreate->context->pods, &recreate->watcher);
        kube_resource_free(recreate->resource);
        recreate_unassigned_drop(recreate);
        deferred_done(&recreate->reconcile);
        for (size_t i = 0; i < recreate->n_requests; i++)
                free_request(recreate->requests[i]);
        free(recreate->requests);
        for (size_t i = 0; i < recreate->n_schemes; i++)
                free(recreate->schemes[i]);
        free(recreate->schemes);
        for (size_t i = 0; i < _RECREATE_RIGHT_MAX; i++)
                error_done(&recreate->refusals[i]);
        free(recreate);
        return NULL;
}

int recreate_runtime_changed(Recreate *recreate) {
        int r;

        r = recreate_note_runtimes(recreate);
        for (size_t i = 0; r >= 0 && i < recreate->n_requests; i++)
                r = recreate_request_runtime_changed(recreate->requests[i]);

        return r < 0 ? r : recreate_reconcile(recreate);
}

int recreate_kick(Recreate *recreate) {
        int r;

        for (size_t i = 0; i < recreate->n_requests; i++)
                kube_patch_rest(&recreate->requests[i]->write, 0);

        r = kube_resource_kick(recreate->resource);
        if (r >= 0)
                r = recreate_unassigned_kick(recreate);

        return r < 0 ? r : recreate_reconcile(recreate);
}

const char *recreate_version(const Recreate *recreate) {
        return recreate->version;
}

const Error *recreate_error(const Recreate *recreate) {
        const Error *error = kube_resource_error(recreate->resource);

        return error->kind != ERROR_NONE ? error : recreate_missing_right(recreate) ?: error;
}

size_t recreate_n_open(const Recreate *recreate) {
        size_t n = 0;

        for (size_t i = 0; i < recreate->n_requests; i++)
                n += !recreate_request_is_over(recreate->requests[i]);

        return n;
}
