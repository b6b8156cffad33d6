/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A peer's text before a URL with secrets
 *
 * Whatever stands before it, nothing of the secrets is left, and the text does not grow.
 */

#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/redact.h"
#include "tests/fuzz/fuzz.h"

#define SECRET_URL " https://me:QQQQ@host/a?sig=QQQQ#QQQQ end"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const size_t whole = size + strlen(SECRET_URL);
        cleanup(free_p) char *text = NULL;
        size_t n;

        if (size > 0 && memchr(data, 'Q', size))
                return 0;

        text = malloc(whole); /* nothing readable behind it */
        check(text);
        if (size > 0)
                memcpy(text, data, size);
        memcpy(text + size, SECRET_URL, strlen(SECRET_URL));

        n = redact_urls(text, whole);
        check(n <= whole);
        check(!memchr(text, 'Q', n));
        return 0;
}
