/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Replies of ExecSync, with output of an attacker, from a runtime that may be broken
 *
 * Pieces of any size lead to the same reply, and a message that protobuf-c takes has the same exit status here.
 */

#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/pod/exec-spec.h"
#include "cri/types.h"
#include "tests/fuzz/fuzz.h"

static int read_in_pieces(ExecReply *reply, const uint8_t *data, size_t size, size_t piece) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < size; i += piece)
                r = exec_reply_add(reply, data + i, size - i < piece ? size - i : piece);
        return r;
}

static void check_output(const ExecOutput *a, const ExecOutput *b) {
        check(a->size <= EXEC_OUTPUT_MAX && a->size == b->size);
        check(a->size == 0 || memcmp(a->data, b->data, a->size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        cleanup(exec_reply_done) ExecReply whole = EXEC_REPLY_INIT;
        cleanup(exec_reply_done) ExecReply pieces = EXEC_REPLY_INIT;
        int r = read_in_pieces(&whole, data, size, size ? size : 1);
        CriExec *message;

        check(read_in_pieces(&pieces, data, size, size > 64 ? size / 64 : 1) == r);
        if (r < 0)
                return 0;

        check(exec_reply_is_complete(&whole) == exec_reply_is_complete(&pieces));
        check(whole.exit_code == pieces.exit_code);
        check_output(&whole.stdout, &pieces.stdout);
        check_output(&whole.stderr, &pieces.stderr);
        if (!exec_reply_is_complete(&whole))
                return 0;

        message = runtime__v1__exec_sync_response__unpack(NULL, size - GRPC_PREFIX_SIZE,
                                                          data + GRPC_PREFIX_SIZE);
        check(!message || message->exit_code == whole.exit_code);
        if (message)
                runtime__v1__exec_sync_response__free_unpacked(message, NULL);
        return 0;
}
