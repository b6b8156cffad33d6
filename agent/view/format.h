/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Numbers for people
 *
 * Sizes are decimal, as in the tools of the runtimes: 1 MB is 1,000,000 bytes. The functions fill
 * the caller's buffer and return it, so that they can be arguments of printf().
 */

#include <stdint.h>

#include "agent/base/error.h"

/* Large enough for each of these functions. */
typedef struct FormatBuffer {
        char text[40];
} FormatBuffer;

/* A buffer that lasts to the end of the innermost block, which may be a single statement. */
#define FORMAT_BUFFER (&(FormatBuffer){ .text = "" })

/* "512 B", "12.3 MB" */
const char *format_size(uint64_t bytes, FormatBuffer *buffer);

/* "12.3/67.1 MB": both in the unit of the total */
const char *format_share(uint64_t done, uint64_t total, FormatBuffer *buffer);

/* "5s", "1m05s", "2h10m", "3d04h" */
const char *format_duration(uint64_t seconds, FormatBuffer *buffer);

/* Adds tenths of a second to a short duration: "0.3s", "12s" */
const char *format_elapsed(uint64_t usec, FormatBuffer *buffer);

/* Uses one unit only: "45s", "12m", "3h", "5d" */
const char *format_age(uint64_t seconds, FormatBuffer *buffer);

/* "sha256:0123…" or "NAME@sha256:0123…" as "0123456789ab"; any other text is cut to the same
 * length. */
const char *format_short_id(const char *id, FormatBuffer *buffer);

/* Copies the reference with its digest cut to 12 digits: "NAME@sha256:0123456789ab". It may have a
 * tag as well. NULL if there is no memory. */
char *format_short_digest(const char *reference);

/* Reads "30s", "10m", "1h30m", or plain seconds "600". Refuses an empty text, zero, and more than
 * max_sec, which the message gives in whole hours. */
int duration_parse(const char *text, int64_t max_sec, int64_t *ret_sec, Error *reterr);
