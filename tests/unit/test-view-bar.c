/* SPDX-License-Identifier: Apache-2.0 */

#include <locale.h>

#include "agent/view/bar.h"
#include "agent/view/terminal.h"
#include "tests/unit/unit.h"

#define NAME "registry.example/team/app:1.2"

/* clang-format off */
static const struct Row {
        const char *name;
        Bar bar;
        size_t width;
        const char *line;
} rows[] = {
        { "everything fits",
          { BAR_BYTES, NAME, "downloading", NULL, 30000000, 60000000, 10000000, 0, 0 }, 100,
          "registry.example/team/app:1.2  downloading  [========>         ]    30.0/60.0 MB  "
          " 10.0 MB/s  4s" },
        { "the name gives way",
          { BAR_BYTES, NAME, "downloading", NULL, 30000000, 60000000, 10000000, 0, 0 }, 80,
          "registry.../app:1.2  downloading  [===>    ]    30.0/60.0 MB   10.0 MB/s  4s" },
        { "there is no room for the rate",
          { BAR_BYTES, NAME, "downloading", NULL, 30000000, 60000000, 10000000, 0, 0 }, 60,
          "regist...app:1.2  downloading  [====>      ]    30.0/60.0 MB" },
        { "there is no room for the bar",
          { BAR_BYTES, NAME, "downloading", NULL, 30000000, 60000000, 10000000, 0, 0 }, 50,
          "regist...app:1.2  downloading    30.0/60.0 MB" },
        { "there is room for the name only",
          { BAR_BYTES, NAME, "downloading", NULL, 30000000, 60000000, 10000000, 0, 0 }, 12,
          "regi...p:1.2" },
        { "nothing has arrived", { BAR_BYTES, "a", "downloading", NULL, 0, 60000000, 0, 0, 0 }, 70,
          "a  downloading  [                ]     0.0/60.0 MB" },
        { "everything has arrived",
          { BAR_BYTES, "a", "downloading", NULL, 60000000, 60000000, 10000000, 0, 0 }, 70,
          "a  downloading  [================]    60.0/60.0 MB   10.0 MB/s" },
        { "no byte has arrived for a while",
          { BAR_BYTES, "a", "downloading", NULL, 30000000, 60000000, 10000000, 0, 65 }, 70,
          "a  downloading  [=======>        ]    30.0/60.0 MB  no byte for 1m05s" },
        { "no byte has arrived for a while, and there is little room",
          { BAR_BYTES, "a", "downloading", NULL, 30000000, 60000000, 10000000, 0, 65 }, 58,
          "a  downloading  [=====>      ]    30.0/60.0 MB       0 B/s" },
        { "the size is not known, so there is no rate",
          { BAR_SIZE_UNKNOWN, "a", "downloading", NULL, 0, 0, 10000000, 3, 0 }, 70,
          "a  downloading  [   <=>          ]    size unknown" },
        { "no bytes are fetched",
          { BAR_MOVING, "a", "resolving", NULL, 30000000, 0, 10000000, 3, 0 }, 70,
          "a  resolving    [   <=>          ]" },
        { "an estimate of nearly a day",
          { BAR_BYTES, "a", "downloading", NULL, 0, 86398000, 1000, 0, 0 }, 70,
          "a  downloading  [                ]     0.0/86.4 MB    1.0 kB/s  23h59m" },
        { "so little arrives that it would last for years",
          { BAR_BYTES, "a", "downloading", NULL, 30000000, 60000000, 1, 0, 0 }, 70,
          "a  downloading  [=======>        ]    30.0/60.0 MB       1 B/s" },
        { "it is being unpacked",
          { BAR_UNPACKING, "a", "unpacking", NULL, 60000000, 60000000, 10000000, 22, 0 }, 70,
          "a  unpacking    [====<=>=========]         60.0 MB" },
        { "there is nothing but a note",
          { BAR_NONE, "a", "retrying", "connection refused", 0, 0, 0, 0, 0 }, 40,
          "a  retrying     connection refused" },
        { "the note is too long",
          { BAR_NONE, "a", "retrying", "connection refused", 0, 0, 0, 0, 0 }, 28,
          "a  retrying     connectio..." },
        { "more than all has arrived",
          { BAR_BYTES, "a", "downloading", NULL, UINT64_MAX, 1, UINT64_MAX, 0, 0 }, 70,
          "a  downloading  [================]           1/1 B   18.4 EB/s" },
};
/* clang-format on */

TEST_ROWS(test_line, rows, name, const struct Row *row) {
        size_t name_width = bar_name_width(terminal_text_width(row->bar.name), row->width);
        cleanup(free_p) char *line = bar_draw(&row->bar, name_width, row->width);

        assert_string_equal(line, row->line);
}

TEST(test_it_always_fits) {
        static const char *const names[] = { "", "a", NAME, "\xE6\xBC\xA2\xE6\xBC\xA2\xE6\xBC\xA2",
                                             NAME NAME NAME NAME };
        static const uint64_t sizes[] = { 0, 1, 999, 12345678, 999999999999, UINT64_MAX };

        for (unsigned seed = 0; seed < 20000; seed++) {
                size_t width = seed % 200;
                Bar bar = {
                        .kind = seed % _BAR_KIND_MAX,
                        .name = names[seed / 7 % 5],
                        .step = seed % 3 ? "downloading" : "a step that is far too long",
                        .note = seed % 2 ? NULL : "some note \xE6\xBC\xA2 with words in it",
                        .bytes_done = sizes[seed / 11 % 6],
                        .bytes_total = sizes[seed / 13 % 6],
                        .bytes_per_sec = sizes[seed / 17 % 6],
                        .tick = seed,
                        .idle_sec = seed % 4 ? 0 : sizes[seed / 19 % 6],
                };
                size_t name_width = bar_name_width(terminal_text_width(bar.name), width);
                cleanup(free_p) char *line = bar_draw(&bar, name_width, width);

                if (!line || terminal_text_width(line) > width || strchr(line, '\n'))
                        fail_msg("seed %u: '%s'", seed, line);
        }
}

/* The block stays inside the brackets and is somewhere else each time. */
TEST(test_the_moving_bar_moves) {
        cleanup(free_p) char *last = NULL;

        for (unsigned tick = 0; tick < 100; tick++) {
                Bar bar = { .kind = BAR_MOVING, .name = "a", .step = "resolving", .tick = tick };
                char *line = bar_draw(&bar, 1, 60);

                assert_contains(line, "<=>");
                if (last)
                        assert_string_not_equal(line, last);
                free(last);
                last = line;
        }
}

int main(void) {
        if (!setlocale(LC_CTYPE, "C.UTF-8"))
                return EXIT_FAILURE;
        return unit_run();
}
