/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/base/error.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/redact.h"
#include "agent/base/text.h"

/* clang-format off */
static const struct {
        const char *name;
        int number;
} kinds[_ERROR_KIND_MAX] = {
        [ERROR_NONE]        = { "none",        0             },
        [ERROR_INVALID]     = { "invalid",     -EINVAL       },
        [ERROR_NOT_FOUND]   = { "not-found",   -ENOENT       },
        [ERROR_CONFLICT]    = { "conflict",    -EEXIST       },
        [ERROR_GONE]        = { "gone",        -ESTALE       },
        [ERROR_DENIED]      = { "denied",      -EACCES       },
        [ERROR_TIMEOUT]     = { "timeout",     -ETIMEDOUT    },
        [ERROR_UNAVAILABLE] = { "unavailable", -EHOSTUNREACH },
        [ERROR_CANCELED]    = { "canceled",    -ECANCELED    },
        [ERROR_UNSUPPORTED] = { "unsupported", -EOPNOTSUPP   },
        [ERROR_INTERNAL]    = { "internal",    -EIO          },
};
/* clang-format on */

int error_set(Error *error, ErrorKind kind, const char *format, ...) {
        assert(kind > ERROR_NONE && kind < _ERROR_KIND_MAX);

        if (!error)
                return kinds[kind].number;

        assert(error->kind == ERROR_NONE);

        va_list args;
        va_start(args, format);
        (void) text_vformat(&error->message, format, args);
        va_end(args);
        if (error->message)
                (void) redact_text(error->message);

        error->kind = kind;
        return kinds[kind].number;
}

int error_copy(Error *error, const Error *source) {
        return error_set(error, source->kind, "%s", error_message(source));
}

bool error_is_unanswered(const Error *error) {
        return error->kind == ERROR_UNAVAILABLE || error->kind == ERROR_TIMEOUT;
}

bool error_equal(const Error *a, const Error *b) {
        return a->kind == b->kind && strcmp(error_message(a), error_message(b)) == 0;
}

bool error_update(Error *error, const Error *source) {
        Error copy = ERROR_INIT;
        bool is_news = strcmp(error_message(error), error_message(source ?: &ERROR_INIT)) != 0;

        if (source)
                (void) error_copy(&copy, source);
        error_done(error);
        *error = copy;
        return is_news;
}

void error_done(Error *error) {
        free(error->message);
        *error = ERROR_INIT;
}

const char *error_message(const Error *error) {
        return error->message ?: kinds[error->kind].name;
}

const char *error_kind_to_string(ErrorKind kind) {
        assert(kind >= ERROR_NONE && kind < _ERROR_KIND_MAX);

        return kinds[kind].name;
}
