/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/image-index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ALLOCATED_MIN 16

void image_index_done(ImageIndex *index) {
        free(index->items);
        *index = (ImageIndex){ .items = NULL };
}

bool image_index_find(const ImageIndex *index, const char *key, size_t *ret_at) {
        size_t low = 0, high = index->n_items;

        while (low < high) {
                size_t middle = low + (high - low) / 2;
                int order = strcmp(image_key(index->items[middle]), key);

                if (order == 0) {
                        *ret_at = middle;
                        return true;
                }
                if (order < 0)
                        low = middle + 1;
                else
                        high = middle;
        }

        *ret_at = low;
        return false;
}

int image_index_reserve(ImageIndex *index, size_t n_items) {
        size_t wanted = n_items > index->n_items ? n_items : index->n_items + 1;
        size_t n = index->n_allocated > 0 ? index->n_allocated : ALLOCATED_MIN;
        Image **items;

        if (wanted <= index->n_allocated)
                return 0;

        while (n < wanted)
                n *= 2;
        items = reallocarray(index->items, n, sizeof(items[0]));
        if (!items)
                return -ENOMEM;

        index->items = items;
        index->n_allocated = n;
        return 0;
}

void image_index_insert(ImageIndex *index, size_t at, Image *image) {
        memmove(&index->items[at + 1], &index->items[at],
                (index->n_items - at) * sizeof(index->items[0]));
        index->items[at] = image;
        index->n_items++;
}

void image_index_remove(ImageIndex *index, size_t at) {
        memmove(&index->items[at], &index->items[at + 1],
                (index->n_items - at - 1) * sizeof(index->items[0]));
        index->n_items--;
}
