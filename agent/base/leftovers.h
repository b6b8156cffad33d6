/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Processes that a program has started, and that outlive it
 *
 * Its session is known; who has left it is not known by the kernel as one of the program's any more.
 * But since leftovers_adopt() all of these become children of this process when their parents end. So
 * once no other program of ours runs, every child is such a leftover, and is killed. While another one
 * runs, whose child it might be, only those of the session that has ended are.
 */

#include <sys/types.h>
#include <systemd/sd-event.h>

/* To be called before a program is started. */
void leftovers_adopt(void);

/* To be called when a program, the leader of that session, was reaped. Those it finds are killed at
 * once, and reaped by the loop when they are dead; then it looks for theirs. A program counts as
 * running as long as this process holds a pidfd of it. */
void leftovers_kill(sd_event *event, pid_t session);
