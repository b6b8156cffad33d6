/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/kube/path.h"
#include "agent/kube/retry.h"
#include "agent/meta/condition-status.h"
#include "agent/meta/meta-internal.h"
#include "agent/meta/pod-patch-spec.h"

#define WRITES_MAX 8
#define SLOW_USEC (15 * USEC_PER_SEC)
/* For so long one container's entry waits for those that are restarted with it. */
#define TOGETHER_USEC (5 * USEC_PER_SEC)
/* And the news of a restart for the images' IDs that belong into its message. */
#define LOOK_USEC ((uint64_t) 250 * 1000)

static bool text_has(const MetaText *text, MetaFieldKind kind) {
        return kind == META_FIELD_ANNOTATION ? text->meta : text->status;
}

static void text_drop(MetaText *text, MetaFieldKind kind) {
        if (kind == META_FIELD_ANNOTATION) {
                text->meta = (free(text->meta), NULL);
                return;
        }

        text->status = (free(text->status), NULL);
        text->reason = (free(text->reason), NULL);
        text->message = (free(text->message), NULL);
}

void meta_text_done(MetaText *text) {
        free(text->version);
        text_drop(text, META_FIELD_ANNOTATION);
        text_drop(text, META_FIELD_CONDITION);
        *text = (MetaText){ .version = NULL };
}

/* It says something about this one pod alone: it is gone, has changed meanwhile, or somebody does
 * not accept what it would become. */
static bool is_of_pod(const Error *error) {
        return error->kind == ERROR_NOT_FOUND || error->kind == ERROR_CONFLICT ||
               error->kind == ERROR_INVALID;
}

static bool pod_is_refused(const MetaPod *pod) {
        for (size_t i = 0; i < _META_FIELD_MAX; i++)
                if (pod->fields[i].is_refused)
                        return true;

        return false;
}

static bool is_any_refused(const Meta *meta) {
        for (size_t i = 0; i < meta->n_pods; i++)
                if (pod_is_refused(meta->pods[i]))
                        return true;

        return false;
}

/* Says it once for each reason, as long as anything is refused. */
static void meta_note(Meta *meta, const Error *error) {
        if (meta->options.on_written)
                meta->options.on_written(error, meta->options.userdata);
        if (error ? is_of_pod(error) : is_any_refused(meta))
                return;

        if (error && strcmp(error_message(error), error_message(&meta->error)) != 0)
                log_warning(meta->options.log, NULL, "Cannot write to a pod's status: %s.",
                            error_message(error));
        if (!error && meta->error.kind != ERROR_NONE)
                log_info(meta->options.log, NULL, "The status of pods is written again.");

        error_done(&meta->error);
        if (error)
                (void) error_copy(&meta->error, error);
}

/* What was refused for nobody but this pod concerns nobody any more: no success will say so. */
void meta_pod_forget_refusal(MetaPod *pod) {
        Meta *meta = pod->meta;
        bool was_refused = pod_is_refused(pod);

        for (size_t i = 0; i < _META_FIELD_MAX; i++) {
                pod->fields[i].is_refused = false;
                pod->fields[i].n_refused = 0;
        }
        pod->is_split = false;
        pod->n_write_failures = 0;
        if (!was_refused || meta->error.kind == ERROR_NONE || is_any_refused(meta))
                return;

        log_info(meta->options.log, NULL,
                 "What could not be written to pods is not to be written any more.");
        error_done(&meta->error);
        if (meta->options.on_changed)
                meta->options.on_changed(meta->options.userdata);
}

static int keep(char **text, const char *before) {
        if (*text || !before)
                return 0;

        *text = strdup(before);
        return *text ? 0 : -ENOMEM;
}

/* The watch may show older states of the pod for a while: this is what it is by now. */
static int pod_remember(MetaPod *pod, MetaText *text) {
        const MetaText *written = meta_pod_written(pod);
        const Pod *state = pod->pod;

        if (keep(&text->meta, written ? written->meta : state->meta) < 0 ||
            keep(&text->status, written ? written->status : state->verified_status) < 0 ||
            keep(&text->reason, written ? written->reason : state->verified_reason) < 0 ||
            keep(&text->message, written ? written->message : state->verified_message) < 0)
                return -ENOMEM;

        meta_text_done(&pod->written);
        pod->written = *text;
        *text = (MetaText){ .version = NULL };
        return 0;
}

/* Somebody does not accept what it would become, or that it is written at all. */
static bool is_refusal(const KubeReply *reply, const Error *error) {
        return !kube_is_retriable(reply, error) && error->kind != ERROR_NOT_FOUND &&
               error->kind != ERROR_CONFLICT && error->kind != ERROR_CANCELED;
}

/* One of two that are refused together may be accepted alone. One alone waits, as long as somebody
 * needs to do something about it; what the pod must not be like longer each time. */
static void pod_refused(MetaPod *pod, const KubeReply *reply, const Error *error,
                        const MetaText *text) {
        uint64_t now = meta_now(pod->meta);

        if (text_has(text, META_FIELD_ANNOTATION) && text_has(text, META_FIELD_CONDITION)) {
                pod->is_split = true;
                return;
        }

        for (MetaFieldKind kind = 0; kind < _META_FIELD_MAX; kind++) {
                MetaField *field = &pod->fields[kind];
                uint64_t usec;

                if (!text_has(text, kind))
                        continue;

                usec = kube_retry_usec(++field->n_refused, reply, meta_random());
                if (usec < SLOW_USEC)
                        usec = SLOW_USEC + meta_random() % SLOW_USEC;
                field->refused_usec = now + usec;
                if (error->kind == ERROR_INVALID)
                        repeat_note(&field->repeat, text->digests[kind], now);
        }
}

static void pod_write_failed(MetaPod *pod, const KubeReply *reply, const Error *error,
                             const MetaText *text) {
        uint64_t usec = kube_retry_usec(++pod->n_write_failures, reply, meta_random());

        if (error->kind == ERROR_INVALID && pod->n_write_failures == 1)
                log_warning(pod->meta->options.log, NULL,
                            "Cannot write to the status of pod `%s/%s`, trying again: %s.",
                            pod->pod->namespace, pod->pod->name, error_message(error));
        for (MetaFieldKind kind = 0; kind < _META_FIELD_MAX; kind++)
                if (text_has(text, kind) && !is_of_pod(error))
                        pod->fields[kind].is_refused = true;

        pod->is_dropped = error->kind == ERROR_NOT_FOUND;
        if (pod->is_dropped)
                meta_pod_forget_refusal(pod);
        if (is_refusal(reply, error)) {
                pod_refused(pod, reply, error, text);
                return;
        }

        if (!kube_is_retriable(reply, error) && usec < SLOW_USEC)
                usec = SLOW_USEC + meta_random() % SLOW_USEC;
        pod->write_usec = meta_now(pod->meta) + usec;
}

static int pod_write_succeeded(MetaPod *pod, const KubeReply *reply, MetaText *text) {
        int r;

        for (MetaFieldKind kind = 0; kind < _META_FIELD_MAX; kind++) {
                MetaField *field = &pod->fields[kind];

                if (!text_has(text, kind))
                        continue;

                repeat_note(&field->repeat, text->digests[kind], meta_now(pod->meta));
                field->is_refused = false;
                field->n_refused = 0;
                field->refused_usec = 0;
        }

        pod->is_split = false;
        pod->n_write_failures = 0;
        pod->write_usec = 0;
        pod->unwritten_usec = 0;
        r = pod_patch_read_version(reply->body, &text->version);
        if (r < 0)
                return r;

        /* An answer that does not say what it made of the pod: the watch will. */
        if (!text->version) {
                pod->is_dropped = true;
                return 0;
        }

        return pod_remember(pod, text);
}

static int on_written(const KubeReply *reply, const Error *error, void *userdata) {
        MetaPod *pod = userdata;
        Meta *meta = pod->meta;
        MetaText text = pod->writing;
        int r = 0;

        pod->writing = (MetaText){ .version = NULL };
        pod->write = kube_call_unref(pod->write);
        meta->n_writes--;
        if (error)
                pod_write_failed(pod, reply, error, &text);
        else
                r = pod_write_succeeded(pod, reply, &text);
        meta_text_done(&text);
        if (r < 0)
                return r;

        meta_note(meta, error);
        r = meta_continue(meta);
        if (r < 0)
                return r;

        return meta_pod_step(pod);
}

static int64_t changed_sec(const MetaPod *pod, const MetaText *text) {
        const MetaText *written = meta_pod_written(pod);
        const char *before = written ? written->status : pod->pod->verified_status;
        uint64_t usec = 0;

        if (!text->status || (before && strcmp(before, text->status) == 0))
                return -1;

        (void) sd_event_now(pod->meta->options.event, CLOCK_REALTIME, &usec);
        return (int64_t) (usec / USEC_PER_SEC);
}

static int pod_send(MetaPod *pod, const MetaText *text) {
        const KubePath path = {
                .version = "v1",
                .namespace = pod->pod->namespace,
                .resource = "pods",
                .name = pod->pod->name,
                .subresource = "status",
        };
        const PodPatch patch = {
                .uid = pod->pod->uid,
                .meta = text->meta,
                .status = text->status,
                .reason = text->reason,
                .message = text->message,
                .changed_sec = changed_sec(pod, text),
        };
        cleanup(free_p) char *where = NULL, *body = NULL;
        KubeRequest request = {
                .verb = "patch",
                .method = "PATCH",
                .accept = KUBE_METADATA_ONLY,
                .content_type = KUBE_STRATEGIC_MERGE_PATCH,
                .on_replied = on_written,
                .userdata = pod,
        };
        int r;

        r = pod_patch_write(&patch, &body);
        if (r < 0)
                return r;

        r = kube_path_format(&path, &where);
        if (r < 0)
                return r;

        request.path = where;
        request.body = body;
        r = kube_call(pod->meta->options.client, &request, &pod->write);
        if (r >= 0)
                pod->meta->n_writes++;
        return r;
}

static bool is_any_restarting(const MetaPod *pod) {
        for (size_t i = 0; i < pod->n_containers; i++)
                if (meta_container_is_restarting(&pod->containers[i]))
                        return true;

        return false;
}

static bool is_restart_news(const MetaText *text) {
        return text->reason &&
               strcmp(text->reason, condition_reason_to_string(CONDITION_RESTARTING)) == 0;
}

/* Containers that are restarted together are told of together. */
static uint64_t not_before_usec(MetaPod *pod, const MetaText *text, uint64_t now) {
        if (pod->write_usec > now)
                return pod->write_usec;
        if (is_restart_news(text))
                return pod->look ? pod->look_usec + LOOK_USEC : 0;
        if (text->status || !is_any_restarting(pod))
                return 0;

        if (pod->unwritten_usec == 0)
                pod->unwritten_usec = now;
        return pod->unwritten_usec + TOGETHER_USEC;
}

/* Leaves what may be written now. */
static void pod_hold_back(MetaPod *pod, MetaText *text, uint64_t now) {
        bool is_any_refused = false, is_split;

        for (MetaFieldKind kind = 0; kind < _META_FIELD_MAX; kind++) {
                const MetaField *field = &pod->fields[kind];
                uint64_t when = repeat_when_usec(&field->repeat, text->digests[kind]);

                is_any_refused = is_any_refused || field->n_refused > 0;
                if (when < field->refused_usec)
                        when = field->refused_usec;
                if (!text_has(text, kind) || when <= now)
                        continue;

                meta_pod_wake_at(pod, when);
                text_drop(text, kind);
        }

        is_split = pod->is_split || is_any_refused;
        if (is_split && text_has(text, META_FIELD_ANNOTATION))
                text_drop(text, META_FIELD_CONDITION);
}

static int pod_write_text(MetaPod *pod, MetaText *text) {
        uint64_t now = meta_now(pod->meta), when;
        int r;

        pod_hold_back(pod, text, now);
        if (!text->meta && !text->status)
                return 0;

        when = not_before_usec(pod, text, now);
        if (when > now) {
                meta_pod_wake_at(pod, when);
                return 0;
        }

        pod->wants_write = pod->meta->n_writes >= WRITES_MAX;
        if (pod->wants_write)
                return 0;

        r = pod_send(pod, text);
        if (r < 0)
                return r;

        pod->writing = *text;
        *text = (MetaText){ .version = NULL };
        return 0;
}

/* That may be only because a look goes on. */
static void pod_has_nothing(MetaPod *pod) {
        pod->unwritten_usec = 0;
        if (!pod->look && !pod->wants_look && meta_pod_is_settled(pod))
                meta_pod_forget_refusal(pod);
}

int meta_pod_write(MetaPod *pod) {
        MetaText text = { .version = NULL };
        int r;

        pod->wants_write = false;
        if (meta_pod_is_over(pod) && !pod->write)
                meta_pod_forget_refusal(pod);
        if (pod->write || pod->is_dropped || meta_pod_is_over(pod))
                return 0;

        r = meta_tell_annotation(pod, &text);
        if (r >= 0)
                r = meta_tell_condition(pod, &text);
        if (r >= 0 && (text.meta || text.status))
                r = pod_write_text(pod, &text);
        else
                pod_has_nothing(pod);

        meta_text_done(&text);
        return r;
}
