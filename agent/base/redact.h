/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Redact
 *
 * Takes the secrets out of the URLs in a peer's text, before it is kept or shown: the user
 * and password, the query, which is where a signed URL has its signature, and the fragment. The
 * rest stays, because it names the server. In doubt, more is removed than necessary.
 *
 * A URL may be escaped, once or twice, as in JSON or within another URL, or be cut off anywhere;
 * a text of several parts should be redacted before it is cut all the same, since not every cut
 * can be recognised.
 */

#include <stddef.h>

/* Changes the text in place and returns its new size, which is never larger. */
size_t redact_urls(char *start, size_t size);

/* The same for a text that ends with a NUL. Returns it. */
char *redact_text(char *text);
