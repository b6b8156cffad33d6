/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Pull plan
 */

#include "agent/image/desired-image.h"
#include "agent/image/pull-plan.h"
#include "tests/unit/unit.h"

#define EVENTS(...) \
        { __VA_ARGS__, -1 }

/* clang-format off */
/* Each line is a history of an image. */
static const struct Story {
        const char *name;
        int events[20];
        PullAction last_action;
        PullState end;
} stories[] = {
        { "is there already", EVENTS(PULL_ON_SLOT, PULL_ON_PRESENT, PULL_ON_ENOUGH), PULL_DO_REPORT,
          PULL_SUCCEEDED },
        { "is pulled at once",
          EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_SLOT, PULL_ON_CREDENTIALS, PULL_ON_PULLED,
          PULL_ON_COUNTED, PULL_ON_IDENTIFIED, PULL_ON_ENOUGH), PULL_DO_REPORT, PULL_SUCCEEDED },
        { "waits for its turn to ask",
          EVENTS(PULL_ON_ABSENT, PULL_ON_PULLED, PULL_ON_TIMER, PULL_ON_RUNTIME_BACK),
          PULL_DO_NOTHING, PULL_QUEUED },
        { "waits for its turn to pull", EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT), PULL_DO_WAIT,
          PULL_WAITING },
        { "asks for its keys", EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_SLOT),
          PULL_DO_AUTHENTICATE, PULL_AUTHENTICATING },
        { "gets no keys now", EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_SLOT, PULL_ON_REFUSED),
          PULL_DO_BACK_OFF, PULL_BACKING_OFF },
        { "gets no keys at all",
          EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_SLOT, PULL_ON_EXHAUSTED), PULL_DO_REPORT,
          PULL_FAILED },
        { "loses the runtime while it asks for keys",
          EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_SLOT, PULL_ON_RUNTIME_AWAY),
          PULL_DO_WAIT_FOR_RUNTIME, PULL_WAITING_FOR_RUNTIME },
        { "is opened by the third key",
          EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_SLOT, PULL_ON_CREDENTIALS, PULL_ON_DENIED,
          PULL_ON_DENIED, PULL_ON_PULLED, PULL_ON_COUNTED, PULL_ON_IDENTIFIED, PULL_ON_ENOUGH),
          PULL_DO_REPORT, PULL_SUCCEEDED },
        { "is asked for with the next key",
          EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_SLOT, PULL_ON_CREDENTIALS, PULL_ON_DENIED),
          PULL_DO_PULL, PULL_PULLING },
        { "is counted before it is identified",
          EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_SLOT, PULL_ON_CREDENTIALS, PULL_ON_PULLED),
          PULL_DO_COUNT, PULL_COUNTING },
        { "counts only when the runtime shows it",
          EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_SLOT, PULL_ON_CREDENTIALS, PULL_ON_PULLED,
          PULL_ON_COUNTED), PULL_DO_IDENTIFY, PULL_IDENTIFYING },
        { "is pulled at the second attempt, after another question",
          EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_SLOT, PULL_ON_CREDENTIALS, PULL_ON_REFUSED,
          PULL_ON_TIMER, PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_SLOT, PULL_ON_CREDENTIALS,
          PULL_ON_PULLED, PULL_ON_COUNTED, PULL_ON_IDENTIFIED, PULL_ON_ENOUGH), PULL_DO_REPORT,
          PULL_SUCCEEDED },
        { "came by itself while the agent backed off",
          EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_SLOT, PULL_ON_CREDENTIALS, PULL_ON_REFUSED,
          PULL_ON_TIMER, PULL_ON_SLOT, PULL_ON_PRESENT, PULL_ON_ENOUGH), PULL_DO_REPORT,
          PULL_SUCCEEDED },
        { "is refused for the last time",
          EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_SLOT, PULL_ON_CREDENTIALS,
          PULL_ON_EXHAUSTED), PULL_DO_REPORT, PULL_FAILED },
        { "cannot be inspected", EVENTS(PULL_ON_SLOT, PULL_ON_REFUSED), PULL_DO_BACK_OFF,
          PULL_BACKING_OFF },
        { "cannot be inspected any more", EVENTS(PULL_ON_SLOT, PULL_ON_EXHAUSTED), PULL_DO_REPORT,
          PULL_FAILED },
        { "cannot be identified",
          EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_SLOT, PULL_ON_CREDENTIALS, PULL_ON_PULLED,
          PULL_ON_COUNTED, PULL_ON_REFUSED), PULL_DO_BACK_OFF, PULL_BACKING_OFF },
        { "cannot be identified any more",
          EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_SLOT, PULL_ON_CREDENTIALS, PULL_ON_PULLED,
          PULL_ON_COUNTED, PULL_ON_EXHAUSTED), PULL_DO_REPORT, PULL_FAILED },
        { "has no runtime to ask", EVENTS(PULL_ON_SLOT, PULL_ON_RUNTIME_AWAY),
          PULL_DO_WAIT_FOR_RUNTIME, PULL_WAITING_FOR_RUNTIME },
        { "loses the runtime in the queue", EVENTS(PULL_ON_RUNTIME_AWAY), PULL_DO_WAIT_FOR_RUNTIME,
          PULL_WAITING_FOR_RUNTIME },
        { "loses the runtime in the second queue",
          EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_RUNTIME_AWAY), PULL_DO_WAIT_FOR_RUNTIME,
          PULL_WAITING_FOR_RUNTIME },
        { "gets no slot without a runtime", EVENTS(PULL_ON_RUNTIME_AWAY, PULL_ON_SLOT),
          PULL_DO_NOTHING, PULL_WAITING_FOR_RUNTIME },
        { "begins anew when the runtime is back",
          EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_SLOT, PULL_ON_CREDENTIALS,
          PULL_ON_RUNTIME_AWAY, PULL_ON_RUNTIME_BACK), PULL_DO_QUEUE, PULL_QUEUED },
        { "breaks the runtime again, and backs off",
          EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_SLOT, PULL_ON_CREDENTIALS,
          PULL_ON_RUNTIME_AWAY, PULL_ON_RUNTIME_FLAPPING), PULL_DO_BACK_OFF, PULL_BACKING_OFF },
        { "loses the runtime after the pull, and asks again",
          EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_SLOT, PULL_ON_CREDENTIALS, PULL_ON_PULLED,
          PULL_ON_COUNTED, PULL_ON_RUNTIME_AWAY, PULL_ON_RUNTIME_BACK, PULL_ON_SLOT,
          PULL_ON_PRESENT, PULL_ON_ENOUGH), PULL_DO_REPORT, PULL_SUCCEEDED },
        { "goes on backing off while the runtime comes and goes",
          EVENTS(PULL_ON_SLOT, PULL_ON_REFUSED, PULL_ON_RUNTIME_AWAY, PULL_ON_RUNTIME_BACK),
          PULL_DO_NOTHING, PULL_BACKING_OFF },
        { "finds the disk too full to begin, and waits for room",
          EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_SLOT, PULL_ON_DISK_LOW),
          PULL_DO_WAIT_FOR_ROOM, PULL_WAITING_FOR_DISK },
        { "asks again when there is room",
          EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_SLOT, PULL_ON_DISK_LOW, PULL_ON_ROOM),
          PULL_DO_QUEUE, PULL_QUEUED },
        { "runs out of time while it waits for room",
          EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_SLOT, PULL_ON_DISK_LOW, PULL_ON_DEADLINE),
          PULL_DO_REPORT, PULL_FAILED },
        { "loses the runtime while it waits for room",
          EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_SLOT, PULL_ON_DISK_LOW, PULL_ON_RUNTIME_AWAY,
          PULL_ON_ROOM), PULL_DO_NOTHING, PULL_WAITING_FOR_RUNTIME },
        { "is given up before the disk is full, and backs off",
          EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_SLOT, PULL_ON_CREDENTIALS,
          PULL_ON_DISK_CRITICAL), PULL_DO_BACK_OFF, PULL_BACKING_OFF },
        { "turns out to be larger than what is free, and waits for room",
          EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_SLOT, PULL_ON_CREDENTIALS,
          PULL_ON_TOO_LARGE), PULL_DO_WAIT_FOR_ROOM, PULL_WAITING_FOR_DISK },
        { "asks how large it is by now",
          EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_SLOT, PULL_ON_CREDENTIALS, PULL_ON_TOO_LARGE,
          PULL_ON_TIMER), PULL_DO_QUEUE, PULL_QUEUED },
        { "goes on once it runs, although the disk has got low",
          EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_SLOT, PULL_ON_CREDENTIALS, PULL_ON_DISK_LOW,
          PULL_ON_PULLED, PULL_ON_COUNTED, PULL_ON_IDENTIFIED, PULL_ON_ENOUGH), PULL_DO_REPORT,
          PULL_SUCCEEDED },
        { "waits for other nodes, outside the queue",
          EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_SLOT, PULL_ON_GATE_SHUT, PULL_ON_PAUSE,
          PULL_ON_RESUME), PULL_DO_NOTHING, PULL_HELD },
        { "has its turn when other nodes have pulled, and asks for the image again",
          EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_SLOT, PULL_ON_GATE_SHUT, PULL_ON_GATE_OPEN),
          PULL_DO_QUEUE, PULL_QUEUED },
        { "loses the runtime while it waits for other nodes",
          EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_SLOT, PULL_ON_GATE_SHUT,
          PULL_ON_RUNTIME_AWAY, PULL_ON_GATE_OPEN), PULL_DO_NOTHING, PULL_WAITING_FOR_RUNTIME },
        { "pulls, and needs the gate no more",
          EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_SLOT, PULL_ON_CREDENTIALS,
          PULL_ON_GATE_SHUT), PULL_DO_NOTHING, PULL_PULLING },
        { "waits in its queue while a pod waits",
          EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_PAUSE), PULL_DO_PAUSE, PULL_PAUSED },
        { "yields to a pod, and says for which one",
          EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_SLOT, PULL_ON_CREDENTIALS, PULL_ON_PAUSE,
          PULL_ON_PAUSE), PULL_DO_PAUSE, PULL_PAUSED },
        { "yields to a pod while it asks for keys",
          EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_SLOT, PULL_ON_PAUSE), PULL_DO_PAUSE,
          PULL_PAUSED },
        { "has its place in the queue when no pod waits any more",
          EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_SLOT, PULL_ON_CREDENTIALS, PULL_ON_PAUSE,
          PULL_ON_RESUME), PULL_DO_WAIT, PULL_WAITING },
        { "has waited so long that it is asked for once more",
          EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_LATE_SLOT), PULL_DO_INSPECT, PULL_CHECKING },
        { "came by itself while the agent waited for a slot",
          EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_LATE_SLOT, PULL_ON_PRESENT, PULL_ON_ENOUGH),
          PULL_DO_REPORT, PULL_SUCCEEDED },
        { "is still not there, and is pulled",
          EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_LATE_SLOT, PULL_ON_ABSENT),
          PULL_DO_AUTHENTICATE, PULL_AUTHENTICATING },
        { "yields to a pod while it is asked for once more",
          EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_LATE_SLOT, PULL_ON_PAUSE), PULL_DO_PAUSE,
          PULL_PAUSED },
        { "goes on after a pod",
          EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_SLOT, PULL_ON_CREDENTIALS, PULL_ON_PAUSE,
          PULL_ON_RESUME, PULL_ON_SLOT, PULL_ON_CREDENTIALS, PULL_ON_PULLED, PULL_ON_COUNTED,
          PULL_ON_IDENTIFIED, PULL_ON_ENOUGH), PULL_DO_REPORT, PULL_SUCCEEDED },
        { "has fetched all, and does not yield",
          EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_SLOT, PULL_ON_CREDENTIALS, PULL_ON_PULLED,
          PULL_ON_PAUSE), PULL_DO_NOTHING, PULL_COUNTING },
        { "loses the runtime while a pod waits",
          EVENTS(PULL_ON_SLOT, PULL_ON_ABSENT, PULL_ON_PAUSE, PULL_ON_RUNTIME_AWAY, PULL_ON_RESUME),
          PULL_DO_NOTHING, PULL_WAITING_FOR_RUNTIME },
        { "is there in part, and is waited for",
          EVENTS(PULL_ON_SLOT, PULL_ON_PRESENT, PULL_ON_INCOMPLETE), PULL_DO_WAIT_FOR_LAYERS,
          PULL_COMPLETING },
        { "is asked for its layers until they are there",
          EVENTS(PULL_ON_SLOT, PULL_ON_PRESENT, PULL_ON_INCOMPLETE, PULL_ON_TIMER,
          PULL_ON_INCOMPLETE, PULL_ON_TIMER, PULL_ON_ENOUGH), PULL_DO_REPORT, PULL_SUCCEEDED },
        { "loses the runtime while it fetches layers",
          EVENTS(PULL_ON_SLOT, PULL_ON_PRESENT, PULL_ON_INCOMPLETE, PULL_ON_RUNTIME_AWAY,
          PULL_ON_TIMER), PULL_DO_NOTHING, PULL_WAITING_FOR_RUNTIME },
        { "cannot be seen to get all layers",
          EVENTS(PULL_ON_SLOT, PULL_ON_PRESENT, PULL_ON_EXHAUSTED), PULL_DO_REPORT, PULL_FAILED },
        { "runs out of time while it backs off",
          EVENTS(PULL_ON_SLOT, PULL_ON_REFUSED, PULL_ON_DEADLINE), PULL_DO_REPORT, PULL_FAILED },
};
/* clang-format on */

TEST_ROWS(test_story, stories, name, const struct Story *story) {
        PullState now = PULL_QUEUED;
        PullAction action = PULL_DO_NOTHING;

        for (const int *event = story->events; *event >= 0; event++)
                action = pull_plan_step(&now, (PullEvent) *event);

        assert_string_equal(pull_state_to_string(now), pull_state_to_string(story->end));
        assert_int_equal(action, story->last_action);
}

#define NONE DESIRED_IMAGE_NO_LIMIT

/* Cases of failures, and the judgement on each. */
TEST(test_judgement) {
        static const struct {
                PullReason reason;
                PullFailures failures;
                int64_t backoff_limit, refusal_limit;
                PullEvent event;
        } rows[] = {
                { PULL_REASON_NOT_FOUND, { 1, 1 }, 0, NONE, PULL_ON_EXHAUSTED },
                { PULL_REASON_NOT_FOUND, { 1, 1 }, 1, NONE, PULL_ON_REFUSED },
                { PULL_REASON_NOT_FOUND, { 2, 2 }, 1, NONE, PULL_ON_EXHAUSTED },
                { PULL_REASON_NOT_FOUND, { UINT32_MAX, 1 }, INT32_MAX, NONE, PULL_ON_EXHAUSTED },
                { PULL_REASON_NOT_FOUND, { 1, 1 }, NONE, NONE, PULL_ON_REFUSED },
                { PULL_REASON_UNAUTHORIZED, { UINT32_MAX, 1 }, NONE, NONE, PULL_ON_REFUSED },
                { PULL_REASON_REGISTRY_UNREACHABLE, { 9999, 0 }, NONE, NONE, PULL_ON_REFUSED },
                { PULL_REASON_UNSUPPORTED, { 1, 0 }, NONE, NONE, PULL_ON_EXHAUSTED },
                { PULL_REASON_UNSUPPORTED, { 1, 0 }, 9, NONE, PULL_ON_EXHAUSTED },
                { PULL_REASON_INVALID_REFERENCE, { 1, 0 }, NONE, NONE, PULL_ON_EXHAUSTED },
                { PULL_REASON_NOT_FOUND, { 1, 1 }, NONE, 0, PULL_ON_EXHAUSTED },
                { PULL_REASON_NOT_FOUND, { 4, 4 }, NONE, 4, PULL_ON_REFUSED },
                { PULL_REASON_NOT_FOUND, { 9, 4 }, NONE, 4, PULL_ON_REFUSED },
                { PULL_REASON_NOT_FOUND, { 9, 5 }, NONE, 4, PULL_ON_EXHAUSTED },
                { PULL_REASON_NOT_FOUND, { 3, 3 }, 2, 4, PULL_ON_EXHAUSTED },
                { PULL_REASON_REGISTRY_UNREACHABLE, { 9999, 4 }, NONE, 4, PULL_ON_REFUSED },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                const DesiredImage limits = { .backoff_limit = rows[i].backoff_limit,
                                              .refusal_limit = rows[i].refusal_limit };

                assert_int_equal(pull_plan_judge(rows[i].reason, rows[i].failures, &limits),
                                 rows[i].event);
        }
}

/* After three failures, two of them refusals. A request's own attempts are those since it joined. */
TEST(test_outcome_while_the_pull_goes_on) {
        static const struct {
                int64_t backoff_limit, refusal_limit;
                PullFailures before;
                bool has_failed;
        } rows[] = { { 0, NONE, { 0, 0 }, true },     { 1, NONE, { 0, 0 }, true },
                     { 2, NONE, { 0, 0 }, true },     { 3, NONE, { 0, 0 }, false },
                     { 0, NONE, { 1, 0 }, true },     { 1, NONE, { 1, 0 }, true },
                     { 1, NONE, { 2, 1 }, false },    { 0, NONE, { 3, 2 }, false },
                     { NONE, NONE, { 0, 0 }, false }, { NONE, 1, { 0, 0 }, true },
                     { NONE, 2, { 0, 0 }, false },    { NONE, 1, { 1, 0 }, true },
                     { NONE, 1, { 2, 1 }, false },    { NONE, 0, { 2, 1 }, true },
                     { NONE, 0, { 3, 2 }, false } };
        const DesiredImage all = { .backoff_limit = NONE, .refusal_limit = NONE };
        const PullResult result = { .phase = IMAGE_BACKING_OFF,
                                    .reason = PULL_REASON_NOT_FOUND,
                                    .failures = { 3, 2 },
                                    .desired = &all };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                const DesiredImage desired = { .backoff_limit = rows[i].backoff_limit,
                                               .refusal_limit = rows[i].refusal_limit };
                const PullJoin join = { .failures_before_join = rows[i].before };

                if (pull_plan_outcome(&result, &join, &desired) !=
                    (rows[i].has_failed ? REQUEST_FAILED : REQUEST_PENDING))
                        fail_msg("row %zu", i);
        }
}

/* A request ends with the pull, or without waiting for layers. */
TEST(test_outcome_of_requests) {
        static const struct {
                const char *name;
                ImagePhase phase;
                PullReason reason;
                bool is_held, is_complete, joined_running;
                int64_t timeout_sec; /* the pull has 600 */
                RequestOutcome outcome;
        } rows[] = {
                { "it runs", IMAGE_PULLING, PULL_REASON_NONE, false, false, false, 600,
                  REQUEST_PENDING },
                { "it has succeeded", IMAGE_SUCCEEDED, PULL_REASON_NONE, false, true, false, 900,
                  REQUEST_SUCCEEDED },
                { "it has failed", IMAGE_FAILED, PULL_REASON_NOT_FOUND, false, false, false, 600,
                  REQUEST_FAILED },
                { "more time could help", IMAGE_FAILED, PULL_REASON_NOT_FOUND, false, false, false,
                  900, REQUEST_PENDING },
                { "an attempt has failed", IMAGE_BACKING_OFF, PULL_REASON_NOT_FOUND, false, false,
                  false, 600, REQUEST_FAILED },
                { "more time could help the next one", IMAGE_BACKING_OFF, PULL_REASON_NOT_FOUND,
                  false, false, false, 900, REQUEST_PENDING },
                { "its deadline is over", IMAGE_FAILED, PULL_REASON_DEADLINE, false, false, false,
                  600, REQUEST_FAILED },
                { "this one came later", IMAGE_FAILED, PULL_REASON_DEADLINE, false, false, true,
                  600, REQUEST_PENDING },
                { "the image is there", IMAGE_PULLING, PULL_REASON_NONE, true, false, false, 600,
                  REQUEST_SUCCEEDED },
                { "all layers are wanted", IMAGE_PULLING, PULL_REASON_NONE, true, true, false, 600,
                  REQUEST_PENDING },
                { "they did not come", IMAGE_FAILED, PULL_REASON_NO_PROGRESS, true, true, false,
                  600, REQUEST_FAILED },
                { "they were not wanted", IMAGE_FAILED, PULL_REASON_NO_PROGRESS, true, false, false,
                  600, REQUEST_SUCCEEDED },
        };
        const DesiredImage all = { .timeout_sec = 600 };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                const DesiredImage desired = { .timeout_sec = rows[i].timeout_sec,
                                               .is_complete = rows[i].is_complete };
                const PullJoin join = { .joined_running = rows[i].joined_running };
                const PullResult result = { .phase = rows[i].phase,
                                            .reason = rows[i].reason,
                                            .failures.n = rows[i].phase == IMAGE_BACKING_OFF,
                                            .is_held = rows[i].is_held,
                                            .desired = &all };

                if (pull_plan_outcome(&result, &join, &desired) != rows[i].outcome)
                        fail_msg("%s", rows[i].name);
        }
}

/* The time of a request begins with that of the pull, or when it joins. */
TEST(test_time_left) {
        static const struct {
                bool is_timed;
                uint64_t elapsed_sec, before_sec;
                int64_t limit_sec, pull_limit_sec;
                uint64_t left_sec;
        } rows[] = {
                { false, 0, 0, 0, NONE, UINT64_MAX },
                { true, 5, 0, NONE, NONE, UINT64_MAX },
                { true, 5, 0, 7, NONE, 2 },
                { true, 7, 0, 7, NONE, 0 },
                { true, 9, 0, 7, NONE, 0 },
                { true, 9, 5, 7, 13, 3 },
                { true, 2, 5, 7, 3600, 10 },
                { true, 0, 0, 0, 1, 0 },
                { true, 1, 0, INT32_MAX, NONE, INT32_MAX - 1 },
                /* the pull ends first, or then */
                { true, 9, 5, 7, 12, UINT64_MAX },
                { true, 5, 0, 7, 7, UINT64_MAX },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                const DesiredImage desired = { .active_deadline_sec = rows[i].limit_sec };
                const PullJoin join = { .elapsed_before_join = rows[i].before_sec * SEC };
                const DesiredImage merged = { .active_deadline_sec = rows[i].pull_limit_sec };
                const PullResult result = { .is_timed = rows[i].is_timed,
                                            .elapsed_usec = rows[i].elapsed_sec * SEC,
                                            .desired = &merged };
                uint64_t left_usec = pull_plan_left_usec(&result, &join, &desired);

                if (left_usec !=
                    (rows[i].left_sec == UINT64_MAX ? UINT64_MAX : rows[i].left_sec * SEC))
                        fail_msg("row %zu", i);
        }
}

/* "(attempt 2 of 5)": how many there will be if the next ones end like this one. */
TEST(test_number_of_attempts) {
        static const struct {
                PullReason reason;
                bool is_refusal;
                PullFailures failures;
                int64_t backoff_limit, refusal_limit;
                uint64_t n;
        } rows[] = {
                { PULL_REASON_NOT_FOUND, true, { 1, 1 }, NONE, NONE, 0 },
                { PULL_REASON_NOT_FOUND, true, { 1, 1 }, 3, NONE, 4 },
                { PULL_REASON_NOT_FOUND, true, { 1, 1 }, NONE, 4, 5 },
                { PULL_REASON_NOT_FOUND, true, { 3, 1 }, NONE, 4, 7 },
                { PULL_REASON_NOT_FOUND, true, { 3, 1 }, 3, 4, 4 },
                { PULL_REASON_NOT_FOUND, true, { 1, 1 }, INT32_MAX, NONE, INT32_MAX + (int64_t) 1 },
                { PULL_REASON_REGISTRY_UNREACHABLE, false, { 3, 1 }, NONE, 4, 0 },
                { PULL_REASON_REGISTRY_UNREACHABLE, false, { 3, 1 }, 9, 4, 10 },
                { PULL_REASON_UNSUPPORTED, false, { 3, 1 }, NONE, 4, 3 },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                const DesiredImage limits = { .backoff_limit = rows[i].backoff_limit,
                                              .refusal_limit = rows[i].refusal_limit };

                assert_int_equal(pull_plan_n_attempts(rows[i].reason, rows[i].is_refusal,
                                                      rows[i].failures, &limits),
                                 rows[i].n);
        }
}

TEST(test_pauses) {
        static const struct {
                int64_t backoff_limit;
                uint64_t min_sec, max_sec;
        } rows[] = { { 0, 1, 30 }, { 3, 1, 30 }, { DESIRED_IMAGE_NO_LIMIT, 5, 300 } };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                PullPauses pauses = pull_plan_pauses(rows[i].backoff_limit);

                assert_int_equal(pauses.min_usec, rows[i].min_sec * 1000000);
                assert_int_equal(pauses.max_usec, rows[i].max_sec * 1000000);
        }
}

/* In any order of events, an outcome is reported once, and stands. */
TEST(test_outcome_is_final) {
        for (unsigned seed = 0; seed < 10000; seed++) {
                PullState now = PULL_QUEUED;
                unsigned n_reports = 0;

                srandom(seed);
                for (unsigned i = 0; i < 100; i++) {
                        PullState before = now;
                        PullAction action;

                        action = pull_plan_step(&now, (PullEvent) (random() % _PULL_EVENT_MAX));
                        n_reports += action == PULL_DO_REPORT;
                        if (pull_state_is_final(before) && (now != before || action))
                                fail_msg("seed %u: left %s", seed, pull_state_to_string(before));
                        if (n_reports != pull_state_is_final(now))
                                fail_msg("seed %u: %u reports", seed, n_reports);
                }
        }
}

/* No state can be stuck: from each one, the deadline alone leads to an outcome. */
TEST(test_deadline_always_ends_it) {
        for (PullState from = 0; from < _PULL_STATE_MAX; from++) {
                PullState now = from;
                PullAction action = pull_plan_step(&now, PULL_ON_DEADLINE);

                if (pull_state_is_final(from)) {
                        assert_int_equal(now, from);
                        continue;
                }
                assert_int_equal(now, PULL_FAILED);
                assert_int_equal(action, PULL_DO_REPORT);
        }
}

/* Marks what can be reached from a state. */
static void explore(PullState from, bool reached[static _PULL_STATE_MAX]) {
        if (reached[from])
                return;

        reached[from] = true;
        for (PullEvent event = 0; event < _PULL_EVENT_MAX; event++) {
                PullState to = from;

                (void) pull_plan_step(&to, event);
                explore(to, reached);
        }
}

TEST(test_every_state_is_reached) {
        bool reached[_PULL_STATE_MAX] = { false };

        explore(PULL_QUEUED, reached);
        for (PullState to = 0; to < _PULL_STATE_MAX; to++)
                if (!reached[to])
                        fail_msg("nothing leads to %s", pull_state_to_string(to));
}

TEST(test_success_is_always_possible) {
        for (PullState from = 0; from < _PULL_STATE_MAX; from++) {
                bool reached[_PULL_STATE_MAX] = { false };

                explore(from, reached);
                if (!reached[PULL_SUCCEEDED] && from != PULL_FAILED)
                        fail_msg("no way out of %s", pull_state_to_string(from));
        }
}

/* Each action that asks a question goes with the state that waits for the answer. */
TEST(test_action_fits_the_state) {
        static const PullAction actions[_PULL_STATE_MAX] = {
                [PULL_QUEUED] = PULL_DO_QUEUE,
                [PULL_INSPECTING] = PULL_DO_INSPECT,
                [PULL_WAITING] = PULL_DO_WAIT,
                [PULL_PAUSED] = PULL_DO_PAUSE,
                [PULL_CHECKING] = PULL_DO_INSPECT,
                [PULL_PULLING] = PULL_DO_PULL,
                [PULL_IDENTIFYING] = PULL_DO_IDENTIFY,
                [PULL_BACKING_OFF] = PULL_DO_BACK_OFF,
                [PULL_HELD] = PULL_DO_HOLD,
                [PULL_WAITING_FOR_DISK] = PULL_DO_WAIT_FOR_ROOM,
                [PULL_WAITING_FOR_RUNTIME] = PULL_DO_WAIT_FOR_RUNTIME,
                [PULL_SUCCEEDED] = PULL_DO_REPORT,
                [PULL_FAILED] = PULL_DO_REPORT,
                [PULL_AUTHENTICATING] = PULL_DO_AUTHENTICATE,
                [PULL_COUNTING] = PULL_DO_COUNT,
                [PULL_ASSESSING] = PULL_DO_ASSESS,
                [PULL_COMPLETING] = PULL_DO_WAIT_FOR_LAYERS,
        };

        for (PullState from = 0; from < _PULL_STATE_MAX; from++)
                for (PullEvent event = 0; event < _PULL_EVENT_MAX; event++) {
                        PullState to = from;
                        PullAction action = pull_plan_step(&to, event);

                        if (action != PULL_DO_NOTHING ? action != actions[to] : to != from)
                                fail_msg("%s, event %d", pull_state_to_string(from), (int) event);
                }
}

/* A place in a queue is kept until the awaited event has come, and no timer or place survives the outcome. */
TEST(test_what_is_released) {
        static const struct {
                PullState from;
                PullState to;
                unsigned released;
        } rows[] = {
                { PULL_QUEUED, PULL_INSPECTING, 0 },
                { PULL_INSPECTING, PULL_WAITING, PULL_RESOURCE_INSPECTION | PULL_RESOURCE_CALL },
                { PULL_INSPECTING, PULL_BACKING_OFF,
                  PULL_RESOURCE_INSPECTION | PULL_RESOURCE_CALL },
                { PULL_WAITING, PULL_AUTHENTICATING, 0 },
                { PULL_WAITING, PULL_CHECKING, 0 },
                { PULL_CHECKING, PULL_AUTHENTICATING, PULL_RESOURCE_CALL },
                { PULL_CHECKING, PULL_ASSESSING, PULL_RESOURCE_CALL },
                { PULL_CHECKING, PULL_PAUSED, PULL_RESOURCE_CALL },
                { PULL_WAITING, PULL_WAITING_FOR_RUNTIME, PULL_RESOURCE_SLOT },
                { PULL_AUTHENTICATING, PULL_PULLING, PULL_RESOURCE_CREDENTIALS },
                { PULL_PULLING, PULL_PULLING, 0 },
                { PULL_PULLING, PULL_COUNTING,
                  PULL_RESOURCE_CALL | PULL_RESOURCE_REQUEST | PULL_RESOURCE_DISK },
                { PULL_COUNTING, PULL_IDENTIFYING, PULL_RESOURCE_PROGRESS },
                { PULL_AUTHENTICATING, PULL_WAITING_FOR_DISK,
                  PULL_RESOURCE_SLOT | PULL_RESOURCE_CREDENTIALS },
                { PULL_WAITING_FOR_DISK, PULL_QUEUED, PULL_RESOURCE_DISK | PULL_RESOURCE_RETRY },
                { PULL_PULLING, PULL_WAITING_FOR_DISK,
                  PULL_RESOURCE_SLOT | PULL_RESOURCE_CALL | PULL_RESOURCE_REQUEST |
                          PULL_RESOURCE_PROGRESS },
                { PULL_PULLING, PULL_BACKING_OFF,
                  PULL_RESOURCE_SLOT | PULL_RESOURCE_CALL | PULL_RESOURCE_REQUEST |
                          PULL_RESOURCE_PROGRESS | PULL_RESOURCE_DISK },
                { PULL_PULLING, PULL_PAUSED,
                  PULL_RESOURCE_CALL | PULL_RESOURCE_REQUEST | PULL_RESOURCE_PROGRESS |
                          PULL_RESOURCE_DISK },
                { PULL_AUTHENTICATING, PULL_PAUSED, PULL_RESOURCE_CREDENTIALS },
                { PULL_PAUSED, PULL_WAITING, 0 },
                { PULL_AUTHENTICATING, PULL_HELD, PULL_RESOURCE_SLOT | PULL_RESOURCE_CREDENTIALS },
                { PULL_HELD, PULL_QUEUED, 0 },
                { PULL_BACKING_OFF, PULL_QUEUED, PULL_RESOURCE_RETRY },
                { PULL_BACKING_OFF, PULL_FAILED, PULL_RESOURCE_RETRY | PULL_RESOURCE_DEADLINE },
                { PULL_INSPECTING, PULL_ASSESSING, PULL_RESOURCE_CALL },
                { PULL_IDENTIFYING, PULL_ASSESSING, PULL_RESOURCE_CALL },
                { PULL_ASSESSING, PULL_COMPLETING,
                  PULL_RESOURCE_INSPECTION | PULL_RESOURCE_SLOT | PULL_RESOURCE_LAYERS },
                { PULL_ASSESSING, PULL_SUCCEEDED,
                  PULL_RESOURCE_INSPECTION | PULL_RESOURCE_SLOT | PULL_RESOURCE_LAYERS |
                          PULL_RESOURCE_DEADLINE },
                { PULL_COMPLETING, PULL_ASSESSING, PULL_RESOURCE_RETRY },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++)
                if (pull_plan_release(rows[i].from, rows[i].to) != rows[i].released)
                        fail_msg("from %s to %s: 0x%x", pull_state_to_string(rows[i].from),
                                 pull_state_to_string(rows[i].to),
                                 pull_plan_release(rows[i].from, rows[i].to));
}

TEST(test_states_have_names) {
        for (PullState a = 0; a < _PULL_STATE_MAX; a++) {
                assert_non_null(pull_state_to_string(a));
                for (PullState b = 0; b < a; b++)
                        assert_string_not_equal(pull_state_to_string(a), pull_state_to_string(b));
        }
}
