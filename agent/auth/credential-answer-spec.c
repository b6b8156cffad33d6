/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/auth/credential-answer-spec.h"

#include <errno.h>
#include <json-c/json_object.h>
#include <string.h>

#include "agent/auth/duration-spec.h"
#include "agent/base/cleanup.h"
#include "agent/base/quote.h"
#include "agent/document/json-reader.h"
#include "agent/document/json-wipe.h"

/* clang-format off */
static const char *const scope_names[_CREDENTIAL_SCOPE_MAX] = {
        [CREDENTIAL_SCOPE_IMAGE]    = "Image",
        [CREDENTIAL_SCOPE_REGISTRY] = "Registry",
        [CREDENTIAL_SCOPE_GLOBAL]   = "Global",
};
/* clang-format on */

static inline void put_p(struct json_object **object) {
        json_object_put(*object);
}

static int add_string(struct json_object *object, const char *key, const char *text) {
        struct json_object *value = json_object_new_string(text);

        if (!value)
                return -ENOMEM;
        if (json_object_object_add(object, key, value) == 0)
                return 0;

        json_object_put(value);
        return -ENOMEM;
}

int credential_provider_request_format(const char *api_version, const char *canonical_name,
                                       char **ret) {
        cleanup(put_p) struct json_object *request = json_object_new_object();
        const char *text;
        int r;

        if (!request)
                return -ENOMEM;

        r = add_string(request, "kind", "CredentialProviderRequest");
        r = r < 0 ? r : add_string(request, "apiVersion", api_version);
        r = r < 0 ? r : add_string(request, "image", canonical_name);
        if (r < 0)
                return r;

        text = json_object_to_json_string_ext(request, JSON_C_TO_STRING_PLAIN |
                                                               JSON_C_TO_STRING_NOSLASHESCAPE);
        *ret = text ? strdup(text) : NULL;
        return *ret ? 0 : -ENOMEM;
}

static int check_word(struct json_object *response, const char *key, const char *expected,
                      Error *reterr) {
        const char *word;
        int r;

        r = json_read_string(response, NULL, key, &word, reterr);
        if (r < 0)
                return r;

        if (!word || strcmp(word, expected) != 0)
                return json_refuse(&(JsonPath){ .key = key }, reterr, "expected \"%s\", got %s",
                                   expected,
                                   word ? quote(word, (char[QUOTE_SIZE]){ 0 }) : "nothing");
        return 0;
}

static int read_scope(struct json_object *response, CredentialScope *ret, Error *reterr) {
        static const char key[] = "cacheKeyType";
        const char *word;
        int r;

        r = json_read_string(response, NULL, key, &word, reterr);
        if (r < 0)
                return r;

        for (int i = 0; word && i < _CREDENTIAL_SCOPE_MAX; i++)
                if (strcmp(word, scope_names[i]) == 0) {
                        *ret = (CredentialScope) i;
                        return 0;
                }

        return json_refuse(&(JsonPath){ .key = key }, reterr,
                           "expected \"Image\", \"Registry\" or \"Global\", got %s",
                           word ? quote(word, (char[QUOTE_SIZE]){ 0 }) : "nothing");
}

static int read_keep(struct json_object *response, CredentialProviderResponse *ret, Error *reterr) {
        static const char key[] = "cacheDuration";
        cleanup(error_done) Error error = ERROR_INIT;
        const char *text;
        int64_t usec;
        int r;

        r = json_read_string(response, NULL, key, &text, reterr);
        if (r < 0 || !text)
                return r;

        r = duration_parse(text, &usec, &error);
        if (r < 0)
                return json_refuse(&(JsonPath){ .key = key }, reterr, "%s", error_message(&error));

        ret->has_keep = true;
        ret->keep_usec = usec > 0 ? (uint64_t) usec : 0;
        return 0;
}

static int read_auth(struct json_object *response, CredentialsSpec *ret, Error *reterr) {
        struct json_object *auth = NULL;

        if (!json_object_object_get_ex(response, "auth", &auth) || !auth)
                return 0;
        if (!json_object_is_type(auth, json_type_object))
                return error_set(reterr, ERROR_INVALID, "auth: not an object");

        return credentials_spec_read(auth, ret, reterr);
}

static int read_response(struct json_object *json, const char *api_version,
                         CredentialProviderResponse *ret, Error *reterr) {
        int r;

        if (!json_object_is_type(json, json_type_object))
                return error_set(reterr, ERROR_INVALID, "not a JSON object");

        r = check_word(json, "kind", "CredentialProviderResponse", reterr);
        if (r < 0)
                return r;
        r = check_word(json, "apiVersion", api_version, reterr);
        if (r < 0)
                return r;
        r = read_scope(json, &ret->scope, reterr);
        if (r < 0)
                return r;
        r = read_keep(json, ret, reterr);
        if (r < 0)
                return r;

        return read_auth(json, &ret->credentials, reterr);
}

int credential_provider_response_parse(const char *text, size_t size, const char *api_version,
                                       CredentialProviderResponse *ret, Error *reterr) {
        cleanup(credential_provider_response_done) CredentialProviderResponse response =
                CREDENTIAL_PROVIDER_RESPONSE_INIT;
        cleanup(json_object_wipe_p) struct json_object *json = NULL;
        int r;

        r = credentials_json_parse(text, size, &json, reterr);
        if (r < 0)
                return r;
        r = read_response(json, api_version, &response, reterr);
        if (r < 0)
                return r;

        *ret = response;
        response = CREDENTIAL_PROVIDER_RESPONSE_INIT;
        return 0;
}

void credential_provider_response_done(CredentialProviderResponse *response) {
        credentials_spec_done(&response->credentials);
        *response = CREDENTIAL_PROVIDER_RESPONSE_INIT;
}
