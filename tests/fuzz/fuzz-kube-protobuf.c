/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Kubernetes' protobuf, from an attacker: what is accepted lies within the input or is
 * one of its texts; what is refused says why in one line. The same bytes are tried as a list, an
 * event, a reason and a pod.
 */

#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/kube/protobuf.h"
#include "agent/kube/watch-message.h"
#include "tests/fuzz/fuzz.h"

static void check_refusal(const Error *error) {
        check(error->kind == ERROR_INVALID && !strpbrk(error_message(error), "\r\n"));
}

static void check_object(const KubeObject *object, size_t size) {
        check(object->name && object->name[0] && strlen(object->name) < size);
        check(object->namespace && strlen(object->namespace) < size);
        check(object->uid && strlen(object->uid) < size);
        check(object->resource_version && object->resource_version[0]);
        check(!object->json && object->bytes && object->n_bytes < size);
}

static void try_list(WatchReader *reader, Slice body) {
        cleanup(watch_list_done) WatchList list = WATCH_LIST_INIT;
        cleanup(error_done) Error error = ERROR_INIT;

        if (watch_list_read(reader, body, &list, &error) < 0) {
                check_refusal(&error);
                return;
        }

        check(list.version[0] && list.next && list.n_items <= body.size / 2);
        for (size_t i = 0; i < list.n_items; i++) {
                cleanup(watch_event_done) WatchEvent event = WATCH_EVENT_INIT;

                if (watch_list_item(&list, i, &event, NULL) >= 0)
                        check_object(&event.object, body.size);
        }
}

static void try_event(WatchReader *reader, Slice frame) {
        cleanup(watch_event_done) WatchEvent event = WATCH_EVENT_INIT;
        cleanup(error_done) Error error = ERROR_INIT;

        if (watch_event_read(reader, frame, &event, &error) < 0)
                check_refusal(&error);
        else if (event.type == WATCH_EVENT_ERROR)
                check(event.status.message && event.status.code >= 0 && event.status.code < 1000);
        else if (event.type != WATCH_EVENT_BOOKMARK)
                check_object(&event.object, frame.size);
}

static void try_status(const uint8_t *data, size_t size) {
        cleanup(error_done) Error error = ERROR_INIT;
        KubeStatusMessage *status = NULL;

        if (kube_protobuf_read_status(data, size, &status, &error) < 0)
                check_refusal(&error);
        kube_protobuf_free(status);
}

static void try_pod(const uint8_t *data, size_t size) {
        cleanup(error_done) Error error = ERROR_INIT;
        ProtobufCMessage *message = NULL;
        const KubePod *pod;

        if (kube_protobuf_unpack(&kubernetes__v1__pod__descriptor, data, size, &message, &error) <
            0) {
                check_refusal(&error);
                return;
        }

        pod = (const KubePod *) message;
        if (pod->metadata) {
                (void) kube_protobuf_annotation(pod->metadata, "a");
        }
        kube_protobuf_free(message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const Slice text = { .data = (const char *) data, .size = size };
        WatchReader reader = WATCH_READER_INIT(true);

        try_list(&reader, text);
        try_event(&reader, text);
        try_status(data, size);
        try_pod(data, size);
        return 0;
}
