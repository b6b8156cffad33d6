/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/base/siphash.h"

static uint64_t read_word(const uint8_t *bytes, size_t size) {
        uint64_t word = 0;

        for (size_t i = 0; i < size; i++)
                word |= (uint64_t) bytes[i] << (8 * i);
        return word;
}

static uint64_t rotate(uint64_t word, unsigned n) {
        return word << n | word >> (64 - n);
}

static void mix(uint64_t v[4], unsigned n_rounds) {
        while (n_rounds-- > 0) {
                v[0] += v[1];
                v[2] += v[3];
                v[1] = rotate(v[1], 13) ^ v[0];
                v[3] = rotate(v[3], 16) ^ v[2];
                v[0] = rotate(v[0], 32) + v[3];
                v[2] += v[1];
                v[3] = rotate(v[3], 21) ^ v[0];
                v[1] = rotate(v[1], 17) ^ v[2];
                v[2] = rotate(v[2], 32);
        }
}

static void add_word(uint64_t v[4], uint64_t word) {
        v[3] ^= word;
        mix(v, 2);
        v[0] ^= word;
}

uint64_t siphash(const uint8_t key[static SIPHASH_KEY_SIZE], const void *data, size_t size) {
        const uint64_t k0 = read_word(key, 8), k1 = read_word(key + 8, 8);
        const uint8_t *bytes = data;
        uint64_t v[4] = { k0 ^ UINT64_C(0x736f6d6570736575), k1 ^ UINT64_C(0x646f72616e646f6d),
                          k0 ^ UINT64_C(0x6c7967656e657261), k1 ^ UINT64_C(0x7465646279746573) };
        size_t n_words = size / 8;

        for (size_t i = 0; i < n_words; i++)
                add_word(v, read_word(bytes + 8 * i, 8));
        add_word(v, (uint64_t) size << 56 | read_word(bytes + 8 * n_words, size % 8));
        v[2] ^= 0xff;
        mix(v, 4);
        return v[0] ^ v[1] ^ v[2] ^ v[3];
}
