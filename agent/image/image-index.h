/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Images in the order of their keys
 */

#include <stdbool.h>
#include <stddef.h>

#include "agent/image/image.h"

/* All zero: empty. The images are not owned by it. */
typedef struct ImageIndex {
        Image **items;
        size_t n_items;
        size_t n_allocated;
} ImageIndex;

/* Frees the index, not the images. */
void image_index_done(ImageIndex *index);

/* Where the key is, or, if it returns false, where it belongs. */
bool image_index_find(const ImageIndex *index, const char *key, size_t *ret_at);

/* Makes room for one more than it has, or than n_items if that is more: what follows cannot fail. */
int image_index_reserve(ImageIndex *index, size_t n_items);
void image_index_insert(ImageIndex *index, size_t at, Image *image);
void image_index_remove(ImageIndex *index, size_t at);
