/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Watch keys
 *
 * Who is known to a watch, and in which version, so that a new list shows who is new, who changed
 * and who is gone, without any object being kept. Sorted by namespace and name.
 */

#include <stdbool.h>
#include <stddef.h>

typedef struct WatchKey {
        char *namespace; /* "" if there is none; all are owned */
        char *name;
        char *uid;
        char *version;
        bool is_marked;
} WatchKey;

typedef struct WatchKeys {
        WatchKey **items;
        size_t n_items;
        size_t n_allocated;
} WatchKeys;

#define WATCH_KEYS_INIT ((WatchKeys){ .items = NULL })

/* The key of that namespace and name, borrowed until it is taken out; NULL if it is not known. */
WatchKey *watch_keys_find(const WatchKeys *keys, const char *namespace, const char *name);

/* One that is not known, marked. Texts are copied. */
int watch_keys_add(WatchKeys *keys, const char *namespace, const char *name, const char *uid,
                   const char *version);

/* Sets the version that it has now. Copied. */
int watch_key_set_version(WatchKey *key, const char *version);

/* Takes it out; the caller owns it. */
WatchKey *watch_keys_take(WatchKeys *keys, WatchKey *key);
WatchKey *watch_key_free(WatchKey *key);

/* A list begins: whoever is not marked at its end is gone. */
void watch_keys_unmark(WatchKeys *keys);
WatchKey *watch_keys_find_unmarked(const WatchKeys *keys);

void watch_keys_done(WatchKeys *keys);
