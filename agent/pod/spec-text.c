/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/pod/spec-text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool spec_is_text(const char *text, const char *expected) {
        return text && strcmp(text, expected) == 0;
}

bool spec_has_text(const char *text) {
        return text && text[0];
}

int spec_copy_text(const char *text, size_t size_max, const char *what, char **to, Error *reterr) {
        char *copy;

        if (text && strlen(text) > size_max)
                return error_set(reterr, ERROR_INVALID, "%s: has more than %zu bytes", what,
                                 size_max);

        copy = strdup(text ?: "");
        if (!copy)
                return -ENOMEM;

        free(*to);
        *to = copy;
        return 0;
}

int spec_copy_name(const char *name, const char *what, char **to, Error *reterr) {
        if (!spec_has_text(name))
                return error_set(reterr, ERROR_INVALID, "%s: is missing", what);

        return spec_copy_text(name, SPEC_NAME_SIZE_MAX, what, to, reterr);
}
