/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The texts of a pod, on their way from its message to our own copy
 *
 * A text that is not set is NULL in a message, and "" in ours.
 */

#include <stdbool.h>
#include <stddef.h>

#include "agent/base/error.h"

#define SPEC_NAME_SIZE_MAX ((size_t) 253)
#define SPEC_TEXT_SIZE_MAX ((size_t) 4096)
#define SPEC_NOTE_SIZE_MAX \
        ((size_t) 256 << 10) /* what Kubernetes allows all annotations together */

/* NULL is like no text. */
bool spec_is_text(const char *text, const char *expected);

/* Whether there is anything in it. */
bool spec_has_text(const char *text);

/* A longer one is refused. Frees what *to was. what: of the error. */
int spec_copy_text(const char *text, size_t size_max, const char *what, char **to, Error *reterr);

/* One that is missing is refused, too. */
int spec_copy_name(const char *name, const char *what, char **to, Error *reterr);
