/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Whether the images that were pulled are still there
 */

#include <limits.h>

#include "agent/image/presence-plan.h"
#include "tests/unit/unit.h"

static const struct Row {
        const char *name;
        ImagePhase phase;
        const char *known_id;
        const char *listed_id;
        bool is_suspect;
} rows[] = {
        { "is there", IMAGE_SUCCEEDED, "a", "a", false },
        { "is not listed", IMAGE_SUCCEEDED, "a", NULL, true },
        { "is another one", IMAGE_SUCCEEDED, "a", "b", true },
        { "is listed, with an ID that was not known", IMAGE_SUCCEEDED, NULL, "a", false },
        { "is still missing", IMAGE_MISSING, "a", NULL, false },
        { "is back", IMAGE_MISSING, "a", "a", true },
        { "was not pulled yet", IMAGE_WAITING, NULL, NULL, false },
        { "came while it waited", IMAGE_WAITING, NULL, "a", false },
        { "is being pulled", IMAGE_PULLING, NULL, NULL, false },
        { "will be tried again", IMAGE_BACKING_OFF, NULL, "a", false },
        { "has failed", IMAGE_FAILED, NULL, "a", false },
};

TEST_ROWS(test_suspects, rows, name, const struct Row *row) {
        const ImageStatus status = { .phase = row->phase, .image_id = (char *) row->known_id };

        if (presence_is_suspect(&status, row->listed_id) != row->is_suspect)
                fail_msg("%s", row->name);
}

TEST(test_removals) {
        assert_int_equal(presence_n_removals(0, 0), 1);
        assert_int_equal(presence_n_removals(1, 60 * SEC), 2);
        assert_int_equal(presence_n_removals(7, PRESENCE_STAYED_USEC - 1), 8);
        assert_int_equal(presence_n_removals(7, PRESENCE_STAYED_USEC), 1);
        assert_int_equal(presence_n_removals(UINT_MAX, 0), UINT_MAX);
}

/* The pauses run from 5 seconds to an hour, each twice as long as the one before, up to a fifth
 * more or less. */
TEST(test_pauses) {
        uint64_t usec = 5 * SEC;

        for (unsigned n = 1; n < 20; n++, usec *= 2) {
                uint64_t middle = usec < 3600 * SEC ? usec : 3600 * SEC;

                assert_in_range(presence_pause_usec(n, 0), middle * 4 / 5, middle);
                assert_in_range(presence_pause_usec(n, UINT32_MAX), middle, middle * 6 / 5);
        }
        assert_in_range(presence_pause_usec(UINT_MAX, 0), 2880 * SEC, 3600 * SEC);
}

/* A storm of events leads to a list every five seconds; a single one to a list soon. */
TEST(test_delays) {
        assert_int_equal(presence_delay_usec(3600 * SEC), SEC / 5);
        assert_int_equal(presence_delay_usec(5 * SEC), SEC / 5);
        assert_int_equal(presence_delay_usec(0), 5 * SEC);
        assert_int_equal(presence_delay_usec(2 * SEC), 3 * SEC);
        assert_true(presence_interval_usec(false) >= 60 * SEC);
        assert_true(presence_interval_usec(true) > presence_interval_usec(false));
}

static void assert_described(unsigned n_removals, bool is_pulled_again, const char *expected) {
        cleanup(free_p) char *text = presence_describe(n_removals, is_pulled_again);

        assert_string_equal(text, expected);
}

TEST(test_describe) {
        assert_described(1, true, "removed by something else than inplaced; it is pulled again");
        assert_described(
                3, false,
                "removed 3 times by something else than inplaced, probably by the kubelet's "
                "garbage collector for lack of disk space; it is pulled again only with "
                "keepImages");
}
