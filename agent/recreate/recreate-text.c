/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/recreate/recreate-text.h"

#include <stdlib.h>
#include <string.h>

/* How many bytes the character has, or 0 if it is none that may stay. */
static size_t character_size(const unsigned char *text) {
        size_t size = text[0] < 0x80 ? 1 : text[0] < 0xe0 ? 2 : text[0] < 0xf0 ? 3 : 4;

        if (text[0] < 0x20 || text[0] == 0x7f || (text[0] >= 0x80 && text[0] < 0xc2) ||
            text[0] > 0xf4)
                return 0;
        for (size_t i = 1; i < size; i++)
                if ((text[i] & 0xc0) != 0x80)
                        return 0;

        if ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] > 0x9f) ||
            (text[0] == 0xf0 && text[1] < 0x90) || (text[0] == 0xf4 && text[1] > 0x8f))
                return 0;

        return size;
}

char *recreate_text_copy(const char *text) {
        size_t length = strlen(text), n = 0;
        char *copy;

        copy = malloc((length < RECREATE_TEXT_MAX ? length : RECREATE_TEXT_MAX) + 1);
        if (!copy)
                return NULL;

        for (size_t i = 0; i < length;) {
                size_t size = character_size((const unsigned char *) text + i);

                if (n + (size ?: 1) > RECREATE_TEXT_MAX)
                        break;
                if (size > 0)
                        memcpy(copy + n, text + i, size);
                else
                        copy[n] = (unsigned char) text[i] < 0x80 ? ' ' : '?';
                n += size ?: 1;
                i += size ?: 1;
        }

        copy[n] = '\0';
        return copy;
}
