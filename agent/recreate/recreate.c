/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/recreate/recreate.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/kube/retry.h"
#include "agent/recreate/recreate-internal.h"

#define SCHEMES_MAX 64
#define ABSENT_USEC ((uint64_t) 60 * 1000 * 1000) /* nobody serves it, and may do so one day */

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

        recreate->on_written(error, recreate->userdata);
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

/* Newer first: what is stored need not be converted then. */
static const char *const versions[] = { "v1beta1", "v1alpha1", NULL };

/* The watches */

static bool is_ours(const RecreateWatch *watch) {
        return watch == &watch->recreate->ours;
}

static void watch_done(RecreateWatch *watch) {
        watch->watch = kube_watch_free(watch->watch);
}

/* Lets go of all that needs a served version. */
static void drop_watches(Recreate *recreate) {
        watch_done(&recreate->ours);
        watch_done(&recreate->orphaned);
        recreate_orphans_drop(recreate);
        kube_report_answered(&recreate->report);
        recreate->version = (free(recreate->version), NULL);
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
        RecreateWatch *watch = userdata;

        return is_ours(watch) ? show_object(watch->recreate, object)
                              : recreate_orphan_show(watch->recreate, object);
}

static int show_gone(Recreate *recreate, const KubeObject *object) {
        RecreateRequest *request = find(recreate, object->uid);

        if (!request)
                return 0;

        recreate_request_show_gone(request);
        return recreate_look(recreate);
}

static int on_gone(const KubeObject *object, void *userdata) {
        RecreateWatch *watch = userdata;

        if (is_ours(watch))
                return show_gone(watch->recreate, object);

        return recreate_orphan_gone(watch->recreate, object->uid);
}

static int on_rediscover(sd_event_source *source, uint64_t usec, void *userdata);

static int discover_later(Recreate *recreate, bool is_absent) {
        uint32_t random = 0;
        uint64_t usec;

        (void) getrandom(&random, sizeof(random), GRND_NONBLOCK);
        recreate->n_failures = is_absent ? 0 : recreate->n_failures + 1;
        usec = is_absent ? ABSENT_USEC - ABSENT_USEC / 5 + random % (ABSENT_USEC * 2 / 5)
                         : kube_retry_usec(recreate->n_failures, NULL, random);
        recreate->rediscover = sd_event_source_disable_unref(recreate->rediscover);
        return loop_add_time_relative(recreate->event, &recreate->rediscover, CLOCK_MONOTONIC, usec,
                                      0, on_rediscover, recreate);
}

/* None of them can be seen any more. */
static int lose_all(Recreate *recreate) {
        for (size_t i = 0; i < recreate->n_requests; i++)
                recreate_request_show_gone(recreate->requests[i]);

        return recreate_look(recreate);
}

/* The kind has been taken away; or it is still named among those that are served, for a while or
 * because an aggregated server is broken. */
static int on_absent(Recreate *recreate) {
        int r;

        drop_watches(recreate);
        r = lose_all(recreate);
        return r < 0 ? r : discover_later(recreate, false);
}

static int lose_unmarked(Recreate *recreate) {
        for (size_t i = 0; i < recreate->n_requests; i++)
                if (recreate->requests[i]->is_unseen)
                        recreate_request_show_gone(recreate->requests[i]);

        return recreate_look(recreate);
}

/* As a rule both watches are in the same trouble, and it is over when it is for both. */
static int on_synced(RecreateWatch *watch) {
        Recreate *recreate = watch->recreate;

        if (recreate_is_synced(recreate)) {
                recreate->n_failures = 0;
                if (kube_report_well(&recreate->report))
                        log_info(recreate->log, NULL, "The restart requests can be seen again.");
        }
        return is_ours(watch) ? lose_unmarked(recreate) : recreate_look(recreate);
}

static int on_state(KubeWatchState state, void *userdata) {
        RecreateWatch *watch = userdata;
        const Error *error = kube_watch_error(watch->watch);
        Recreate *recreate = watch->recreate;
        int r = 0;

        if (state == KUBE_WATCH_SYNCED)
                r = on_synced(watch);
        else if (state == KUBE_WATCH_TROUBLED)
                r = error->kind == ERROR_NOT_FOUND ? on_absent(recreate)
                                                   : kube_report_trouble(&recreate->report, error);

        notify_changed(recreate);
        return r;
}

static void on_restart(void *userdata) {
        RecreateWatch *watch = userdata;

        watch->recreate->on_restart(watch->recreate->userdata);
}

static int watch_begin(RecreateWatch *watch, const char *selector) {
        const KubeWatchOptions options = {
                .client = watch->recreate->client,
                .path = { .group = RECREATE_GROUP,
                          .version = watch->recreate->version,
                          .resource = RECREATE_RESOURCE },
                .selector = selector,
                .on_object = on_object,
                .on_gone = on_gone,
                .on_state = on_state,
                .on_restart = on_restart,
                .userdata = watch,
        };

        return kube_watch_new(&options, &watch->watch);
}

static int select_begin(RecreateWatch *watch, const char *labels) {
        cleanup(free_p) char *escaped = NULL;
        cleanup(free_p) char *selector = NULL;
        int r;

        r = kube_path_escape(labels, &escaped);
        if (r < 0)
                return r;
        if (asprintf(&selector, "labelSelector=%s", escaped) < 0) {
                selector = NULL;
                return -ENOMEM;
        }

        return watch_begin(watch, selector);
}

static int watch_ours(Recreate *recreate) {
        cleanup(free_p) char *labels = NULL;

        if (asprintf(&labels, RECREATE_LABEL_NODE "=%s," RECREATE_LABEL_ACTIVE "=true",
                     recreate->node_name) < 0) {
                labels = NULL;
                return -ENOMEM;
        }

        return select_begin(&recreate->ours, labels);
}

static int watch_orphaned(Recreate *recreate) {
        return select_begin(&recreate->orphaned, "!" RECREATE_LABEL_NODE);
}

static int begin(Recreate *recreate, const char *version) {
        int r;

        recreate->version = strdup(version);
        if (!recreate->version)
                return -ENOMEM;

        recreate->dialect = strcmp(version, "v1alpha1") == 0 ? RECREATE_V1ALPHA1 : RECREATE_V1BETA1;
        log_info(recreate->log, NULL, "Watching the restart requests (%s) for the node `%s`.",
                 version, recreate->node_name);
        r = watch_ours(recreate);
        return r < 0 ? r : watch_orphaned(recreate);
}

static int on_discovered(const char *version, const Error *error, void *userdata) {
        Recreate *recreate = userdata;
        int r = 0;

        recreate->discovery = kube_discovery_free(recreate->discovery);
        error_done(&recreate->absence);
        if (error) {
                r = kube_report_trouble(&recreate->report, error);
                (void) error_copy(&recreate->absence, error);
        } else {
                kube_report_answered(&recreate->report);
        }
        if (r < 0)
                return r;

        r = version ? begin(recreate, version) : discover_later(recreate, !error);
        notify_changed(recreate);
        return r;
}

/* Finds out which version is served, and watches. */
static int discover(Recreate *recreate) {
        recreate->rediscover = sd_event_source_disable_unref(recreate->rediscover);
        recreate->discovery = kube_discovery_free(recreate->discovery);
        return kube_discover(recreate->client, RECREATE_GROUP, versions, RECREATE_RESOURCE,
                             on_discovered, recreate, &recreate->discovery);
}

static int on_rediscover(sd_event_source *source, uint64_t usec, void *userdata) {
        return discover(userdata);
}

static bool is_synced(const RecreateWatch *watch) {
        return watch->watch && kube_watch_state(watch->watch) == KUBE_WATCH_SYNCED;
}

bool recreate_is_synced(const Recreate *recreate) {
        return is_synced(&recreate->ours) && is_synced(&recreate->orphaned);
}

/* All are about to be shown again, and those that were not are gone then. */
static void unmark_all(Recreate *recreate) {
        for (size_t i = 0; i < recreate->n_requests; i++)
                recreate->requests[i]->is_unseen = true;
}

/* Lists the requests of this node anew. */
static int list_again(Recreate *recreate) {
        watch_done(&recreate->ours);
        unmark_all(recreate);
        return watch_ours(recreate);
}

int recreate_list_orphans_again(Recreate *recreate) {
        watch_done(&recreate->orphaned);
        recreate_orphans_drop(recreate);
        return watch_orphaned(recreate);
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
        if (!recreate->is_overfull || !recreate->ours.watch ||
            recreate->n_requests > RECREATE_REQUESTS_MAX / 2)
                return 0;

        recreate->is_overfull = false;
        return list_again(recreate);
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
        watch_pods(recreate);
        if (!recreate->node_name)
                return -ENOMEM;

        r = add_look(recreate);
        if (r >= 0)
                r = note_runtimes(recreate);
        if (r >= 0)
                r = discover(recreate);
        if (r < 0)
                return r;

        *ret = take_ptr(recreate);
        return 0;
}

Recreate *recreate_free(Recreate *recreate) {
        if (!recreate)
                return NULL;

        pods_unwatch(recreate->pods, &recreate->watcher);
        drop_watches(recreate);
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

        r = note_runtimes(recreate);
        return r < 0 ? r : recreate_look(recreate);
}

int recreate_kick(Recreate *recreate) {
        int r;

        for (size_t i = 0; i < recreate->n_requests; i++)
                kube_patch_rest(&recreate->requests[i]->write, 0);

        r = recreate->rediscover ? discover(recreate) : 0;
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
