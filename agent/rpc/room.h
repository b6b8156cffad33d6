/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Limits of the connections, calls and bytes that callers share
 *
 * No user can take all of them, and all users together cannot take the part that is reserved for root.
 * Pure.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "agent/base/error.h"

typedef struct RoomLimits {
        const char *what;  /* "connections" */
        size_t for_user;   /* limit of one user other than root */
        size_t for_others; /* limit of all these users together */
        size_t for_all;    /* limit of all users with root */
} RoomLimits;

/* The amount in use. */
typedef struct RoomUse {
        size_t by_user; /* in use by the user who requests more */
        size_t by_others;
        size_t by_all;
} RoomUse;

/* Adds a holder's amount. is_same_user: the holder is the user who requests more. */
void room_count(RoomUse *use, bool is_holder_root, bool is_same_user, size_t n);

/* Fails if the amount does not fit, with the reason for the user. */
int room_check(const RoomLimits *limits, const RoomUse *use, bool is_root, uid_t uid, size_t more,
               Error *reterr);
