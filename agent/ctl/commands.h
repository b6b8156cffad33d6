/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The commands that stand in files of their own
 *
 * Each returns an ExitStatus, or a negative errno for a local failure.
 */

#include "agent/ctl/options.h"

/* Asks the agent for images and shows what becomes of them. SIGINT withdraws the request. An agent
 * that goes away meanwhile is connected to again and asked again. */
int command_pull(const Options *options);

/* Withdraws what is not finished of a request of this user, or all of these for an image. */
int command_cancel(const Options *options);

/* Has containers of a pod stopped, so that the kubelet starts them again, and shows what becomes of
 * each. SIGINT drops what has not begun. */
int command_restart(const Options *options);

/* Has images that failed tried again at once. */
int command_retry(const Options *options);

/* Shows which image each container runs, and which one it should. */
int command_verify(const Options *options);
int command_probes(const Options *options);

/* Shows this node as a NodeImage object: what is desired, what became of it, what is wrong. */
int command_status(const Options *options);

/* Waits until desired images are present, or have failed. */
int command_wait(const Options *options);

/* Lists every image that the runtime holds, and who asked for it. */
int command_images(const Options *options);

/* Shows what the agent found on this node, what is wrong with it and what to do. */
int command_doctor(const Options *options);
