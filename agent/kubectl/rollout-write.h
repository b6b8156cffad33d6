/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes of an update in place
 *
 * Sends each step of the plan once: a step that the server has taken and that is planned again would change nothing the
 * next time either. Before the update begins, the server checks the same requests as dry runs.
 */

#include <json-c/json_types.h>

#include "agent/kubectl/rollout-plan.h"
#include "agent/kubectl/rollout-watch.h"

typedef struct RolloutWriter {
        RolloutWatch *watch;
        RolloutLimits *limits; /* keeps_no_history is set when the server refuses to keep it */
        json_object *written;  /* {rollout_step_key(): true} of what the server has taken; owned */
} RolloutWriter;

int rollout_write(RolloutWriter *writer, const RolloutStep *step, json_object *record,
                  Error *reterr);
/* From now on each step may be sent once more: it is for other images. 0 or -ENOMEM. */
int rollout_write_forget(RolloutWriter *writer);
/* Sends a patch of the workload that is no step. */
int rollout_write_workload(const RolloutWriter *writer, json_object *patch, Error *reterr);
/* Has the server check the patch that takes the workload over, and the writes to come. */
int rollout_write_rehearse(const RolloutWriter *writer, json_object *take_over, json_object *record,
                           const Census *census, Error *reterr);
/* Returns the pods that this run has taken out of service, and that have not got the images yet, also after a signal or the
 * time-out: the update stays open, and nothing may come after this run for long. After its end, those of the workload that any
 * run has. */
int rollout_write_return(const RolloutWriter *writer, const Census *census, json_object *record,
                         Error *reterr);
/* Removes copies of an abandoned record: kubectl rollout undo would bring one back as an open record. A copy that the
 * server keeps is left. */
void rollout_write_clean(const RolloutWriter *writer);
