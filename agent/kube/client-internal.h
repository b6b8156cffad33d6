/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the files of client.h share
 */

#include <stdbool.h>

#include "agent/base/list.h"
#include "agent/kube/client.h"
#include "agent/kube/http.h"
#include "agent/kube/server-clock.h"

struct KubeClient {
        sd_event *event;
        KubeAccess *access;
        KubeCalled on_called;
        KubeReachable on_reachable;
        void *userdata;

        char *target;
        HttpPeer *peer;          /* for what is sent from now on; NULL: to be made */
        unsigned generation;     /* of the credentials that the peer has */
        unsigned n_refused;      /* tokens, so far */
        sd_event_source *sender; /* sends what waits, one call in each turn of the loop */

        KubeCall *calls; /* that have not ended; the newest first */
        size_t n_sent;   /* of them */

        Error trouble;
        bool is_reachable;
        bool is_unauthorized; /* its last answer was 401 */
        uint64_t heard_usec;  /* when anything came from the server */
        ServerClock clock;
};

typedef enum KubeCallState {
        KUBE_CALL_WAITING, /* for its turn, or for credentials */
        KUBE_CALL_SENT,
        KUBE_CALL_ENDED,
        _KUBE_CALL_STATE_MAX,
} KubeCallState;

struct KubeCall {
        LIST_LINKS(KubeCall);
        KubeClient *client;
        KubeCallState state;
        KubeRequest request; /* its texts are ours, but for what follows */
        unsigned n_pins;     /* callbacks that run, and may drop the call */
        bool is_dropped;
        bool is_second;   /* it has been refused with 401 once */
        bool is_told;     /* on_called was called for this exchange */
        bool is_too_long; /* the body */
        int failure;      /* a local one, inside of curl, which does not pass it on */

        HttpTransfer *transfer;
        const HttpPeer *peer; /* borrowed from the transfer */
        sd_event_source *timer;
        uint64_t deadline_usec;
        uint64_t sent_usec;
        uint64_t heard_usec; /* when it was sent, and each time something came */
        unsigned n_refused;  /* what the client's was when it was sent */
        int code;            /* 0: the answer has not begun */

        char *body;
        size_t body_size;
        size_t body_room;
};

uint64_t kube_client_now(const KubeClient *client);

/* Lets the sender look whether something can be sent. */
int kube_client_kick(KubeClient *client);

/* The server answers, or does not. May call on_reachable, in which any call may be dropped. */
void kube_client_note_answer(KubeClient *client);
/* A status that is no 401 means that the server knows who we are. */
void kube_client_note_code(KubeClient *client, int code);
void kube_client_note_trouble(KubeClient *client, const Error *error);

/* Whoever is sent from now on gets another connection. */
void kube_client_retire_peer(KubeClient *client);

/* Sets its timer for what comes first: its deadline, or the end of a silence. */
int kube_call_arm(KubeCall *call);

int kube_call_send(KubeCall *call, const KubeCredentials *credentials);

/* Ends it with a reply or without (code 0). The call may be gone afterwards. */
int kube_call_finish(KubeCall *call, const KubeReply *reply, const Error *error);

/* Takes it from the client: nothing happens to it any more. */
void kube_call_detach(KubeCall *call);
