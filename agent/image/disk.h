/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The disk keeps its reserve
 *
 * Measures the file system where the runtime keeps its images (ImageFsInfo of CRI names the folder,
 * statvfs() has its free space): when a pull is about to begin, and then only while pulls run, or wait
 * for room. If the agent does not see that folder, it assumes that there is room, and disk_guard_measure()
 * returns the reason.
 *
 * A pod does not see that folder, and need not: its root is an overlay whose upper layer the runtime keeps
 * beside the images, and the space of an overlay is that of its upper layer.
 *
 * containerd names a folder in its own root for each snapshotter. A snapshotter that is another program
 * (stargz) does not have that folder: then the guard measures the root, which holds containerd's downloads.
 * Such a snapshotter keeps its own downloads in a folder that CRI does not name, and that may be on another
 * disk.
 */

#include <stdbool.h>
#include <systemd/sd-event.h>

#include "agent/base/list.h"
#include "agent/base/log.h"
#include "agent/image/disk-spec.h"
#include "cri/runtimes.h"

typedef struct DiskGuard DiskGuard;

/* A running pull, or one that waits for room; embedded in the pull. All zero: neither. */
typedef struct DiskTicket {
        LIST_LINKS(struct DiskTicket); /* this and the following members are private to disk.c */
        DiskGuard *guard;
        bool is_waiting;
        uint64_t n_needed; /* bytes that are still to be downloaded; 0: not known, or none */
        int (*call)(void *userdata);
        void *userdata;
} DiskTicket;

typedef struct DiskGuardOptions {
        sd_event *event;
        Log *log;
        const Runtimes *runtimes; /* borrowed, has to outlive the guard */
        const char *host_root;    /* folder where the host's files are mounted; copied; NULL: / */
        bool is_pod;              /* the agent runs in a pod of the node's own runtime */
        DiskFloor floor;
} DiskGuardOptions;

int disk_guard_new(const DiskGuardOptions *options, DiskGuard **ret);
/* All tickets must have left. Returns NULL. */
DiskGuard *disk_guard_free(DiskGuard *guard);

void disk_guard_set_floor(DiskGuard *guard, const DiskFloor *floor);

/* Measures now. 0: measured. -ENODATA: the runtime names no folder. -ENOENT and other negative
 * errnos: why the folder cannot be seen. *ret_path is that folder, as the host names it, or words
 * for the root of the pod, owned by the caller; NULL if there is none. */
int disk_guard_measure(const DiskGuard *guard, DiskSpace *ret, char **ret_path);

/* Finds out the room now for a pull that needs n_needed bytes beside the running pulls; ENOUGH if
 * it cannot be measured. *ret_why describes any other room, owned by the caller. */
int disk_guard_room(const DiskGuard *guard, const DiskTicket *ticket, uint64_t n_needed,
                    DiskRoom *ret, char **ret_why);

/* Makes the call, once, when there is room again (wait), or when room becomes critical (run; the
 * pull that began last comes first). The ticket has left by then. why is for the log, if it
 * concerns all pulls. */
int disk_guard_wait(DiskGuard *guard, DiskTicket *ticket, uint64_t n_needed, const char *why,
                    int (*call)(void *userdata), void *userdata);
size_t disk_guard_n_waiting(const DiskGuard *guard);
int disk_guard_run(DiskGuard *guard, DiskTicket *ticket, uint64_t n_needed,
                   int (*call)(void *userdata), void *userdata);
/* Notes how many bytes a running pull still needs. */
void disk_guard_need(DiskTicket *ticket, uint64_t n_needed);
void disk_guard_leave(DiskTicket *ticket);
