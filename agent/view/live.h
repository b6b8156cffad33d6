/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Lines at the bottom of a terminal that are drawn again in place
 *
 * A frame is written to a stream in memory. At its end it replaces the lines of the frame before it; the
 * last frame simply stays. The widths of its lines tell how many rows
 * they take: a terminal that has become narrower since has wrapped them, and one that has become lower
 * cannot reach all.
 *
 * It changes no mode of the terminal, so nothing is broken when the program is killed.
 */

#include <stddef.h>
#include <stdio.h>

typedef struct Live {
        FILE *file; /* borrowed */
        size_t rows, columns;
        size_t *widths; /* columns of each drawn line */
        size_t n_lines; /* drawn */
        FILE *frame;    /* the frame that is being written; NULL: none */
        char *text;     /* text of that frame so far */
        size_t size;
        size_t n_kept; /* lines of the frame before it that stay */
} Live;

/* The file is borrowed. Nothing is drawn until the first frame ends. */
void live_init(Live *live, FILE *file);
void live_done(Live *live);

/* Sets the size of the screen, which has to be known before each frame. */
void live_resize(Live *live, size_t rows, size_t columns);

/* Takes the size from the terminal of stdout. */
void live_measure(Live *live);

/* Begins a frame in place of the lines behind the first n_kept ones; 0: of all. Its texts are safe for a
 * terminal, and each of its lines ends with a line feed. */
int live_begin(Live *live, size_t n_kept, FILE **ret);
int live_end(Live *live);

/* Returns the rows that the lines of the begun frame take so far, wrapped at the width of the screen. */
size_t live_count_rows(Live *live);

/* Clears the drawn lines: other output can take their place. */
void live_clear(Live *live);

/* Leaves the drawn lines where they are: other output, or a next frame, stands below them. */
void live_leave(Live *live);
