/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A preStop hook and a container's ports, from an attacker
 *
 * The first line is the handler, the rest the ports. What is accepted has all that its kind needs, and
 * nothing in it that could end a line of HTTP; what is refused says why in one line.
 */

#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/pod/handler-spec.h"
#include "tests/fuzz/fuzz.h"

static void check_http(const HandlerSpec *spec) {
        check(strcmp(spec->scheme, "http") == 0 || strcmp(spec->scheme, "https") == 0);
        check(spec->port > 0 && spec->path[0] == '/' && !strpbrk(spec->path, "\r\n#"));
        check(!spec->host || !strpbrk(spec->host, "/@?#[] \r\n"));
        for (size_t i = 0; i < spec->n_headers; i++) {
                check(spec->headers[i].name[0] && !strpbrk(spec->headers[i].name, ": \t\r\n"));
                check(!strpbrk(spec->headers[i].value, "\r\n"));
        }
}

static void check_spec(const HandlerSpec *spec) {
        cleanup(free_p) char *text = NULL;

        check(spec->kind != HANDLER_EXEC || spec->command[0]);
        check(spec->kind != HANDLER_TCP || spec->port > 0);
        check(spec->kind != HANDLER_SLEEP || spec->sleep_sec >= 0);
        if (spec->kind == HANDLER_HTTP)
                check_http(spec);
        check(handler_spec_describe_hook(spec, &text) == 0);
        check(!strpbrk(text, "\r\n") && (spec->host || strlen(text) < 300));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        cleanup(free_p) char *text = fuzz_text(data, size);
        cleanup(handler_spec_done) HandlerSpec spec = HANDLER_SPEC_INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        char *ports = strchr(text, '\n');

        if (ports)
                *ports++ = '\0';
        if (handler_spec_parse(text, ports, &spec, &error) < 0) {
                check(error.kind == ERROR_INVALID && !strchr(error_message(&error), '\n'));
                check(spec.kind == HANDLER_NONE && !spec.command && !spec.headers);
                return 0;
        }

        check(error.kind == ERROR_NONE);
        check_spec(&spec);
        return 0;
}
