/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The context that all restart requests share
 *
 * The peers, the clocks, the version of the kind, the runtimes by name, and which rights the API server
 * has refused. Each file of this folder uses only those before it:
 *
 *   recreate-room        the room for the requests of a watch
 *   recreate-context     this one
 *   recreate-containers  the containers that a request names
 *   recreate-request     one request, from when it is first shown until it is gone
 *   recreate-controller  what OpenKruise's controller does, where there is none
 *   recreate             all requests: watches them, and gives each its turn
 *
 * Every event calls recreate_reconcile(): in the next turn of the loop, the agent compares each request
 * with the runtime and the pod as they are then.
 */

#include "agent/base/loop.h"
#include "agent/kube/resource.h"
#include "agent/pod/context.h"
#include "agent/recreate/recreate-repeats.h"
#include "agent/recreate/recreate-room.h"
#include "agent/recreate/recreate-spec.h"

typedef struct Recreate Recreate;
typedef struct RecreateRequest RecreateRequest;
typedef struct RecreateUnassigned RecreateUnassigned;

/* The two watches: requests for this node, and requests that no controller has prepared. */
typedef enum RecreateSelection {
        RECREATE_OURS,
        RECREATE_UNASSIGNED,
        _RECREATE_SELECTION_MAX,
} RecreateSelection;

/* The rights that the API server checks. */
typedef enum RecreateRight {
        RECREATE_RIGHT_GET,
        RECREATE_RIGHT_PATCH,
        RECREATE_RIGHT_PATCH_STATUS,
        RECREATE_RIGHT_DELETE,
        RECREATE_RIGHT_GET_POD,
        RECREATE_RIGHT_PATCH_POD, /* patch the pod's status */
        _RECREATE_RIGHT_MAX,
} RecreateRight;

struct Recreate {
        const PodContext *context;
        PodsWatcher watcher;
        Deferred reconcile;
        KubeResource *resource;
        const char *version; /* version that the agent serves; NULL: none, or unknown; borrowed */
        RecreateDialect dialect;
        Error refusals[_RECREATE_RIGHT_MAX]; /* reason why each is missing or useless, or unset */
        RecreateRepeats repeats;

        RecreateRequest **requests;
        size_t n_requests;
        bool has_found_remnants;

        RecreateUnassigned *unassigned;
        RecreateRoom rooms[_RECREATE_SELECTION_MAX];
        bool is_overfull
                [_RECREATE_SELECTION_MAX]; /* requests without room were dropped; list again */

        char **schemes; /* names of all runtimes since the start */
        size_t n_schemes;
};

uint64_t recreate_now_usec(const Recreate *recreate);
/* Microseconds since 1970, by the server's clock, which times in objects use; by this node's if
 * that is unknown. */
int64_t recreate_server_usec(const Recreate *recreate);

/* Reconciles all requests in the next turn of the loop. */
int recreate_reconcile(Recreate *recreate);

/* Notes that a request was dropped for lack of room, and logs that once. */
void recreate_note_overfull(Recreate *recreate, RecreateSelection selection);

/* Remembers the names of the present runtimes. */
int recreate_note_runtimes(Recreate *recreate);
/* Finds the ready runtime of this name ("": the chosen one), or NULL. *ret_may_come: it is known,
 * or a runtime that is not ready may be it. */
Runtime *recreate_find_runtime(const Recreate *recreate, const char *scheme, bool *ret_may_come);

/* Notes the outcome of a write; error NULL: success. what: the request; is_first: the write before
 * this one succeeded. */
void recreate_note_written(Recreate *recreate, RecreateRight right, const char *what, bool is_first,
                           const Error *error);
/* Notes that a read before a write succeeded. */
void recreate_note_read(Recreate *recreate, RecreateRight right);
/* Returns why a right is missing; NULL: none is. */
const Error *recreate_missing_right(const Recreate *recreate);
