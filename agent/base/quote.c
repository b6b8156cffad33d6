/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/base/quote.h"

#include <stddef.h>
#include <string.h>

/* Room behind the text for a quote, three dots and the NUL. */
#define TAIL_SIZE 5

static size_t character_size(const char *text) {
        size_t n = 1;

        while (((unsigned char) text[n] & 0xc0) == 0x80)
                n++;
        return n;
}

const char *quote(const char *text, char buffer[static QUOTE_SIZE]) {
        char *to = buffer;

        *to++ = '"';
        while (*text) {
                size_t n = character_size(text);

                if (to + n + 1 > buffer + QUOTE_SIZE - TAIL_SIZE)
                        break;
                if (*text == '"' || *text == '\\')
                        *to++ = '\\';

                if ((unsigned char) *text < ' ' || *text == 0x7f)
                        *to++ = '?';
                else
                        to = mempcpy(to, text, n);
                text += n;
        }

        strcpy(to, *text ? "\"..." : "\"");
        return buffer;
}
