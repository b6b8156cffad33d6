/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The pulls for which pods wait, for a command that shows pods once
 *
 * The agents of the pods' nodes are asked while the pods are still listed, and for two seconds afterwards. An agent that
 * may not be asked, or does not answer, is no failure.
 */

#include "agent/kubectl/agents.h"
#include "agent/kubectl/node-pulls.h"

typedef struct PodPulls PodPulls;

/* Both are borrowed. */
int pod_pulls_new(Session *session, const Flags *flags, PodPulls **ret);
/* Ends the questions. Takes NULL, returns NULL. */
PodPulls *pod_pulls_free(PodPulls *pulls);

/* Asks the agent once, and no more than NODE_PULLS_MAX. agent: NULL: there is none. */
int pod_pulls_ask(PodPulls *pulls, const NodeAgent *agent);

/* Waits for the answers. */
int pod_pulls_wait(PodPulls *pulls, Error *reterr);

/* The first pull that is for this pod; NULL: none is known. Borrowed. */
json_object *pod_pulls_find(const PodPulls *pulls, const char *namespace, const char *name);
