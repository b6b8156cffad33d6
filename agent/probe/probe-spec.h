/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A NodePodProbe (apps.kruise.io/v1alpha1): which probes its spec asks for, and what its status says
 *
 * A probe that cannot be run as it is written, such as one of another host than its pod, is refused
 * alone. Pure.
 */

#include <stddef.h>
#include <stdint.h>

#include "agent/pod/handler-spec.h"

#define PROBES_MAX 4096
#define PROBE_MESSAGE_MAX ((size_t) 1024) /* bytes */
/* bytes of all probes in JSON; an object has 1.5 MiB at most */
#define PROBE_MESSAGES_MAX ((size_t) 512 << 10)

typedef enum ProbeState {
        PROBE_UNKNOWN,
        PROBE_SUCCEEDED,
        PROBE_FAILED,
        _PROBE_STATE_MAX,
} ProbeState;

/* Texts are owned. */
typedef struct ProbeSpec {
        char *namespace;
        char *pod;
        char *uid;
        char *container;
        char *name;    /* "<PodProbeMarker>#<probe>"; unique with the uid */
        char *refusal; /* why it is not run; NULL: it is */
        HandlerSpec handler;
        unsigned initial_delay_sec, timeout_sec, period_sec; /* 1 or more */
        unsigned success_threshold, failure_threshold;       /* 1 or more */
} ProbeSpec;

typedef struct ProbeSpecs {
        ProbeSpec *items; /* by uid and name, each once */
        size_t n_items;
} ProbeSpecs;

#define PROBE_SPECS_INIT ((ProbeSpecs){ .items = NULL })

/* Of the whole object. Items that name no pod, container or probe, repeat another one, or are more than
 * PROBES_MAX are left out, and counted in *ret_n_refused. */
int probe_specs_read(struct json_object *node_pod_probe, ProbeSpecs *ret, size_t *ret_n_refused,
                     Error *reterr);
void probe_specs_done(ProbeSpecs *specs);
void probe_spec_done(ProbeSpec *spec);

/* What it runs and where; a change makes former results those of another probe. */
bool probe_spec_runs_the_same(const ProbeSpec *a, const ProbeSpec *b);

/* As strcmp() does. */
int probe_spec_compare(const ProbeSpec *spec, const char *uid, const char *name);

/* "exec", "httpGet", "tcpSocket", "grpc", or "none". */
const char *probe_kind_to_string(HandlerKind kind);
const char *probe_state_to_string(ProbeState state);

/* What is known about one probe. */
typedef struct ProbeResult {
        ProbeState state;
        char *message;     /* owned; PROBE_MESSAGE_MAX bytes of UTF-8 without control characters */
        int64_t probe_sec; /* since 1970: when the state or message was last confirmed */
        int64_t transition_sec; /* when the state began */
} ProbeResult;

/* Replaces a message by this one: bytes that are no UTF-8 and control characters are replaced, and it is cut
 * between two characters. */
int probe_result_set_message(ProbeResult *result, const char *text, size_t size);
void probe_result_done(ProbeResult *result);

/* The items of status.podProbeStatuses; borrowed from the object, NULL: none. */
struct json_object *probe_status_get(struct json_object *node_pod_probe);

/* What such a list says about a probe. 1 if it says something, else 0. */
int probe_status_find(struct json_object *list, const char *uid, const char *name,
                      ProbeResult *ret);

/* Results in the order of their specs; spec and result are borrowed. */
typedef struct ProbeReport {
        const ProbeSpec *spec;
        const ProbeResult *result; /* NULL: what the status says about it stays */
} ProbeReport;

typedef enum ProbeStatusChange {
        PROBE_STATUS_SAME,
        PROBE_STATUS_MESSAGES, /* other messages, or times of the last confirmation */
        PROBE_STATUS_STATES,
} ProbeStatusChange;

/* The list as it should be: one state for each probe with a result, and none of a probe that is not
 * asked for any more. Returns a ProbeStatusChange. The caller owns *ret. */
int probe_status_merge(struct json_object *list, const ProbeReport *reports, size_t n_reports,
                       struct json_object **ret);
