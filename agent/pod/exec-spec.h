/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The reply of a runtime's ExecSync, read as it arrives
 *
 * A command may print megabytes. The reader keeps the beginning of each output, and the exit status behind
 * them. Pure.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/pod/grpc-spec.h"

#define EXEC_REPLY_MAX ((size_t) 16 << 20)  /* bytes; the kubelet's limit for a runtime's reply */
#define EXEC_OUTPUT_MAX ((size_t) 10 << 10) /* bytes that are kept of each output */

typedef struct ExecOutput {
        uint8_t *data; /* owned */
        size_t size;
} ExecOutput;

typedef struct ExecReply {
        ExecOutput stdout, stderr;
        int32_t exit_code;

        /* Position in the message; private to exec-spec.c. */
        size_t n_prefix;  /* bytes of the prefix that have arrived */
        size_t n_left;    /* bytes left of the message */
        size_t n_content; /* bytes left of a field with contents */
        uint64_t number;  /* number that is being read */
        unsigned shift;   /* bits of it that have arrived */
        unsigned field;
        uint8_t part;
} ExecReply;

#define EXEC_REPLY_INIT ((ExecReply){ .part = 0 })

void exec_reply_done(ExecReply *reply);

/* Adds more of the body, prefix included. Returns -EBADMSG if it is no such reply or too large. */
int exec_reply_add(ExecReply *reply, const void *data, size_t size);

bool exec_reply_is_complete(const ExecReply *reply);
