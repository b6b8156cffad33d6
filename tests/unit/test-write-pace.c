/* SPDX-License-Identifier: Apache-2.0 */

/*
 * When a status may be written
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/cluster/write-pace.h"

#define MSEC ((uint64_t) 1000)
#define SEC ((uint64_t) 1000000)
#define BEGIN (7 * SEC) /* not 0, which means never */

/* A peer that writes as soon as it may. */
typedef struct Writer {
        WritePace pace;
        uint64_t now;
        uint64_t oldest; /* the first change that is not written; 0: there is none */
        uint64_t age_max;
        unsigned n_writes;
} Writer;

static void writer_init(Writer *writer) {
        *writer = (Writer){ .now = BEGIN };
        write_pace_init(&writer->pace);
}

/* Lets the time pass. */
static void writer_run(Writer *writer, uint64_t until) {
        uint64_t next;

        while ((next = write_pace_next_usec(&writer->pace, writer->now)) <= until) {
                assert_true(next >= writer->now);
                writer->now = next;
                write_pace_on_write(&writer->pace, next);
                writer->n_writes++;
                if (writer->oldest > 0 && next - writer->oldest > writer->age_max)
                        writer->age_max = next - writer->oldest;
                writer->oldest = 0;
        }

        writer->now = until;
}

static void writer_change(Writer *writer, uint64_t at, bool is_progress) {
        writer_run(writer, at);
        write_pace_on_change(&writer->pace, is_progress, at);
        if (writer->oldest == 0 && !is_progress)
                writer->oldest = at;
        writer_run(writer, at);
}

/* The first of a quiet time waits for a moment, and is written at BEGIN; three more are not late. */
static void writer_write_four(Writer *writer) {
        writer_init(writer);
        writer_change(writer, BEGIN - 10 * MSEC, false);
        writer_change(writer, BEGIN + 1, false);
        writer_change(writer, BEGIN + 2, false);
        writer_change(writer, BEGIN + 3, false);
        assert_int_equal(writer->n_writes, 4);
}

static void test_nothing_to_write(void **state) {
        WritePace pace;

        write_pace_init(&pace);
        assert_true(write_pace_next_usec(&pace, BEGIN) == UINT64_MAX);
}

/* Waiting and Pulling are one write, and Succeeded is there at once. */
static void test_one_image_takes_two_writes(void **state) {
        Writer writer;

        writer_init(&writer);
        writer_change(&writer, BEGIN, false);
        writer_change(&writer, BEGIN + 2 * MSEC, false);
        assert_int_equal(writer.n_writes, 0);
        writer_run(&writer, BEGIN + 10 * MSEC);
        assert_int_equal(writer.n_writes, 1);
        assert_int_equal(writer.age_max, 10 * MSEC);

        writer_change(&writer, BEGIN + 12 * MSEC, false);
        assert_int_equal(writer.n_writes, 2);
        assert_int_equal(writer.age_max, 10 * MSEC);
}

static void test_the_fifth_is_collected(void **state) {
        uint64_t now = BEGIN + 300 * MSEC;
        Writer writer;

        writer_write_four(&writer);

        write_pace_on_change(&writer.pace, false, now);
        write_pace_on_change(&writer.pace, false, now + 600 * MSEC);
        assert_int_equal(write_pace_next_usec(&writer.pace, now), now + 820 * MSEC);
        assert_int_equal(write_pace_next_usec(&writer.pace, now + SEC), now + SEC);
}

/* Else there would be many more than one write in a second. */
static void test_right_after_a_write(void **state) {
        Writer writer;

        writer_write_four(&writer);

        write_pace_on_change(&writer.pace, false, BEGIN + 4);
        assert_int_equal(write_pace_next_usec(&writer.pace, BEGIN + 4), BEGIN + 3 + 850 * MSEC);
}

static void test_quiet_ends_the_delay(void **state) {
        Writer writer;

        writer_write_four(&writer);

        writer_change(&writer, writer.pace.written_usec + 1999 * MSEC, false);
        assert_int_equal(writer.n_writes, 4);
        writer_run(&writer, writer.now + MSEC);
        assert_int_equal(writer.n_writes, 5);

        /* Of that quiet, three are left. */
        for (unsigned i = 0; i < 3; i++)
                writer_change(&writer, writer.now + MSEC, false);
        assert_int_equal(writer.n_writes, 8);
        writer_change(&writer, writer.now + MSEC, false);
        assert_int_equal(writer.n_writes, 8);
}

static void test_progress_waits(void **state) {
        Writer writer;

        writer_init(&writer);
        for (uint64_t at = BEGIN; at < BEGIN + 60 * SEC; at += 200 * MSEC)
                writer_change(&writer, at, true);

        assert_in_range(writer.n_writes, 5, 6);
}

static void test_progress_goes_with_the_rest(void **state) {
        Writer writer;

        writer_init(&writer);
        writer_change(&writer, BEGIN, true);
        writer_change(&writer, BEGIN + SEC, false);
        writer_run(&writer, BEGIN + SEC + 10 * MSEC);
        assert_int_equal(writer.n_writes, 1);
        assert_true(write_pace_next_usec(&writer.pace, writer.now) == UINT64_MAX);
}

/* Somebody else has made it true, or it is as it was before. */
static void test_what_is_true_needs_no_write(void **state) {
        Writer writer;

        writer_write_four(&writer);
        write_pace_on_change(&writer.pace, false, writer.now);
        write_pace_on_change(&writer.pace, true, writer.now);
        write_pace_on_same(&writer.pace);
        assert_true(write_pace_next_usec(&writer.pace, writer.now) == UINT64_MAX);

        /* That is no quiet. */
        writer_change(&writer, writer.now + MSEC, false);
        assert_int_equal(writer.n_writes, 4);
}

static void test_conflict_is_made_up_for(void **state) {
        Writer writer;

        writer_write_four(&writer);
        write_pace_on_conflict(&writer.pace);
        write_pace_on_change(&writer.pace, false, writer.now + MSEC);
        assert_int_equal(write_pace_next_usec(&writer.pace, writer.now + MSEC), writer.now + MSEC);

        /* But once. */
        writer_change(&writer, writer.now + 2 * MSEC, false);
        assert_int_equal(writer.n_writes, 5);
        writer_change(&writer, writer.now + MSEC, false);
        assert_int_equal(writer.n_writes, 5);
}

static void test_changes_without_end(void **state) {
        static const uint64_t every[] = {
                1, 31, 99, 100, 101, 150, 333, 500, 899, 901, 1100, 1999
        };

        for (size_t i = 0; i < sizeof(every) / sizeof(every[0]); i++) {
                Writer writer;

                writer_init(&writer);
                for (uint64_t at = BEGIN; at < BEGIN + 600 * SEC; at += every[i] * MSEC)
                        writer_change(&writer, at, false);

                if (writer.n_writes > 600 * 100 / 85 + 4)
                        fail_msg("%u writes, every %u ms", writer.n_writes, (unsigned) every[i]);
                if (writer.age_max > SEC)
                        fail_msg("waited for %u us", (unsigned) writer.age_max);
        }
}

/* 200 images at the same time, five of them in work, which take 0.5 to 2.5 s each. */
static void test_200_images(void **state) {
        for (unsigned seed = 0; seed < 100; seed++) {
                uint64_t ends[5], now = BEGIN;
                unsigned n_done = 0;
                Writer writer;

                srandom(seed);
                writer_init(&writer);
                writer_change(&writer, now, false); /* they wait */
                for (unsigned i = 0; i < 5; i++)
                        ends[i] = now + 500 * MSEC + (uint64_t) random() % (2 * SEC);

                while (n_done < 200) {
                        unsigned next = 0;

                        for (unsigned i = 1; i < 5; i++)
                                if (ends[i] < ends[next])
                                        next = i;
                        now = ends[next];
                        writer_change(&writer, now, false); /* one ends, another begins */
                        ends[next] = now + 500 * MSEC + (uint64_t) random() % (2 * SEC);
                        n_done++;
                }
                writer_run(&writer, now + 2 * SEC);

                if (writer.n_writes > (now - BEGIN) / SEC + 4)
                        fail_msg("seed %u: %u writes in %u s", seed, writer.n_writes,
                                 (unsigned) ((now - BEGIN) / SEC));
                if (writer.age_max > SEC || writer.oldest > 0)
                        fail_msg("seed %u: waited for %u us", seed, (unsigned) writer.age_max);
                if (seed == 0)
                        print_message("%u writes in %u s, at most %u ms late\n", writer.n_writes,
                                      (unsigned) ((now - BEGIN) / SEC),
                                      (unsigned) (writer.age_max / MSEC));
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_nothing_to_write),
                cmocka_unit_test(test_one_image_takes_two_writes),
                cmocka_unit_test(test_the_fifth_is_collected),
                cmocka_unit_test(test_right_after_a_write),
                cmocka_unit_test(test_quiet_ends_the_delay),
                cmocka_unit_test(test_progress_waits),
                cmocka_unit_test(test_progress_goes_with_the_rest),
                cmocka_unit_test(test_what_is_true_needs_no_write),
                cmocka_unit_test(test_conflict_is_made_up_for),
                cmocka_unit_test(test_changes_without_end),
                cmocka_unit_test(test_200_images),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
