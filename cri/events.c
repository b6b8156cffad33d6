/* SPDX-License-Identifier: Apache-2.0 */

#include "cri/events.h"

#include "proto/containerd/services/events/v1/events.pb-c.h"

static const RpcMethod subscribe_method = {
        .path = "/containerd.services.events.v1.Events/Subscribe",
        .reply = &containerd__services__events__v1__envelope__descriptor,
};

int events_watch_removed_images(RpcClient *client, RpcMessage on_removed, RpcDone done,
                                void *userdata, RpcCall **ret) {
        Containerd__Services__Events__V1__SubscribeRequest request =
                CONTAINERD__SERVICES__EVENTS__V1__SUBSCRIBE_REQUEST__INIT;
        char *filters[] = { "topic==\"/images/delete\",namespace==k8s.io" };

        request.filters = filters;
        request.n_filters = 1;
        return rpc_call_stream(client, &subscribe_method, &request.base, RPC_NO_TIMEOUT, on_removed,
                               done, userdata, ret);
}
