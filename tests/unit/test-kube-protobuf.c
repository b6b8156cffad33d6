/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Kubernetes' protobuf, with bytes as the API server sends them
 */

#include <errno.h>

#include "agent/kube/watch-message.h"
#include "tests/unit/kube-message.h"
#include "tests/unit/unit.h"

#define BYTES(text) (const uint8_t *) (text), sizeof(text) - 1

static inline void message_free_p(void *message) {
        kube_protobuf_free(*(void **) message);
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

static size_t n_allocations_left = SIZE_MAX; /* number of allocations before those that fail */

/* The linker puts it in the place of malloc(), see tests/CMakeLists.txt. */
void *__wrap_malloc(size_t size) {
        if (n_allocations_left == 0)
                return NULL;

        n_allocations_left--;
        return __real_malloc(size);
}

/* A pod, as Kubernetes' own code of version 1.34 writes it: a wrong number would not go unnoticed. */
/* clang-format off */
static const uint8_t pod_bytes[] = {
        0x0a, 0x44, 0x0a, 0x01, 0x70, 0x12, 0x00, 0x1a, 0x01, 0x6e, 0x22, 0x00, 0x2a, 0x01, 0x75,
        0x32, 0x02, 0x34, 0x32, 0x38, 0x07, 0x42, 0x00, 0x4a, 0x05, 0x08, 0xe8, 0x07, 0x10, 0x00,
        0x50, 0x1e, 0x5a, 0x06, 0x0a, 0x01, 0x6c, 0x12, 0x01, 0x31, 0x62, 0x06, 0x0a, 0x01, 0x61,
        0x12, 0x01, 0x32, 0x6a, 0x14, 0x0a, 0x01, 0x4b, 0x1a, 0x01, 0x6f, 0x22, 0x01, 0x77, 0x2a,
        0x07, 0x61, 0x70, 0x70, 0x73, 0x2f, 0x76, 0x31, 0x30, 0x01, 0x12, 0xc9, 0x01, 0x12, 0x70,
        0x0a, 0x01, 0x63, 0x12, 0x01, 0x69, 0x2a, 0x00, 0x32, 0x0b, 0x0a, 0x01, 0x68, 0x10, 0x00,
        0x18, 0x50, 0x22, 0x00, 0x2a, 0x00, 0x3a, 0x23, 0x0a, 0x01, 0x45, 0x12, 0x00, 0x1a, 0x1c,
        0x0a, 0x1a, 0x0a, 0x02, 0x76, 0x31, 0x12, 0x14, 0x6d, 0x65, 0x74, 0x61, 0x64, 0x61, 0x74,
        0x61, 0x2e, 0x6c, 0x61, 0x62, 0x65, 0x6c, 0x73, 0x5b, 0x27, 0x6c, 0x27, 0x5d, 0x42, 0x00,
        0x62, 0x22, 0x12, 0x20, 0x12, 0x1e, 0x0a, 0x02, 0x2f, 0x78, 0x12, 0x07, 0x08, 0x01, 0x10,
        0x00, 0x1a, 0x01, 0x68, 0x1a, 0x00, 0x22, 0x05, 0x48, 0x54, 0x54, 0x50, 0x53, 0x2a, 0x06,
        0x0a, 0x01, 0x41, 0x12, 0x01, 0x42, 0x6a, 0x00, 0x72, 0x00, 0x80, 0x01, 0x00, 0x88, 0x01,
        0x00, 0x90, 0x01, 0x00, 0xa2, 0x01, 0x00, 0x1a, 0x06, 0x41, 0x6c, 0x77, 0x61, 0x79, 0x73,
        0x20, 0x05, 0x32, 0x00, 0x42, 0x00, 0x4a, 0x00, 0x52, 0x01, 0x4e, 0x58, 0x00, 0x60, 0x00,
        0x68, 0x00, 0x82, 0x01, 0x00, 0x8a, 0x01, 0x00, 0x9a, 0x01, 0x00, 0xa2, 0x01, 0x2f, 0x0a,
        0x01, 0x73, 0x12, 0x01, 0x6a, 0x2a, 0x00, 0x42, 0x00, 0x62, 0x0a, 0x12, 0x08, 0x0a, 0x06,
        0x0a, 0x01, 0x61, 0x0a, 0x01, 0x62, 0x6a, 0x00, 0x72, 0x00, 0x80, 0x01, 0x00, 0x88, 0x01,
        0x00, 0x90, 0x01, 0x00, 0xa2, 0x01, 0x00, 0xc2, 0x01, 0x06, 0x41, 0x6c, 0x77, 0x61, 0x79,
        0x73, 0xc2, 0x01, 0x00, 0x1a, 0x99, 0x01, 0x0a, 0x07, 0x52, 0x75, 0x6e, 0x6e, 0x69, 0x6e,
        0x67, 0x12, 0x25, 0x0a, 0x12, 0x49, 0x6e, 0x50, 0x6c, 0x61, 0x63, 0x65, 0x55, 0x70, 0x64,
        0x61, 0x74, 0x65, 0x52, 0x65, 0x61, 0x64, 0x79, 0x12, 0x05, 0x46, 0x61, 0x6c, 0x73, 0x65,
        0x1a, 0x00, 0x22, 0x00, 0x2a, 0x00, 0x32, 0x00, 0x38, 0x00, 0x1a, 0x00, 0x22, 0x00, 0x2a,
        0x00, 0x32, 0x01, 0x49, 0x42, 0x23, 0x0a, 0x01, 0x63, 0x12, 0x09, 0x12, 0x07, 0x0a, 0x05,
        0x08, 0xe8, 0x07, 0x10, 0x00, 0x1a, 0x00, 0x20, 0x01, 0x28, 0x03, 0x32, 0x01, 0x69, 0x3a,
        0x01, 0x44, 0x42, 0x05, 0x72, 0x3a, 0x2f, 0x2f, 0x43, 0x48, 0x01, 0x4a, 0x00, 0x52, 0x2b,
        0x0a, 0x01, 0x73, 0x12, 0x1a, 0x1a, 0x18, 0x08, 0x09, 0x10, 0x00, 0x1a, 0x05, 0x45, 0x72,
        0x72, 0x6f, 0x72, 0x22, 0x00, 0x2a, 0x00, 0x32, 0x00, 0x3a, 0x05, 0x72, 0x3a, 0x2f, 0x2f,
        0x54, 0x1a, 0x00, 0x20, 0x00, 0x28, 0x01, 0x32, 0x00, 0x3a, 0x00, 0x42, 0x00, 0x5a, 0x00,
        0x62, 0x03, 0x0a, 0x01, 0x49, 0x72, 0x00, 0x88, 0x01, 0x00,
};
/* clang-format on */

static void check_metadata(const KubeObjectMeta *meta) {
        assert_string_equal(meta->name, "p");
        assert_string_equal(meta->namespace_, "n");
        assert_string_equal(meta->uid, "u");
        assert_string_equal(meta->resourceversion, "42");
        assert_int_equal(meta->generation, 7);
        assert_int_equal(meta->deletiontimestamp->seconds, 1000);
        assert_int_equal(meta->deletiongraceperiodseconds, 30);
        assert_string_equal(kube_protobuf_annotation(meta, "a"), "2");
        assert_null(kube_protobuf_annotation(meta, "l"));
        assert_int_equal(meta->n_ownerreferences, 1);
        assert_string_equal(meta->ownerreferences[0]->apiversion, "apps/v1");
        assert_string_equal(meta->ownerreferences[0]->kind, "K");
        assert_string_equal(meta->ownerreferences[0]->name, "o");
        assert_string_equal(meta->ownerreferences[0]->uid, "w");
        assert_true(meta->ownerreferences[0]->controller);
}

static void check_container(const KubeContainer *container) {
        const Kubernetes__V1__HTTPGetAction *get;

        assert_string_equal(container->name, "c");
        assert_string_equal(container->image, "i");
        assert_string_equal(container->ports[0]->name, "h");
        assert_int_equal(container->ports[0]->containerport, 80);
        assert_string_equal(container->env[0]->name, "E");
        assert_string_equal(container->env[0]->value, "");
        assert_string_equal(container->env[0]->valuefrom->fieldref->fieldpath,
                            "metadata.labels['l']");

        get = container->lifecycle->prestop->httpget;
        assert_string_equal(get->path, "/x");
        assert_int_equal(get->port->type, 1);
        assert_string_equal(get->port->strval, "h");
        assert_string_equal(get->scheme, "HTTPS");
        assert_string_equal(get->httpheaders[0]->name, "A");
        assert_string_equal(get->httpheaders[0]->value, "B");
}

static void check_spec(const Kubernetes__V1__PodSpec *spec) {
        const KubeContainer *sidecar = spec->initcontainers[0];

        assert_string_equal(spec->nodename, "N");
        assert_string_equal(spec->restartpolicy, "Always");
        assert_int_equal(spec->terminationgraceperiodseconds, 5);
        assert_int_equal(spec->n_containers, 1);
        check_container(spec->containers[0]);
        assert_int_equal(spec->n_initcontainers, 1);
        assert_string_equal(sidecar->restartpolicy, "Always");
        assert_int_equal(sidecar->lifecycle->prestop->exec->n_command, 2);
        assert_string_equal(sidecar->lifecycle->prestop->exec->command[1], "b");
}

static void check_status(const Kubernetes__V1__PodStatus *status) {
        const KubeContainerStatus *container = status->containerstatuses[0];
        const KubeContainerStatus *sidecar = status->initcontainerstatuses[0];

        assert_string_equal(status->phase, "Running");
        assert_string_equal(status->podip, "I");
        assert_string_equal(status->podips[0]->ip, "I");
        assert_string_equal(status->conditions[0]->type, "InPlaceUpdateReady");
        assert_string_equal(status->conditions[0]->status, "False");

        assert_string_equal(container->name, "c");
        assert_string_equal(container->image, "i");
        assert_string_equal(container->imageid, "D");
        assert_string_equal(container->containerid, "r://C");
        assert_int_equal(container->restartcount, 3);
        assert_true(container->ready);
        assert_true(container->started);
        assert_int_equal(container->state->running->startedat->seconds, 1000);
        assert_null(container->state->waiting);

        assert_int_equal(sidecar->restartcount, 1);
        assert_int_equal(sidecar->state->terminated->exitcode, 9);
        assert_string_equal(sidecar->state->terminated->reason, "Error");
        assert_string_equal(sidecar->state->terminated->containerid, "r://T");
}

TEST(test_pod) {
        cleanup(message_free_p) ProtobufCMessage *message = NULL;
        const KubePod *pod;

        assert_ok(kube_protobuf_unpack(&kubernetes__v1__pod__descriptor, pod_bytes,
                                       sizeof(pod_bytes), &message, NULL));
        pod = (const KubePod *) message;
        check_metadata(pod->metadata);
        check_spec(pod->spec);
        check_status(pod->status);
}

/* Any object is read as one, whatever stands behind its metadata. */
TEST(test_event) {
        cleanup(watch_event_done) WatchEvent event = WATCH_EVENT_INIT;
        Bytes pod = { .size = sizeof(pod_bytes) }, envelope = { .size = 0 }, bytes = { .size = 0 };
        WatchReader reader = WATCH_READER_INIT(true);

        memcpy(pod.data, pod_bytes, pod.size);
        bytes_pack_envelope(&envelope, "Pod", &pod);
        bytes_pack_event(&bytes, "MODIFIED", &envelope);
        assert_ok(watch_event_read(&reader,
                                   (Slice){ .data = (char *) bytes.data, .size = bytes.size },
                                   &event, NULL));
        assert_int_equal(event.type, WATCH_EVENT_MODIFIED);
        assert_string_equal(event.object.namespace, "n");
        assert_string_equal(event.object.name, "p");
        assert_string_equal(event.object.uid, "u");
        assert_string_equal(event.object.resource_version, "42");
        assert_null(event.object.json);
        assert_int_equal(event.object.n_bytes, pod.size);
        assert_memory_equal(event.object.bytes, pod.data, pod.size);
}

TEST(test_error_event) {
        cleanup(watch_event_done) WatchEvent event = WATCH_EVENT_INIT;
        Kubernetes__V1__StatusDetails details = KUBERNETES__V1__STATUS_DETAILS__INIT;
        KubeStatusMessage status = KUBERNETES__V1__STATUS__INIT;
        Bytes raw = { .size = 0 }, envelope = { .size = 0 }, bytes = { .size = 0 };
        WatchReader reader = WATCH_READER_INIT(true);

        status.message = (char *) "too old resource version";
        status.has_code = true;
        status.code = 410;
        details.has_retryafterseconds = true;
        details.retryafterseconds = 3;
        status.details = &details;
        bytes_pack(&raw, &status);
        bytes_pack_envelope(&envelope, "Status", &raw);
        bytes_pack_event(&bytes, "ERROR", &envelope);
        assert_ok(watch_event_read(&reader,
                                   (Slice){ .data = (char *) bytes.data, .size = bytes.size },
                                   &event, NULL));
        assert_int_equal(event.type, WATCH_EVENT_ERROR);
        assert_int_equal(event.status.code, 410);
        assert_string_equal(event.status.message, "too old resource version");
        assert_int_equal(event.status.retry_after_usec, 3000000);
}

/* No status of HTTP has more than three digits. */
TEST(test_code_of_an_error_event) {
        static const struct {
                int32_t code;
                int expected;
        } rows[] = { { -1, 0 }, { 0, 0 }, { 999, 999 }, { 1000, 0 } };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                cleanup(watch_event_done) WatchEvent event = WATCH_EVENT_INIT;
                KubeStatusMessage status = KUBERNETES__V1__STATUS__INIT;
                Bytes raw = { .size = 0 }, envelope = { .size = 0 }, bytes = { .size = 0 };
                WatchReader reader = WATCH_READER_INIT(true);

                status.has_code = true;
                status.code = rows[i].code;
                bytes_pack(&raw, &status);
                bytes_pack_envelope(&envelope, "Status", &raw);
                bytes_pack_event(&bytes, "ERROR", &envelope);
                assert_ok(
                        watch_event_read(&reader,
                                         (Slice){ .data = (char *) bytes.data, .size = bytes.size },
                                         &event, NULL));
                assert_int_equal(event.status.code, rows[i].expected);
        }
}

TEST(test_list) {
        cleanup(watch_list_done) WatchList list = WATCH_LIST_INIT;
        Kubernetes__V1__ListMeta meta = KUBERNETES__V1__LIST_META__INIT;
        ProtobufCBinaryData items[2];
        KubeListMessage message = KUBERNETES__V1__LIST__INIT;
        Bytes other = { .size = 0 }, raw = { .size = 0 }, body = { .size = 0 };
        WatchReader reader = WATCH_READER_INIT(true);

        bytes_pack_object(&other, "n", "q", "v", "43");
        items[0] = (ProtobufCBinaryData){ .data = (uint8_t *) pod_bytes, .len = sizeof(pod_bytes) };
        items[1] = (ProtobufCBinaryData){ .data = other.data, .len = other.size };
        meta.resourceversion = (char *) "44";
        meta.continue_ = (char *) "more";
        message.metadata = &meta;
        message.items = items;
        message.n_items = 2;
        bytes_pack(&raw, &message);
        bytes_pack_envelope(&body, "PodList", &raw);

        assert_ok(watch_list_read(&reader, (Slice){ .data = (char *) body.data, .size = body.size },
                                  &list, NULL));
        assert_string_equal(list.version, "44");
        assert_string_equal(list.next, "more");
        assert_int_equal(list.n_items, 2);
        for (size_t i = 0; i < 2; i++) {
                cleanup(watch_event_done) WatchEvent event = WATCH_EVENT_INIT;

                assert_ok(watch_list_item(&list, i, &event, NULL));
                assert_string_equal(event.object.name, i == 0 ? "p" : "q");
                assert_int_equal(event.object.n_bytes, items[i].len);
        }
}

static const struct Refusal {
        const char *name;
        const uint8_t *bytes;
        size_t size;
} refusals[] = {
        { "nothing", BYTES("") },
        { "half of the magic", BYTES("k8s") },
        { "JSON", BYTES("{\"kind\":\"Pod\"}") },
        { "a broken envelope", BYTES("k8s\0\x0a\x7f") },
        { "JSON in an envelope", BYTES("k8s\0\x12\x02{}\x22\x10"
                                       "application/json") },
        { "a zipped envelope", BYTES("k8s\0\x1a\x04gzip") },
};

TEST_ROWS(test_refusals, refusals, name, const struct Refusal *row) {
        cleanup(error_done) Error error = ERROR_INIT;
        KubeEnvelope *envelope = NULL;

        if (kube_protobuf_open(row->bytes, row->size, &envelope, &error) >= 0)
                fail_msg("%s", row->name);
        assert_int_equal(error.kind, ERROR_INVALID);
        assert_null(envelope);
}

/* Two bytes stand for an owner reference of some 80 in memory. */
TEST(test_bomb) {
        cleanup(error_done) Error error = ERROR_INIT;
        const size_t n = 500000;
        cleanup(free_p) uint8_t *bytes = malloc(2 * n);
        ProtobufCMessage *message = NULL;

        for (size_t i = 0; i < n; i++)
                memcpy(bytes + 2 * i, "\x6a\x00", 2);
        assert_true(kube_protobuf_unpack(&kubernetes__v1__object_meta__descriptor, bytes, 2 * n,
                                         &message, &error) < 0);
        assert_int_equal(error.kind, ERROR_INVALID);
        assert_null(message);
}

TEST(test_status) {
        cleanup(error_done) Error error = ERROR_INIT;
        KubeStatusMessage *status;
        Bytes raw = { .size = 0 }, envelope = { .size = 0 };

        bytes_pack_object(&raw, "n", "p", "u", "1");
        bytes_pack_envelope(&envelope, "Pod", &raw);
        assert_true(kube_protobuf_read_status(envelope.data, envelope.size, &status, &error) < 0);
        assert_int_equal(error.kind, ERROR_INVALID);
}

/* A message that is refused as bad would be left alone until its object changes. */
TEST(test_named_content_type) {
        static const uint8_t bytes[] = "k8s\0\x12\x00\x22\x23"
                                       "application/vnd.kubernetes.protobuf";
        cleanup(message_free_p) KubeEnvelope *envelope = NULL;

        assert_ok(kube_protobuf_open(bytes, sizeof(bytes) - 1, &envelope, NULL));
        assert_non_null(envelope);
}

TEST(test_out_of_memory) {
        ProtobufCMessage *message = NULL;
        size_t n = 0;
        int r;

        do {
                cleanup(error_done) Error error = ERROR_INIT;

                n_allocations_left = n++;
                r = kube_protobuf_unpack(&kubernetes__v1__pod__descriptor, pod_bytes,
                                         sizeof(pod_bytes), &message, &error);
                n_allocations_left = SIZE_MAX;
                assert_int_equal(error.kind, ERROR_NONE);
                assert_true(r == 0 || r == -ENOMEM);
        } while (r < 0);
        assert_true(n > 2);
        kube_protobuf_free(message);
}
