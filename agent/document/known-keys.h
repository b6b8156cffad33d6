/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Known keys
 *
 * Finds the keys of documents that mean nothing to the reader, such as mistyped ones, and names each with
 * its line, its path and the known key that is nearest. The readers of the documents ignore these keys.
 * Pure.
 */

#include <stdbool.h>

#include "agent/document/documents.h"
#include "agent/document/json-fields.h"

#define UNKNOWN_KEYS_MAX 64 /* texts of one file */

/* Each text is one line that does not name the file: "line 4: spec.image: unknown key, ignored; did
 * you mean images?". Owned. */
typedef struct UnknownKeys {
        char **texts;
        size_t n_texts;
        size_t n_found; /* may be more than there are texts */
} UnknownKeys;

#define UNKNOWN_KEYS_INIT ((UnknownKeys){ .texts = NULL })

/* known_in() returns the keys of a document, or NULL for one that is not checked. A key "*" is any; without
 * fields of its own, the keys of a key's object, or of each object of its list, may be any. is_secret: keys
 * may hold passwords, so only keys that resemble a known one are named. */
int known_keys_check(const Documents *documents,
                     const JsonField *(*known_in)(struct json_object *document), bool is_secret,
                     UnknownKeys *ret);

/* Adds another line; the text is copied. */
int unknown_keys_add(UnknownKeys *unknown, const char *text);

void unknown_keys_done(UnknownKeys *unknown);
