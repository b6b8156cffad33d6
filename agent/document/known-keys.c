/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/document/known-keys.h"

#include <errno.h>
#include <json-c/json_object.h>
#include <json-c/linkhash.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/base/cleanup.h"
#include "agent/base/suggest.h"
#include "agent/base/text.h"
#include "agent/document/json-reader.h"

/* A longer list in one line is hard to read. */
#define LISTED_MAX 8

typedef struct Walk {
        const unsigned *line; /* line of the next key */
        bool is_secret;
        UnknownKeys unknown;
} Walk;

static inline void walk_done(Walk *walk) {
        unknown_keys_done(&walk->unknown);
}

void unknown_keys_done(UnknownKeys *unknown) {
        for (size_t i = 0; i < unknown->n_texts; i++)
                free(unknown->texts[i]);
        free(unknown->texts);
        *unknown = UNKNOWN_KEYS_INIT;
}

static const JsonField *find_known(const JsonField *known, const char *key) {
        for (; known->key; known++)
                if (strcmp(known->key, "*") == 0 || strcmp(known->key, key) == 0 ||
                    (known->is_any_case && strcasecmp(known->key, key) == 0))
                        return known;

        return NULL;
}

static const char *find_likely(const JsonField *known, const char *key) {
        Suggestion suggestion = suggest_for(key);

        for (; known->key; known++)
                suggest(&suggestion, known->key);
        return suggestion.word;
}

/* Returns "tags, pullSecrets, sandboxConfig", or NULL if there are too many. */
static int list_known(const JsonField *known, char **ret) {
        cleanup(free_p) char *list = NULL;

        for (size_t n = 0; known->key; known++, n++) {
                if (n == LISTED_MAX) {
                        *ret = NULL;
                        return 0;
                }
                if (text_list_add(&list, known->key) < 0)
                        return -ENOMEM;
        }

        *ret = take_ptr(list);
        return 0;
}

/* Writes the message, without the line number. */
static int describe(const Walk *walk, const JsonPath *path, const JsonField *known, Error *ret) {
        const JsonPath alone = { .key = path->key };
        const char *likely = find_likely(known, path->key);
        cleanup(free_p) char *list = NULL;
        int r;

        if (likely)
                r = json_refuse(walk->is_secret ? &alone : path, ret,
                                "unknown key, ignored; did you mean %s?", likely);
        else {
                r = list_known(known, &list);
                if (r < 0)
                        return r;
                r = json_refuse(walk->is_secret ? NULL : path, ret, "unknown key, ignored%s%s",
                                list ? "; known here: " : "", list ?: "");
        }

        return ret->kind == ERROR_NONE ? r : 0;
}

int unknown_keys_add(UnknownKeys *unknown, const char *text) {
        if (unknown->n_found++ >= UNKNOWN_KEYS_MAX)
                return 0;

        if (!unknown->texts) {
                unknown->texts = calloc(UNKNOWN_KEYS_MAX, sizeof(*unknown->texts));
                if (!unknown->texts)
                        return -ENOMEM;
        }

        unknown->texts[unknown->n_texts] = strdup(text);
        return unknown->texts[unknown->n_texts++] ? 0 : -ENOMEM;
}

static int report(Walk *walk, const JsonPath *path, const JsonField *known, unsigned line) {
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(free_p) char *text = NULL;
        int r;

        r = describe(walk, path, known, &error);
        if (r < 0)
                return r;
        if (text_format(&text, "line %u: %s", line, error_message(&error)) < 0)
                return -ENOMEM;

        return unknown_keys_add(&walk->unknown, text);
}

/* Visits each key, also where all of them are known, to keep count of the lines. */
static int check_value(Walk *walk, struct json_object *value, const JsonPath *path,
                       const JsonField *known) {
        int r = 0;

        if (json_object_is_type(value, json_type_array))
                for (size_t i = 0; r >= 0 && i < json_object_array_length(value); i++)
                        r = check_value(walk, json_object_array_get_idx(value, i),
                                        &(JsonPath){ .parent = path, .index = i }, known);

        if (!json_object_is_type(value, json_type_object))
                return r;

        json_object_object_foreach(value, key, member) {
                const JsonPath here = { .parent = path, .key = key };
                const JsonField *found = known ? find_known(known, key) : NULL;
                unsigned line = *walk->line++;

                if (known && !found) {
                        r = report(walk, &here, known, line);
                        if (r < 0)
                                return r;
                }

                r = check_value(walk, member, &here, found ? found->fields : NULL);
                if (r < 0)
                        return r;
        }

        return 0;
}

int known_keys_check(const Documents *documents,
                     const JsonField *(*known_in)(struct json_object *document), bool is_secret,
                     UnknownKeys *ret) {
        cleanup(walk_done) Walk walk = { .line = documents->lines, .is_secret = is_secret };
        int r = 0;

        for (size_t i = 0; r >= 0 && i < documents->n_items; i++)
                r = check_value(&walk, documents->items[i], NULL, known_in(documents->items[i]));
        if (r < 0)
                return r;

        *ret = walk.unknown;
        walk.unknown = UNKNOWN_KEYS_INIT;
        return 0;
}
