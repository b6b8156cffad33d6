/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agent: every part made once, in order, and taken down in reverse
 */

#include <systemd/sd-event.h>

#include "agent/options.h"

typedef struct Agent Agent;

/* Everything is listening, and it is known which runtimes are there, maybe none. Runs once. */
typedef void (*AgentReady)(void *userdata);

/* The log and the options are borrowed; the options are copied where they are needed later. */
int agent_new(sd_event *event, Log *log, const Options *options, AgentReady on_ready,
              void *userdata, Agent **ret, Error *reterr);

/* Ends everything that is under way within a fraction of a second. Returns NULL. */
Agent *agent_free(Agent *agent);

/* What the doctor says of the configuration on disk. */
void agent_set_configuration(Agent *agent, DiagnosisSource configuration);

/* Applies what can be changed while it runs, and reads folders and tries sockets again. */
int agent_reload(Agent *agent, const Options *options);

/* A reload that could not even begin. */
void agent_reload_failed(Agent *agent);
