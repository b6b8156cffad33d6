/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the parts do, as metrics
 *
 * Parts that use the API server or stop containers count for themselves, those that do not know of metrics report
 * through callbacks of agent.c, which counts here. What is a state and no event is read when the metrics
 * are scraped.
 */

#include "agent/api/api.h"
#include "agent/observe/http.h"
#include "agent/observe/metrics.h"
#include "agent/recreate/recreate.h"

typedef struct AgentMetrics {
        Metrics *metrics;
        const DiagnosisSubject *subject;
        const Api *api;
        const Stops *stops;
        const Pods *pods; /* these three are NULL if the node stands alone */
        const InPlace *meta;
        const Recreate *recreate;
        const char *reasons[_PULL_REASON_MAX + 1];
        uint64_t bytes_counted;
        unsigned connects_counted;
} AgentMetrics;

int agent_metrics_init(AgentMetrics *metrics, const DiagnosisSubject *subject);
void agent_metrics_done(AgentMetrics *metrics);

void agent_metrics_on_outcome(AgentMetrics *metrics, const ImageStatus *status);
void agent_metrics_on_cri_call(AgentMetrics *metrics, const RpcMethod *method,
                               uint64_t duration_usec, ErrorKind result);
void agent_metrics_on_request(AgentMetrics *metrics, const char *method, ErrorKind result);
void agent_metrics_on_refused(AgentMetrics *metrics, ListenerRefusal refusal);
void agent_metrics_on_written(AgentMetrics *metrics, int result);

/* An HttpHandler for /metrics. */
int agent_metrics_serve(HttpReply *reply, void *userdata);
