/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Tables on stdout
 *
 * People get aligned columns with a heading, even without rows. On a terminal, columns that allow it are
 * cut if a line is too long; elsewhere, and with -o wide, nothing is cut. The table makes its cells safe
 * for a terminal.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "agent/base/cleanup.h"

typedef struct Table Table;

typedef struct TableColumn {
        const char *title;
        bool is_right; /* aligned to the right */
        bool may_be_cut;
        size_t width_min; /* minimum width when cut; 0: TABLE_CUT_WIDTH */
        bool keeps_tail;  /* cuts the beginning: the end of a reference matters most */
        bool is_wide;     /* shown only with -o wide */
        bool is_optional; /* without -o wide shown only if some cell is not "-" */
} TableColumn;

int table_new(const TableColumn *columns, size_t n_columns, bool is_wide, Table **ret);
Table *table_free(Table *table);

/* Takes one cell for each column, also for hidden ones. NULL is an empty cell. Copied. */
int table_add_row(Table *table, const char *const *cells);

/* Replaces a cell of a row that was added and not printed yet; both count from 0. Copied. */
int table_set_cell(Table *table, size_t row, size_t column, const char *text);

int table_print(Table *table);

/* Prints it to a stream whose text will be on stdout. */
int table_print_to(Table *table, FILE *file);

/* Prints and empties the table: the next rows have the same columns, without the titles. */
int table_print_more(Table *table);

/* Prints a table with a row for each item. add_row takes the item and calls table_add_row(). */
int table_print_items(const TableColumn *columns, size_t n_columns, bool is_wide,
                      const void *const *items, size_t n_items,
                      int (*add_row)(Table *table, const void *item, bool is_wide));

#define TABLE_GAP 2 /* between two columns */
#define TABLE_CUT_WIDTH 8

/* Narrows the columns that may be cut, the widest first, until a line fits the terminal's width, or
 * none may be cut any further. */
void table_fit_widths(size_t *widths, const TableColumn *const *columns, size_t n_columns,
                      size_t line_width);

DEFINE_CLEANUP(Table *, table_free)
