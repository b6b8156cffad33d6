/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A Secret, from a server that means harm
 *
 * What is accepted has a value, of at most three bytes for each four of the text; what is refused
 * leaves nothing behind, and a reason of one short line.
 */

#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/kube/secret-spec.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        cleanup(secret_text_done) SecretText text = SECRET_TEXT_INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        r = secret_spec_parse((const char *) data, size, &text, &error);
        check((r < 0) == (error.kind != ERROR_NONE));
        check((r < 0) == !text.data);
        if (r < 0) {
                check(strlen(error_message(&error)) < 256);
                check(!strchr(error_message(&error), '\n'));
        } else {
                check(text.size > 0 && text.size <= size / 4 * 3);
        }
        return 0;
}
