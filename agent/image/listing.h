/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The runtime's list of images, by their names
 *
 * Runtimes spell names differently, so they are compared as canonical references. Pure.
 */

#include <stddef.h>

#include "agent/image/image-ref.h"
#include "cri/types.h"

typedef struct ListedName {
        char *reference; /* canonical */
        const CriImage *image;
} ListedName;

typedef struct Listing {
        ListedName *names; /* sorted */
        size_t n_names;
} Listing;

/* The list is borrowed, and has to outlive the listing. Names that cannot be parsed are left out. */
int listing_init(Listing *listing, ShortNames short_names, const CriImageList *list);
void listing_done(Listing *listing);

/* Returns the image of a canonical reference; NULL: none. */
const CriImage *listing_find(const Listing *listing, const char *reference);
