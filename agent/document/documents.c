/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/document/documents.h"

#include <errno.h>
#include <json-c/json_object.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/document/documents-read.h"
#include "agent/document/json-wipe.h"

/* libyaml compares each directive of a document with all before it, which would take minutes. */
#define TAG_DIRECTIVES_MAX 64

#define BYTE_ORDER_MARK "\xef\xbb\xbf"

int documents_take(Documents *documents, struct json_object *document) {
        struct json_object **items;

        items = reallocarray(documents->items, documents->n_items + 1, sizeof(*items));
        if (!items) {
                json_object_put(document);
                return -ENOMEM;
        }

        items[documents->n_items++] = document;
        documents->items = items;
        return 0;
}

int documents_refuse_at(const char *text, size_t offset, const char *problem, Error *reterr) {
        size_t line = 1, column = 1;

        for (size_t i = 0; i < offset; i++)
                if (text[i] == '\n') {
                        line++;
                        column = 1;
                } else if (((unsigned char) text[i] & 0xc0) != 0x80)
                        column++;

        return error_set(reterr, ERROR_INVALID, "line %zu, column %zu: %s", line, column, problem);
}

/* The size of the UTF-8 sequence at the start of the text, or 0 if there is none. */
static size_t utf8_size(const unsigned char *text, size_t size) {
        static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
        size_t n = text[0] < 0x80 ? 1 : text[0] < 0xe0 ? 2 : text[0] < 0xf0 ? 3 : 4;
        uint32_t code = text[0] & (0x7f >> n);

        if (n == 1)
                return 1;
        if (text[0] < 0xc0 || text[0] > 0xf7 || n > size)
                return 0;

        for (size_t i = 1; i < n; i++) {
                if ((text[i] & 0xc0) != 0x80)
                        return 0;
                code = code << 6 | (text[i] & 0x3f);
        }

        if (code < smallest[n] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
                return 0;
        return n;
}

static int check_utf8(const char *text, size_t size, Error *reterr) {
        size_t n;

        for (size_t i = 0; i < size; i += n) {
                n = utf8_size((const unsigned char *) text + i, size - i);
                if (n == 0)
                        return documents_refuse_at(text, i, "this is not UTF-8", reterr);
        }

        return 0;
}

static int check_directives(const char *text, size_t size, Error *reterr) {
        static const char directive[] = "%TAG";
        const char *at = text;
        size_t n = 0;

        while ((at = memmem(at, size - (size_t) (at - text), directive, strlen(directive)))) {
                if (n++ == TAG_DIRECTIVES_MAX)
                        return documents_refuse_at(text, (size_t) (at - text),
                                                   "too many %TAG directives", reterr);
                at++;
        }

        return 0;
}

static bool may_be_json(const char *text, size_t size) {
        size_t i = 0;

        while (i < size && strchr(" \t\r\n", text[i]) && text[i])
                i++;
        return i < size && (text[i] == '{' || text[i] == '[');
}

int documents_parse(const char *text, size_t size, Documents *ret, Error *reterr) {
        cleanup(documents_done) Documents documents = DOCUMENTS_INIT;
        bool understood = false;
        int r;

        if (size > DOCUMENTS_SIZE_MAX)
                return error_set(reterr, ERROR_INVALID, "is larger than %zu MiB",
                                 DOCUMENTS_SIZE_MAX >> 20);

        r = check_utf8(text, size, reterr);
        if (r < 0)
                return r;

        if (size >= 3 && memcmp(text, BYTE_ORDER_MARK, 3) == 0) {
                text += 3;
                size -= 3;
        }

        if (may_be_json(text, size)) {
                r = documents_read_json(text, size, &documents, &understood, reterr);
                if (r < 0)
                        return r;
        }
        if (!understood) {
                r = check_directives(text, size, reterr);
                if (r < 0)
                        return r;
                r = documents_read_yaml(text, size, &documents, reterr);
                if (r < 0)
                        return r;
        }

        *ret = documents;
        documents = DOCUMENTS_INIT;
        return 0;
}

void documents_done(Documents *documents) {
        for (size_t i = 0; i < documents->n_items; i++)
                json_object_put(documents->items[i]);

        free(documents->items);
        *documents = DOCUMENTS_INIT;
}

void documents_wipe(Documents *documents) {
        for (size_t i = 0; i < documents->n_items; i++)
                json_wipe(documents->items[i]);
        documents_done(documents);
}
