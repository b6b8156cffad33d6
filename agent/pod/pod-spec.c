/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/pod/pod-spec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/kube/protobuf.h"
#include "agent/pod/container-spec.h"
#include "agent/pod/spec-text.h"

#define KRUISE_GATE "KruisePodReady"
#define GRACE_SEC_DEFAULT 30
#define GRACE_SEC_MIN 1
#define GRACE_SEC_MAX ((int64_t) INT32_MAX)

typedef Kubernetes__V1__PodSpec SpecMessage;
typedef Kubernetes__V1__PodStatus StatusMessage;
typedef Kubernetes__V1__PodCondition ConditionMessage;

DEFINE_CLEANUP(Pod *, pod_free)

static inline void message_free_p(void *message) {
        kube_protobuf_free(*(void **) message);
}

static int copy_note(const KubeObjectMeta *meta, const char *key, char **to, Error *reterr) {
        const char *note = kube_protobuf_annotation(meta, key);

        return note ? spec_copy_text(note, SPEC_NOTE_SIZE_MAX, key, to, reterr) : 0;
}

/* Old pods may have a negative one, which Kubernetes takes for the shortest there is. */
static int64_t read_grace(const SpecMessage *spec) {
        int64_t grace_sec = spec->terminationgraceperiodseconds;

        if (!spec->has_terminationgraceperiodseconds)
                return GRACE_SEC_DEFAULT;
        if (grace_sec < 0)
                return GRACE_SEC_MIN;

        return grace_sec < GRACE_SEC_MAX ? grace_sec : GRACE_SEC_MAX;
}

static void read_spec(const SpecMessage *spec, Pod *pod) {
        pod->grace_sec = read_grace(spec);
        for (size_t i = 0; i < spec->n_readinessgates; i++)
                if (spec_is_text(spec->readinessgates[i]->conditiontype, KRUISE_GATE))
                        pod->has_kruise_gate = true;
}

static int read_verified(const ConditionMessage *condition, Pod *pod, Error *reterr) {
        int r;

        r = spec_copy_text(condition->status, SPEC_NAME_SIZE_MAX, POD_VERIFIED_CONDITION,
                           &pod->verified_status, reterr);
        if (r < 0)
                return r;

        r = spec_copy_text(condition->reason, SPEC_TEXT_SIZE_MAX, POD_VERIFIED_CONDITION,
                           &pod->verified_reason, reterr);
        if (r < 0)
                return r;

        return spec_copy_text(condition->message, SPEC_NOTE_SIZE_MAX, POD_VERIFIED_CONDITION,
                              &pod->verified_message, reterr);
}

/* One that is too long for us is as if it said nothing: nobody reads the pod worse for it. */
static int read_gate(const ConditionMessage *condition, Pod *pod, Error *reterr) {
        if (!spec_is_text(condition->status, "False") || !spec_has_text(condition->message) ||
            strlen(condition->message) > SPEC_NOTE_SIZE_MAX)
                return 0;

        return spec_copy_text(condition->message, SPEC_NOTE_SIZE_MAX, KRUISE_GATE,
                              &pod->kruise_message, reterr);
}

static int read_condition(const ConditionMessage *condition, Pod *pod, Error *reterr) {
        if (spec_is_text(condition->type, "InPlaceUpdateReady"))
                pod->update = spec_is_text(condition->status, "False") ? POD_UPDATE_RUNNING
                                                                       : POD_UPDATE_READY;
        else if (spec_is_text(condition->type, "Ready"))
                pod->is_ready = spec_is_text(condition->status, "True");
        else if (spec_is_text(condition->type, POD_VERIFIED_CONDITION))
                return read_verified(condition, pod, reterr);
        else if (spec_is_text(condition->type, KRUISE_GATE))
                return read_gate(condition, pod, reterr);

        return 0;
}

static int read_status(const StatusMessage *status, Pod *pod, Error *reterr) {
        const char *ip = status->podip;
        int r;

        if (!spec_has_text(ip) && status->n_podips > 0)
                ip = status->podips[0]->ip;
        r = spec_copy_text(ip, SPEC_NAME_SIZE_MAX, "podIP", &pod->ip, reterr);
        if (r < 0)
                return r;

        pod->is_finished =
                spec_is_text(status->phase, "Succeeded") || spec_is_text(status->phase, "Failed");
        for (size_t i = 0; i < status->n_conditions; i++) {
                r = read_condition(status->conditions[i], pod, reterr);
                if (r < 0)
                        return r;
        }

        return 0;
}

static bool is_of_kruise(const KubeObjectMeta *meta) {
        static const char group[] = "apps.kruise.io/";

        for (size_t i = 0; i < meta->n_ownerreferences; i++)
                if (meta->ownerreferences[i]->controller && meta->ownerreferences[i]->apiversion &&
                    strncmp(meta->ownerreferences[i]->apiversion, group, strlen(group)) == 0)
                        return true;

        return kube_protobuf_annotation(meta, "kruise.io/sidecarset-hash");
}

static bool is_of_node(const KubeObjectMeta *meta) {
        for (size_t i = 0; i < meta->n_ownerreferences; i++)
                if (spec_is_text(meta->ownerreferences[i]->kind, "Node") &&
                    spec_is_text(meta->ownerreferences[i]->apiversion, "v1"))
                        return true;

        return false;
}

/* The kubelet has made it for a pod that it has from a file, or from a URL. */
static bool is_mirror(const KubeObjectMeta *meta) {
        const char *source = kube_protobuf_annotation(meta, "kubernetes.io/config.source");

        return is_of_node(meta) && (spec_is_text(source, "file") || spec_is_text(source, "http"));
}

/* The API server's copy of a static pod has an UID of its own. */
static const char *find_runtime_uid(const KubeObjectMeta *meta) {
        const char *uid = kube_protobuf_annotation(meta, "kubernetes.io/config.mirror");

        return spec_has_text(uid) && is_mirror(meta) ? uid : meta->uid;
}

static int read_names(const KubeObjectMeta *meta, Pod *pod, Error *reterr) {
        int r;

        r = spec_copy_name(meta->namespace_, "metadata.namespace", &pod->namespace, reterr);
        if (r < 0)
                return r;

        r = spec_copy_name(meta->name, "metadata.name", &pod->name, reterr);
        if (r < 0)
                return r;

        r = spec_copy_name(meta->uid, "metadata.uid", &pod->uid, reterr);
        if (r < 0)
                return r;

        r = spec_copy_name(find_runtime_uid(meta), "metadata.uid", &pod->runtime_uid, reterr);
        if (r < 0)
                return r;

        return spec_copy_text(meta->resourceversion, SPEC_NAME_SIZE_MAX, "metadata.resourceVersion",
                              &pod->resource_version, reterr);
}

/* "false", and what names no container, is like no annotation. */
static void drop_idle_wish(Pod *pod) {
        const char *text = pod->restart_wish;

        if (text && (strcmp(text, "false") == 0 || !text[strspn(text, ", \t\r\n")]))
                pod->restart_wish = (free(pod->restart_wish), NULL);
}

static int read_metadata(const KubeObjectMeta *meta, Pod *pod, Error *reterr) {
        int r;

        r = read_names(meta, pod, reterr);
        if (r < 0)
                return r;

        r = copy_note(meta, POD_RESTART_ANNOTATION, &pod->restart_wish, reterr);
        if (r < 0)
                return r;

        drop_idle_wish(pod);
        r = copy_note(meta, POD_META_ANNOTATION, &pod->meta, reterr);
        if (r < 0)
                return r;

        pod->is_deleted = meta->deletiontimestamp;
        pod->is_kruise = is_of_kruise(meta);
        return 0;
}

static int read_pod(const KubePod *message, Pod *pod, Error *reterr) {
        int r;

        if (!message->metadata || !message->spec)
                return error_set(reterr, ERROR_INVALID, "it has no %s",
                                 message->metadata ? "spec" : "metadata");

        r = read_metadata(message->metadata, pod, reterr);
        if (r < 0)
                return r;

        read_spec(message->spec, pod);
        r = container_spec_read(message, pod, reterr);
        if (r < 0)
                return r;
        if (!message->status)
                return spec_copy_text(NULL, 0, "podIP", &pod->ip, reterr);

        r = read_status(message->status, pod, reterr);
        if (r < 0)
                return r;

        return container_spec_read_status(message, pod, reterr);
}

int pod_spec_parse(const uint8_t *bytes, size_t size, Pod **ret, Error *reterr) {
        cleanup(message_free_p) ProtobufCMessage *message = NULL;
        cleanup(pod_free_p) Pod *pod = NULL;
        int r;

        r = kube_protobuf_unpack(&kubernetes__v1__pod__descriptor, bytes, size, &message, reterr);
        if (r < 0)
                return r;

        pod = malloc(sizeof(*pod));
        if (!pod)
                return -ENOMEM;

        *pod = (Pod){ .namespace = NULL };
        r = read_pod((const KubePod *) message, pod, reterr);
        if (r < 0)
                return r;

        *ret = take_ptr(pod);
        return 0;
}
