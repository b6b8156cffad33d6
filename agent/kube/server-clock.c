/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/server-clock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/rfc3339.h"

#define DATE_SIZE (sizeof("Tue, 15 Nov 1994 08:12:31 GMT") - 1)

int server_clock_parse(const char *text, int64_t *ret_sec) {
        static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
        char line[DATE_SIZE + 1], month[4], time[9], made[RFC3339_SIZE];
        const char *found;
        int day, year, end = 0;

        (void) snprintf(line, sizeof(line), "%s", text);
        if (sscanf(line, "%*3[A-Za-z], %2d %3[A-Za-z] %4d %8[0-9:] GMT%n", &day, month, &year, time,
                   &end) != 4 ||
            (size_t) end != DATE_SIZE || strlen(month) != 3)
                return -EINVAL;
        if (text[DATE_SIZE] && text[DATE_SIZE] != '\r' && text[DATE_SIZE] != '\n')
                return -EINVAL;

        found = strstr(months, month);
        if (!found || (found - months) % 3 != 0 || day < 1 || year < 1970)
                return -EINVAL;
        if (snprintf(made, sizeof(made), "%04d-%02d-%02dT%sZ", year, (int) (found - months) / 3 + 1,
                     day, time) != sizeof(made) - 1)
                return -EINVAL;

        return rfc3339_parse(made, ret_sec);
}

void server_clock_note(ServerClock *clock, int64_t server_sec, uint64_t now_usec) {
        int64_t offset_usec = server_sec * 1000000 - (int64_t) now_usec;

        if (clock->is_known && offset_usec <= clock->offset_usec &&
            offset_usec > clock->offset_usec - SERVER_CLOCK_BACK_USEC)
                return;

        *clock = (ServerClock){ .is_known = true, .offset_usec = offset_usec };
}

int64_t server_clock_usec(const ServerClock *clock, uint64_t now_usec) {
        return clock->offset_usec + (int64_t) now_usec;
}
