/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What callers share: connections, calls, bytes
 *
 * No user can take all of it, and all users together cannot take what is kept for root. Pure.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "agent/base/error.h"

typedef struct RoomLimits {
        const char *what;  /* "connections" */
        size_t for_user;   /* of one user other than root */
        size_t for_others; /* of all these users together */
        size_t for_all;    /* of root, too */
} RoomLimits;

/* How much of it is taken. */
typedef struct RoomUse {
        size_t by_user; /* who asks for more */
        size_t by_others;
        size_t by_all;
} RoomUse;

/* Counts what a holder has, as seen by the one who asks for more. */
void room_count(RoomUse *use, bool is_holder_root, bool is_same_user, size_t n);

/* Refuses what does not fit, with words for the user. */
int room_check(const RoomLimits *limits, const RoomUse *use, bool is_root, uid_t uid, size_t more,
               Error *reterr);
