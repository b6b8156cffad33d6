/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Stands between a caller and gRPC
 *
 * The guard passes the bytes of a connection on in both directions, and counts what the caller sends: frame-spec.h.
 * A caller whose user has spent the budget is not read for a while; one who sends what no caller may send,
 * or takes nothing for long, is cut off. It holds little, since it reads no more of a side than the other one takes.
 */

#include <systemd/sd-event.h>

#include "agent/rpc/frame-spec.h"

typedef struct Guard Guard;

/* Either side has ended the connection. May free the guard. */
typedef int (*GuardEnded)(Guard *guard, void *userdata);

/* Takes fd over, unless it fails. *ret_fd is the descriptor for gRPC, which the caller owns. budget
 * (borrowed) is that of the peer's user; NULL: no limit. */
int guard_new(sd_event *event, int fd, FrameBudget *budget, GuardEnded on_end, void *userdata,
              Guard **ret, int *ret_fd);

/* Passes on what gRPC has written already, as far as the caller takes it, and closes. Returns NULL. */
Guard *guard_free(Guard *guard);
