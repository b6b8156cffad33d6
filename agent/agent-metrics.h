/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the parts do, as metrics
 *
 * The parts know nothing of metrics: they tell what happens through callbacks, which agent.c points
 * here. What is a state and no event is looked up when somebody scrapes.
 */

#include "agent/node/api.h"
#include "agent/observe/http.h"
#include "agent/observe/metrics.h"
#include "agent/pod/stops.h"

typedef struct AgentMetrics {
        Metrics *metrics;
        const DiagnosisSubject *subject;
        const Api *api;
        const struct AgentPods *pods;
        const char *reasons[_PULL_REASON_MAX + 1];
        uint64_t bytes_counted;
        unsigned connects_counted;
} AgentMetrics;

int agent_metrics_init(AgentMetrics *metrics, const DiagnosisSubject *subject);
void agent_metrics_done(AgentMetrics *metrics);

/* Callbacks of the parts; the userdata is the AgentMetrics. */
void agent_metrics_on_outcome(const ImageStatus *status, void *userdata);
void agent_metrics_on_cri_call(const RpcMethod *method, uint64_t duration_usec, ErrorKind result,
                               void *userdata);
void agent_metrics_on_request(const char *method, ErrorKind result, void *userdata);
void agent_metrics_on_refused(ListenerRefusal refusal, void *userdata);
void agent_metrics_on_written(int result, void *userdata);
void agent_metrics_on_api_call(const char *verb, int code, uint64_t duration_usec, void *userdata);
void agent_metrics_on_watch_restart(void *userdata);
void agent_metrics_on_reported(const Error *error, void *userdata);
void agent_metrics_on_stopped(const char *owner, StopResult result, uint64_t duration_usec,
                              void *userdata);
void agent_metrics_on_pod_written(const Error *error, void *userdata);
void agent_metrics_on_request_written(const Error *error, void *userdata);
void agent_metrics_on_recreated(bool is_success, void *userdata);
void agent_metrics_on_reload(AgentMetrics *metrics, bool is_ok);

/* An HttpHandler for /metrics. */
int agent_metrics_serve(HttpReply *reply, void *userdata);
