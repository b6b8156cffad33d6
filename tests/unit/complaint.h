/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Keeps the last complaint of a command instead of printing it
 *
 * complain() has to be wrapped, see tests/CMakeLists.txt.
 */

#include "agent/base/text.h"
#include "agent/view/terminal.h"
#include "tests/unit/unit.h"

static char *said; /* the last complaint; NULL: there is none */

void __wrap_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

void __wrap_complain(const char *format, ...) {
        va_list arguments;

        va_start(arguments, format);
        free(said);
        assert_ok(text_vformat(&said, format, arguments));
        va_end(arguments);
}

static inline void forget_complaint(void) {
        free(take_ptr(said));
}
