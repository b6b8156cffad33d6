/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * containerd's events of images
 *
 * CRI says nothing about an image that is removed. containerd serves its events on the same socket
 * (containerd.services.events.v1); runtimes without them answer ERROR_UNSUPPORTED. Each subscriber gets
 * each event. Events of containers are another matter: containerd before 2.0 gives each CRI container
 * event to one subscriber only, which would be missed by the kubelet. They are not subscribed to.
 */

#include "agent/rpc/client.h"

/* A stream of messages without content: the name of an image was removed, of whichever. It ends with
 * the connection. What was removed before it has begun is not reported. */
int events_watch_removed_images(RpcClient *client, RpcMessage on_removed, RpcDone done,
                                void *userdata, RpcCall **ret);
