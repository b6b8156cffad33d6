/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/credentials-spec.h"

#include <errno.h>
#include <json-c/json_object.h>
#include <json-c/linkhash.h>
#include <netinet/in.h>
#include <resolv.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "agent/base/cleanup.h"
#include "agent/base/quote.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"

/* A buffer for a secret, which forgets it at the end of the scope. */
typedef struct Secret {
        char *data;
        size_t size;
} Secret;

static void secret_done(Secret *secret) {
        if (secret->data)
                explicit_bzero(secret->data, secret->size);
        free(secret->data);
}

/* Quotes the key of an entry for a message, without a user and password before the host. */
static const char *quote_key(const char *key, char buffer[static QUOTE_SIZE]) {
        const char *at = strrchr(key, '@');

        return quote(at ? at + 1 : key, buffer);
}

/* Returns where a field of an entry goes; NULL: the agent does not need it. Case does not matter to
 * those who write these documents either. */
static char **entry_field(CredentialsEntry *entry, char **auth, const char *name) {
        const struct {
                const char *name;
                char **value;
        } fields[] = {
                { "username", &entry->username },
                { "password", &entry->password },
                { "identitytoken", &entry->identity_token },
                { "registrytoken", &entry->registry_token },
                { "auth", auth },
        };

        for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
                if (strcasecmp(fields[i].name, name) == 0)
                        return fields[i].value;

        return NULL;
}

static int set_secret(char **secret, const char *text, size_t size) {
        char *copy = NULL;

        if (size > 0) {
                copy = strndup(text, size);
                if (!copy)
                        return -ENOMEM;
        }

        text_wipe(secret);
        *secret = copy;
        return 0;
}

static int read_string(const char *key, const char *name, json_object *value, char **ret,
                       Error *reterr) {
        char quoted[QUOTE_SIZE];
        const char *text;
        size_t size;

        if (!value)
                return set_secret(ret, NULL, 0);
        if (!json_object_is_type(value, json_type_string))
                return error_set(reterr, ERROR_INVALID, "the field \"%s\" of %s is not a string",
                                 name, quote_key(key, quoted));

        text = json_object_get_string(value);
        size = (size_t) json_object_get_string_len(value);
        if (memchr(text, '\0', size))
                return error_set(reterr, ERROR_INVALID, "the field \"%s\" of %s has a NUL in it",
                                 name, quote_key(key, quoted));

        return set_secret(ret, text, size);
}

/* Decodes base64, whose padding may be missing. The result ends with a NUL that is not counted. */
static int decode(const char *text, Secret *ret, size_t *ret_size) {
        cleanup(secret_done) Secret padded = { .size = strlen(text) + 4 };
        cleanup(secret_done) Secret decoded = { .size = strlen(text) + 4 };
        size_t size = strcspn(text, "=");
        int n;

        padded.data = calloc(1, padded.size);
        decoded.data = calloc(1, decoded.size);
        if (!padded.data || !decoded.data)
                return -ENOMEM;

        if (text[size + strspn(text + size, "=")] != '\0')
                return -EINVAL;

        memcpy(padded.data, text, size);
        while (size % 4 != 0)
                padded.data[size++] = '=';

        n = b64_pton(padded.data, (unsigned char *) decoded.data, decoded.size - 1);
        if (n < 0)
                return -EINVAL;

        *ret = decoded;
        *ret_size = (size_t) n;
        decoded = (Secret){ .data = NULL };
        return 0;
}

/* Decodes "auth", base64(username:password), which overrides the two fields. */
static int read_auth(CredentialsEntry *entry, const char *auth, Error *reterr) {
        cleanup(secret_done) Secret decoded = { .data = NULL };
        char quoted[QUOTE_SIZE];
        const char *colon;
        size_t size;
        int r;

        r = decode(auth, &decoded, &size);
        if (r == -EINVAL)
                return error_set(reterr, ERROR_INVALID, "the field \"auth\" of %s is not base64",
                                 quote_key(entry->key, quoted));
        if (r < 0)
                return r;

        while (size > 0 && decoded.data[size - 1] == '\0')
                size--;

        colon = memchr(decoded.data, ':', size);
        if (!colon || memchr(decoded.data, '\0', size))
                return error_set(reterr, ERROR_INVALID,
                                 "the field \"auth\" of %s is not base64 of \"username:password\"",
                                 quote_key(entry->key, quoted));

        r = set_secret(&entry->username, decoded.data, (size_t) (colon - decoded.data));
        if (r < 0)
                return r;

        return set_secret(&entry->password, colon + 1, size - (size_t) (colon + 1 - decoded.data));
}

static int read_fields(CredentialsEntry *entry, json_object *json, char **auth, Error *reterr) {
        json_object_object_foreach(json, name, value) {
                char **field = entry_field(entry, auth, name);
                int r;

                if (!field)
                        continue;

                r = read_string(entry->key, name, value, field, reterr);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int read_entry(CredentialsEntry *entry, const char *key, json_object *json, Error *reterr) {
        cleanup(text_wipe) char *auth = NULL;
        char quoted[QUOTE_SIZE];
        int r;

        if (strlen(key) > CREDENTIALS_KEY_SIZE_MAX)
                return error_set(reterr, ERROR_INVALID, "the name of the entry %s is too long",
                                 quote_key(key, quoted));
        if (json && !json_object_is_type(json, json_type_object))
                return error_set(reterr, ERROR_INVALID, "the entry %s is not an object",
                                 quote_key(key, quoted));

        entry->key = strdup(key);
        if (!entry->key)
                return -ENOMEM;
        if (!json)
                return 0;

        r = read_fields(entry, json, &auth, reterr);
        if (r < 0)
                return r;

        return auth ? read_auth(entry, auth, reterr) : 0;
}

int credentials_spec_read(json_object *map, CredentialsSpec *ret, Error *reterr) {
        cleanup(credentials_spec_done) CredentialsSpec spec = CREDENTIALS_SPEC_INIT;

        spec.entries = calloc((size_t) json_object_object_length(map) + 1, sizeof(*spec.entries));
        if (!spec.entries)
                return -ENOMEM;

        json_object_object_foreach(map, key, value) {
                CredentialsEntry *entry = &spec.entries[spec.n_entries++];
                int r;

                r = read_entry(entry, key, value, reterr);
                if (r < 0)
                        return r;

                if (!entry->username && !entry->password && !entry->identity_token &&
                    !entry->registry_token) {
                        credentials_entry_done(entry);
                        spec.n_entries--;
                }
        }

        *ret = spec;
        spec = CREDENTIALS_SPEC_INIT;
        return 0;
}

/* Finds the map of entries, which may be the whole document; NULL if there is none. */
static int find_map(json_object *json, bool is_config, json_object **ret, Error *reterr) {
        json_object *map = NULL;

        if (!json_object_is_type(json, json_type_object))
                return error_set(reterr, ERROR_INVALID, "not a JSON object");

        if (json_object_object_get_ex(json, "auths", &map)) {
                if (map && !json_object_is_type(map, json_type_object))
                        return error_set(reterr, ERROR_INVALID, "\"auths\" is not an object");
        } else if (json_object_object_get_ex(json, "credsStore", NULL) ||
                   json_object_object_get_ex(json, "credHelpers", NULL))
                return error_set(reterr, ERROR_INVALID,
                                 "the credentials are kept by a helper program and not in "
                                 "\"auths\"");
        else if (!is_config)
                map = json;

        *ret = map;
        return 0;
}

static int parse(const char *text, size_t size, bool is_config, CredentialsSpec *ret,
                 Error *reterr) {
        cleanup(json_object_wipe_p) json_object *json = NULL;
        json_object *map = NULL;
        int r;

        if (size > 0) {
                r = json_parse_within(text, size, CREDENTIALS_LIMITS, &json, reterr);
                if (r < 0)
                        return r;

                r = find_map(json, is_config, &map, reterr);
                if (r < 0)
                        return r;
        }

        if (map)
                return credentials_spec_read(map, ret, reterr);

        *ret = CREDENTIALS_SPEC_INIT;
        return 0;
}

int credentials_spec_parse(const char *text, size_t size, CredentialsSpec *ret, Error *reterr) {
        return parse(text, size, false, ret, reterr);
}

int credentials_spec_parse_config(const char *text, size_t size, CredentialsSpec *ret,
                                  Error *reterr) {
        return parse(text, size, true, ret, reterr);
}

/* clang-format off */
static const JsonField entry_keys[] = {
        { .key = "username",      .is_any_case = true },
        { .key = "password",      .is_any_case = true },
        { .key = "auth",          .is_any_case = true },
        { .key = "email",         .is_any_case = true },
        { .key = "identitytoken", .is_any_case = true },
        { .key = "registrytoken", .is_any_case = true },
        { .key = NULL },
};

static const JsonField map_keys[] = { { .key = "*", .fields = entry_keys }, { .key = NULL } };

/* docker keeps other settings in its file as well. */
static const JsonField config_keys[] = {
        { .key = "auths", .fields = map_keys },
        { .key = "*" },
        { .key = NULL },
};
/* clang-format on */

static const JsonField *known_in(json_object *document) {
        return json_get(document, "auths", json_type_object) ? config_keys : map_keys;
}

static bool is_empty(json_object *entry) {
        return !entry || (json_object_is_type(entry, json_type_object) &&
                          json_object_object_length(entry) == 0);
}

/* docker leaves the entry empty where another program has its credentials. */
static bool is_held_by_helper(json_object *document, const char *key) {
        json_object *helpers = json_get(document, "credHelpers", json_type_object);

        return json_get_filled(document, "credsStore") || json_get_filled(helpers, key);
}

static int check_empty(json_object *document, UnknownKeys *unknown) {
        json_object *auths = json_get(document, "auths", json_type_object);

        if (!auths)
                return 0;

        json_object_object_foreach(auths, key, entry) {
                cleanup(free_p) char *text = NULL;
                char quoted[QUOTE_SIZE];
                int r;

                if (!is_empty(entry))
                        continue;
                if (text_format(&text, "the entry %s holds no credentials: %s",
                                quote_key(key, quoted),
                                is_held_by_helper(document, key)
                                        ? "a helper program keeps them (\"credsStore\" or "
                                          "\"credHelpers\"), which is not run here"
                                        : "write a username and a password, or leave it out") < 0)
                        return -ENOMEM;
                r = unknown_keys_add(unknown, text);
                if (r < 0)
                        return r;
        }

        return 0;
}

int credentials_spec_check_keys(const char *text, size_t size, UnknownKeys *ret) {
        cleanup(documents_wipe) Documents documents = DOCUMENTS_INIT;
        cleanup(unknown_keys_done) UnknownKeys unknown = UNKNOWN_KEYS_INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        r = documents_parse(text, size, &documents, &error);
        if (error.kind != ERROR_NONE) {
                *ret = UNKNOWN_KEYS_INIT;
                return 0;
        }

        if (r >= 0)
                r = known_keys_check(&documents, known_in, /* is_secret= */ true, &unknown);
        for (size_t i = 0; r >= 0 && i < documents.n_items; i++)
                r = check_empty(documents.items[i], &unknown);
        if (r < 0)
                return r;

        *ret = unknown;
        unknown = UNKNOWN_KEYS_INIT;
        return 0;
}

void credentials_entry_done(CredentialsEntry *entry) {
        free(entry->key);
        text_wipe(&entry->username);
        text_wipe(&entry->password);
        text_wipe(&entry->identity_token);
        text_wipe(&entry->registry_token);
        *entry = (CredentialsEntry){ .key = NULL };
}

void credentials_spec_done(CredentialsSpec *spec) {
        for (size_t i = 0; i < spec->n_entries; i++)
                credentials_entry_done(&spec->entries[i]);
        free(spec->entries);
        *spec = CREDENTIALS_SPEC_INIT;
}
