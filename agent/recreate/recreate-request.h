/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One request, from when it is seen until it is gone
 *
 * Whatever happens only makes it look again: at the request itself, at the runtime, at the pod.
 * What it believes of its status is what the watch has shown last or what it has written itself
 * since, whichever is newer. recreate-request-believe.c takes what the watch shows,
 * recreate-request-facts.c asks the runtime, recreate-request-stop.c stops,
 * recreate-request-write.c writes, recreate-manage.c does what a controller would, recreate-gate.c
 * with the pod's readiness.
 */

#include "agent/pod/runtime-pod.h"
#include "agent/recreate/recreate-internal.h"
#include "agent/recreate/recreate-plan.h"

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

typedef enum RequestWrite {
        REQUEST_WRITE_STATUS,
        REQUEST_WRITE_DRAIN,
        REQUEST_WRITE_UNLABEL,
        REQUEST_WRITE_DELETE,
        REQUEST_WRITE_GATE,
        _REQUEST_WRITE_MAX,
} RequestWrite;

struct RecreateRequest {
        Recreate *recreate;
        RecreateSpec *spec;         /* with the status as it is known to be */
        struct json_object *object; /* of the spec, if the agent is its controller */
        RecreateStatus wanted;
        RequestContainer *containers; /* as in the spec */
        size_t n_containers;
        uint64_t first_usec; /* when it was first seen */
        bool is_gone;        /* from the watch */
        bool is_unseen;      /* since the watch began anew */
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

        RpcCall *list;
        bool is_stale; /* the runtime has to be asked */
        unsigned n_list_failures;
        uint64_t list_rest_usec;

        Stop *stop;
        char *stop_name;
        char *stop_id;
        char stop_scheme[RECREATE_SCHEME_SIZE];
        RpcCall *check;      /* whether the stop is still asked for */
        uint64_t check_usec; /* that has to be found out, but not before; 0: it has not */
        unsigned n_check_failures;
        bool owes_report; /* the status does not yet say what a stop led to */

        KubeCall *call;
        RequestWrite write;
        RecreateStatus sent; /* the last status, even after it was taken */
        bool is_phase_sent;
        bool is_missing; /* there is no such object any more */
        unsigned n_failures;
        uint64_t rest_usec;
        bool is_gate_closed;
        bool is_gate_opened;
        bool must_gate_close; /* what the call is about */
        bool is_unproven;     /* that it is gone, whose gate is closed */
};

/* spec and object are taken over, even on failure; object may be NULL. */
int recreate_request_new(Recreate *recreate, RecreateSpec *spec, struct json_object *object,
                         RecreateRequest **ret);
/* Takes NULL. What has begun goes on in the stops. Returns NULL. */
RecreateRequest *recreate_request_free(RecreateRequest *request);

/* The watch shows it, once more. Both are taken over, even on failure. */
int recreate_request_show(RecreateRequest *request, RecreateSpec *spec, struct json_object *object);
void recreate_request_show_gone(RecreateRequest *request);

/* The newest that there is; both are taken over, and may be what it has already. */
int recreate_request_believe(RecreateRequest *request, RecreateSpec *spec,
                             struct json_object *object);
/* Believes an older one after all, if nothing newer has come for long. */
int recreate_request_look_at_doubted(RecreateRequest *request);
void recreate_request_drop_containers(RecreateRequest *request);

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
/* The same one in the runtime, by the runtime's own labels. */
const RuntimePod *recreate_request_find_running(const RecreateRequest *request,
                                                const RuntimePods *running);
/* As the runtime calls that pod; NULL: nobody knows. */
const char *recreate_request_runtime_uid(const RecreateRequest *request);
RequestContainer *recreate_request_find(RecreateRequest *request, const char *name);

/* What is known now; the caller frees the list. */
int recreate_request_make_facts(RecreateRequest *request, RecreateFact **ret);
/* Asks the runtime, unless that is under way or has to wait. */
int recreate_request_ask(RecreateRequest *request, RpcClient *client);

int recreate_request_stop(RecreateRequest *request, size_t index, const char *scheme);
/* Answers a stop that asks, if that is due. */
int recreate_request_check(RecreateRequest *request);
/* Drops a stop that has not begun. */
void recreate_request_drop_stop(RecreateRequest *request);

/* Writes what differs, if nothing is being written. */
int recreate_request_write_status(RecreateRequest *request);

/* What a controller decides; and what it does, if nothing is being written. */
int recreate_request_manage(RecreateRequest *request, bool has_turn);
int recreate_request_do_chore(RecreateRequest *request, bool has_turn);
/* Makes the pod unready, or ready again as far as this request is concerned. */
int recreate_request_set_gate(RecreateRequest *request, bool is_closed);
/* Its pod is, or may be, unready because of it, and somebody has to end that. */
bool recreate_request_owes_gate(const RecreateRequest *request);

/* Sends one of the writes to the object itself. The answer comes to
 * recreate_request_on_written(). */
int recreate_request_send(RecreateRequest *request, RequestWrite write, struct json_object *body);
/* When something may be written that another writer may have changed back: ever more slowly. */
uint64_t recreate_request_repeat_usec(const RecreateRequest *request, RequestWrite write);
/* To be waited for before the next write; counted. */
void recreate_request_rest(RecreateRequest *request, const KubeReply *reply);
