/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/credentials.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/quote.h"
#include "agent/base/slice.h"
#include "agent/base/text.h"
#include "agent/image/credentials-spec.h"

#define HUB_KEY "index.docker.io"
#define LABEL_SIZE 256

typedef struct Entry {
        char *key;       /* index.docker.io, reg.example.com:5000/team */
        size_t sequence; /* among all that were ever added */
        CredentialsEntry owned;
        Credential credential; /* points into owned */
} Entry;

struct Keyring {
        Entry **entries; /* entries in the order in which they are tried */
        size_t n_entries;
        char **sources;
        size_t n_sources;
};

typedef struct Location {
        Slice host;
        Slice port;
        const char *path; /* path with its slash, or empty */
} Location;

static Entry *entry_free(Entry *entry) {
        if (!entry)
                return NULL;

        credentials_entry_done(&entry->owned);
        free(entry->key);
        free(entry);
        return NULL;
}

DEFINE_CLEANUP(Entry *, entry_free)

int keyring_new(Keyring **ret) {
        Keyring *keyring;

        keyring = calloc(1, sizeof(*keyring));
        if (!keyring)
                return -ENOMEM;

        *ret = keyring;
        return 0;
}

Keyring *keyring_free(Keyring *keyring) {
        if (!keyring)
                return NULL;

        for (size_t i = 0; i < keyring->n_entries; i++)
                entry_free(keyring->entries[i]);
        free(keyring->entries);

        for (size_t i = 0; i < keyring->n_sources; i++)
                free(keyring->sources[i]);
        free(keyring->sources);

        free(keyring);
        return NULL;
}

static const char *skip_prefix(const char *text, const char *prefix) {
        size_t size = strlen(prefix);

        return strncmp(text, prefix, size) == 0 ? text + size : text;
}

/* Finds host and path in the key of an entry, which may be a whole URL. */
static int index_key(const char *key, char **ret) {
        const char *host, *path, *at;
        size_t host_size, path_size;

        host = skip_prefix(key, "https://");
        if (host == key)
                host = skip_prefix(key, "http://");

        host_size = strcspn(host, "/?#");
        path = host + host_size;
        path_size = strcspn(path, "?#");

        at = memrchr(host, '@', host_size);
        if (at) {
                host_size -= (size_t) (at + 1 - host);
                host = at + 1;
        }

        if (strncmp(path, "/v1/", 4) == 0 || strncmp(path, "/v2/", 4) == 0) {
                path += 3;
                path_size -= 3;
        }
        if (path_size == 1)
                path_size = 0;

        return text_format(ret, "%.*s%.*s", (int) host_size, host, (int) path_size, path);
}

/* Takes the entry over when it succeeds. */
static int entry_new(CredentialsEntry *owned, const char *source, size_t sequence, Entry **ret) {
        cleanup(entry_free_p) Entry *entry = NULL;
        int r;

        entry = calloc(1, sizeof(*entry));
        if (!entry)
                return -ENOMEM;

        r = index_key(owned->key, &entry->key);
        if (r < 0)
                return r;

        entry->sequence = sequence;
        entry->credential = (Credential){
                .username = owned->username,
                .password = owned->password,
                .identity_token = owned->identity_token,
                .registry_token = owned->registry_token,
                .source = source,
        };
        entry->owned = *owned;
        *owned = (CredentialsEntry){ .key = NULL };

        *ret = take_ptr(entry);
        return 0;
}

static int compare_entries(const void *left, const void *right) {
        const Entry *a = *(Entry *const *) left, *b = *(Entry *const *) right;
        int order = strcmp(b->key, a->key);

        return order ?: (a->sequence > b->sequence) - (a->sequence < b->sequence);
}

static int add_source(Keyring *keyring, const char *name) {
        cleanup(free_p) char *copy = strdup(name);

        if (!copy ||
            array_grow(&keyring->sources, keyring->n_sources, sizeof(keyring->sources[0])) < 0)
                return -ENOMEM;

        keyring->sources[keyring->n_sources++] = take_ptr(copy);
        return 0;
}

static int add_entries(Keyring *keyring, CredentialsSpec *spec) {
        const char *source = keyring->sources[keyring->n_sources - 1];
        size_t n_before = keyring->n_entries;
        Entry **entries;
        int r = 0;

        entries = reallocarray(keyring->entries, n_before + spec->n_entries, sizeof(*entries));
        if (!entries)
                return -ENOMEM;
        keyring->entries = entries;

        for (size_t i = 0; r == 0 && i < spec->n_entries; i++) {
                r = entry_new(&spec->entries[i], source, keyring->n_entries,
                              &entries[keyring->n_entries]);
                if (r == 0)
                        keyring->n_entries++;
        }

        while (r < 0 && keyring->n_entries > n_before)
                entry_free(entries[--keyring->n_entries]);

        qsort(entries, keyring->n_entries, sizeof(*entries), compare_entries);
        return r;
}

int keyring_add_spec(Keyring *keyring, const char *source_name, CredentialsSpec *spec) {
        int r;

        if (spec->n_entries == 0)
                return 0;

        r = add_source(keyring, source_name);
        if (r < 0)
                return r;

        return add_entries(keyring, spec);
}

int keyring_add_text(Keyring *keyring, const char *source_name, const char *text, size_t size,
                     Error *reterr) {
        cleanup(credentials_spec_done) CredentialsSpec spec = CREDENTIALS_SPEC_INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        char quoted[QUOTE_SIZE];
        int r;

        r = credentials_spec_parse(text, size, &spec, &error);
        if (error.kind != ERROR_NONE)
                return error_set(reterr, error.kind, "credentials %s: %s",
                                 quote(source_name, quoted), error_message(&error));
        if (r < 0)
                return r;

        return keyring_add_spec(keyring, source_name, &spec);
}

static int copy_entry(const CredentialsEntry *entry, CredentialsEntry *ret) {
        int r;

        r = text_copy(entry->key, &ret->key);
        r = r < 0 ? r : text_copy(entry->username, &ret->username);
        r = r < 0 ? r : text_copy(entry->password, &ret->password);
        r = r < 0 ? r : text_copy(entry->identity_token, &ret->identity_token);
        return r < 0 ? r : text_copy(entry->registry_token, &ret->registry_token);
}

/* Copies the entries of one source in the order in which they are tried: entries with equal keys
 * keep the order in which they were added. */
static int copy_source(Keyring *keyring, const Keyring *other, const char *source) {
        cleanup(credentials_spec_done) CredentialsSpec spec = CREDENTIALS_SPEC_INIT;

        spec.entries = calloc(other->n_entries, sizeof(*spec.entries));
        if (!spec.entries)
                return -ENOMEM;

        for (size_t i = 0; i < other->n_entries; i++) {
                int r;

                if (other->entries[i]->credential.source != source)
                        continue;

                r = copy_entry(&other->entries[i]->owned, &spec.entries[spec.n_entries++]);
                if (r < 0)
                        return r;
        }

        return keyring_add_spec(keyring, source, &spec);
}

int keyring_add_all(Keyring *keyring, const Keyring *other) {
        for (size_t i = 0; i < other->n_sources; i++) {
                int r;

                r = copy_source(keyring, other, other->sources[i]);
                if (r < 0)
                        return r;
        }

        return 0;
}

/* "host:port/path", where the host may be "[::1]". */
static Location locate(const char *text) {
        Location location = { .host = { text, strcspn(text, "/") } };
        const char *colon, *end = text + location.host.size;

        location.path = end;
        colon = memrchr(text, ':', location.host.size);
        if (colon && !memchr(colon, ']', (size_t) (end - colon))) {
                location.host.size = (size_t) (colon - text);
                location.port = (Slice){ colon + 1, (size_t) (end - colon - 1) };
        }

        return location;
}

static bool equal(Slice a, Slice b) {
        return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

/* Moves the label before the first dot into the buffer; false if it does not fit. */
static bool next_label(Slice *host, char label[static LABEL_SIZE]) {
        const char *dot = memchr(host->data, '.', host->size);
        size_t size = dot ? (size_t) (dot - host->data) : host->size;

        if (size >= LABEL_SIZE)
                return false;

        memcpy(label, host->data, size);
        label[size] = '\0';
        host->data = dot ? dot + 1 : NULL;
        host->size = dot ? host->size - size - 1 : 0;
        return true;
}

static bool host_matches(Slice pattern, Slice host) {
        char pattern_label[LABEL_SIZE], label[LABEL_SIZE];

        /* The brackets of an address would be a set of characters in a pattern. */
        if (pattern.size > 0 && pattern.data[0] == '[' && equal(pattern, host))
                return true;

        while (pattern.data && host.data) {
                if (!next_label(&pattern, pattern_label) || !next_label(&host, label))
                        return false;
                if (fnmatch(pattern_label, label, 0) != 0)
                        return false;
        }

        return !pattern.data && !host.data;
}

static bool key_matches(const char *key, const Location *location) {
        Location pattern = locate(key);

        return equal(pattern.port, location->port) &&
               strncmp(location->path, pattern.path, strlen(pattern.path)) == 0 &&
               host_matches(pattern.host, location->host);
}

bool keyring_key_matches(const char *key, const char *canonical_name) {
        Location location = locate(canonical_name);

        return key_matches(key, &location);
}

static int append(CredentialList *list, const Credential *credential) {
        if (array_grow(&list->items, list->n_items, sizeof(credential)) < 0)
                return -ENOMEM;

        list->items[list->n_items++] = credential;
        return 0;
}

/* Excludes "localhost/app", unlike the kubelet's rule: Docker Hub's password is not for a local
 * registry. */
static bool is_docker_hub(const Location *location) {
        return location->port.size == 0 && (slice_equal(location->host, "docker.io") ||
                                            slice_equal(location->host, "index.docker.io"));
}

int keyring_lookup(const Keyring *keyring, const char *canonical_name, CredentialList *list) {
        Location location = locate(canonical_name);
        size_t n_before = list->n_items;
        int r;

        for (size_t i = 0; i < keyring->n_entries; i++) {
                if (!key_matches(keyring->entries[i]->key, &location))
                        continue;

                r = append(list, &keyring->entries[i]->credential);
                if (r < 0)
                        return r;
        }

        if (list->n_items > n_before || !is_docker_hub(&location))
                return 0;

        for (size_t i = 0; i < keyring->n_entries; i++) {
                if (strcmp(keyring->entries[i]->key, HUB_KEY) != 0)
                        continue;

                r = append(list, &keyring->entries[i]->credential);
                if (r < 0)
                        return r;
        }

        return 0;
}

void credential_list_done(CredentialList *list) {
        free(list->items);
        *list = CREDENTIAL_LIST_INIT;
}
