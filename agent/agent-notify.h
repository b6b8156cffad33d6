/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What systemctl status shows, some time after each change
 *
 * Also the moment to give memory back that a burst of work needed.
 */

#include "agent/image/images.h"

typedef struct AgentNotify AgentNotify;

/* Tells for the first time soon. Borrows everything. */
int agent_notify_new(sd_event *event, const Images *images, const Runtimes *runtimes,
                     AgentNotify **ret);
AgentNotify *agent_notify_free(AgentNotify *notify);

/* Something has changed; changes that come in quick succession are told together. Does nothing if
 * there is no notify yet. */
int agent_notify_later(AgentNotify *notify);
