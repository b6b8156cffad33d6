/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The local API, on the socket of the options
 */

#include "agent/agent-metrics.h"
#include "agent/agent-pods.h"
#include "agent/options.h"

/* Stays where it is. */
typedef struct AgentApi {
        AgentMetrics *metrics;
        void (*on_changed)(void *userdata); /* somebody came or went */
        void *userdata;

        Api *api;
} AgentApi;

/* The first three members are set before; of the options of the API those that are about the parts
 * of the agent, too. */
int agent_api_init(AgentApi *api, const ApiOptions *parts, const Options *options, Error *reterr);
void agent_api_done(AgentApi *api);
