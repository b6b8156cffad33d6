/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/document/documents.h"

#include <errno.h>
#include <json-c/json_object.h>
#include <json-c/json_tokener.h>
#include <json-c/linkhash.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/quote.h"
#include "agent/base/utf8.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"

/* libyaml compares each directive of a document with all earlier ones, which would take minutes. */
#define TAG_DIRECTIVES_MAX 64

#define ANCHORS_MAX 256 /* per document; they are searched one by one */

#define BYTE_ORDER_MARK "\xef\xbb\xbf"

/* All characters of JSON outside its strings: json-c also accepts comments and infinities. */
#define OUTSIDE_STRINGS " \t\r\n{}[],:+-.0123456789Eaeflnrstu"

#define DIGITS "0123456789"

/* Longer numbers are strings: no number of the agent is as long. */
#define NUMBER_SIZE_MAX 64

/* Appends a document, which it takes over also when it fails. */
static int take_document(Documents *documents, struct json_object *document) {
        if (array_grow(&documents->items, documents->n_items, sizeof(document)) < 0) {
                json_object_put(document);
                return -ENOMEM;
        }

        documents->items[documents->n_items++] = document;
        return 0;
}

static int add_line(Documents *documents, size_t line) {
        if (array_grow(&documents->lines, documents->n_lines, sizeof(documents->lines[0])) < 0)
                return -ENOMEM;

        documents->lines[documents->n_lines++] = (unsigned) line;
        return 0;
}

/* Refuses the byte at the offset, with its line and column. */
static int refuse_at(const char *text, size_t offset, const char *problem, Error *reterr) {
        size_t line = 1, column = 1;

        for (size_t i = 0; i < offset; i++)
                if (text[i] == '\n') {
                        line++;
                        column = 1;
                } else if (((unsigned char) text[i] & 0xc0) != 0x80)
                        column++;

        return error_set(reterr, ERROR_INVALID, "line %zu, column %zu: %s", line, column, problem);
}

void documents_done(Documents *documents) {
        for (size_t i = 0; i < documents->n_items; i++)
                json_object_put(documents->items[i]);

        free(documents->items);
        free(documents->lines);
        *documents = DOCUMENTS_INIT;
}

void documents_wipe(Documents *documents) {
        for (size_t i = 0; i < documents->n_items; i++)
                json_wipe(documents->items[i]);
        documents_done(documents);
}

/*
 * JSON is nearly a part of YAML, but libyaml refuses pairs of surrogates, tabs before the first
 * bracket and keys of more than a thousand characters. So json-c comes first. What it cannot do,
 * finding keys that are given twice and bounding the number of values, is done by counting commas
 * and colons before and members after.
 */

typedef struct Census {
        size_t n_values;  /* at most that many */
        size_t n_members; /* number of members of all objects, if no key is given twice */
        bool is_doubtful; /* it is not JSON, or has what a C string cannot hold */
} Census;

/* Returns the offset behind the string that begins at the offset. */
static size_t skip_string(const char *text, size_t size, size_t i, Census *census) {
        for (i++; i < size && text[i] != '"'; i++) {
                if ((unsigned char) text[i] < ' ')
                        census->is_doubtful = true;
                if (text[i] != '\\')
                        continue;
                if (size - i > 5 && memcmp(text + i, "\\u0000", 6) == 0)
                        census->is_doubtful = true;
                i++;
        }

        return i + 1;
}

static Census take_census(const char *text, size_t size) {
        Census census = { .n_values = 0 };
        size_t i = 0;

        while (i < size) {
                if (text[i] == '"') {
                        i = skip_string(text, size, i, &census);
                        continue;
                }

                if (text[i] == ',' || text[i] == '{' || text[i] == '[')
                        census.n_values++;
                if (text[i] == ':')
                        census.n_members++;
                if (!strchr(OUTSIDE_STRINGS, text[i]) || text[i] == '\0')
                        census.is_doubtful = true;
                i++;
        }

        return census;
}

size_t documents_count_keys(struct json_object *value) {
        size_t n = 0;

        if (json_object_is_type(value, json_type_array))
                for (size_t i = 0; i < json_object_array_length(value); i++)
                        n += documents_count_keys(json_object_array_get_idx(value, i));

        if (json_object_is_type(value, json_type_object)) {
                json_object_object_foreach(value, key, member) {
                        (void) key;
                        n += 1 + documents_count_keys(member);
                }
        }

        return n;
}

static size_t skip_blanks(const char *text, size_t size, size_t i) {
        while (i < size &&
               (text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n'))
                i++;
        return i;
}

/* Notes the line of each key of a JSON text: each colon outside of strings follows a key. */
static int read_lines(const char *text, size_t size, Documents *documents) {
        Census ignored = { .n_values = 0 };
        size_t line = 1;

        for (size_t i = 0; i < size; i++) {
                if (text[i] == '"')
                        i = skip_string(text, size, i, &ignored) - 1;
                else if (text[i] == '\n')
                        line++;
                else if (text[i] == ':' && add_line(documents, line) < 0)
                        return -ENOMEM;
        }

        return 0;
}

/* Returns 1 if all of it was read, 0 if it is not JSON. */
static int read_values(const char *text, size_t size, Documents *documents, size_t *ret_members) {
        cleanup(json_tokener_free_p) struct json_tokener *tokener = NULL;
        size_t n_members = 0;
        int r;

        tokener = json_tokener_new_ex(DOCUMENTS_DEPTH_MAX);
        if (!tokener)
                return -ENOMEM;
        json_tokener_set_flags(tokener,
                               json_reading_flags(text, size) | JSON_TOKENER_ALLOW_TRAILING_CHARS);

        for (size_t i = skip_blanks(text, size, 0); i < size; i = skip_blanks(text, size, i)) {
                struct json_object *value;
                size_t end;

                if (text[i] != '{' && text[i] != '[')
                        return 0;

                json_tokener_reset(tokener);
                r = json_parse_next(tokener, text + i, size - i, &value, &end);
                if (r < 0)
                        return r;
                if (json_tokener_get_error(tokener) != json_tokener_success)
                        return 0;

                i += end;
                n_members += documents_count_keys(value);
                r = take_document(documents, value);
                if (r < 0)
                        return r;
        }

        *ret_members = n_members;
        return 1;
}

/* Reads JSON values, one after the other. *ret_understood is false, and nothing was read, if the
 * text is not certain to be JSON: the YAML reader then reads it, or reports what is wrong with it. */
static int read_json(const char *text, size_t size, Documents *ret, bool *ret_understood,
                     Error *reterr) {
        cleanup(documents_done) Documents documents = DOCUMENTS_INIT;
        Census census = take_census(text, size);
        size_t n_members;
        int r;

        *ret_understood = false;
        if (census.is_doubtful)
                return 0;
        if (census.n_values > DOCUMENTS_VALUES_MAX)
                return error_set(reterr, ERROR_INVALID, "has more than %d values",
                                 DOCUMENTS_VALUES_MAX);

        r = read_values(text, size, &documents, &n_members);
        if (r <= 0)
                return r;
        if (n_members != census.n_members)
                return 0;
        r = read_lines(text, size, &documents);
        if (r < 0)
                return r;

        *ret = documents;
        documents = DOCUMENTS_INIT;
        *ret_understood = true;
        return 0;
}

/*
 * YAML scalars: what one that is neither quoted nor tagged stands for. The words and numbers are
 * those that kubectl takes: "yes", "on" and "y" are true, "0x1f", "0o17" and "017" are integers,
 * "1_000" is a thousand, a time stamp is a string. Infinity and NaN, which JSON does not have, are
 * strings too.
 */

typedef enum YamlType {
        YAML_TYPE_STRING,
        YAML_TYPE_NULL,
        YAML_TYPE_BOOL,
        YAML_TYPE_INTEGER,
        YAML_TYPE_FLOAT,
        _YAML_TYPE_MAX,
} YamlType;

/* Only these spellings count: "yES" is a string. */
static const char *const words_null[] = { "", "~", "null", "Null", "NULL", NULL };
static const char *const words_true[] = { "y",    "Y",    "yes", "Yes", "YES", "true",
                                          "True", "TRUE", "on",  "On",  "ON",  NULL };
static const char *const words_false[] = { "n",     "N",     "no",  "No",  "NO",  "false",
                                           "False", "FALSE", "off", "Off", "OFF", NULL };

static bool is_one_of(const char *const *words, const char *text) {
        for (; *words; words++)
                if (strcmp(*words, text) == 0)
                        return true;
        return false;
}

/* Copies a number without its underscores. */
static bool copy_number(const char *text, char number[static NUMBER_SIZE_MAX]) {
        size_t n = 0;

        if (!*text || !strchr("+-." DIGITS, *text))
                return false;

        for (; *text; text++) {
                if (*text == '_')
                        continue;
                if (n == NUMBER_SIZE_MAX - 1)
                        return false;
                number[n++] = *text;
        }

        number[n] = '\0';
        return true;
}

static int prefix_base(const char *digits) {
        if (digits[0] != '0')
                return 10;

        switch (digits[1]) {
        case 'x':
        case 'X': return 16;
        case 'o':
        case 'O': return 8;
        case 'b':
        case 'B': return 2;
        }

        return digits[1] >= '0' && digits[1] <= '9' ? 8 : 10; /* "017" */
}

/* Splits a number into its base and its digits, behind sign and prefix. */
static int number_base(const char *number, const char **ret_digits) {
        const char *digits = number + strspn(number, "+-");
        int base = prefix_base(digits);

        if (base != 10)
                digits += strchr(DIGITS, digits[1]) ? 1 : 2;

        *ret_digits = digits;
        return base;
}

static bool is_integer(const char *number) {
        static const char all[] = DIGITS "abcdefABCDEF";
        const char *digits;
        char allowed[sizeof(all)];
        int base;

        if (strspn(number, "+-") > 1)
                return false;

        base = number_base(number, &digits);
        strcpy(allowed, all);
        if (base <= 10)
                allowed[base] = '\0';

        return *digits && digits[strspn(digits, allowed)] == '\0';
}

/* As kubectl has it: [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)? */
static bool is_float(const char *number) {
        size_t n_before, n_after = 0;

        number += strchr("+-", *number) != NULL;
        n_before = strspn(number, DIGITS);
        number += n_before;

        if (*number == '.') {
                n_after = strspn(number + 1, DIGITS);
                number += 1 + n_after;
        }
        if (n_before + n_after == 0)
                return false;

        if (*number == 'e' || *number == 'E') {
                number++;
                if (*number == '+' || *number == '-')
                        number++;
                if (!*number)
                        return false;
                number += strspn(number, DIGITS);
        }

        return !*number;
}

static YamlType scalar_type(const char *text) {
        char number[NUMBER_SIZE_MAX];

        if (is_one_of(words_null, text))
                return YAML_TYPE_NULL;
        if (is_one_of(words_true, text) || is_one_of(words_false, text))
                return YAML_TYPE_BOOL;

        if (!copy_number(text, number))
                return YAML_TYPE_STRING;
        if (is_integer(number))
                return YAML_TYPE_INTEGER;
        return is_float(number) && isfinite(strtod(number, NULL)) ? YAML_TYPE_FLOAT
                                                                  : YAML_TYPE_STRING;
}

/* Returns the type of a tag such as "tag:yaml.org,2002:int", or _YAML_TYPE_MAX. */
static YamlType scalar_tag_type(const char *tag) {
        static const char *const tags[_YAML_TYPE_MAX] = {
                [YAML_TYPE_STRING] = "tag:yaml.org,2002:str",
                [YAML_TYPE_NULL] = "tag:yaml.org,2002:null",
                [YAML_TYPE_BOOL] = "tag:yaml.org,2002:bool",
                [YAML_TYPE_INTEGER] = "tag:yaml.org,2002:int",
                [YAML_TYPE_FLOAT] = "tag:yaml.org,2002:float",
        };
        YamlType type = 0;

        while (type < _YAML_TYPE_MAX && strcmp(tags[type], tag) != 0)
                type++;
        return type;
}

/* An integer that is too large becomes the largest one: strtoull() stops there. */
static struct json_object *new_integer(const char *text) {
        char number[NUMBER_SIZE_MAX];
        const char *digits;
        uint64_t value;
        int base;

        if (!copy_number(text, number))
                abort();

        base = number_base(number, &digits);
        value = strtoull(digits, NULL, base);

        if (number[0] != '-')
                return value > INT64_MAX ? json_object_new_uint64(value)
                                         : json_object_new_int64((int64_t) value);
        return json_object_new_int64(value > INT64_MAX ? INT64_MIN : -(int64_t) value);
}

/* Whether JSON may have the number like this, without an exponent. */
static bool is_plain_fraction(const char *text) {
        const char *whole = text + (*text == '-');
        size_t n_whole = strspn(whole, "0123456789");
        size_t n_fraction = whole[n_whole] == '.' ? strspn(whole + n_whole + 1, "0123456789") : 0;

        return n_whole > 0 && (n_whole == 1 || *whole != '0') && n_fraction > 0 &&
               !whole[n_whole + 1 + n_fraction];
}

/* Keeps the spelling: a person who meant the tag "1.10" reads that in the refusal. */
static struct json_object *new_float(const char *text) {
        char number[NUMBER_SIZE_MAX];

        if (!copy_number(text, number))
                abort();
        return is_plain_fraction(text) ? json_object_new_double_s(strtod(number, NULL), text)
                                       : json_object_new_double(strtod(number, NULL));
}

/* The scalar as that type, which is the one of scalar_type(), or a string, or a float made of an
 * integer. An integer that 64 bits cannot hold becomes the nearest one that they can. Owned by the
 * caller; NULL if there is no memory, and for null, which json-c has no object for. */
static struct json_object *scalar_new(YamlType type, const char *text, size_t size) {
        switch (type) {
        case YAML_TYPE_STRING: return json_object_new_string_len(text, (int) size);
        case YAML_TYPE_NULL: return NULL;
        case YAML_TYPE_BOOL: return json_object_new_boolean(is_one_of(words_true, text));
        case YAML_TYPE_INTEGER: return new_integer(text);
        case YAML_TYPE_FLOAT: return new_float(text);
        case _YAML_TYPE_MAX: break;
        }

        abort();
}

/*
 * The YAML reader builds json-c objects from libyaml's events. A container belongs to its parent, or
 * to the documents, from its start; the frames only remember where the next value goes. An alias
 * shares the object of its anchor, but counts as if it were a copy, because a caller that walks the result
 * sees one.
 */

/* Size of a value, with everything inside it. */
typedef struct Extent {
        size_t n_values;
        size_t n_bytes;
        size_t n_keys;
        size_t height;
} Extent;

typedef struct Anchor {
        char *name;
        struct json_object *value; /* holds one reference */
        Extent extent;
} Anchor;

/* A mapping or sequence that has begun and not ended. */
typedef struct Frame {
        struct json_object *container;
        char *key;    /* key of the next value; NULL in a sequence, and before a key */
        char *anchor; /* may be NULL */
        Extent before;
        size_t height;
} Frame;

typedef struct Builder {
        Documents documents;
        Frame frames[DOCUMENTS_DEPTH_MAX];
        size_t n_frames;
        Anchor anchors[ANCHORS_MAX];
        size_t n_anchors;
        Extent total; /* extent of the whole text; its height is not used */
        Error *reterr;
} Builder;

#define refuse(builder, mark, format, ...)                                           \
        error_set((builder)->reterr, ERROR_INVALID, "line %zu, column %zu: " format, \
                  (mark)->line + 1, (mark)->column + 1, ##__VA_ARGS__)

static void builder_forget_anchors(Builder *builder) {
        while (builder->n_anchors > 0) {
                Anchor *anchor = &builder->anchors[--builder->n_anchors];

                free(anchor->name);
                json_object_put(anchor->value);
        }
}

static void builder_free(Builder *builder) {
        while (builder->n_frames > 0) {
                Frame *frame = &builder->frames[--builder->n_frames];

                free(frame->key);
                free(frame->anchor);
        }

        builder_forget_anchors(builder);
        documents_done(&builder->documents);
        free(builder);
}

DEFINE_CLEANUP(Builder *, builder_free)

static Frame *builder_top(Builder *builder) {
        return builder->n_frames > 0 ? &builder->frames[builder->n_frames - 1] : NULL;
}

static bool wants_key(const Frame *frame) {
        return frame && !frame->key && json_object_is_type(frame->container, json_type_object);
}

static int builder_count(Builder *builder, size_t n_values, size_t n_bytes,
                         const yaml_mark_t *mark) {
        builder->total.n_values += n_values;
        builder->total.n_bytes += n_bytes;

        if (builder->total.n_values > DOCUMENTS_VALUES_MAX)
                return refuse(builder, mark, "more than %d values", DOCUMENTS_VALUES_MAX);
        if (builder->total.n_bytes > DOCUMENTS_SIZE_MAX)
                return refuse(builder, mark, "more than %zu MiB of text", DOCUMENTS_SIZE_MAX >> 20);
        return 0;
}

/* Puts a value, which it takes over also when it fails, in the next place. */
static int builder_put(Builder *builder, struct json_object *value, const yaml_mark_t *mark) {
        Frame *frame = builder_top(builder);
        int r;

        if (wants_key(frame)) {
                json_object_put(value);
                return refuse(builder, mark, "a key has to be a scalar");
        }

        if (!frame)
                return value ? take_document(&builder->documents, value) : 0;

        if (json_object_is_type(frame->container, json_type_array))
                r = json_object_array_add(frame->container, value);
        else {
                cleanup(free_p) char *key = take_ptr(frame->key);

                r = json_object_object_add_ex(frame->container, key, value,
                                              JSON_C_OBJECT_ADD_KEY_IS_NEW);
        }
        if (r < 0) {
                json_object_put(value);
                return -ENOMEM;
        }

        return 0;
}

static int builder_anchor(Builder *builder, const char *name, struct json_object *value,
                          Extent extent, const yaml_mark_t *mark) {
        Anchor *anchor;

        if (builder->n_anchors == ANCHORS_MAX)
                return refuse(builder, mark, "more than %d anchors", ANCHORS_MAX);

        anchor = &builder->anchors[builder->n_anchors];
        *anchor = (Anchor){ .name = strdup(name), .extent = extent };
        if (!anchor->name)
                return -ENOMEM;

        anchor->value = json_object_get(value);
        builder->n_anchors++;
        return 0;
}

static int on_alias(Builder *builder, const yaml_event_t *event) {
        const char *name = (const char *) event->data.alias.anchor;
        Frame *frame = builder_top(builder);
        Anchor *anchor = NULL;
        int r;

        for (size_t i = builder->n_anchors; i > 0 && !anchor; i--)
                if (strcmp(builder->anchors[i - 1].name, name) == 0)
                        anchor = &builder->anchors[i - 1];
        if (!anchor)
                return refuse(builder, &event->start_mark,
                              "there is no anchor %s before this alias",
                              quote(name, (char[QUOTE_SIZE]){ 0 }));

        r = builder_count(builder, anchor->extent.n_values, anchor->extent.n_bytes,
                          &event->start_mark);
        if (r < 0)
                return r;

        if (builder->n_frames + anchor->extent.height > DOCUMENTS_DEPTH_MAX)
                return refuse(builder, &event->start_mark, "more than %d levels deep",
                              DOCUMENTS_DEPTH_MAX);
        if (frame && frame->height < anchor->extent.height)
                frame->height = anchor->extent.height;

        for (size_t i = 0; i < anchor->extent.n_keys; i++)
                if (add_line(&builder->documents, event->start_mark.line + 1) < 0)
                        return -ENOMEM;

        return builder_put(builder, json_object_get(anchor->value), &event->start_mark);
}

static int on_key(Builder *builder, const yaml_event_t *event) {
        const char *key = (const char *) event->data.scalar.value;
        Frame *frame = builder_top(builder);

        if (event->data.scalar.anchor)
                return refuse(builder, &event->start_mark, "a key cannot have an anchor");
        if (event->data.scalar.plain_implicit && strcmp(key, "<<") == 0)
                return refuse(builder, &event->start_mark, "merge keys (<<) are not supported");
        if (json_object_object_get_ex(frame->container, key, NULL))
                return refuse(builder, &event->start_mark, "the key %s is given twice",
                              quote(key, (char[QUOTE_SIZE]){ 0 }));

        frame->key = strdup(key);
        if (!frame->key || add_line(&builder->documents, event->start_mark.line + 1) < 0)
                return -ENOMEM;

        return builder_count(builder, 0, event->data.scalar.length, &event->start_mark);
}

/* Finds the type of the scalar; refuses a tag that does not fit the text. */
static int resolve_scalar(Builder *builder, const yaml_event_t *event, YamlType *ret) {
        const char *tag = (const char *) event->data.scalar.tag;
        const char *text = (const char *) event->data.scalar.value;
        YamlType type = scalar_type(text);

        if (!tag) {
                *ret = event->data.scalar.plain_implicit ? type : YAML_TYPE_STRING;
                return 0;
        }

        *ret = scalar_tag_type(tag);
        if (*ret == _YAML_TYPE_MAX)
                return refuse(builder, &event->start_mark, "the tag %s is not supported",
                              quote(tag, (char[QUOTE_SIZE]){ 0 }));
        if (*ret != type && *ret != YAML_TYPE_STRING &&
            !(*ret == YAML_TYPE_FLOAT && type == YAML_TYPE_INTEGER))
                return refuse(builder, &event->start_mark, "%s does not fit its tag",
                              quote(text, (char[QUOTE_SIZE]){ 0 }));
        return 0;
}

static int on_scalar(Builder *builder, const yaml_event_t *event) {
        const char *text = (const char *) event->data.scalar.value;
        const char *anchor = (const char *) event->data.scalar.anchor;
        size_t size = event->data.scalar.length;
        struct json_object *value;
        YamlType type;
        int r;

        if (strlen(text) != size)
                return refuse(builder, &event->start_mark, "a string cannot have a NUL in it");
        if (wants_key(builder_top(builder)))
                return on_key(builder, event);

        r = resolve_scalar(builder, event, &type);
        if (r < 0)
                return r;

        r = builder_count(builder, 1, size, &event->start_mark);
        if (r < 0)
                return r;

        value = scalar_new(type, text, size);
        if (!value && type != YAML_TYPE_NULL)
                return -ENOMEM;

        if (anchor) {
                r = builder_anchor(builder, anchor, value,
                                   (Extent){ .n_values = 1, .n_bytes = size }, &event->start_mark);
                if (r < 0) {
                        json_object_put(value);
                        return r;
                }
        }

        return builder_put(builder, value, &event->start_mark);
}

/* Begins a mapping or sequence, which it takes over also when it fails. */
static int builder_begin(Builder *builder, struct json_object *container, const char *anchor,
                         const yaml_mark_t *mark) {
        Frame frame = { .container = container, .before = builder->total };
        int r;

        if (!container)
                return -ENOMEM;

        frame.before.n_keys = builder->documents.n_lines;
        r = builder_put(builder, container, mark);
        if (r < 0)
                return r;
        if (builder->n_frames == DOCUMENTS_DEPTH_MAX)
                return refuse(builder, mark, "more than %d levels deep", DOCUMENTS_DEPTH_MAX);

        if (anchor) {
                frame.anchor = strdup(anchor);
                if (!frame.anchor)
                        return -ENOMEM;
        }

        builder->frames[builder->n_frames++] = frame;
        return builder_count(builder, 1, 0, mark);
}

static bool is_tag_supported(const yaml_char_t *tag, const char *supported) {
        return !tag || strcmp((const char *) tag, "!") == 0 ||
               strcmp((const char *) tag, supported) == 0;
}

static int on_start(Builder *builder, const yaml_event_t *event) {
        bool is_mapping = event->type == YAML_MAPPING_START_EVENT;
        const yaml_char_t *tag, *anchor;

        tag = is_mapping ? event->data.mapping_start.tag : event->data.sequence_start.tag;
        anchor = is_mapping ? event->data.mapping_start.anchor : event->data.sequence_start.anchor;

        if (!is_tag_supported(tag, is_mapping ? YAML_MAP_TAG : YAML_SEQ_TAG))
                return refuse(builder, &event->start_mark, "the tag %s is not supported",
                              quote((const char *) tag, (char[QUOTE_SIZE]){ 0 }));

        return builder_begin(builder,
                             is_mapping ? json_object_new_object() : json_object_new_array(),
                             (const char *) anchor, &event->start_mark);
}

/* The anchor can be referred to from here on, so nothing can ever contain itself. */
static int on_end(Builder *builder, const yaml_event_t *event) {
        Frame *frame = builder_top(builder), *parent;
        cleanup(free_p) char *anchor = take_ptr(frame->anchor);
        Extent extent = {
                .n_values = builder->total.n_values - frame->before.n_values,
                .n_bytes = builder->total.n_bytes - frame->before.n_bytes,
                .n_keys = builder->documents.n_lines - frame->before.n_keys,
                .height = frame->height + 1,
        };

        builder->n_frames--;
        parent = builder_top(builder);
        if (parent && parent->height < extent.height)
                parent->height = extent.height;

        if (!anchor)
                return 0;
        return builder_anchor(builder, anchor, frame->container, extent, &event->start_mark);
}

static int builder_handle(Builder *builder, const yaml_event_t *event) {
        switch (event->type) {
        case YAML_ALIAS_EVENT: return on_alias(builder, event);
        case YAML_SCALAR_EVENT: return on_scalar(builder, event);
        case YAML_MAPPING_START_EVENT:
        case YAML_SEQUENCE_START_EVENT: return on_start(builder, event);
        case YAML_MAPPING_END_EVENT:
        case YAML_SEQUENCE_END_EVENT: return on_end(builder, event);
        case YAML_DOCUMENT_END_EVENT: builder_forget_anchors(builder); return 0;
        case YAML_NO_EVENT:
        case YAML_STREAM_START_EVENT:
        case YAML_STREAM_END_EVENT:
        case YAML_DOCUMENT_START_EVENT: return 0;
        }

        abort();
}

static bool is_tab_at(const char *text, size_t size, size_t n_characters) {
        size_t n = 0;

        for (size_t i = 0; i < size; i++)
                if (((unsigned char) text[i] & 0xc0) != 0x80 && n++ == n_characters)
                        return text[i] == '\t';

        return false;
}

static int refuse_syntax(const yaml_parser_t *parser, const char *text, size_t size,
                         Error *reterr) {
        const char *problem = parser->problem ?: "this is not YAML";

        if (parser->error == YAML_MEMORY_ERROR)
                return -ENOMEM;
        if (parser->error == YAML_READER_ERROR)
                return refuse_at(text, parser->problem_offset, problem, reterr);

        return error_set(reterr, ERROR_INVALID, "line %zu, column %zu: %s%s",
                         parser->problem_mark.line + 1, parser->problem_mark.column + 1, problem,
                         is_tab_at(text, size, parser->problem_mark.index)
                                 ? "; YAML allows no tab here"
                                 : "");
}

static int read_events(Builder *builder, yaml_parser_t *parser, const char *text, size_t size) {
        bool is_end = false;
        int r = 0;

        while (r >= 0 && !is_end) {
                yaml_event_t event;

                if (!yaml_parser_parse(parser, &event))
                        return refuse_syntax(parser, text, size, builder->reterr);

                r = builder_handle(builder, &event);
                is_end = event.type == YAML_STREAM_END_EVENT;
                yaml_event_delete(&event);
        }

        return r;
}

static int read_yaml(const char *text, size_t size, Documents *ret, Error *reterr) {
        cleanup(builder_free_p) Builder *builder = NULL;
        yaml_parser_t parser;
        int r;

        builder = calloc(1, sizeof(*builder));
        if (!builder)
                return -ENOMEM;
        builder->reterr = reterr;

        if (!yaml_parser_initialize(&parser))
                return -ENOMEM;
        yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
        yaml_parser_set_input_string(&parser, (const unsigned char *) text, size);
        r = read_events(builder, &parser, text, size);
        yaml_parser_delete(&parser);
        if (r < 0)
                return r;

        *ret = builder->documents;
        builder->documents = DOCUMENTS_INIT;
        return 0;
}

static int check_directives(const char *text, size_t size, Error *reterr) {
        static const char directive[] = "%TAG";
        const char *at = text;
        size_t n = 0;

        while ((at = memmem(at, size - (size_t) (at - text), directive, strlen(directive)))) {
                if (n++ == TAG_DIRECTIVES_MAX)
                        return refuse_at(text, (size_t) (at - text), "too many %TAG directives",
                                         reterr);
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
        size_t n_valid;
        int r;

        if (size > DOCUMENTS_SIZE_MAX)
                return error_set(reterr, ERROR_INVALID, "is larger than %zu MiB",
                                 DOCUMENTS_SIZE_MAX >> 20);

        n_valid = utf8_valid_size(text, size);
        if (n_valid < size)
                return refuse_at(text, n_valid, "this is not UTF-8", reterr);

        if (size >= 3 && memcmp(text, BYTE_ORDER_MARK, 3) == 0) {
                text += 3;
                size -= 3;
        }

        if (may_be_json(text, size)) {
                r = read_json(text, size, &documents, &understood, reterr);
                if (r < 0)
                        return r;
        }
        if (!understood) {
                r = check_directives(text, size, reterr);
                if (r < 0)
                        return r;
                r = read_yaml(text, size, &documents, reterr);
                if (r < 0)
                        return r;
        }

        *ret = documents;
        documents = DOCUMENTS_INIT;
        return 0;
}
