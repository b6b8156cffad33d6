/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Verifies that images that were pulled are still there
 *
 * Lists the runtime's images when the runtime is back, when containerd reports that an image was removed,
 * and once an hour; every minute with a runtime that sends no such events. Asks for each image whose
 * status the list contradicts, and then updates that status. images.c decides what happens to a missing
 * image.
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
