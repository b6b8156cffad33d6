/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/secret-spec.h"

#include <errno.h>
#include <json-c/json_object.h>
#include <json-c/linkhash.h>
#include <netinet/in.h>
#include <resolv.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/quote.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"

#define NAME_MAX_SIZE 253

static const struct {
        const char *type;
        const char *key;
} types[] = {
        { "kubernetes.io/dockerconfigjson", ".dockerconfigjson" },
        { "kubernetes.io/dockercfg", ".dockercfg" },
};

#define N_TYPES (sizeof(types) / sizeof(types[0]))

void secret_text_done(SecretText *text) {
        if (text->data)
                explicit_bzero(text->data, text->size);
        free(text->data);
        *text = SECRET_TEXT_INIT;
}

/* Returns NULL if the member is missing or no text. */
static const char *read_string(json_object *object, const char *key) {
        json_object *value;

        if (!json_object_object_get_ex(object, key, &value) ||
            !json_object_is_type(value, json_type_string) ||
            strlen(json_object_get_string(value)) != (size_t) json_object_get_string_len(value))
                return NULL;

        return json_object_get_string(value);
}

static int find_key(json_object *secret, const char **ret, Error *reterr) {
        const char *type = read_string(secret, "type");

        for (size_t i = 0; type && i < N_TYPES; i++)
                if (strcmp(types[i].type, type) == 0) {
                        *ret = types[i].key;
                        return 0;
                }

        return error_set(reterr, ERROR_INVALID,
                         "its type is %s, and that of a pull secret is %s or %s",
                         type ? quote(type, (char[QUOTE_SIZE]){ 0 }) : "missing", types[0].type,
                         types[1].type);
}

static int decode(const char *text, const char *key, SecretText *ret, Error *reterr) {
        cleanup(secret_text_done) SecretText decoded = SECRET_TEXT_INIT;
        int n;

        decoded.size = strlen(text) + 1; /* upper bound of the decoded size */
        decoded.data = calloc(1, decoded.size);
        if (!decoded.data)
                return -ENOMEM;

        n = b64_pton(text, (unsigned char *) decoded.data, decoded.size);
        if (n < 0)
                return error_set(reterr, ERROR_INVALID, "the value of its key %s is not base64",
                                 key);
        if (n == 0)
                return error_set(reterr, ERROR_INVALID, "the value of its key %s is empty", key);

        decoded.size = (size_t) n;
        *ret = decoded;
        decoded = SECRET_TEXT_INIT;
        return 0;
}

static int read_data(json_object *secret, const char *key, SecretText *ret, Error *reterr) {
        json_object *data = NULL;
        const char *text;

        (void) json_object_object_get_ex(secret, "data", &data);
        if (!json_object_is_type(data, json_type_object) ||
            !json_object_object_get_ex(data, key, NULL))
                return error_set(reterr, ERROR_INVALID, "it has no key %s", key);

        text = read_string(data, key);
        if (!text)
                return error_set(reterr, ERROR_INVALID, "the value of its key %s is not base64",
                                 key);

        return decode(text, key, ret, reterr);
}

int secret_spec_parse(const char *text, size_t size, SecretText *ret, Error *reterr) {
        cleanup(json_object_wipe_p) json_object *secret = NULL;
        const char *key = NULL;
        int r;

        r = json_parse(text, size, &secret, reterr);
        if (r < 0)
                return r;
        if (!json_object_is_type(secret, json_type_object))
                return error_set(reterr, ERROR_INVALID, "the answer is not an object");

        r = find_key(secret, &key, reterr);
        if (r < 0)
                return r;

        return read_data(secret, key, ret, reterr);
}

static bool is_alphanumeric(char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool secret_spec_is_name(const char *text) {
        size_t size = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-.");

        return size > 0 && size <= NAME_MAX_SIZE && text[size] == '\0' &&
               is_alphanumeric(text[0]) && is_alphanumeric(text[size - 1]);
}
