/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Feeds the drawn text to a small terminal, and compares the screen
 */

#include "agent/ctl/progress-view.h"
#include "tests/unit/screen.h"
#include "tests/unit/unit.h"

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
        if (pull_list_init(&f->list, images, N_ELEMENTS(images), 0, f->now) < 0)
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
        assert_ok(progress_view_draw(f->view, &f->list, false, f->now));
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

TEST_F(test_one_line_for_each_image, Fixture *f) {
        for (uint64_t done = 0; done <= 1000000; done += 250000) {
                set_pulling(f, 0, done);
                draw(f);
                assert_int_equal(f->screen.n_lines, 7);
                assert_int_equal(screen_count(&f->screen, "img"), 6);
        }

        assert_contains(f->screen.lines[0], "1.0/1.0 MB");
}

TEST_F(test_finished_ones_stay_above, Fixture *f) {
        draw(f);
        finish(f, 3);
        draw(f);
        assert_contains(f->screen.lines[0], "img03");
        finish(f, 1);
        draw(f);
        assert_contains(f->screen.lines[0], "img03");
        assert_contains(f->screen.lines[1], "img01");
        assert_contains(f->screen.lines[2], "img00");
        assert_int_equal(screen_count(&f->screen, "img"), 6);
        assert_int_equal(f->screen.n_lines, 7);
}

TEST_F(test_more_images_than_lines, Fixture *f) {
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

TEST_F(test_the_last_one_is_drawn_in_place, Fixture *f) {
        for (size_t i = 0; i < 5; i++)
                finish(f, i);
        for (int i = 0; i < 3; i++)
                draw(f);
        assert_int_equal(screen_count(&f->screen, "img05"), 1);
        finish(f, 5);
        draw(f);
        draw(f);
        assert_int_equal(f->screen.n_lines, 7);
        assert_contains(f->screen.lines[5], "img05");
}

TEST_F(test_what_does_not_fit_is_a_number, Fixture *f) {
        resize(f, 4, 80);
        draw(f);
        assert_string_equal(f->screen.lines[2], "and 4 more");
}

TEST_F(test_nothing_is_left_behind_by_a_narrower_terminal, Fixture *f) {
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
TEST_F(test_hint, Fixture *f) {
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

TEST_F(test_clear_takes_only_the_unfinished, Fixture *f) {
        finish(f, 0);
        draw(f);
        rewind(f->file);
        progress_view_clear(f->view);
        screen_feed(&f->screen, f->text);
        assert_int_equal(screen_count(&f->screen, "img"), 1);
        assert_int_equal(f->screen.n_lines, 2);
}
