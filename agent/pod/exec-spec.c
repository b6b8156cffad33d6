/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/pod/exec-spec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The meaning of the next number in the message. */
enum {
        PART_KEY, /* the first of a field */
        PART_VALUE,
        PART_SIZE,
};

/* The encoding of a field, from its key. */
enum {
        TYPE_NUMBER = 0,
        TYPE_8_BYTES = 1,
        TYPE_SIZED = 2,
        TYPE_4_BYTES = 5,
};

/* Fields of runtime.v1.ExecSyncResponse */
enum {
        FIELD_NONE,
        FIELD_STDOUT,
        FIELD_STDERR,
        FIELD_EXIT_CODE,
};

void exec_reply_done(ExecReply *reply) {
        free(reply->stdout.data);
        free(reply->stderr.data);
        *reply = EXEC_REPLY_INIT;
}

static int output_add(ExecOutput *output, const uint8_t *data, size_t size) {
        size_t room = EXEC_OUTPUT_MAX - output->size, n = size < room ? size : room;
        uint8_t *copy;

        if (n == 0)
                return 0;

        copy = realloc(output->data, output->size + n);
        if (!copy)
                return -ENOMEM;

        memcpy(copy + output->size, data, n);
        output->data = copy;
        output->size += n;
        return 0;
}

static int reply_add_prefix(ExecReply *reply, uint8_t byte) {
        if (reply->n_prefix == 0 && byte != 0)
                return -EBADMSG;

        reply->n_left = reply->n_left << 8 | byte;
        reply->n_prefix++;
        return reply->n_left > EXEC_REPLY_MAX ? -EBADMSG : 0;
}

/* The field's contents follow. */
static int reply_begin_content(ExecReply *reply, uint64_t size) {
        if (size > reply->n_left)
                return -EBADMSG;

        reply->n_content = (size_t) size;
        reply->part = PART_KEY;
        return 0;
}

static int reply_begin_field(ExecReply *reply, uint64_t key) {
        reply->field = key >> 3 <= FIELD_EXIT_CODE ? (unsigned) (key >> 3) : FIELD_NONE;
        switch (key & 7) {
        case TYPE_NUMBER: reply->part = PART_VALUE; return 0;
        case TYPE_SIZED: reply->part = PART_SIZE; return 0;
        case TYPE_8_BYTES: reply->field = FIELD_NONE; return reply_begin_content(reply, 8);
        case TYPE_4_BYTES: reply->field = FIELD_NONE; return reply_begin_content(reply, 4);
        default: return -EBADMSG;
        }
}

static int reply_on_number(ExecReply *reply, uint64_t number) {
        if (reply->part == PART_KEY)
                return reply_begin_field(reply, number);
        if (reply->part == PART_SIZE)
                return reply_begin_content(reply, number);

        if (reply->field == FIELD_EXIT_CODE)
                reply->exit_code = (int32_t) number;
        reply->part = PART_KEY;
        return 0;
}

static int reply_add_number(ExecReply *reply, uint8_t byte) {
        uint64_t number = reply->number | (uint64_t) (byte & 0x7f) << reply->shift;

        reply->n_left--;
        reply->shift += 7;
        if (byte & 0x80) {
                reply->number = number;
                return reply->shift < 64 ? 0 : -EBADMSG;
        }

        reply->number = 0;
        reply->shift = 0;
        return reply_on_number(reply, number);
}

static int reply_add_content(ExecReply *reply, const uint8_t *data, size_t size) {
        reply->n_left -= size;
        reply->n_content -= size;
        if (reply->field == FIELD_STDOUT)
                return output_add(&reply->stdout, data, size);

        return reply->field == FIELD_STDERR ? output_add(&reply->stderr, data, size) : 0;
}

int exec_reply_add(ExecReply *reply, const void *data, size_t size) {
        const uint8_t *at = data, *const end = at + size;
        int r = 0;

        while (r >= 0 && at < end) {
                size_t n = 1;

                if (reply->n_prefix < GRPC_PREFIX_SIZE) {
                        r = reply_add_prefix(reply, *at);
                } else if (reply->n_content > 0) {
                        n = reply->n_content;
                        n = n < (size_t) (end - at) ? n : (size_t) (end - at);
                        r = reply_add_content(reply, at, n);
                } else {
                        r = reply->n_left > 0 ? reply_add_number(reply, *at) : -EBADMSG;
                }
                at += n;
        }

        return r;
}

bool exec_reply_is_complete(const ExecReply *reply) {
        return reply->n_prefix == GRPC_PREFIX_SIZE && reply->n_left == 0 && reply->shift == 0 &&
               reply->part == PART_KEY;
}
