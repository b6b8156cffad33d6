/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Results of the runs that the controller starts
 *
 * Pure.
 */

#include <json-c/json_types.h>
#include <stddef.h>

#define RUN_RESULT_MAX ((size_t) 64 * 1024) /* bytes that a run may print */

/* The {"outcome", "reason"} that a run prints. The reason may be NULL, and is cut where it is too long for a result: a list of
 * many pods must not make a good run a failed one. The caller owns *ret. */
int run_result(const char *outcome, const char *reason, json_object **ret);
