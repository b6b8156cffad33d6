/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether there is a kubelet that would start a container again
 *
 * It is alive if connections are accepted where the kubelet serves its health (127.0.0.1:10248 by
 * default), which is tried from the start on. Where none ever was, the kubelet may serve it elsewhere
 * or not at all, and its Lease, if there is an API server to ask, decides: it is renewed every 10 s,
 * and worth nothing after 40 s.
 */

#include <systemd/sd-event.h>

#include "agent/kube/client.h"

typedef struct Kubelet Kubelet;
typedef struct KubeletQuestion KubeletQuestion;

typedef enum KubeletState {
        KUBELET_UNKNOWN,
        KUBELET_ALIVE,
        KUBELET_AWAY,
        _KUBELET_STATE_MAX,
} KubeletState;

typedef struct KubeletOptions {
        sd_event *event;
        const char *address;   /* "127.0.0.1:10248", "[::1]:10248"; "": do not ask. Copied */
        KubeClient *client;    /* for the Lease; NULL: there is no API server */
        const char *node_name; /* of the Lease; copied */
} KubeletOptions;

/* Refuses what is no address. */
int kubelet_new(const KubeletOptions *options, Kubelet **ret, Error *reterr);
Kubelet *kubelet_free(Kubelet *kubelet);

/* why: one line if it is away ("nothing answers on 127.0.0.1:10248"), else NULL; borrowed. Runs
 * once, not from within kubelet_ask(). */
typedef int (*KubeletAnswered)(KubeletState state, const char *why, void *userdata);

/* An answer of the last half second is good enough. Answers within 2 s. The caller owns *ret; all
 * questions end before the kubelet is freed. */
int kubelet_ask(Kubelet *kubelet, KubeletAnswered on_answered, void *userdata,
                KubeletQuestion **ret);
KubeletQuestion *kubelet_question_free(KubeletQuestion *question);
