/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/base/loop.h"

#include <stdbool.h>

#include "agent/base/backoff.h"
#include "agent/base/random.h"

/* Ends each constructor: passes the source to the caller, or to the loop if ret is NULL. */
static int finish(sd_event_source *source, sd_event_source **ret) {
        int r;

        r = sd_event_source_set_exit_on_failure(source, true);
        if (r >= 0 && !ret)
                r = sd_event_source_set_floating(source, true);
        if (r < 0 || !ret)
                sd_event_source_unref(source);
        else
                *ret = source;
        return r < 0 ? r : 0;
}

int loop_add_io(sd_event *event, sd_event_source **ret, int fd, uint32_t events,
                sd_event_io_handler_t handler, void *userdata) {
        sd_event_source *source = NULL;
        int r;

        r = sd_event_add_io(event, &source, fd, events, handler, userdata);
        return r < 0 ? r : finish(source, ret);
}

int loop_add_time(sd_event *event, sd_event_source **ret, clockid_t clock, uint64_t usec,
                  uint64_t accuracy_usec, sd_event_time_handler_t handler, void *userdata) {
        sd_event_source *source = NULL;
        int r;

        r = sd_event_add_time(event, &source, clock, usec, accuracy_usec, handler, userdata);
        return r < 0 ? r : finish(source, ret);
}

int loop_add_signal(sd_event *event, sd_event_source **ret, int number,
                    sd_event_signal_handler_t handler, void *userdata) {
        sd_event_source *source = NULL;
        int r;

        r = sd_event_add_signal(event, &source, number, handler, userdata);
        return r < 0 ? r : finish(source, ret);
}

int loop_add_inotify_fd(sd_event *event, sd_event_source **ret, int fd, uint32_t mask,
                        sd_event_inotify_handler_t handler, void *userdata) {
        sd_event_source *source = NULL;
        int r;

        r = sd_event_add_inotify_fd(event, &source, fd, mask, handler, userdata);
        return r < 0 ? r : finish(source, ret);
}

int loop_add_defer(sd_event *event, sd_event_source **ret, sd_event_handler_t handler,
                   void *userdata) {
        sd_event_source *source = NULL;
        int r;

        r = sd_event_add_defer(event, &source, handler, userdata);
        return r < 0 ? r : finish(source, ret);
}

void loop_end_on_failure(sd_event *event, int r) {
        if (r < 0)
                (void) sd_event_exit(event, r);
}

static int on_deferred(sd_event_source *source, void *userdata) {
        const Deferred *deferred = userdata;

        return deferred->call(deferred->userdata);
}

uint64_t loop_now_usec(sd_event *event) {
        uint64_t usec = 0;

        (void) sd_event_now(event, CLOCK_MONOTONIC, &usec);
        return usec;
}

void deferred_init(Deferred *deferred, sd_event *event, LoopCall call, void *userdata) {
        *deferred = (Deferred){ .event = event, .call = call, .userdata = userdata };
}

void deferred_done(Deferred *deferred) {
        deferred->source = sd_event_source_disable_unref(deferred->source);
}

int deferred_request(Deferred *deferred) {
        int r;

        r = deferred->source
                    ? sd_event_source_set_enabled(deferred->source, SD_EVENT_ONESHOT)
                    : loop_add_defer(deferred->event, &deferred->source, on_deferred, deferred);
        loop_end_on_failure(deferred->event, r);
        return r < 0 ? r : 0;
}

/* Switching a source off needs no memory, and fails only where there is nothing to switch off. */
static void switch_off(sd_event_source *source) {
        if (source)
                (void) sd_event_source_set_enabled(source, SD_EVENT_OFF);
}

static bool is_on(sd_event_source *source) {
        return source && sd_event_source_get_enabled(source, NULL) > 0;
}

void deferred_cancel(Deferred *deferred) {
        switch_off(deferred->source);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        const Timer *timer = userdata;

        return timer->call(timer->userdata);
}

void timer_init(Timer *timer, sd_event *event, uint64_t accuracy_usec, LoopCall call,
                void *userdata) {
        *timer = (Timer){
                .event = event,
                .accuracy_usec = accuracy_usec,
                .call = call,
                .userdata = userdata,
        };
}

void timer_done(Timer *timer) {
        timer->source = sd_event_source_disable_unref(timer->source);
}

/* It is due, and is to be: sd-event would give it a new turn, and none where other events always come before. */
static bool is_due(const Timer *timer, uint64_t usec) {
        uint64_t now = 0, due = 0;

        return is_on(timer->source) && sd_event_now(timer->event, CLOCK_MONOTONIC, &now) >= 0 &&
               sd_event_source_get_time(timer->source, &due) >= 0 && due <= now && usec <= now;
}

int timer_start_at(Timer *timer, uint64_t usec) {
        int r;

        if (!timer->source)
                return loop_add_time(timer->event, &timer->source, CLOCK_MONOTONIC, usec,
                                     timer->accuracy_usec, on_timer, timer);
        if (is_due(timer, usec))
                return 0;

        r = sd_event_source_set_time(timer->source, usec);
        if (r >= 0)
                r = sd_event_source_set_enabled(timer->source, SD_EVENT_ONESHOT);
        return r < 0 ? r : 0;
}

int timer_start(Timer *timer, uint64_t delay_usec) {
        uint64_t now = loop_now_usec(timer->event);

        return timer_start_at(timer, delay_usec < UINT64_MAX - now ? now + delay_usec : UINT64_MAX);
}

void timer_stop(Timer *timer) {
        switch_off(timer->source);
}

bool timer_is_running(const Timer *timer) {
        return is_on(timer->source);
}

void retry_init(Retry *retry, sd_event *event, uint64_t min_usec, uint64_t max_usec, LoopCall call,
                void *userdata) {
        *retry = (Retry){ .min_usec = min_usec, .max_usec = max_usec };
        timer_init(&retry->timer, event, /* accuracy_usec= */ 0, call, userdata);
}

void retry_done(Retry *retry) {
        timer_done(&retry->timer);
}

int retry_later(Retry *retry, uint64_t at_least_usec) {
        uint64_t usec = backoff_between_usec(retry->min_usec, retry->max_usec, ++retry->n_failures,
                                             random_number());

        return timer_start(&retry->timer, usec > at_least_usec ? usec : at_least_usec);
}

int retry_kick(Retry *retry) {
        return retry_is_waiting(retry) ? timer_start(&retry->timer, 0) : 0;
}

void retry_reset(Retry *retry) {
        retry->n_failures = 0;
        timer_stop(&retry->timer);
}

bool retry_is_waiting(const Retry *retry) {
        return timer_is_running(&retry->timer);
}

uint64_t retry_rest_usec(const Retry *retry) {
        uint64_t now = 0, due = 0;

        if (!retry_is_waiting(retry) ||
            sd_event_now(retry->timer.event, CLOCK_MONOTONIC, &now) < 0 ||
            sd_event_source_get_time(retry->timer.source, &due) < 0)
                return 0;

        return due > now ? due - now : 0;
}
