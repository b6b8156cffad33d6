/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Arrays that grow, and sorted arrays of pointers
 *
 * An array belongs to its user, as a pointer, NULL at first, and a number of items. Sorted ones are for
 * lists that are searched by a key for each event. All functions that add return 0 or -ENOMEM.
 */

#include <stdbool.h>
#include <stddef.h>

/* Makes room for one more item in an array that has grown only by this: the room doubles whenever the number
 * of items is a power of two. array: address of its pointer. */
int array_grow(void *array, size_t n_items, size_t item_size);

/* Compares an item with a key, as strcmp() does. */
typedef int (*SortedCompare)(const void *item, const void *key);

/* Finds the item with this key: *ret_at is its place or, if it returns false, where to insert
 * it. */
bool sorted_find(const void *items, size_t n_items, SortedCompare compare, const void *key,
                 size_t *ret_at);

/* Grows the array and takes the item over, unless it fails. array: address of its pointer. */
int sorted_insert(void *array, size_t *n_items, size_t at, void *item);
void sorted_remove(void *items, size_t *n_items, size_t at);
