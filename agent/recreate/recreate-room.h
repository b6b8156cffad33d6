/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The room for the requests of a watch, which all namespaces share
 *
 * Pure. Counts the bytes that requests take, by namespace. Once the room is full, a request displaces
 * requests of the namespace that takes the most: a user who makes many or large requests keeps the agent
 * from serving those of no other namespace.
 */

#include <stddef.h>

#define RECREATE_REQUESTS_MAX 4096
#define RECREATE_ROOM_MAX ((size_t) 8 << 20)
/* bytes that a request counts as, at least, so that the room limits their number as well */
#define RECREATE_SIZE_MIN (RECREATE_ROOM_MAX / RECREATE_REQUESTS_MAX)

typedef struct RecreateTenant RecreateTenant;

typedef struct RecreateRoom {
        RecreateTenant *tenants; /* the namespaces with requests */
        size_t size;             /* bytes that all requests take */
} RecreateRoom;

/* Returns the namespace that has to give up a request before this one may take so many bytes more,
 * which is this very pointer if no other takes more than it would; NULL: there is room. Borrowed
 * until the room changes. */
const char *recreate_room_loser(const RecreateRoom *room, const char *namespace, size_t size);

/* Counts the bytes, even beyond the limit. */
int recreate_room_take(RecreateRoom *room, const char *namespace, size_t size);
/* Gives back bytes that were taken. */
void recreate_room_give(RecreateRoom *room, const char *namespace, size_t size);
