/* SPDX-License-Identifier: Apache-2.0 */

/*
 * When a node has its images
 */

#include "agent/cluster/images-ready-plan.h"
#include "agent/base/time-units.h"
#include "tests/unit/unit.h"

#define DEADLINE 600 /* in seconds, as all times here */
#define NEVER UINT64_MAX
#define UNKNOWN ((size_t) 9)

static const struct Row {
        const char *name;
        size_t n_images; /* UNKNOWN: the sets are not known */
        ReadyImage images[6];
        bool is_ready; /* the condition is True now */
        bool has_no_deadline;
        uint64_t now;
        const char *wait;
        const char *reason; /* NULL: the condition stays as it is */
        const char *message;
        uint64_t next; /* NEVER: none */
} rows[] = {
        { .name = "no set",
          .now = 1,
          .reason = "NoSets",
          .message = "no image set selects this node",
          .next = NEVER },
        { .name = "all are there",
          .n_images = 2,
          .images = { { "a", "1", 0, READY_THERE, 0, false },
                      { "b", "1", 0, READY_THERE, 0, false } },
          .now = 5,
          .reason = "AllPresent",
          .message = "all 2 images are there",
          .next = NEVER },
        { .name = "one waits for other nodes",
          .n_images = 2,
          .images = { { "a", "1", 0, READY_THERE, 0, false },
                      { "b", "1", 0, READY_MISSING, 30, false } },
          .now = 31,
          .wait = "NodesFirst: why",
          .reason = "ImagesMissing",
          .message = "1 of 2 images are there; missing: b:1; NodesFirst: why",
          .next = 630 },
        { .name = "some are missing, and one was not looked for",
          .n_images = 3,
          .images = { { "a", "1", 0, READY_THERE, 0, false },
                      { "b", "sha256:01", 0, READY_MISSING, 30, false },
                      { "c", "2", 0, READY_UNCHECKED, 20, false } },
          .now = 50,
          .reason = "ImagesMissing",
          .message = "1 of 3 images are there; missing: b@sha256:01, c:2",
          .next = 620 },
        { .name = "the message names three",
          .n_images = 5,
          .images = { { "a", "1", 0, READY_MISSING, 0, false },
                      { "b", "1", 0, READY_MISSING, 0, false },
                      { "c", "1", 0, READY_MISSING, 0, false },
                      { "d", "1", 0, READY_MISSING, 0, false },
                      { "e", "1", 0, READY_MISSING, 0, false } },
          .now = 1,
          .reason = "ImagesMissing",
          .message = "0 of 5 images are there; missing: a:1, b:1, c:1 and 2 more",
          .next = 600 },
        { .name = "a new image of a ready node holds it up only once it is known to be missing",
          .n_images = 1,
          .images = { { "a", "1", 0, READY_UNCHECKED, 100, false } },
          .is_ready = true,
          .now = 101,
          .next = 700 },
        { .name = "a missing image of a ready node does so at once",
          .n_images = 2,
          .images = { { "a", "1", 0, READY_UNCHECKED, 100, false },
                      { "b", "1", 0, READY_MISSING, 100, false } },
          .is_ready = true,
          .now = 101,
          .reason = "ImagesMissing",
          .message = "0 of 2 images are there; missing: a:1, b:1",
          .next = 700 },
        { .name = "right before the deadline",
          .n_images = 2,
          .images = { { "a", "1", 0, READY_THERE, 0, false },
                      { "b", "1", 0, READY_MISSING, 1, false } },
          .now = 600,
          .reason = "ImagesMissing",
          .message = "1 of 2 images are there; missing: b:1",
          .next = 601 },
        { .name = "the deadline has ended",
          .n_images = 2,
          .images = { { "a", "1", 0, READY_THERE, 0, false },
                      { "b", "1", 0, READY_MISSING, 1, false } },
          .now = 601,
          .reason = "GaveUp",
          .message =
                  "1 of 2 images are there; the agent goes on to pull, but no longer waits for: b:1",
          .next = NEVER },
        { .name = "a later image has a deadline of its own",
          .n_images = 2,
          .images = { { "a", "1", 0, READY_MISSING, 0, false },
                      { "b", "1", 0, READY_MISSING, 500, false } },
          .is_ready = true,
          .now = 700,
          .reason = "ImagesMissing",
          .message = "0 of 2 images are there; missing: a:1, b:1",
          .next = 1100 },
        { .name = "an earlier run gave up",
          .n_images = 1,
          .images = { { "a", "1", 0, READY_MISSING, 10, true } },
          .is_ready = true,
          .now = 11,
          .reason = "GaveUp",
          .message =
                  "0 of 1 images are there; the agent goes on to pull, but no longer waits for: a:1",
          .next = NEVER },
        { .name = "after a restart, what an earlier run gave up was not looked for yet",
          .n_images = 1,
          .images = { { "a", "1", 0, READY_UNCHECKED, 10, true } },
          .is_ready = true,
          .now = 11,
          .next = 610 },
        { .name = "nor is that looked for in a whole deadline",
          .n_images = 1,
          .images = { { "a", "1", 0, READY_UNCHECKED, 10, true } },
          .is_ready = true,
          .now = 610,
          .reason = "GaveUp",
          .message =
                  "0 of 1 images are there; the agent goes on to pull, but no longer waits for: a:1",
          .next = NEVER },
        { .name = "a new image of a ready node that is not looked for in a whole deadline",
          .n_images = 2,
          .images = { { "a", "1", 0, READY_THERE, 0, false },
                      { "b", "1", 0, READY_UNCHECKED, 100, false } },
          .is_ready = true,
          .now = 700,
          .reason = "GaveUp",
          .message =
                  "1 of 2 images are there; the agent goes on to pull, but no longer waits for: b:1",
          .next = NEVER },
        { .name = "as long as one of them has time, it stays open",
          .n_images = 2,
          .images = { { "a", "1", 0, READY_UNCHECKED, 200, false },
                      { "b", "1", 0, READY_UNCHECKED, 100, false } },
          .is_ready = true,
          .now = 700,
          .next = 800 },
        { .name = "without a deadline it waits for ever",
          .n_images = 1,
          .images = { { "a", "1", 0, READY_MISSING, 0, false } },
          .has_no_deadline = true,
          .now = 1000000,
          .reason = "ImagesMissing",
          .message = "0 of 1 images are there; missing: a:1",
          .next = NEVER },
        { .name = "the sets are not known yet", .n_images = UNKNOWN, .now = 599, .next = 600 },
        { .name = "the sets are never known",
          .n_images = UNKNOWN,
          .now = 600,
          .reason = "GaveUp",
          .message = "after 600 s it is not known which images this node needs",
          .next = NEVER },
        { .name = "not known after a restart on a ready node",
          .n_images = UNKNOWN,
          .is_ready = true,
          .now = 5000,
          .next = NEVER },
};

static uint64_t to_usec(uint64_t seconds) {
        return seconds * USEC_PER_SEC;
}

TEST_ROWS(test_decision, rows, name, const struct Row *row) {
        cleanup(ready_decision_done) ReadyDecision decision = { .message = NULL };
        ReadyImage images[6];

        for (size_t i = 0; i < 6; i++) {
                images[i] = row->images[i];
                images[i].since_usec = to_usec(images[i].since_usec);
        }
        assert_ok(images_ready_plan(
                &(ReadyInput){
                        .images = images,
                        .n_images = row->n_images == UNKNOWN ? 0 : row->n_images,
                        .wait = row->wait,
                        .is_known = row->n_images != UNKNOWN,
                        .is_ready = row->is_ready,
                        .deadline_usec = row->has_no_deadline ? 0 : to_usec(DEADLINE),
                        .now_usec = to_usec(row->now),
                },
                &decision));

        assert_int_equal(decision.is_open, row->reason == NULL);
        assert_int_equal(decision.next_usec, row->next == NEVER ? UINT64_MAX : to_usec(row->next));
        if (row->reason) {
                assert_string_equal(decision.reason, row->reason);
                assert_string_equal(decision.message, row->message);
                assert_int_equal(decision.is_ready, strcmp(row->reason, "ImagesMissing") != 0);
        }
}
