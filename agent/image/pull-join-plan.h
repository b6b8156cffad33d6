/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which awaited image a pull of another process fetches
 *
 * The content store knows the repository and the digests of a pull, but not its tag. So images of one repository
 * are distinguished by their digests, where they have one, by the time from which they were awaited, which is not
 * after the begin of the pull, and by exclusion. Where that leaves several, the tag is unknown. Pure.
 */

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

/* A pull, see PulledManifest for its texts. No two have the same digest. */
typedef struct JoinPull {
        const char *digest; /* digest of the manifest */
        const char *sources;
        const char *digests;
        struct timespec began;
} JoinPull;

typedef struct JoinImage {
        const char *key;       /* canonical reference */
        struct timespec since; /* begin of the wait; all zero: not known */
        bool is_missing;       /* else it is pulled only to renew it */
        const char *manifest;  /* digest of the pull that it was joined with before; NULL: none */
} JoinImage;

typedef enum JoinResult {
        JOIN_NONE,
        JOIN_IMAGE,
        JOIN_REPOSITORY, /* several images of the repository fit */
} JoinResult;

typedef struct Join {
        JoinResult result;
        size_t image; /* index of the image, or of any of the repository */
} Join;

/* Fills ret with a result for each pull. All zero at first. */
int pull_join_plan(const JoinPull *pulls, size_t n_pulls, const JoinImage *images, size_t n_images,
                   Join *ret);
