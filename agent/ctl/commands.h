/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The commands with files of their own
 *
 * Each returns an ExitStatus, or a negative errno for a local failure.
 */

#include "agent/ctl/options.h"

/* Requests images from the agent and shows their progress. SIGINT withdraws the request. If the
 * agent goes away meanwhile, connects again and repeats the request. */
int command_pull(const Options *options);

/* Shows the pulls that run on this node, those of the kubelet, too. */
int command_pulls(const Options *options);

/* The same with a pin, and what takes the pin from requests of this user. */
int command_pin(const Options *options);
int command_unpin(const Options *options);

/* Withdraws the unfinished part of a request of this user, or of all of them for an image. */
int command_cancel(const Options *options);

/* Has the agent stop containers of a pod, so that the kubelet starts them again, and shows the
 * progress of each. SIGINT drops stops that have not begun. */
int command_restart(const Options *options);

/* Has the agent retry failed images at once. */
int command_retry(const Options *options);

/* Shows the image that each container runs, and the one that it should run. */
int command_verify(const Options *options);
int command_probes(const Options *options);

/* Shows this node as a NodeImage object: desired images, their status, and problems. */
int command_status(const Options *options);

/* Waits until desired images are present, or have failed. */
int command_wait(const Options *options);

/* Lists every image that the runtime holds, and who requests it. */
int command_images(const Options *options);

/* Shows the agent's findings on this node, the problems and advice. */
int command_doctor(const Options *options);
