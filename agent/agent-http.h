/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is served over HTTP: /metrics, /healthz and /readyz
 */

#include "agent/agent-metrics.h"

typedef struct AgentHttp AgentHttp;

/* Not being seen is no reason not to work: an address that cannot be used is logged, and *ret is
 * NULL then, as it is for "". The metrics are borrowed. */
int agent_http_new(sd_event *event, Log *log, const char *address, AgentMetrics *metrics,
                   AgentHttp **ret);

/* Returns NULL. */
AgentHttp *agent_http_free(AgentHttp *http);
