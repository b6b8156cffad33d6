/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests the lookup of images in the runtime's list
 */

#include "agent/image/listing.h"
#include "tests/unit/unit.h"

#define DIGEST "sha256:6efc10a0510f143a90b69dc564a914574973223e88418d65c1f8809e08dc0a1f"

static char *tags[] = { (char *) "reg.io/b:1", (char *) "redis", (char *) "not a name" };
static char *digests[] = { (char *) "docker.io/library/redis@" DIGEST };

static const struct FindRow {
        const char *reference;
        int place; /* place of the image in the list; -1: none */
} find_rows[] = {
        { "reg.io/a:1", 0 },
        { "reg.io/b:1", 1 },
        { "docker.io/library/redis:latest", 1 },
        { "docker.io/library/redis@" DIGEST, 1 },
        { "reg.io/b:2", -1 },
        { "reg.io/c:1", -1 },
        { "not a name", -1 },
};

TEST_ROWS(test_find, find_rows, reference, const struct FindRow *row) {
        char *first_tags[] = { (char *) "reg.io/a:1" };
        CriImage first = RUNTIME__V1__IMAGE__INIT, second = RUNTIME__V1__IMAGE__INIT;
        CriImage *images[] = { &first, &second };
        const CriImageList list = { .images = images, .n_images = 2 };
        cleanup(listing_done) Listing listing = { .names = NULL };

        first.repo_tags = first_tags;
        first.n_repo_tags = 1;
        second.repo_tags = tags;
        second.n_repo_tags = N_ELEMENTS(tags);
        second.repo_digests = digests;
        second.n_repo_digests = 1;
        assert_ok(listing_init(&listing, SHORT_NAMES_HUB, &list));
        assert_int_equal(listing.n_names, 4);
        assert_ptr_equal(listing_find(&listing, row->reference),
                         row->place < 0 ? NULL : images[row->place]);
}
