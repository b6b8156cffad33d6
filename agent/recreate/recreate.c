/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/recreate/recreate.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/recreate/recreate-queue.h"
#include "agent/recreate/recreate-request.h"

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

/* Both are taken over, even on failure. */
static int show(Recreate *recreate, RecreateSpec *spec, struct json_object *object) {
        RecreateRequest *request = find(recreate, spec->uid);

        if (request)
                return recreate_request_show(request, spec, object);

        replace(recreate, spec);
        return recreate_add(recreate, spec, object, &request);
}

int recreate_show(Recreate *recreate, const KubeObject *object) {
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

int recreate_show_gone(Recreate *recreate, const KubeObject *object) {
        RecreateRequest *request = find(recreate, object->uid);

        if (!request)
                return 0;

        recreate_request_show_gone(request);
        return recreate_look(recreate);
}

void recreate_unmark_all(Recreate *recreate) {
        for (size_t i = 0; i < recreate->n_requests; i++)
                recreate->requests[i]->is_unseen = true;
}

int recreate_lose_unmarked(Recreate *recreate) {
        for (size_t i = 0; i < recreate->n_requests; i++)
                if (recreate->requests[i]->is_unseen)
                        recreate_request_show_gone(recreate->requests[i]);

        return recreate_look(recreate);
}

int recreate_lose_all(Recreate *recreate) {
        for (size_t i = 0; i < recreate->n_requests; i++)
                recreate_request_show_gone(recreate->requests[i]);

        return recreate_look(recreate);
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
        if (!recreate->is_overfull || !recreate->ours.watch ||
            recreate->n_requests > RECREATE_REQUESTS_MAX / 2)
                return 0;

        recreate->is_overfull = false;
        return recreate_list_again(recreate);
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
                .client = options->client,
                .pods = options->pods,
                .runtimes = options->runtimes,
                .stops = options->stops,
                .node_name = strdup(options->node_name),
                .on_restart = options->on_restart,
                .on_written = options->on_written,
                .on_completed = options->on_completed,
                .on_changed = options->on_changed,
                .userdata = options->userdata,
                .report = { .client = options->client,
                            .log = options->log,
                            .subject = "Cannot see the restart requests" },
                .ours = { .recreate = recreate },
                .orphaned = { .recreate = recreate },
        };
        recreate_watch_pods(recreate);
        if (!recreate->node_name)
                return -ENOMEM;

        r = add_look(recreate);
        if (r >= 0)
                r = recreate_note_runtimes(recreate);
        if (r >= 0)
                r = recreate_discover(recreate);
        if (r < 0)
                return r;

        *ret = take_ptr(recreate);
        return 0;
}

Recreate *recreate_free(Recreate *recreate) {
        if (!recreate)
                return NULL;

        pods_unwatch(recreate->pods, &recreate->watcher);
        recreate_drop_parts(recreate);
        kube_discovery_free(recreate->discovery);
        sd_event_source_disable_unref(recreate->rediscover);
        sd_event_source_disable_unref(recreate->look);
        for (size_t i = 0; i < recreate->n_requests; i++)
                recreate_request_free(recreate->requests[i]);
        free(recreate->requests);
        for (size_t i = 0; i < recreate->n_schemes; i++)
                free(recreate->schemes[i]);
        free(recreate->schemes);
        kube_report_done(&recreate->report);
        error_done(&recreate->absence);
        for (size_t i = 0; i < _RECREATE_RIGHT_MAX; i++)
                error_done(&recreate->refusals[i]);
        free(recreate->node_name);
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

        r = recreate_note_runtimes(recreate);
        return r < 0 ? r : recreate_look(recreate);
}

int recreate_kick(Recreate *recreate) {
        int r;

        for (size_t i = 0; i < recreate->n_requests; i++)
                recreate->requests[i]->rest_usec = 0;

        r = recreate->rediscover ? recreate_discover(recreate) : 0;
        if (r >= 0 && recreate->ours.watch)
                r = kube_watch_kick(recreate->ours.watch);
        if (r >= 0 && recreate->orphaned.watch)
                r = kube_watch_kick(recreate->orphaned.watch);
        if (r >= 0)
                r = recreate_orphans_kick(recreate);

        return r < 0 ? r : recreate_look(recreate);
}

const char *recreate_version(const Recreate *recreate) {
        return recreate->version;
}

static const Error *watch_error(const RecreateWatch *watch) {
        return watch->watch && kube_watch_state(watch->watch) == KUBE_WATCH_TROUBLED
                       ? kube_watch_error(watch->watch)
                       : NULL;
}

static const Error *missing_right(const Recreate *recreate) {
        for (size_t i = 0; i < _RECREATE_RIGHT_MAX; i++)
                if (recreate->refusals[i].kind == ERROR_DENIED)
                        return &recreate->refusals[i];

        return NULL;
}

const Error *recreate_error(const Recreate *recreate) {
        const Error *error = watch_error(&recreate->ours) ?: watch_error(&recreate->orphaned);

        if (error && error->kind != ERROR_NONE)
                return error;

        if (recreate->absence.kind != ERROR_NONE)
                return &recreate->absence;

        return missing_right(recreate) ?: &recreate->absence;
}

size_t recreate_n_open(const Recreate *recreate) {
        size_t n = 0;

        for (size_t i = 0; i < recreate->n_requests; i++)
                n += !recreate_request_is_over(recreate->requests[i]);

        return n;
}
