/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/protobuf.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"

/* Pods of a usual kind need about six times their size, and small messages more. */
#define UNPACKED_RATIO ((size_t) 24)
#define UNPACKED_MIN ((size_t) 64 << 10)

static const char magic[4] = { 'k', '8', 's', '\0' };

static void *budget_take(void *userdata, size_t size) {
        size_t *left = userdata;

        if (size > *left)
                return NULL;

        *left -= size;
        return malloc(size);
}

static void budget_free(void *userdata, void *pointer) {
        free(pointer);
}

int kube_protobuf_unpack(const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t size,
                         ProtobufCMessage **ret, Error *reterr) {
        size_t left = size * UNPACKED_RATIO + UNPACKED_MIN;
        ProtobufCAllocator allocator = {
                .alloc = budget_take,
                .free = budget_free,
                .allocator_data = &left,
        };
        ProtobufCMessage *message;

        message = protobuf_c_message_unpack(type, &allocator, size, bytes);
        if (!message)
                return error_set(reterr, ERROR_INVALID, "this is no %s, or too large",
                                 type->short_name);

        *ret = message;
        return 0;
}

void *kube_protobuf_free(void *message) {
        if (message)
                protobuf_c_message_free_unpacked(message, NULL);
        return NULL;
}

static inline void message_free_p(void *message) {
        kube_protobuf_free(*(void **) message);
}

static bool is_set(const char *text) {
        return text && text[0];
}

int kube_protobuf_open(const uint8_t *bytes, size_t size, KubeEnvelope **ret, Error *reterr) {
        cleanup(message_free_p) ProtobufCMessage *message = NULL;
        KubeEnvelope *envelope;
        int r;

        if (size < sizeof(magic) || memcmp(bytes, magic, sizeof(magic)) != 0)
                return error_set(reterr, ERROR_INVALID, "this is not Kubernetes' protobuf");

        r = kube_protobuf_unpack(&kubernetes__v1__unknown__descriptor, bytes + sizeof(magic),
                                 size - sizeof(magic), &message, reterr);
        if (r < 0)
                return r;

        envelope = (KubeEnvelope *) message;
        if (is_set(envelope->contentencoding) ||
            (is_set(envelope->contenttype) &&
             strcmp(envelope->contenttype, "application/vnd.kubernetes.protobuf") != 0))
                return error_set(reterr, ERROR_INVALID, "an envelope without protobuf in it");

        *ret = (KubeEnvelope *) take_ptr(message);
        return 0;
}

int kube_protobuf_read_status(const uint8_t *bytes, size_t size, KubeStatusMessage **ret,
                              Error *reterr) {
        cleanup(message_free_p) KubeEnvelope *envelope = NULL;
        ProtobufCMessage *status = NULL;
        int r;

        r = kube_protobuf_open(bytes, size, &envelope, reterr);
        if (r < 0)
                return r;

        if (envelope->typemeta && is_set(envelope->typemeta->kind) &&
            strcmp(envelope->typemeta->kind, "Status") != 0)
                return error_set(reterr, ERROR_INVALID, "an object that is no Status");

        r = kube_protobuf_unpack(&kubernetes__v1__status__descriptor, envelope->raw.data,
                                 envelope->raw.len, &status, reterr);
        if (r < 0)
                return r;

        *ret = (KubeStatusMessage *) status;
        return 0;
}

const char *kube_protobuf_label(const KubeObjectMeta *meta, const char *key) {
        for (size_t i = 0; i < meta->n_labels; i++)
                if (meta->labels[i]->key && strcmp(meta->labels[i]->key, key) == 0)
                        return meta->labels[i]->value ?: "";

        return NULL;
}

const char *kube_protobuf_annotation(const KubeObjectMeta *meta, const char *key) {
        for (size_t i = 0; i < meta->n_annotations; i++)
                if (meta->annotations[i]->key && strcmp(meta->annotations[i]->key, key) == 0)
                        return meta->annotations[i]->value ?: "";

        return NULL;
}
