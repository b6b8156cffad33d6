/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The inside of recreate.h
 *
 * recreate.c holds all requests and gives each its turn; recreate-parts.c knows the API server and
 * shows what it has; recreate-peers.c listens to pods and runtimes; recreate-adopt.c takes requests
 * that nobody has prepared; recreate-request.h is the life of one.
 */

#include "agent/kube/discovery.h"
#include "agent/kube/report.h"
#include "agent/kube/watch.h"
#include "agent/recreate/recreate-repeats.h"
#include "agent/recreate/recreate-spec.h"
#include "agent/recreate/recreate.h"

#define RECREATE_REQUESTS_MAX 4096

typedef struct RecreateRequest RecreateRequest;
typedef struct RecreateOrphan RecreateOrphan;

/* What the server is asked to let us do. */
typedef enum RecreateRight {
        RECREATE_RIGHT_GET,
        RECREATE_RIGHT_PATCH,
        RECREATE_RIGHT_PATCH_STATUS,
        RECREATE_RIGHT_DELETE,
        RECREATE_RIGHT_GET_POD,
        RECREATE_RIGHT_PATCH_POD, /* its status */
        _RECREATE_RIGHT_MAX,
} RecreateRight;

/* Of the requests for this node, or of those that nobody has prepared. */
typedef struct RecreateWatch {
        Recreate *recreate;
        KubeWatch *watch;
} RecreateWatch;

struct Recreate {
        sd_event *event;
        Log *log;
        KubeClient *client;
        Pods *pods;
        Runtimes *runtimes;
        Stops *stops;
        char *node_name;
        void (*on_restart)(void *userdata);
        void (*on_written)(const Error *error, void *userdata);
        void (*on_completed)(bool is_success, void *userdata);
        void (*on_changed)(void *userdata);
        void *userdata;

        PodsWatcher watcher;
        sd_event_source *look; /* once per turn of the loop */

        KubeDiscovery *discovery;
        sd_event_source *rediscover;
        unsigned n_failures; /* of the discovery, or of listing what it has found */
        Error absence;       /* why the version is not known, or unset */
        KubeReport report;
        char *version; /* and then there are the watches */
        RecreateDialect dialect;
        RecreateWatch ours;
        RecreateWatch orphaned;
        Error refusals[_RECREATE_RIGHT_MAX]; /* what was said of each, or unset */

        RecreateRequest **requests;
        size_t n_requests;
        size_t n_allocated;
        bool is_overfull; /* some requests had no place; they are listed again when there is */
        bool has_found_remnants;
        RecreateRepeats repeats;
        RecreateOrphan *orphans;
        size_t n_orphans;
        bool are_orphans_overfull; /* some had no place, as above */

        char **schemes; /* of all runtimes that were ever here */
        size_t n_schemes;
};

static inline void recreate_tell(Recreate *recreate) {
        recreate->on_changed(recreate->userdata);
}

uint64_t recreate_now_usec(const Recreate *recreate);
/* By the clock of this node, since 1970. */
int64_t recreate_wall_usec(void);
/* By the server's, by which the times in objects are; by this node's if it has never told. */
int64_t recreate_server_usec(const Recreate *recreate);

/* Something may be to do for some request. */
int recreate_look(Recreate *recreate);

/* Shows a request that is, or was, for this node. */
int recreate_show(Recreate *recreate, const KubeObject *object);
int recreate_show_gone(Recreate *recreate, const KubeObject *object);
/* All are about to be shown again, and those that were not are gone then. */
void recreate_unmark_all(Recreate *recreate);
int recreate_lose_unmarked(Recreate *recreate);
/* None of them can be seen any more. */
int recreate_lose_all(Recreate *recreate);

/* Makes place for one more; both are taken over, even on failure. *ret is NULL if there is no place. */
int recreate_add(Recreate *recreate, RecreateSpec *spec, struct json_object *object,
                 RecreateRequest **ret);
/* Once all pods and requests are known: finds the pods that are kept unready by requests that were
 * deleted while no agent was there. */
int recreate_find_remnants(Recreate *recreate);
/* All requests are known. */
bool recreate_is_synced(const Recreate *recreate);

/* Finds out which version is served, and watches. */
int recreate_discover(Recreate *recreate);
/* Lets go of all that needs a served version. */
void recreate_drop_parts(Recreate *recreate);
/* Lists the requests of this node anew. */
int recreate_list_again(Recreate *recreate);
/* Lists those that nobody has prepared anew. */
int recreate_list_orphans_again(Recreate *recreate);

/* Listens to what becomes of the pods. */
void recreate_watch_pods(Recreate *recreate);

/* The runtime of this name ("": the chosen one) that is ready, or NULL. *ret_may_come: it is known,
 * or may be one of those that are not ready. */
Runtime *recreate_find_runtime(const Recreate *recreate, const char *scheme, bool *ret_may_come);
/* Remembers who is there. */
int recreate_note_runtimes(Recreate *recreate);

/* A request without a node. Whatever is wrong with it, it is in nobody's way. */
int recreate_orphan_show(Recreate *recreate, const KubeObject *object);
int recreate_orphan_gone(Recreate *recreate, const char *uid);
/* A pod is there now. */
int recreate_orphans_look(Recreate *recreate, const Pod *pod);
int recreate_orphans_kick(Recreate *recreate);
/* If there were too many, and there is room now. Not from within a watch. */
int recreate_orphans_list_those_without_place(Recreate *recreate);
void recreate_orphans_drop(Recreate *recreate);

/* Why a write was refused; NULL: it was taken. what: the request that it is about, for which so
 * many in a row have failed before. */
void recreate_note_written(Recreate *recreate, RecreateRight right, const char *what,
                           unsigned n_failures, const KubeReply *reply, const Error *error);
/* What is needed for a write has been read. */
void recreate_note_read(Recreate *recreate, RecreateRight right);
