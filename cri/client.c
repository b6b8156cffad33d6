/* SPDX-License-Identifier: Apache-2.0 */

#include "cri/client.h"

#include <string.h>

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
};

const char *const cri_method_names[] = {
        "Version",      "ImageFsInfo", "ImageStatus", "ListImages", "PullImage",
        "ListStatuses", "List",        "Read",        NULL,
};

const char *cri_method_name(const RpcMethod *method) {
        return strrchr(method->path, '/') + 1;
}

int cri_version(RpcClient *client, uint64_t timeout_usec, RpcDone done, void *userdata,
                RpcCall **ret) {
        Runtime__V1__VersionRequest request = RUNTIME__V1__VERSION_REQUEST__INIT;

        return rpc_call_unary(client, &version_method, &request.base, timeout_usec, done, userdata,
                              ret);
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

int cri_pull_image(RpcClient *client, const CriPullRequest *request, uint64_t timeout_usec,
                   RpcDone done, void *userdata, RpcCall **ret) {

        return rpc_call_unary(client, &pull_image_method, &request->base, timeout_usec, done,
                              userdata, ret);
}
