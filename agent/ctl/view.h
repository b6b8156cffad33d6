/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The output of commands on stdout
 *
 * People get a table: aligned columns with a heading, even without rows. On a terminal, columns that
 * allow it are cut if a line is too long; elsewhere, and with -o wide, nothing is cut. The table makes
 * its cells safe for a terminal.
 *
 * -o json and -o yaml print the same tree. Its texts come from outside: the output replaces bytes that are
 * not UTF-8, and escapes control characters of terminals as the format allows.
 */

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/cleanup.h"
#include "agent/base/error.h"
#include "agent/ctl/options.h"
#include "proto/inplaced/v1/node.pb-c.h"

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

int table_print(Table *table);

/* Prints and empties the table: the next rows have the same columns, without the titles. */
int table_print_more(Table *table);

#define TABLE_GAP 2 /* between two columns */
#define TABLE_CUT_WIDTH 8

/* Narrows the columns that may be cut, the widest first, until a line fits the terminal's width, or
 * none may be cut any further. */
void table_fit_widths(size_t *widths, const TableColumn *const *columns, size_t n_columns,
                      size_t line_width);

DEFINE_CLEANUP(Table *, table_free)

static inline void json_put_p(json_object **tree) {
        json_object_put(*tree);
}

/* Prints it to stdout as JSON or as YAML; any other format counts as JSON. */
int output_tree(OutputFormat format, json_object *tree);

/* Formats the tree as JSON text with a line feed at its end. NULL if there is no memory. */
char *output_json(json_object *tree);

/* Formats the tree as one YAML document, in block style, pure ASCII. Parsers read the same tree:
 * a string that looks like a number, a truth value or nothing is quoted. NULL if there is no
 * memory. */
char *yaml_from_json(json_object *tree);

/* Returns the program's exit status for a command's result: an ExitStatus, or a negative errno,
 * which it prints. It also prints that the output could not be written, which is a failure. */
int output_end(int r);

/* Reads a document that the agent sent. */
int output_parse(const char *text, json_object **ret, Error *reterr);

/* Append to an array, or add a member to an object; false if there is no memory. */
bool output_append(json_object *array, json_object *value);                /* taken over */
bool output_add(json_object *object, const char *key, json_object *value); /* taken over */
bool output_add_string(json_object *object, const char *key, const char *value);
bool output_add_number(json_object *object, const char *key, uint64_t value);
bool output_add_bool(json_object *object, const char *key, bool value);
bool output_add_strings(json_object *object, const char *key, char *const *values, size_t n);

/* Adds the member "onDemand", unless it is NULL or without layers. */
bool output_add_on_demand(json_object *object, const Inplaced__V1__OnDemand *on_demand);

/* Prints "problem: SUBJECT: MESSAGE; ADVICE" for each, to stdout. */
int problems_print(Inplaced__V1__Problem *const *problems, size_t n_problems);

/* Makes an array of the problems. NULL if there is no memory. */
json_object *problems_json(Inplaced__V1__Problem *const *problems, size_t n_problems);
