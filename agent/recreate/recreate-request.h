/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A restart request, from when it is first shown until it is gone
 *
 * The known status is the last one from the watch or from the agent's own write, whichever is newer. A
 * request is over when it is completed, deleted or gone; the agent drops it once no stop, no write and
 * no unready pod depends on it.
 */

#include "agent/base/log-once.h"
#include "agent/kube/patch.h"
#include "agent/recreate/recreate-containers.h"
#include "agent/recreate/recreate-context.h"
#include "agent/recreate/recreate-plan.h"

/* Calls to the API server; one at a time. */
typedef enum RequestCall {
        REQUEST_CALL_STATUS,
        REQUEST_CALL_DRAIN,
        REQUEST_CALL_UNLABEL,
        REQUEST_CALL_DELETE,
        REQUEST_CALL_PROVE, /* checks that the request which keeps a pod unready exists */
        REQUEST_CALL_CLOSE_GATE,
        REQUEST_CALL_OPEN_GATE,
        _REQUEST_CALL_MAX,
} RequestCall;

/* Whether the request keeps its pod unready. */
typedef enum RequestGate {
        REQUEST_GATE_UNTOUCHED,
        REQUEST_GATE_FOUND_CLOSED, /* closed by a request that may be gone; see REQUEST_CALL_PROVE */
        REQUEST_GATE_CLOSED,       /* closed, or given up: it could not be closed */
        REQUEST_GATE_OPENED,       /* the pod is ready again */
        _REQUEST_GATE_MAX,
} RequestGate;

/* The list of the pod's containers in the runtime. */
typedef struct RequestList {
        RuntimePodsCall *call; /* NULL: none is pending */
        bool is_due;
        Retry retry;
} RequestList;

/* The pending stop, and the check whether it is still requested. */
typedef struct RequestStop {
        Stop *stop; /* NULL: none */
        char *name; /* name of the container */
        char *id;
        char scheme[RECREATE_SCHEME_SIZE];
        RuntimePodsCall *check;
} RequestStop;

/* Times of the pod's unready period, by the monotonic clock. */
typedef struct RequestDrain {
        uint64_t undrained_usec; /* time at which it was last seen ready; 0: never */
        uint64_t drained_usec;   /* time at which it was first seen unready; 0: it is ready */
        uint64_t done_usec;      /* part of the period that was over then */
} RequestDrain;

/* An object from the watch that is older than the agent's last write. */
typedef struct RequestStale {
        RecreateSpec *spec; /* NULL: none */
        uint64_t since_usec;
} RequestStale;

struct RecreateRequest {
        Recreate *recreate;
        RecreateSpec *spec; /* the spec, with the known status */
        size_t size;        /* bytes that count in the room of the watch */
        RecreateStatus wanted;
        RequestContainers containers;
        uint64_t first_usec; /* time at which the watch first showed it */
        RequestStale stale;
        bool is_gone;      /* the watch does not show it any more */
        bool is_missing;   /* the object does not exist any more */
        bool is_end_known; /* the end was logged and counted, or was there at first */
        LogOnce logged;    /* problem of the spec */

        Timer timer;
        uint64_t due_usec; /* time for the timer, while the request is reconciled */

        RequestDrain drain;
        RequestGate gate;
        char *gate_pod;           /* name of the pod that the gate is of; NULL: see the spec */
        unsigned n_gate_refusals; /* refusals in a row to close or open it */
        bool may_have_closed;     /* a patch that closes it had no answer, or a pod names it */
        RequestList list;
        RequestStop stop;
        Retry check_retry; /* pause before the stop is checked again */
        bool owes_report;  /* the status lacks the result of a stop */

        KubePatch write;
        RequestCall call;    /* pending call, or the last one */
        RecreateStatus sent; /* last status that was sent, even after its success */
        bool is_phase_sent;
};

/* Takes the spec over, even on failure. */
int recreate_request_new(Recreate *recreate, RecreateSpec *spec, RecreateRequest **ret);
/* Takes NULL. Stops that have begun go on. Returns NULL. */
RecreateRequest *recreate_request_free(RecreateRequest *request);

/* Takes the object that the watch shows. Takes the spec over, even on failure. */
int recreate_request_show(RecreateRequest *request, RecreateSpec *spec);
void recreate_request_show_gone(RecreateRequest *request);
/* A runtime came or went, or answers again. */
int recreate_request_runtime_changed(RecreateRequest *request);

/* Called once in a turn of the loop, in this order: the controller decides after the first and acts
 * after the second. has_turn: the agent serves this request of the pod. */
int recreate_request_begin(RecreateRequest *request);
int recreate_request_serve(RecreateRequest *request, bool has_turn);
int recreate_request_end(RecreateRequest *request);

/* The agent neither stops containers nor decides anything for it any more. */
bool recreate_request_is_over(const RecreateRequest *request);
/* A stop of this request has begun, so no other request of the pod may be served. */
bool recreate_request_is_stopping(const RecreateRequest *request);
/* The request is gone, and nothing is left to do or to write. */
bool recreate_request_is_done(const RecreateRequest *request);

/* Reconciles the request again after this time, at the latest. */
void recreate_request_wait(RecreateRequest *request, uint64_t usec);

/* Completes the request, unless it is over already. */
int recreate_request_complete(RecreateRequest *request, const char *message);

/* Finds the request's pod by namespace, by the name in the spec, and by the UID in the label, which
 * any client that may make requests can write. NULL: none, or unknown. */
const Pod *recreate_request_pod(const RecreateRequest *request);

/* Sends a write to the request's object; body is NULL for its deletion. */
int recreate_request_send(RecreateRequest *request, RequestCall call, struct json_object *body);
/* Returns the earliest time of a write that another writer may have reverted: ever later. */
uint64_t recreate_request_repeat_usec(const RecreateRequest *request, RequestCall call);
