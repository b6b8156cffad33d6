/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/base/loop.h"

#include <stdbool.h>

/* The last step of each constructor: the source goes to the caller, or to the loop if ret is NULL. */
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

int loop_add_time_relative(sd_event *event, sd_event_source **ret, clockid_t clock, uint64_t usec,
                           uint64_t accuracy_usec, sd_event_time_handler_t handler,
                           void *userdata) {
        sd_event_source *source = NULL;
        int r;

        r = sd_event_add_time_relative(event, &source, clock, usec, accuracy_usec, handler,
                                       userdata);
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
