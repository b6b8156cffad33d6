/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Bytes of blobs, which count once however many pulls need them
 */

#include "agent/image/fetched.h"
#include "tests/unit/unit.h"

#define COMPLETE 100 /* time of a complete blob's answer */
#define N_MAX 6

/* Sightings of one blob by pulls that began at a time, and the bytes that each adds. */
static const struct Row {
        const char *name;
        struct {
                time_t pull_began;
                time_t blob_began; /* COMPLETE: it is not on its way any more */
                uint64_t bytes;    /* 0: no more sightings */
                uint64_t added;
        } seen[N_MAX];
} rows[] = {
        { "it grows, and is complete",
          { { 1, 2, 10, 10 }, { 1, 2, 15, 5 }, { 1, COMPLETE, 20, 5 } } },
        { "it came between two questions", { { 1, COMPLETE, 20, 20 }, { 1, COMPLETE, 20, 0 } } },
        { "two pulls see it in turn",
          { { 1, 2, 10, 10 }, { 1, 2, 10, 0 }, { 1, 2, 15, 5 }, { 1, COMPLETE, 20, 5 } } },
        { "an earlier attempt has left a part", { { 5, 2, 10, 0 }, { 5, 2, 15, 5 } } },
        { "the runtime starts it again", { { 1, 2, 10, 10 }, { 1, 3, 4, 4 }, { 1, 3, 12, 8 } } },
        { "it is complete, thus not started again",
          { { 1, 2, 10, 10 }, { 1, COMPLETE, 20, 10 }, { 1, COMPLETE, 20, 0 } } },
        { "it goes back", { { 1, 2, 10, 10 }, { 1, 2, 8, 0 }, { 1, 2, 11, 1 } } },
};

static uint64_t add(Fetched *fetched, const char *digest, time_t pull_began, time_t blob_began,
                    uint64_t bytes, uint64_t now_usec) {
        const FetchedBlob blob = {
                .digest = digest,
                .bytes = bytes,
                .began = { .tv_sec = blob_began },
                .is_arriving = blob_began != COMPLETE,
        };
        uint64_t added;

        assert_ok(fetched_add(fetched, &blob, (struct timespec){ .tv_sec = pull_began }, now_usec,
                              &added));
        return added;
}

TEST(test_rows) {
        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                Fetched fetched = { .n_items = 0 };

                for (size_t k = 0; k < N_MAX && rows[i].seen[k].bytes > 0; k++)
                        if (add(&fetched, "sha256:a", rows[i].seen[k].pull_began,
                                rows[i].seen[k].blob_began, rows[i].seen[k].bytes,
                                1) != rows[i].seen[k].added)
                                fail_msg("%s: sighting %zu", rows[i].name, k);
                fetched_done(&fetched);
        }
}

TEST(test_each_blob_for_itself) {
        Fetched fetched = { .n_items = 0 };

        assert_int_equal(add(&fetched, "sha256:b", 1, 2, 10, 1), 10);
        assert_int_equal(add(&fetched, "sha256:a", 1, 2, 7, 1), 7);
        assert_ok(add(&fetched, "sha256:b", 1, 2, 10, 1));
        fetched_done(&fetched);
}

/* Later pulls may fetch bytes again that no running pull has seen. */
TEST(test_forgets) {
        Fetched fetched = { .n_items = 0 };

        assert_int_equal(add(&fetched, "sha256:a", 1, 2, 10, 100), 10);
        assert_int_equal(add(&fetched, "sha256:b", 1, 2, 10, 200), 10);
        fetched_forget(&fetched, 200);
        assert_int_equal(fetched.n_items, 1);
        assert_ok(add(&fetched, "sha256:b", 1, 2, 10, 300));
        assert_int_equal(add(&fetched, "sha256:a", 1, 2, 10, 300), 10);
        fetched_done(&fetched);
}
