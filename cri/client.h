/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The container runtime's own words (CRI v1): one short function per call
 *
 * What comes back and when is told in agent/rpc/client.h; the type of the reply is named here. The
 * protocol is runtime/v1/api.proto of Kubernetes' cri-api.
 */

#include "agent/rpc/client.h"
#include "cri/types.h"

/* For calls that a healthy runtime answers at once. */
#define CRI_TIMEOUT_USEC ((uint64_t) 10 * 1000000)

/* CriVersion */
int cri_version(RpcClient *client, uint64_t timeout_usec, RpcDone done, void *userdata,
                RpcCall **ret);

/* CriImageFsInfo */
int cri_image_fs_info(RpcClient *client, RpcDone done, void *userdata, RpcCall **ret);

/* CriImageStatus, whose image is NULL if the runtime does not hold the reference. */
int cri_image_status(RpcClient *client, const char *reference, RpcDone done, void *userdata,
                     RpcCall **ret);

/* CriImageList */
int cri_list_images(RpcClient *client, RpcDone done, void *userdata, RpcCall **ret);

/* CriPullReply. Unreferencing the call makes the runtime give up the pull. */
int cri_pull_image(RpcClient *client, const CriPullRequest *request, uint64_t timeout_usec,
                   RpcDone done, void *userdata, RpcCall **ret);

/* The short name of a call, "PullImage", for metrics and messages. */
const char *cri_method_name(const RpcMethod *method);

/* The names of all calls that this client makes, ended by NULL. */
extern const char *const cri_method_names[];
