/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/auth/credential-provider-spec.h"

#include <errno.h>
#include <json-c/json_object.h>
#include <json-c/linkhash.h>
#include <stdio.h>
#include <string.h>

#include "agent/auth/duration-spec.h"
#include "agent/auth/strict-spec.h"
#include "agent/base/cleanup.h"
#include "agent/base/quote.h"
#include "agent/document/documents.h"
#include "agent/document/json-reader.h"
#include "agent/image/credentials-spec.h"
#include "agent/image/credentials.h"

#define KIND "CredentialProviderConfig"
#define CONFIG_GROUP "kubelet.config.k8s.io/"
#define PLUGIN_GROUP "credentialprovider.kubelet.k8s.io/"

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

        if (!text || !strict_is_known_version(text, PLUGIN_GROUP))
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

        r = strict_read_texts(object, parent, path.key, &spec->match_images, &spec->n_match_images,
                              reterr);
        if (r < 0)
                return r;

        if (spec->n_match_images == 0)
                return json_refuse(&path, reterr, "names no images, but a plugin is for some");
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
        r = duration_parse(text, &usec, &error);
        if (r < 0)
                return json_refuse(&here, reterr, "%s", error_message(&error));
        if (usec < 0)
                return json_refuse(&here, reterr, "is less than nothing");

        *ret = (uint64_t) usec;
        return 0;
}

/* Takes the place of an earlier one of the same name, as it would for the kubelet. */
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
        r = strict_check_fields(item, path, fields, reterr);
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

        return strict_check_fields(object, path, fields, reterr);
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
        spec->wants_token = token != NULL;
        r = read_name(object, path, &spec->name, reterr);
        if (r < 0)
                return r;
        r = read_api_version(object, path, &spec->api_version, reterr);
        if (r < 0)
                return r;
        r = read_match_images(object, path, spec, reterr);
        if (r < 0)
                return r;
        r = read_default_keep(object, path, &spec->keep_usec, reterr);
        if (r < 0)
                return r;
        r = strict_read_texts(object, path, "args", &spec->arguments, &n_arguments, reterr);
        if (r < 0)
                return r;

        return read_environment(object, path, spec, reterr);
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
        if (!api_version || !strict_is_known_version(api_version, CONFIG_GROUP))
                return json_refuse(&(JsonPath){ .key = "apiVersion" }, reterr,
                                   "expected " CONFIG_GROUP "v1, v1beta1 or v1alpha1, got %s",
                                   api_version ? quote(api_version, (char[QUOTE_SIZE]){ 0 })
                                               : "nothing");

        r = strict_check_fields(config, NULL, fields, reterr);
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
        for (size_t i = 0; !spec->wants_token && i < spec->n_match_images; i++)
                if (keyring_key_matches(spec->match_images[i], canonical_name))
                        return true;

        return false;
}
