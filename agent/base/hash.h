/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * FNV-1a (http://www.isthe.com/chongo/tech/comp/fnv/)
 *
 * Distinguishes texts that were not made to collide. Each function takes the hash so far, or the start, and
 * returns it with the next bytes added.
 */

#include <stddef.h>
#include <stdint.h>

#define HASH32_START UINT32_C(0x811c9dc5)
#define HASH64_START UINT64_C(0xcbf29ce484222325)

static inline uint32_t hash32_byte(uint32_t hash, uint8_t byte) {
        return (hash ^ byte) * UINT32_C(0x01000193);
}

static inline uint64_t hash64_byte(uint64_t hash, uint8_t byte) {
        return (hash ^ byte) * UINT64_C(0x100000001b3);
}

static inline uint64_t hash64_bytes(uint64_t hash, const void *data, size_t size) {
        const uint8_t *bytes = data;

        for (size_t i = 0; i < size; i++)
                hash = hash64_byte(hash, bytes[i]);

        return hash;
}

/* Adds the NUL as well, so that the next text does not join this one. */
static inline uint64_t hash64_text(uint64_t hash, const char *text) {
        do
                hash = hash64_byte(hash, (uint8_t) *text);
        while (*text++);

        return hash;
}

/* NULL differs from each text. */
static inline uint64_t hash64_text_or_null(uint64_t hash, const char *text) {
        return hash64_text(hash64_byte(hash, text != NULL), text ? text : "");
}

static inline uint64_t hash64_number(uint64_t hash, int64_t number) {
        return hash64_bytes(hash, &number, sizeof(number));
}
