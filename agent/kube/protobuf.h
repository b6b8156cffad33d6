/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Kubernetes' protobuf
 *
 * Objects of the built-in kinds are half as large in it, and a fraction of the work, as in JSON. An
 * object stands in an envelope: four bytes, a message that names its kind, in that its own message.
 * Pure. What is refused is a fault of the sender, of the kind ERROR_INVALID.
 */

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/error.h"
#include "proto/kubernetes/v1/api.pb-c.h"

/* Short names of generated types. */
typedef Kubernetes__V1__Unknown KubeEnvelope;
typedef Kubernetes__V1__WatchEvent KubeWatchEventMessage;
typedef Kubernetes__V1__List KubeListMessage;
typedef Kubernetes__V1__Object KubeObjectMessage;
typedef Kubernetes__V1__ObjectMeta KubeObjectMeta;
typedef Kubernetes__V1__Status KubeStatusMessage;
typedef Kubernetes__V1__Pod KubePod;
typedef Kubernetes__V1__Container KubeContainer;
typedef Kubernetes__V1__ContainerStatus KubeContainerStatus;

/* Reads a message of this type, such as &kubernetes__v1__pod__descriptor. Few bytes can stand for
 * many objects in memory: more than some 24 times the size is refused. Returns -ENOMEM without an
 * error, ERROR_INVALID otherwise. The caller owns *ret, and frees it with kube_protobuf_free(). */
int kube_protobuf_unpack(const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t size,
                         ProtobufCMessage **ret, Error *reterr);

/* Frees any unpacked message; takes NULL. Returns NULL. */
void *kube_protobuf_free(void *message);

static inline void kube_protobuf_free_p(void *message) {
        kube_protobuf_free(*(void **) message);
}

/* Opens an envelope; (*ret)->raw is its content if that is protobuf. The caller owns *ret. */
int kube_protobuf_open(const uint8_t *bytes, size_t size, KubeEnvelope **ret, Error *reterr);

/* Reads the API server's reason to refuse a request, in its envelope. The caller owns *ret. */
int kube_protobuf_read_status(const uint8_t *bytes, size_t size, KubeStatusMessage **ret,
                              Error *reterr);

/* Returns the value of an annotation, borrowed, or NULL. */
const char *kube_protobuf_annotation(const KubeObjectMeta *meta, const char *key);
