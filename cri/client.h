/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The container runtime's own words (CRI v1): one short function per call
 *
 * agent/rpc/client.h says what comes back and when; the type of the reply is named here. The
 * protocol is runtime/v1/api.proto of Kubernetes' cri-api.
 */

#include <stdbool.h>
#include <stdint.h>

#include "agent/rpc/client.h"
#include "cri/types.h"

/* Timeout of calls that a healthy runtime answers at once. */
#define CRI_TIMEOUT_USEC ((uint64_t) 10 * 1000000)

/* CriVersion. A runtime that needs longer than two seconds for it is unusable. */
int cri_version(RpcClient *client, RpcDone done, void *userdata, RpcCall **ret);

/* CriImageFsInfo */
int cri_image_fs_info(RpcClient *client, RpcDone done, void *userdata, RpcCall **ret);

/* CriImageStatus, whose image is NULL if the runtime does not hold the reference. */
int cri_image_status(RpcClient *client, const char *reference, RpcDone done, void *userdata,
                     RpcCall **ret);

/* CriImageList */
int cri_list_images(RpcClient *client, RpcDone done, void *userdata, RpcCall **ret);

/* CriPullReply. Unreferencing the call makes the runtime give up the pull. lease_id: see cri/containerd.h;
 * NULL: none. */
int cri_pull_image(RpcClient *client, const CriPullRequest *request, const char *lease_id,
                   uint64_t timeout_usec, RpcDone done, void *userdata, RpcCall **ret);

/* CriContainerList, in all states. filter may be NULL: all containers. */
int cri_list_containers(RpcClient *client, const CriContainerFilter *filter, RpcDone done,
                        void *userdata, RpcCall **ret);

/* CriContainerStatus; verbose fills its info. */
int cri_container_status(RpcClient *client, const char *id, bool is_verbose, RpcDone done,
                         void *userdata, RpcCall **ret);

/* CriSandboxStatus */
int cri_sandbox_status(RpcClient *client, const char *id, RpcDone done, void *userdata,
                       RpcCall **ret);

/* CriExec; agent/pod/exec.h makes this call. */
extern const RpcMethod cri_exec_sync;

/* The reply is empty. The runtime kills the container after grace_sec; the call ends some time
 * later at the latest. A container that does not run any more is a success. */
int cri_stop_container(RpcClient *client, const char *id, int64_t grace_sec, RpcDone done,
                       void *userdata, RpcCall **ret);

/* The short name of a call, "PullImage", for metrics and messages. */
const char *cri_method_name(const RpcMethod *method);

/* The names of all calls that this client makes, ended by NULL. */
extern const char *const cri_method_names[];
