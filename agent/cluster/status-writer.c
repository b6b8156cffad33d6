/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/cluster/status-writer.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/base/repeat.h"
#include "agent/cluster/write-pace.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/kube/path.h"
#include "agent/kube/retry.h"

#define CONFLICTS_MAX 4
#define CONFLICT_USEC ((uint64_t) 500 * 1000)

struct StatusWriter {
        KubeClient *client;
        Log *log;
        ClusterNodeImage *node_image;
        char *version;
        StatusWritten on_written;
        void (*on_settled)(void *userdata);
        int (*on_doubt)(void *userdata);
        void *userdata;

        bool is_synced;
        bool is_waiting;     /* after a failure, for the retry */
        bool is_in_conflict; /* and that is why: for the object, or the retry if it has come already */
        unsigned n_failures, n_conflicts; /* in a row */
        WritePace pace;
        Repeat repeat;
        uint64_t digest;       /* of what the call changes */
        sd_event_source *look; /* once per turn of the loop */
        sd_event_source *due;
        KubeCall *call;
        json_object *patch; /* of the call */
        char *uid;          /* of the object that it is for */
        Error error;
};

DEFINE_CLEANUP(StatusWriter *, status_writer_free)

static uint64_t now_usec(StatusWriter *writer) {
        uint64_t usec = 0;

        (void) sd_event_now(kube_client_event(writer->client), CLOCK_MONOTONIC, &usec);
        return usec;
}

static int writer_schedule(StatusWriter *writer, uint64_t usec) {
        int r;

        if (usec == UINT64_MAX)
                return sd_event_source_set_enabled(writer->due, SD_EVENT_OFF);

        r = sd_event_source_set_time(writer->due, usec);
        if (r < 0)
                return r;

        return sd_event_source_set_enabled(writer->due, SD_EVENT_ONESHOT);
}

/* Says it once for each reason. */
static void writer_remember(StatusWriter *writer, const Error *error) {
        if (error && strcmp(error_message(error), error_message(&writer->error)) != 0)
                log_warning(writer->log, NULL, "Cannot write the status: %s.",
                            error_message(error));
        if (!error && writer->error.kind != ERROR_NONE)
                log_info(writer->log, NULL, "The status is written again.");

        error_done(&writer->error);
        if (error)
                (void) error_copy(&writer->error, error);
}

static void writer_note(StatusWriter *writer, const Error *error) {
        writer_remember(writer, error);
        writer->on_written(error, writer->userdata);
}

/* There is nothing to write: a write that failed was done after all, or is needed no more. */
static void writer_settle(StatusWriter *writer) {
        writer->n_conflicts = 0;
        if (writer->error.kind == ERROR_NONE)
                return;

        writer->n_failures = 0;
        writer_remember(writer, NULL);
        writer->on_settled(writer->userdata);
}

static int writer_wait(StatusWriter *writer, uint64_t usec) {
        writer->is_waiting = true;
        return writer_schedule(writer, now_usec(writer) + usec);
}

static uint64_t retry_usec(unsigned n_in_a_row, const KubeReply *reply) {
        uint32_t random = 0;

        (void) getrandom(&random, sizeof(random), GRND_NONBLOCK);
        return kube_retry_usec(n_in_a_row, reply, random);
}

/* Whatever the reason, what is true then is tried again later; an object that has changed or gone
 * meanwhile will be shown by the watch. */
static int writer_failed(StatusWriter *writer, const KubeReply *reply) {
        return writer_wait(writer, retry_usec(++writer->n_failures, reply));
}

/* NULL: an answer that does not say what it made of the object, if anything. */
static const char *reply_version(json_object *object) {
        json_object *metadata, *version;

        if (!json_object_object_get_ex(object, "metadata", &metadata) ||
            !json_object_object_get_ex(metadata, "resourceVersion", &version))
                return NULL;

        return json_object_get_string(version);
}

static bool is_outdated(const StatusWriter *writer, json_object *patch) {
        const char *compared = reply_version(patch);
        const char *version = cluster_node_image_resource_version(writer->node_image);

        return compared && version && strcmp(compared, version) != 0;
}

/* Whatever the watch has shown, or not, it was of no use. What it has shown meanwhile may be. */
static int writer_conflicted_again(StatusWriter *writer, json_object *patch, const KubeReply *reply,
                                   const Error *error) {
        cleanup(error_done) Error unread = ERROR_INIT;
        int r;

        if (!error)
                (void) error_set(&unread, ERROR_INVALID,
                                 "what the server answers does not say what it made of it");
        writer_note(writer, error ?: &unread);
        if (is_outdated(writer, patch))
                return writer_wait(writer, CONFLICT_USEC);

        r = writer_wait(writer, retry_usec(writer->n_conflicts, reply));
        return r < 0 ? r : writer->on_doubt(writer->userdata);
}

/* The object is not what we knew: the watch has shown it meanwhile, or will. Somebody who never
 * stops to write must not have us try without a pause. error may be NULL. */
static int writer_conflicted(StatusWriter *writer, json_object *patch, const KubeReply *reply,
                             const Error *error) {
        bool is_stubborn = ++writer->n_conflicts >= CONFLICTS_MAX;

        write_pace_on_conflict(&writer->pace);
        if (!is_stubborn && is_outdated(writer, patch))
                return status_writer_look(writer);

        writer->is_in_conflict = true;
        return is_stubborn ? writer_conflicted_again(writer, patch, reply, error)
                           : writer_wait(writer, CONFLICT_USEC);
}

static int on_replied(const KubeReply *reply, const Error *error, void *userdata) {
        StatusWriter *writer = userdata;
        cleanup(json_object_put_p) json_object *patch = take_ptr(writer->patch);
        cleanup(json_object_put_p) json_object *object = json_tokener_parse(reply->body);
        const char *uid = cluster_node_image_uid(writer->node_image),
                   *version = reply_version(object);
        int r;

        writer->call = kube_call_unref(writer->call);
        if (error ? error->kind == ERROR_CONFLICT : !version)
                return writer_conflicted(writer, patch, reply, error);

        writer->n_conflicts = 0;
        writer_note(writer, error);
        if (error)
                return writer_failed(writer, reply);

        writer->n_failures = 0;
        repeat_note(&writer->repeat, writer->digest, now_usec(writer));
        if (uid && strcmp(uid, writer->uid) == 0) {
                r = cluster_node_image_on_written(writer->node_image, patch, version);
                if (r < 0)
                        return r;
        }

        return status_writer_look(writer);
}

static int writer_send(StatusWriter *writer) {
        const KubePath path = {
                .group = "apps.kruise.io",
                .version = writer->version,
                .resource = "nodeimages",
                .name = cluster_node_image_name(writer->node_image),
                .subresource = "status",
        };
        KubeRequest request = {
                .verb = "patch",
                .method = "PATCH",
                .accept = KUBE_METADATA_ONLY,
                .content_type = KUBE_MERGE_PATCH,
                .body = json_object_to_json_string_ext(writer->patch,
                                                       JSON_C_TO_STRING_PLAIN |
                                                               JSON_C_TO_STRING_NOSLASHESCAPE),
                .on_replied = on_replied,
                .userdata = writer,
        };
        cleanup(free_p) char *text = NULL;
        int r;

        if (!request.body)
                return -ENOMEM;

        r = kube_path_format(&path, &text);
        if (r < 0)
                return r;

        free(writer->uid);
        writer->uid = strdup(cluster_node_image_uid(writer->node_image));
        if (!writer->uid)
                return -ENOMEM;

        request.path = text;
        write_pace_on_write(&writer->pace, now_usec(writer));
        return kube_call(writer->client, &request, &writer->call);
}

/* The patch is for what is known. An object that somebody has changed meanwhile, whose list of tags
 * it would overwrite, or that was deleted and created again, is looked at first. */
static int writer_guard(StatusWriter *writer) {
        const char *version = cluster_node_image_resource_version(writer->node_image);
        json_object *metadata = json_object_new_object();
        int r;

        if (!metadata)
                return -ENOMEM;

        r = version ? patch_add_text(metadata, "resourceVersion", version) : 0;
        if (r >= 0)
                return patch_add(writer->patch, "metadata", metadata);

        json_object_put(metadata);
        return r;
}

static bool may_write(const StatusWriter *writer) {
        return writer->is_synced && !writer->is_waiting && !writer->call;
}

/* Somebody who changes back what was written must not have us write without end. */
static int writer_send_unless_repeated(StatusWriter *writer, uint64_t now) {
        const char *text = json_object_to_json_string_ext(writer->patch, JSON_C_TO_STRING_PLAIN);
        uint64_t when;
        int r;

        if (!text)
                return -ENOMEM;

        writer->digest = repeat_digest(0, text);
        when = repeat_when_usec(&writer->repeat, writer->digest);
        if (when > now)
                return writer_schedule(writer, when);

        r = writer_guard(writer);
        return r < 0 ? r : writer_send(writer);
}

/* Compares, and writes when it is time for it. */
static int writer_compare(StatusWriter *writer) {
        uint64_t now = now_usec(writer), when;
        WriteChange change;
        int r;

        /* An answer or a timer leads here again. */
        if (!may_write(writer) || write_pace_is_collecting(&writer->pace, now))
                return 0;

        writer->patch = (json_object_put(writer->patch), NULL);
        r = cluster_node_image_diff(writer->node_image, &writer->patch);
        if (r < 0)
                return r;
        if (r == STATUS_SAME) {
                write_pace_on_same(&writer->pace);
                r = writer_schedule(writer, UINT64_MAX);
                writer_settle(writer);
                return r;
        }

        change = (WriteChange){
                .is_progress = r == STATUS_PROGRESS,
                .n_in_work = cluster_node_image_n_in_work(writer->node_image, WRITE_PACE_FEW),
        };
        write_pace_on_change(&writer->pace, change, now);
        when = write_pace_next_usec(&writer->pace, now);
        if (when > now)
                return writer_schedule(writer, when);

        return writer_send_unless_repeated(writer, now);
}

static int on_look(sd_event_source *source, void *userdata) {
        return writer_compare(userdata);
}

static int on_due(sd_event_source *source, uint64_t usec, void *userdata) {
        StatusWriter *writer = userdata;

        writer->is_waiting = false;
        writer->is_in_conflict = false;
        return writer_compare(writer);
}

static int writer_add_sources(StatusWriter *writer) {
        sd_event *event = kube_client_event(writer->client);
        int r;

        r = loop_add_defer(event, &writer->look, on_look, writer);
        if (r < 0)
                return r;

        r = sd_event_source_set_enabled(writer->look, SD_EVENT_OFF);
        if (r < 0)
                return r;

        r = loop_add_time(event, &writer->due, CLOCK_MONOTONIC, 0, 1000, on_due, writer);
        if (r < 0)
                return r;

        return sd_event_source_set_enabled(writer->due, SD_EVENT_OFF);
}

int status_writer_new(const StatusWriterOptions *options, StatusWriter **ret) {
        cleanup(status_writer_free_p) StatusWriter *writer = NULL;
        int r;

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
                .on_doubt = options->on_doubt,
                .userdata = options->userdata,
        };
        if (!writer->version)
                return -ENOMEM;

        write_pace_init(&writer->pace);
        r = writer_add_sources(writer);
        if (r < 0)
                return r;

        *ret = take_ptr(writer);
        return 0;
}

StatusWriter *status_writer_free(StatusWriter *writer) {
        if (!writer)
                return NULL;

        kube_call_unref(writer->call);
        sd_event_source_disable_unref(writer->look);
        sd_event_source_disable_unref(writer->due);
        json_object_put(writer->patch);
        error_done(&writer->error);
        free(writer->uid);
        free(writer->version);
        free(writer);
        return NULL;
}

int status_writer_look(StatusWriter *writer) {
        return sd_event_source_set_enabled(writer->look, SD_EVENT_ONESHOT);
}

int status_writer_set_synced(StatusWriter *writer, bool is_synced) {
        writer->is_synced = is_synced;
        return is_synced ? status_writer_look(writer) : 0;
}

int status_writer_kick(StatusWriter *writer) {
        if (!writer->is_waiting)
                return 0;

        writer->is_waiting = false;
        writer->is_in_conflict = false;
        return status_writer_look(writer);
}

int status_writer_on_object(StatusWriter *writer) {
        return writer->is_in_conflict ? status_writer_kick(writer) : status_writer_look(writer);
}

const Error *status_writer_error(const StatusWriter *writer) {
        return &writer->error;
}
