/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Times as the Kubernetes API writes them (RFC 3339, UTC, whole seconds)
 */

#include <stdint.h>

#define RFC3339_SIZE sizeof("2026-01-31T23:59:59Z")

/* Fills the buffer and returns it. The time is in seconds since the epoch, of a year up to 9999. */
const char *rfc3339_format(int64_t time, char buffer[static RFC3339_SIZE]);

/* Cuts off fractions of a second, understands numeric offsets. -EINVAL: not a time. */
int rfc3339_parse(const char *text, int64_t *ret);
