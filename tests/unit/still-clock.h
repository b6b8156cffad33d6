/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A clock of the event loop that stands still until a test lets time pass
 *
 * Takes the place of functions of libsystemd; until still_begin() these are as always. For tests of
 * paces: something happens after so long, and not a microsecond before. To be included once.
 */

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include <cmocka.h>

#define STILL_TIMERS_MAX 256

static struct StillClock {
        uint64_t now_usec; /* 0: it goes as always */
        struct StillTimer {
                sd_event_source *source;
                uint64_t due_usec;
        } timers[STILL_TIMERS_MAX];
        size_t n_timers;
} still;

int sd_event_now(sd_event *event, clockid_t clock, uint64_t *ret) {
        int (*now)(sd_event *, clockid_t, uint64_t *) = dlsym(RTLD_NEXT, "sd_event_now");

        if (still.now_usec == 0)
                return now(event, clock, ret);

        *ret = still.now_usec;
        return 0;
}

int sd_event_add_time_relative(sd_event *event, sd_event_source **ret, clockid_t clock,
                               uint64_t usec, uint64_t accuracy, sd_event_time_handler_t callback,
                               void *userdata) {
        int (*add)(sd_event *, sd_event_source **, clockid_t, uint64_t, uint64_t,
                   sd_event_time_handler_t, void *) =
                dlsym(RTLD_NEXT, "sd_event_add_time_relative");
        int r;

        if (still.now_usec == 0)
                return add(event, ret, clock, usec, accuracy, callback, userdata);

        r = sd_event_add_time(event, ret, clock, UINT64_MAX, accuracy, callback, userdata);
        assert_true(r >= 0 && still.n_timers < STILL_TIMERS_MAX);
        still.timers[still.n_timers++] = (struct StillTimer){
                .source = sd_event_source_ref(*ret),
                .due_usec = still.now_usec + usec,
        };
        return r;
}

int sd_event_source_set_time_relative(sd_event_source *source, uint64_t usec) {
        int (*set)(sd_event_source *, uint64_t) =
                dlsym(RTLD_NEXT, "sd_event_source_set_time_relative");

        for (size_t i = 0; i < still.n_timers; i++)
                if (still.timers[i].source == source) {
                        still.timers[i].due_usec = still.now_usec + usec;
                        return sd_event_source_set_time(source, UINT64_MAX);
                }

        return set(source, usec);
}

static inline void still_begin(void) {
        still.now_usec = 1000000000;
}

/* What is due goes off, and what follows from that at once. Nothing real is waited for longer than
 * it takes to see that nothing happens. */
static inline void still_pass(sd_event *event, uint64_t usec) {
        int enabled;

        still.now_usec += usec;
        for (size_t i = 0; i < still.n_timers; i++)
                if (still.timers[i].due_usec <= still.now_usec &&
                    sd_event_source_get_enabled(still.timers[i].source, &enabled) > 0)
                        assert_true(sd_event_source_set_time(still.timers[i].source, 0) >= 0);
        while (sd_event_run(event, 1000) > 0)
                ;
}

static inline void still_end(void) {
        while (still.n_timers > 0)
                sd_event_source_unref(still.timers[--still.n_timers].source);
        still.now_usec = 0;
}
