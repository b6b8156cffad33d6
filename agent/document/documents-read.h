/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The two readers behind documents.h, which are of no use to anybody else
 */

#include <stdbool.h>

#include "agent/document/documents.h"

/* Appends a document, which it takes over also when it fails. */
int documents_take(Documents *documents, struct json_object *document);

/* Refuses with the line and column of a byte of the text. */
int documents_refuse_at(const char *text, size_t offset, const char *problem, Error *reterr);

/* Reads JSON values, one after the other. *ret_understood is false, and nothing was read, if the
 * text is not beyond doubt JSON: then it is the YAML reader that knows or says what is wrong with
 * it. */
int documents_read_json(const char *text, size_t size, Documents *ret, bool *ret_understood,
                        Error *reterr);

int documents_read_yaml(const char *text, size_t size, Documents *ret, Error *reterr);
