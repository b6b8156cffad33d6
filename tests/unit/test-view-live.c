/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Feeds the drawn text to a small terminal, and compares the screen
 */

#include "agent/view/live.h"
#include "tests/unit/screen.h"
#include "tests/unit/unit.h"

typedef struct Fixture {
        Screen screen;
        Live live;
        FILE *file;
        char *text;
        size_t size;
} Fixture;

static void open_fixture(Fixture *f) {
        f->screen = (Screen){ .rows = 6, .columns = 20 };
        f->file = open_memstream(&f->text, &f->size);
        live_init(&f->live, f->file);
        live_resize(&f->live, f->screen.rows, f->screen.columns);
        screen_feed(&f->screen, "$ command\n");
}

static void close_fixture(Fixture *f) {
        live_done(&f->live);
        fclose(f->file);
        free(f->text);
}

DEFINE_FIXTURE(Fixture, open_fixture, close_fixture)

static void show(Fixture *f) {
        fflush(f->file);
        screen_feed(&f->screen, f->text);
        rewind(f->file);
        memset(f->text, 0, f->size);
}

static void draw(Fixture *f, size_t n_kept, const char *text) {
        FILE *frame;

        assert_ok(live_begin(&f->live, n_kept, &frame));
        fputs(text, frame);
        assert_ok(live_end(&f->live));
        show(f);
}

static void assert_screen(const Fixture *f, const char *const *lines, size_t n) {
        assert_int_equal(f->screen.n_lines, n + 1); /* with the cursor's */
        for (size_t i = 0; i < n; i++)
                assert_string_equal(f->screen.lines[i], lines[i]);
}

#define ASSERT_SCREEN(f, ...)                                  \
        assert_screen(f, (const char *const[]){ __VA_ARGS__ }, \
                      sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

TEST_F(test_frame_replaces_the_one_before, Fixture *f) {
        draw(f, 0, "one\ntwo\nthree\n");
        draw(f, 0, "ONE\nTWO\n");
        ASSERT_SCREEN(f, "$ command", "ONE", "TWO");
}

TEST_F(test_first_lines_are_kept, Fixture *f) {
        draw(f, 0, "title\nrow\nsum\n");
        draw(f, 2, "waiting\n");
        ASSERT_SCREEN(f, "$ command", "title", "row", "waiting");
        draw(f, 0, "title\nsum\n");
        ASSERT_SCREEN(f, "$ command", "title", "sum");
}

/* The terminal has broken the lines, so there are more rows to go back. */
TEST_F(test_terminal_became_narrower, Fixture *f) {
        draw(f, 0, "0123456789abcdef\nx\n");
        screen_resize(&f->screen, 6, 10);
        live_resize(&f->live, 6, 10);
        draw(f, 0, "0123\nx\n");
        ASSERT_SCREEN(f, "$ command", "0123", "x");
}

/* Lines above the screen cannot be drawn again, and are not taken for the frame. */
TEST_F(test_terminal_became_lower, Fixture *f) {
        draw(f, 0, "1\n2\n3\n4\n");
        f->screen.rows = 3;
        live_resize(&f->live, 3, 20);
        draw(f, 0, "a\n");
        ASSERT_SCREEN(f, "$ command", "1", "2", "a");
}

TEST_F(test_other_output_takes_the_place, Fixture *f) {
        draw(f, 0, "1\n2\n");
        live_clear(&f->live);
        fputs("done\n", f->file);
        draw(f, 0, "1\n");
        ASSERT_SCREEN(f, "$ command", "done", "1");
        live_leave(&f->live);
        draw(f, 0, "below\n");
        ASSERT_SCREEN(f, "$ command", "done", "1", "below");
}
