/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A queue for a limited number of slots, fair between owners
 *
 * An owner of a thousand images must not delay the owner of a single one. So a free slot goes to the
 * owner that holds the fewest; among those, to the one that was served longest ago; and within one
 * owner, in the order of arrival. Pure: no clock, no I/O.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/list.h"

typedef struct Queue Queue;
typedef struct QueueOwner QueueOwner;
typedef struct Ticket Ticket;

/* A place in a queue, embedded in its user. All zero: in no queue. */
struct Ticket {
        LIST_LINKS(Ticket); /* this and the following members are private to queue.c */
        Queue *queue;
        QueueOwner *owner;
        bool has_slot;
};

int queue_new(unsigned n_slots, Queue **ret);

/* All tickets must have left. Returns NULL. */
Queue *queue_free(Queue *queue);

/* Enters this queue and leaves any other. The owner's name is copied. */
int queue_enter(Queue *queue, Ticket *ticket, const char *name);

/* Whether a ticket of this owner waits there. */
bool queue_has_waiting(const Queue *queue, const char *owner);

/* Gives up the place or the slot. */
void queue_leave(Ticket *ticket);

/* Gives up the slot, and stands first among the tickets of its owner that wait. */
void queue_return(Ticket *ticket);

/* Hands the next free slot to a ticket and returns it, or NULL if there is no slot or none waits. */
Ticket *queue_serve(Queue *queue);

/* Slots that are taken stay taken. */
void queue_set_slots(Queue *queue, unsigned n_slots);

size_t queue_n_waiting(const Queue *queue);
size_t queue_n_served(const Queue *queue);
