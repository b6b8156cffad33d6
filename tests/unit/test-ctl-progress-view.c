/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What is drawn is fed to a small terminal, and the screen is compared.
 */

#include <stdbool.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/base/cleanup.h"
#include "agent/ctl/progress-view.h"

#define SEC ((uint64_t) 1000000)
#define LINES_MAX 200
#define COLUMNS_MAX 200

/* A terminal with all lines that ever were. Only the last `rows` of them can be reached. */
typedef struct Screen {
        size_t rows, columns;
        char lines[LINES_MAX][COLUMNS_MAX + 1];
        size_t n_lines, y, x;
} Screen;

static void screen_clear_below(Screen *screen) {
        screen->lines[screen->y][screen->x] = '\0';
        screen->n_lines = screen->y + 1;
}

static void screen_go_up(Screen *screen, size_t n) {
        size_t top = screen->n_lines > screen->rows ? screen->n_lines - screen->rows : 0;

        screen->y = screen->y > top + n ? screen->y - n : top;
}

static void screen_go_down(Screen *screen) {
        assert_true(screen->y + 1 < LINES_MAX);
        if (++screen->y == screen->n_lines)
                screen->lines[screen->n_lines++][0] = '\0';
        screen->x = 0;
}

/* Only what the view may use: anything else is a failure. */
static const char *screen_obey(Screen *screen, const char *text) {
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

static void screen_feed(Screen *screen, const char *text) {
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
static void screen_resize(Screen *screen, size_t rows, size_t columns) {
        Screen *before = malloc(sizeof(*before));

        *before = *screen;
        *screen = (Screen){ .rows = rows, .columns = columns };
        for (size_t i = 0; i + 1 < before->n_lines; i++) {
                screen_feed(screen, before->lines[i]);
                screen_feed(screen, "\n");
        }
        free(before);
}

static size_t screen_count(const Screen *screen, const char *text) {
        size_t n = 0;

        for (size_t i = 0; i < screen->n_lines; i++)
                n += strstr(screen->lines[i], text) != NULL;

        return n;
}

typedef struct Fixture {
        Screen screen;
        PullList list;
        ProgressView *view;
        FILE *file;
        char *text;
        size_t size;
        uint64_t now;
} Fixture;

static int set_up(void **state) {
        static char *const images[] = { "img00", "img01", "img02", "img03", "img04", "img05" };
        Fixture *f = calloc(1, sizeof(*f));

        f->screen = (Screen){ .rows = 24, .columns = 80 };
        f->file = open_memstream(&f->text, &f->size);
        f->now = SEC;
        *state = f;
        if (pull_list_init(&f->list, images, sizeof(images) / sizeof(images[0]), 0, f->now) < 0)
                return -1;
        return progress_view_new(f->file, 24, 80, false, "hint", &f->view);
}

static int tear_down(void **state) {
        Fixture *f = *state;

        progress_view_free(f->view);
        pull_list_done(&f->list);
        fclose(f->file);
        free(f->text);
        free(f);
        return 0;
}

static void draw(Fixture *f) {
        f->now += SEC / 8;
        rewind(f->file);
        assert_int_equal(progress_view_draw(f->view, &f->list, false, f->now), 0);
        screen_feed(&f->screen, f->text);
        memset(f->text, 0, f->size);
}

static void resize(Fixture *f, size_t rows, size_t columns) {
        screen_resize(&f->screen, rows, columns);
        progress_view_resize(f->view, rows, columns);
}

static void set_pulling(Fixture *f, size_t i, uint64_t done) {
        f->list.items[i].phase = INPLACED__V1__PHASE__PHASE_PULLING;
        f->list.items[i].step = INPLACED__V1__STEP__STEP_DOWNLOADING;
        f->list.items[i].bytes_done = done;
        f->list.items[i].bytes_total = 1000000;
}

static void finish(Fixture *f, size_t i) {
        f->list.items[i].phase = INPLACED__V1__PHASE__PHASE_SUCCEEDED;
        f->list.items[i].ended_usec = f->now;
}

static void test_one_line_for_each_image(void **state) {
        Fixture *f = *state;

        for (uint64_t done = 0; done <= 1000000; done += 250000) {
                set_pulling(f, 0, done);
                draw(f);
                assert_int_equal(f->screen.n_lines, 7);
                assert_int_equal(screen_count(&f->screen, "img"), 6);
        }

        assert_non_null(strstr(f->screen.lines[0], "1.0/1.0 MB"));
}

static void test_finished_ones_stay_above(void **state) {
        Fixture *f = *state;

        draw(f);
        finish(f, 3);
        draw(f);
        assert_non_null(strstr(f->screen.lines[0], "img03"));
        finish(f, 1);
        draw(f);
        assert_non_null(strstr(f->screen.lines[0], "img03"));
        assert_non_null(strstr(f->screen.lines[1], "img01"));
        assert_non_null(strstr(f->screen.lines[2], "img00"));
        assert_int_equal(screen_count(&f->screen, "img"), 6);
        assert_int_equal(f->screen.n_lines, 7);
}

static void test_more_images_than_lines(void **state) {
        Fixture *f = *state;

        resize(f, 4, 80);
        set_pulling(f, 5, 1);
        for (size_t i = 0; i < 5; i++) {
                draw(f);
                assert_int_equal(screen_count(&f->screen, "img05"), 1); /* it moves: always shown */
                assert_true(f->screen.n_lines - i <= 4);
                finish(f, i);
        }
        finish(f, 5);
        draw(f);

        assert_int_equal(screen_count(&f->screen, "img"), 6);
        assert_int_equal(screen_count(&f->screen, "more"), 0);
}

static void test_the_last_one_is_drawn_in_place(void **state) {
        Fixture *f = *state;

        for (size_t i = 0; i < 5; i++)
                finish(f, i);
        for (int i = 0; i < 3; i++)
                draw(f);
        assert_int_equal(screen_count(&f->screen, "img05"), 1);
        finish(f, 5);
        draw(f);
        draw(f);
        assert_int_equal(f->screen.n_lines, 7);
        assert_non_null(strstr(f->screen.lines[5], "img05"));
}

static void test_what_does_not_fit_is_a_number(void **state) {
        Fixture *f = *state;

        resize(f, 4, 80);
        draw(f);
        assert_string_equal(f->screen.lines[2], "and 4 more");
}

static void test_nothing_is_left_behind_by_a_narrower_terminal(void **state) {
        Fixture *f = *state;

        for (size_t i = 0; i < 6; i++)
                set_pulling(f, i, 500000);
        draw(f);
        resize(f, 24, 30);
        draw(f);
        assert_int_equal(f->screen.n_lines, 7);
        resize(f, 24, 120);
        draw(f);
        assert_int_equal(f->screen.n_lines, 7);
        assert_int_equal(screen_count(&f->screen, "img"), 6);
}

/* Below the images, while one of them is tried again. */
static void test_hint(void **state) {
        Fixture *f = *state;

        draw(f);
        assert_int_equal(screen_count(&f->screen, "hint"), 0);
        f->list.items[2].phase = INPLACED__V1__PHASE__PHASE_PULLING;
        f->list.items[2].step = INPLACED__V1__STEP__STEP_BACKING_OFF;
        draw(f);
        assert_int_equal(f->screen.n_lines, 8);
        assert_string_equal(f->screen.lines[6], "hint");

        resize(f, 6, 80);
        draw(f);
        draw(f);
        assert_int_equal(screen_count(&f->screen, "hint"), 1);
        assert_int_equal(screen_count(&f->screen, "and 3 more"), 1);
        resize(f, 4, 80); /* no line to spare */
        draw(f);
        assert_int_equal(screen_count(&f->screen, "hint"), 0);
        finish(f, 2);
        resize(f, 24, 80);
        draw(f);
        assert_int_equal(screen_count(&f->screen, "hint"), 0);
}

static void test_clear_takes_only_the_unfinished(void **state) {
        Fixture *f = *state;

        finish(f, 0);
        draw(f);
        rewind(f->file);
        progress_view_clear(f->view);
        screen_feed(&f->screen, f->text);
        assert_int_equal(screen_count(&f->screen, "img"), 1);
        assert_int_equal(f->screen.n_lines, 2);
}

#define VIEW_TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void) {
        const struct CMUnitTest tests[] = {
                VIEW_TEST(test_one_line_for_each_image),
                VIEW_TEST(test_finished_ones_stay_above),
                VIEW_TEST(test_more_images_than_lines),
                VIEW_TEST(test_the_last_one_is_drawn_in_place),
                VIEW_TEST(test_what_does_not_fit_is_a_number),
                VIEW_TEST(test_nothing_is_left_behind_by_a_narrower_terminal),
                VIEW_TEST(test_hint),
                VIEW_TEST(test_clear_takes_only_the_unfinished),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
