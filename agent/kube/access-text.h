/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Texts that give access, such as tokens and keys
 *
 * They do not stay in memory that is given back.
 */

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Frees the text and leaves nothing where it was. For cleanup(), too. */
static inline void access_text_done(char **text) {
        if (*text)
                explicit_bzero(*text, strlen(*text));
        free(*text);
        *text = NULL;
}

/* It can stand in a line of HTTP. */
static inline bool access_text_is_line(const char *text) {
        for (; *text; text++)
                if ((unsigned char) *text < ' ' || *text == 0x7f)
                        return false;

        return true;
}

static inline bool access_text_is_pem(const char *text) {
        return strstr(text, "-----BEGIN ") != NULL;
}
