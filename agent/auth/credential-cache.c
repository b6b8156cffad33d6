/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/auth/credential-cache.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "agent/base/cleanup.h"

struct CredentialAnswer {
        unsigned n_refs;
        Keyring *keyring;
};

typedef struct Entry {
        size_t i_plugin;
        CredentialScope scope;
        char *key; /* an image, a registry, or empty */
        uint64_t end_usec;
        CredentialAnswer *answer;
} Entry;

struct CredentialCache {
        size_t n_max;
        size_t n_entries;
        Entry entries[];
};

int credential_answer_new(Keyring *keyring, CredentialAnswer **ret) {
        CredentialAnswer *answer;

        answer = calloc(1, sizeof(*answer));
        if (!answer)
                return -ENOMEM;

        answer->n_refs = 1;
        answer->keyring = keyring;

        *ret = answer;
        return 0;
}

CredentialAnswer *credential_answer_ref(CredentialAnswer *answer) {
        answer->n_refs++;
        return answer;
}

CredentialAnswer *credential_answer_unref(CredentialAnswer *answer) {
        if (!answer || --answer->n_refs > 0)
                return NULL;

        keyring_free(answer->keyring);
        free(answer);
        return NULL;
}

const Keyring *credential_answer_keyring(const CredentialAnswer *answer) {
        return answer->keyring;
}

int credential_cache_new(size_t n_max, CredentialCache **ret) {
        CredentialCache *cache;

        cache = calloc(1, sizeof(*cache) + n_max * sizeof(cache->entries[0]));
        if (!cache)
                return -ENOMEM;

        cache->n_max = n_max;

        *ret = cache;
        return 0;
}

static void remove_entry(CredentialCache *cache, size_t i) {
        credential_answer_unref(cache->entries[i].answer);
        free(cache->entries[i].key);
        cache->entries[i] = cache->entries[--cache->n_entries];
}

CredentialCache *credential_cache_free(CredentialCache *cache) {
        if (!cache)
                return NULL;

        while (cache->n_entries > 0)
                remove_entry(cache, cache->n_entries - 1);
        free(cache);
        return NULL;
}

size_t credential_cache_count(const CredentialCache *cache) {
        return cache->n_entries;
}

/* Returns the size of the part of the name that the scope covers. */
static size_t key_size(CredentialScope scope, const char *canonical_name) {
        switch (scope) {
        case CREDENTIAL_SCOPE_IMAGE: return strlen(canonical_name);
        case CREDENTIAL_SCOPE_REGISTRY: return strcspn(canonical_name, "/");
        case CREDENTIAL_SCOPE_GLOBAL:
        case _CREDENTIAL_SCOPE_MAX: break;
        }

        return 0;
}

static bool find_entry(const CredentialCache *cache, size_t i_plugin, CredentialScope scope,
                       const char *canonical_name, size_t *ret) {
        size_t size = key_size(scope, canonical_name);

        for (size_t i = 0; i < cache->n_entries; i++) {
                const Entry *entry = &cache->entries[i];

                if (entry->i_plugin == i_plugin && entry->scope == scope &&
                    strlen(entry->key) == size && memcmp(entry->key, canonical_name, size) == 0) {
                        *ret = i;
                        return true;
                }
        }

        return false;
}

CredentialAnswer *credential_cache_find(CredentialCache *cache, size_t i_plugin,
                                        const char *canonical_name, uint64_t now_usec) {
        size_t i;

        for (int scope = 0; scope < _CREDENTIAL_SCOPE_MAX; scope++)
                if (find_entry(cache, i_plugin, (CredentialScope) scope, canonical_name, &i) &&
                    cache->entries[i].end_usec > now_usec)
                        return cache->entries[i].answer;

        return NULL;
}

static void make_room(CredentialCache *cache) {
        size_t first = 0;

        if (cache->n_entries < cache->n_max)
                return;

        for (size_t i = 1; i < cache->n_entries; i++)
                if (cache->entries[i].end_usec < cache->entries[first].end_usec)
                        first = i;
        remove_entry(cache, first);
}

int credential_cache_put(CredentialCache *cache, size_t i_plugin, CredentialScope scope,
                         const char *canonical_name, uint64_t now_usec, uint64_t keep_usec,
                         CredentialAnswer *answer) {
        uint64_t end_usec;
        size_t i;
        char *key;

        if (find_entry(cache, i_plugin, scope, canonical_name, &i))
                remove_entry(cache, i);
        if (keep_usec == 0 || cache->n_max == 0)
                return 0;
        if (__builtin_add_overflow(now_usec, keep_usec, &end_usec))
                end_usec = UINT64_MAX;

        key = strndup(canonical_name, key_size(scope, canonical_name));
        if (!key)
                return -ENOMEM;

        credential_cache_purge(cache, now_usec);
        make_room(cache);
        cache->entries[cache->n_entries++] = (Entry){
                .i_plugin = i_plugin,
                .scope = scope,
                .key = key,
                .end_usec = end_usec,
                .answer = credential_answer_ref(answer),
        };
        return 0;
}

void credential_cache_purge(CredentialCache *cache, uint64_t now_usec) {
        for (size_t i = cache->n_entries; i > 0; i--)
                if (cache->entries[i - 1].end_usec <= now_usec)
                        remove_entry(cache, i - 1);
}
