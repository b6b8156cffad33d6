/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One probe of one container
 *
 * Runs its handler every period while the container runs, and counts equal results. A result that
 * reached its threshold is recorded once a listing that began after the probe had ended shows the
 * same container still running: what another container, or none, has answered never counts.
 */

#include "agent/base/log.h"
#include "agent/pod/handler.h"
#include "agent/pod/places.h"
#include "agent/pod/runtime-pods.h"
#include "agent/probe/probe-spec.h"

/* As kruise-daemon does it, so that a reader of the status knows that it is up to date. */
#define PROBE_REFRESH_SEC 600
/* So long is believed what was seen of a container. */
#define PROBE_UNSEEN_USEC ((uint64_t) 10 * 1000000)

typedef struct Probe Probe;

/* All is borrowed. */
typedef struct ProbeOptions {
        sd_event *event;
        HttpPeer *http; /* for any server */
        Places *places; /* NULL: there is no limit */
        Log *log;
        uint64_t first_delay_usec; /* for the first probe, in which many begin */

        /* Where it is to be probed: the runtime's client, which has the container, or NULL, and the
         * pod's address, or NULL. */
        RpcClient *(*find_client)(const Probe *probe, void *userdata);
        const char *(*find_address)(const Probe *probe, void *userdata);
        /* When its container began to run, in seconds since 1970; 0: not known. */
        int64_t (*find_started_sec)(const Probe *probe, void *userdata);
        /* A result waits for a listing that begins now or later. */
        int (*on_doubt)(bool has_new_state, void *userdata);
        /* Another result counts from now on; before is its former state. */
        int (*on_recorded)(const Probe *probe, ProbeState before, void *userdata);
        /* A handler has ended. */
        void (*on_run)(const Probe *probe, HandlerOutcome outcome, void *userdata);
        void *userdata;
} ProbeOptions;

/* spec is taken over, also on failure. known: what the object's status says about it, or NULL; then
 * taken over in the same way, and believed if it was written since the container was made. */
int probe_new(const ProbeOptions *options, ProbeSpec *spec, ProbeResult *known, Probe **ret);
Probe *probe_free(Probe *probe);

/* What changed is served at once; with another handler it is another probe, whose result is not known.
 * spec is taken over, also on failure. */
int probe_set_spec(Probe *probe, ProbeSpec *spec);
const ProbeSpec *probe_spec(const Probe *probe);

/* What a listing that began at this time of the monotonic clock shows: the newest container of that
 * name, NULL if there is none. tag: the owner's, for the runtime that has it. */
int probe_on_listed(Probe *probe, const RuntimeContainer *container, void *tag, uint64_t usec);
/* It could not be listed, and why. */
int probe_on_unlisted(Probe *probe, const char *why);

/* NULL: it was not seen yet, or is gone. */
const char *probe_container_id(const Probe *probe);
void *probe_tag(const Probe *probe);

/* NULL: nothing is known yet. */
const ProbeResult *probe_result(const Probe *probe);

/* For people. */
typedef struct ProbeActivity {
        uint64_t n_runs;
        uint64_t duration_usec; /* of the last one */
        const char *problem;    /* why it cannot be run now; NULL: it can. Borrowed */
} ProbeActivity;

ProbeActivity probe_activity(const Probe *probe);
