/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Intrusive list
 *
 * The links are members of the element, so that putting it on a list cannot fail and taking it off
 * takes no search. An element that is on no list has both links NULL and is not the head.
 */

#define LIST_LINKS(type) \
        type *next;      \
        type *previous

#define list_prepend(head, item)                      \
        do {                                          \
                (item)->previous = NULL;              \
                (item)->next = *(head);               \
                if (*(head))                          \
                        (*(head))->previous = (item); \
                *(head) = (item);                     \
        } while (0)

#define list_remove(head, item)                                    \
        do {                                                       \
                if ((item)->previous)                              \
                        (item)->previous->next = (item)->next;     \
                else if (*(head) == (item))                        \
                        *(head) = (item)->next;                    \
                if ((item)->next)                                  \
                        (item)->next->previous = (item)->previous; \
                (item)->next = NULL;                               \
                (item)->previous = NULL;                           \
        } while (0)
