/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether what the runtime shows can be reported as the truth
 *
 * An ID goes into the status only if it is one, and an image that was asked for by digest only if
 * the runtime holds that very digest. Pure.
 */

#include <stdbool.h>

#include "agent/base/error.h"
#include "agent/image/image-status.h"
#include "cri/types.h"

/* "sha256:" and 64 hexadecimal digits, or the digits alone (CRI-O). */
bool pull_verify_is_image_id(const char *id);

/* digest: what was asked for, or NULL or "" if it was a tag. Refuses with ERROR_INVALID. */
int pull_verify_image(const CriImage *image, const char *digest, Error *reterr);

/* The same, and then writes down ID and digests. */
int pull_verify_take(const CriImage *image, const char *digest, ImageStatus *status, Error *reterr);
