/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * containerd's content store
 *
 * CRI reports nothing about a pull before it ends. containerd serves its content store on the same
 * socket (containerd.services.content.v1), where a download can be seen growing. Runtimes without
 * it answer ERROR_UNSUPPORTED. Everything that CRI pulls is in containerd's namespace "k8s.io".
 */

#include "agent/rpc/client.h"
#include "cri/types.h"

/* ContentIngests: what is being downloaded now. */
int content_list_ingests(RpcClient *client, RpcDone done, void *userdata, RpcCall **ret);

/* A stream of ContentList: blobs that are complete and match one of the filters (containerd's
 * filter syntax, as in "digest==sha256:..."). */
int content_list(RpcClient *client, const char *const *filters, size_t n_filters,
                 RpcMessage on_list, RpcDone done, void *userdata, RpcCall **ret);

/* A stream of ContentPart: the bytes of a blob. */
int content_read(RpcClient *client, const char *digest, RpcMessage on_part, RpcDone done,
                 void *userdata, RpcCall **ret);
