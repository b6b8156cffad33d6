/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds out whether a kubelet runs that would start a container again
 *
 * The kubelet is alive if the address of its health server (127.0.0.1:10248 by default) accepts
 * connections, which the agent tries from its start on. If it never has accepted one, or none for a
 * minute, the kubelet may serve its health elsewhere or not at all, perhaps since its configuration was
 * changed; then its Lease decides, if there is an API server. The kubelet renews the Lease every 10 s, and
 * it expires after 40 s.
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
        const char *address;   /* "127.0.0.1:10248", "[::1]:10248"; "": the Lease alone. Copied */
        KubeClient *client;    /* client that reads the Lease; NULL: there is no API server */
        const char *node_name; /* name of the Lease; copied */
} KubeletOptions;

/* Fails if the address cannot be parsed. */
int kubelet_new(const KubeletOptions *options, Kubelet **ret, Error *reterr);
Kubelet *kubelet_free(Kubelet *kubelet);

/* why: one line if it is away ("nothing answers on 127.0.0.1:10248"), else NULL; borrowed. Runs
 * once, not from within kubelet_ask(). */
typedef int (*KubeletAnswered)(KubeletState state, const char *why, void *userdata);

/* Reuses an answer of the last half second. Answers within 2 s. The caller owns *ret; all questions
 * end before the kubelet is freed. */
int kubelet_ask(Kubelet *kubelet, KubeletAnswered on_answered, void *userdata,
                KubeletQuestion **ret);
KubeletQuestion *kubelet_question_free(KubeletQuestion *question);
