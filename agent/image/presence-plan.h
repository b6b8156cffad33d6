/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether the images that were pulled are still there
 *
 * Compares an image with a list of the runtime's images, and paces the pulls of an image that is removed
 * again and again: probably by the kubelet's garbage collector, which removes images as long as the disk is
 * full. Pulling the image at once each time would fill the disk again. Pure: no clock, no I/O.
 */

#include <stdbool.h>
#include <stdint.h>

#include "agent/image/image-status.h"

/* An image that stayed this long was not removed "again". */
#define PRESENCE_STAYED_USEC ((uint64_t) 6 * 3600 * 1000000)

/* Whether the list contradicts the status, so that the agent has to ask for this image: runtimes
 * spell names differently. listed_id: ID under our reference, NULL: not listed. */
bool presence_is_suspect(const ImageStatus *status, const char *listed_id);

/* Counts one more removal of an image after n_removals earlier ones; stayed_usec: its time
 * between. */
unsigned presence_n_removals(unsigned n_removals, uint64_t stayed_usec);

/* Returns the pause before the next pull: about 5, 10, 20 seconds ... an hour. */
uint64_t presence_pause_usec(unsigned n_removals, uint32_t random);

/* Returns the time until the next list without an event. */
uint64_t presence_interval_usec(bool has_events);

/* Returns the delay of a list after an event, from the time since the last list. */
uint64_t presence_delay_usec(uint64_t since_list_usec);

/* Returns "removed 3 times by something else than inplaced, ...". NULL: no memory. */
char *presence_describe(unsigned n_removals, bool is_pulled_again);
