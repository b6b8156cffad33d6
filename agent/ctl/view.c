/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/ctl/view.h"

#include <ctype.h>
#include <errno.h>
#include <libsmartcols.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include <yaml.h>

#include "agent/base/utf8.h"
#include "agent/ctl/terminal.h"

struct Table {
        const TableColumn *columns;
        size_t n_columns;
        bool is_wide;
        char **cells; /* row by row, of all columns */
        size_t n_cells;
        size_t *widths_before; /* widths of all columns from the first print, if more follow */
};

int table_new(const TableColumn *columns, size_t n_columns, bool is_wide, Table **ret) {
        Table *table = malloc(sizeof(*table));

        if (!table)
                return -ENOMEM;

        *table = (Table){ .columns = columns, .n_columns = n_columns, .is_wide = is_wide };
        *ret = table;
        return 0;
}

static void table_clear(Table *table) {
        for (size_t i = 0; i < table->n_cells; i++)
                free(table->cells[i]);
        table->n_cells = 0;
}

Table *table_free(Table *table) {
        if (!table)
                return NULL;

        table_clear(table);
        free(table->cells);
        free(table->widths_before);
        free(table);
        return NULL;
}

int table_add_row(Table *table, const char *const *cells) {
        char **more = reallocarray(table->cells, table->n_cells + table->n_columns, sizeof(*more));

        if (!more)
                return -ENOMEM;

        table->cells = more;
        for (size_t i = 0; i < table->n_columns; i++) {
                char *cell = terminal_text_escape(cells[i] ?: "");

                if (!cell)
                        return -ENOMEM;
                table->cells[table->n_cells++] = cell;
        }

        return 0;
}

static bool is_blank(const Table *table, size_t column) {
        for (size_t i = column; i < table->n_cells; i += table->n_columns)
                if (strcmp(table->cells[i], "-") != 0)
                        return false;

        return true;
}

static bool has_column(const Table *table, size_t i) {
        const TableColumn *column = &table->columns[i];

        if (table->is_wide)
                return true;

        /* Rows that are printed later may fill the column. */
        return !column->is_wide &&
               !(column->is_optional && !table->widths_before && is_blank(table, i));
}

static size_t width_of(const Table *table, size_t column) {
        size_t widest = strlen(table->columns[column].title);

        if (table->widths_before && table->widths_before[column] > widest)
                widest = table->widths_before[column];
        for (size_t i = column; i < table->n_cells; i += table->n_columns) {
                size_t width = terminal_text_width(table->cells[i]);

                widest = width > widest ? width : widest;
        }

        return widest;
}

static bool can_be_cut(const TableColumn *column, size_t width) {
        return column->may_be_cut && width > (column->width_min ?: TABLE_CUT_WIDTH);
}

void table_fit_widths(size_t *widths, const TableColumn *const *columns, size_t n_columns,
                      size_t line_width) {
        size_t sum = n_columns > 0 ? TABLE_GAP * (n_columns - 1) : 0;

        for (size_t i = 0; i < n_columns; i++)
                sum += widths[i];

        while (sum > line_width) {
                size_t *widest = NULL;

                for (size_t i = 0; i < n_columns; i++)
                        if (can_be_cut(columns[i], widths[i]) && (!widest || widths[i] > *widest))
                                widest = &widths[i];
                if (!widest)
                        return;

                --*widest;
                sum--;
        }
}

/* The columns that are shown. */
typedef struct Shown {
        const TableColumn **columns;
        size_t *indices; /* among all columns */
        size_t *widths;
        size_t n;
} Shown;

static void shown_done(Shown *shown) {
        free(shown->columns);
        free(shown->indices);
        free(shown->widths);
}

static int shown_init(Shown *shown, const Table *table) {
        shown->columns = calloc(table->n_columns, sizeof(shown->columns[0]));
        shown->indices = calloc(table->n_columns, sizeof(shown->indices[0]));
        shown->widths = calloc(table->n_columns, sizeof(shown->widths[0]));
        if (!shown->columns || !shown->indices || !shown->widths)
                return -ENOMEM;

        for (size_t i = 0; i < table->n_columns; i++) {
                if (!has_column(table, i))
                        continue;

                shown->columns[shown->n] = &table->columns[i];
                shown->indices[shown->n] = i;
                shown->widths[shown->n++] = width_of(table, i);
        }

        return 0;
}

static inline void printer_unref_p(struct libscols_table **printer) {
        scols_unref_table(*printer);
}

/* libsmartcols aligns and can cut the end of a cell, but not its beginning, so this cuts. */
static int printer_new(const Shown *shown, struct libscols_table **ret) {
        struct libscols_table *printer = scols_new_table();

        if (!printer)
                return -ENOMEM;

        *ret = printer;
        /* The cells are escaped already. */
        (void) scols_table_enable_noencoding(printer, 1);
        (void) scols_table_enable_noheadings(printer, 1);
        (void) scols_table_set_termforce(printer, SCOLS_TERMFORCE_NEVER);
        (void) scols_table_set_column_separator(printer, "  ");
        for (size_t i = 0; i < shown->n; i++)
                if (!scols_table_new_column(printer, NULL, (double) shown->widths[i],
                                            shown->columns[i]->is_right ? SCOLS_FL_RIGHT : 0))
                        return -ENOMEM;

        return 0;
}

/* NULL: the titles. */
static int add_line(struct libscols_table *printer, const Shown *shown, char *const *cells) {
        struct libscols_line *line = scols_table_new_line(printer, NULL);

        if (!line)
                return -ENOMEM;

        for (size_t i = 0; i < shown->n; i++) {
                const TableColumn *column = shown->columns[i];
                const char *text = cells ? cells[shown->indices[i]] : column->title;
                cleanup(free_p) char *fitting =
                        column->keeps_tail ? terminal_text_fit_start(text, shown->widths[i])
                                           : terminal_text_fit_end(text, shown->widths[i]);

                if (!fitting || scols_line_set_data(line, i, fitting) < 0)
                        return -ENOMEM;
        }

        return 0;
}

/* The titles are a line like the others: libsmartcols prints none where there is no row. */
static int print_lines(const Table *table, const Shown *shown, bool has_heading) {
        cleanup(printer_unref_p) struct libscols_table *printer = NULL;
        int r;

        r = printer_new(shown, &printer);
        if (r >= 0 && has_heading)
                r = add_line(printer, shown, NULL);
        for (size_t i = 0; r >= 0 && i < table->n_cells; i += table->n_columns)
                r = add_line(printer, shown, &table->cells[i]);
        if (r < 0 || scols_table_is_empty(printer))
                return r;

        return scols_print_table(printer);
}

static int print_rows(Table *table, bool has_heading) {
        cleanup(shown_done) Shown shown = { .n = 0 };
        size_t rows, columns;
        int r;

        r = shown_init(&shown, table);
        if (r < 0)
                return r;

        for (size_t i = 0; table->widths_before && i < shown.n; i++)
                table->widths_before[shown.indices[i]] = shown.widths[i];
        if (isatty(STDOUT_FILENO) && !table->is_wide) {
                terminal_get_size(STDOUT_FILENO, &rows, &columns);
                table_fit_widths(shown.widths, shown.columns, shown.n, columns);
        }

        return print_lines(table, &shown, has_heading);
}

int table_print(Table *table) {
        return print_rows(table, true);
}

int table_print_more(Table *table) {
        bool is_first = !table->widths_before;
        int r;

        if (is_first)
                table->widths_before = calloc(table->n_columns, sizeof(table->widths_before[0]));
        if (!table->widths_before)
                return -ENOMEM;

        r = print_rows(table, is_first);
        table_clear(table);
        return r;
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

int output_end(int r) {
        if (r < 0) {
                complain("%s", strerror(-r));
                r = EXIT_STATUS_FAILED;
        }

        if (fflush(stdout) != 0 || ferror(stdout)) {
                complain("cannot write the output: %s", strerror(errno));
                return EXIT_STATUS_FAILED;
        }

        return r;
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

bool output_add_on_demand(json_object *object, const Inplaced__V1__OnDemand *on_demand) {
        json_object *member;

        if (!on_demand || on_demand->layers == 0)
                return true;

        member = json_object_new_object();
        return output_add(object, "onDemand", member) &&
               output_add_number(member, "layers", on_demand->layers) &&
               (!on_demand->counted ||
                (output_add_number(member, "bytesPresent", on_demand->bytes_present) &&
                 output_add_number(member, "bytesTotal", on_demand->bytes_total)));
}
