/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How much of a disk stays free
 *
 * The floor is the space that pulls leave free on the file system of the images: a share of it, a number of
 * bytes, or the lesser of both. Pure: disk.c measures.
 */

#include <stdint.h>

#include "agent/base/error.h"

/* 0: not given. Both 0: there is no floor. */
typedef struct DiskFloor {
        unsigned percent;
        uint64_t bytes;
} DiskFloor;

typedef struct DiskSpace {
        uint64_t n_free; /* bytes that a user who is not root may still use */
        uint64_t n_total;
} DiskSpace;

/* Bytes still to be downloaded: compressed, as the manifests have them. Layers take more when they are unpacked,
 * and no manifest says how much. */
typedef struct DiskNeed {
        uint64_t n_bytes;  /* bytes that a pull needs */
        uint64_t n_others; /* bytes that other running pulls need */
} DiskNeed;

typedef enum DiskRoom {
        DISK_ROOM_ENOUGH,
        DISK_ROOM_LOW,      /* below the floor: no pull begins */
        DISK_ROOM_SCARCE,   /* a certain pull would make it critical */
        DISK_ROOM_CRITICAL, /* below a third of it: a running pull is canceled */
        _DISK_ROOM_MAX,
} DiskRoom;

/* "5GB", "512Mi", "10%", "15%,5GB" (the lesser counts), "0". *ret is untouched by a refusal. */
int disk_floor_parse(const char *text, DiskFloor *ret, Error *reterr);

/* Returns the floor on a file system of this size. */
uint64_t disk_floor_bytes(const DiskFloor *floor, uint64_t n_total);

DiskRoom disk_room(const DiskFloor *floor, const DiskSpace *space);

/* The same for a pull with this need; without a need, the same as disk_room(). */
DiskRoom disk_room_for(const DiskFloor *floor, const DiskSpace *space, const DiskNeed *need);

/* "12 MB", "1.2 GB"; returns the text. */
const char *disk_format_bytes(uint64_t bytes, char text[static 32]);

/* "1.2 GB of 50 GB are free in PATH, less than minFreeDisk (5.0 GB)", for a room that is not enough.
 * NULL: no memory. The caller owns it. */
char *disk_describe(const DiskFloor *floor, const DiskSpace *space, const char *path);

/* The same for DISK_ROOM_SCARCE: "needs 401 MB, 293 MB of 340 MB are free in PATH". */
char *disk_describe_need(const DiskFloor *floor, const DiskSpace *space, const DiskNeed *need,
                         const char *path);
