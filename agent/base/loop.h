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

#include <stdint.h>
#include <systemd/sd-event.h>

int loop_add_io(sd_event *event, sd_event_source **ret, int fd, uint32_t events,
                sd_event_io_handler_t handler, void *userdata);

/* One-shot, at that time of the clock. */
int loop_add_time(sd_event *event, sd_event_source **ret, clockid_t clock, uint64_t usec,
                  uint64_t accuracy_usec, sd_event_time_handler_t handler, void *userdata);

/* One-shot, so much later than the turn of the loop began. */
int loop_add_time_relative(sd_event *event, sd_event_source **ret, clockid_t clock, uint64_t usec,
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
