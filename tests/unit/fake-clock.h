/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The clock of the event loop, which stands still until a test lets time pass
 *
 * It takes the place of functions of libsystemd: the monotonic clock and the timers on it. So nothing
 * ever waits, and something happens after so long, and not a microsecond before. Other clocks are as
 * always, and so is all of it while is_real is set, for tests with peers on a socket. To be included
 * once.
 */

#include <dlfcn.h>
#include <systemd/sd-event.h>

#include "tests/unit/unit.h"

#define FAKE_CLOCK_START_USEC ((uint64_t) 1000000000)
#define FAKE_CLOCK_PATIENCE_USEC ((uint64_t) 60 * 1000000) /* for the kernel */

typedef struct FakeTimer {
        sd_event_source *source;
        uint64_t delay_usec; /* from when it was set */
        uint64_t due_usec;
} FakeTimer;

static struct {
        uint64_t now_usec;
        bool is_real;
        FakeTimer *timers;
        size_t n_timers;
} fake_clock = { .now_usec = FAKE_CLOCK_START_USEC };

int sd_event_now(sd_event *event, clockid_t clock, uint64_t *ret) {
        int (*now)(sd_event *, clockid_t, uint64_t *) = dlsym(RTLD_NEXT, "sd_event_now");

        if (clock != CLOCK_MONOTONIC || fake_clock.is_real)
                return now(event, clock, ret);

        *ret = fake_clock.now_usec;
        return 0;
}

static inline void fake_timer_set(FakeTimer *timer, uint64_t due_usec) {
        timer->due_usec = due_usec;
        timer->delay_usec = due_usec > fake_clock.now_usec ? due_usec - fake_clock.now_usec : 0;
}

int sd_event_add_time(sd_event *event, sd_event_source **ret, clockid_t clock, uint64_t usec,
                      uint64_t accuracy, sd_event_time_handler_t callback, void *userdata) {
        int (*add)(sd_event *, sd_event_source **, clockid_t, uint64_t, uint64_t,
                   sd_event_time_handler_t, void *) = dlsym(RTLD_NEXT, "sd_event_add_time");
        FakeTimer *timer;
        int r;

        if (clock != CLOCK_MONOTONIC || fake_clock.is_real)
                return add(event, ret, clock, usec, accuracy, callback, userdata);

        r = add(event, ret, clock, UINT64_MAX, accuracy, callback, userdata);
        assert_true(r >= 0);
        fake_clock.timers = reallocarray(fake_clock.timers, fake_clock.n_timers + 1,
                                         sizeof(fake_clock.timers[0]));
        assert_non_null(fake_clock.timers);
        timer = &fake_clock.timers[fake_clock.n_timers++];
        timer->source = sd_event_source_ref(*ret);
        fake_timer_set(timer, usec);
        return r;
}

int sd_event_source_set_time(sd_event_source *source, uint64_t usec) {
        int (*set)(sd_event_source *, uint64_t) = dlsym(RTLD_NEXT, "sd_event_source_set_time");

        for (size_t i = 0; i < fake_clock.n_timers; i++)
                if (fake_clock.timers[i].source == source) {
                        fake_timer_set(&fake_clock.timers[i], usec);
                        return set(source, UINT64_MAX);
                }

        return set(source, usec);
}

int sd_event_source_get_time(sd_event_source *source, uint64_t *ret) {
        int (*get)(sd_event_source *, uint64_t *) = dlsym(RTLD_NEXT, "sd_event_source_get_time");

        for (size_t i = 0; i < fake_clock.n_timers; i++)
                if (fake_clock.timers[i].source == source) {
                        *ret = fake_clock.timers[i].due_usec;
                        return 0;
                }

        return get(source, ret);
}

/* The timer that is due first; NULL: none is set. */
static inline FakeTimer *fake_clock_find(void) {
        FakeTimer *first = NULL;

        for (size_t i = 0; i < fake_clock.n_timers; i++) {
                FakeTimer *timer = &fake_clock.timers[i];

                if (sd_event_source_get_enabled(timer->source, NULL) > 0 &&
                    (!first || timer->due_usec < first->due_usec))
                        first = timer;
        }

        return first;
}

/* For how long it was set; UINT64_MAX: none is. */
static inline uint64_t fake_clock_delay(void) {
        const FakeTimer *timer = fake_clock_find();

        return timer ? timer->delay_usec : UINT64_MAX;
}

/* All that is to be done at once is done; timers are left alone. */
static inline void fake_clock_turn(sd_event *event) {
        int r;

        do
                r = sd_event_run(event, 0);
        while (r > 0);
        assert_int_equal(r, 0);
}

static inline bool fake_timer_is_firing(const FakeTimer *timer) {
        uint64_t usec = UINT64_MAX;

        assert_true(sd_event_source_get_time(timer->source, &usec) >= 0);
        return sd_event_source_get_enabled(timer->source, NULL) > 0 && usec == 0;
}

/* Lets the time pass until the next timer, which goes off; its consequences are still to come. A
 * real timer that is due is not always seen at once. */
static inline void fake_clock_skip(sd_event *event) {
        int (*set)(sd_event_source *, uint64_t) = dlsym(RTLD_NEXT, "sd_event_source_set_time");
        const FakeTimer *found = fake_clock_find();
        FakeTimer timer;

        assert_non_null(found);
        timer = *found; /* the array may move */
        if (timer.due_usec > fake_clock.now_usec)
                fake_clock.now_usec = timer.due_usec;
        assert_true(set(timer.source, 0) >= 0);
        do
                assert_true(sd_event_run(event, FAKE_CLOCK_PATIENCE_USEC) > 0);
        while (fake_timer_is_firing(&timer));
}

/* So much time passes: each timer that is due goes off in its moment, with all that follows. */
static inline void fake_clock_pass(sd_event *event, uint64_t usec) {
        uint64_t end_usec = fake_clock.now_usec + usec;
        const FakeTimer *timer;

        fake_clock_turn(event);
        while ((timer = fake_clock_find()) && timer->due_usec <= end_usec) {
                fake_clock_skip(event);
                fake_clock_turn(event);
        }
        fake_clock.now_usec = end_usec;
}

/* Lets the time pass while the machine sleeps: each due timer goes off once, now. */
static inline void fake_clock_jump(sd_event *event, uint64_t usec) {
        const FakeTimer *timer;

        fake_clock_turn(event);
        fake_clock.now_usec += usec;
        while ((timer = fake_clock_find()) && timer->due_usec <= fake_clock.now_usec) {
                fake_clock_skip(event);
                fake_clock_turn(event);
        }
}

/* Before the loop is freed. */
static inline void fake_clock_done(void) {
        for (size_t i = 0; i < fake_clock.n_timers; i++)
                sd_event_source_unref(fake_clock.timers[i].source);
        free(fake_clock.timers);
        fake_clock.timers = NULL;
        fake_clock.n_timers = 0;
        fake_clock.now_usec = FAKE_CLOCK_START_USEC;
        fake_clock.is_real = false;
}
