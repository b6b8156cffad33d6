/* SPDX-License-Identifier: Apache-2.0 */

/* SipHash-2-4, by vectors of its authors: the key is 00 01 .. 0f, the bytes are 00 01 ... */

#include "tests/unit/unit.h"

#include "agent/base/siphash.h"

static const struct Row {
        const char *name;
        size_t size;
        uint64_t hash;
} rows[] = {
        { "nothing", 0, UINT64_C(0x726fdb47dd0e0e31) },
        { "a part of a word", 1, UINT64_C(0x74f839c593dc67fd) },
        { "a word", 8, UINT64_C(0x93f5f5799a932462) },
        { "a word and a part", 15, UINT64_C(0xa129ca6149be45e5) },
};

TEST_ROWS(test_siphash, rows, name, const struct Row *row) {
        uint8_t bytes[16];

        for (size_t i = 0; i < sizeof(bytes); i++)
                bytes[i] = (uint8_t) i;
        assert_true(siphash(bytes, bytes, row->size) == row->hash);
}
