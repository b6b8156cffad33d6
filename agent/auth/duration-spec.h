/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Durations as Kubernetes writes them
 *
 * "12h0m0s", "1.5h", "300ms", "-5s", "0": numbers, each with a unit of h, m, s, ms, us or ns.
 */

#include <stdint.h>

#include "agent/base/error.h"

/* In microseconds, cut to whole ones. Refused are other texts and more than 292 years; *ret is left
 * alone then. */
int duration_parse(const char *text, int64_t *ret_usec, Error *reterr);
