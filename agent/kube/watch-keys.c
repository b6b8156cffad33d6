/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/watch-keys.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"

DEFINE_CLEANUP(WatchKey *, watch_key_free)

static int compare(const WatchKey *key, const char *namespace, const char *name) {
        int r = strcmp(key->namespace, namespace);

        return r != 0 ? r : strcmp(key->name, name);
}

/* Where it is, or would be. */
static size_t find_place(const WatchKeys *keys, const char *namespace, const char *name) {
        size_t low = 0, high = keys->n_items;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (compare(keys->items[middle], namespace, name) < 0)
                        low = middle + 1;
                else
                        high = middle;
        }

        return low;
}

WatchKey *watch_keys_find(const WatchKeys *keys, const char *namespace, const char *name) {
        size_t place = find_place(keys, namespace, name);

        if (place == keys->n_items || compare(keys->items[place], namespace, name) != 0)
                return NULL;

        return keys->items[place];
}

static int reserve(WatchKeys *keys) {
        size_t n_allocated = keys->n_allocated ? keys->n_allocated * 2 : 8;
        WatchKey **items;

        if (keys->n_items < keys->n_allocated)
                return 0;

        items = realloc(keys->items, n_allocated * sizeof(*items));
        if (!items)
                return -ENOMEM;

        keys->items = items;
        keys->n_allocated = n_allocated;
        return 0;
}

static int key_new(const char *namespace, const char *name, const char *uid, const char *version,
                   WatchKey **ret) {
        cleanup(watch_key_free_p) WatchKey *key = malloc(sizeof(*key));

        if (!key)
                return -ENOMEM;

        *key = (WatchKey){
                .namespace = strdup(namespace),
                .name = strdup(name),
                .uid = strdup(uid),
                .version = strdup(version),
                .is_marked = true,
        };
        if (!key->namespace || !key->name || !key->uid || !key->version)
                return -ENOMEM;

        *ret = take_ptr(key);
        return 0;
}

int watch_keys_add(WatchKeys *keys, const char *namespace, const char *name, const char *uid,
                   const char *version) {
        size_t place = find_place(keys, namespace, name);
        WatchKey *key;
        int r;

        r = reserve(keys);
        if (r < 0)
                return r;

        r = key_new(namespace, name, uid, version, &key);
        if (r < 0)
                return r;

        memmove(keys->items + place + 1, keys->items + place,
                (keys->n_items - place) * sizeof(*keys->items));
        keys->items[place] = key;
        keys->n_items++;
        return 0;
}

int watch_key_set_version(WatchKey *key, const char *version) {
        char *copy = strdup(version);

        if (!copy)
                return -ENOMEM;

        free(key->version);
        key->version = copy;
        return 0;
}

WatchKey *watch_keys_take(WatchKeys *keys, WatchKey *key) {
        size_t place = find_place(keys, key->namespace, key->name);

        assert(place < keys->n_items && keys->items[place] == key);

        keys->n_items--;
        memmove(keys->items + place, keys->items + place + 1,
                (keys->n_items - place) * sizeof(*keys->items));
        return key;
}

WatchKey *watch_key_free(WatchKey *key) {
        if (!key)
                return NULL;

        free(key->namespace);
        free(key->name);
        free(key->uid);
        free(key->version);
        free(key);
        return NULL;
}

void watch_keys_unmark(WatchKeys *keys) {
        for (size_t i = 0; i < keys->n_items; i++)
                keys->items[i]->is_marked = false;
}

WatchKey *watch_keys_find_unmarked(const WatchKeys *keys) {
        for (size_t i = 0; i < keys->n_items; i++)
                if (!keys->items[i]->is_marked)
                        return keys->items[i];

        return NULL;
}

void watch_keys_done(WatchKeys *keys) {
        for (size_t i = 0; i < keys->n_items; i++)
                watch_key_free(keys->items[i]);
        free(keys->items);
        *keys = WATCH_KEYS_INIT;
}
