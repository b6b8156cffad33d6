/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Event sources
 *
 * The only constructors of event sources in the programs. They are those of sd-event, with one
 * difference: a handler that fails ends the loop, and sd_event_loop() returns its errno. sd-event by
 * itself would log at debug level and switch the source off, so that a pull would never be tried
 * again, or a runtime never be connected again. Parameters mean what they mean in sd_event_add_io(3),
 * sd_event_add_time(3), sd_event_add_signal(3), sd_event_add_inotify(3) and sd_event_add_defer(3).
 *
 * All return 0 or a negative errno. On failure, *ret is untouched and there is no source.
 */

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

int loop_add_io(sd_event *event, sd_event_source **ret, int fd, uint32_t events,
                sd_event_io_handler_t handler, void *userdata);

/* A one-shot timer at an absolute time of the clock. */
int loop_add_time(sd_event *event, sd_event_source **ret, clockid_t clock, uint64_t usec,
                  uint64_t accuracy_usec, sd_event_time_handler_t handler, void *userdata);

/* With ret NULL, the loop owns the source; without a handler, the signal ends the loop. */
int loop_add_signal(sd_event *event, sd_event_source **ret, int number,
                    sd_event_signal_handler_t handler, void *userdata);

/* The descriptor stays with the caller. */
int loop_add_inotify_fd(sd_event *event, sd_event_source **ret, int fd, uint32_t mask,
                        sd_event_inotify_handler_t handler, void *userdata);

/* Enabled once: runs in the next turn of the loop. */
int loop_add_defer(sd_event *event, sd_event_source **ret, sd_event_handler_t handler,
                   void *userdata);

/* For a callback that cannot return what failed: a negative errno ends the loop, as that of a handler does. */
void loop_end_on_failure(sd_event *event, int r);

/* Returns the monotonic time at which this turn of the loop began. */
uint64_t loop_now_usec(sd_event *event);

/*
 * Calls that a struct owns by a field
 *
 * Deferred, Timer and Retry are initialized with the loop (borrowed), the function and its argument;
 * that needs no memory and cannot fail. _done() is for the end of the owner, also from within a call,
 * and harmless for one that was never initialized; nothing is called after it. What the function
 * returns is what a handler of sd-event returns: a negative errno ends the loop.
 */
typedef int (*LoopCall)(void *userdata);

/* A call in the next turn of the loop, however often it is requested until then. A request that fails ends the loop,
 * since most of those who make it cannot report it, and the call would never come. */
typedef struct Deferred {
        sd_event *event;
        sd_event_source *source; /* NULL until the first request */
        LoopCall call;
        void *userdata;
} Deferred;

void deferred_init(Deferred *deferred, sd_event *event, LoopCall call, void *userdata);
void deferred_done(Deferred *deferred);
int deferred_request(Deferred *deferred);
void deferred_cancel(Deferred *deferred);

/* A call at a time of the monotonic clock. Starting it again replaces the time. */
typedef struct Timer {
        sd_event *event;
        sd_event_source *source; /* NULL until the first start */
        uint64_t accuracy_usec;  /* as for loop_add_time(): 0 is a quarter of a second */
        LoopCall call;
        void *userdata;
} Timer;

void timer_init(Timer *timer, sd_event *event, uint64_t accuracy_usec, LoopCall call,
                void *userdata);
void timer_done(Timer *timer);
/* A timer that is due already, and is to be, keeps its turn. The delay counts from the start of this turn of the loop. */
int timer_start(Timer *timer, uint64_t delay_usec);
int timer_start_at(Timer *timer, uint64_t usec);
void timer_stop(Timer *timer);
bool timer_is_running(const Timer *timer);

/* A timer for the next attempt after a failure, later each time: backoff_between_usec(). */
typedef struct Retry {
        Timer timer;
        uint64_t min_usec, max_usec;
        unsigned n_failures; /* in a row */
} Retry;

void retry_init(Retry *retry, sd_event *event, uint64_t min_usec, uint64_t max_usec, LoopCall call,
                void *userdata);
void retry_done(Retry *retry);
/* Notes a failure and starts the pause. at_least_usec: the pause that the peer requested, or 0. */
int retry_later(Retry *retry, uint64_t at_least_usec);
/* Ends a pause: the call comes in the next turn of the loop; the number of failures stays. */
int retry_kick(Retry *retry);
/* Notes a success, or that no retry is needed. Drops the pending call and the failures. */
void retry_reset(Retry *retry);
bool retry_is_waiting(const Retry *retry);
/* Returns the rest of the pause, as of this turn of the loop; 0 without a pause. */
uint64_t retry_rest_usec(const Retry *retry);
