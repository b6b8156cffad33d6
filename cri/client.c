/* SPDX-License-Identifier: Apache-2.0 */

#include "cri/client.h"

#include <string.h>

#include "agent/base/time-units.h"

#define VERSION_TIMEOUT_USEC (2 * USEC_PER_SEC)

static const RpcMethod version_method = {
        .path = "/runtime.v1.RuntimeService/Version",
        .reply = &runtime__v1__version_response__descriptor,
};

static const RpcMethod image_fs_info_method = {
        .path = "/runtime.v1.ImageService/ImageFsInfo",
        .reply = &runtime__v1__image_fs_info_response__descriptor,
};

static const RpcMethod image_status_method = {
        .path = "/runtime.v1.ImageService/ImageStatus",
        .reply = &runtime__v1__image_status_response__descriptor,
};

static const RpcMethod list_images_method = {
        .path = "/runtime.v1.ImageService/ListImages",
        .reply = &runtime__v1__list_images_response__descriptor,
};

static const RpcMethod pull_image_method = {
        .path = "/runtime.v1.ImageService/PullImage",
        .reply = &runtime__v1__pull_image_response__descriptor,
        .metadata_key = "containerd-lease",
};

static const RpcMethod list_containers_method = {
        .path = "/runtime.v1.RuntimeService/ListContainers",
        .reply = &runtime__v1__list_containers_response__descriptor,
};

static const RpcMethod container_status_method = {
        .path = "/runtime.v1.RuntimeService/ContainerStatus",
        .reply = &runtime__v1__container_status_response__descriptor,
};

static const RpcMethod sandbox_status_method = {
        .path = "/runtime.v1.RuntimeService/PodSandboxStatus",
        .reply = &runtime__v1__pod_sandbox_status_response__descriptor,
};

const RpcMethod cri_exec_sync = {
        .path = "/runtime.v1.RuntimeService/ExecSync",
        .reply = &runtime__v1__exec_sync_response__descriptor,
};

static const RpcMethod stop_container_method = {
        .path = "/runtime.v1.RuntimeService/StopContainer",
        .reply = &runtime__v1__stop_container_response__descriptor,
};

const char *const cri_method_names[] = {
        "Version",
        "ImageFsInfo",
        "ImageStatus",
        "ListImages",
        "PullImage",
        "ListContainers",
        "ContainerStatus",
        "PodSandboxStatus",
        "ExecSync",
        "StopContainer",
        "ListStatuses",
        "List",
        "Read",
        "Info",
        "Stat",
        "Subscribe",
        "Create",
        "Delete",
        "ListResources",
        "Update",
        NULL,
};

const char *cri_method_name(const RpcMethod *method) {
        return strrchr(method->path, '/') + 1;
}

int cri_version(RpcClient *client, RpcDone done, void *userdata, RpcCall **ret) {
        Runtime__V1__VersionRequest request = RUNTIME__V1__VERSION_REQUEST__INIT;

        return rpc_call_unary(client, &version_method, &request.base, VERSION_TIMEOUT_USEC, done,
                              userdata, ret);
}

int cri_image_fs_info(RpcClient *client, RpcDone done, void *userdata, RpcCall **ret) {
        Runtime__V1__ImageFsInfoRequest request = RUNTIME__V1__IMAGE_FS_INFO_REQUEST__INIT;

        return rpc_call_unary(client, &image_fs_info_method, &request.base, CRI_TIMEOUT_USEC, done,
                              userdata, ret);
}

int cri_image_status(RpcClient *client, const char *reference, RpcDone done, void *userdata,
                     RpcCall **ret) {
        Runtime__V1__ImageStatusRequest request = RUNTIME__V1__IMAGE_STATUS_REQUEST__INIT;
        Runtime__V1__ImageSpec spec = RUNTIME__V1__IMAGE_SPEC__INIT;

        spec.image = (char *) reference;
        request.image = &spec;
        return rpc_call_unary(client, &image_status_method, &request.base, CRI_TIMEOUT_USEC, done,
                              userdata, ret);
}

int cri_list_images(RpcClient *client, RpcDone done, void *userdata, RpcCall **ret) {
        Runtime__V1__ListImagesRequest request = RUNTIME__V1__LIST_IMAGES_REQUEST__INIT;

        return rpc_call_unary(client, &list_images_method, &request.base, CRI_TIMEOUT_USEC, done,
                              userdata, ret);
}

int cri_pull_image(RpcClient *client, const CriPullRequest *request, const char *lease_id,
                   uint64_t timeout_usec, RpcDone done, void *userdata, RpcCall **ret) {

        return rpc_call_unary_with(client, &pull_image_method, lease_id, &request->base,
                                   timeout_usec, done, userdata, ret);
}

int cri_list_containers(RpcClient *client, const CriContainerFilter *filter, RpcDone done,
                        void *userdata, RpcCall **ret) {
        Runtime__V1__ListContainersRequest request = RUNTIME__V1__LIST_CONTAINERS_REQUEST__INIT;

        request.filter = (CriContainerFilter *) filter;
        return rpc_call_unary(client, &list_containers_method, &request.base, CRI_TIMEOUT_USEC,
                              done, userdata, ret);
}

int cri_container_status(RpcClient *client, const char *id, bool is_verbose, RpcDone done,
                         void *userdata, RpcCall **ret) {
        Runtime__V1__ContainerStatusRequest request = RUNTIME__V1__CONTAINER_STATUS_REQUEST__INIT;

        request.container_id = (char *) id;
        request.verbose = is_verbose;
        return rpc_call_unary(client, &container_status_method, &request.base, CRI_TIMEOUT_USEC,
                              done, userdata, ret);
}

int cri_sandbox_status(RpcClient *client, const char *id, RpcDone done, void *userdata,
                       RpcCall **ret) {
        Runtime__V1__PodSandboxStatusRequest request =
                RUNTIME__V1__POD_SANDBOX_STATUS_REQUEST__INIT;

        request.pod_sandbox_id = (char *) id;
        return rpc_call_unary(client, &sandbox_status_method, &request.base, CRI_TIMEOUT_USEC, done,
                              userdata, ret);
}

int cri_stop_container(RpcClient *client, const char *id, int64_t grace_sec, RpcDone done,
                       void *userdata, RpcCall **ret) {
        Runtime__V1__StopContainerRequest request = RUNTIME__V1__STOP_CONTAINER_REQUEST__INIT;

        request.container_id = (char *) id;
        request.timeout = grace_sec;
        return rpc_call_unary(client, &stop_container_method, &request.base,
                              (uint64_t) grace_sec * USEC_PER_SEC + CRI_TIMEOUT_USEC, done,
                              userdata, ret);
}
