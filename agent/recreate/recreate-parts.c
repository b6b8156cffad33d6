/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/kube/retry.h"
#include "agent/recreate/recreate-internal.h"

#define ABSENT_USEC ((uint64_t) 60 * 1000 * 1000) /* nobody serves it, and may do so one day */

/* Newer first: what is stored need not be converted then. */
static const char *const versions[] = { "v1beta1", "v1alpha1", NULL };

static bool is_ours(const RecreateWatch *watch) {
        return watch == &watch->recreate->ours;
}

static void watch_done(RecreateWatch *watch) {
        watch->watch = kube_watch_free(watch->watch);
}

void recreate_drop_parts(Recreate *recreate) {
        watch_done(&recreate->ours);
        watch_done(&recreate->orphaned);
        recreate_orphans_drop(recreate);
        kube_report_answered(&recreate->report);
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

        return recreate_orphan_gone(watch->recreate, object->uid);
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
        return loop_add_time_relative(recreate->event, &recreate->rediscover, CLOCK_MONOTONIC, usec,
                                      0, on_rediscover, recreate);
        return r < 0 ? r : 0;
}

/* The kind has been taken away; or it is still named among those that are served, for a while or
 * because an aggregated server is broken. */
static int on_absent(Recreate *recreate) {
        int r;

        recreate_drop_parts(recreate);
        r = recreate_lose_all(recreate);
        return r < 0 ? r : discover_later(recreate, false);
}

static bool is_synced(const RecreateWatch *watch) {
        return watch->watch && kube_watch_state(watch->watch) == KUBE_WATCH_SYNCED;
}

bool recreate_is_synced(const Recreate *recreate) {
        return is_synced(&recreate->ours) && is_synced(&recreate->orphaned);
}

/* As a rule both watches are in the same trouble, and it is over when it is for both. */
static int on_synced(RecreateWatch *watch) {
        Recreate *recreate = watch->recreate;

        if (recreate_is_synced(recreate)) {
                recreate->n_failures = 0;
                if (kube_report_well(&recreate->report))
                        log_info(recreate->log, NULL, "The restart requests can be seen again.");
        }
        return is_ours(watch) ? recreate_lose_unmarked(recreate) : recreate_look(recreate);
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

static int watch_orphaned(Recreate *recreate) {
        return select_begin(&recreate->orphaned, "!" RECREATE_LABEL_NODE);
}

int recreate_list_orphans_again(Recreate *recreate) {
        watch_done(&recreate->orphaned);
        recreate_orphans_drop(recreate);
        return watch_orphaned(recreate);
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
        recreate_tell(recreate);
        return r;
}

int recreate_discover(Recreate *recreate) {
        recreate->rediscover = sd_event_source_disable_unref(recreate->rediscover);
        recreate->discovery = kube_discovery_free(recreate->discovery);
        return kube_discover(recreate->client, RECREATE_GROUP, versions, RECREATE_RESOURCE,
                             on_discovered, recreate, &recreate->discovery);
}
