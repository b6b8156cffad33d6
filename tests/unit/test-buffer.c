/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Bytes that may be a secret
 */

#include "agent/base/buffer.h"
#include "tests/unit/unit.h"

TEST(test_grows) {
        cleanup(buffer_done) Buffer buffer = { .data = NULL };

        for (unsigned i = 0; i < 1000; i++) {
                assert_ok(buffer_add(&buffer, "secret", 6));
                assert_int_equal(buffer.size, 6 * (i + 1));
                assert_int_equal(strlen(buffer.data), buffer.size);
                assert_true(buffer.room > buffer.size);
        }
        for (unsigned i = 0; i < 1000; i++)
                assert_memory_equal(buffer.data + 6 * i, "secret", 6);

        buffer_done(&buffer);
        assert_null(buffer.data);
        assert_int_equal(buffer.size + buffer.room, 0);
}

TEST(test_room_is_for_a_nul_as_well) {
        cleanup(buffer_done) Buffer buffer = { .data = NULL };

        assert_ok(buffer_reserve(&buffer, 1023));
        assert_int_equal(buffer.room, 1024);
        assert_ok(buffer_reserve(&buffer, 1024));
        assert_int_equal(buffer.room, 2048);
        assert_ok(buffer_reserve(&buffer, 0));
        assert_int_equal(buffer.room, 2048);
}
