/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/announcer.h"

#include "agent/base/clock.h"
#include "agent/base/time-units.h"

#define REPEAT_USEC (30 * USEC_PER_SEC)

void announcer_begin(Announcer *announcer) {
        *announcer = (Announcer){ .since_usec = clock_monotonic_usec() };
}

int64_t announcer_still_sec(const Announcer *announcer) {
        return (int64_t) ((clock_monotonic_usec() - announcer->since_usec) / USEC_PER_SEC);
}

bool announcer_is_due(Announcer *announcer) {
        uint64_t now_usec = clock_monotonic_usec();

        if (now_usec - announcer->since_usec < ANNOUNCER_QUIET_SEC * USEC_PER_SEC ||
            (announcer->said_usec > 0 && now_usec - announcer->said_usec < REPEAT_USEC))
                return false;

        announcer->said_usec = now_usec;
        return true;
}
