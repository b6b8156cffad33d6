/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/reply-spec.h"

#include <errno.h>
#include <json-c/json_tokener.h>
#include <json-c/printbuf.h>
#include <limits.h>
#include <string.h>

#include "agent/base/cleanup.h"

#define DEPTH_MAX 32

/* It keeps the last string it has read. */
static void tokener_done(json_tokener **tokener) {
        if (!*tokener)
                return;

        if ((*tokener)->pb && (*tokener)->pb->buf)
                explicit_bzero((*tokener)->pb->buf, (size_t) (*tokener)->pb->size);
        json_tokener_free(*tokener);
}

/* What json-c says of a mistake are constant words, so it can be repeated. */
int reply_spec_parse(const char *text, size_t size, struct json_object **ret, Error *reterr) {
        cleanup(tokener_done) json_tokener *tokener = NULL;
        json_object *json;
        enum json_tokener_error error;

        if (size > INT_MAX)
                return error_set(reterr, ERROR_INVALID, "the answer is too large");

        tokener = json_tokener_new_ex(DEPTH_MAX);
        if (!tokener)
                return -ENOMEM;

        json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
        json = json_tokener_parse_ex(tokener, text, (int) size);
        error = json_tokener_get_error(tokener);
        if (error == json_tokener_continue)
                return error_set(reterr, ERROR_INVALID,
                                 "the answer is not valid JSON: it ends too early");
        if (error != json_tokener_success)
                return error_set(reterr, ERROR_INVALID,
                                 "the answer is not valid JSON at byte %zu: %s",
                                 json_tokener_get_parse_end(tokener),
                                 json_tokener_error_desc(error));

        *ret = json;
        return 0;
}
