/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/view/format.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SHORT_ID_SIZE 12
#define DIGEST_DIGITS_MIN 32

static const char *const size_units[] = { "B", "kB", "MB", "GB", "TB", "PB", "EB" };

/* The index of the unit in which the number has at most three digits before its point, also once it
 * is rounded to one digit after it. */
static size_t size_unit(uint64_t bytes, double *ret_divisor) {
        double divisor = 1;
        size_t unit = 0;

        while ((double) bytes / divisor >= (unit == 0 ? 1000 : 999.95)) {
                divisor *= 1000;
                unit++;
        }

        *ret_divisor = divisor;
        return unit;
}

const char *format_size(uint64_t bytes, FormatBuffer *buffer) {
        double divisor;
        size_t unit = size_unit(bytes, &divisor);

        snprintf(buffer->text, sizeof(buffer->text), "%.*f %s", unit == 0 ? 0 : 1,
                 (double) bytes / divisor, size_units[unit]);
        return buffer->text;
}

const char *format_share(uint64_t done, uint64_t total, FormatBuffer *buffer) {
        double divisor;
        size_t unit = size_unit(total, &divisor);
        int digits = unit == 0 ? 0 : 1;

        snprintf(buffer->text, sizeof(buffer->text), "%.*f/%.*f %s", digits,
                 (double) (done < total ? done : total) / divisor, digits, (double) total / divisor,
                 size_units[unit]);
        return buffer->text;
}

const char *format_duration(uint64_t seconds, FormatBuffer *buffer) {
        uint64_t minutes = seconds / 60, hours = minutes / 60;

        if (seconds < 60)
                snprintf(buffer->text, sizeof(buffer->text), "%" PRIu64 "s", seconds);
        else if (minutes < 60)
                snprintf(buffer->text, sizeof(buffer->text), "%" PRIu64 "m%02" PRIu64 "s", minutes,
                         seconds % 60);
        else if (hours < 24)
                snprintf(buffer->text, sizeof(buffer->text), "%" PRIu64 "h%02" PRIu64 "m", hours,
                         minutes % 60);
        else
                snprintf(buffer->text, sizeof(buffer->text), "%" PRIu64 "d%02" PRIu64 "h",
                         hours / 24, hours % 24);
        return buffer->text;
}

const char *format_elapsed(uint64_t usec, FormatBuffer *buffer) {
        uint64_t tenths = usec / 100000;

        if (tenths >= 100)
                return format_duration(usec / 1000000, buffer);

        snprintf(buffer->text, sizeof(buffer->text), "%" PRIu64 ".%" PRIu64 "s", tenths / 10,
                 tenths % 10);
        return buffer->text;
}

const char *format_age(uint64_t seconds, FormatBuffer *buffer) {
        static const struct {
                uint64_t seconds;
                char letter;
        } units[] = { { 24 * 3600, 'd' }, { 3600, 'h' }, { 60, 'm' }, { 1, 's' } };
        size_t i = 0;

        while (units[i].letter != 's' && seconds < units[i].seconds)
                i++;

        snprintf(buffer->text, sizeof(buffer->text), "%" PRIu64 "%c", seconds / units[i].seconds,
                 units[i].letter);
        return buffer->text;
}

const char *format_short_id(const char *id, FormatBuffer *buffer) {
        const char *at = strrchr(id, '@');
        const char *digest = at ? at + 1 : id;
        const char *colon = strchr(digest, ':');

        snprintf(buffer->text, sizeof(buffer->text), "%.*s", SHORT_ID_SIZE,
                 colon ? colon + 1 : digest);
        return buffer->text;
}

char *format_short_digest(const char *reference) {
        const char *at = strrchr(reference, '@');
        const char *digest = at ? at + 1 : reference;
        const char *colon = strchr(digest, ':');
        size_t n_digits = colon ? strspn(colon + 1, "0123456789abcdef") : 0;

        /* A tag may consist of digits, too, but has fewer. */
        if (n_digits < DIGEST_DIGITS_MIN || colon[1 + n_digits])
                return strdup(reference);

        return strndup(reference, (size_t) (colon + 1 - reference) + SHORT_ID_SIZE);
}

/* Returns the seconds of the unit; 0 if the letter is none. The end of the text means seconds. */
static int64_t unit_seconds(char letter) {
        switch (letter) {
        case '\0':
        case 's': return 1;
        case 'm': return 60;
        case 'h': return 3600;
        default: return 0;
        }
}

/* Reads a number and its unit, and moves *text behind them. -EINVAL: there is none; -ERANGE: it is
 * larger. */
static int take_duration(const char **text, int64_t max_sec, int64_t *ret_sec) {
        int64_t number = 0, unit;

        if (!isdigit((unsigned char) **text))
                return -EINVAL;

        for (; isdigit((unsigned char) **text); (*text)++)
                number = number > max_sec / 10 ? max_sec + 1 : number * 10 + (**text - '0');

        unit = unit_seconds(**text);
        if (unit == 0)
                return -EINVAL;
        if (number > max_sec / unit)
                return -ERANGE;

        if (**text)
                (*text)++;
        *ret_sec = number * unit;
        return 0;
}

int duration_parse(const char *text, int64_t max_sec, int64_t *ret_sec, Error *reterr) {
        const char *p = text;
        int64_t total = 0, part;
        int r;

        do {
                r = take_duration(&p, max_sec, &part);
                if (r == 0 && part > max_sec - total)
                        r = -ERANGE;
                if (r == -ERANGE)
                        return error_set(reterr, ERROR_INVALID,
                                         "\"%s\" is longer than %" PRId64 "h", text,
                                         max_sec / 3600);
                if (r < 0)
                        return error_set(reterr, ERROR_INVALID,
                                         "\"%s\" is not a duration such as 30s or 10m", text);
                total += part;
        } while (*p);

        if (total == 0)
                return error_set(reterr, ERROR_INVALID, "a duration has to be longer than zero");

        *ret_sec = total;
        return 0;
}
