/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One line of progress
 *
 *     registry.example/app:1.2  downloading  [=====>      ]  12.3/67.1 MB  10.2 MB/s  5s
 *
 * What does not fit is left out: first the time left, then the rate, the bar, the numbers and the
 * step. The line never takes more columns than it may, or redrawing it in place would fail.
 */

#include <stddef.h>
#include <stdint.h>

typedef enum BarKind {
        BAR_NONE,      /* no bar: the note takes its place */
        BAR_BYTES,     /* bytes_done of bytes_total */
        BAR_MOVING,    /* something happens, how much is not known */
        BAR_UNPACKING, /* everything has arrived and is being unpacked */
        _BAR_KIND_MAX,
} BarKind;

typedef struct Bar {
        BarKind kind;
        const char *name; /* this, the step and the note must be safe for a terminal */
        const char *step;
        const char *note; /* may be NULL */
        uint64_t bytes_done;
        uint64_t bytes_total;   /* 0: not known */
        uint64_t bytes_per_sec; /* 0: not known */
        unsigned tick;          /* grows by one with each drawing: moves the moving bar */
} Bar;

/* How many columns the names of several bars should take, the longest name having so many. */
size_t bar_name_width(size_t longest, size_t width);

/* At most width columns, without a line feed. NULL if there is no memory. */
char *bar_draw(const Bar *bar, size_t name_width, size_t width);
