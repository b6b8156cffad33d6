/* SPDX-License-Identifier: Apache-2.0 */

/*
 * When a status may be written
 */

#include "agent/cluster/write-pace.h"
#include "tests/unit/unit.h"

#define BEGIN (7 * SEC) /* not 0, which means never */

/* A peer that writes as soon as it may. */
typedef struct Writer {
        WritePace pace;
        uint64_t now;
        uint64_t oldest; /* time of the first unwritten change; 0: there is none */
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

static const WriteChange crowd = { .n_in_work = WRITE_PACE_FEW + 1 };
static const WriteChange few = { .n_in_work = WRITE_PACE_FEW };
static const WriteChange end = { .n_in_work = 0 };
static const WriteChange progress = { .n_in_work = 1, .is_progress = true };

static void writer_change(Writer *writer, uint64_t at, WriteChange change) {
        writer_run(writer, at);
        write_pace_on_change(&writer->pace, change, at);
        if (writer->oldest == 0 && !change.is_progress)
                writer->oldest = at;
        writer_run(writer, at);
}

/* The first of a quiet time waits for a moment, and is written at BEGIN; one more is not late. */
static void writer_begin_crowd(Writer *writer) {
        writer_init(writer);
        writer_change(writer, BEGIN - 10 * MSEC, crowd);
        writer_change(writer, BEGIN + 1, crowd);
        assert_int_equal(writer->n_writes, 2);
}

TEST(test_nothing_to_write) {
        WritePace pace;

        write_pace_init(&pace);
        assert_true(write_pace_next_usec(&pace, BEGIN) == UINT64_MAX);
}

/* Waiting and Pulling are one write, and Succeeded is there at once. */
TEST(test_one_image_takes_two_writes) {
        Writer writer;

        writer_init(&writer);
        writer_change(&writer, BEGIN, few);
        writer_change(&writer, BEGIN + 2 * MSEC, few);
        assert_int_equal(writer.n_writes, 0);
        writer_run(&writer, BEGIN + 10 * MSEC);
        assert_int_equal(writer.n_writes, 1);
        assert_int_equal(writer.age_max, 10 * MSEC);

        writer_change(&writer, BEGIN + 12 * MSEC, end);
        assert_int_equal(writer.n_writes, 2);
        assert_int_equal(writer.age_max, 10 * MSEC);
}

/* An image that is present at once takes one write. */
TEST(test_an_image_at_once_takes_one_write) {
        Writer writer;

        writer_init(&writer);
        writer_change(&writer, BEGIN, few);
        writer_change(&writer, BEGIN + 5 * MSEC, end);
        writer_run(&writer, BEGIN + SEC);
        assert_int_equal(writer.n_writes, 1);
        assert_int_equal(writer.age_max, 10 * MSEC);
}

/* Runs n images in a row, 30 ms each. Returns how late the latest of their ends was. */
static uint64_t run_in_turn(Writer *writer, unsigned n, uint64_t every_usec) {
        uint64_t latest = 0;

        for (unsigned i = 0; i < n; i++) {
                uint64_t at = writer->now + every_usec, ended = at + 30 * MSEC;

                writer_change(writer, at, few);
                writer_change(writer, ended, end);
                while (writer->oldest > 0)
                        writer_run(writer, writer->now + MSEC);
                if (writer->now - ended > latest)
                        latest = writer->now - ended;
        }

        return latest;
}

TEST(test_images_in_turn) {
        static const struct {
                unsigned n;
                uint64_t every_usec;
                uint64_t latest_usec;
        } cases[] = {
                { 10, 50 * MSEC, 0 },           { 16, 0, 0 },
                { 20, 360 * MSEC, 0 },          { 600, 1100 * MSEC, 0 },
                { 600, 1500 * MSEC, 0 },        { 600, 2000 * MSEC, 0 },
                { 600, 2500 * MSEC, 0 },        { 600, 10 * SEC, 0 },
                { 600, 50 * MSEC, 850 * MSEC }, { 600, 500 * MSEC, 850 * MSEC },
        };

        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                Writer writer;
                uint64_t latest, seconds;

                writer_init(&writer);
                latest = run_in_turn(&writer, cases[i].n, cases[i].every_usec);
                seconds = (writer.now - BEGIN) / SEC;
                if (latest > cases[i].latest_usec)
                        fail_msg("case %zu: %u us late", i, (unsigned) latest);
                if (writer.n_writes > 2 * cases[i].n || writer.n_writes > seconds * 20 / 17 + 24)
                        fail_msg("case %zu: %u writes in %u s", i, writer.n_writes,
                                 (unsigned) seconds);
        }
}

TEST(test_a_crowd_is_collected) {
        uint64_t now = BEGIN + 200 * MSEC;
        Writer writer;

        writer_begin_crowd(&writer);

        write_pace_on_change(&writer.pace, crowd, now);
        assert_true(write_pace_is_collecting(&writer.pace, now));
        write_pace_on_change(&writer.pace, crowd, now + 600 * MSEC);
        assert_int_equal(write_pace_next_usec(&writer.pace, now), now + 740 * MSEC);
        assert_int_equal(write_pace_next_usec(&writer.pace, now + SEC), now + SEC);
        assert_false(write_pace_is_collecting(&writer.pace, now + SEC));
}

/* A crowd ends with few images, and few changes follow. */
TEST(test_a_crowd_leaves_enough_for_a_few) {
        Writer writer;

        writer_begin_crowd(&writer);
        writer_change(&writer, writer.now + MSEC, crowd);
        assert_int_equal(writer.n_writes, 2);
        writer_change(&writer, writer.now + MSEC, few);
        assert_int_equal(writer.n_writes, 3);
        assert_false(write_pace_is_collecting(&writer.pace, writer.now));

        for (unsigned i = 0; i < 20; i++)
                writer_change(&writer, writer.now + MSEC, few);
        assert_int_equal(writer.n_writes, 14);
        for (unsigned i = 0; i < 20; i++)
                writer_change(&writer, writer.now + 11 * MSEC, end);
        assert_int_equal(writer.n_writes, 24);
}

/* Else there would be many more than one write in a second. */
TEST(test_right_after_a_write) {
        Writer writer;

        writer_begin_crowd(&writer);

        write_pace_on_change(&writer.pace, crowd, BEGIN + 2);
        assert_int_equal(write_pace_next_usec(&writer.pace, BEGIN + 2), BEGIN + 1 + 770 * MSEC);
}

/* A change during a write is compared when the write has been answered, and its wait counts from
 * the change: after a long write as after any other. */
TEST(test_during_a_write) {
        Writer writer;

        writer_begin_crowd(&writer);
        write_pace_on_possible_change(&writer.pace, BEGIN + 100 * MSEC);
        write_pace_on_possible_change(&writer.pace, BEGIN + 200 * MSEC);
        assert_true(write_pace_next_usec(&writer.pace, BEGIN + 200 * MSEC) == UINT64_MAX);
        write_pace_on_change(&writer.pace, crowd, BEGIN + 300 * MSEC);
        assert_int_equal(write_pace_next_usec(&writer.pace, BEGIN + 300 * MSEC),
                         BEGIN + 840 * MSEC);
}

/* A possible change turns out to be none, or is in a later write. */
TEST(test_possible_change_is_none) {
        Writer writer;

        writer_begin_crowd(&writer);
        write_pace_on_possible_change(&writer.pace, BEGIN + 20 * MSEC);
        write_pace_on_same(&writer.pace);
        write_pace_on_change(&writer.pace, crowd, BEGIN + 300 * MSEC);
        assert_int_equal(write_pace_next_usec(&writer.pace, BEGIN + 300 * MSEC),
                         BEGIN + 1040 * MSEC);
}

/* A crowd that never ends is written less often. */
TEST(test_haste_ends) {
        Writer writer;
        unsigned n;

        writer_begin_crowd(&writer);
        for (uint64_t at = BEGIN; at < BEGIN + 100 * SEC; at += 10 * MSEC)
                writer_change(&writer, at, crowd);
        n = writer.n_writes;
        for (uint64_t at = writer.now; writer.now < BEGIN + 185 * SEC; at += 10 * MSEC)
                writer_change(&writer, at, crowd);
        assert_in_range(writer.n_writes - n, 99, 100);
}

TEST(test_time_refills) {
        Writer writer;

        writer_begin_crowd(&writer);
        writer_change(&writer, writer.pace.written_usec + 1099 * MSEC, crowd);
        assert_int_equal(writer.n_writes, 2);
        writer_run(&writer, writer.now + MSEC);
        assert_int_equal(writer.n_writes, 3);

        /* But no more than there was. */
        writer_change(&writer, writer.now + 60 * SEC, crowd);
        for (unsigned i = 0; i < 9; i++)
                writer_change(&writer, writer.now + 10 * MSEC, crowd);
        assert_int_equal(writer.n_writes, 5);
}

TEST(test_quiet_ends_the_delay) {
        Writer writer;
        unsigned n;

        writer_init(&writer);
        for (uint64_t at = BEGIN; at < BEGIN + 100 * SEC; at += 100 * MSEC)
                writer_change(&writer, at, crowd);
        writer_run(&writer, writer.now + SEC);
        n = writer.n_writes;
        writer_change(&writer, writer.pace.written_usec + 1999 * MSEC, crowd);
        assert_int_equal(writer.n_writes, n);
        writer_run(&writer, writer.now + MSEC);
        assert_int_equal(writer.n_writes, n + 1);
}

TEST(test_progress_waits) {
        Writer writer;

        writer_init(&writer);
        for (uint64_t at = BEGIN; at < BEGIN + 60 * SEC; at += 200 * MSEC)
                writer_change(&writer, at, progress);

        assert_in_range(writer.n_writes, 5, 6);
}

TEST(test_progress_goes_with_the_rest) {
        Writer writer;

        writer_init(&writer);
        writer_change(&writer, BEGIN, progress);
        writer_change(&writer, BEGIN + SEC, few);
        writer_run(&writer, BEGIN + SEC + 10 * MSEC);
        assert_int_equal(writer.n_writes, 1);
        assert_true(write_pace_next_usec(&writer.pace, writer.now) == UINT64_MAX);
}

/* Another writer has made it true, or it is as it was before. */
TEST(test_what_is_true_needs_no_write) {
        Writer writer;

        writer_begin_crowd(&writer);
        write_pace_on_change(&writer.pace, crowd, writer.now);
        write_pace_on_change(&writer.pace, progress, writer.now);
        write_pace_on_same(&writer.pace);
        assert_true(write_pace_next_usec(&writer.pace, writer.now) == UINT64_MAX);

        /* A change ends the quiet. */
        writer_change(&writer, writer.now + MSEC, crowd);
        assert_int_equal(writer.n_writes, 2);
}

TEST(test_conflict_is_made_up_for) {
        Writer writer;

        writer_begin_crowd(&writer);
        write_pace_on_conflict(&writer.pace);
        write_pace_on_change(&writer.pace, crowd, writer.now + MSEC);
        assert_int_equal(write_pace_next_usec(&writer.pace, writer.now + MSEC), writer.now + MSEC);

        /* But once. */
        writer_change(&writer, writer.now + 2 * MSEC, crowd);
        assert_int_equal(writer.n_writes, 3);
        writer_change(&writer, writer.now + MSEC, crowd);
        assert_int_equal(writer.n_writes, 3);
}

TEST(test_changes_without_end) {
        static const uint64_t every[] = {
                1, 31, 99, 100, 101, 150, 333, 500, 899, 901, 1100, 1999
        };
        const WriteChange changes[] = { crowd, few, end };

        for (size_t i = 0; i < 3 * N_ELEMENTS(every); i++) {
                uint64_t every_msec = every[i / 3];
                Writer writer;

                writer_init(&writer);
                for (uint64_t at = BEGIN; at < BEGIN + 600 * SEC; at += every_msec * MSEC)
                        writer_change(&writer, at, changes[i % 3]);

                if (writer.n_writes > 600 * 100 / 85 + (i % 3 == 0 ? 3 : 24))
                        fail_msg("%u writes, every %u ms, case %zu", writer.n_writes,
                                 (unsigned) every_msec, i % 3);
                if (writer.age_max > SEC)
                        fail_msg("waited for %u us", (unsigned) writer.age_max);
        }
}

/* 200 images at the same time, five of them in work, which take 0.5 to 2.5 s each. */
TEST(test_200_images) {
        for (unsigned seed = 0; seed < 100; seed++) {
                uint64_t ends[5], now = BEGIN;
                unsigned n_done = 0;
                Writer writer;

                srandom(seed);
                writer_init(&writer);
                writer_change(&writer, now, crowd); /* they wait */
                for (unsigned i = 0; i < 5; i++)
                        ends[i] = now + 500 * MSEC + (uint64_t) random() % (2 * SEC);

                while (n_done < 200) {
                        unsigned next = 0;

                        for (unsigned i = 1; i < 5; i++)
                                if (ends[i] < ends[next])
                                        next = i;
                        now = ends[next];
                        n_done++;
                        writer_change(&writer, now, (WriteChange){ .n_in_work = 200 - n_done });
                        ends[next] = n_done <= 195
                                             ? now + 500 * MSEC + (uint64_t) random() % (2 * SEC)
                                             : UINT64_MAX;
                }
                writer_run(&writer, now + 2 * SEC);

                /* A course in which a write takes no time. */
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
