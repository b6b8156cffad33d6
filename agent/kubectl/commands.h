/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The commands that ask the API server
 *
 * Each returns an ExitStatus, or a negative errno for a local failure. The arguments are those after
 * the words of the command.
 */

#include "agent/kubectl/flags.h"
#include "agent/kubectl/session.h"

/* Shows what each pod should run, and runs. */
int kubectl_status(Session *session, const Flags *flags);

/* Has images pulled on nodes, follows that, or takes it back; with --set and --sets, writes and lists image sets. */
int kubectl_preload(Session *session, const Flags *flags);

/* Shows which images are on which nodes. */
int kubectl_images(Session *session, const Flags *flags);

/* Shows pulls that run on nodes, as their agents see them. */
int kubectl_pulls(Session *session, const Flags *flags);

/* Restarts containers in place, and waits for it. */
int kubectl_restart(Session *session, const Flags *flags);

/* Says what the cluster lacks, and what to do. */
int kubectl_doctor(Session *session, const Flags *flags);

/* Updates a workload and its pods in place, and goes on with an update that did not end. */
int kubectl_set_image(Session *session, const Flags *flags);
/* Resolves the tags of a workload again, and updates it in place to what they are now. */
int kubectl_refresh(Session *session, const Flags *flags);
int kubectl_rollout(Session *session, const Flags *flags);

/* The program that the controller runs for each update: does what kubectl_rollout() does, and prints {"outcome", "reason"}.
 * Outcomes are those of -o json, "impossible" where only the workload's own controller can do it, and "failed". */
int kubectl_carry_out(Session *session, const Flags *flags);

/* Restarts pods of a workload, unless they have been restarted since a time in seconds, and prints {"outcome", "reason"}. The
 * arguments are workload, time and names of pods. Ends with its parent. */
int kubectl_restart_pods(Session *session, const Flags *flags);
/* Carries out the updates in place that workloads declare, until it is ended. */
int kubectl_controller(Session *session, const Flags *flags);
