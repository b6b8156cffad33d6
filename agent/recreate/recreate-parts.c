/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/kube/retry.h"
#include "agent/recreate/recreate-internal.h"

#define PATIENCE_USEC ((uint64_t) 3 * 1000 * 1000)
#define ABSENT_USEC ((uint64_t) 60 * 1000 * 1000) /* nobody serves it, and may do so one day */

/* Newer first: what is stored need not be converted then. */
static const char *const versions[] = { "v1beta1", "v1alpha1", NULL };

static bool is_said_by_other(const RecreateWatch *watch) {
        const Recreate *recreate = watch->recreate;
        const RecreateWatch *other =
                watch == &recreate->ours ? &recreate->orphaned : &recreate->ours;

        return other->complaint.kind != ERROR_NONE;
}

static bool is_ours(const RecreateWatch *watch) {
        return watch == &watch->recreate->ours;
}

/* As a rule both watches are in the same trouble. */
static bool is_said(const Recreate *recreate, const Error *error) {
        const Error *said[] = { &recreate->complaint, &recreate->ours.complaint,
                                &recreate->orphaned.complaint };

        for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++)
                if (strcmp(error_message(error), error_message(said[i])) == 0)
                        return true;

        return false;
}

static void complain(Recreate *recreate, Error *complaint, const Error *error) {
        if (kube_client_is_in_trouble(recreate->client))
                return;

        if (!is_said(recreate, error))
                log_warning(recreate->log, NULL, "Cannot see the restart requests: %s.",
                            error_message(error));
        error_done(complaint);
        (void) error_copy(complaint, error);
}

static void watch_done(RecreateWatch *watch) {
        watch->patience = sd_event_source_disable_unref(watch->patience);
        watch->watch = kube_watch_free(watch->watch);
}

void recreate_drop_parts(Recreate *recreate) {
        watch_done(&recreate->ours);
        watch_done(&recreate->orphaned);
        recreate_orphans_drop(recreate);
        recreate->version = (free(recreate->version), NULL);
}

static int on_object(const KubeObject *object, void *userdata) {
        RecreateWatch *watch = userdata;

        return is_ours(watch) ? recreate_show(watch->recreate, object)
                              : recreate_orphan_show(watch->recreate, object);
}

static int on_gone(const KubeObject *object, void *userdata) {
        RecreateWatch *watch = userdata;

        if (is_ours(watch))
                return recreate_show_gone(watch->recreate, object);

        recreate_orphan_gone(watch->recreate, object->uid);
        return 0;
}

static int on_patience_over(sd_event_source *source, uint64_t usec, void *userdata) {
        RecreateWatch *watch = userdata;

        watch->patience = sd_event_source_disable_unref(watch->patience);
        if (watch->watch && kube_watch_state(watch->watch) == KUBE_WATCH_TROUBLED)
                complain(watch->recreate, &watch->complaint, kube_watch_error(watch->watch));
        return 0;
}

/* A watch that was cut is worth no word if it goes on. */
static int on_troubled(RecreateWatch *watch, const Error *error) {
        int r;

        if (error->kind != ERROR_UNAVAILABLE && error->kind != ERROR_TIMEOUT) {
                complain(watch->recreate, &watch->complaint, error);
                return 0;
        }
        if (watch->patience)
                return 0;

        r = sd_event_add_time_relative(watch->recreate->event, &watch->patience, CLOCK_MONOTONIC,
                                       PATIENCE_USEC, 0, on_patience_over, watch);
        return r < 0 ? r : sd_event_source_set_exit_on_failure(watch->patience, true);
}

/* The kind has been taken away. */
static int on_absent(Recreate *recreate) {
        int r;

        recreate_drop_parts(recreate);
        r = recreate_lose_all(recreate);
        return r < 0 ? r : recreate_discover(recreate);
}

static int on_synced(RecreateWatch *watch) {
        if (watch->complaint.kind != ERROR_NONE && !is_said_by_other(watch))
                log_info(watch->recreate->log, NULL, "The restart requests can be seen again.");
        error_done(&watch->complaint);
        watch->patience = sd_event_source_disable_unref(watch->patience);
        return is_ours(watch) ? recreate_lose_unmarked(watch->recreate) : 0;
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
                                                   : on_troubled(watch, error);

        recreate_tell(recreate);
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
                .object_max = RECREATE_OBJECT_MAX,
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

int recreate_list_again(Recreate *recreate) {
        watch_done(&recreate->ours);
        recreate_unmark_all(recreate);
        return watch_ours(recreate);
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
        return r < 0 ? r : select_begin(&recreate->orphaned, "!" RECREATE_LABEL_NODE);
}

static int on_rediscover(sd_event_source *source, uint64_t usec, void *userdata) {
        return recreate_discover(userdata);
}

static int discover_later(Recreate *recreate, bool is_absent) {
        uint32_t random = 0;
        uint64_t usec;
        int r;

        (void) getrandom(&random, sizeof(random), GRND_NONBLOCK);
        recreate->n_failures = is_absent ? 0 : recreate->n_failures + 1;
        usec = is_absent ? ABSENT_USEC - ABSENT_USEC / 5 + random % (ABSENT_USEC * 2 / 5)
                         : kube_retry_usec(recreate->n_failures, NULL, random);
        recreate->rediscover = sd_event_source_disable_unref(recreate->rediscover);
        r = sd_event_add_time_relative(recreate->event, &recreate->rediscover, CLOCK_MONOTONIC,
                                       usec, 0, on_rediscover, recreate);
        return r < 0 ? r : sd_event_source_set_exit_on_failure(recreate->rediscover, true);
}

static int on_discovered(const char *version, const Error *error, void *userdata) {
        Recreate *recreate = userdata;
        int r;

        recreate->discovery = kube_discovery_free(recreate->discovery);
        error_done(&recreate->absence);
        if (error) {
                complain(recreate, &recreate->complaint, error);
                (void) error_copy(&recreate->absence, error);
        } else {
                error_done(&recreate->complaint);
        }

        if (version) {
                recreate->n_failures = 0;
                r = begin(recreate, version);
        } else {
                r = discover_later(recreate, !error);
        }

        recreate_tell(recreate);
        return r;
}

int recreate_discover(Recreate *recreate) {
        recreate->rediscover = sd_event_source_disable_unref(recreate->rediscover);
        recreate->discovery = kube_discovery_free(recreate->discovery);
        return kube_discover(recreate->client, RECREATE_GROUP, versions, RECREATE_RESOURCE,
                             on_discovered, recreate, &recreate->discovery);
}
