/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/recreate/recreate.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/recreate/recreate-internal.h"

#define SCHEMES_MAX 64

/* The selections: the requests for this node, and those that no controller has prepared. */
enum { OURS, UNASSIGNED };

DEFINE_CLEANUP(Recreate *, recreate_free)

uint64_t recreate_now_usec(const Recreate *recreate) {
        uint64_t usec = 0;

        (void) sd_event_now(recreate->event, CLOCK_MONOTONIC, &usec);
        return usec;
}

int64_t recreate_wall_usec(void) {
        struct timespec now;

        (void) clock_gettime(CLOCK_REALTIME, &now);
        return (int64_t) now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t recreate_server_usec(const Recreate *recreate) {
        int64_t usec;

        return kube_client_server_usec(recreate->client, &usec) ? usec : recreate_wall_usec();
}

int recreate_look(Recreate *recreate) {
        return sd_event_source_set_enabled(recreate->look, SD_EVENT_ONESHOT);
}

static void notify_changed(Recreate *recreate) {
        recreate->on_changed(recreate->userdata);
}

/* Pods, runtimes, and what the API server says to writes */

static int note_pod(Recreate *recreate, const Pod *pod) {
        bool has_request = false;

        for (size_t i = 0; i < recreate->n_requests; i++)
                if (recreate->requests[i]->spec->pod_uid
                            ? strcmp(recreate->requests[i]->spec->pod_uid, pod->uid) == 0
                            : strcmp(recreate->requests[i]->spec->pod_name ?: "", pod->name) == 0)
                        has_request = recreate->requests[i]->is_stale = true;

        return has_request ? recreate_look(recreate) : 0;
}

static int on_pod(const Pod *pod, const Pod *before, void *userdata) {
        Recreate *recreate = userdata;
        int r;

        r = note_pod(recreate, pod);
        return r < 0 ? r : recreate_orphans_look(recreate, pod);
}

static int on_pod_gone(const Pod *pod, void *userdata) {
        return note_pod(userdata, pod);
}

static int on_pods_state(bool is_synced, void *userdata) {
        return recreate_look(userdata);
}

static void watch_pods(Recreate *recreate) {
        recreate->watcher = (PodsWatcher){
                .on_pod = on_pod,
                .on_gone = on_pod_gone,
                .on_state = on_pods_state,
                .userdata = recreate,
        };
        pods_watch(recreate->pods, &recreate->watcher);
}

static bool is_known_scheme(const Recreate *recreate, const char *scheme) {
        for (size_t i = 0; i < recreate->n_schemes; i++)
                if (strcmp(recreate->schemes[i], scheme) == 0)
                        return true;

        return false;
}

/* Remembers the names of the runtimes that are there. */
static int note_runtimes(Recreate *recreate) {
        for (size_t i = 0; i < runtimes_count(recreate->runtimes); i++) {
                const char *name = runtime_name(runtimes_get(recreate->runtimes, i));
                char **schemes;

                if (!name[0] || is_known_scheme(recreate, name) ||
                    recreate->n_schemes >= SCHEMES_MAX)
                        continue;
                schemes = reallocarray(recreate->schemes, recreate->n_schemes + 1,
                                       sizeof(schemes[0]));
                if (!schemes)
                        return -ENOMEM;
                recreate->schemes = schemes;
                schemes[recreate->n_schemes] = strdup(name);
                if (!schemes[recreate->n_schemes])
                        return -ENOMEM;
                recreate->n_schemes++;
        }

        return 0;
}

Runtime *recreate_find_runtime(const Recreate *recreate, const char *scheme, bool *ret_may_come) {
        Runtime *chosen = runtimes_chosen(recreate->runtimes);
        bool is_any_ready = false;

        *ret_may_come = true;
        if (!scheme[0])
                return chosen && runtime_client(chosen) ? chosen : NULL;

        for (size_t i = 0; i < runtimes_count(recreate->runtimes); i++) {
                Runtime *runtime = runtimes_get(recreate->runtimes, i);

                if (!runtime_client(runtime))
                        continue;
                if (strcmp(runtime_name(runtime), scheme) == 0)
                        return runtime;
                is_any_ready = true;
        }

        *ret_may_come = is_known_scheme(recreate, scheme) || !is_any_ready ||
                        !runtimes_are_settled(recreate->runtimes);
        return NULL;
}

static bool may_pass(const Error *error) {
        return error->kind == ERROR_UNAVAILABLE || error->kind == ERROR_TIMEOUT;
}

static void warn(const Recreate *recreate, const char *what, const Error *reason) {
        const Error *trouble = kube_client_trouble(recreate->client);

        if (!trouble || trouble->kind == ERROR_NONE)
                log_warning(recreate->log, NULL,
                            "Cannot write about the restart request `%s`: %s, retrying.", what,
                            error_message(reason));
}

void recreate_note_read(Recreate *recreate, RecreateRight right) {
        bool was_denied = recreate->refusals[right].kind == ERROR_DENIED;

        error_done(&recreate->refusals[right]);
        if (was_denied)
                notify_changed(recreate);
}

static void note_refusal(Recreate *recreate, RecreateRight right, const char *what,
                         const Error *error) {
        Error *said = &recreate->refusals[right];
        bool is_said = said->kind == error->kind;

        (void) error_update(said, error);
        if (!is_said)
                warn(recreate, what, said);
        notify_changed(recreate);
}

void recreate_note_written(Recreate *recreate, RecreateRight right, const char *what, bool is_first,
                           const Error *error) {
        const Error *said = &recreate->refusals[right];

        metrics_count(recreate->metrics, METRIC_RECREATE_WRITES, !error);
        if (!error) {
                recreate_note_read(recreate, right);
                return;
        }

        /* That one request is wrong is told of that one; the others are written all the same. */
        if (error->kind == ERROR_INVALID) {
                if (is_first)
                        warn(recreate, what, error);
                return;
        }
        /* A server that is busy says nothing about the right that was missing before. */
        if (said->kind != ERROR_DENIED || !may_pass(error))
                note_refusal(recreate, right, what, error);
}

/* The watch */

static RecreateRequest *find(const Recreate *recreate, const char *uid) {
        for (size_t i = 0; i < recreate->n_requests; i++)
                if (strcmp(recreate->requests[i]->spec->uid, uid) == 0)
                        return recreate->requests[i];

        return NULL;
}

/* Another one has its name: what is written about it would be written into that one. */
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

/* Both are taken over, even on failure. */
static int show(Recreate *recreate, RecreateSpec *spec, struct json_object *object) {
        RecreateRequest *request = find(recreate, spec->uid);

        if (request)
                return recreate_request_show(request, spec, object);

        replace(recreate, spec);
        return recreate_add(recreate, spec, object, &request);
}

static int show_object(Recreate *recreate, const KubeObject *object) {
        cleanup(error_done) Error error = ERROR_INIT;
        RecreateSpec *spec;
        int r;

        r = recreate_spec_parse(object->json, recreate->dialect, &spec, &error);
        if (r < 0 && error.kind == ERROR_NONE)
                return r;
        if (r < 0) {
                log_warning(recreate->log, NULL, "A restart request cannot be read: %s.",
                            error_message(&error));
                return 0;
        }

        r = show(recreate, spec, spec->is_managed ? json_object_get(object->json) : NULL);
        return r < 0 ? r : recreate_look(recreate);
}

static int on_object(const KubeObject *object, void *userdata) {
        return show_object(userdata, object);
}

static int on_unassigned(const KubeObject *object, void *userdata) {
        return recreate_orphan_show(userdata, object);
}

static int show_gone(Recreate *recreate, const KubeObject *object) {
        RecreateRequest *request = find(recreate, object->uid);

        if (!request)
                return 0;

        recreate_request_show_gone(request);
        return recreate_look(recreate);
}

static int on_gone(const KubeObject *object, void *userdata) {
        return show_gone(userdata, object);
}

static int on_unassigned_gone(const KubeObject *object, void *userdata) {
        return recreate_orphan_gone(userdata, object->uid);
}

/* None of them can be seen any more. */
static void lose_all(Recreate *recreate) {
        recreate_orphans_drop(recreate);
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
        return recreate_look(recreate);
}

static int add_resource(Recreate *recreate, const RecreateOptions *options) {
        /* Newer first: what is stored need not be converted then. */
        static const char *const versions[] = { "v1beta1", "v1alpha1", NULL };
        cleanup(free_p) char *labels = NULL;

        if (asprintf(&labels, RECREATE_LABEL_NODE "=%s," RECREATE_LABEL_ACTIVE "=true",
                     recreate->node_name) < 0) {
                labels = NULL;
                return -ENOMEM;
        }

        return kube_resource_new(
                &(KubeResourceOptions){
                        .client = options->client,
                        .log = options->log,
                        .metrics = options->metrics,
                        .group = RECREATE_GROUP,
                        .versions = versions,
                        .resource = RECREATE_RESOURCE,
                        .subject = "the restart requests",
                        .is_optional = true,
                        .selections = { [OURS] = { .labels = labels,
                                                   .on_object = on_object,
                                                   .on_gone = on_gone },
                                        [UNASSIGNED] = { .labels = "!" RECREATE_LABEL_NODE,
                                                         .on_object = on_unassigned,
                                                         .on_gone = on_unassigned_gone } },
                        .on_version = on_version,
                        .on_changed = on_resource_changed,
                        .userdata = recreate,
                },
                &recreate->resource);
}

bool recreate_is_synced(const Recreate *recreate) {
        return kube_resource_is_synced(recreate->resource);
}

int recreate_check(Recreate *recreate, const RecreateSpec *spec) {
        return kube_resource_check(recreate->resource, OURS, spec->namespace, spec->name,
                                   spec->version);
}

int recreate_list_orphans_again(Recreate *recreate) {
        recreate_orphans_drop(recreate);
        return kube_resource_show_again(recreate->resource, UNASSIGNED);
}

/* All requests, and their turns */

static int make_place(Recreate *recreate) {
        size_t n = recreate->n_allocated > 0 ? recreate->n_allocated * 2 : 16;
        RecreateRequest **requests;

        if (recreate->n_requests < recreate->n_allocated)
                return 0;

        requests = reallocarray(recreate->requests, n, sizeof(requests[0]));
        if (!requests)
                return -ENOMEM;

        recreate->requests = requests;
        recreate->n_allocated = n;
        return 0;
}

static void tell_overfull(Recreate *recreate) {
        if (!recreate->is_overfull)
                log_warning(recreate->log, NULL,
                            "There are more than %d restart requests: the others wait.",
                            RECREATE_REQUESTS_MAX);
        recreate->is_overfull = true;
}

int recreate_add(Recreate *recreate, RecreateSpec *spec, struct json_object *object,
                 RecreateRequest **ret) {
        RecreateRequest *request;
        int r;

        *ret = NULL;
        if (recreate->n_requests >= RECREATE_REQUESTS_MAX) {
                tell_overfull(recreate);
                recreate_spec_free(spec);
                json_object_put(object);
                return 0;
        }

        r = make_place(recreate);
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

static void sweep(Recreate *recreate) {
        size_t n = 0;

        for (size_t i = 0; i < recreate->n_requests; i++) {
                RecreateRequest *request = recreate->requests[i];

                if (recreate_request_is_useless(request))
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

/* Of the requests for one pod, the one that is served. While a stop of another one goes on that is
 * over itself, nobody is. */
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

static int look_at_pod(RecreateRequest *const *requests, size_t n) {
        const RecreateRequest *chosen = choose(requests, n);
        int r = 0;

        for (size_t i = 0; i < n && r >= 0; i++)
                r = recreate_request_look(requests[i], requests[i] == chosen);

        return r;
}

static int list_those_without_place(Recreate *recreate) {
        if (!recreate->is_overfull || !recreate->version ||
            recreate->n_requests > RECREATE_REQUESTS_MAX / 2)
                return 0;

        recreate->is_overfull = false;
        return kube_resource_show_again(recreate->resource, OURS);
}

static int on_look(sd_event_source *source, void *userdata) {
        Recreate *recreate = userdata;
        size_t n;
        int r;

        r = recreate_find_remnants(recreate);
        if (r < 0)
                return r;

        if (recreate->n_requests > 0)
                qsort(recreate->requests, recreate->n_requests, sizeof(recreate->requests[0]),
                      compare);
        for (size_t i = 0; i < recreate->n_requests; i += n) {
                n = count_of_pod(recreate->requests + i, recreate->n_requests - i);
                r = look_at_pod(recreate->requests + i, n);
                if (r < 0)
                        return r;
        }

        sweep(recreate);
        r = list_those_without_place(recreate);
        return r < 0 ? r : recreate_orphans_list_those_without_place(recreate);
}

static int add_look(Recreate *recreate) {
        int r;

        r = loop_add_defer(recreate->event, &recreate->look, on_look, recreate);
        return r < 0 ? r : sd_event_source_set_enabled(recreate->look, SD_EVENT_OFF);
}

int recreate_new(const RecreateOptions *options, Recreate **ret) {
        cleanup(recreate_free_p) Recreate *recreate = NULL;
        int r;

        recreate = malloc(sizeof(*recreate));
        if (!recreate)
                return -ENOMEM;

        *recreate = (Recreate){
                .event = sd_event_ref(options->event),
                .log = options->log,
                .metrics = options->metrics,
                .client = options->client,
                .pods = options->pods,
                .runtimes = options->runtimes,
                .stops = options->stops,
                .node_name = strdup(options->node_name),
                .on_changed = options->on_changed,
                .userdata = options->userdata,
        };
        watch_pods(recreate);
        if (!recreate->node_name)
                return -ENOMEM;

        r = add_look(recreate);
        if (r >= 0)
                r = note_runtimes(recreate);
        if (r >= 0)
                r = add_resource(recreate, options);
        if (r < 0)
                return r;

        *ret = take_ptr(recreate);
        return 0;
}

Recreate *recreate_free(Recreate *recreate) {
        if (!recreate)
                return NULL;

        pods_unwatch(recreate->pods, &recreate->watcher);
        kube_resource_free(recreate->resource);
        recreate_orphans_drop(recreate);
        sd_event_source_disable_unref(recreate->look);
        for (size_t i = 0; i < recreate->n_requests; i++)
                recreate_request_free(recreate->requests[i]);
        free(recreate->requests);
        for (size_t i = 0; i < recreate->n_schemes; i++)
                free(recreate->schemes[i]);
        free(recreate->schemes);
        free(recreate->node_name);
        for (size_t i = 0; i < _RECREATE_RIGHT_MAX; i++)
                error_done(&recreate->refusals[i]);
        sd_event_unref(recreate->event);
        free(recreate);
        return NULL;
}

int recreate_runtime_changed(Recreate *recreate) {
        int r;

        for (size_t i = 0; i < recreate->n_requests; i++) {
                recreate->requests[i]->is_stale = true;
                recreate->requests[i]->list_rest_usec = 0;
                if (recreate->requests[i]->check_usec > 0)
                        recreate->requests[i]->check_usec = 1;
        }

        r = note_runtimes(recreate);
        return r < 0 ? r : recreate_look(recreate);
}

int recreate_kick(Recreate *recreate) {
        int r;

        for (size_t i = 0; i < recreate->n_requests; i++)
                kube_patch_rest(&recreate->requests[i]->write, 0);

        r = kube_resource_kick(recreate->resource);
        if (r >= 0)
                r = recreate_orphans_kick(recreate);

        return r < 0 ? r : recreate_look(recreate);
}

const char *recreate_version(const Recreate *recreate) {
        return recreate->version;
}

static const Error *missing_right(const Recreate *recreate) {
        for (size_t i = 0; i < _RECREATE_RIGHT_MAX; i++)
                if (recreate->refusals[i].kind == ERROR_DENIED)
                        return &recreate->refusals[i];

        return NULL;
}

const Error *recreate_error(const Recreate *recreate) {
        const Error *error = kube_resource_error(recreate->resource);

        return error->kind != ERROR_NONE ? error : missing_right(recreate) ?: error;
}

size_t recreate_n_open(const Recreate *recreate) {
        size_t n = 0;

        for (size_t i = 0; i < recreate->n_requests; i++)
                n += !recreate_request_is_over(recreate->requests[i]);

        return n;
}
