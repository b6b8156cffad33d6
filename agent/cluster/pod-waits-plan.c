/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/cluster/pod-waits-plan.h"

bool pod_waits_plan_step(PodPause *pause, bool has_waits, uint64_t limit_usec, uint64_t now_usec) {
        if (has_waits && !pause->is_on && limit_usec > 0 && now_usec >= pause->free_usec) {
                pause->is_on = true;
                pause->since_usec = now_usec;
        }
        if (has_waits)
                pause->waited_usec = now_usec;
        if (!pause->is_on)
                return false;

        if (now_usec - pause->since_usec >= limit_usec) {
                pause->is_on = false;
                pause->free_usec = now_usec + POD_WAITS_FREE_USEC;
                return true;
        }

        pause->is_on = now_usec - pause->waited_usec < POD_WAITS_LINGER_USEC;
        return false;
}
