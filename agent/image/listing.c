/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/listing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"

void listing_done(Listing *listing) {
        for (size_t i = 0; i < listing->n_names; i++)
                free(listing->names[i].reference);
        free(listing->names);
}

/* A name that cannot be parsed is none that the agent has asked for. */
static int listing_add(Listing *listing, ShortNames short_names, const char *name,
                       const CriImage *image) {
        ListedName *listed = &listing->names[listing->n_names];
        ImageRef ref;
        int r;

        if (image_ref_parse(name, short_names, &ref, NULL) < 0)
                return 0;

        r = image_ref_canonical_reference(&ref, &listed->reference);
        if (r < 0)
                return r;

        listed->image = image;
        listing->n_names++;
        return 0;
}

static int by_reference(const void *a, const void *b) {
        return strcmp(((const ListedName *) a)->reference, ((const ListedName *) b)->reference);
}

int listing_init(Listing *listing, ShortNames short_names, const CriImageList *list) {
        size_t n = 0;
        int r = 0;

        for (size_t i = 0; i < list->n_images; i++)
                n += list->images[i]->n_repo_tags + list->images[i]->n_repo_digests;
        listing->names = calloc(n + 1, sizeof(listing->names[0]));
        if (!listing->names)
                return -ENOMEM;

        for (size_t i = 0; r >= 0 && i < list->n_images; i++) {
                const CriImage *image = list->images[i];

                for (size_t j = 0; r >= 0 && j < image->n_repo_tags; j++)
                        r = listing_add(listing, short_names, image->repo_tags[j], image);
                for (size_t j = 0; r >= 0 && j < image->n_repo_digests; j++)
                        r = listing_add(listing, short_names, image->repo_digests[j], image);
        }
        qsort(listing->names, listing->n_names, sizeof(listing->names[0]), by_reference);
        return r;
}

const CriImage *listing_find(const Listing *listing, const char *reference) {
        const ListedName key = { .reference = (char *) reference };
        const ListedName *found = bsearch(&key, listing->names, listing->n_names,
                                          sizeof(listing->names[0]), by_reference);

        return found ? found->image : NULL;
}
