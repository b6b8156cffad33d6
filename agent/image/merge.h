/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Several wishes for one image → one
 *
 * Everybody who asked must be content with the result: the strictest policy, the most patient
 * limits, the longest lifetime, all secrets and owners, and the newest version. A fault concerns one
 * of them alone. Pure.
 */

#include "agent/image/wish.h"

/* At least one wish. Name and tag are those of the first. */
int merge_wishes(const ImageWish *const *wishes, size_t n_wishes, ImageWish *ret);

/* Whether one that came later would not have changed the secrets and limits, so that a failure of the
 * merged wish is one of it, too. */
bool merge_is_within(const ImageWish *wish, const ImageWish *merged);
