/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/document/label-selector.h"

#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "agent/base/quote.h"

#define BLANKS " \t\n"
#define NAME_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./"

/* A part of the selector, not ended by a NUL. */
typedef struct Word {
        const char *at;
        size_t size;
} Word;

/* The rest of a selector that is being read. */
typedef struct Scan {
        const char *rest;
        struct json_object *labels;
} Scan;

static void skip_blanks(Scan *scan) {
        scan->rest += strspn(scan->rest, BLANKS);
}

static bool take(Scan *scan, const char *symbol) {
        size_t size = strlen(symbol);

        skip_blanks(scan);
        if (strncmp(scan->rest, symbol, size) != 0)
                return false;

        scan->rest += size;
        return true;
}

/* An empty word is a value, too. */
static Word take_word(Scan *scan) {
        Word word;

        skip_blanks(scan);
        word = (Word){ .at = scan->rest, .size = strspn(scan->rest, NAME_CHARACTERS) };
        scan->rest += word.size;
        return word;
}

static bool word_is(Word word, const char *text) {
        return text && strlen(text) == word.size && memcmp(word.at, text, word.size) == 0;
}

/* The value of the label; NULL: there is no such label. Borrowed. */
static const char *find_label(const Scan *scan, Word key) {
        if (!scan->labels)
                return NULL;

        json_object_object_foreach(scan->labels, name,
                                   value) if (word_is(key,
                                                      name)) return json_object_get_string(value);
        return NULL;
}

/* "(a, b)" */
static int take_list(Scan *scan, const char *value, bool *ret_listed) {
        *ret_listed = false;
        if (!take(scan, "("))
                return -EINVAL;
        do
                *ret_listed |= word_is(take_word(scan), value);
        while (take(scan, ","));
        return take(scan, ")") ? 0 : -EINVAL;
}

/* Reads what may follow a key: an operator and its values. */
static int take_condition(Scan *scan, const char *value, bool *ret) {
        const char *before = scan->rest;
        bool is_listed;
        Word word;
        int r;

        if (take(scan, "!=")) {
                *ret = !word_is(take_word(scan), value);
                return 0;
        }
        if (take(scan, "==") || take(scan, "=")) {
                *ret = word_is(take_word(scan), value);
                return 0;
        }

        word = take_word(scan);
        if (word.size == 0) {
                *ret = value;
                return 0;
        }
        if ((!word_is(word, "in") && !word_is(word, "notin")) || strchr(BLANKS, *before) == NULL)
                return -EINVAL;

        r = take_list(scan, value, &is_listed);
        *ret = is_listed == word_is(word, "in");
        return r;
}

static int take_requirement(Scan *scan, bool *ret) {
        bool is_absent = take(scan, "!");
        Word key = take_word(scan);
        const char *value = find_label(scan, key);

        if (key.size == 0)
                return -EINVAL;
        if (!is_absent)
                return take_condition(scan, value, ret);

        *ret = !value;
        return 0;
}

int label_selector_match(const char *selector, struct json_object *labels, bool *ret,
                         Error *reterr) {
        Scan scan = { .rest = selector, .labels = labels };
        bool all = true, holds = true;
        int r = 0;

        skip_blanks(&scan);
        if (*scan.rest)
                do {
                        r = take_requirement(&scan, &holds);
                        all &= holds;
                } while (r >= 0 && take(&scan, ","));
        skip_blanks(&scan);
        if (r < 0 || *scan.rest)
                return error_set(reterr, ERROR_INVALID,
                                 "%s is no label selector, such as \"pool=gpu,zone in (a,b)\"",
                                 quote(selector, (char[QUOTE_SIZE]){ 0 }));

        *ret = all;
        return 0;
}
