/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/writer.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"

#define ACCURACY_USEC 1000

static void writer_note(KubeWriter *writer, const Error *error) {
        const KubeWriterOptions *options = &writer->options;

        if (log_trouble(options->log, LOG_WARNING, &writer->error, error, options->failed,
                        options->recovered))
                options->on_changed(options->userdata);
}

/* Notes the outcome of a write; NULL: success. */
static void writer_count(KubeWriter *writer, const Error *error) {
        metrics_count(writer->options.metrics, writer->options.metric, !error);
        writer_note(writer, error);
}

/* The known object is stale. If the watch has not shown a newer one meanwhile, asks the server for
 * it. */
static int on_conflicts(KubeWriter *writer, const Error *error) {
        cleanup(error_done) Error unread = ERROR_INIT;

        if (!error)
                (void) error_set(&unread, ERROR_INVALID,
                                 "the server's answer has no resourceVersion");
        writer_count(writer, error ?: &unread);
        if (!writer->is_outdated)
                return kube_resource_check(writer->resource, 0, /* namespace= */ NULL,
                                           writer->options.name, writer->version);

        kube_patch_rest(&writer->patch, KUBE_PATCH_CONFLICT_USEC);
        return 0;
}

/* The object has changed: the watch has shown it, or will. Pauses, since another writer may never
 * stop. */
static int on_conflict(KubeWriter *writer, const KubePatchAnswer *answer) {
        if (!answer->error)
                kube_patch_conflict(&writer->patch, answer->reply);
        if (writer->patch.n_conflicts >= KUBE_PATCH_CONFLICTS_MAX)
                return on_conflicts(writer, answer->error);

        if (writer->is_outdated)
                kube_patch_rest(&writer->patch, 0);
        return 0;
}

static int on_taken(KubeWriter *writer, struct json_object *body, const char *version) {
        bool is_newest = !kube_version_is_older(version, writer->version);

        if (is_newest && text_set(&writer->version, version) < 0)
                return -ENOMEM;

        return writer->options.on_written(is_newest ? body : NULL, writer->options.userdata);
}

/* After any failure, tries the then current state later. */
static int on_answered(const KubePatchAnswer *answer, void *userdata) {
        KubeWriter *writer = userdata;
        cleanup(json_object_put_p) json_object *body = take_ptr(writer->body);
        int r = 0;

        if (answer->outcome == KUBE_PATCH_CONFLICT || (!answer->error && !answer->version)) {
                r = on_conflict(writer, answer);
        } else {
                writer_count(writer, answer->error);
                if (!answer->error)
                        r = on_taken(writer, body, answer->version);
        }

        return r < 0 ? r : kube_writer_request(writer);
}

/* The patch is only valid for the known version: it may replace a list that has changed. */
static int writer_send(KubeWriter *writer, struct json_object *body, uint64_t digest) {
        const KubeWriterOptions *options = &writer->options;

        writer->body = json_object_get(body);
        writer->is_outdated = false;
        options->on_sent(options->userdata);
        return kube_patch_send(&writer->patch,
                               &(KubePatchRequest){
                                       .verb = options->is_merged_by_keys ? KUBE_PATCH_STRATEGIC
                                                                          : KUBE_PATCH_MERGE,
                                       .path = { .group = options->group,
                                                 .version = kube_resource_version(writer->resource),
                                                 .resource = options->resource,
                                                 .name = options->name,
                                                 .subresource =
                                                         options->is_spec ? NULL : "status" },
                                       .body = body,
                                       .version = writer->version,
                                       .digest = digest,
                                       .on_answered = on_answered,
                               });
}

/* Slows down, since another writer may revert every write. */
static int send_unless_repeated(KubeWriter *writer, struct json_object *body, uint64_t now_usec) {
        const char *text = json_to_text(body);
        uint64_t digest, when_usec;

        if (!text)
                return -ENOMEM;

        digest = repeat_digest(0, text);
        when_usec = kube_patch_when_usec(&writer->patch, digest);
        return when_usec > now_usec ? timer_start_at(&writer->due, when_usec)
                                    : writer_send(writer, body, digest);
}

/* Nothing is left to write: a failed write has succeeded after all, or is no longer needed. */
static int writer_settle(KubeWriter *writer) {
        timer_stop(&writer->due);
        kube_patch_succeed(&writer->patch);
        writer->patch.n_conflicts = 0;
        writer_note(writer, NULL);
        return 0;
}

static int on_compare(void *userdata) {
        cleanup(json_object_put_p) json_object *body = NULL;
        KubeWriter *writer = userdata;
        uint64_t now_usec = kube_client_now_usec(writer->options.client);
        KubeWrite write = { .body = NULL };
        int r;

        if (!writer->version || writer->patch.call || !kube_resource_is_synced(writer->resource))
                return 0;

        writer->is_listing = false;
        if (writer->patch.rest_usec > now_usec)
                return timer_start_at(&writer->due, writer->patch.rest_usec);

        r = writer->options.compare(&write, writer->options.userdata);
        body = write.body;
        if (r < 0)
                return r;
        if (write.not_before_usec > now_usec)
                return timer_start_at(&writer->due, write.not_before_usec);

        return body ? send_unless_repeated(writer, body, now_usec) : writer_settle(writer);
}

void kube_writer_init(KubeWriter *writer, const KubeWriterOptions *options) {
        sd_event *event = kube_client_event(options->client);

        *writer = (KubeWriter){
                .options = *options,
                .patch = { .client = options->client, .userdata = writer },
        };
        deferred_init(&writer->compare, event, on_compare, writer);
        timer_init(&writer->due, event, ACCURACY_USEC, on_compare, writer);
}

void kube_writer_done(KubeWriter *writer) {
        kube_writer_forget(writer);
        deferred_done(&writer->compare);
        timer_done(&writer->due);
}

int kube_writer_request(KubeWriter *writer) {
        return deferred_request(&writer->compare);
}

int kube_writer_kick(KubeWriter *writer) {
        kube_patch_rest(&writer->patch, 0);
        return kube_writer_request(writer);
}

int kube_writer_show(KubeWriter *writer, const KubeObject *object) {
        int r;

        if (!writer->is_listing && writer->version &&
            kube_version_is_older(object->resource_version, writer->version))
                return 0;

        writer->is_listing = false;
        writer->is_outdated =
                writer->is_outdated || !text_equal(writer->version, object->resource_version);
        r = text_set(&writer->version, object->resource_version);
        if (r < 0)
                return r;

        r = writer->patch.n_conflicts > 0 ? kube_writer_kick(writer) : kube_writer_request(writer);
        return r < 0 ? r : 1;
}

void kube_writer_list(KubeWriter *writer) {
        writer->is_listing = true;
}

void kube_writer_forget(KubeWriter *writer) {
        kube_patch_cancel(&writer->patch);
        kube_patch_succeed(&writer->patch);
        writer->patch.n_conflicts = 0;
        writer->body = (json_object_put(writer->body), NULL);
        deferred_cancel(&writer->compare);
        timer_stop(&writer->due);
        error_done(&writer->error);
        writer->version = (free(writer->version), NULL);
}
