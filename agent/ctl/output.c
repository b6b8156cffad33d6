/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/ctl/output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/ctl/terminal-text.h"
#include "agent/base/utf8.h"
#include "agent/ctl/yaml.h"

/* json-c escapes what JSON demands, which is less than what a terminal obeys. Such characters can
 * only stand inside strings, where an escape means the same. */
static void write_escaped(FILE *file, const char *text) {
        while (*text) {
                uint32_t c;
                size_t n = utf8_decode(text, &c);

                if (n == 0)
                        fputs(UTF8_REPLACEMENT, file);
                else if (c < 0x7F || terminal_shows(c))
                        fwrite(text, 1, n, file);
                else if (c < 0x10000)
                        fprintf(file, "\\u%04x", (unsigned) c);
                else
                        fprintf(file, "\\u%04x\\u%04x", 0xD7C0 + (unsigned) (c >> 10),
                                0xDC00 + (unsigned) (c & 0x3FF));
                text += n ?: 1;
        }
}

char *output_json(json_object *tree) {
        cleanup(free_p) char *copy = NULL;
        const char *text;
        size_t size;
        FILE *file;

        text = json_object_to_json_string_ext(tree, JSON_C_TO_STRING_PRETTY |
                                                            JSON_C_TO_STRING_SPACED |
                                                            JSON_C_TO_STRING_NOSLASHESCAPE);
        file = text ? open_memstream(&copy, &size) : NULL;
        if (!file)
                return NULL;

        write_escaped(file, text);
        fputc('\n', file);
        return fclose(file) == 0 ? take_ptr(copy) : NULL;
}

int output_tree(OutputFormat format, json_object *tree) {
        cleanup(free_p) char *text = NULL;

        text = format == OUTPUT_YAML ? yaml_from_json(tree) : output_json(tree);
        if (!text)
                return -ENOMEM;

        (void) fputs(text, stdout); /* main() looks at the state of stdout in the end */
        return 0;
}

int output_parse(const char *text, json_object **ret, Error *reterr) {
        cleanup(free_p) char *repaired = NULL;
        enum json_tokener_error e;
        json_object *tree;

        repaired = utf8_repair(text);
        if (!repaired)
                return -ENOMEM;

        tree = json_tokener_parse_verbose(repaired, &e);
        if (!tree || !json_object_is_type(tree, json_type_object)) {
                json_object_put(tree);
                return error_set(reterr, ERROR_INTERNAL, "the agent sent no JSON object: %s",
                                 json_tokener_error_desc(e));
        }

        *ret = tree;
        return 0;
}

bool output_append(json_object *array, json_object *value) {
        if (value && json_object_array_add(array, value) == 0)
                return true;

        json_object_put(value);
        return false;
}

bool output_add(json_object *object, const char *key, json_object *value) {
        if (value && json_object_object_add(object, key, value) == 0)
                return true;

        json_object_put(value);
        return false;
}

static json_object *string_new(const char *value) {
        cleanup(free_p) char *repaired = utf8_repair(value);

        return repaired ? json_object_new_string(repaired) : NULL;
}

bool output_add_string(json_object *object, const char *key, const char *value) {
        return output_add(object, key, string_new(value));
}

bool output_add_number(json_object *object, const char *key, uint64_t value) {
        return output_add(object, key, json_object_new_uint64(value));
}

bool output_add_bool(json_object *object, const char *key, bool value) {
        return output_add(object, key, json_object_new_boolean(value));
}

bool output_add_strings(json_object *object, const char *key, char *const *values, size_t n) {
        json_object *array = json_object_new_array();

        for (size_t i = 0; array && i < n; i++)
                if (!output_append(array, string_new(values[i]))) {
                        json_object_put(array);
                        return false;
                }

        return output_add(object, key, array);
}
