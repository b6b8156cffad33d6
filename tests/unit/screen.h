/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A small terminal, for tests of what is drawn again in place
 */

#include "tests/unit/unit.h"

#define LINES_MAX 200
#define COLUMNS_MAX 200

/* A terminal with all lines that ever were. Only the last `rows` of them can be reached. */
typedef struct Screen {
        size_t rows, columns;
        char lines[LINES_MAX][COLUMNS_MAX + 1];
        size_t n_lines, y, x;
} Screen;

static inline void screen_clear_below(Screen *screen) {
        screen->lines[screen->y][screen->x] = '\0';
        screen->n_lines = screen->y + 1;
}

static inline void screen_go_up(Screen *screen, size_t n) {
        size_t top = screen->n_lines > screen->rows ? screen->n_lines - screen->rows : 0;

        screen->y = screen->y > top + n ? screen->y - n : top;
}

static inline void screen_go_down(Screen *screen) {
        assert_true(screen->y + 1 < LINES_MAX);
        if (++screen->y == screen->n_lines)
                screen->lines[screen->n_lines++][0] = '\0';
        screen->x = 0;
}

/* Only what the view may use: anything else is a failure. */
static inline const char *screen_obey(Screen *screen, const char *text) {
        char *end;
        size_t n;

        assert_int_equal(text[1], '[');
        n = strtoul(text + 2, &end, 10);
        if (*end == 'A')
                screen_go_up(screen, n);
        else if (*end == 'J')
                screen_clear_below(screen);
        else
                fail_msg("unknown sequence %s", text);

        return end + 1;
}

static inline void screen_feed(Screen *screen, const char *text) {
        if (screen->n_lines == 0)
                screen->n_lines = 1;

        while (*text) {
                if (*text == '\x1b') {
                        text = screen_obey(screen, text);
                        continue;
                }

                if (*text == '\n') {
                        screen_go_down(screen);
                } else if (*text == '\r') {
                        screen->x = 0;
                } else {
                        /* Full lines are broken, as a line that is drawn over must never be. */
                        if (screen->x == screen->columns)
                                screen_go_down(screen);
                        screen->lines[screen->y][screen->x++] = *text;
                        screen->lines[screen->y][screen->x] = '\0';
                }
                text++;
        }
}

/* Breaks all lines anew, as terminals do that reflow. The cursor is on the last, empty one. */
static inline void screen_resize(Screen *screen, size_t rows, size_t columns) {
        Screen *before = malloc(sizeof(*before));

        *before = *screen;
        *screen = (Screen){ .rows = rows, .columns = columns };
        for (size_t i = 0; i + 1 < before->n_lines; i++) {
                screen_feed(screen, before->lines[i]);
                screen_feed(screen, "\n");
        }
        free(before);
}

static inline size_t screen_count(const Screen *screen, const char *text) {
        size_t n = 0;

        for (size_t i = 0; i < screen->n_lines; i++)
                n += strstr(screen->lines[i], text) != NULL;

        return n;
}
