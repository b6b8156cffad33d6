/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/cluster/status-writer.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/cluster/write-pace.h"
#include "agent/document/json-cleanup.h"
#include "agent/kube/patch.h"

#define ACCURACY_USEC 1000

struct StatusWriter {
        KubeClient *client;
        Log *log;
        ClusterNodeImage *node_image;
        char *version;
        StatusWritten on_written;
        void (*on_settled)(void *userdata);
        int (*on_stale)(void *userdata);
        void *userdata;

        bool is_synced;
        WritePace pace;
        KubePatch write;
        json_object *patch; /* of the write under way */
        char *uid;          /* of the object that it is for */
        Deferred compare;
        Timer due;
        Error error;
};

DEFINE_CLEANUP(StatusWriter *, status_writer_free)

static uint64_t now_usec(StatusWriter *writer) {
        uint64_t usec = 0;

        (void) sd_event_now(kube_client_event(writer->client), CLOCK_MONOTONIC, &usec);
        return usec;
}

/* Logs each reason once. */
static void writer_remember(StatusWriter *writer, const Error *error) {
        bool was_failing = writer->error.kind != ERROR_NONE;
        bool is_news = error_update(&writer->error, error);

        if (is_news && error)
                log_warning(writer->log, NULL, "Cannot write the status: %s.",
                            error_message(error));
        if (was_failing && !error)
                log_info(writer->log, NULL, "The status is written again.");
}

static void writer_note(StatusWriter *writer, const Error *error) {
        writer_remember(writer, error);
        writer->on_written(error, writer->userdata);
}

/* There is nothing to write: a write that failed was done after all, or is needed no more. */
static void writer_settle(StatusWriter *writer) {
        writer->write.n_conflicts = 0;
        if (writer->error.kind == ERROR_NONE)
                return;

        kube_patch_succeed(&writer->write);
        writer_remember(writer, NULL);
        writer->on_settled(writer->userdata);
}

static bool is_outdated(const StatusWriter *writer, json_object *patch) {
        const char *version = cluster_node_image_resource_version(writer->node_image);
        json_object *compared = NULL;

        return version && json_pointer_get(patch, "/metadata/resourceVersion", &compared) == 0 &&
               strcmp(json_object_get_string(compared), version) != 0;
}

/* Whatever the watch has shown, or not, it was of no use. What it has shown meanwhile may be. */
static int writer_conflicted_again(StatusWriter *writer, bool is_outdated, const Error *error) {
        cleanup(error_done) Error unread = ERROR_INIT;

        if (!error)
                (void) error_set(&unread, ERROR_INVALID,
                                 "what the server answers does not say what it made of it");
        writer_note(writer, error ?: &unread);
        if (!is_outdated)
                return writer->on_stale(writer->userdata);

        kube_patch_rest(&writer->write, KUBE_PATCH_CONFLICT_USEC);
        return 0;
}

/* The object has changed: the watch has shown it meanwhile, or will. Another writer that never stops
 * must not make the agent try without a pause. */
static int writer_conflicted(StatusWriter *writer, json_object *patch,
                             const KubePatchAnswer *answer) {
        bool is_known_outdated = is_outdated(writer, patch);

        if (!answer->error)
                kube_patch_conflict(&writer->write, answer->reply);
        write_pace_on_conflict(&writer->pace);
        if (writer->write.n_conflicts >= KUBE_PATCH_CONFLICTS_MAX)
                return writer_conflicted_again(writer, is_known_outdated, answer->error);

        if (is_known_outdated)
                kube_patch_rest(&writer->write, 0);
        return 0;
}

static int writer_succeeded(StatusWriter *writer, json_object *patch, const char *version) {
        const char *uid = cluster_node_image_uid(writer->node_image);

        return uid && strcmp(uid, writer->uid) == 0
                       ? cluster_node_image_on_written(writer->node_image, patch, version)
                       : 0;
}

/* Whatever the reason of a failure, what is true then is tried again later; an object that has
 * changed or gone meanwhile will be shown by the watch. */
static int on_answered(const KubePatchAnswer *answer, void *userdata) {
        StatusWriter *writer = userdata;
        cleanup(json_object_put_p) json_object *patch = take_ptr(writer->patch);
        int r = 0;

        if (answer->outcome == KUBE_PATCH_CONFLICT || (!answer->error && !answer->version)) {
                r = writer_conflicted(writer, patch, answer);
        } else {
                writer_note(writer, answer->error);
                if (!answer->error)
                        r = writer_succeeded(writer, patch, answer->version);
        }

        return r < 0 ? r : status_writer_compare(writer);
}

/* The patch is for what is known. An object that has changed meanwhile, whose list of tags it would
 * overwrite, or that was deleted and created again, is compared first. */
static int writer_send(StatusWriter *writer, uint64_t digest, uint64_t now) {
        free(writer->uid);
        writer->uid = strdup(cluster_node_image_uid(writer->node_image));
        if (!writer->uid)
                return -ENOMEM;

        write_pace_on_write(&writer->pace, now);
        return kube_patch_send(
                &writer->write,
                &(KubePatchRequest){
                        .verb = KUBE_PATCH_MERGE,
                        .path = { .group = "apps.kruise.io",
                                  .version = writer->version,
                                  .resource = "nodeimages",
                                  .name = cluster_node_image_name(writer->node_image),
                                  .subresource = "status" },
                        .body = writer->patch,
                        .version = cluster_node_image_resource_version(writer->node_image),
                        .digest = digest,
                        .on_answered = on_answered,
                });
}

/* Another writer that changes back what was written must not make the agent write without end. */
static int writer_send_unless_repeated(StatusWriter *writer, uint64_t now) {
        const char *text = json_object_to_json_string_ext(writer->patch, JSON_C_TO_STRING_PLAIN);
        uint64_t digest, when;

        if (!text)
                return -ENOMEM;

        digest = repeat_digest(0, text);
        when = kube_patch_when_usec(&writer->write, digest);
        return when > now ? timer_start_at(&writer->due, when) : writer_send(writer, digest, now);
}

/* Compares, and writes when it is time for it. */
static int writer_compare(StatusWriter *writer) {
        uint64_t now = now_usec(writer), when = kube_patch_when_usec(&writer->write, 0);
        WriteChange change;
        int r;

        /* An answer or a timer leads here again. */
        if (!writer->is_synced || writer->write.call)
                return 0;
        if (when > now)
                return timer_start_at(&writer->due, when);
        if (write_pace_is_collecting(&writer->pace, now))
                return 0;

        writer->patch = (json_object_put(writer->patch), NULL);
        r = cluster_node_image_diff(writer->node_image, &writer->patch);
        if (r < 0)
                return r;
        if (r == STATUS_SAME) {
                write_pace_on_same(&writer->pace);
                timer_stop(&writer->due);
                writer_settle(writer);
                return 0;
        }

        change = (WriteChange){
                .is_progress = r == STATUS_PROGRESS,
                .n_in_work = cluster_node_image_n_in_work(writer->node_image, WRITE_PACE_FEW),
        };
        write_pace_on_change(&writer->pace, change, now);
        when = write_pace_next_usec(&writer->pace, now);
        if (when > now)
                return timer_start_at(&writer->due, when);

        return writer_send_unless_repeated(writer, now);
}

static int on_due(void *userdata) {
        return writer_compare(userdata);
}

int status_writer_new(const StatusWriterOptions *options, StatusWriter **ret) {
        cleanup(status_writer_free_p) StatusWriter *writer = NULL;

        writer = malloc(sizeof(*writer));
        if (!writer)
                return -ENOMEM;

        *writer = (StatusWriter){
                .client = options->client,
                .log = options->log,
                .node_image = options->node_image,
                .version = strdup(options->version),
                .on_written = options->on_written,
                .on_settled = options->on_settled,
                .on_stale = options->on_stale,
                .userdata = options->userdata,
                .write = { .client = options->client, .userdata = writer },
        };
        if (!writer->version)
                return -ENOMEM;

        write_pace_init(&writer->pace);
        deferred_init(&writer->compare, kube_client_event(options->client), on_due, writer);
        timer_init(&writer->due, kube_client_event(options->client), ACCURACY_USEC, on_due, writer);

        *ret = take_ptr(writer);
        return 0;
}

StatusWriter *status_writer_free(StatusWriter *writer) {
        if (!writer)
                return NULL;

        kube_patch_done(&writer->write);
        deferred_done(&writer->compare);
        timer_done(&writer->due);
        json_object_put(writer->patch);
        error_done(&writer->error);
        free(writer->uid);
        free(writer->version);
        free(writer);
        return NULL;
}

int status_writer_compare(StatusWriter *writer) {
        return deferred_request(&writer->compare);
}

int status_writer_set_synced(StatusWriter *writer, bool is_synced) {
        writer->is_synced = is_synced;
        return is_synced ? status_writer_compare(writer) : 0;
}

int status_writer_kick(StatusWriter *writer) {
        kube_patch_rest(&writer->write, 0);
        return status_writer_compare(writer);
}

int status_writer_on_object(StatusWriter *writer) {
        return writer->write.n_conflicts > 0 ? status_writer_kick(writer)
                                             : status_writer_compare(writer);
}

const Error *status_writer_error(const StatusWriter *writer) {
        return &writer->error;
}
