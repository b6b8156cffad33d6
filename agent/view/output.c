/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/view/output.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

#include "agent/base/text.h"
#include "agent/base/utf8.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"
#include "agent/view/terminal.h"

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

        text = json_to_text_with(tree, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
                                               JSON_C_TO_STRING_NOSLASHESCAPE);
        file = text ? text_open(&copy, &size) : NULL;
        if (!file)
                return NULL;

        write_escaped(file, text);
        fputc('\n', file);
        return text_close(file, &copy) == 0 ? take_ptr(copy) : NULL;
}

static bool emit_value(yaml_emitter_t *emitter, json_object *value);

/* Only a text that begins like a word can be plain, unless some version of YAML gives that word
 * another meaning. The emitter itself detects forbidden syntax, such as ": ". */
static bool is_plain(const char *text) {
        static const char *const words[] = { "y",   "n",    "yes",   "no",  "on",
                                             "off", "true", "false", "null" };

        if (!isalpha((unsigned char) text[0]) && text[0] != '/')
                return false;

        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
                if (strcasecmp(text, words[i]) == 0)
                        return false;

        return true;
}

static bool emit_scalar(yaml_emitter_t *emitter, const char *text, yaml_scalar_style_t style) {
        yaml_event_t event;

        return text &&
               yaml_scalar_event_initialize(&event, NULL, NULL, (yaml_char_t *) text,
                                            (int) strlen(text), 1, 1, style) &&
               yaml_emitter_emit(emitter, &event);
}

/* The emitter fails at bytes that are not UTF-8. */
static bool emit_string(yaml_emitter_t *emitter, const char *text) {
        cleanup(free_p) char *repaired = utf8_repair(text);

        return repaired && emit_scalar(emitter, repaired,
                                       is_plain(repaired) ? YAML_PLAIN_SCALAR_STYLE
                                                          : YAML_DOUBLE_QUOTED_SCALAR_STYLE);
}

static bool emit_array(yaml_emitter_t *emitter, json_object *array) {
        size_t n = json_object_array_length(array);
        yaml_event_t event;

        if (!yaml_sequence_start_event_initialize(&event, NULL, NULL, 1,
                                                  n > 0 ? YAML_BLOCK_SEQUENCE_STYLE
                                                        : YAML_FLOW_SEQUENCE_STYLE) ||
            !yaml_emitter_emit(emitter, &event))
                return false;

        for (size_t i = 0; i < n; i++)
                if (!emit_value(emitter, json_object_array_get_idx(array, i)))
                        return false;

        return yaml_sequence_end_event_initialize(&event) && yaml_emitter_emit(emitter, &event);
}

static bool emit_object(yaml_emitter_t *emitter, json_object *object) {
        yaml_event_t event;

        if (!yaml_mapping_start_event_initialize(&event, NULL, NULL, 1,
                                                 json_object_object_length(object) > 0
                                                         ? YAML_BLOCK_MAPPING_STYLE
                                                         : YAML_FLOW_MAPPING_STYLE) ||
            !yaml_emitter_emit(emitter, &event))
                return false;

        json_object_object_foreach(object, key,
                                   value) if (!emit_string(emitter, key) ||
                                              !emit_value(emitter, value)) return false;

        return yaml_mapping_end_event_initialize(&event) && yaml_emitter_emit(emitter, &event);
}

/* The recursion ends at json-c's limit of 32 levels. */
static bool emit_value(yaml_emitter_t *emitter, json_object *value) {
        switch (json_object_get_type(value)) {
        case json_type_object: return emit_object(emitter, value);
        case json_type_array: return emit_array(emitter, value);
        case json_type_string: return emit_string(emitter, json_object_get_string(value));
        case json_type_null: return emit_scalar(emitter, "null", YAML_PLAIN_SCALAR_STYLE);
        case json_type_boolean:
        case json_type_double:
        case json_type_int:
                return emit_scalar(emitter, json_to_text(value), YAML_PLAIN_SCALAR_STYLE);
        }

        return false;
}

static bool emit_document(yaml_emitter_t *emitter, json_object *tree) {
        yaml_event_t event;

        return yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING) &&
               yaml_emitter_emit(emitter, &event) &&
               yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1) &&
               yaml_emitter_emit(emitter, &event) && emit_value(emitter, tree) &&
               yaml_document_end_event_initialize(&event, 1) &&
               yaml_emitter_emit(emitter, &event) && yaml_stream_end_event_initialize(&event) &&
               yaml_emitter_emit(emitter, &event);
}

static int write_to_file(void *file, unsigned char *bytes, size_t size) {
        return fwrite(bytes, 1, size, file) == size;
}

char *yaml_from_json(json_object *tree) {
        cleanup(free_p) char *text = NULL;
        yaml_emitter_t emitter;
        bool is_complete;
        size_t size;
        FILE *file;

        file = text_open(&text, &size);
        if (!file)
                return NULL;

        is_complete = yaml_emitter_initialize(&emitter);
        if (is_complete) {
                yaml_emitter_set_output(&emitter, write_to_file, file);
                yaml_emitter_set_width(&emitter, -1); /* never breaks a line */
                is_complete = emit_document(&emitter, tree);
                yaml_emitter_delete(&emitter);
        }

        if (text_close(file, &text) < 0 || !is_complete)
                return NULL;
        return take_ptr(text);
}

int output_tree(OutputFormat format, json_object *tree) {
        cleanup(free_p) char *text = NULL;

        text = format == OUTPUT_YAML ? yaml_from_json(tree) : output_json(tree);
        if (!text)
                return -ENOMEM;

        (void) fputs(text, stdout); /* main() checks stdout in the end */
        return 0;
}

int output_end(int r) {
        if (r < 0) {
                complain("%s", strerror(-r));
                r = EXIT_STATUS_FAILED;
        }

        if (fflush(stdout) != 0) {
                complain("cannot write the output: %s", strerror(errno));
                return EXIT_STATUS_FAILED;
        }
        if (ferror(stdout)) { /* the errno of an earlier write is lost */
                complain("cannot write the output");
                return EXIT_STATUS_FAILED;
        }

        return r;
}

int output_parse(const char *text, json_object **ret, Error *reterr) {
        cleanup(json_object_put_p) json_object *tree = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(free_p) char *repaired = NULL;
        int r;

        repaired = utf8_repair(text);
        if (!repaired)
                return -ENOMEM;

        r = json_parse(repaired, strlen(repaired), &tree, &error);
        if (r < 0 && error.kind == ERROR_NONE)
                return r;
        if (!json_object_is_type(tree, json_type_object))
                return error_set(reterr, ERROR_INTERNAL, "the agent sent no JSON object%s%s",
                                 r < 0 ? ": " : "", r < 0 ? error_message(&error) : "");

        *ret = take_ptr(tree);
        return 0;
}
