/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/base/utf8.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Returns the number of bytes that the first one announces, and the first bits of the character. */
static size_t utf8_begin(unsigned char first, uint32_t *ret) {
        if (first >= 0x01 && first < 0x80) {
                *ret = first;
                return 1;
        }
        if (first >= 0xC2 && first < 0xE0) {
                *ret = first & 0x1F;
                return 2;
        }
        if (first >= 0xE0 && first < 0xF0) {
                *ret = first & 0x0F;
                return 3;
        }
        if (first >= 0xF0 && first < 0xF5) {
                *ret = first & 0x07;
                return 4;
        }
        return 0;
}

/* Reads no more than size bytes. */
static size_t decode(const char *text, size_t size, uint32_t *ret) {
        static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
        uint32_t c = 0;
        size_t n;

        n = utf8_begin((unsigned char) text[0], &c);
        if (n > size)
                return 0;
        for (size_t i = 1; i < n; i++) {
                if (((unsigned char) text[i] & 0xC0) != 0x80)
                        return 0;
                c = c << 6 | ((unsigned char) text[i] & 0x3F);
        }

        if (n == 0 || c < smallest[n] || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000))
                return 0;

        *ret = c;
        return n;
}

size_t utf8_decode(const char *text, uint32_t *ret) {
        return decode(text, SIZE_MAX, ret);
}

size_t utf8_valid_size(const char *text, size_t size) {
        size_t i = 0, n = 1;

        while (i < size && n > 0) {
                uint32_t c;

                n = text[i] == '\0' ? 1 : decode(text + i, size - i, &c);
                i += n;
        }
        return i;
}

size_t utf8_cut(const char *text, size_t size) {
        while (size > 0 && ((unsigned char) text[size] & 0xc0) == 0x80)
                size--;
        return size;
}

char *utf8_repair(const char *text) {
        char *copy, *end;

        copy = end = malloc(strlen(text) * strlen(UTF8_REPLACEMENT) + 1);
        if (!copy)
                return NULL;

        while (*text) {
                uint32_t c;
                size_t n = utf8_decode(text, &c);

                if (n == 0) {
                        end = stpcpy(end, UTF8_REPLACEMENT);
                        text++;
                } else {
                        end = mempcpy(end, text, n);
                        text += n;
                }
        }

        *end = '\0';
        return copy;
}

static bool is_control(const char *text, uint32_t c) {
        if (c == '\t' || c == '\n' || (c == '\r' && text[1] == '\n'))
                return false;

        return c < 0x20 || (c >= 0x7F && c < 0xA0);
}

void utf8_hide_controls(char *text) {
        char *to = text;

        while (*text) {
                uint32_t c;
                size_t n = utf8_decode(text, &c);

                if (n > 0 && is_control(text, c))
                        *to++ = '?';
                else
                        for (size_t i = 0; i < (n ?: 1); i++)
                                *to++ = text[i];
                text += n ?: 1;
        }

        *to = '\0';
}
