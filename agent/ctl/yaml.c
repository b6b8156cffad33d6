/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/ctl/yaml.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

#include "agent/base/cleanup.h"

static bool emit_value(yaml_emitter_t *emitter, json_object *value);

/* Only what begins like a word can be plain, and is none of the words that mean something else to
 * some version of YAML. What its syntax forbids, such as ": ", the emitter finds by itself. */
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

        return yaml_scalar_event_initialize(&event, NULL, NULL, (yaml_char_t *) text,
                                            (int) strlen(text), 1, 1, style) &&
               yaml_emitter_emit(emitter, &event);
}

static bool emit_string(yaml_emitter_t *emitter, const char *text) {
        return emit_scalar(emitter, text,
                           is_plain(text) ? YAML_PLAIN_SCALAR_STYLE
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

/* As deep as json-c reads, which is 32 levels. */
static bool emit_value(yaml_emitter_t *emitter, json_object *value) {
        switch (json_object_get_type(value)) {
        case json_type_object: return emit_object(emitter, value);
        case json_type_array: return emit_array(emitter, value);
        case json_type_string: return emit_string(emitter, json_object_get_string(value));
        case json_type_null: return emit_scalar(emitter, "null", YAML_PLAIN_SCALAR_STYLE);
        case json_type_boolean:
        case json_type_double:
        case json_type_int:
                return emit_scalar(emitter, json_object_to_json_string(value),
                                   YAML_PLAIN_SCALAR_STYLE);
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

        file = open_memstream(&text, &size);
        if (!file)
                return NULL;

        is_complete = yaml_emitter_initialize(&emitter);
        if (is_complete) {
                yaml_emitter_set_output(&emitter, write_to_file, file);
                yaml_emitter_set_width(&emitter, -1); /* never breaks a line */
                is_complete = emit_document(&emitter, tree);
                yaml_emitter_delete(&emitter);
        }

        if (fclose(file) != 0 || !is_complete)
                return NULL;
        return take_ptr(text);
}
