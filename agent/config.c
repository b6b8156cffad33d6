/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/config.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/file.h"
#include "agent/base/text.h"
#include "agent/document/documents.h"

#define CONFIG_SIZE_MAX (1 << 20)

typedef struct Reader {
        const char *path;
        const ConfigKeys *keys;
        ConfigValue on_value;
        void *userdata;
        const DiagnosisVisitor *visitor;
} Reader;

/* line 0: the text names the line, or there is none. */
static int report(const Reader *reader, unsigned line, const char *message) {
        cleanup(free_p) char *text = NULL;

        if (line > 0 && text_format(&text, "line %u: %s", line, message) < 0)
                return -ENOMEM;

        return reader->visitor->on_problem(reader->path, text ?: message, /* advice= */ "",
                                           reader->visitor->userdata);
}

static int give_value(const char *key, json_object *value, const Reader *reader, Error *reterr) {
        if (json_object_is_type(value, json_type_object) ||
            json_object_is_type(value, json_type_array) ||
            json_object_is_type(value, json_type_null))
                return error_set(reterr, ERROR_INVALID, "%s: expected a text or a number", key);
        if (reader->keys->takes_text(key) && !json_object_is_type(value, json_type_string))
                return error_set(reterr, ERROR_INVALID, "%s: expected a text: write it in quotes",
                                 key);

        return reader->on_value(key, json_object_get_string(value), reader->userdata, reterr);
}

static int give_member(const char *key, json_object *value, const Reader *reader, Error *reterr) {
        int r = 0;

        if (!json_object_is_type(value, json_type_array))
                return give_value(key, value, reader, reterr);
        if (!reader->keys->takes_list(key))
                return error_set(reterr, ERROR_INVALID, "%s: expected one value, got a list", key);

        for (size_t i = 0; r >= 0 && i < json_object_array_length(value); i++)
                r = give_value(key, json_object_array_get_idx(value, i), reader, reterr);
        return r;
}

static int give_members(json_object *mapping, const unsigned *line, const Reader *reader) {
        json_object_object_foreach(mapping, key, value) {
                cleanup(error_done) Error error = ERROR_INIT;
                int r;

                r = give_member(key, value, reader, &error);
                if (error.kind != ERROR_NONE)
                        r = report(reader, *line, error_message(&error));
                if (r < 0)
                        return r;

                line += 1 + documents_count_keys(value);
        }

        return 0;
}

static int give_all(const char *text, size_t size, const Reader *reader, Error *reterr) {
        cleanup(documents_done) Documents documents = DOCUMENTS_INIT;
        int r;

        r = documents_parse(text, size, &documents, reterr);
        if (r < 0)
                return r;
        if (documents.n_items == 0)
                return 0;
        if (documents.n_items > 1 || !json_object_is_type(documents.items[0], json_type_object))
                return error_set(reterr, ERROR_INVALID, "expected one mapping of keys to values");

        return give_members(documents.items[0], documents.lines, reader);
}

static int read_text(int fd, char **ret, size_t *ret_size, Error *reterr) {
        cleanup(free_p) char *text = malloc(CONFIG_SIZE_MAX + 1);
        ssize_t size;

        if (!text)
                return -ENOMEM;

        size = file_read(fd, text, CONFIG_SIZE_MAX + 1);
        if (size < 0)
                return error_set(reterr, ERROR_INVALID, "%s", strerror((int) -size));
        if (size > CONFIG_SIZE_MAX)
                return error_set(reterr, ERROR_INVALID, "larger than 1 MiB");

        *ret = take_ptr(text);
        *ret_size = (size_t) size;
        return 0;
}

static int open_config(const char *path, int *ret, Error *reterr) {
        struct stat status;
        int r;

        r = file_open(path, &status, ret);
        if (r < 0)
                return error_set(reterr, r == -ENOENT ? ERROR_NOT_FOUND : ERROR_INVALID, "%s",
                                 r == -EINVAL ? "not a file" : strerror(-r));

        return 0;
}

int config_read(const char *path, const ConfigKeys *keys, ConfigValue on_value, void *userdata,
                const DiagnosisVisitor *visitor) {
        const Reader reader = { path ?: CONFIG_PATH, keys, on_value, userdata, visitor };
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(free_p) char *text = NULL;
        cleanup(close_p) int fd = -1;
        size_t size = 0;
        int r;

        r = open_config(reader.path, &fd, &error);
        if (error.kind == ERROR_NOT_FOUND && !path)
                return 0;
        if (r >= 0)
                r = read_text(fd, &text, &size, &error);
        if (r >= 0)
                r = give_all(text, size, &reader, &error);

        return error.kind == ERROR_NONE ? r : report(&reader, 0, error_message(&error));
}
