/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The reply of a runtime's ExecSync, read as it arrives
 *
 * A command may print megabytes. Of each of its outputs the beginning is kept, and the exit status, which
 * follows them. Pure.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/pod/grpc-spec.h"

#define EXEC_REPLY_MAX ((size_t) 16 << 20)  /* bytes; what the kubelet allows a runtime */
#define EXEC_OUTPUT_MAX ((size_t) 10 << 10) /* bytes that are kept of each output */

typedef struct ExecOutput {
        uint8_t *data; /* owned */
        size_t size;
} ExecOutput;

typedef struct ExecReply {
        ExecOutput stdout, stderr;
        int32_t exit_code;

        /* Position in the message; private to exec-spec.c. */
        size_t n_prefix;  /* bytes of the prefix so far */
        size_t n_left;    /* bytes of the message */
        size_t n_content; /* of them, bytes of a field with contents */
        uint64_t number;  /* the one that is being read, */
        unsigned shift;   /* so many bits so far */
        unsigned field;
        uint8_t part;
} ExecReply;

#define EXEC_REPLY_INIT ((ExecReply){ .part = 0 })

void exec_reply_done(ExecReply *reply);

/* More of the body, with its prefix. 0; -EBADMSG: it is no such reply, or too large; -ENOMEM. */
int exec_reply_add(ExecReply *reply, const void *data, size_t size);

/* All of it is there. */
bool exec_reply_is_complete(const ExecReply *reply);
