/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/queue.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct QueueOwner {
        LIST_LINKS(QueueOwner);
        char *name;
        Ticket *first; /* waiting tickets in the order of arrival */
        Ticket *last;
        size_t n_slots;
        uint64_t served_at; /* turn of the queue that it had last */
};

struct Queue {
        unsigned n_slots;
        size_t n_served;
        size_t n_waiting;
        uint64_t turn;
        QueueOwner *owners;
};

int queue_new(unsigned n_slots, Queue **ret) {
        Queue *queue;

        queue = calloc(1, sizeof(*queue));
        if (!queue)
                return -ENOMEM;

        queue->n_slots = n_slots;
        *ret = queue;
        return 0;
}

Queue *queue_free(Queue *queue) {
        if (!queue)
                return NULL;

        assert(!queue->owners);
        free(queue);
        return NULL;
}

static void queue_forget_if_idle(Queue *queue, QueueOwner *owner) {
        if (owner->first || owner->n_slots > 0)
                return;

        list_remove(&queue->owners, owner);
        free(owner->name);
        free(owner);
}

static QueueOwner *queue_find_owner(const Queue *queue, const char *name) {
        for (QueueOwner *owner = queue->owners; owner; owner = owner->next)
                if (strcmp(owner->name, name) == 0)
                        return owner;

        return NULL;
}

static QueueOwner *queue_add_owner(Queue *queue, const char *name) {
        QueueOwner *owner;

        owner = calloc(1, sizeof(*owner));
        if (!owner)
                return NULL;

        owner->name = strdup(name);
        if (!owner->name) {
                free(owner);
                return NULL;
        }

        /* A new owner, or a returning one, stands behind the owners that have waited. */
        owner->served_at = queue->turn;
        list_prepend(&queue->owners, owner);
        return owner;
}

static void owner_append(QueueOwner *owner, Ticket *ticket) {
        ticket->next = NULL;
        ticket->previous = owner->last;
        if (owner->last)
                owner->last->next = ticket;
        else
                owner->first = ticket;
        owner->last = ticket;
}

static void owner_remove(QueueOwner *owner, Ticket *ticket) {
        if (owner->last == ticket)
                owner->last = ticket->previous;
        list_remove(&owner->first, ticket);
}

int queue_enter(Queue *queue, Ticket *ticket, const char *name) {
        QueueOwner *owner;

        queue_leave(ticket);
        owner = queue_find_owner(queue, name) ?: queue_add_owner(queue, name);
        if (!owner)
                return -ENOMEM;

        *ticket = (Ticket){ .queue = queue, .owner = owner };
        owner_append(owner, ticket);
        queue->n_waiting++;
        return 0;
}

bool queue_has_waiting(const Queue *queue, const char *name) {
        const QueueOwner *owner = queue_find_owner(queue, name);

        return owner && owner->first;
}

void queue_leave(Ticket *ticket) {
        Queue *queue = ticket->queue;
        QueueOwner *owner = ticket->owner;

        if (!queue)
                return;

        if (ticket->has_slot) {
                owner->n_slots--;
                queue->n_served--;
        } else {
                owner_remove(owner, ticket);
                queue->n_waiting--;
        }

        *ticket = (Ticket){ 0 };
        queue_forget_if_idle(queue, owner);
}

void queue_return(Ticket *ticket) {
        QueueOwner *owner = ticket->owner;

        if (!ticket->has_slot)
                return;

        ticket->has_slot = false;
        owner->n_slots--;
        list_prepend(&owner->first, ticket);
        owner->last = owner->last ?: ticket;
        ticket->queue->n_served--;
        ticket->queue->n_waiting++;
}

/* NULL is the worst candidate. */
static QueueOwner *better(QueueOwner *a, QueueOwner *b) {
        if (!a || !b)
                return a ?: b;
        if (a->n_slots != b->n_slots)
                return a->n_slots < b->n_slots ? a : b;

        return a->served_at <= b->served_at ? a : b;
}

Ticket *queue_serve(Queue *queue) {
        QueueOwner *next = NULL;
        Ticket *ticket;

        if (queue->n_served >= queue->n_slots)
                return NULL;

        for (QueueOwner *owner = queue->owners; owner; owner = owner->next)
                if (owner->first)
                        next = better(owner, next);
        if (!next)
                return NULL;

        ticket = next->first;
        owner_remove(next, ticket);
        ticket->has_slot = true;
        next->n_slots++;
        next->served_at = ++queue->turn;
        queue->n_served++;
        queue->n_waiting--;
        return ticket;
}

void queue_set_slots(Queue *queue, unsigned n_slots) {
        queue->n_slots = n_slots;
}

size_t queue_n_waiting(const Queue *queue) {
        return queue->n_waiting;
}

size_t queue_n_served(const Queue *queue) {
        return queue->n_served;
}
