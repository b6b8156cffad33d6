/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/ctl/view.h"

#include <ctype.h>
#include <errno.h>
#include <libsmartcols.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

#include "agent/base/utf8.h"
#include "agent/ctl/terminal.h"

struct Table {
        struct libscols_table *scols;
        const TableColumn *columns;
        size_t n_columns;
        bool is_wide;
};

static bool has_column(const Table *table, size_t i) {
        return table->is_wide || !table->columns[i].is_wide;
}

static int add_column(Table *table, const TableColumn *column) {
        int flags = 0;

        if (column->is_right)
                flags |= SCOLS_FL_RIGHT;
        if (column->may_be_cut && !table->is_wide)
                flags |= SCOLS_FL_TRUNC;

        return scols_table_new_column(table->scols, column->title, 0, flags) ? 0 : -ENOMEM;
}

int table_new(const TableColumn *columns, size_t n_columns, bool is_wide, Table **ret) {
        cleanup(table_free_p) Table *table = NULL;

        table = malloc(sizeof(*table));
        if (!table)
                return -ENOMEM;

        *table = (Table){
                .scols = scols_new_table(),
                .columns = columns,
                .n_columns = n_columns,
                .is_wide = is_wide,
        };
        if (!table->scols)
                return -ENOMEM;

        /* The cells are escaped already; twice would be once too often. */
        (void) scols_table_enable_noencoding(table->scols, 1);
        (void) scols_table_set_column_separator(table->scols, "  ");

        for (size_t i = 0; i < n_columns; i++)
                if (has_column(table, i) && add_column(table, &columns[i]) < 0)
                        return -ENOMEM;

        *ret = take_ptr(table);
        return 0;
}

Table *table_free(Table *table) {
        if (!table)
                return NULL;

        scols_unref_table(table->scols);
        free(table);
        return NULL;
}

int table_add_row(Table *table, const char *const *cells) {
        struct libscols_line *line;
        size_t at = 0;

        line = scols_table_new_line(table->scols, NULL);
        if (!line)
                return -ENOMEM;

        for (size_t i = 0; i < table->n_columns; i++) {
                cleanup(free_p) char *cell = NULL;

                if (!has_column(table, i))
                        continue;

                cell = terminal_text_escape(cells[i] ?: "");
                if (!cell || scols_line_set_data(line, at++, cell) != 0)
                        return -ENOMEM;
        }

        return 0;
}

int table_print(Table *table) {
        if (scols_table_is_empty(table->scols))
                return 0;

        return scols_print_table(table->scols);
}

/* The widths that the first lines have had, at least. */
static int keep_widths(Table *table) {
        size_t n = scols_table_get_ncols(table->scols);

        for (size_t i = 0; i < n; i++) {
                struct libscols_column *column = scols_table_get_column(table->scols, i);

                if (scols_column_set_whint(column, (double) scols_column_get_width(column)) < 0)
                        return -ENOMEM;
        }

        return 0;
}

int table_print_more(Table *table) {
        int r;

        if (scols_table_is_empty(table->scols))
                return 0;

        r = table_print(table);
        if (r < 0)
                return r;

        r = keep_widths(table);
        if (r < 0)
                return r;

        (void) scols_table_enable_noheadings(table->scols, 1);
        scols_table_remove_lines(table->scols);
        return 0;
}

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

int output_tree(OutputFormat format, json_object *tree) {
        cleanup(free_p) char *text = NULL;

        text = format == OUTPUT_YAML ? yaml_from_json(tree) : output_json(tree);
        if (!text)
                return -ENOMEM;

        (void) fputs(text, stdout); /* main() checks stdout in the end */
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

int problems_print(Inplaced__V1__Problem *const *problems, size_t n_problems) {
        for (size_t i = 0; i < n_problems; i++) {
                int r;

                r = print_safe("problem: %s: %s%s%s", problems[i]->subject, problems[i]->message,
                               problems[i]->advice[0] ? "; " : "", problems[i]->advice);
                if (r < 0)
                        return r;
        }

        return 0;
}

static json_object *problem_json(const Inplaced__V1__Problem *problem) {
        cleanup(json_put_p) json_object *object = json_object_new_object();

        if (!object || !output_add_string(object, "subject", problem->subject) ||
            !output_add_string(object, "message", problem->message) ||
            !output_add_string(object, "advice", problem->advice))
                return NULL;

        return take_ptr(object);
}

json_object *problems_json(Inplaced__V1__Problem *const *problems, size_t n_problems) {
        cleanup(json_put_p) json_object *array = json_object_new_array();

        for (size_t i = 0; array && i < n_problems; i++)
                if (!output_append(array, problem_json(problems[i])))
                        return NULL;

        return take_ptr(array);
}
