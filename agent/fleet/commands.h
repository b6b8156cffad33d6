/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The commands that ask the API server
 *
 * Each returns an ExitStatus, or a negative errno for a local failure. The arguments are those after
 * the words of the command.
 */

#include "agent/fleet/flags.h"
#include "agent/fleet/session.h"

/* Shows what each pod should run, and runs. */
int fleet_status(Session *session, const Flags *flags);

/* Has images pulled on nodes, follows that, or takes it back. */
int fleet_preload(Session *session, const Flags *flags);

/* Shows which images are on which nodes. */
int fleet_images(Session *session, const Flags *flags);

/* Restarts containers in place, and waits for it. */
int fleet_restart(Session *session, const Flags *flags);

/* Says what the cluster lacks, and what to do. */
int fleet_doctor(Session *session, const Flags *flags);

/* Updates a workload and its pods in place, and goes on with an update that did not end. */
int fleet_set_image(Session *session, const Flags *flags);
int fleet_rollout(Session *session, const Flags *flags);
