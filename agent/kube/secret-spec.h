/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a Secret holds for registries
 *
 * Reads core/v1 Secret of the types kubernetes.io/dockerconfigjson and kubernetes.io/dockercfg, as
 * far as the value of their key, decoded. What that says is left to agent/image/credentials.h, which
 * knows both forms. No refusal ever has any of the value in it.
 */

#include <stdbool.h>
#include <stddef.h>

#include "agent/base/error.h"

typedef struct SecretText {
        char *data; /* not ended by a NUL */
        size_t size;
} SecretText;

#define SECRET_TEXT_INIT ((SecretText){ .data = NULL })

/* The text need not end with a NUL. */
int secret_spec_parse(const char *text, size_t size, SecretText *ret, Error *reterr);

/* Wipes it. Does nothing to SECRET_TEXT_INIT. */
void secret_text_done(SecretText *text);

/* Namespaces and secrets can be called so (RFC 1123): there is nothing in it that would mean
 * something else in a path or in a message. */
bool secret_spec_is_name(const char *text);
