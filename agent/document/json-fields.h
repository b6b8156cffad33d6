/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Fields of JSON objects
 *
 * A table says which members an object has and where their values go in a struct:
 *
 *     static const JsonField tag_fields[] = {
 *             { "tag", JSON_STRING, .offset = offsetof(Tag, name), .is_required = true },
 *             { "version", JSON_INTEGER, .offset = offsetof(Tag, version) },
 *             { .key = NULL },
 *     };
 *
 * Members are read in the order of the table; the first that is wrong refuses the object, with its path, as in
 * json-reader.h. A member that is null, or an empty text, counts as missing: the struct keeps what it
 * has. Members that are not in the table are ignored, unless the table ends with { .kind = JSON_NO_OTHERS }.
 */

#include "agent/document/json-reader.h"

typedef enum JsonKind {
        JSON_ANY,       /* value of any type, for a hook alone, or just a known key */
        JSON_WORD,      /* text for a hook alone, up to JSON_STRING_SIZE_MAX */
        JSON_STRING,    /* char *, up to JSON_STRING_SIZE_MAX */
        JSON_TEXT,      /* char *, of any length */
        JSON_TEXTS,     /* char **, ended by NULL; texts of any length, which may be empty */
        JSON_BOOLEAN,   /* bool */
        JSON_INTEGER,   /* int64_t */
        JSON_TIME,      /* int64_t, in seconds since 1970; as Kubernetes writes it (RFC 3339) */
        JSON_OBJECT,    /* struct with fields; without the member, it is read as if it were empty */
        JSON_LIST,      /* array of such structs */
        JSON_NO_OTHERS, /* end of a table that has all members which an object may have */
} JsonKind;

/* Hooks get a value of the right type, or NULL if it is missing, and store it in *ret, the place in the
 * struct; what they store of a kind that is owned belongs to the struct. */
typedef int (*JsonTextHook)(const char *text, const JsonPath *path, void *ret, const void *context,
                            Error *reterr);
typedef int (*JsonValueHook)(struct json_object *value, const JsonPath *path, void *ret,
                             const void *context, Error *reterr);

typedef struct JsonField {
        const char *key; /* NULL: the end of the table */
        JsonKind kind;
        size_t offset;     /* place in the struct, where an array or text has its pointer */
        bool is_required;  /* a missing or empty one is refused: "spec: has no podName" */
        const char *empty; /* the same in other words: "spec.podName: is missing" */
        bool is_secret;    /* errors repeat no value */
        int64_t min, max;  /* unless max is 0: a smaller integer counts as missing, a larger one is
                            * max; a list has at most max items */
        JsonTextHook on_text;
        JsonValueHook on_value; /* for a list, it reads an item, of any type */

        const struct JsonField *fields; /* fields of the object, or of each item */
        size_t item_size;
        size_t n_offset; /* place of the number of items, a size_t; 0: texts are not counted */

        bool is_any_case; /* the spelling of the key; for known_keys_check() alone */
} JsonField;

/* Reads the members of an object, or none of anything else, into a struct that has no arrays yet. After a failure, it has
 * what was read before, for json_fields_done(). context: passed to the hooks. */
int json_fields_read(const JsonField *fields, struct json_object *object, const JsonPath *path,
                     void *ret, const void *context, Error *reterr);

/* Wipes and frees texts and arrays, and sets their pointers to NULL. */
void json_fields_done(const JsonField *fields, void *record);
