/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/watch.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/kube/retry.h"
#include "agent/kube/watch-internal.h"

#define OBJECT_MAX ((size_t) 4 << 20)
#define PAGE_SIZE 500

DEFINE_CLEANUP(KubeWatch *, kube_watch_free)

uint32_t watch_random(void) {
        uint32_t random = 0;

        (void) getrandom(&random, sizeof(random), GRND_NONBLOCK);
        return random;
}

int watch_set_timer(KubeWatch *watch, uint64_t usec, sd_event_time_handler_t on_time,
                    sd_event_source **ret) {
        return loop_add_time_relative(watch->event, ret, CLOCK_MONOTONIC, usec,
                                      /* accuracy= */ 0, on_time, watch);
}

KubeWatch *watch_ref(KubeWatch *watch) {
        watch->n_refs++;
        return watch;
}

KubeWatch *watch_unref(KubeWatch *watch) {
        if (--watch->n_refs > 0)
                return NULL;

        frames_done(&watch->frames);
        watch_reader_done(&watch->reader);
        watch_keys_done(&watch->keys);
        error_done(&watch->verdict_error);
        error_done(&watch->error);
        sd_event_unref(watch->event);
        free(watch->resource_version);
        free(watch->next);
        free(watch->group);
        free(watch->version);
        free(watch->namespace);
        free(watch->resource);
        free(watch->selector);
        free(watch);
        return NULL;
}

static bool is_same_error(const Error *a, const Error *b) {
        return a->kind == b->kind && strcmp(error_message(a), error_message(b)) == 0;
}

int watch_set_state(KubeWatch *watch, KubeWatchState state, const Error *error) {
        const Error none = ERROR_INIT;

        error = error ?: &none;
        if (watch->state == state && is_same_error(&watch->error, error))
                return 0;

        watch->state = state;
        error_done(&watch->error);
        if (error->kind != ERROR_NONE)
                (void) error_copy(&watch->error, error);
        return watch->options.on_state(state, watch->options.userdata);
}

static int watch_sync(KubeWatch *watch) {
        int r;

        r = watch_tell_rest_gone(watch);
        if (r < 0 || watch->is_closed)
                return r;

        return watch_set_state(watch, KUBE_WATCH_SYNCED, NULL);
}

static int watch_sync_and_watch(KubeWatch *watch) {
        int r;

        r = watch_sync(watch);
        if (r < 0 || watch->is_closed)
                return r;

        return watch_ask_watch(watch);
}

static int on_pause_over(sd_event_source *source, uint64_t usec, void *userdata) {
        KubeWatch *watch = watch_ref(userdata);
        int r;

        watch->pause = sd_event_source_disable_unref(watch->pause);
        r = watch_handle(watch, WATCH_ON_TIMER, NULL, NULL);
        watch_unref(watch);
        return r;
}

/* A list that broke begins at its first page again. */
static int watch_wait(KubeWatch *watch, WatchHappening happening, const KubeReply *reply,
                      const Error *error) {
        unsigned n = watch->plan.n_in_a_row[happening];
        uint64_t usec;
        int r;

        free(watch->next);
        watch->next = NULL;

        usec = watch_plan_wait_usec(&watch->plan, happening, error->kind,
                                    kube_retry_usec(n, reply, watch_random()), watch_random());
        r = watch_set_timer(watch, usec, on_pause_over, &watch->pause);
        if (r < 0)
                return r;

        if (!watch_plan_is_harmless(&watch->plan, happening))
                return watch_set_state(watch, KUBE_WATCH_TROUBLED, error);
        if (watch->plan.step == WATCH_RELISTING && watch->state == KUBE_WATCH_SYNCED)
                return watch_set_state(watch, KUBE_WATCH_LISTING, NULL);

        return 0;
}

int watch_handle(KubeWatch *watch, WatchHappening happening, const KubeReply *reply,
                 const Error *error) {
        switch (watch_plan_step(&watch->plan, happening)) {
        case WATCH_DO_NOTHING: return 0;
        case WATCH_DO_STREAM: return watch_ask_stream(watch);
        case WATCH_DO_PAGE: return watch_ask_page(watch);
        case WATCH_DO_SYNC: return watch_sync(watch);
        case WATCH_DO_WATCH: return watch_ask_watch(watch);
        case WATCH_DO_SYNC_AND_WATCH: return watch_sync_and_watch(watch);
        case WATCH_DO_WAIT: return watch_wait(watch, happening, reply, error);
        case _WATCH_ACTION_MAX: break;
        }

        abort();
}

static void watch_drop_call(KubeWatch *watch) {
        watch->call = kube_call_unref(watch->call);
        watch->guard = sd_event_source_disable_unref(watch->guard);
        watch->has_verdict = false;
        error_done(&watch->verdict_error);
}

static int copy_text(const char *text, char **ret) {
        if (!text)
                return 0;

        *ret = strdup(text);
        return *ret ? 0 : -ENOMEM;
}

static int watch_copy_options(KubeWatch *watch, const KubeWatchOptions *options) {
        watch->options = *options;
        watch->options.object_max = options->object_max ?: OBJECT_MAX;
        if (copy_text(options->path.group, &watch->group) < 0 ||
            copy_text(options->path.version, &watch->version) < 0 ||
            copy_text(options->path.namespace, &watch->namespace) < 0 ||
            copy_text(options->path.resource, &watch->resource) < 0 ||
            copy_text(options->selector, &watch->selector) < 0)
                return -ENOMEM;

        watch->options.selector = watch->selector;
        watch->options.path = (KubePath){
                .group = watch->group,
                .version = watch->version,
                .namespace = watch->namespace,
                .resource = watch->resource,
        };
        return 0;
}

int kube_watch_new(const KubeWatchOptions *options, KubeWatch **ret) {
        cleanup(kube_watch_free_p) KubeWatch *watch = NULL;
        int r;

        watch = malloc(sizeof(*watch));
        if (!watch)
                return -ENOMEM;

        *watch = (KubeWatch){
                .n_refs = 1,
                .event = sd_event_ref(kube_client_event(options->client)),
                .state = KUBE_WATCH_LISTING,
                .plan = { .step = WATCH_RELISTING },
                .reader = WATCH_READER_INIT(options->is_protobuf),
                .page_size = PAGE_SIZE,
        };

        r = watch_copy_options(watch, options);
        if (r < 0)
                return r;

        r = watch_handle(watch, WATCH_ON_TIMER, NULL, NULL);
        if (r < 0)
                return r;

        *ret = take_ptr(watch);
        return 0;
}

KubeWatch *kube_watch_free(KubeWatch *watch) {
        if (!watch)
                return NULL;

        assert(!watch->is_closed);

        watch->is_closed = true;
        watch_drop_call(watch);
        watch->pause = sd_event_source_disable_unref(watch->pause);
        return watch_unref(watch);
}

KubeWatchState kube_watch_state(const KubeWatch *watch) {
        return watch->state;
}

const Error *kube_watch_error(const KubeWatch *watch) {
        return &watch->error;
}

int kube_watch_relist(KubeWatch *watch) {
        const Error none = ERROR_INIT;

        if (watch->plan.step == WATCH_WATCHING)
                watch_drop_call(watch);
        if (watch->plan.step == WATCH_REWATCHING)
                watch->pause = sd_event_source_disable_unref(watch->pause);

        return watch_handle(watch, WATCH_ON_DOUBT, NULL, &none);
}

int kube_watch_kick(KubeWatch *watch) {
        return watch->pause ? sd_event_source_set_time_relative(watch->pause, 0) : 0;
}
