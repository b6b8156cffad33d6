/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/ctl/table.h"

#include <errno.h>
#include <libsmartcols.h>
#include <string.h>

#include "agent/ctl/terminal-text.h"

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

char *text_join(char *const *texts, size_t n) {
        size_t size = 1;
        char *joined, *end;

        for (size_t i = 0; i < n; i++)
                size += strlen(texts[i]) + 1;

        joined = end = malloc(size);
        if (!joined)
                return NULL;

        *end = '\0';
        for (size_t i = 0; i < n; i++) {
                if (i > 0)
                        end = stpcpy(end, ",");
                end = stpcpy(end, texts[i]);
        }

        return joined;
}
