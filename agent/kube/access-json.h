/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Documents with secrets in them, and texts that give access, such as tokens and keys
 *
 * Like agent/document/json-reader.h, but errors repeat no value, since a secret may stand where something
 * else belongs. Neither documents nor texts stay in memory that is given back.
 */

#include <json-c/json_types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "agent/document/documents.h"
#include "agent/document/json-reader.h"

/* Parses the only document of the text, an object; free it with documents_wipe(). */
int access_json_parse(const char *text, size_t size, Documents *ret, Error *reterr);

/* Borrowed; *ret is NULL if there is none. */
int access_json_read_object(struct json_object *object, const JsonPath *path, const char *key,
                            struct json_object **ret, Error *reterr);
int access_json_read_list(struct json_object *object, const JsonPath *path, const char *key,
                          struct json_object **ret, Error *reterr);

/* Checks an item of a list, whose path is given. */
int access_json_check_object(struct json_object *item, const JsonPath *path, Error *reterr);

/* Copied, owned by the caller; *ret stays as it was if there is none, or an empty one. */
int access_json_read_text(struct json_object *object, const JsonPath *path, const char *key,
                          char **ret, Error *reterr);

/* Copies an item of a list, whose path is given; it may be empty. */
int access_json_copy_text(struct json_object *item, const JsonPath *path, char **ret,
                          Error *reterr);

int access_json_read_bool(struct json_object *object, const JsonPath *path, const char *key,
                          bool *ret, Error *reterr);

/* Wipes the text, frees it and sets it to NULL. For cleanup(), too. */
static inline void access_text_done(char **text) {
        if (*text)
                explicit_bzero(*text, strlen(*text));
        free(*text);
        *text = NULL;
}

/* Whether the text can stand in a line of HTTP. */
static inline bool access_text_is_line(const char *text) {
        for (; *text; text++)
                if ((unsigned char) *text < ' ' || *text == 0x7f)
                        return false;

        return true;
}

static inline bool access_text_is_pem(const char *text) {
        return strstr(text, "-----BEGIN ") != NULL;
}
