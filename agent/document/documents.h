/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Documents
 *
 * Turns a text that a person or a program wrote, YAML or JSON, into json-c objects that mean the
 * same as they would to kubectl. One text may hold several documents; empty ones do not count. A
 * text is taken as a whole or refused as a whole.
 *
 * Refused are also: a key that is given twice, text that is not UTF-8, a NUL in a string, merge
 * keys ("<<"), tags other than those of JSON's types, and whatever is larger than the limits below,
 * in which everything counts that aliases stand for.
 */

#include <json-c/json_types.h>
#include <stddef.h>

#include "agent/base/error.h"

#define DOCUMENTS_SIZE_MAX ((size_t) 4 << 20) /* bytes of text */
#define DOCUMENTS_VALUES_MAX 200000
#define DOCUMENTS_DEPTH_MAX 64

typedef struct Documents {
        struct json_object **items; /* to be read only: parts may be shared among them */
        size_t n_items;

        /* The line of each key, in the order of the text: of all documents, and within an object of its
         * members with all that is in them. Each key that an alias stands for has the alias's line. */
        unsigned *lines;
        size_t n_lines;
} Documents;

#define DOCUMENTS_INIT ((Documents){ .items = NULL })

/* The text need not end with a NUL. A refusal is one line such as "line 7, column 3: did not find
 * expected key", which counts from one, and columns in characters. */
int documents_parse(const char *text, size_t size, Documents *ret, Error *reterr);

/* Returns the number of keys in a value, and so of their lines. */
size_t documents_count_keys(struct json_object *value);

/* Frees the contents. Does nothing to DOCUMENTS_INIT. */
void documents_done(Documents *documents);

/* The same, for documents with secrets in them: wipes all texts first. */
void documents_wipe(Documents *documents);
