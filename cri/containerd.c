/* SPDX-License-Identifier: Apache-2.0 */

#include "cri/containerd.h"

#include <assert.h>
#include <stdio.h>

#include "proto/containerd/services/events/v1/events.pb-c.h"
#include "proto/containerd/services/leases/v1/leases.pb-c.h"

/* Nothing depends on progress: the agent does not wait for a slower answer. */
#define CONTENT_TIMEOUT_USEC ((uint64_t) 5 * 1000000)

/* Images of CRI are in this namespace. */
#define METHOD(service, name, type)                                                 \
        {                                                                           \
                .path = "/containerd.services." service "/" name,                   \
                .reply = &containerd__services__##type##__descriptor,               \
                .metadata_key = "containerd-namespace", .metadata_value = "k8s.io", \
        }

#define CONTENT_METHOD(name, type) METHOD("content.v1.Content", name, content__v1__##type)
#define LEASES_METHOD(name, type) METHOD("leases.v1.Leases", name, leases__v1__##type)

static const RpcMethod list_ingests_method = CONTENT_METHOD("ListStatuses", list_statuses_response);
static const RpcMethod list_method = CONTENT_METHOD("List", list_content_response);
static const RpcMethod info_method = CONTENT_METHOD("Info", info_response);
static const RpcMethod read_method = CONTENT_METHOD("Read", read_content_response);

int content_list_ingests(RpcClient *client, RpcDone done, void *userdata, RpcCall **ret) {
        Containerd__Services__Content__V1__ListStatusesRequest request =
                CONTAINERD__SERVICES__CONTENT__V1__LIST_STATUSES_REQUEST__INIT;

        return rpc_call_unary(client, &list_ingests_method, &request.base, CONTENT_TIMEOUT_USEC,
                              done, userdata, ret);
}

int content_list(RpcClient *client, const char *const *filters, size_t n_filters,
                 RpcMessage on_list, RpcDone done, void *userdata, RpcCall **ret) {
        Containerd__Services__Content__V1__ListContentRequest request =
                CONTAINERD__SERVICES__CONTENT__V1__LIST_CONTENT_REQUEST__INIT;

        request.filters = (char **) filters;
        request.n_filters = n_filters;
        return rpc_call_stream(client, &list_method, &request.base, CONTENT_TIMEOUT_USEC, on_list,
                               done, userdata, ret);
}

int content_info(RpcClient *client, const char *digest, RpcDone done, void *userdata,
                 RpcCall **ret) {
        Containerd__Services__Content__V1__InfoRequest request =
                CONTAINERD__SERVICES__CONTENT__V1__INFO_REQUEST__INIT;

        request.digest = (char *) digest;
        return rpc_call_unary(client, &info_method, &request.base, CONTENT_TIMEOUT_USEC, done,
                              userdata, ret);
}

int content_read(RpcClient *client, const char *digest, RpcMessage on_part, RpcDone done,
                 void *userdata, RpcCall **ret) {
        Containerd__Services__Content__V1__ReadContentRequest request =
                CONTAINERD__SERVICES__CONTENT__V1__READ_CONTENT_REQUEST__INIT;

        request.digest = (char *) digest;
        return rpc_call_stream(client, &read_method, &request.base, CONTENT_TIMEOUT_USEC, on_part,
                               done, userdata, ret);
}

static const RpcMethod stat_method =
        METHOD("snapshots.v1.Snapshots", "Stat", snapshots__v1__stat_snapshot_response);

int snapshot_stat(RpcClient *client, const char *snapshotter, const char *name, RpcDone done,
                  void *userdata, RpcCall **ret) {
        Containerd__Services__Snapshots__V1__StatSnapshotRequest request =
                CONTAINERD__SERVICES__SNAPSHOTS__V1__STAT_SNAPSHOT_REQUEST__INIT;

        request.snapshotter = (char *) snapshotter;
        request.key = (char *) name;
        return rpc_call_unary(client, &stat_method, &request.base, CONTENT_TIMEOUT_USEC, done,
                              userdata, ret);
}

#define LABEL_EXPIRE "containerd.io/gc.expire"

static const RpcMethod create_lease_method = LEASES_METHOD("Create", create_response);
static const RpcMethod delete_lease_method = LEASES_METHOD("Delete", delete_response);
static const RpcMethod list_leases_method = LEASES_METHOD("List", list_response);
static const RpcMethod list_leased_method = LEASES_METHOD("ListResources", list_resources_response);

int leases_create(RpcClient *client, const char *id, const char *expires, RpcDone done,
                  void *userdata, RpcCall **ret) {
        Containerd__Services__Leases__V1__CreateRequest request =
                CONTAINERD__SERVICES__LEASES__V1__CREATE_REQUEST__INIT;
        Containerd__Services__Leases__V1__CreateRequest__LabelsEntry label =
                CONTAINERD__SERVICES__LEASES__V1__CREATE_REQUEST__LABELS_ENTRY__INIT;
        Containerd__Services__Leases__V1__CreateRequest__LabelsEntry *labels[] = { &label };

        label.key = (char *) LABEL_EXPIRE;
        label.value = (char *) expires;
        request.id = (char *) id;
        request.labels = labels;
        request.n_labels = 1;
        return rpc_call_unary(client, &create_lease_method, &request.base, CONTENT_TIMEOUT_USEC,
                              done, userdata, ret);
}

int leases_delete(RpcClient *client, const char *id, RpcDone done, void *userdata, RpcCall **ret) {
        Containerd__Services__Leases__V1__DeleteRequest request =
                CONTAINERD__SERVICES__LEASES__V1__DELETE_REQUEST__INIT;

        request.id = (char *) id;
        return rpc_call_unary(client, &delete_lease_method, &request.base, CONTENT_TIMEOUT_USEC,
                              done, userdata, ret);
}

int leases_list(RpcClient *client, const char *id, RpcDone done, void *userdata, RpcCall **ret) {
        Containerd__Services__Leases__V1__ListResourcesRequest request =
                CONTAINERD__SERVICES__LEASES__V1__LIST_RESOURCES_REQUEST__INIT;

        request.id = (char *) id;
        return rpc_call_unary(client, &list_leased_method, &request.base, CONTENT_TIMEOUT_USEC,
                              done, userdata, ret);
}

int leases_list_expiring(RpcClient *client, RpcDone done, void *userdata, RpcCall **ret) {
        Containerd__Services__Leases__V1__ListRequest request =
                CONTAINERD__SERVICES__LEASES__V1__LIST_REQUEST__INIT;
        char *filters[] = { "labels.\"" LABEL_EXPIRE "\"" };

        request.filters = filters;
        request.n_filters = 1;
        return rpc_call_unary(client, &list_leases_method, &request.base, CONTENT_TIMEOUT_USEC,
                              done, userdata, ret);
}

static const RpcMethod list_records_method =
        METHOD("images.v1.Images", "List", images__v1__list_images_response);
static const RpcMethod update_record_method =
        METHOD("images.v1.Images", "Update", images__v1__update_image_response);

int image_records_list(RpcClient *client, const char *const *filters, size_t n_filters,
                       RpcDone done, void *userdata, RpcCall **ret) {
        Containerd__Services__Images__V1__ListImagesRequest request =
                CONTAINERD__SERVICES__IMAGES__V1__LIST_IMAGES_REQUEST__INIT;

        request.filters = (char **) filters;
        request.n_filters = n_filters;
        return rpc_call_unary(client, &list_records_method, &request.base, CONTENT_TIMEOUT_USEC,
                              done, userdata, ret);
}

/* containerd 2 crashes if there is no target at all; the mask leaves the record's own as it is. */
int image_record_set_labels(RpcClient *client, const char *name, const ImageLabel *labels,
                            size_t n_labels, RpcDone done, void *userdata, RpcCall **ret) {
        Containerd__Services__Images__V1__UpdateImageRequest request =
                CONTAINERD__SERVICES__IMAGES__V1__UPDATE_IMAGE_REQUEST__INIT;
        Containerd__Services__Images__V1__FieldMask mask =
                CONTAINERD__SERVICES__IMAGES__V1__FIELD_MASK__INIT;
        Containerd__Services__Images__V1__Descriptor target =
                CONTAINERD__SERVICES__IMAGES__V1__DESCRIPTOR__INIT;
        ImageRecord record = CONTAINERD__SERVICES__IMAGES__V1__IMAGE__INIT;
        Containerd__Services__Images__V1__Image__LabelsEntry entries[IMAGE_LABELS_MAX];
        Containerd__Services__Images__V1__Image__LabelsEntry *list[IMAGE_LABELS_MAX];
        char texts[IMAGE_LABELS_MAX][128], *paths[IMAGE_LABELS_MAX];

        assert(n_labels <= IMAGE_LABELS_MAX);

        for (size_t i = 0; i < n_labels; i++) {
                containerd__services__images__v1__image__labels_entry__init(&entries[i]);
                entries[i].key = (char *) labels[i].key;
                entries[i].value = (char *) labels[i].value;
                list[i] = &entries[i];
                (void) snprintf(texts[i], sizeof(texts[i]), "labels.%s", labels[i].key);
                paths[i] = texts[i];
        }
        record.name = (char *) name;
        record.target = &target;
        record.labels = list;
        record.n_labels = mask.n_paths = n_labels;
        mask.paths = paths;
        request.image = &record;
        request.update_mask = &mask;
        return rpc_call_unary(client, &update_record_method, &request.base, CONTENT_TIMEOUT_USEC,
                              done, userdata, ret);
}

static const RpcMethod subscribe_method = {
        .path = "/containerd.services.events.v1.Events/Subscribe",
        .reply = &containerd__services__events__v1__envelope__descriptor,
};

int events_watch_images(RpcClient *client, const char *event, RpcMessage on_event, RpcDone done,
                        void *userdata, RpcCall **ret) {
        Containerd__Services__Events__V1__SubscribeRequest request =
                CONTAINERD__SERVICES__EVENTS__V1__SUBSCRIBE_REQUEST__INIT;
        char filter[64], *filters[] = { filter };

        (void) snprintf(filter, sizeof(filter), "topic==\"%s\",namespace==k8s.io", event);
        request.filters = filters;
        request.n_filters = 1;
        return rpc_call_stream(client, &subscribe_method, &request.base, RPC_NO_TIMEOUT, on_event,
                               done, userdata, ret);
}
