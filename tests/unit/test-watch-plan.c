/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Watch plan
 */

#include "agent/kube/watch-plan.h"
#include "tests/unit/unit.h"

#define HAPPENINGS(...) \
        { __VA_ARGS__, -1 }

/* Each line is a course of a watch. */
static const struct Story {
        const char *name;
        int happenings[16];
        WatchAction last_action;
        WatchStep end;
} stories[] = {
        { "begins with a stream", HAPPENINGS(WATCH_ON_TIMER), WATCH_DO_STREAM, WATCH_STREAMING },
        { "goes on in the stream", HAPPENINGS(WATCH_ON_TIMER, WATCH_ON_LISTED), WATCH_DO_SYNC,
          WATCH_WATCHING },
        { "pages where streams are unknown", HAPPENINGS(WATCH_ON_TIMER, WATCH_ON_UNSTREAMABLE),
          WATCH_DO_PAGE, WATCH_PAGING },
        { "pages where lists have no end", HAPPENINGS(WATCH_ON_TIMER, WATCH_ON_SILENCE),
          WATCH_DO_PAGE, WATCH_PAGING },
        { "pages where the stream ends before the list", HAPPENINGS(WATCH_ON_TIMER, WATCH_ON_ENDED),
          WATCH_DO_PAGE, WATCH_PAGING },
        { "turns pages, then watches",
          HAPPENINGS(WATCH_ON_TIMER, WATCH_ON_UNSTREAMABLE, WATCH_ON_PAGE, WATCH_ON_PAGE,
                     WATCH_ON_LISTED),
          WATCH_DO_SYNC_AND_WATCH, WATCH_WATCHING },
        { "does not stream again",
          HAPPENINGS(WATCH_ON_TIMER, WATCH_ON_UNSTREAMABLE, WATCH_ON_LISTED, WATCH_ON_GONE,
                     WATCH_ON_TIMER),
          WATCH_DO_PAGE, WATCH_PAGING },
        { "streams again if it did",
          HAPPENINGS(WATCH_ON_TIMER, WATCH_ON_LISTED, WATCH_ON_GONE, WATCH_ON_TIMER),
          WATCH_DO_STREAM, WATCH_STREAMING },
        { "streams again after a refusal",
          HAPPENINGS(WATCH_ON_TIMER, WATCH_ON_REFUSED, WATCH_ON_TIMER), WATCH_DO_STREAM,
          WATCH_STREAMING },
        { "lists again when a page is gone",
          HAPPENINGS(WATCH_ON_TIMER, WATCH_ON_UNSTREAMABLE, WATCH_ON_PAGE, WATCH_ON_GONE),
          WATCH_DO_WAIT, WATCH_RELISTING },
        { "watches on at once",
          HAPPENINGS(WATCH_ON_TIMER, WATCH_ON_LISTED, WATCH_ON_ENDED, WATCH_ON_ENDED),
          WATCH_DO_WATCH, WATCH_WATCHING },
        { "watches on later", HAPPENINGS(WATCH_ON_TIMER, WATCH_ON_LISTED, WATCH_ON_REFUSED),
          WATCH_DO_WAIT, WATCH_REWATCHING },
        { "watches on after the wait",
          HAPPENINGS(WATCH_ON_TIMER, WATCH_ON_LISTED, WATCH_ON_REFUSED, WATCH_ON_TIMER),
          WATCH_DO_WATCH, WATCH_WATCHING },
        { "lists again after a silence",
          HAPPENINGS(WATCH_ON_TIMER, WATCH_ON_LISTED, WATCH_ON_SILENCE, WATCH_ON_TIMER),
          WATCH_DO_STREAM, WATCH_STREAMING },
        { "lists again when it is stale",
          HAPPENINGS(WATCH_ON_TIMER, WATCH_ON_LISTED, WATCH_ON_STALE, WATCH_ON_TIMER),
          WATCH_DO_STREAM, WATCH_STREAMING },
        { "lists again when it is stale while it waits",
          HAPPENINGS(WATCH_ON_TIMER, WATCH_ON_LISTED, WATCH_ON_REFUSED, WATCH_ON_STALE,
                     WATCH_ON_TIMER),
          WATCH_DO_STREAM, WATCH_STREAMING },
        { "lists again when it is stale while it streams a list",
          HAPPENINGS(WATCH_ON_TIMER, WATCH_ON_STALE, WATCH_ON_TIMER), WATCH_DO_STREAM,
          WATCH_STREAMING },
        { "lists again when it is stale while it turns pages",
          HAPPENINGS(WATCH_ON_TIMER, WATCH_ON_UNSTREAMABLE, WATCH_ON_PAGE, WATCH_ON_STALE,
                     WATCH_ON_TIMER),
          WATCH_DO_PAGE, WATCH_PAGING },
        { "does not list earlier when it is stale and about to list",
          HAPPENINGS(WATCH_ON_TIMER, WATCH_ON_REFUSED, WATCH_ON_STALE), WATCH_DO_NOTHING,
          WATCH_RELISTING },
        { "lists again when it may not watch",
          HAPPENINGS(WATCH_ON_TIMER, WATCH_ON_LISTED, WATCH_ON_DENIED, WATCH_ON_TIMER),
          WATCH_DO_STREAM, WATCH_STREAMING },
        { "lists again after garbage",
          HAPPENINGS(WATCH_ON_TIMER, WATCH_ON_LISTED, WATCH_ON_GARBAGE, WATCH_ON_TIMER),
          WATCH_DO_STREAM, WATCH_STREAMING },
        { "is listed once", HAPPENINGS(WATCH_ON_TIMER, WATCH_ON_LISTED, WATCH_ON_LISTED),
          WATCH_DO_NOTHING, WATCH_WATCHING },
};

TEST_ROWS(test_story, stories, name, const struct Story *story) {
        WatchPlan plan = { .step = WATCH_RELISTING };
        WatchAction action = WATCH_DO_NOTHING;

        for (const int *event = story->happenings; *event >= 0; event++)
                action = watch_plan_step(&plan, (WatchPlanEvent) *event);

        assert_int_equal(plan.step, story->end);
        assert_int_equal(action, story->last_action);
}

/* Each action that needs an answer goes with the step that waits for it. */
TEST(test_action_fits_the_step) {
        static const bool fits[_WATCH_ACTION_MAX][_WATCH_STEP_MAX] = {
                [WATCH_DO_STREAM] = { [WATCH_STREAMING] = true },
                [WATCH_DO_PAGE] = { [WATCH_PAGING] = true },
                [WATCH_DO_SYNC] = { [WATCH_WATCHING] = true },
                [WATCH_DO_WATCH] = { [WATCH_WATCHING] = true },
                [WATCH_DO_SYNC_AND_WATCH] = { [WATCH_WATCHING] = true },
                [WATCH_DO_WAIT] = { [WATCH_RELISTING] = true, [WATCH_REWATCHING] = true },
        };

        for (int is_paged = 0; is_paged < 2; is_paged++)
                for (WatchStep from = 0; from < _WATCH_STEP_MAX; from++)
                        for (WatchPlanEvent on = 0; on < _WATCH_PLAN_EVENT_MAX; on++) {
                                WatchPlan plan = { .step = from, .is_paged = is_paged };
                                WatchAction action = watch_plan_step(&plan, on);

                                if (action == WATCH_DO_NOTHING ? plan.step != from
                                                               : !fits[action][plan.step])
                                        fail_msg("step %d, event %d", (int) from, (int) on);
                        }
}

/* Every end of a request leads on, in every step. */
TEST(test_never_stuck) {
        static const WatchStep asking[] = { WATCH_STREAMING, WATCH_PAGING, WATCH_WATCHING };

        for (size_t i = 0; i < 3; i++)
                for (WatchPlanEvent on = WATCH_ON_GONE; on < _WATCH_PLAN_EVENT_MAX; on++) {
                        WatchPlan plan = { .step = asking[i] };

                        assert_int_equal(watch_plan_step(&plan, on), WATCH_DO_WAIT);
                        assert_int_not_equal(watch_plan_step(&plan, WATCH_ON_TIMER),
                                             WATCH_DO_NOTHING);
                }
}

static const struct Refusal {
        WatchStep step;
        int code;
        bool is_retriable;
        WatchPlanEvent of_request;
        WatchPlanEvent of_event;
} refusals[] = {
        { WATCH_STREAMING, 400, false, WATCH_ON_UNSTREAMABLE, WATCH_ON_UNSTREAMABLE },
        { WATCH_STREAMING, 422, false, WATCH_ON_UNSTREAMABLE, WATCH_ON_UNSTREAMABLE },
        { WATCH_STREAMING, 500, true, WATCH_ON_REFUSED, WATCH_ON_UNSTREAMABLE },
        { WATCH_STREAMING, 503, true, WATCH_ON_REFUSED, WATCH_ON_REFUSED },
        { WATCH_STREAMING, 504, true, WATCH_ON_REFUSED, WATCH_ON_REFUSED },
        { WATCH_STREAMING, 429, true, WATCH_ON_REFUSED, WATCH_ON_REFUSED },
        { WATCH_STREAMING, 0, true, WATCH_ON_REFUSED, WATCH_ON_UNSTREAMABLE },
        { WATCH_STREAMING, 410, false, WATCH_ON_GONE, WATCH_ON_GONE },
        { WATCH_STREAMING, 404, false, WATCH_ON_DENIED, WATCH_ON_UNSTREAMABLE },
        { WATCH_STREAMING, 403, false, WATCH_ON_DENIED, WATCH_ON_UNSTREAMABLE },
        { WATCH_PAGING, 400, false, WATCH_ON_DENIED, WATCH_ON_DENIED },
        { WATCH_PAGING, 410, false, WATCH_ON_GONE, WATCH_ON_GONE },
        { WATCH_WATCHING, 410, false, WATCH_ON_GONE, WATCH_ON_GONE },
        { WATCH_WATCHING, 500, true, WATCH_ON_DENIED, WATCH_ON_DENIED },
        { WATCH_WATCHING, 503, true, WATCH_ON_REFUSED, WATCH_ON_REFUSED },
        { WATCH_WATCHING, 422, false, WATCH_ON_DENIED, WATCH_ON_DENIED },
        { WATCH_WATCHING, 0, true, WATCH_ON_REFUSED, WATCH_ON_REFUSED },
};

TEST(test_refusals) {
        for (size_t i = 0; i < N_ELEMENTS(refusals); i++) {
                const struct Refusal *this = &refusals[i];
                const WatchPlan plan = { .step = this->step };

                if (watch_plan_refusal(&plan, this->code, this->is_retriable) != this->of_request ||
                    watch_plan_error_event(&plan, this->code, this->is_retriable) != this->of_event)
                        fail_msg("step %d, status %d", (int) this->step, this->code);
        }
}

#define RETRY (7 * SEC) /* result of kube_retry_usec() in this test */

static const struct Wait {
        WatchPlanEvent event;
        unsigned n;
        ErrorKind kind;
        uint64_t min_usec;
        uint64_t max_usec;
        bool is_harmless;
} waits[] = {
        { WATCH_ON_GONE, 1, ERROR_GONE, 0, 250 * MSEC, true },
        { WATCH_ON_GONE, 2, ERROR_GONE, RETRY, RETRY, false },
        { WATCH_ON_ENDED_EARLY, 1, ERROR_UNAVAILABLE, 0, 0, true },
        { WATCH_ON_ENDED_EARLY, 2, ERROR_UNAVAILABLE, RETRY, RETRY, false },
        { WATCH_ON_SILENCE, 1, ERROR_TIMEOUT, 0, 250 * MSEC, true },
        { WATCH_ON_STALE, 1, ERROR_NONE, 0, 250 * MSEC, true },
        { WATCH_ON_STALE, 9, ERROR_NONE, 0, 250 * MSEC, true },
        { WATCH_ON_SILENCE, 2, ERROR_TIMEOUT, RETRY, RETRY, false },
        { WATCH_ON_REFUSED, 1, ERROR_UNAVAILABLE, RETRY, RETRY, false },
        { WATCH_ON_REFUSED, 5, ERROR_DENIED, 15 * SEC, 30 * SEC, false },
        { WATCH_ON_DENIED, 1, ERROR_NOT_FOUND, 15 * SEC, 30 * SEC, false },
        { WATCH_ON_DENIED, 1, ERROR_DENIED, RETRY, RETRY, false },
        { WATCH_ON_DENIED, 4, ERROR_DENIED, RETRY, RETRY, false },
        { WATCH_ON_DENIED, 5, ERROR_DENIED, 15 * SEC, 30 * SEC, false },
        { WATCH_ON_DENIED, 1, ERROR_INVALID, RETRY, RETRY, false },
        { WATCH_ON_GARBAGE, 1, ERROR_INVALID, RETRY, RETRY, false },
};

TEST(test_waits) {
        for (size_t i = 0; i < N_ELEMENTS(waits); i++) {
                const struct Wait *this = &waits[i];
                WatchPlan plan = { .step = WATCH_RELISTING };

                plan.n_in_a_row[this->event] = this->n;
                assert_int_equal(watch_plan_is_harmless(&plan, this->event), this->is_harmless);
                assert_int_equal(watch_plan_wait_usec(&plan, this->event, this->kind, RETRY, 0),
                                 this->min_usec);
                assert_int_equal(watch_plan_wait_usec(&plan, this->event, this->kind, RETRY,
                                                      UINT32_MAX),
                                 this->max_usec);
        }
}

/* The second time in a row waits, unless a watch has worked in between. */
TEST(test_counts) {
        WatchPlan plan = { .step = WATCH_WATCHING };

        (void) watch_plan_step(&plan, WATCH_ON_GONE);
        assert_true(watch_plan_is_harmless(&plan, WATCH_ON_GONE));
        plan.step = WATCH_WATCHING;
        (void) watch_plan_step(&plan, WATCH_ON_GONE);
        assert_false(watch_plan_is_harmless(&plan, WATCH_ON_GONE));

        plan.step = WATCH_WATCHING;
        watch_plan_forget_failures(&plan);
        (void) watch_plan_step(&plan, WATCH_ON_GONE);
        assert_true(watch_plan_is_harmless(&plan, WATCH_ON_GONE));
}
