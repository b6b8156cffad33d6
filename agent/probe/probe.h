/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A probe of a container
 *
 * Runs its handler every period while the container runs, and counts equal results. It records a result
 * that reached its threshold once a list that began after the probe's end shows the same container
 * still running, so that the answer of another container never counts.
 */

#include "agent/base/log.h"
#include "agent/pod/handler.h"
#include "agent/pod/places.h"
#include "agent/pod/runtime-pods.h"
#include "agent/probe/probe-spec.h"

/* Period of confirming a result in the status, as in kruise-daemon, so that readers know that it is
 * current. */
#define PROBE_REFRESH_SEC 600
/* Time after which a container that no list has shown counts as unknown. */
#define PROBE_UNSEEN_USEC ((uint64_t) 10 * 1000000)

typedef struct Probe Probe;

/* All is borrowed. */
typedef struct ProbeOptions {
        sd_event *event;
        HttpPeer *http; /* for any server */
        Places *places; /* NULL: there is no limit */
        Log *log;
        uint64_t first_delay_usec; /* delay of the first probe, to spread many that begin at once */

        /* Finds the target: the client of the container's runtime, or NULL, and the pod's address,
         * or NULL. */
        RpcClient *(*find_client)(const Probe *probe, void *userdata);
        const char *(*find_address)(const Probe *probe, void *userdata);
        /* Returns when the container began to run, in seconds since 1970; 0: unknown. */
        int64_t (*find_started_sec)(const Probe *probe, void *userdata);
        /* A new result counts once a list that begins later shows the same container. */
        int (*on_candidate)(bool has_new_state, void *userdata);
        /* A new result was recorded; before is the former state. */
        int (*on_recorded)(const Probe *probe, ProbeState before, void *userdata);
        /* A handler has ended. */
        void (*on_run)(const Probe *probe, HandlerOutcome outcome, void *userdata);
        void *userdata;
} ProbeOptions;

/* spec is taken over, also on failure. known: the result in the object's status, or NULL; taken
 * over in the same way, and used if it was written since the container was made. */
int probe_new(const ProbeOptions *options, ProbeSpec *spec, ProbeResult *known, Probe **ret);
Probe *probe_free(Probe *probe);

/* Applies the new spec at once. Another handler makes it another probe without a result. spec is
 * taken over, also on failure. */
int probe_set_spec(Probe *probe, ProbeSpec *spec);
const ProbeSpec *probe_spec(const Probe *probe);

/* Takes the newest container of that name from a list that began at this time of the monotonic
 * clock; NULL: none. tag: the owner's pointer for the container's runtime. */
int probe_on_listed(Probe *probe, const RuntimeContainer *container, void *tag, uint64_t usec);
/* The container could not be listed, for this reason. */
int probe_on_unlisted(Probe *probe, const char *why);

/* NULL: no list has shown the container yet, or it is gone. */
const char *probe_container_id(const Probe *probe);
void *probe_tag(const Probe *probe);

/* NULL: no result yet. */
const ProbeResult *probe_result(const Probe *probe);

/* Activity, for people. */
typedef struct ProbeActivity {
        uint64_t n_runs;
        uint64_t duration_usec; /* duration of the last run */
        const char *problem;    /* why the agent cannot run it now; NULL: it can. Borrowed */
} ProbeActivity;

ProbeActivity probe_activity(const Probe *probe);
