/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/view/table.h"

#include <errno.h>
#include <libsmartcols.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/view/terminal.h"

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

int table_set_cell(Table *table, size_t row, size_t column, const char *text) {
        char *cell = terminal_text_escape(text);

        if (!cell)
                return -ENOMEM;

        free(table->cells[row * table->n_columns + column]);
        table->cells[row * table->n_columns + column] = cell;
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

DEFINE_CLEANUP(struct libscols_table *, scols_unref_table)

/* libsmartcols aligns and can cut the end of a cell, but not its beginning, so this cuts. */
static int printer_new(const Shown *shown, FILE *file, struct libscols_table **ret) {
        struct libscols_table *printer = scols_new_table();

        if (!printer)
                return -ENOMEM;

        *ret = printer;
        /* The cells are escaped already. */
        (void) scols_table_set_stream(printer, file);
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
static int print_lines(const Table *table, const Shown *shown, bool has_heading, FILE *file) {
        cleanup(scols_unref_table_p) struct libscols_table *printer = NULL;
        int r;

        r = printer_new(shown, file, &printer);
        if (r >= 0 && has_heading)
                r = add_line(printer, shown, NULL);
        for (size_t i = 0; r >= 0 && i < table->n_cells; i += table->n_columns)
                r = add_line(printer, shown, &table->cells[i]);
        if (r < 0 || scols_table_is_empty(printer))
                return r;

        return scols_print_table(printer);
}

static int print_rows(Table *table, bool has_heading, FILE *file) {
        cleanup(shown_done) Shown shown = { .n = 0 };
        size_t rows, columns;
        int r;

        r = shown_init(&shown, table);
        if (r < 0)
                return r;

        for (size_t i = 0; table->widths_before && i < shown.n; i++)
                table->widths_before[shown.indices[i]] = shown.widths[i];
        if (isatty(STDOUT_FILENO) && !table->is_wide) {
                terminal_get_size(&rows, &columns);
                table_fit_widths(shown.widths, shown.columns, shown.n, columns);
        }

        return print_lines(table, &shown, has_heading, file);
}

int table_print(Table *table) {
        return print_rows(table, true, stdout);
}

int table_print_to(Table *table, FILE *file) {
        return print_rows(table, true, file);
}

int table_print_more(Table *table) {
        bool is_first = !table->widths_before;
        int r;

        if (is_first)
                table->widths_before = calloc(table->n_columns, sizeof(table->widths_before[0]));
        if (!table->widths_before)
                return -ENOMEM;

        r = print_rows(table, is_first, stdout);
        table_clear(table);
        return r;
}

int table_print_items(const TableColumn *columns, size_t n_columns, bool is_wide,
                      const void *const *items, size_t n_items,
                      int (*add_row)(Table *table, const void *item, bool is_wide)) {

        cleanup(table_free_p) Table *table = NULL;
        int r;

        r = table_new(columns, n_columns, is_wide, &table);
        for (size_t i = 0; r >= 0 && i < n_items; i++)
                r = add_row(table, items[i], is_wide);
        return r < 0 ? r : table_print(table);
}
