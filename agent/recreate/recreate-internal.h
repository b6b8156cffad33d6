/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The inside of recreate.h
 *
 * recreate.c holds all requests, watches, and gives each request its turn; recreate-request.c is the
 * life of one, from when it is seen until it is gone, and recreate-request-write.c writes it;
 * recreate-manage.c does what a controller would, where there is none: it prepares requests, makes
 * their pods unready and ready, and ends them.
 *
 * Whatever happens only makes a request look again: at itself, at the runtime, at the pod. What it
 * believes of its status is what the watch has shown last or what it has written itself since,
 * whichever is newer.
 */

#include "agent/kube/patch.h"
#include "agent/kube/resource.h"
#include "agent/pod/runtime-pods.h"
#include "agent/recreate/recreate-plan.h"
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

struct Recreate {
        sd_event *event;
        Log *log;
        Metrics *metrics;
        KubeClient *client;
        Pods *pods;
        Runtimes *runtimes;
        Stops *stops;
        char *node_name;
        void (*on_changed)(void *userdata);
        void *userdata;

        PodsWatcher watcher;
        sd_event_source *look; /* once per turn of the loop */

        KubeResource *resource;
        const char *version; /* that is served; NULL: none, or not known; borrowed */
        RecreateDialect dialect;
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

/* What is known of one of its containers. */
typedef struct RequestContainer {
        char *name;
        char *id; /* of the newest in the runtime; NULL: there is none */
        bool is_running;
        bool is_exited;
        bool was_killed;
        int64_t restart_count;
        int64_t created_at_nsec; /* since 1970 */
        uint64_t seen_usec;      /* when this one was first seen running */
        char *ended_id;          /* of one that a stop has ended, or found ended */
        uint64_t rest_usec;      /* not to be stopped before */
} RequestContainer;

/* What the server is being asked. */
typedef enum RequestCall {
        REQUEST_CALL_STATUS,
        REQUEST_CALL_DRAIN,
        REQUEST_CALL_UNLABEL,
        REQUEST_CALL_DELETE,
        REQUEST_CALL_GATE,
        _REQUEST_CALL_MAX,
} RequestCall;

struct RecreateRequest {
        Recreate *recreate;
        RecreateSpec *spec;         /* with the status as it is known to be */
        struct json_object *object; /* of the spec, if the agent is its controller */
        RecreateStatus wanted;
        RequestContainer *containers; /* as in the spec */
        size_t n_containers;
        uint64_t first_usec; /* when it was first seen */
        bool is_gone;        /* from the watch */
        bool is_ended;       /* its end was told */
        bool is_problem_told;
        sd_event_source *timer;
        uint64_t due_usec; /* of the timer, while it is looked at */

        RecreateSpec *doubted; /* an older object than what we have written, or NULL */
        struct json_object *doubted_object;
        uint64_t doubted_usec; /* since then */

        uint64_t undrained_usec;  /* when it was last seen so; 0: never */
        uint64_t drained_usec;    /* when it was first seen so; 0: it is not */
        uint64_t drain_done_usec; /* how much of the time was over then */

        RuntimePodsCall *list;
        bool is_stale; /* the runtime has to be asked */
        unsigned n_list_failures;
        uint64_t list_rest_usec;

        Stop *stop;
        char *stop_name;
        char *stop_id;
        char stop_scheme[RECREATE_SCHEME_SIZE];
        RuntimePodsCall *check; /* whether the stop is still asked for */
        uint64_t check_usec;    /* that has to be found out, but not before; 0: it has not */
        unsigned n_check_failures;
        bool owes_report; /* the status does not yet say what a stop led to */

        KubePatch write;
        unsigned n_conflicts; /* in a row, without a newer object */
        RequestCall call;     /* what is under way */
        RecreateStatus sent;  /* the last status, even after it was taken */
        bool is_phase_sent;
        bool is_missing; /* there is no such object any more */
        bool is_gate_closed;
        bool is_gate_opened;
        bool must_gate_close; /* what the call is about */
        bool is_unproven;     /* that it is gone, whose gate is closed */
};

uint64_t recreate_now_usec(const Recreate *recreate);
/* By the clock of this node, since 1970. */
int64_t recreate_wall_usec(void);
/* By the server's, by which the times in objects are; by this node's if it has never told. */
int64_t recreate_server_usec(const Recreate *recreate);

/* Something may be to do for some request. */
int recreate_look(Recreate *recreate);

/* Makes place for one more; both are taken over, even on failure. *ret is NULL if there is no place. */
int recreate_add(Recreate *recreate, RecreateSpec *spec, struct json_object *object,
                 RecreateRequest **ret);
/* Once all pods and requests are known: finds the pods that are kept unready by requests that were
 * deleted while no agent was there. */
int recreate_find_remnants(Recreate *recreate);
/* All requests are known. */
bool recreate_is_synced(const Recreate *recreate);

/* Asks the server for the object of a request, whatever the watch has shown. */
int recreate_check(Recreate *recreate, const RecreateSpec *spec);

/* Lists those that no controller has prepared anew. */
int recreate_list_orphans_again(Recreate *recreate);

/* The runtime of this name ("": the chosen one) that is ready, or NULL. *ret_may_come: it is known,
 * or may be one of those that are not ready. */
Runtime *recreate_find_runtime(const Recreate *recreate, const char *scheme, bool *ret_may_come);

/* A request without a node. Whatever is wrong with it, it is in nobody's way. */
int recreate_orphan_show(Recreate *recreate, const KubeObject *object);
int recreate_orphan_gone(Recreate *recreate, const char *uid);
/* A pod is there now. */
int recreate_orphans_look(Recreate *recreate, const Pod *pod);
int recreate_orphans_kick(Recreate *recreate);
/* If there were too many, and there is room now. Not from within a watch. */
int recreate_orphans_list_those_without_place(Recreate *recreate);
void recreate_orphans_drop(Recreate *recreate);

/* Why a write was refused; NULL: it was taken. what: the request that it is about; is_first: the
 * write before this one was taken. */
void recreate_note_written(Recreate *recreate, RecreateRight right, const char *what, bool is_first,
                           const Error *error);
/* What is needed for a write has been read. */
void recreate_note_read(Recreate *recreate, RecreateRight right);

/* spec and object are taken over, even on failure; object may be NULL. */
int recreate_request_new(Recreate *recreate, RecreateSpec *spec, struct json_object *object,
                         RecreateRequest **ret);
/* Takes NULL. What has begun goes on in the stops. Returns NULL. */
RecreateRequest *recreate_request_free(RecreateRequest *request);

/* The watch shows it, once more. Both are taken over, even on failure. */
int recreate_request_show(RecreateRequest *request, RecreateSpec *spec, struct json_object *object);
void recreate_request_show_gone(RecreateRequest *request);

/* Tells of its end, once. */
void recreate_request_note_end(RecreateRequest *request, bool is_by_us);

/* Does all that is due. has_turn: it is the one of its pod that is served. */
int recreate_request_look(RecreateRequest *request, bool has_turn);

/* Nothing is to be done for it any more: neither stopped, nor decided. */
bool recreate_request_is_over(const RecreateRequest *request);
/* A stop has begun that no other request of the pod may disturb. */
bool recreate_request_is_stopping(const RecreateRequest *request);
/* Nobody needs it any more. */
bool recreate_request_is_useless(const RecreateRequest *request);

/* Not to be waited for longer than so. */
void recreate_request_wait(RecreateRequest *request, uint64_t usec);

/* Decides that it is over, unless it is so already. */
int recreate_request_complete(RecreateRequest *request, const char *message);
/* Decides anew. */
int recreate_request_reconsider(RecreateRequest *request);

/* The pod that it is about: of its namespace, of the name in its spec, and of the UID in its label,
 * which anybody may have written who may make requests. NULL: there is none, or none is known. */
const Pod *recreate_request_pod(const RecreateRequest *request);

/* Writes what differs, if nothing is being written. */
int recreate_request_write_status(RecreateRequest *request);

/* What a controller decides; and what it does, if nothing is being written. */
int recreate_request_manage(RecreateRequest *request, bool has_turn);
int recreate_request_do_chore(RecreateRequest *request, bool has_turn);
/* Its pod is, or may be, unready because of it, and somebody has to end that. */
bool recreate_request_owes_gate(const RecreateRequest *request);

/* Sends one of the writes to the object itself; body is NULL for its deletion. */
int recreate_request_send(RecreateRequest *request, RequestCall call, struct json_object *body);
/* When something may be written that another writer may have changed back: ever more slowly. */
uint64_t recreate_request_repeat_usec(const RecreateRequest *request, RequestCall call);
