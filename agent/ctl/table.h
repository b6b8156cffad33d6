/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A table on stdout
 *
 * Aligned columns with a heading. On a terminal a column that may be cut gives way when the line is
 * too long; elsewhere nothing is cut. Cells are made safe for a terminal here.
 */

#include <stdbool.h>
#include <stddef.h>

#include "agent/base/cleanup.h"

typedef struct Table Table;

typedef struct TableColumn {
        const char *title;
        bool is_right; /* aligned to the right */
        bool may_be_cut;
        bool is_wide; /* only there with -o wide */
} TableColumn;

int table_new(const TableColumn *columns, size_t n_columns, bool is_wide, Table **ret);
Table *table_free(Table *table);

/* One cell for each column, also for those that are left out. NULL is an empty cell. Copied. */
int table_add_row(Table *table, const char *const *cells);

/* Does nothing if there is no row. */
int table_print(Table *table);

/* Texts joined with commas; "" if there are none. NULL if there is no memory. */
char *text_join(char *const *texts, size_t n);

DEFINE_CLEANUP(Table *, table_free)
