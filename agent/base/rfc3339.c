/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/base/rfc3339.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define UNZONED_SIZE (sizeof("2026-01-31T23:59:59") - 1)

const char *rfc3339_format(int64_t time, char buffer[static RFC3339_SIZE]) {
        time_t seconds = time;
        char text[64];
        struct tm tm;

        if (!gmtime_r(&seconds, &tm) || tm.tm_year < 1 - 1900 || tm.tm_year > 9999 - 1900)
                return strcpy(buffer, "0001-01-01T00:00:00Z");

        (void) snprintf(text, sizeof(text), "%04d-%02d-%02dT%02d:%02d:%02dZ", tm.tm_year + 1900,
                        tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
        memcpy(buffer, text, RFC3339_SIZE - 1);
        buffer[RFC3339_SIZE - 1] = '\0';
        return buffer;
}

static bool has_shape(const char *text, const char *shape) {
        for (; *shape; text++, shape++)
                if (*shape == '0' ? !isdigit((unsigned char) *text) : *text != *shape)
                        return false;

        return true;
}

static bool parse_offset(const char *text, int64_t *ret_sec) {
        int hours, minutes;

        if (strcmp(text, "Z") == 0 || strcmp(text, "z") == 0) {
                *ret_sec = 0;
                return true;
        }
        if ((text[0] != '+' && text[0] != '-') || !has_shape(text + 1, "00:00") || text[6])
                return false;

        hours = atoi(text + 1);
        minutes = atoi(text + 4);
        *ret_sec = (text[0] == '-' ? -1 : 1) * (int64_t) (hours * 3600 + minutes * 60);
        return hours < 24 && minutes < 60;
}

static bool skip_fraction(const char **text) {
        size_t digits;

        if (**text != '.')
                return true;

        digits = strspn(*text + 1, "0123456789");
        *text += 1 + digits;
        return digits > 0;
}

int rfc3339_parse(const char *text, int64_t *ret) {
        char again[RFC3339_SIZE];
        const char *rest;
        struct tm tm = { 0 };
        int64_t offset, time;

        if (!has_shape(text, "0000-00-00T00:00:00"))
                return -EINVAL;

        (void) strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
        time = (int64_t) timegm(&tm);
        if (strncmp(rfc3339_format(time, again), text, UNZONED_SIZE) != 0)
                return -EINVAL; /* a day that no month has, and the like */

        rest = text + UNZONED_SIZE;
        if (!skip_fraction(&rest) || !parse_offset(rest, &offset))
                return -EINVAL;

        *ret = time - offset;
        return 0;
}
