/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/recreate/recreate.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/base/text.h"
#include "agent/recreate/recreate-context.h"
#include "agent/recreate/recreate-controller-spec.h"
#include "agent/recreate/recreate-controller.h"

DEFINE_CLEANUP(Recreate *, recreate_free)
DEFINE_CLEANUP(char **, recreate_gate_requests_free)

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

/* Takes the spec and the object over, even on failure. *ret is NULL if there is no place. */
static int add(Recreate *recreate, RecreateSpec *spec, struct json_object *object,
               RecreateRequest **ret) {
        RecreateRequest *request;
        int r;

        *ret = NULL;
        if (recreate->n_requests >= RECREATE_REQUESTS_MAX) {
                recreate_note_overfull(recreate, RECREATE_OURS);
                recreate_spec_free(spec);
                json_object_put(object);
                return 0;
        }

        r = array_grow(&recreate->requests, recreate->n_requests, sizeof(*ret));
        if (r < 0) {
                recreate_spec_free(spec);
                json_object_put(object);
                return r;
        }

        r = recreate_request_new(recreate, spec, object, &request);
        if (r < 0)
                return r;

        recreate->requests[recreate->n_requests++] = *ret = request;
        return 0;
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

/* Takes the spec and the object over, even on failure. */
static int show(Recreate *recreate, RecreateSpec *spec, struct json_object *object) {
        RecreateRequest *request = find(recreate, spec->uid);

        if (request)
                return recreate_request_show(request, spec, object);

        replace(recreate, spec);
        return add(recreate, spec, object, &request);
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

        r = show(recreate, spec, spec->is_managed ? json_object_get(object->json) : NULL);
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
                        recreate_request_free(request);
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

static bool is_known(const Recreate *recreate, const Pod *pod, const char *name) {
        for (size_t i = 0; i < recreate->n_requests; i++) {
                const RecreateSpec *spec = recreate->requests[i]->spec;

                if (strcmp(spec->name, name) == 0 && strcmp(spec->namespace, pod->namespace) == 0)
                        return true;
        }

        return false;
}

static int add_remnant(Recreate *recreate, const Pod *pod, const char *name) {
        RecreateRequest *request;
        RecreateSpec *spec;
        int r;

        r = recreate_controller_remnant(pod, name, &spec);
        if (r < 0)
                return r;
        r = add(recreate, spec, NULL, &request);
        if (r < 0 || !request)
                return r;

        request->is_gone = true;
        request->gate = REQUEST_GATE_FOUND_CLOSED;
        return 0;
}

static int find_remnants_of_pod(Recreate *recreate, const Pod *pod) {
        cleanup(recreate_gate_requests_free_p) char **names = NULL;
        int r;

        if (!pod->has_kruise_gate || !pod->kruise_message)
                return 0;

        r = recreate_gate_requests(pod, &names);
        for (size_t i = 0; r >= 0 && names[i]; i++)
                if (!is_known(recreate, pod, names[i]))
                        r = add_remnant(recreate, pod, names[i]);

        return r;
}

/* Finds, once all pods and requests are known, pods that are kept unready by requests which were
 * deleted while no agent ran. */
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
        size_t n = selection == RECREATE_OURS ? recreate->n_requests : recreate->n_unassigned;

        if (!recreate->is_overfull[selection] || !recreate->version ||
            n > RECREATE_REQUESTS_MAX / 2)
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
                recreate_request_free(recreate->requests[i]);
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
