/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A line with a bar, for something that is in progress
 *
 *     registry.example/app:1.2  downloading  [=====>      ]  12.3/67.1 MB  10.2 MB/s  5s
 *
 * If a line is too narrow, it loses parts: first the time left, then the rate, the bar, the numbers and
 * the step.
 */

#include <stddef.h>
#include <stdint.h>

typedef enum BarKind {
        BAR_NONE,         /* no bar: the note takes its place */
        BAR_BYTES,        /* bytes_done of bytes_total */
        BAR_MOVING,       /* work without bytes */
        BAR_SIZE_UNKNOWN, /* bytes arrive, but the runtime does not show them */
        BAR_UNPACKING,    /* bytes_done have arrived and are being unpacked */
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
        uint64_t idle_sec;      /* since the last byte arrived; 0: bytes arrive */
} Bar;

/* Returns the columns for the names of several bars; longest: columns of the longest name. */
size_t bar_name_width(size_t longest, size_t width);

/* Draws at most width columns, without a line feed. NULL if there is no memory. */
char *bar_draw(const Bar *bar, size_t name_width, size_t width);
