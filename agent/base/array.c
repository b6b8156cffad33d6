/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/base/array.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int array_grow(void *array, size_t n_items, size_t item_size) {
        void **items = array, *grown;

        if ((n_items & (n_items - 1)) != 0)
                return 0;

        grown = reallocarray(*items, n_items > 0 ? 2 * n_items : 1, item_size);
        if (!grown)
                return -ENOMEM;

        *items = grown;
        return 0;
}

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

int sorted_insert(void *array, size_t *n_items, size_t at, void *item) {
        void **items;
        int r;

        assert(at <= *n_items);

        r = array_grow(array, *n_items, sizeof(*items));
        if (r < 0)
                return r;

        items = *(void ***) array;
        memmove(&items[at + 1], &items[at], (*n_items - at) * sizeof(*items));
        items[at] = item;
        (*n_items)++;
        return 0;
}

void sorted_remove(void *items, size_t *n_items, size_t at) {
        void **array = items;

        assert(at < *n_items);

        memmove(&array[at], &array[at + 1], (*n_items - at - 1) * sizeof(array[0]));
        (*n_items)--;
}
