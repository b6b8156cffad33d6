/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The local API (proto/inplaced/v1/node.proto) on a Unix socket
 */

#include "agent/api/diagnosis.h"
#include "agent/cluster/pod-waits.h"
#include "agent/image/pins.h"
#include "agent/inplace/inplace.h"
#include "agent/observe/metrics.h"
#include "agent/pod/pods.h"
#include "agent/pod/stops.h"
#include "agent/probe/probes.h"
#include "agent/rpc/listener.h"

typedef struct Api Api;

typedef struct ApiOptions {
        CompletionQueue *completions;
        Log *log;
        Metrics *metrics; /* may be NULL */
        Images *images;
        const Runtimes *runtimes;
        const DiagnosisSubject *subject;
        const Pins *pins;
        Stops *stops;
        Pods *pods;                /* NULL: there is no API server */
        const PodWaits *pod_waits; /* NULL: there is no API server */
        const InPlace *meta;       /* NULL: there is no API server */
        const Probes *probes;  /* NULL: there is no API server; borrowed, as all pointers above */
        const char *node_name; /* copied */
        ListenerOptions listener;
        gid_t restart_group; /* group that may restart, beside root; (gid_t) -1: root alone */
        const char *restart_group_name; /* copied; NULL: there is none */
        StateFile *state_file;          /* keeps requests that outlive their callers */
        /* A call was answered, or the memory of a connection was freed. */
        void (*on_changed)(void *userdata);
        void *userdata;
} ApiOptions;

/* The names of all methods, ended by NULL. */
extern const char *const api_method_names[];

int api_new(const ApiOptions *options, Api **ret, Error *reterr);

/* Ends all calls. Accepted requests go on, and stops that have begun. Returns NULL. */
Api *api_free(Api *api);

/* A runtime came or went. */
int api_runtime_changed(Api *api);

/* Sets the gauges. */
void api_measure(const Api *api);
