/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/pod/env-hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/hash.h"

/* Hashes the text while making it, so that no copy of it exists as a whole. */
typedef struct JsonHash {
        uint32_t hash;
        bool has_bytes;
} JsonHash;

static void hash_raw_byte(JsonHash *to, char c) {
        to->hash = hash32_byte(to->hash, (uint8_t) c);
}

static void hash_raw(JsonHash *to, const char *text) {
        for (; *text; text++)
                hash_raw_byte(to, *text);
}

static void hash_byte(JsonHash *to, uint8_t byte) {
        if (to->has_bytes)
                hash_raw_byte(to, ' ');
        to->has_bytes = true;

        if (byte >= 100)
                hash_raw_byte(to, (char) ('0' + byte / 100));
        if (byte >= 10)
                hash_raw_byte(to, (char) ('0' + byte / 10 % 10));
        hash_raw_byte(to, (char) ('0' + byte % 10));
}

static void hash_text(JsonHash *to, const char *text) {
        for (; *text; text++)
                hash_byte(to, (uint8_t) *text);
}

static void hash_begin(JsonHash *to) {
        *to = (JsonHash){ .hash = HASH32_START };
        hash_raw(to, "([]uint8)[");
}

static uint32_t hash_end(JsonHash *to) {
        hash_raw(to, "]");
        return to->hash;
}

static bool is_continuation(uint8_t byte) {
        return (byte & 0xc0) == 0x80;
}

/* Returns the size of the first character of the text, which ends with NUL; 0 if it is no UTF-8.
 * Overlong forms, surrogates and characters above U+10FFFF are none. */
static size_t utf8_size(const uint8_t *text) {
        uint8_t first = text[0], second = text[1];

        if (first < 0x80)
                return 1;
        if (first < 0xc2 || first > 0xf4 || !is_continuation(second))
                return 0;
        if (first < 0xe0)
                return 2;
        if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
            (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f) ||
            !is_continuation(text[2]))
                return 0;
        if (first < 0xf0)
                return 3;

        return is_continuation(text[3]) ? 4 : 0;
}

/* Returns Go's escape of an ASCII character; NULL: Go writes the character itself. */
static const char *ascii_escape(uint8_t c, char buffer[static 7]) {
        static const char digits[] = "0123456789abcdef";

        switch (c) {
        case '"': return "\\\"";
        case '\\': return "\\\\";
        case '\b': return "\\b";
        case '\f': return "\\f";
        case '\n': return "\\n";
        case '\r': return "\\r";
        case '\t': return "\\t";
        }

        if (c >= 0x20 && c != '<' && c != '>' && c != '&')
                return NULL;

        memcpy(buffer, "\\u00", 4);
        buffer[4] = digits[c >> 4];
        buffer[5] = digits[c & 0xf];
        buffer[6] = '\0';
        return buffer;
}

static void hash_character(JsonHash *to, const uint8_t *text, size_t size) {
        const char *escape = NULL;
        char buffer[7];

        if (size == 1)
                escape = ascii_escape(text[0], buffer);
        else if (size == 3 && memcmp(text, "\xe2\x80\xa8", 3) == 0)
                escape = "\\u2028";
        else if (size == 3 && memcmp(text, "\xe2\x80\xa9", 3) == 0)
                escape = "\\u2029";

        if (escape)
                return hash_text(to, escape);

        for (size_t i = 0; i < size; i++)
                hash_byte(to, text[i]);
}

static void hash_string(JsonHash *to, const char *value) {
        const uint8_t *text = (const uint8_t *) value;

        hash_byte(to, '"');
        while (*text) {
                size_t size = utf8_size(text);

                if (size == 0)
                        hash_text(to, "\\ufffd");
                else
                        hash_character(to, text, size);
                text += size > 0 ? size : 1;
        }
        hash_byte(to, '"');
}

static void hash_member(JsonHash *to, const char *before, const char *value) {
        hash_text(to, before);
        hash_string(to, value);
}

/* All of them lie in one array, where an earlier one has the lower address. */
static int compare_values(const void *a, const void *b) {
        const EnvValue *left = *(const EnvValue *const *) a;
        const EnvValue *right = *(const EnvValue *const *) b;
        int r = strcmp(left->name, right->name);

        return r != 0 ? r : (left > right) - (left < right);
}

int env_hash(const EnvValue *values, size_t n_values, uint32_t *ret) {
        cleanup(free_p) const EnvValue **sorted = NULL;
        JsonHash hash;

        if (n_values == 0) {
                *ret = ENV_HASH_NONE;
                return 0;
        }

        sorted = malloc(n_values * sizeof(*sorted));
        if (!sorted)
                return -ENOMEM;

        for (size_t i = 0; i < n_values; i++)
                sorted[i] = &values[i];
        qsort(sorted, n_values, sizeof(*sorted), compare_values);

        hash_begin(&hash);
        for (size_t i = 0; i < n_values; i++) {
                hash_member(&hash, i == 0 ? "[{\"name\":" : ",{\"name\":", sorted[i]->name);
                if (sorted[i]->value[0])
                        hash_member(&hash, ",\"value\":", sorted[i]->value);
                hash_text(&hash, "}");
        }
        hash_text(&hash, "]");
        *ret = hash_end(&hash);
        return 0;
}

bool env_hash_parse_field(const char *path, bool *ret_is_label, Slice *ret_key) {
        Slice text = slice(path), key;
        const char *open;

        if (text.size < 2 || memcmp(text.data + text.size - 2, "']", 2) != 0)
                return false;

        text.size -= 2;
        open = memmem(text.data, text.size, "['", 2);
        if (!open)
                return false;

        key = slice_skip(slice_cut(&text, open), 1);
        if (!slice_equal(text, "metadata.labels") && !slice_equal(text, "metadata.annotations"))
                return false;

        *ret_is_label = slice_equal(text, "metadata.labels");
        *ret_key = key;
        return true;
}

bool env_hash_skips(const char *name) {
        return strcmp(name, "SIDECARSET_VERSION") == 0 ||
               strcmp(name, "SIDECARSET_VERSION_ALT") == 0;
}

uint32_t plain_hash(const char *name, const char *image) {
        JsonHash hash;

        hash_begin(&hash);
        hash_member(&hash, "{\"image\":", image);
        hash_member(&hash, ",\"name\":", name);
        hash_text(&hash, "}");
        return hash_end(&hash);
}
