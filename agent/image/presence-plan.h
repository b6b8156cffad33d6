/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether the images that were pulled are still there
 *
 * What a list of the runtime's images says about one of ours, and how to treat an image that something
 * removes again and again: probably the kubelet's garbage collector, which will do so as long as the disk
 * is full. Pulling it at once each time would fill the disk for the collector. Pure: no clock, no I/O.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/image/image-status.h"

/* An image that stayed this long was not removed "again". */
#define PRESENCE_STAYED_USEC ((uint64_t) 6 * 3600 * 1000000)

/* Whether the list (ID of the image under our reference, NULL: it is not listed) contradicts the status,
 * so that the runtime has to be asked about this one: names are not spelled alike by all runtimes. */
bool presence_is_suspect(const ImageStatus *status, const char *listed_id);

/* Counts one more removal of an image after n_removals earlier ones; stayed_usec: its time
 * between. */
unsigned presence_n_removals(unsigned n_removals, uint64_t stayed_usec);

/* How long to wait before it is pulled again: about 5, 10, 20 seconds ... an hour. */
uint64_t presence_pause_usec(unsigned n_removals, uint32_t random);

/* How long until all images are listed again, if nothing is reported before that. */
uint64_t presence_interval_usec(bool has_events);

/* When to list them for an event, in time since the last list. */
uint64_t presence_delay_usec(uint64_t since_list_usec);

/* Returns "removed 3 times by something else than inplaced, ...". NULL: no memory. */
char *presence_describe(unsigned n_removals, bool is_pulled_again);
