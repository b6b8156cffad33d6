/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Texts of others that become part of a status
 */

#define RECREATE_TEXT_MAX 1024 /* bytes */

/* One line of UTF-8, whatever the text is, cut if it is longer than the limit. The caller owns it;
 * NULL: no memory. */
char *recreate_text_copy(const char *text);
