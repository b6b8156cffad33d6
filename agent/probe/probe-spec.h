/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The spec and the status of a NodePodProbe (apps.kruise.io/v1alpha1)
 *
 * A probe that the agent cannot run as written, such as one of another host than its pod, is refused
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
        char *refusal; /* why the agent does not run it; NULL: it does */
        HandlerSpec handler;
        int64_t initial_delay_sec, timeout_sec, period_sec; /* 1 or more */
        int64_t success_threshold, failure_threshold;       /* 1 or more */
} ProbeSpec;

typedef struct ProbeSpecs {
        ProbeSpec *items; /* by uid and name, each once */
        size_t n_items;
} ProbeSpecs;

#define PROBE_SPECS_INIT ((ProbeSpecs){ .items = NULL })

/* Reads the whole object. Leaves out items without a pod, container or probe, duplicates and those
 * beyond PROBES_MAX, and counts them in *ret_n_refused. */
int probe_specs_read(struct json_object *node_pod_probe, ProbeSpecs *ret, size_t *ret_n_refused,
                     Error *reterr);
void probe_specs_done(ProbeSpecs *specs);
void probe_spec_done(ProbeSpec *spec);

/* Both have the same handler and target; otherwise earlier results belong to another probe. */
bool probe_spec_runs_the_same(const ProbeSpec *a, const ProbeSpec *b);

/* As strcmp() does. */
int probe_spec_compare(const ProbeSpec *spec, const char *uid, const char *name);

/* "exec", "httpGet", "tcpSocket", "grpc", or "none". */
const char *probe_kind_to_string(HandlerKind kind);

/* The result of a probe. */
typedef struct ProbeResult {
        ProbeState state;
        char *message;     /* owned; PROBE_MESSAGE_MAX bytes of UTF-8 without control characters */
        int64_t probe_sec; /* last confirmation of state and message, since 1970 */
        int64_t transition_sec; /* begin of the state */
} ProbeResult;

/* Sets the message: replaces invalid UTF-8 and control characters, and cuts between two
 * characters. */
int probe_result_set_message(ProbeResult *result, const char *text, size_t size);
void probe_result_done(ProbeResult *result);

/* The items of status.podProbeStatuses; borrowed from the object, NULL: none. */
struct json_object *probe_status_get(struct json_object *node_pod_probe);

/* Finds a probe's result in such a list. Returns 1, or 0 if there is none. */
int probe_status_find(struct json_object *list, const char *uid, const char *name,
                      ProbeResult *ret);

/* Results in the order of their specs; spec and result are borrowed. */
typedef struct ProbeReport {
        const ProbeSpec *spec;
        const ProbeResult *result; /* NULL: keep the state in the list */
} ProbeReport;

typedef enum ProbeStatusChange {
        PROBE_STATUS_SAME,
        PROBE_STATUS_MESSAGES, /* only messages or times of the last confirmation differ */
        PROBE_STATUS_STATES,
} ProbeStatusChange;

/* Makes the new list: one state for each probe with a result, none for probes that are no longer
 * requested. Returns a ProbeStatusChange. The caller owns *ret, which stays as it was without a change. */
int probe_status_merge(struct json_object *list, const ProbeReport *reports, size_t n_reports,
                       struct json_object **ret);
