/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Refusals of the API server
 *
 * A refusal has a status of HTTP and an object of the kind Status, in JSON or in protobuf, whose message
 * is for people. A proxy in between answers with text or a page instead.
 */

#include <stddef.h>

#include "agent/base/error.h"

/* Returns the kind of a status other than 2xx; see client.h for the table. */
ErrorKind kube_status_kind(int code);

/* Fills *ret, which must be unset, with the kind and one line: what the Status object says, or a
 * short text, or only the number. The body need not end with a NUL. */
void kube_status_error(int code, const char *body, size_t size, Error *ret);
