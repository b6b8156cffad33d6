/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The reply of ExecSync, whole and in pieces
 */

#include <errno.h>

#include "agent/pod/exec-spec.h"
#include "cri/types.h"
#include "tests/unit/unit.h"

#define BYTES(text) text, sizeof(text) - 1

/* As gRPC sends it. The caller owns it. */
static uint8_t *pack(const CriExec *message, size_t *ret_size) {
        size_t size = runtime__v1__exec_sync_response__get_packed_size(message);
        uint8_t *body = malloc(GRPC_PREFIX_SIZE + size);

        assert_non_null(body);
        grpc_write_prefix(size, body);
        runtime__v1__exec_sync_response__pack(message, body + GRPC_PREFIX_SIZE);
        *ret_size = GRPC_PREFIX_SIZE + size;
        return body;
}

static void check(size_t stdout_size, size_t stderr_size, int32_t exit_code, size_t piece) {
        cleanup(exec_reply_done) ExecReply reply = EXEC_REPLY_INIT;
        cleanup(free_p) uint8_t *output = malloc(stdout_size + stderr_size + 1), *body = NULL;
        CriExec message = RUNTIME__V1__EXEC_SYNC_RESPONSE__INIT;
        size_t size;

        for (size_t i = 0; i < stdout_size + stderr_size; i++)
                output[i] = (uint8_t) i;
        message.stdout.data = output;
        message.stdout.len = stdout_size;
        message.stderr.data = output + stdout_size;
        message.stderr.len = stderr_size;
        message.exit_code = exit_code;
        body = pack(&message, &size);
        for (size_t i = 0; i < size; i += piece) {
                assert_false(exec_reply_is_complete(&reply));
                assert_ok(exec_reply_add(&reply, body + i, size - i < piece ? size - i : piece));
        }

        assert_true(exec_reply_is_complete(&reply));
        assert_int_equal(reply.exit_code, exit_code);
        assert_int_equal(reply.stdout.size,
                         stdout_size < EXEC_OUTPUT_MAX ? stdout_size : EXEC_OUTPUT_MAX);
        assert_int_equal(reply.stderr.size,
                         stderr_size < EXEC_OUTPUT_MAX ? stderr_size : EXEC_OUTPUT_MAX);
        if (reply.stdout.size > 0)
                assert_memory_equal(reply.stdout.data, output, reply.stdout.size);
        if (reply.stderr.size > 0)
                assert_memory_equal(reply.stderr.data, output + stdout_size, reply.stderr.size);

        /* Nothing follows. */
        assert_int_equal(exec_reply_add(&reply, "", 1), -EBADMSG);
}

TEST(test_replies) {
        static const size_t sizes[] = { 0, 1, 127, 128, EXEC_OUTPUT_MAX, 1 << 20 };
        static const size_t pieces[] = { 1, 3, 16384, 4 << 20 };
        static const int32_t codes[] = { 0, 1, 255, -1 };

        for (size_t i = 0; i < 6; i++)
                for (size_t k = 0; k < 4; k++) {
                        check(sizes[i], sizes[5 - i], codes[k], pieces[k]);
                        check(sizes[i], 0, codes[k], pieces[3 - k]);
                }
}

/* Fields that newer runtimes may add are left out. */
TEST(test_unknown_fields) {
        static const char body[] = "\0\0\0\0\x1b"
                                   "\x20\xff\x01"
                                   "\x29"
                                   "12345678"
                                   "\x35"
                                   "1234"
                                   "\x3a\x02hi"
                                   "\x0a\x02ok"
                                   "\x18\x05";
        cleanup(exec_reply_done) ExecReply reply = EXEC_REPLY_INIT;

        assert_ok(exec_reply_add(&reply, BYTES(body)));
        assert_int_equal(reply.exit_code, 5);
        assert_int_equal(reply.stdout.size, 2);
        assert_memory_equal(reply.stdout.data, "ok", 2);
}

static const struct BadRepliesRow {
        const char *body;
        size_t size;
} bad_replies_rows[] = {
        { BYTES("\1") },                  /* compressed */
        { BYTES("\0\1\0\0\1") },          /* 16 MiB and a byte */
        { BYTES("\0\xff\xff\xff\xff") },  /* 4 GiB */
        { BYTES("\0\0\0\0\5\x0a\5abc") }, /* a field beyond the message */
        { BYTES("\0\0\0\0\5\x0b\5abc") }, /* a group */
        { BYTES("\0\0\0\0\3\x09\1\2") },  /* eight bytes that are not there */
        { BYTES("\0\0\0\0\x20\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff") },
        { BYTES("\0\0\0\0\x20\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f") },
        { BYTES("\0\0\0\0\0x") }, /* behind the message */
};

TEST_ROWS(test_bad_replies, bad_replies_rows, body, const struct BadRepliesRow *row) {
        cleanup(exec_reply_done) ExecReply reply = EXEC_REPLY_INIT;

        assert_int_equal(exec_reply_add(&reply, row->body, row->size), -EBADMSG);
}

TEST(test_largest_reply) {
        cleanup(exec_reply_done) ExecReply reply = EXEC_REPLY_INIT;

        assert_ok(exec_reply_add(&reply, BYTES("\0\1\0\0\0")));
        assert_false(exec_reply_is_complete(&reply));
}

TEST(test_incomplete_replies) {
        static const char body[] = "\0\0\0\0\6\x0a\2ok\x18\5";

        for (size_t size = 0; size < sizeof(body) - 1; size++) {
                cleanup(exec_reply_done) ExecReply reply = EXEC_REPLY_INIT;

                assert_ok(exec_reply_add(&reply, body, size));
                assert_false(exec_reply_is_complete(&reply));
        }
}
