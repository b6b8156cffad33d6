/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Registry credentials in a Secret
 *
 * Reads core/v1 Secret of the types kubernetes.io/dockerconfigjson and kubernetes.io/dockercfg, and
 * decodes the value of their key. agent/image/credentials.h parses that value, in both forms. No refusal
 * ever quotes it.
 */

#include <stdbool.h>
#include <stddef.h>

#include "agent/base/error.h"

typedef struct SecretText {
        char *data; /* text without a NUL at its end */
        size_t size;
} SecretText;

#define SECRET_TEXT_INIT ((SecretText){ .data = NULL })

/* The text need not end with a NUL. */
int secret_spec_parse(const char *text, size_t size, SecretText *ret, Error *reterr);

/* Wipes it. Does nothing to SECRET_TEXT_INIT. */
void secret_text_done(SecretText *text);

/* Whether a namespace or secret can have this name (RFC 1123), in which nothing has a meaning in a
 * path or in a message. */
bool secret_spec_is_name(const char *text);
