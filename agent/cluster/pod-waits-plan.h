/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How long pulls pause for pods
 *
 * The kubelet pulls the images of a pod one after the other, so a pause outlasts the last wait for a
 * moment. And it ends after a limit, whatever pods wait, so that images arrive on a node where pods always
 * wait. Pure: the caller asks again while there is a pause or a pod waits.
 */

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/time-units.h"

#define POD_WAITS_LINGER_USEC USEC_PER_SEC

/* Time for pulls after a pause that reached the limit. */
#define POD_WAITS_FREE_USEC (120 * USEC_PER_SEC)

/* All zero at first. */
typedef struct PodPause {
        bool is_on;
        uint64_t since_usec;
        uint64_t waited_usec; /* time at which a pod last waited */
        uint64_t free_usec;   /* no pause begins before this time */
} PodPause;

/* Begins or ends the pause. limit_usec 0: no pause. Returns true if the limit has ended it. */
bool pod_waits_plan_step(PodPause *pause, bool has_waits, uint64_t limit_usec, uint64_t now_usec);
