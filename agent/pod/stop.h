/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The life of one stop, from the queue to its end
 *
 * A part of stops.h: stops.c keeps the queue of all of them.
 */

#include "agent/base/list.h"
#include "agent/pod/hook.h"
#include "agent/pod/runtime-pods.h"
#include "agent/pod/stop-journal.h"
#include "agent/pod/stop-plan.h"
#include "agent/pod/stops.h"
#include "agent/rpc/client.h"

struct Stops {
        sd_event *event;
        Log *log;
        Runtimes *runtimes;
        Kubelet *kubelet;
        KubeEvents *events;
        StopJournal *journal;
        bool is_journal_broken; /* and that has been said */
        void (*on_stopped)(const char *owner, StopResult result, uint64_t duration_usec,
                           void *userdata);
        void *userdata;

        Stop *first, *last; /* in the order in which they were added */
        size_t n_stops;
        size_t n_fresh; /* of those with a slot */
};

struct Stop {
        LIST_LINKS(Stop);
        Stops *stops;

        /* The options. */
        char *runtime;
        char *container_id;
        char *owner;
        char *cause;
        char *pod_address;
        int64_t grace_sec;
        bool needs_kubelet;
        bool is_init;
        int (*on_check)(Stop *stop, void *userdata);
        int (*on_step)(Stop *stop, StopStep step, const char *message, void *userdata);
        int (*on_done)(const StopReport *report, void *userdata);
        void *userdata;

        StopState state;
        bool has_slot;
        bool has_begun;    /* the hook or the stop */
        bool is_overtaken; /* by another one of the container, that has begun since the look */
        bool is_resumed;   /* it has begun before this run of the agent, and nobody waits for it */
        bool is_accepted;  /* the runtime has said that it has stopped it */
        unsigned n_refusals, n_silences; /* in a row */

        /* What the look has shown; texts are NULL where there is nothing. */
        char *sandbox_id;
        char *container;
        char *pod;
        char *namespace;
        char *uid;
        char *address; /* of the pod */
        HandlerSpec hook_spec;
        char *hook_trouble; /* why there is none that could be run */
        int64_t look_grace_sec;

        int64_t began_nsec; /* since 1970; by the node's clock, as the runtime's times are */
        uint64_t began_usec;
        uint64_t deadline_usec; /* of the grace period; both monotonic */

        /* What is pending. */
        StopEvent next_event; /* of the turn */
        sd_event_source *turn;
        sd_event_source *timer;
        sd_event_source *settling; /* until its slot is free */
        RuntimePodsCall *listing;
        RpcCall *call;
        KubeletQuestion *question;
        Hook *hook;

        /* What is told. */
        char *message;
        char *hook_message;
        StopResult result;
        StopStep told_step;
        char *told_message;
        bool is_check_told;
        bool is_wait_told; /* to everybody: that it waits for a kubelet */
};

/* Carries out what the event leads to. The caller must not touch the stop any more. */
int stop_handle(Stop *stop, StopEvent event);

/* The same, but when the loop goes on. */
int stop_handle_later(Stop *stop, StopEvent event);

/* Lets go of all that it owns. The stop is on no list. */
void stop_destroy(Stop *stop);

/* Why it waits or has failed. */
int stop_copy_message(Stop *stop, const char *text);

/* Of its runtime; NULL while that is away. */
RpcClient *stop_client(const Stop *stop);

/* What a run of the agent that has been killed had begun, goes on with what is left of its time. */
void stop_resume(Stop *stop, const StopRecord *record);

/* The rest is in stops.c. */

/* Another stop of the same container is past the point of no return. */
bool stops_has_begun_other(const Stop *stop);
/* This one is: what the others have seen of the container is old. */
void stops_overtake_others(const Stop *stop);

/* Gives its slot to somebody else. */
int stops_release(Stop *stop);

/* Takes it off the list, and out of the queue. */
int stops_remove(Stop *stop);
int stops_pump(Stops *stops);
