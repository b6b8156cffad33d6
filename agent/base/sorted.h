/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sorted arrays of pointers
 *
 * For lists that are searched by a key for each event. The array belongs to its user, who makes room
 * for one more item before sorted_insert().
 */

#include <stdbool.h>
#include <stddef.h>

/* Compares an item with a key, as strcmp() does. */
typedef int (*SortedCompare)(const void *item, const void *key);

/* Finds the item with this key: *ret_at is its place or, if it returns false, where to insert
 * it. */
bool sorted_find(const void *items, size_t n_items, SortedCompare compare, const void *key,
                 size_t *ret_at);

void sorted_insert(void *items, size_t *n_items, size_t at, void *item);
void sorted_remove(void *items, size_t *n_items, size_t at);
