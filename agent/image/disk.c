/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/disk.h"

#include <assert.h>
#include <errno.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/base/text.h"

/* A download at 10 Gbit/s takes 125 MB in this time; a third of the default floor is 1.7 GB. */
#define RUNNING_USEC ((uint64_t) 100 * 1000)
#define WAITING_USEC ((uint64_t) 2 * 1000000)

#define OWN_ROOT "/ of this container"

#define SNAPSHOTTER_PREFIX "/io.containerd.snapshotter.v1."

struct DiskGuard {
        Log *log;
        const Runtimes *runtimes;
        char *host_root;
        bool is_pod;
        DiskFloor floor;
        DiskTicket *running; /* running pulls, the newest first */
        DiskTicket *waiting;
        bool is_low; /* pulls cannot begin, and this was logged */
        Timer timer;
};

DEFINE_CLEANUP(DiskGuard *, disk_guard_free)

static int disk_guard_stat(const DiskGuard *guard, const char *path, DiskSpace *ret) {
        cleanup(free_p) char *seen = NULL;
        struct statvfs disk;

        if (text_format(&seen, "%s%s", guard->host_root ?: "", path) < 0)
                return -ENOMEM;
        if (statvfs(seen, &disk) < 0)
                return -errno;
        if (disk.f_blocks == 0)
                return -ENODATA;

        *ret = (DiskSpace){ .n_free = (uint64_t) disk.f_bavail * disk.f_frsize,
                            .n_total = (uint64_t) disk.f_blocks * disk.f_frsize };
        return 0;
}

/* If the root is no overlay, it may be a device of its own. */
static bool disk_guard_has_overlay(const DiskGuard *guard) {
        struct statfs root;

        return guard->is_pod && !guard->host_root && statfs("/", &root) == 0 &&
               root.f_type == OVERLAYFS_SUPER_MAGIC;
}

static int disk_guard_stat_own_root(const DiskGuard *guard, char **path, DiskSpace *ret) {
        char *text = strdup(OWN_ROOT);
        int r;

        if (!text)
                return -ENOMEM;

        r = disk_guard_stat(guard, "/", ret);
        free(*path);
        *path = text;
        return r;
}

int disk_guard_measure(const DiskGuard *guard, DiskSpace *ret, char **ret_path) {
        const Runtime *chosen = guard->runtimes ? runtimes_chosen(guard->runtimes) : NULL;
        const char *named = chosen ? runtime_image_path(chosen) : NULL, *snapshotter;
        char *path;
        int r;

        *ret_path = NULL;
        if (!named)
                return -ENODATA;

        path = strdup(named);
        if (!path)
                return -ENOMEM;

        r = disk_guard_stat(guard, path, ret);
        snapshotter = strstr(path, SNAPSHOTTER_PREFIX);
        if (r == -ENOENT && snapshotter) {
                path[snapshotter - path] = '\0';
                r = disk_guard_stat(guard, path, ret);
        }
        if (r < 0 && r != -ENOMEM && disk_guard_has_overlay(guard))
                r = disk_guard_stat_own_root(guard, &path, ret);
        if (r == -ENOMEM)
                free(path);
        else
                *ret_path = path;
        return r;
}

static uint64_t disk_guard_others(const DiskGuard *guard, const DiskTicket *ticket) {
        uint64_t n = 0;

        for (const DiskTicket *other = guard->running; other; other = other->next)
                if (other != ticket && __builtin_add_overflow(n, other->n_needed, &n))
                        return UINT64_MAX;
        return n;
}

int disk_guard_room(const DiskGuard *guard, const DiskTicket *ticket, uint64_t n_needed,
                    DiskRoom *ret, char **ret_why) {
        const DiskNeed need = { .n_bytes = n_needed, .n_others = disk_guard_others(guard, ticket) };
        cleanup(free_p) char *path = NULL;
        DiskRoom room = DISK_ROOM_ENOUGH;
        DiskSpace space;
        char *why;
        int r;

        r = disk_guard_measure(guard, &space, &path);
        if (r == -ENOMEM)
                return r;
        if (r >= 0)
                room = disk_room_for(&guard->floor, &space, &need);
        if (room != DISK_ROOM_ENOUGH) {
                why = room == DISK_ROOM_SCARCE
                              ? disk_describe_need(&guard->floor, &space, &need, path)
                              : disk_describe(&guard->floor, &space, path);
                if (!why)
                        return -ENOMEM;
                *ret_why = why;
        }

        *ret = room;
        return 0;
}

void disk_guard_leave(DiskTicket *ticket) {
        DiskGuard *guard = ticket->guard;

        if (!guard)
                return;

        if (ticket->is_waiting)
                list_remove(&guard->waiting, ticket);
        else
                list_remove(&guard->running, ticket);
        *ticket = (DiskTicket){ 0 };
        if (!guard->running && !guard->waiting)
                timer_stop(&guard->timer);
}

static int disk_guard_call(DiskTicket *ticket) {
        int (*call)(void *userdata) = ticket->call;
        void *userdata = ticket->userdata;

        disk_guard_leave(ticket);
        return call(userdata);
}

/* Calls the ticket's owner if there is room enough. */
static int disk_guard_try(DiskTicket *ticket) {
        cleanup(free_p) char *why = NULL;
        DiskRoom room;
        int r;

        r = disk_guard_room(ticket->guard, ticket, ticket->n_needed, &room, &why);
        return r < 0 || room != DISK_ROOM_ENOUGH ? r : disk_guard_call(ticket);
}

/* Calls each waiting ticket once: a pull that goes on may wait again at once. */
static int disk_guard_admit(DiskGuard *guard) {
        DiskTicket *last = guard->waiting; /* the newest one is the first */
        int r = 0;

        if (guard->is_low)
                log_info(guard->log, NULL,
                         "There is enough free disk space again, pulls continue.");
        guard->is_low = false;
        while (last->next)
                last = last->next;
        for (DiskTicket *ticket = last, *previous; r >= 0 && ticket; ticket = previous) {
                previous = ticket->previous;
                r = disk_guard_try(ticket);
        }

        return r;
}

static int disk_guard_start_timer(DiskGuard *guard) {
        return timer_start(&guard->timer, guard->running ? RUNNING_USEC : WAITING_USEC);
}

static int on_timer(void *userdata) {
        cleanup(free_p) char *why = NULL;
        DiskGuard *guard = userdata;
        DiskRoom room;
        int r;

        r = disk_guard_room(guard, NULL, 0, &room, &why);
        if (r >= 0 && room == DISK_ROOM_ENOUGH && guard->waiting)
                r = disk_guard_admit(guard);
        if (r >= 0 && room == DISK_ROOM_CRITICAL && guard->running)
                r = disk_guard_call(guard->running);
        if (r < 0 || (!guard->running && !guard->waiting))
                return r;

        return disk_guard_start_timer(guard);
}

static int disk_guard_enter(DiskGuard *guard, DiskTicket *ticket, DiskTicket **list,
                            uint64_t n_needed, int (*call)(void *userdata), void *userdata) {
        bool is_idle = !guard->running;

        disk_guard_leave(ticket);
        *ticket = (DiskTicket){
                .guard = guard,
                .is_waiting = list == &guard->waiting,
                .n_needed = n_needed,
                .call = call,
                .userdata = userdata,
        };
        list_prepend(list, ticket);
        return is_idle || !timer_is_running(&guard->timer) ? disk_guard_start_timer(guard) : 0;
}

int disk_guard_wait(DiskGuard *guard, DiskTicket *ticket, uint64_t n_needed, const char *why,
                    int (*call)(void *userdata), void *userdata) {
        cleanup(free_p) char *low = NULL;
        DiskRoom room;
        int r;

        r = disk_guard_room(guard, NULL, 0, &room, &low);
        if (r < 0)
                return r;

        if (low && !guard->is_low)
                log_warning(guard->log, NULL, "Pulls wait: %s.", why);
        guard->is_low |= low != NULL;
        return disk_guard_enter(guard, ticket, &guard->waiting, n_needed, call, userdata);
}

int disk_guard_run(DiskGuard *guard, DiskTicket *ticket, uint64_t n_needed,
                   int (*call)(void *userdata), void *userdata) {
        return ticket->guard
                       ? 0
                       : disk_guard_enter(guard, ticket, &guard->running, n_needed, call, userdata);
}

void disk_guard_need(DiskTicket *ticket, uint64_t n_needed) {
        ticket->n_needed = n_needed;
}

size_t disk_guard_n_waiting(const DiskGuard *guard) {
        size_t n = 0;

        for (const DiskTicket *ticket = guard->waiting; ticket; ticket = ticket->next)
                n++;
        return n;
}

void disk_guard_set_floor(DiskGuard *guard, const DiskFloor *floor) {
        guard->floor = *floor;
}

int disk_guard_new(const DiskGuardOptions *options, DiskGuard **ret) {
        cleanup(disk_guard_free_p) DiskGuard *guard = calloc(1, sizeof(*guard));

        if (!guard)
                return -ENOMEM;

        guard->log = options->log;
        guard->runtimes = options->runtimes;
        guard->is_pod = options->is_pod;
        guard->floor = options->floor;
        timer_init(&guard->timer, options->event, RUNNING_USEC / 2, on_timer, guard);
        guard->host_root = options->host_root ? strdup(options->host_root) : NULL;
        if (options->host_root && !guard->host_root)
                return -ENOMEM;

        *ret = take_ptr(guard);
        return 0;
}

DiskGuard *disk_guard_free(DiskGuard *guard) {
        if (!guard)
                return NULL;

        assert(!guard->running && !guard->waiting);
        timer_done(&guard->timer);
        free(guard->host_root);
        free(guard);
        return NULL;
}
