/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/resource.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/base/random.h"
#include "agent/base/text.h"
#include "agent/kube/discovery.h"
#include "agent/kube/path.h"
#include "agent/kube/report.h"
#include "agent/kube/retry.h"
#include "agent/kube/watch-message.h"

/* Time between two questions for an optional kind that the server does not have. */
#define ABSENT_USEC ((uint64_t) 60 * 1000 * 1000)

typedef struct SelectionWatch {
        KubeResource *resource;
        const KubeSelection *selection;
        char *fields;
        char *labels;
        KubeWatch *watch; /* NULL before a version was served; stopped while none is */
} SelectionWatch;

struct KubeResource {
        KubeResourceOptions options;
        char *subject;
        char *trouble; /* first words of the report */

        KubeDiscovery *discovery;
        Retry rediscover; /* after failures of discovery, or of watches of the found version */
        Error absence;    /* why there is no version, or unset */
        char *version;    /* NULL: the watches are stopped */
        SelectionWatch watches[KUBE_SELECTIONS_MAX];
        size_t n_watches;
        bool was_synced;
        KubeReport report;

        KubeCall *check;
        SelectionWatch *checked;
        char *checked_version;
};

DEFINE_CLEANUP(KubeResource *, kube_resource_free)

static int notify_changed(KubeResource *resource) {
        return resource->options.on_changed
                       ? resource->options.on_changed(resource->options.userdata)
                       : 0;
}

static int notify_version(KubeResource *resource) {
        return resource->options.on_version
                       ? resource->options.on_version(resource->version, resource->options.userdata)
                       : 0;
}

static void notify_list(const SelectionWatch *watch) {
        if (watch->selection->on_list)
                watch->selection->on_list(watch->resource->options.userdata);
}

/* When no version is served */

static int discover_later(KubeResource *resource, bool is_absent) {
        uint64_t usec = ABSENT_USEC - ABSENT_USEC / 5 + random_number() % (ABSENT_USEC * 2 / 5);

        if (!is_absent)
                return retry_later(&resource->rediscover, 0);

        retry_reset(&resource->rediscover);
        return retry_later(&resource->rediscover, usec);
}

static bool must_report(const KubeResource *resource, const Error *error) {
        return error->kind != ERROR_NOT_FOUND || !resource->options.is_optional;
}

/* error: why; of the kind ERROR_NOT_FOUND if the server said that there is none. */
static int resource_on_absent(KubeResource *resource, const Error *error, bool is_absent) {
        bool is_trouble = must_report(resource, error);
        int r;

        error_done(&resource->absence);
        if (is_trouble)
                (void) error_copy(&resource->absence, error);

        r = is_trouble ? kube_report_trouble(&resource->report, error) : 0;
        if (r < 0)
                return r;

        r = discover_later(resource, is_absent && !is_trouble);
        return r < 0 ? r : notify_changed(resource);
}

/* The kind has vanished. Discovery may still name it, for a while or because an aggregated server
 * is broken, so it is not asked without a pause. */
static int resource_on_vanished(KubeResource *resource, const Error *error) {
        cleanup(error_done) Error copy = ERROR_INIT;
        int r;

        (void) error_copy(&copy, error);
        for (size_t i = 0; i < resource->n_watches; i++)
                kube_watch_stop(resource->watches[i].watch);
        kube_report_answered(&resource->report);
        resource->check = kube_call_unref(resource->check);
        resource->version = (free(resource->version), NULL);
        r = notify_version(resource);
        return r < 0 ? r : resource_on_absent(resource, &copy, /* is_absent= */ false);
}

/* The watches */

static int on_object(const KubeObject *object, void *userdata) {
        const SelectionWatch *watch = userdata;

        return watch->selection->on_object(object, watch->resource->options.userdata);
}

static int on_gone(const KubeObject *object, void *userdata) {
        const SelectionWatch *watch = userdata;

        return watch->selection->on_gone(object, watch->resource->options.userdata);
}

static void on_list(void *userdata) {
        notify_list(userdata);
}

/* Counts restarts only after the first sync. */
static void on_restart(void *userdata) {
        const KubeResource *resource = ((const SelectionWatch *) userdata)->resource;

        if (resource->was_synced)
                metrics_add(resource->options.metrics, METRIC_WATCH_RESTARTS, NULL, 1);
}

static int resource_on_synced(KubeResource *resource) {
        bool is_first = !resource->was_synced;

        retry_reset(&resource->rediscover);
        resource->was_synced = true;
        if (is_first)
                log_info(resource->options.log, NULL, "Watching %s (%s).", resource->subject,
                         resource->version);
        if (kube_report_well(&resource->report) && !is_first)
                log_info(resource->options.log, NULL, "Watching %s again.", resource->subject);

        return resource->options.on_synced
                       ? resource->options.on_synced(is_first, resource->options.userdata)
                       : 0;
}

static int on_state(KubeWatchState state, void *userdata) {
        const SelectionWatch *watch = userdata;
        KubeResource *resource = watch->resource;
        const Error *error = kube_watch_error(watch->watch);
        int r = 0;

        if (state == KUBE_WATCH_TROUBLED && error->kind == ERROR_NOT_FOUND &&
            resource->options.group)
                return resource_on_vanished(resource, error);

        if (state == KUBE_WATCH_TROUBLED && must_report(resource, error))
                r = kube_report_trouble(&resource->report, error);
        else if (kube_resource_is_synced(resource))
                r = resource_on_synced(resource);

        return r < 0 ? r : notify_changed(resource);
}

static int watch_begin(SelectionWatch *watch) {
        const KubeResourceOptions *options = &watch->resource->options;

        if (watch->watch)
                return kube_watch_begin_again(watch->watch, watch->resource->version);

        notify_list(watch);
        return kube_watch_new(
                &(KubeWatchOptions){
                        .client = options->client,
                        .path = { .group = options->group,
                                  .version = watch->resource->version,
                                  .resource = options->resource,
                                  .fields = watch->fields,
                                  .labels = watch->labels },
                        .is_protobuf = options->is_protobuf,
                        .on_object = on_object,
                        .on_gone = on_gone,
                        .on_state = on_state,
                        .on_list = on_list,
                        .on_restart = on_restart,
                        .userdata = watch,
                },
                &watch->watch);
}

static int begin_watches(KubeResource *resource) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < resource->n_watches; i++)
                r = watch_begin(&resource->watches[i]);

        return r;
}

/* The version */

static int resource_on_served(KubeResource *resource, const char *version) {
        int r;

        kube_report_answered(&resource->report);
        error_done(&resource->absence);
        r = text_copy(version, &resource->version);
        if (r < 0)
                return r;

        r = notify_version(resource);
        if (r < 0)
                return r;

        r = begin_watches(resource);
        return r < 0 ? r : notify_changed(resource);
}

static int on_discovered(const char *version, const Error *error, void *userdata) {
        cleanup(error_done) Error absent = ERROR_INIT;
        KubeResource *resource = userdata;

        resource->discovery = kube_discovery_free(resource->discovery);
        if (version)
                return resource_on_served(resource, version);
        if (error)
                return resource_on_absent(resource, error, /* is_absent= */ false);

        kube_report_answered(&resource->report);
        (void) error_set(&absent, ERROR_NOT_FOUND, "the API server has no %s.%s",
                         resource->options.resource, resource->options.group);
        return resource_on_absent(resource, &absent, /* is_absent= */ true);
}

static int resource_discover(void *userdata) {
        KubeResource *resource = userdata;
        const KubeResourceOptions *options = &resource->options;
        const KubeKind kind = { .group = options->group,
                                .versions = options->versions,
                                .resource = options->resource,
                                .needs_status = true };

        return kube_discover(options->client, &kind, on_discovered, resource, &resource->discovery);
}

/* Check of an object that the watch has shown */

/* Shows the checked object, unless the watch has shown this version, and lists the others, which
 * may have changed unseen. */
static int take_checked(KubeResource *resource, const KubeObject *object) {
        SelectionWatch *watch = resource->checked;
        int r;

        if (strcmp(object->resource_version, resource->checked_version) == 0)
                return 0;

        log_info(resource->options.log, NULL,
                 "The server has another version of \"%s\" than the watch reported: listing %s "
                 "again.",
                 object->name, resource->subject);
        notify_list(watch);
        r = on_object(object, watch);
        return r < 0 ? r : kube_watch_relist(watch->watch);
}

/* Ignores any other refusal: the next write meets it again and asks again. */
static int on_checked(const KubeReply *reply, const Error *error, void *userdata) {
        KubeResource *resource = userdata;
        cleanup(watch_reader_done) WatchReader reader =
                WATCH_READER_INIT(resource->options.is_protobuf);
        cleanup(watch_event_done) WatchEvent event = WATCH_EVENT_INIT;
        cleanup(error_done) Error unread = ERROR_INIT;
        int r;

        resource->check = kube_call_unref(resource->check);
        if (error)
                return error->kind == ERROR_NOT_FOUND ? kube_watch_relist(resource->checked->watch)
                                                      : 0;

        r = watch_object_read(&reader, (Slice){ .data = reply->body, .size = reply->size }, &event,
                              &unread);
        if (r < 0)
                return unread.kind == ERROR_NONE ? r : 0;

        return take_checked(resource, &event.object);
}

int kube_resource_check(KubeResource *resource, size_t selection, const char *namespace,
                        const char *name, const char *known_version) {
        const KubePath path = {
                .group = resource->options.group,
                .version = resource->version,
                .namespace = namespace,
                .resource = resource->options.resource,
                .name = name,
        };
        KubeRequest request = {
                .verb = "get",
                .method = "GET",
                .accept = resource->options.is_protobuf ? KUBE_PROTOBUF : KUBE_JSON,
                .on_replied = on_checked,
                .userdata = resource,
        };
        cleanup(free_p) char *text = NULL;
        int r;

        assert(selection < resource->n_watches);

        if (resource->check || !resource->version)
                return 0;

        r = text_set(&resource->checked_version, known_version) ?: kube_path_format(&path, &text);
        if (r < 0)
                return r;

        request.path = text;
        resource->checked = &resource->watches[selection];
        return kube_call(resource->options.client, &request, &resource->check);
}

/* All of it */

static int resource_add_selections(KubeResource *resource) {
        KubeSelection *selections = resource->options.selections;
        int r = 0;

        for (size_t i = 0; r >= 0 && i < KUBE_SELECTIONS_MAX && selections[i].on_object; i++) {
                SelectionWatch *watch = &resource->watches[resource->n_watches++];

                *watch = (SelectionWatch){ .resource = resource, .selection = &selections[i] };
                r = text_copy(selections[i].fields, &watch->fields)
                            ?: text_copy(selections[i].labels, &watch->labels);
                selections[i].fields = selections[i].labels = NULL;
        }

        return r;
}

static int resource_add_texts(KubeResource *resource) {
        int r;

        resource->subject = strdup(resource->options.subject);
        if (!resource->subject)
                return -ENOMEM;

        r = text_format(&resource->trouble, "Cannot watch %s", resource->subject);
        if (r < 0)
                return r;

        resource->options.subject = resource->subject;
        resource->report.subject = resource->trouble;
        return 0;
}

static int resource_begin(KubeResource *resource) {
        int r;

        if (resource->options.group)
                return resource_discover(resource);

        r = text_copy(resource->options.versions[0], &resource->version);
        return r < 0 ? r : begin_watches(resource);
}

int kube_resource_new(const KubeResourceOptions *options, KubeResource **ret) {
        cleanup(kube_resource_free_p) KubeResource *resource = NULL;
        int r;

        resource = malloc(sizeof(*resource));
        if (!resource)
                return -ENOMEM;

        *resource = (KubeResource){
                .options = *options,
                .report = { .client = options->client,
                            .log = options->log,
                            .speaks_for_all = options->speaks_for_all },
        };
        retry_init(&resource->rediscover, kube_client_event(options->client), KUBE_RETRY_MIN_USEC,
                   KUBE_RETRY_MAX_USEC, resource_discover, resource);
        r = resource_add_texts(resource)
                    ?: resource_add_selections(resource)
                    ?: resource_begin(resource);
        if (r < 0)
                return r;

        *ret = take_ptr(resource);
        return 0;
}

KubeResource *kube_resource_free(KubeResource *resource) {
        if (!resource)
                return NULL;

        retry_done(&resource->rediscover);
        kube_discovery_free(resource->discovery);
        kube_call_unref(resource->check);
        for (size_t i = 0; i < resource->n_watches; i++) {
                kube_watch_free(resource->watches[i].watch);
                free(resource->watches[i].fields);
                free(resource->watches[i].labels);
        }
        kube_report_done(&resource->report);
        error_done(&resource->absence);
        free(resource->checked_version);
        free(resource->version);
        free(resource->trouble);
        free(resource->subject);
        free(resource);
        return NULL;
}

const char *kube_resource_version(const KubeResource *resource) {
        return resource->version;
}

bool kube_resource_is_synced(const KubeResource *resource) {
        for (size_t i = 0; i < resource->n_watches; i++)
                if (!resource->watches[i].watch ||
                    kube_watch_state(resource->watches[i].watch) != KUBE_WATCH_SYNCED)
                        return false;

        return true;
}

bool kube_resource_was_synced(const KubeResource *resource) {
        return resource->was_synced;
}

bool kube_resource_is_settled(const KubeResource *resource) {
        return resource->was_synced || retry_is_waiting(&resource->rediscover) ||
               kube_resource_error(resource)->kind != ERROR_NONE;
}

const Error *kube_resource_error(const KubeResource *resource) {
        for (size_t i = 0; i < resource->n_watches; i++) {
                const KubeWatch *watch = resource->watches[i].watch;

                if (watch && kube_watch_state(watch) == KUBE_WATCH_TROUBLED)
                        return kube_watch_error(watch);
        }

        return &resource->absence;
}

int kube_resource_show_again(KubeResource *resource, size_t selection) {
        assert(selection < resource->n_watches);

        return resource->version ? watch_begin(&resource->watches[selection]) : 0;
}

int kube_resource_kick(KubeResource *resource) {
        int r;

        r = retry_kick(&resource->rediscover);
        if (r < 0)
                return r;

        for (size_t i = 0; i < resource->n_watches; i++) {
                r = resource->watches[i].watch ? kube_watch_kick(resource->watches[i].watch) : 0;
                if (r < 0)
                        return r;
        }

        return 0;
}
