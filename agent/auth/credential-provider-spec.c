/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/auth/credential-provider-spec.h"

#include <errno.h>
#include <json-c/json_object.h>
#include <json-c/linkhash.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/quote.h"
#include "agent/document/documents.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/image/credentials.h"

#define KIND "CredentialProviderConfig"
#define CONFIG_GROUP "kubelet.config.k8s.io/"
#define PLUGIN_GROUP "credentialprovider.kubelet.k8s.io/"

#define NSEC_PER_USEC 1000

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

        *ret_usec = (int64_t) (nsec / NSEC_PER_USEC) * (is_negative ? -1 : 1);
        return 0;
}

/* Whether it is the group, such as "kubelet.config.k8s.io/", and v1, v1beta1 or v1alpha1. */
static bool is_known_version(const char *api_version, const char *group) {
        static const char *const versions[] = { "v1", "v1beta1", "v1alpha1" };

        if (strncmp(api_version, group, strlen(group)) != 0)
                return false;

        for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++)
                if (strcmp(api_version + strlen(group), versions[i]) == 0)
                        return true;

        return false;
}

/* Refuses an unknown field of the object; names ends with NULL. */
static int check_fields(struct json_object *object, const JsonPath *path, const char *const *names,
                        Error *reterr) {
        json_object_object_foreach(object, key, value) {
                size_t i = 0;

                (void) value;
                while (names[i] && strcmp(names[i], key) != 0)
                        i++;
                if (!names[i])
                        return json_refuse(&(JsonPath){ .parent = path, .key = key }, reterr,
                                           "there is no such field");
        }

        return 0;
}

/* Copies a list of texts; errors quote none of them. *ret ends with NULL, also without a list. On
 * failure, it has the texts that were read before. */
static int read_texts(struct json_object *object, const JsonPath *parent, const char *key,
                      char ***ret, size_t *ret_n, Error *reterr) {
        const JsonPath path = { .parent = parent, .key = key };
        struct json_object *list;
        size_t n;
        int r;

        r = json_read_list(object, parent, key, &list, reterr);
        if (r < 0)
                return r;

        n = list ? json_object_array_length(list) : 0;
        *ret = calloc(n + 1, sizeof(**ret));
        if (!*ret)
                return -ENOMEM;

        for (size_t i = 0; i < n; i++) {
                struct json_object *item = json_object_array_get_idx(list, i);

                if (!json_object_is_type(item, json_type_string))
                        return json_refuse(&(JsonPath){ .parent = &path, .index = i }, reterr,
                                           "expected a string (in quotes)");
                (*ret)[i] = strdup(json_object_get_string(item));
                if (!(*ret)[i])
                        return -ENOMEM;
        }

        *ret_n = n;
        return 0;
}

static void free_texts(char **texts) {
        for (size_t i = 0; texts && texts[i]; i++) {
                explicit_bzero(texts[i], strlen(texts[i]));
                free(texts[i]);
        }
        free(texts);
}

static void provider_done(CredentialProviderSpec *spec) {
        free(spec->name);
        free(spec->api_version);
        free_texts(spec->match_images);
        free_texts(spec->arguments);
        free_texts(spec->environment);
}

void credential_providers_spec_done(CredentialProvidersSpec *spec) {
        for (size_t i = 0; i < spec->n_items; i++)
                provider_done(&spec->items[i]);
        free(spec->items);
        *spec = CREDENTIAL_PROVIDERS_SPEC_INIT;
}

static int read_name(struct json_object *object, const JsonPath *path, char **ret, Error *reterr) {
        const JsonPath here = { .parent = path, .key = "name" };
        const char *name;
        int r;

        r = json_read_string(object, path, here.key, &name, reterr);
        if (r < 0)
                return r;

        if (!name || !*name)
                return json_refuse(&here, reterr, "a plugin needs a name");
        if (strpbrk(name, "/ \t\r\n") || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
                return json_refuse(&here, reterr,
                                   "%s is not the name of a program: it may have no slash and no "
                                   "blank, and is not \".\" or \"..\"",
                                   quote(name, (char[QUOTE_SIZE]){ 0 }));

        *ret = strdup(name);
        return *ret ? 0 : -ENOMEM;
}

static int read_api_version(struct json_object *object, const JsonPath *path, char **ret,
                            Error *reterr) {
        const JsonPath here = { .parent = path, .key = "apiVersion" };
        const char *text;
        int r;

        r = json_read_string(object, path, here.key, &text, reterr);
        if (r < 0)
                return r;

        if (!text || !is_known_version(text, PLUGIN_GROUP))
                return json_refuse(&here, reterr,
                                   "expected " PLUGIN_GROUP "v1, v1beta1 or v1alpha1, got %s",
                                   text ? quote(text, (char[QUOTE_SIZE]){ 0 }) : "nothing");

        *ret = strdup(text);
        return *ret ? 0 : -ENOMEM;
}

static int read_match_images(struct json_object *object, const JsonPath *parent,
                             CredentialProviderSpec *spec, Error *reterr) {
        const JsonPath path = { .parent = parent, .key = "matchImages" };
        int r;

        r = read_texts(object, parent, path.key, &spec->match_images, &spec->n_match_images,
                       reterr);
        if (r < 0)
                return r;

        if (spec->n_match_images == 0)
                return json_refuse(&path, reterr, "is empty, but a plugin needs images");
        for (size_t i = 0; i < spec->n_match_images; i++)
                if (!*spec->match_images[i])
                        return json_refuse(&(JsonPath){ .parent = &path, .index = i }, reterr,
                                           "is empty");
        return 0;
}

static int read_default_keep(struct json_object *object, const JsonPath *path, uint64_t *ret,
                             Error *reterr) {
        const JsonPath here = { .parent = path, .key = "defaultCacheDuration" };
        cleanup(error_done) Error error = ERROR_INIT;
        const char *text;
        int64_t usec;
        int r;

        r = json_read_string(object, path, here.key, &text, reterr);
        if (r < 0)
                return r;

        if (!text)
                return json_refuse(&here, reterr, "is missing; \"0s\" is to keep nothing");
        r = go_duration_parse(text, &usec, &error);
        if (r < 0)
                return json_refuse(&here, reterr, "%s", error_message(&error));
        if (usec < 0)
                return json_refuse(&here, reterr, "is negative");

        *ret = (uint64_t) usec;
        return 0;
}

/* Replaces an earlier variable of the same name, as the kubelet does. */
static void place_variable(char **environment, char *variable) {
        size_t name_size = (size_t) (strchr(variable, '=') + 1 - variable);
        size_t i = 0;

        while (environment[i] && strncmp(environment[i], variable, name_size) != 0)
                i++;

        if (environment[i]) {
                explicit_bzero(environment[i], strlen(environment[i]));
                free(environment[i]);
        }
        environment[i] = variable;
}

static int read_variable(struct json_object *item, const JsonPath *path, char **environment,
                         Error *reterr) {
        static const char *const fields[] = { "name", "value", NULL };
        struct json_object *value = NULL;
        const char *name, *text;
        char *variable;
        int r;

        if (!json_object_is_type(item, json_type_object))
                return json_refuse(path, reterr, "expected an object with a name and a value");
        r = check_fields(item, path, fields, reterr);
        if (r < 0)
                return r;
        r = json_read_string(item, path, "name", &name, reterr);
        if (r < 0)
                return r;
        if (!name || !*name || strchr(name, '='))
                return json_refuse(path, reterr, "a variable needs a name without \"=\"");

        (void) json_object_object_get_ex(item, "value", &value);
        if (value && !json_object_is_type(value, json_type_string))
                return json_refuse(&(JsonPath){ .parent = path, .key = "value" }, reterr,
                                   "expected a string (in quotes)");

        text = value ? json_object_get_string(value) : "";
        if (asprintf(&variable, "%s=%s", name, text) < 0)
                return -ENOMEM;
        place_variable(environment, variable);
        return 0;
}

static int read_environment(struct json_object *object, const JsonPath *parent,
                            CredentialProviderSpec *spec, Error *reterr) {
        const JsonPath path = { .parent = parent, .key = "env" };
        struct json_object *list;
        size_t n;
        int r;

        r = json_read_list(object, parent, path.key, &list, reterr);
        if (r < 0)
                return r;

        n = list ? json_object_array_length(list) : 0;
        spec->environment = calloc(n + 1, sizeof(*spec->environment));
        if (!spec->environment)
                return -ENOMEM;

        for (size_t i = 0; r >= 0 && i < n; i++)
                r = read_variable(json_object_array_get_idx(list, i),
                                  &(JsonPath){ .parent = &path, .index = i }, spec->environment,
                                  reterr);

        return r;
}

static int check_provider(struct json_object *object, const JsonPath *path, Error *reterr) {
        static const char *const fields[] = {
                "name", "matchImages", "defaultCacheDuration", "apiVersion",
                "args", "env",         "tokenAttributes",      NULL
        };

        if (!json_object_is_type(object, json_type_object))
                return json_refuse(path, reterr, "expected an object");

        return check_fields(object, path, fields, reterr);
}

static int read_provider(struct json_object *object, const JsonPath *path,
                         CredentialProviderSpec *spec, Error *reterr) {
        struct json_object *token = NULL;
        size_t n_arguments;
        int r;

        r = check_provider(object, path, reterr);
        if (r < 0)
                return r;

        (void) json_object_object_get_ex(object, "tokenAttributes", &token);
        spec->needs_token = token != NULL;
        return read_name(object, path, &spec->name, reterr)
               ?: read_api_version(object, path, &spec->api_version, reterr)
               ?: read_match_images(object, path, spec, reterr)
               ?: read_default_keep(object, path, &spec->keep_usec, reterr)
               ?: read_texts(object, path, "args", &spec->arguments, &n_arguments, reterr)
               ?: read_environment(object, path, spec, reterr);
}

static int read_providers(struct json_object *config, CredentialProvidersSpec *spec,
                          Error *reterr) {
        const JsonPath path = { .key = "providers" };
        struct json_object *list;
        size_t n;
        int r;

        r = json_read_list(config, NULL, path.key, &list, reterr);
        if (r < 0)
                return r;

        n = list ? json_object_array_length(list) : 0;
        if (n == 0 || n > CREDENTIAL_PROVIDERS_MAX)
                return json_refuse(&path, reterr,
                                   n == 0 ? "names no plugin" : "has more than %d plugins",
                                   CREDENTIAL_PROVIDERS_MAX);

        spec->items = calloc(n, sizeof(*spec->items));
        if (!spec->items)
                return -ENOMEM;

        for (size_t i = 0; i < n; i++) {
                const JsonPath item_path = { .parent = &path, .index = i };

                r = read_provider(json_object_array_get_idx(list, i), &item_path,
                                  &spec->items[spec->n_items++], reterr);
                if (r < 0)
                        return r;
                for (size_t k = 0; k < i; k++)
                        if (strcmp(spec->items[k].name, spec->items[i].name) == 0)
                                return json_refuse(&item_path, reterr,
                                                   "the plugin %s is given twice",
                                                   spec->items[i].name);
        }

        return 0;
}

static int read_config(struct json_object *config, CredentialProvidersSpec *spec, Error *reterr) {
        static const char *const fields[] = { "apiVersion", "kind", "providers", NULL };
        const char *api_version, *kind;
        int r;

        if (!json_object_is_type(config, json_type_object))
                return error_set(reterr, ERROR_INVALID, "is not a " KIND);

        r = json_read_string(config, NULL, "kind", &kind, reterr);
        if (r < 0)
                return r;
        r = json_read_string(config, NULL, "apiVersion", &api_version, reterr);
        if (r < 0)
                return r;
        if (!kind || strcmp(kind, KIND) != 0)
                return error_set(reterr, ERROR_INVALID, "is not a " KIND);
        if (!api_version || !is_known_version(api_version, CONFIG_GROUP))
                return json_refuse(&(JsonPath){ .key = "apiVersion" }, reterr,
                                   "expected " CONFIG_GROUP "v1, v1beta1 or v1alpha1, got %s",
                                   api_version ? quote(api_version, (char[QUOTE_SIZE]){ 0 })
                                               : "nothing");

        r = check_fields(config, NULL, fields, reterr);
        return r < 0 ? r : read_providers(config, spec, reterr);
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
        const char *text;
        int r;

        if (!request)
                return -ENOMEM;

        r = patch_add_text(request, "kind", "CredentialProviderRequest");
        r = r < 0 ? r : patch_add_text(request, "apiVersion", api_version);
        r = r < 0 ? r : patch_add_text(request, "image", canonical_name);
        if (r < 0)
                return r;

        text = json_to_text(request);
        *ret = text ? strdup(text) : NULL;
        return *ret ? 0 : -ENOMEM;
}

/* clang-format off */
static const char *const scope_names[_CREDENTIAL_SCOPE_MAX] = {
        [CREDENTIAL_SCOPE_IMAGE]    = "Image",
        [CREDENTIAL_SCOPE_REGISTRY] = "Registry",
        [CREDENTIAL_SCOPE_GLOBAL]   = "Global",
};
/* clang-format on */

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

        r = go_duration_parse(text, &usec, &error);
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

        if (!json_object_is_type(json, json_type_object))
                return error_set(reterr, ERROR_INVALID, "not a JSON object");

        return check_word(json, "kind", "CredentialProviderResponse", reterr)
               ?: check_word(json, "apiVersion", api_version, reterr)
               ?: read_scope(json, &ret->scope, reterr)
               ?: read_keep(json, ret, reterr)
               ?: read_auth(json, &ret->credentials, reterr);
}

int credential_provider_response_parse(const char *text, size_t size, const char *api_version,
                                       CredentialProviderResponse *ret, Error *reterr) {
        cleanup(credential_provider_response_done) CredentialProviderResponse response =
                CREDENTIAL_PROVIDER_RESPONSE_INIT;
        cleanup(json_object_wipe_p) struct json_object *json = NULL;
        int r;

        r = json_parse_within(text, size, CREDENTIALS_LIMITS, &json, reterr);
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
