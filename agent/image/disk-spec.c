/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/disk-spec.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/quote.h"
#include "agent/base/text.h"

#define PERCENT_MAX 90

#define MB ((double) 1000000)
#define GB ((double) 1000000000)

/* Units of a Kubernetes quantity, also with the B that people add. */
static const struct Unit {
        const char *name;
        uint64_t factor;
} units[] = {
        { "", 1 },
        { "k", 1000 },
        { "M", 1000000 },
        { "G", 1000000000 },
        { "T", 1000000000000 },
        { "Ki", (uint64_t) 1 << 10 },
        { "Mi", (uint64_t) 1 << 20 },
        { "Gi", (uint64_t) 1 << 30 },
        { "Ti", (uint64_t) 1 << 40 },
};

static bool is_unit(const char *text, size_t size, const char *name) {
        if (size > 0 && text[size - 1] == 'B')
                size--;

        return strlen(name) == size && strncmp(text, name, size) == 0;
}

static bool read_bytes(const char *unit, size_t size, uint64_t number, DiskFloor *floor) {
        for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
                if (is_unit(unit, size, units[i].name))
                        return !__builtin_mul_overflow(number, units[i].factor, &floor->bytes);

        return false;
}

/* "15%" or "5GB" */
static bool read_part(const char *text, size_t size, DiskFloor *floor) {
        uint64_t number;
        char *unit;

        if (!isdigit((unsigned char) text[0]))
                return false;

        errno = 0;
        number = strtoull(text, &unit, 10);
        size -= (size_t) (unit - text);
        if (errno != 0)
                return false;
        if (size != 1 || unit[0] != '%')
                return read_bytes(unit, size, number, floor);

        floor->percent = (unsigned) number;
        return number <= PERCENT_MAX;
}

int disk_floor_parse(const char *text, DiskFloor *ret, Error *reterr) {
        size_t first = strcspn(text, ",");
        const char *second = text[first] ? text + first + 1 : NULL;
        char quoted[QUOTE_SIZE];
        DiskFloor floor = { 0 };

        if (!read_part(text, first, &floor) ||
            (second && (!read_part(second, strlen(second), &floor) || floor.percent == 0 ||
                        floor.bytes == 0)))
                return error_set(reterr, ERROR_INVALID,
                                 "%s is no amount of disk space: write 5GB, 10%%, or "
                                 "15%%,5GB for the lesser of both; at most %d%%; 0 for none",
                                 quote(text, quoted), PERCENT_MAX);

        *ret = floor;
        return 0;
}

uint64_t disk_floor_bytes(const DiskFloor *floor, uint64_t n_total) {
        uint64_t share = n_total / 100 * floor->percent;

        if (floor->percent == 0)
                return floor->bytes;

        return floor->bytes > 0 && floor->bytes < share ? floor->bytes : share;
}

DiskRoom disk_room(const DiskFloor *floor, const DiskSpace *space) {
        uint64_t bytes = disk_floor_bytes(floor, space->n_total);

        if (space->n_free >= bytes)
                return DISK_ROOM_ENOUGH;

        return space->n_free >= bytes / 3 ? DISK_ROOM_LOW : DISK_ROOM_CRITICAL;
}

DiskRoom disk_room_for(const DiskFloor *floor, const DiskSpace *space, const DiskNeed *need) {
        uint64_t kept = disk_floor_bytes(floor, space->n_total) / 3;
        DiskRoom room = disk_room(floor, space);
        uint64_t n_needed;

        if (room == DISK_ROOM_CRITICAL || need->n_bytes == 0)
                return room;
        if (__builtin_add_overflow(need->n_bytes, need->n_others, &n_needed) ||
            __builtin_add_overflow(n_needed, kept, &n_needed))
                return DISK_ROOM_SCARCE;

        return space->n_free >= n_needed ? room : DISK_ROOM_SCARCE;
}

const char *disk_format_bytes(uint64_t bytes, char text[static 32]) {
        double n = (double) bytes;

        if (n < GB)
                (void) snprintf(text, 32, "%.0f MB", n / MB);
        else
                (void) snprintf(text, 32, n < 10 * GB ? "%.1f GB" : "%.0f GB", n / GB);
        return text;
}

char *disk_describe(const DiskFloor *floor, const DiskSpace *space, const char *path) {
        char n_free[32], n_total[32], least[32];
        char *text;

        (void) text_format(&text, "%s of %s are free in %s, less than %sminFreeDisk (%s)",
                           disk_format_bytes(space->n_free, n_free),
                           disk_format_bytes(space->n_total, n_total), path,
                           disk_room(floor, space) == DISK_ROOM_CRITICAL ? "a third of " : "",
                           disk_format_bytes(disk_floor_bytes(floor, space->n_total), least));
        return text;
}

char *disk_describe_need(const DiskFloor *floor, const DiskSpace *space, const DiskNeed *need,
                         const char *path) {
        uint64_t kept = disk_floor_bytes(floor, space->n_total) / 3;
        char n_needed[32], n_free[32], n_total[32], n_others[32], n_kept[32];
        char *text;

        (void) text_format(&text, "needs %s, %s of %s are free in %s%s%s%s%s%s",
                           disk_format_bytes(need->n_bytes, n_needed),
                           disk_format_bytes(space->n_free, n_free),
                           disk_format_bytes(space->n_total, n_total), path,
                           need->n_others > 0 ? ", other pulls need " : "",
                           need->n_others > 0 ? disk_format_bytes(need->n_others, n_others) : "",
                           kept > 0 ? ", " : "", kept > 0 ? disk_format_bytes(kept, n_kept) : "",
                           kept > 0 ? " stay free (a third of minFreeDisk)" : "");
        return text;
}
