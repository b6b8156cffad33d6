/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Several asks for one image → one
 *
 * Everybody who asked must be content with the result: the strictest policy, the most patient
 * limits, the longest lifetime, all secrets and owners, and the newest version. A fault concerns one
 * of them alone. Pure.
 */

#include "agent/image/desired-image.h"

/* At least one desired image. Name and tag are those of the first. */
int merge_desired_images(const DesiredImage *const *desired_images, size_t n_desired,
                         DesiredImage *ret);

/* Whether one that came later would not have changed the secrets and limits, so that a failure of the
 * merged desired image is one of it, too. */
bool merge_is_within(const DesiredImage *desired, const DesiredImage *merged);
