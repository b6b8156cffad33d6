/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What all restart requests share
 *
 * The peers, the clocks, the version of the kind, the runtimes by name, and what the API server said of
 * each right. Each file of this folder uses only those that stand before it:
 *
 *   recreate-context     this one
 *   recreate-containers  what is known of the containers that a request names
 *   recreate-request     one request, from when it is first shown until it is gone
 *   recreate-controller  what OpenKruise's controller does, where there is none
 *   recreate             all requests: watches them, and gives each its turn
 *
 * Whatever happens leads to recreate_reconcile(): in the next turn of the loop, each request is compared
 * with the runtime and the pod as they are then.
 */

#include "agent/base/loop.h"
#include "agent/kube/resource.h"
#include "agent/pod/context.h"
#include "agent/recreate/recreate-repeats.h"
#include "agent/recreate/recreate-spec.h"

#define RECREATE_REQUESTS_MAX 4096

typedef struct Recreate Recreate;
typedef struct RecreateRequest RecreateRequest;
typedef struct RecreateUnassigned RecreateUnassigned;

/* What is watched: the requests for this node, and those that no controller has prepared. */
typedef enum RecreateSelection {
        RECREATE_OURS,
        RECREATE_UNASSIGNED,
        _RECREATE_SELECTION_MAX,
} RecreateSelection;

/* What the server is asked for permission to do. */
typedef enum RecreateRight {
        RECREATE_RIGHT_GET,
        RECREATE_RIGHT_PATCH,
        RECREATE_RIGHT_PATCH_STATUS,
        RECREATE_RIGHT_DELETE,
        RECREATE_RIGHT_GET_POD,
        RECREATE_RIGHT_PATCH_POD, /* its status */
        _RECREATE_RIGHT_MAX,
} RecreateRight;

struct Recreate {
        const PodContext *context;
        PodsWatcher watcher;
        Deferred reconcile;
        KubeResource *resource;
        const char *version; /* that is served; NULL: none, or not known; borrowed */
        RecreateDialect dialect;
        Error refusals[_RECREATE_RIGHT_MAX]; /* why each is missing or of no use, or unset */
        RecreateRepeats repeats;

        RecreateRequest **requests;
        size_t n_requests;
        size_t n_allocated;
        bool has_found_remnants;

        RecreateUnassigned *unassigned;
        size_t n_unassigned;
        bool is_overfull[_RECREATE_SELECTION_MAX]; /* some had no place; they are listed again when
                                                      there is */

        char **schemes; /* of all runtimes that were ever here */
        size_t n_schemes;
};

uint64_t recreate_now_usec(const Recreate *recreate);
/* By the clock of this node, since 1970. */
int64_t recreate_wall_usec(void);
/* By the server's, by which the times in objects are; by this node's if the server's is not known. */
int64_t recreate_server_usec(const Recreate *recreate);

/* Reconciles all requests in the next turn of the loop. */
int recreate_reconcile(Recreate *recreate);

/* There is no place for one more, which is logged once. */
void recreate_note_overfull(Recreate *recreate, RecreateSelection selection);

/* Remembers the names of the runtimes that are there. */
int recreate_note_runtimes(Recreate *recreate);
/* The runtime of this name ("": the chosen one) that is ready, or NULL. *ret_may_come: it is known,
 * or may be one of those that are not ready. */
Runtime *recreate_find_runtime(const Recreate *recreate, const char *scheme, bool *ret_may_come);

/* Why a write was refused; NULL: it was taken. what: the request that it is about; is_first: the
 * write before this one was taken. */
void recreate_note_written(Recreate *recreate, RecreateRight right, const char *what, bool is_first,
                           const Error *error);
/* What is needed for a write has been read. */
void recreate_note_read(Recreate *recreate, RecreateRight right);
/* Why a right is missing; NULL: none is. */
const Error *recreate_missing_right(const Recreate *recreate);
