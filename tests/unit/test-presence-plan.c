/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Whether the images that were pulled are still there
 */

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/base/cleanup.h"
#include "agent/image/presence-plan.h"

#define SEC ((uint64_t) 1000000)

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

static void test_suspects(void **state) {
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                const ImageStatus status = { .phase = rows[i].phase,
                                             .image_id = (char *) rows[i].known_id };

                if (presence_is_suspect(&status, rows[i].listed_id) != rows[i].is_suspect)
                        fail_msg("%s", rows[i].name);
        }
}

static void test_removals(void **state) {
        assert_int_equal(presence_n_removals(0, 0), 1);
        assert_int_equal(presence_n_removals(1, 60 * SEC), 2);
        assert_int_equal(presence_n_removals(7, PRESENCE_STAYED_USEC - 1), 8);
        assert_int_equal(presence_n_removals(7, PRESENCE_STAYED_USEC), 1);
        assert_int_equal(presence_n_removals(UINT_MAX, 0), UINT_MAX);
}

/* From 5 seconds to an hour, each twice as long as the one before, up to a fifth more or less. */
static void test_pauses(void **state) {
        uint64_t usec = 5 * SEC;

        for (unsigned n = 1; n < 20; n++, usec *= 2) {
                uint64_t middle = usec < 3600 * SEC ? usec : 3600 * SEC;

                assert_in_range(presence_pause_usec(n, 0), middle * 4 / 5, middle);
                assert_in_range(presence_pause_usec(n, UINT32_MAX), middle, middle * 6 / 5);
        }
        assert_in_range(presence_pause_usec(UINT_MAX, 0), 2880 * SEC, 3600 * SEC);
}

/* A storm of events leads to a list every five seconds; a single one to a list soon. */
static void test_delays(void **state) {
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

static void test_describe(void **state) {
        assert_described(1, true, "removed by something else than inplaced; it is pulled again");
        assert_described(
                3, false,
                "removed 3 times by something else than inplaced, probably by the kubelet's "
                "garbage collector for lack of disk space; it is pulled again only with "
                "keepImages");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_suspects), cmocka_unit_test(test_removals),
                cmocka_unit_test(test_pauses),   cmocka_unit_test(test_delays),
                cmocka_unit_test(test_describe),
        };

        return cmocka_run_group_tests_name("presence-plan", tests, NULL, NULL);
}
