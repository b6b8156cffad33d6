/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Answers of a server that is asked for its health, from an attacker
 *
 * The input is header lines, an empty line, and the body. Whatever it is, it means that the server is SERVING, or
 * one line says why not.
 */

#include <stdbool.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/pod/health-spec.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const char *at = (const char *) data, *end = at + size, *line;
        cleanup(error_done) Error error = ERROR_INIT;
        HealthReply reply = { .body_size = 0 };
        bool fits;
        int r;

        while ((line = memchr(at, '\n', (size_t) (end - at))) && line > at) {
                grpc_end_add_header(&reply.end, at, (size_t) (line + 1 - at));
                at = line + 1;
        }
        at += line ? 1 : 0;
        fits = health_spec_add_body(&reply, at, (size_t) (end - at));
        check(fits == ((size_t) (end - at) <= HEALTH_BODY_MAX));
        check(strlen(reply.end.message) <= GRPC_MESSAGE_MAX);

        r = health_spec_judge(&reply, 200, &error);
        if (r == 0) {
                check(error.kind == ERROR_NONE && reply.end.has_status && reply.end.status == 0);
                return 0;
        }

        check(error.kind != ERROR_NONE && strlen(error_message(&error)) > 0);
        for (const char *c = error_message(&error); *c; c++)
                check((unsigned char) *c >= ' ' && *c != 0x7f);
        return 0;
}
