/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/access-json.h"

#include <json-c/json_object.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"

/* Errors may quote from the text, such as a password that begins with "!" and so is a tag. Such an
 * error is replaced by one that names only the place. */
static int refuse_text(const Error *error, Error *reterr) {
        const char *message = error_message(error);
        const char *colon = strchr(message, ':');

        if (!colon || !strchr(message, '"'))
                return error_copy(reterr, error);

        return error_set(reterr, error->kind, "%.*s: this cannot be understood",
                         (int) (colon - message), message);
}

int access_json_parse(const char *text, size_t size, Documents *ret, Error *reterr) {
        cleanup(documents_wipe) Documents documents = DOCUMENTS_INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        r = documents_parse(text, size, &documents, &error);
        if (error.kind != ERROR_NONE)
                return refuse_text(&error, reterr);
        if (r < 0)
                return r;

        if (documents.n_items == 0)
                return error_set(reterr, ERROR_INVALID, "is empty");
        if (documents.n_items > 1)
                return error_set(reterr, ERROR_INVALID, "has more than one document");
        if (!json_object_is_type(documents.items[0], json_type_object))
                return error_set(reterr, ERROR_INVALID, "is neither a YAML nor a JSON object");

        *ret = documents;
        documents = DOCUMENTS_INIT;
        return 0;
}

int access_json_read_line(const char *text, const JsonPath *path, void *ret, const void *context,
                          Error *reterr) {
        if (text && !text_is_line(text))
                return json_refuse(path, reterr, "has a control character in it");
        return text_copy(text, ret);
}
