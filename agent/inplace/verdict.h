/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether a container runs the image that was asked for
 *
 * Two images are compared by what they are, their IDs, not by what they are called: the one that
 * the asked-for reference means on this node now, and the one that the container was made from. The
 * same content under another name is up to date; a tag that has been moved since, and pulled again,
 * is not. Pure.
 */

#include <stdbool.h>

typedef enum Verdict {
        VERDICT_UNKNOWN, /* one of the two cannot be told */
        VERDICT_CURRENT,
        VERDICT_STALE,
        _VERDICT_MAX,
} Verdict;

/* NULL or "": not known. */
Verdict verdict_of(const char *reference_id, const char *running_id);

/* "Unknown", "Current", "Stale" */
const char *verdict_to_string(Verdict verdict);
