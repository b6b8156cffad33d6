/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/base/sorted.h"

#include <assert.h>
#include <string.h>

bool sorted_find(const void *items, size_t n_items, SortedCompare compare, const void *key,
                 size_t *ret_at) {
        void *const *array = items;
        size_t low = 0, high = n_items;
        bool is_found = false;

        while (low < high && !is_found) {
                size_t middle = low + (high - low) / 2;
                int order = compare(array[middle], key);

                is_found = order == 0;
                if (order < 0)
                        low = middle + 1;
                else
                        high = middle;
        }

        *ret_at = high;
        return is_found;
}

void sorted_insert(void *items, size_t *n_items, size_t at, void *item) {
        void **array = items;

        assert(at <= *n_items);

        memmove(&array[at + 1], &array[at], (*n_items - at) * sizeof(array[0]));
        array[at] = item;
        (*n_items)++;
}

void sorted_remove(void *items, size_t *n_items, size_t at) {
        void **array = items;

        assert(at < *n_items);

        memmove(&array[at], &array[at + 1], (*n_items - at - 1) * sizeof(array[0]));
        (*n_items)--;
}
