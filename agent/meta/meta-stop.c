/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/kube/path.h"
#include "agent/kube/protobuf.h"
#include "agent/kube/retry.h"
#include "agent/meta/meta-internal.h"
#include "agent/meta/pod-patch-spec.h"
#include "agent/pod/pod-spec.h"

#define RETRY_MIN_USEC (3 * USEC_PER_SEC)
#define RETRY_MAX_USEC (600 * USEC_PER_SEC)
#define REFUSED_USEC USEC_PER_SEC
#define SLOW_USEC (15 * USEC_PER_SEC)

DEFINE_CLEANUP(Pod *, pod_free)
DEFINE_CLEANUP(KubeEnvelope *, kube_protobuf_free)

void meta_stop_owner(const MetaRestart *restart, char buffer[static META_OWNER_SIZE]) {
        int n = snprintf(buffer, META_OWNER_SIZE, "metadata/%" PRIu32, restart->hash);

        if (restart->before_hash != 0)
                (void) snprintf(buffer + n, META_OWNER_SIZE - (size_t) n, "/%" PRIu32 "/%u",
                                restart->before_hash, restart->number);
}

bool meta_stop_find(const Meta *meta, uint32_t hash, const char *id, MetaRestart *ret) {
        MetaRestart restart = { .hash = hash, .number = 1 };
        char owner[META_OWNER_SIZE], *end;
        const char *found;

        meta_stop_owner(&restart, owner);
        found = stops_find_owner(meta->options.stops, owner, id);
        if (!found)
                return false;

        found += strlen(owner);
        if (*found == '/') {
                restart.before_hash = (uint32_t) strtoul(found + 1, &end, 10);
                restart.number = *end == '/' ? (unsigned) strtoul(end + 1, NULL, 10) : 0;
        }

        *ret = restart;
        return true;
}

/* NULL: the stop is still asked for by the pod as it is now. */
static const char *why_not(const MetaContainer *container, const Pod *live) {
        const PodContainer *state = pod_find(live, meta_container_state(container)->name);
        const char *id;
        char scheme[64];

        if (strcmp(live->uid, container->pod->uid) != 0)
                return "another pod has its name now";
        if (live->is_deleted || live->is_finished)
                return "the pod is being deleted, or has finished";
        if (!state || !state->is_running ||
            !pod_split_container_id(state->container_id, scheme, sizeof(scheme), &id) ||
            strcmp(id, container->stop_id) != 0)
                return "another container runs, or none";
        if (state->env_hash != container->stop_for.hash)
                return "the pod's labels or annotations have changed again";
        if (strcmp(state->image, meta_container_state(container)->image) != 0)
                return "its image is another one now as well";
        if (!meta_container_is_asked(live, state))
                return "the pod does not ask for restarts any more";

        return NULL;
}

/* The stop may end, and the answer be its last use, from within. */
static int container_answer(MetaContainer *container, const char *reason) {
        container->check_usec = 0;
        container->n_check_failures = 0;
        return stop_answer(container->stop, !reason, reason);
}

static int container_compare(MetaContainer *container, const Pod *live) {
        const char *reason = why_not(container, live);

        if (reason && strcmp(live->uid, container->pod->uid) == 0) {
                free(container->refused_version);
                container->refused_version = strdup(live->resource_version);
                if (!container->refused_version)
                        return -ENOMEM;
        }

        return container_answer(container, reason);
}

static int parse_reply(const KubeReply *reply, Pod **ret, Error *reterr) {
        cleanup(kube_protobuf_free_p) KubeEnvelope *envelope = NULL;
        int r;

        r = kube_protobuf_open((const uint8_t *) reply->body, reply->size, &envelope, reterr);
        if (r < 0)
                return r;

        return pod_spec_parse(envelope->raw.data, envelope->raw.len, ret, reterr);
}

/* Nothing is stopped on stale knowledge: the API server is asked until it answers. */
static int container_check_later(MetaContainer *container, const KubeReply *reply,
                                 const Error *error) {
        uint64_t usec = kube_retry_usec(++container->n_check_failures, reply, meta_random());

        if (!kube_is_retriable(reply, error) && usec < SLOW_USEC)
                usec = SLOW_USEC + meta_random() % SLOW_USEC;
        if (container->n_check_failures == 1)
                log_warning(
                        container->pod->meta->options.log, NULL,
                        "Container `%s` of pod `%s/%s` is to be restarted, but whether it still "
                        "is cannot be asked, trying again: %s.",
                        meta_container_state(container)->name, container->pod->pod->namespace,
                        container->pod->pod->name, error_message(error));
        container->check_usec = meta_now(container->pod->meta) + usec;
        return meta_pod_step(container->pod);
}

static int on_pod_read(const KubeReply *reply, const Error *error, void *userdata) {
        cleanup(error_done) Error refusal = ERROR_INIT;
        cleanup(pod_free_p) Pod *live = NULL;
        MetaContainer *container = userdata;
        int r;

        container->check = kube_call_unref(container->check);
        if (error && error->kind == ERROR_NOT_FOUND)
                return container_answer(container, "the pod is gone");
        if (error)
                return container_check_later(container, reply, error);

        r = parse_reply(reply, &live, &refusal);
        if (refusal.kind != ERROR_NONE)
                return container_check_later(container, reply, &refusal);
        if (r < 0)
                return r;

        return container_compare(container, live);
}

static int container_ask(MetaContainer *container) {
        const KubePath path = {
                .version = "v1",
                .namespace = container->pod->pod->namespace,
                .resource = "pods",
                .name = container->pod->pod->name,
        };
        cleanup(free_p) char *text = NULL;
        KubeRequest request = {
                .verb = "get",
                .method = "GET",
                .accept = KUBE_PROTOBUF,
                .on_replied = on_pod_read,
                .userdata = container,
        };
        int r;

        container->check_usec = 0;
        r = kube_path_format(&path, &text);
        if (r < 0)
                return r;

        request.path = text;
        return kube_call(container->pod->meta->options.client, &request, &container->check);
}

static int on_check(Stop *stop, void *userdata) {
        MetaContainer *container = userdata;

        return container->check ? 0 : container_ask(container);
}

int meta_container_check(MetaContainer *container) {
        if (!container->stop || container->check || container->check_usec == 0)
                return 0;
        if (container->check_usec <= meta_now(container->pod->meta))
                return container_ask(container);

        meta_pod_wake_at(container->pod, container->check_usec);
        return 0;
}

static int container_stopped(MetaContainer *container, bool is_ours) {
        char *id = take_ptr(container->stop_id);

        free(container->stopped.id);
        container->stopped.id = id;
        container->stopped.restart = container->stop_for;
        container->stopped.is_ours = is_ours;
        meta_container_await(container);
        return meta_container_judge(container);
}

static int container_failed(MetaContainer *container, const StopReport *report) {
        const PodContainer *state = meta_container_state(container);
        cleanup(free_p) char *message = NULL;
        uint64_t usec = RETRY_MIN_USEC;

        for (unsigned i = 0; i < container->n_failures && usec < RETRY_MAX_USEC; i++)
                usec *= 2;
        if (usec > RETRY_MAX_USEC)
                usec = RETRY_MAX_USEC;

        container->n_failures++;
        container->retry_usec = meta_now(container->pod->meta) + usec;
        if (asprintf(&message, "Cannot stop container %s, trying again: %s", state->name,
                     report->message ?: "the runtime does not say why") < 0) {
                message = NULL;
                return -ENOMEM;
        }

        return meta_container_report(container, "InPlaceRestartFailed", message);
}

static int container_take_report(MetaContainer *container, const StopReport *report) {
        switch (report->result) {
        case STOP_STOPPED:
        case STOP_GONE: return container_stopped(container, report->result == STOP_STOPPED);
        case STOP_NOT_ASKED:
                /* Its next state decides anew; if that is known already, not at once again. */
                if (container->stop_for.hash == container->expected_hash)
                        container->retry_usec = meta_now(container->pod->meta) + REFUSED_USEC;
                return 0;
        case STOP_FAILED: return container_failed(container, report);
        case _STOP_RESULT_MAX: break;
        }

        return 0;
}

static int on_done(const StopReport *report, void *userdata) {
        MetaContainer *container = userdata;
        int r;

        container->stop = NULL;
        container->check = kube_call_unref(container->check);
        container->check_usec = 0;
        r = container_take_report(container, report);
        if (r < 0)
                return r;

        return meta_pod_step(container->pod);
}

static int container_add_stop(MetaContainer *container, const char *cause) {
        const PodContainer *state = meta_container_state(container);
        const Pod *pod = container->pod->pod;
        const char *id;
        char owner[META_OWNER_SIZE], scheme[64];
        const StopOptions options = {
                .runtime = scheme,
                .container_id = container->fact.id,
                .owner = owner,
                .cause = cause,
                .pod_address = pod->ip && pod->ip[0] ? pod->ip : NULL,
                .grace_sec = STOP_GRACE_OF_POD,
                .needs_kubelet = true,
                .is_init = state->kind != POD_CONTAINER_MAIN,
                .on_check = on_check,
                .on_done = on_done,
                .userdata = container,
        };

        if (!pod_split_container_id(state->container_id, scheme, sizeof(scheme), &id))
                return 0;

        meta_stop_owner(&container->stop_for, owner);
        return stops_add(container->pod->meta->options.stops, &options, &container->stop);
}

int meta_container_stop(MetaContainer *container) {
        cleanup(free_p) char *cause = NULL;
        char *id = strdup(container->fact.id);

        if (!id)
                return -ENOMEM;

        free(container->stop_id);
        container->stop_id = id;
        container->stop_for = (MetaRestart){
                .hash = container->expected_hash,
                .before_hash = container->fact.env_hash,
                .number = container->n_restarts + 1,
        };
        container->stopped.has_changed = false;
        if (asprintf(&cause,
                     "Stopping container %s: its environment comes from labels or annotations that "
                     "have changed",
                     meta_container_state(container)->name) < 0) {
                cause = NULL;
                return -ENOMEM;
        }

        return container_add_stop(container, cause);
}
