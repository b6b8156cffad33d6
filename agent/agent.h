/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes all parts of the agent in order, and frees them in reverse
 */

#include <systemd/sd-event.h>

#include "agent/options.h"

#define AGENT_LOCK_FILE "lock" /* in the state folder */

typedef struct Agent Agent;

/* The agent listens, and has tried all runtimes; maybe none is there. Runs once. */
typedef void (*AgentReady)(void *userdata);

/* The log and the options are borrowed; the options are copied where they are needed later. */
int agent_new(sd_event *event, Log *log, const Options *options, AgentReady on_ready,
              void *userdata, Agent **ret, Error *reterr);

/* Two agents with one journal would stop a container twice: refused while another process holds the lock of the state
 * folder. Of flags, O_CREAT makes its file. *ret_fd, which holds the lock from now on, is -1 if there is no lock. */
int agent_lock_folder(const char *folder, int flags, int *ret_fd, Error *reterr);

/* Ends all operations within a fraction of a second. Returns NULL. */
Agent *agent_free(Agent *agent);

/* Sets the doctor's source for the configuration on disk. */
void agent_set_configuration(Agent *agent, DiagnosisSource configuration);

/* Applies the options that can change at run time, reads folders again and retries sockets. */
int agent_reload(Agent *agent, const Options *options);

/* Counts a reload that could not begin. */
void agent_reload_failed(Agent *agent);
