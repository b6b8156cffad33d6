/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Verifies that images that were pulled are still there
 *
 * One list of the runtime's images for all of ours: when the runtime is back, when an event of containerd
 * says that an image was removed, and now and then; every minute where there are no such events. What the
 * list contradicts is asked for by itself, and then the status says what is there now. What happens to
 * an image that is missing is decided by images.c.
 */

#include "agent/image/images.h"

typedef struct Presence Presence;

/* All are borrowed, and have to outlive it. */
int presence_new(sd_event *event, const Runtimes *runtimes, Images *images, Presence **ret);
Presence *presence_free(Presence *presence);

/* The chosen runtime came or went. */
int presence_runtime_changed(Presence *presence);

/* Verifies all now, or as soon as the runtime is back. */
int presence_verify(Presence *presence);
