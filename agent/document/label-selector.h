/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Label selectors as kubectl writes them
 *
 * "pool=gpu,zone in (a,b),!spot": all requirements have to hold. An empty one selects everything.
 * See kubernetes.io/docs/concepts/overview/working-with-objects/labels ("Label selectors"). Pure.
 */

#include <json-c/json_types.h>
#include <stdbool.h>

#include "agent/base/error.h"

/* labels: a JSON object of strings, or NULL for none. Returns 0 and sets *ret; refuses a text that is no
 * selector with ERROR_INVALID, and leaves *ret alone then. */
int label_selector_match(const char *selector, struct json_object *labels, bool *ret,
                         Error *reterr);
