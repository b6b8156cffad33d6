/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/auth/credential-provider-spec.h"

#include <errno.h>
#include <json-c/json_object.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/quote.h"
#include "agent/base/text.h"
#include "agent/base/time-units.h"
#include "agent/document/documents.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-fields.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/image/credentials.h"

#define KIND "CredentialProviderConfig"
#define CONFIG_GROUP "kubelet.config.k8s.io/"
#define PLUGIN_GROUP "credentialprovider.kubelet.k8s.io/"

/* clang-format off */
static const struct Unit {
        const char *name;
        uint64_t nsec;
} units[] = {
        { "ns",           1 },
        { "us",           1000 },
        { "\xc2\xb5s",    1000 }, /* the micro sign */
        { "\xce\xbcs",    1000 }, /* the letter mu */
        { "ms",           1000000 },
        { "s",            1000000000 },
        { "m",            (uint64_t) 60 * 1000000000 },
        { "h",            (uint64_t) 3600 * 1000000000 },
};
/* clang-format on */

static bool is_digit(char c) {
        return c >= '0' && c <= '9';
}

/* Finds the unit, which ends where the next number begins. */
static const struct Unit *find_unit(const char *text, size_t size) {
        for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
                if (strlen(units[i].name) == size && memcmp(units[i].name, text, size) == 0)
                        return &units[i];

        return NULL;
}

static bool read_integer(const char **text, uint64_t *ret) {
        uint64_t value = 0;

        for (; is_digit(**text); (*text)++)
                if (__builtin_mul_overflow(value, (uint64_t) 10, &value) ||
                    __builtin_add_overflow(value, (uint64_t) (**text - '0'), &value))
                        return false;

        *ret = value;
        return true;
}

/* Reads the digits behind the point; digits too small to matter are skipped. */
static void read_fraction(const char **text, uint64_t *ret, uint64_t *ret_scale) {
        uint64_t value = 0, scale = 1;

        for (; is_digit(**text); (*text)++)
                if (scale < (uint64_t) 1000000000000000) {
                        value = value * 10 + (uint64_t) (**text - '0');
                        scale *= 10;
                }

        *ret = value;
        *ret_scale = scale;
}

/* Adds one number with its unit. */
static bool read_part(const char **text, uint64_t *nsec) {
        uint64_t value, part, rest, fraction = 0, scale = 1;
        const char *start = *text;
        const struct Unit *unit;
        size_t n_digits, size;

        if (!read_integer(text, &value))
                return false;
        n_digits = (size_t) (*text - start);
        if (**text == '.') {
                (*text)++;
                start = *text;
                read_fraction(text, &fraction, &scale);
                n_digits += (size_t) (*text - start);
        }

        size = strcspn(*text, ".0123456789");
        unit = find_unit(*text, size);
        *text += size;
        if (n_digits == 0 || !unit || __builtin_mul_overflow(value, unit->nsec, &part))
                return false;

        rest = (uint64_t) ((long double) fraction / (long double) scale * (long double) unit->nsec);
        return !__builtin_add_overflow(part, rest, &part) &&
               !__builtin_add_overflow(*nsec, part, nsec) && *nsec <= INT64_MAX;
}

int go_duration_parse(const char *text, int64_t *ret_usec, Error *reterr) {
        bool is_negative = text[0] == '-';
        const char *at = text + (text[0] == '-' || text[0] == '+');
        uint64_t nsec = 0;
        bool is_good = *at != '\0';

        if (strcmp(at, "0") != 0)
                while (is_good && *at)
                        is_good = read_part(&at, &nsec);

        if (!is_good)
                return error_set(reterr, ERROR_INVALID,
                                 "expected a duration such as \"12h\" or \"5m30s\", got %s",
                                 quote(text, (char[QUOTE_SIZE]){ 0 }));

        *ret_usec = (int64_t) nsec / NSEC_PER_USEC * (is_negative ? -1 : 1);
        return 0;
}

/* Refuses what is not the group, such as "kubelet.config.k8s.io/", and v1, v1beta1 or v1alpha1. */
static int check_version(const char *text, const JsonPath *path, const char *group, Error *reterr) {
        static const char *const versions[] = { "v1", "v1beta1", "v1alpha1" };
        bool is_group = text && strncmp(text, group, strlen(group)) == 0;

        for (size_t i = 0; is_group && i < sizeof(versions) / sizeof(versions[0]); i++)
                if (strcmp(text + strlen(group), versions[i]) == 0)
                        return 0;

        return json_refuse(path, reterr, "expected %sv1, v1beta1 or v1alpha1, got %s", group,
                           text ? quote(text, (char[QUOTE_SIZE]){ 0 }) : "nothing");
}

static int read_duration(const char *text, const JsonPath *path, int64_t *ret_usec, Error *reterr) {
        cleanup(error_done) Error error = ERROR_INIT;

        return go_duration_parse(text, ret_usec, &error) >= 0
                       ? 0
                       : json_refuse(path, reterr, "%s", error_message(&error));
}

static int read_name(const char *name, const JsonPath *path, void *ret, const void *context,
                     Error *reterr) {
        if (strpbrk(name, "/ \t\r\n") || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
                return json_refuse(path, reterr,
                                   "%s is not the name of a program: it may have no slash and no "
                                   "blank, and is not \".\" or \"..\"",
                                   quote(name, (char[QUOTE_SIZE]){ 0 }));
        return text_copy(name, ret);
}

static int read_plugin_version(const char *text, const JsonPath *path, void *ret,
                               const void *context, Error *reterr) {
        return check_version(text, path, PLUGIN_GROUP, reterr) ?: text_copy(text, ret);
}

static int read_match_image(struct json_object *item, const JsonPath *path, void *ret,
                            const void *context, Error *reterr) {
        int r;

        r = json_check_text(item, path, SIZE_MAX, reterr);
        if (r < 0)
                return r;
        if (json_object_get_string_len(item) == 0)
                return json_refuse(path, reterr, "is empty");
        return text_copy(json_object_get_string(item), ret);
}

static int read_default_keep(const char *text, const JsonPath *path, void *ret, const void *context,
                             Error *reterr) {
        uint64_t *keep_usec = ret;
        int64_t usec;
        int r;

        r = read_duration(text, path, &usec, reterr);
        if (r < 0)
                return r;
        if (usec < 0)
                return json_refuse(path, reterr, "is negative");

        *keep_usec = (uint64_t) usec;
        return 0;
}

typedef struct Variable {
        char *name;
        char *value;
} Variable;

static const JsonField variable_fields[] = {
        { "name", JSON_STRING, .offset = offsetof(Variable, name) },
        { "value", JSON_TEXT, .offset = offsetof(Variable, value) },
        { .kind = JSON_NO_OTHERS },
};

static void variable_done(Variable *variable) {
        json_fields_done(variable_fields, variable);
}

static int read_variable(struct json_object *item, const JsonPath *path, void *ret,
                         const void *context, Error *reterr) {
        cleanup(variable_done) Variable variable = { .name = NULL };
        int r;

        r = json_check_type(item, path, json_type_object, reterr)
                    ?: json_fields_read(variable_fields, item, path, &variable, NULL, reterr);
        if (r < 0)
                return r;
        if (!variable.name || strchr(variable.name, '='))
                return json_refuse(path, reterr, "a variable needs a name without \"=\"");
        return text_format(ret, "%s=%s", variable.name, variable.value ?: "");
}

static int read_token(struct json_object *value, const JsonPath *path, void *ret,
                      const void *context, Error *reterr) {
        *(bool *) ret = value != NULL;
        return 0;
}

static int check_config_version(const char *text, const JsonPath *path, void *ret,
                                const void *context, Error *reterr) {
        return check_version(text, path, CONFIG_GROUP, reterr);
}

/* clang-format off */
static const JsonField provider_fields[] = {
        { "name", JSON_STRING, .offset = offsetof(CredentialProviderSpec, name), .on_text = read_name,
          .empty = "a plugin needs a name" },
        { "apiVersion", JSON_STRING, .offset = offsetof(CredentialProviderSpec, api_version),
          .on_text = read_plugin_version },
        { "matchImages", JSON_TEXTS, .offset = offsetof(CredentialProviderSpec, match_images),
          .n_offset = offsetof(CredentialProviderSpec, n_match_images),
          .on_value = read_match_image, .empty = "is empty, but a plugin needs images" },
        { "defaultCacheDuration", JSON_WORD, .offset = offsetof(CredentialProviderSpec, keep_usec),
          .on_text = read_default_keep, .empty = "is missing; \"0s\" keeps nothing" },
        { "args", JSON_TEXTS, .offset = offsetof(CredentialProviderSpec, arguments), .is_secret = true },
        { "env", JSON_TEXTS, .offset = offsetof(CredentialProviderSpec, environment), .is_secret = true,
          .on_value = read_variable },
        { "tokenAttributes", JSON_ANY, .offset = offsetof(CredentialProviderSpec, needs_token),
          .on_value = read_token },
        { .kind = JSON_NO_OTHERS },
};

static const JsonField config_fields[] = {
        { .key = "kind" },
        { "apiVersion", JSON_WORD, .on_text = check_config_version },
        { "providers", JSON_LIST, .offset = offsetof(CredentialProvidersSpec, items),
          .n_offset = offsetof(CredentialProvidersSpec, n_items),
          .item_size = sizeof(CredentialProviderSpec), .fields = provider_fields,
          .max = CREDENTIAL_PROVIDERS_MAX, .empty = "names no plugin" },
        { .kind = JSON_NO_OTHERS },
};
/* clang-format on */

void credential_providers_spec_done(CredentialProvidersSpec *spec) {
        json_fields_done(config_fields, spec);
}

/* Keeps the last of variables of the same name, as the kubelet does. */
static void drop_replaced(char **environment) {
        size_t n = 0;

        for (char **from = environment; *from; from++) {
                size_t i = 0, size = (size_t) (strchr(*from, '=') + 1 - *from);

                while (i < n && strncmp(environment[i], *from, size) != 0)
                        i++;
                if (i < n)
                        text_wipe(&environment[i]);
                else
                        n++;
                environment[i] = *from;
        }
        environment[n] = NULL;
}

/* Whether one of the first n plugins has this name. */
static bool has_name(const CredentialProvidersSpec *spec, size_t n, const char *name) {
        for (size_t i = 0; i < n; i++)
                if (strcmp(spec->items[i].name, name) == 0)
                        return true;

        return false;
}

static int read_config(struct json_object *config, CredentialProvidersSpec *spec, Error *reterr) {
        int r;

        if (!json_is(config, "kind", KIND))
                return error_set(reterr, ERROR_INVALID, "is not a " KIND);

        r = json_fields_read(config_fields, config, NULL, spec, NULL, reterr);
        if (r < 0)
                return r;

        for (size_t i = 0; i < spec->n_items; i++) {
                const JsonPath path = { .key = "providers" };

                drop_replaced(spec->items[i].environment);
                if (has_name(spec, i, spec->items[i].name))
                        return json_refuse(&(JsonPath){ .parent = &path, .index = i }, reterr,
                                           "the plugin %s is given twice", spec->items[i].name);
        }

        return 0;
}

int credential_providers_spec_parse(const char *text, size_t size, CredentialProvidersSpec *ret,
                                    Error *reterr) {
        cleanup(credential_providers_spec_done) CredentialProvidersSpec spec =
                CREDENTIAL_PROVIDERS_SPEC_INIT;
        cleanup(documents_wipe) Documents documents = DOCUMENTS_INIT;
        int r;

        r = documents_parse(text, size, &documents, reterr);
        if (r < 0)
                return r;
        if (documents.n_items != 1)
                return error_set(reterr, ERROR_INVALID, "holds %zu documents instead of one " KIND,
                                 documents.n_items);

        r = read_config(documents.items[0], &spec, reterr);
        if (r < 0)
                return r;

        *ret = spec;
        spec = CREDENTIAL_PROVIDERS_SPEC_INIT;
        return 0;
}

int credential_providers_spec_add(CredentialProvidersSpec *spec, CredentialProvidersSpec *other,
                                  Error *reterr) {
        size_t n = spec->n_items + other->n_items;
        CredentialProviderSpec *items;

        if (n > CREDENTIAL_PROVIDERS_MAX)
                return error_set(reterr, ERROR_INVALID, "more than %d plugins, with other files",
                                 CREDENTIAL_PROVIDERS_MAX);
        for (size_t i = 0; i < other->n_items; i++)
                if (has_name(spec, spec->n_items, other->items[i].name))
                        return error_set(reterr, ERROR_INVALID,
                                         "the plugin %s is given in another file, too",
                                         other->items[i].name);

        items = reallocarray(spec->items, n + 1, sizeof(*items));
        if (!items)
                return -ENOMEM;

        spec->items = items;
        for (size_t i = 0; i < other->n_items; i++)
                spec->items[spec->n_items++] = other->items[i];
        free(other->items);
        *other = CREDENTIAL_PROVIDERS_SPEC_INIT;
        return 0;
}

bool credential_provider_spec_matches(const CredentialProviderSpec *spec,
                                      const char *canonical_name) {
        for (size_t i = 0; !spec->needs_token && i < spec->n_match_images; i++)
                if (keyring_key_matches(spec->match_images[i], canonical_name))
                        return true;

        return false;
}

int credential_provider_request_format(const char *api_version, const char *canonical_name,
                                       char **ret) {
        cleanup(json_object_put_p) struct json_object *request = json_object_new_object();

        return patch_add_text(request, "kind", "CredentialProviderRequest")
               ?: patch_add_text(request, "apiVersion", api_version)
               ?: patch_add_text(request, "image", canonical_name)
               ?: json_copy_text(request, ret);
}

/* clang-format off */
static const char *const scope_names[_CREDENTIAL_SCOPE_MAX] = {
        [CREDENTIAL_SCOPE_IMAGE]    = "Image",
        [CREDENTIAL_SCOPE_REGISTRY] = "Registry",
        [CREDENTIAL_SCOPE_GLOBAL]   = "Global",
};
/* clang-format on */

static int check_word(const char *word, const JsonPath *path, const char *expected, Error *reterr) {
        if (word && strcmp(word, expected) == 0)
                return 0;

        return json_refuse(path, reterr, "expected \"%s\", got %s", expected,
                           word ? quote(word, (char[QUOTE_SIZE]){ 0 }) : "nothing");
}

static int check_kind(const char *word, const JsonPath *path, void *ret, const void *context,
                      Error *reterr) {
        return check_word(word, path, "CredentialProviderResponse", reterr);
}

/* The context is the version of the request. */
static int check_api_version(const char *word, const JsonPath *path, void *ret, const void *context,
                             Error *reterr) {
        return check_word(word, path, context, reterr);
}

static int read_scope(const char *word, const JsonPath *path, void *ret, const void *context,
                      Error *reterr) {
        for (int i = 0; word && i < _CREDENTIAL_SCOPE_MAX; i++)
                if (strcmp(word, scope_names[i]) == 0) {
                        *(CredentialScope *) ret = (CredentialScope) i;
                        return 0;
                }

        return json_refuse(path, reterr, "expected \"Image\", \"Registry\" or \"Global\", got %s",
                           word ? quote(word, (char[QUOTE_SIZE]){ 0 }) : "nothing");
}

static int read_keep(const char *text, const JsonPath *path, void *ret, const void *context,
                     Error *reterr) {
        CredentialProviderResponse *response = ret;
        int64_t usec = 0;
        int r;

        r = text ? read_duration(text, path, &usec, reterr) : 0;
        response->has_keep = text;
        response->keep_usec = usec > 0 ? (uint64_t) usec : 0;
        return r;
}

static int read_auth(struct json_object *auth, const JsonPath *path, void *ret, const void *context,
                     Error *reterr) {
        if (auth && !json_object_is_type(auth, json_type_object))
                return json_refuse(path, reterr, "not an object");

        return auth ? credentials_spec_read(auth, ret, reterr) : 0;
}

static const JsonField response_fields[] = {
        { "kind", JSON_WORD, .on_text = check_kind },
        { "apiVersion", JSON_WORD, .on_text = check_api_version },
        { "cacheKeyType", JSON_WORD, .offset = offsetof(CredentialProviderResponse, scope),
          .on_text = read_scope },
        { "cacheDuration", JSON_WORD, .on_text = read_keep },
        { "auth", JSON_ANY, .offset = offsetof(CredentialProviderResponse, credentials),
          .on_value = read_auth },
        { .key = NULL },
};

int credential_provider_response_parse(const char *text, size_t size, const char *api_version,
                                       CredentialProviderResponse *ret, Error *reterr) {
        cleanup(credential_provider_response_done) CredentialProviderResponse response =
                CREDENTIAL_PROVIDER_RESPONSE_INIT;
        cleanup(json_object_wipe_p) struct json_object *json = NULL;
        int r;

        r = json_parse_within(text, size, CREDENTIALS_LIMITS, &json, reterr);
        if (r < 0)
                return r;
        if (!json_object_is_type(json, json_type_object))
                return error_set(reterr, ERROR_INVALID, "not a JSON object");
        r = json_fields_read(response_fields, json, NULL, &response, api_version, reterr);
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
