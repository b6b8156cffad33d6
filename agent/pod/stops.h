/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Stops containers gracefully
 *
 * A stop inspects its container, asks its owner whether it is still requested, runs the
 * container's preStop hook, has the runtime stop the container within the rest of the grace period,
 * and finds out whether this ended it. All stops run in parallel, but only a limited number begins at
 * once. A file records stops that have begun (stop-journal.h), so that after a crash of the agent no
 * hook runs twice, and the next run knows which containers were stopped and finishes open stops,
 * whether they are still requested or not.
 *
 * The agent starts nothing: only the kubelet starts containers.
 */

#include <stdbool.h>

#include "agent/base/log.h"
#include "agent/kube/event.h"
#include "agent/pod/kubelet.h"
#include "agent/pod/places.h"
#include "cri/runtimes.h"

typedef struct Stops Stops;
typedef struct Stop Stop;

#define STOP_GRACE_OF_POD ((int64_t) -1)

/* Progress for people. */
typedef enum StopStep {
        STOP_STEP_QUEUED,
        STOP_STEP_WAITING_FOR_RUNTIME,
        STOP_STEP_WAITING_FOR_KUBELET, /* waiting for a kubelet that would start it again */
        STOP_STEP_INSPECTING, /* asking for the container, and whether the stop is still requested */
        STOP_STEP_HOOK,
        STOP_STEP_STOPPING,
        STOP_STEP_ENDED,
        _STOP_STEP_MAX,
} StopStep;

typedef enum StopResult {
        STOP_STOPPED,       /* the stop ended it */
        STOP_GONE,          /* the container had ended before, or does not exist */
        STOP_NOT_REQUESTED, /* the owner did not confirm the stop */
        STOP_FAILED,        /* the runtime refused; the container may still run */
        _STOP_RESULT_MAX,
} StopResult;

/* Borrowed during the call. */
typedef struct StopReport {
        StopResult result;
        const char *message; /* why it failed or is no longer requested, in one line; or NULL */
        const char *hook_message; /* why the preStop hook failed; NULL: it did not */
} StopReport;

typedef struct StopOptions {
        const char *runtime; /* scheme of the container's ID, "containerd"; NULL: the chosen one */
        const char *container_id; /* ID from the runtime, without scheme; copied */
        const char *owner; /* "recreate/UID"; one stop for each container and owner; copied */
        const char *cause; /* "Stopping container app: its labels changed"; of the event and the
                                    * log; copied */
        const char *pod_address; /* address that hooks connect to; NULL: the sandbox's. Copied */
        int64_t grace_sec;       /* grace period in seconds, or STOP_GRACE_OF_POD */
        bool needs_kubelet; /* the stop waits while no kubelet would start the container again */
        bool is_init;       /* the container is an init container, which events say */

        /* Asks, right before anything is done to the container, whether the stop is still
         * requested. The owner calls stop_answer(), at once or later. NULL: it is. */
        int (*on_check)(Stop *stop, void *userdata);
        /* NULL: steps are not reported. */
        int (*on_step)(Stop *stop, StopStep step, const char *message, void *userdata);
        /* Once, and last; the stop is gone then. */
        int (*on_done)(const StopReport *report, void *userdata);
        void *userdata;
} StopOptions;

typedef struct StopsOptions {
        sd_event *event;
        Log *log;
        Metrics *metrics; /* may be NULL */
        Runtimes *runtimes;
        Kubelet *kubelet;      /* NULL: the agent assumes one */
        KubeEvents *events;    /* NULL: there is no API server */
        Places *places;        /* places for hooks; NULL: no limit */
        const char *state_dir; /* folder of the journal; copied */
} StopsOptions;

/* A journal that cannot be read is begun anew, and logged. What had begun goes on. */
int stops_new(const StopsOptions *options, Stops **ret);
/* Stops in the runtime go on; no callback runs any more. */
Stops *stops_free(Stops *stops);

/* on_done does not run from within. *ret is borrowed until on_done or stop_leave(). */
int stops_add(Stops *stops, const StopOptions *options, Stop **ret);

/* The answer to on_check. why_not: one line, for the report. */
int stop_answer(Stop *stop, bool is_asked, const char *why_not);

/* Ends the owner's interest: no callback runs any more. A stop that has begun continues, any
 * other is dropped. */
void stop_leave(Stop *stop);

StopStep stop_step(const Stop *stop);
/* Returns whether the hook or the stop has begun; then the stop cannot be taken back. */
bool stop_has_begun(const Stop *stop);

/* Returns whether this owner ended that container, in this run of the agent or a previous one,
 * and the container does not run any more. */
bool stops_has_stopped(const Stops *stops, const char *owner, const char *container_id);

/* Finds such an owner of that name, or of a name that continues with "/"; NULL: none. Borrowed
 * until the stops change. */
const char *stops_find_owner(const Stops *stops, const char *owner, const char *container_id);

/* Finds the ID of the container of that name which this owner ended last; NULL: none. Borrowed until the
 * stops change. */
const char *stops_find_stopped(const Stops *stops, const char *owner, const char *container);

/* Keeps the record that this owner has ended that container from being dropped after a week. From then
 * on it names the container new_id, which may be the same. Writes an unchanged one once a day at most. */
int stops_keep(Stops *stops, const char *owner, const char *container_id, const char *new_id);

/* Forgets that this owner has ended that container. */
int stops_forget(Stops *stops, const char *owner, const char *container_id);

/* A runtime came or went. */
int stops_runtime_changed(Stops *stops);

size_t stops_n_running(const Stops *stops);
