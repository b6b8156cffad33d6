/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Documents with secrets in them, and texts that give access, such as tokens and keys
 *
 * No error repeats a value, since a secret may stand where something else belongs; their readers have
 * JsonPath.is_secret for that. Documents do not stay in memory that is given back.
 */

#include <stdbool.h>
#include <string.h>

#include "agent/document/documents.h"
#include "agent/document/json-fields.h"

/* Parses the only document of the text, an object; free it with documents_wipe(). */
int access_json_parse(const char *text, size_t size, Documents *ret, Error *reterr);

/* A hook of JSON_TEXT: copies a text without control characters. */
int access_json_read_line(const char *text, const JsonPath *path, void *ret, const void *context,
                          Error *reterr);

static inline bool access_text_is_pem(const char *text) {
        return strstr(text, "-----BEGIN ") != NULL;
}
