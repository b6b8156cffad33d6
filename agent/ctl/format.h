/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Numbers for people
 *
 * Sizes are decimal, as in the tools of the runtimes: 1 MB is 1,000,000 bytes. The functions fill
 * a buffer that the caller brings and return it, so that they can stand among printf's arguments.
 */

#include <stddef.h>
#include <stdint.h>

#include "agent/base/error.h"

/* Enough for whatever these functions write. */
typedef struct FormatBuffer {
        char text[40];
} FormatBuffer;

/* One that lasts to the end of the innermost block, which may be a single statement. */
#define FORMAT_BUFFER (&(FormatBuffer){ .text = "" })

/* "512 B", "12.3 MB" */
const char *format_size(uint64_t bytes, FormatBuffer *buffer);

/* "12.3/67.1 MB": both in the unit of the total */
const char *format_share(uint64_t done, uint64_t total, FormatBuffer *buffer);

/* "5s", "1m05s", "2h10m", "3d04h" */
const char *format_duration(uint64_t seconds, FormatBuffer *buffer);

/* The same, but tenths of a second count while it is short: "0.3s", "12s" */
const char *format_elapsed(uint64_t usec, FormatBuffer *buffer);

/* One unit only: "45s", "12m", "3h", "5d" */
const char *format_age(uint64_t seconds, FormatBuffer *buffer);

/* "sha256:0123…" or "NAME@sha256:0123…" as "0123456789ab"; any other text is cut to the same
 * length. */
const char *format_short_id(const char *id, FormatBuffer *buffer);

/* A copy in which digests have 12 digits: "NAME@sha256:0123456789ab". A tag may be one as well. NULL
 * if there is no memory. */
char *format_short_digest(const char *reference);

/* Reads "30s", "10m", "1h30m", or plain seconds "600". Refuses nothing, zero, and what is longer than
 * max_sec, a number of whole hours as far as the refusal is concerned. */
int duration_parse(const char *text, int64_t max_sec, int64_t *ret_sec, Error *reterr);
