/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One restart request, from when it is first shown until it is gone
 *
 * What is known of its status is what the watch has shown last or what the agent has written itself
 * since, whichever is newer. A request is over when it is completed, deleted or gone; it is dropped
 * once no stop, no write and no unready pod depends on it any more.
 */

#include "agent/kube/patch.h"
#include "agent/recreate/recreate-containers.h"
#include "agent/recreate/recreate-context.h"
#include "agent/recreate/recreate-plan.h"

/* What the API server is asked; one at a time. */
typedef enum RequestCall {
        REQUEST_CALL_STATUS,
        REQUEST_CALL_DRAIN,
        REQUEST_CALL_UNLABEL,
        REQUEST_CALL_DELETE,
        REQUEST_CALL_PROVE, /* whether the request exists that keeps a pod unready */
        REQUEST_CALL_CLOSE_GATE,
        REQUEST_CALL_OPEN_GATE,
        _REQUEST_CALL_MAX,
} RequestCall;

/* Whether the request keeps its pod unready. */
typedef enum RequestGate {
        REQUEST_GATE_UNTOUCHED,
        REQUEST_GATE_FOUND_CLOSED, /* by a request that may be gone; see REQUEST_CALL_PROVE */
        REQUEST_GATE_CLOSED,       /* or as good as: it could not be */
        REQUEST_GATE_OPENED,       /* again */
        _REQUEST_GATE_MAX,
} RequestGate;

/* The listing of its pod's containers in the runtime. */
typedef struct RequestList {
        RuntimePodsCall *call; /* NULL: none is under way */
        bool is_due;
        unsigned n_failures;
        uint64_t rest_usec; /* not before */
} RequestList;

/* The stop that goes on for it, and the question whether that is still wanted. */
typedef struct RequestStop {
        Stop *stop; /* NULL: none */
        char *name; /* of the container */
        char *id;
        char scheme[RECREATE_SCHEME_SIZE];
        RuntimePodsCall *check;
        uint64_t check_usec; /* the question is open, and asked then; 0: it is not */
        unsigned n_check_failures;
} RequestStop;

/* Since when the pod is out of service, by the monotonic clock. */
typedef struct RequestDrain {
        uint64_t undrained_usec; /* when it was last seen in service; 0: never */
        uint64_t drained_usec;   /* when it was first seen out of it; 0: it is not */
        uint64_t done_usec;      /* how much of the time was over then */
} RequestDrain;

/* An object that the watch has shown, older than what the agent has written. */
typedef struct RequestStale {
        RecreateSpec *spec; /* NULL: none */
        struct json_object *object;
        uint64_t since_usec;
} RequestStale;

struct RecreateRequest {
        Recreate *recreate;
        RecreateSpec *spec;         /* with the status as it is known to be */
        struct json_object *object; /* of the spec, if the agent is its controller */
        RecreateStatus wanted;
        RequestContainers containers;
        uint64_t first_usec; /* when it was first shown */
        RequestStale stale;
        bool is_gone;    /* from the watch */
        bool is_missing; /* there is no such object any more */
        bool is_end_logged;
        bool is_problem_logged;

        Timer timer;
        uint64_t due_usec; /* of the timer, while the request is reconciled */

        RequestDrain drain;
        RequestGate gate;
        RequestList list;
        RequestStop stop;
        bool owes_report; /* the status does not yet say what a stop led to */

        KubePatch write;
        RequestCall call;    /* what is under way, or was last */
        RecreateStatus sent; /* the last status, even after it was taken */
        bool is_phase_sent;
};

/* spec and object are taken over, even on failure; object may be NULL. */
int recreate_request_new(Recreate *recreate, RecreateSpec *spec, struct json_object *object,
                         RecreateRequest **ret);
/* Takes NULL. What has begun goes on in the stops. Returns NULL. */
RecreateRequest *recreate_request_free(RecreateRequest *request);

/* The watch shows it, once more. Both are taken over, even on failure. */
int recreate_request_show(RecreateRequest *request, RecreateSpec *spec, struct json_object *object);
void recreate_request_show_gone(RecreateRequest *request);
/* The runtimes are others now, or answer again. */
void recreate_request_runtime_changed(RecreateRequest *request);

/* Once in a turn of the loop, in this order: what the controller decides comes between the first two,
 * and what it does after the second. has_turn: it is the one of its pod that is served. */
int recreate_request_begin(RecreateRequest *request);
int recreate_request_serve(RecreateRequest *request, bool has_turn);
int recreate_request_end(RecreateRequest *request);

/* Nothing is to be done for it any more: neither stopped, nor decided. */
bool recreate_request_is_over(const RecreateRequest *request);
/* A stop has begun that no other request of the pod may disturb. */
bool recreate_request_is_stopping(const RecreateRequest *request);
/* It is gone, and nothing of it is left to be done or written. */
bool recreate_request_is_done(const RecreateRequest *request);

/* It is reconciled again no later than so. */
void recreate_request_wait(RecreateRequest *request, uint64_t usec);

/* Decides that it is over, unless it is so already. */
int recreate_request_complete(RecreateRequest *request, const char *message);

/* The pod that it is about: of its namespace, of the name in its spec, and of the UID in its label,
 * which any client may have written that may make requests. NULL: there is none, or none is known. */
const Pod *recreate_request_pod(const RecreateRequest *request);

/* Sends one of the writes to the object itself; body is NULL for its deletion. */
int recreate_request_send(RecreateRequest *request, RequestCall call, struct json_object *body);
/* When something may be written that another writer may have changed back: ever more slowly. */
uint64_t recreate_request_repeat_usec(const RecreateRequest *request, RequestCall call);
