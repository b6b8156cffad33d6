/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The JSON of a reply
 *
 * The server may be a proxy that claims to be it: what it says is read with limits, and
 * refused as a whole if it is not one JSON value in UTF-8.
 */

#include <json-c/json_types.h>
#include <stddef.h>

#include "agent/base/error.h"

/* The text need not end with a NUL. The caller owns *ret, which is NULL for "null". Neither the error
 * nor the memory that was used meanwhile has any of the text in it afterwards. */
int reply_spec_parse(const char *text, size_t size, struct json_object **ret, Error *reterr);
