/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Protobuf messages like an API server's, for tests
 */

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "agent/kube/protobuf.h"

typedef struct Bytes {
        uint8_t data[4096];
        size_t size;
} Bytes;

static inline void bytes_pack(Bytes *bytes, const void *message) {
        if (bytes->size + protobuf_c_message_get_packed_size(message) > sizeof(bytes->data))
                abort();
        bytes->size += protobuf_c_message_pack(message, bytes->data + bytes->size);
}

/* Packs the begin of an object; the version of a bookmark that ends a list begins with "end:". */
static inline void bytes_pack_object(Bytes *bytes, const char *namespace, const char *name,
                                     const char *uid, const char *version) {
        Kubernetes__V1__ObjectMeta__AnnotationsEntry end =
                KUBERNETES__V1__OBJECT_META__ANNOTATIONS_ENTRY__INIT;
        Kubernetes__V1__ObjectMeta__AnnotationsEntry *annotations[] = { &end };
        KubeObjectMeta meta = KUBERNETES__V1__OBJECT_META__INIT;
        KubeObjectMessage object = KUBERNETES__V1__OBJECT__INIT;

        meta.namespace_ = (char *) namespace;
        meta.name = (char *) name;
        meta.uid = (char *) uid;
        meta.resourceversion = (char *) version;
        if (strncmp(version, "end:", 4) == 0) {
                end.key = (char *) "k8s.io/initial-events-end";
                end.value = (char *) "true";
                meta.annotations = annotations;
                meta.n_annotations = 1;
        }
        object.metadata = &meta;
        bytes_pack(bytes, &object);
}

static inline void bytes_pack_envelope(Bytes *bytes, const char *kind, const Bytes *raw) {
        Kubernetes__V1__TypeMeta type = KUBERNETES__V1__TYPE_META__INIT;
        KubeEnvelope envelope = KUBERNETES__V1__UNKNOWN__INIT;

        type.apiversion = (char *) "v1";
        type.kind = (char *) kind;
        envelope.typemeta = &type;
        envelope.has_raw = true;
        envelope.raw = (ProtobufCBinaryData){ .len = raw->size, .data = (uint8_t *) raw->data };
        envelope.contentencoding = envelope.contenttype = (char *) "";

        memcpy(bytes->data + bytes->size, "k8s", 4);
        bytes->size += 4;
        bytes_pack(bytes, &envelope);
}

/* object is in its envelope. */
static inline void bytes_pack_event(Bytes *bytes, const char *type, const Bytes *object) {
        Kubernetes__V1__RawExtension raw = KUBERNETES__V1__RAW_EXTENSION__INIT;
        KubeWatchEventMessage event = KUBERNETES__V1__WATCH_EVENT__INIT;

        raw.has_raw = true;
        raw.raw = (ProtobufCBinaryData){ .len = object->size, .data = (uint8_t *) object->data };
        event.type = (char *) type;
        event.object = &raw;
        bytes_pack(bytes, &event);
}

/* A pod's event as it is on the wire: behind its length. */
static inline void bytes_pack_pod_frame(Bytes *bytes, const char *type, const Bytes *pod) {
        Bytes envelope = { .size = 0 }, event = { .size = 0 };
        uint32_t length;

        bytes_pack_envelope(&envelope, "Pod", pod);
        bytes_pack_event(&event, type, &envelope);
        length = htonl((uint32_t) event.size);
        if (bytes->size + sizeof(length) + event.size > sizeof(bytes->data))
                abort();
        memcpy(bytes->data + bytes->size, &length, sizeof(length));
        memcpy(bytes->data + bytes->size + sizeof(length), event.data, event.size);
        bytes->size += sizeof(length) + event.size;
}

static inline void bytes_pack_frame(Bytes *bytes, const char *type, const char *namespace,
                                    const char *name, const char *uid, const char *version) {
        Bytes object = { .size = 0 };

        bytes_pack_object(&object, namespace, name, uid, version);
        bytes_pack_pod_frame(bytes, type, &object);
}
