/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/base/folder-watch.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/inotify.h>

#include "agent/base/cleanup.h"

#define SETTLE_USEC ((uint64_t) 100 * 1000)

/* Events of complete files. A mounted ConfigMap or Secret changes by a rename. */
#define EVENTS                                                                              \
        (IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ATTRIB | IN_CREATE | \
         IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)

/* Events after which another folder has the path, or none. */
#define GONE_EVENTS (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED)

static int on_event(sd_event_source *source, const struct inotify_event *event, void *userdata) {
        FolderWatch *watch = userdata;

        if (event->mask & GONE_EVENTS)
                watch->source = sd_event_source_disable_unref(watch->source);
        return timer_start(&watch->settle, SETTLE_USEC);
}

void folder_watch_init(FolderWatch *watch, sd_event *event, const char *path, LoopCall call,
                       void *userdata) {
        *watch = (FolderWatch){ .path = path };
        timer_init(&watch->settle, event, /* accuracy_usec= */ 0, call, userdata);
}

void folder_watch_done(FolderWatch *watch) {
        watch->source = sd_event_source_disable_unref(watch->source);
        timer_done(&watch->settle);
}

int folder_watch_start(FolderWatch *watch) {
        cleanup(close_p) int fd = -1;
        int r;

        if (watch->source)
                return 0;

        fd = open(watch->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return 0;

        /* Watches are limited for each user: without one, the agent sees changes later. */
        r = loop_add_inotify_fd(watch->settle.event, &watch->source, fd, EVENTS, on_event, watch);
        return r == -ENOMEM ? r : 0;
}
