/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Output formats, documents on stdout, and the exit status of commands
 *
 * -o json and -o yaml print the same tree. Its texts come from outside: the output replaces bytes that are
 * not UTF-8, and escapes control characters of terminals as the format allows.
 */

#include <json-c/json.h>
#include <stdbool.h>

#include "agent/base/cleanup.h"
#include "agent/base/error.h"

typedef enum OutputFormat {
        OUTPUT_TABLE,
        OUTPUT_WIDE, /* a table with more columns and nothing shortened */
        OUTPUT_JSON,
        OUTPUT_YAML,
        _OUTPUT_FORMAT_MAX,
} OutputFormat;

/* Whether it prints a tree for programs, and no table. */
static inline bool output_is_document(OutputFormat format) {
        return format == OUTPUT_JSON || format == OUTPUT_YAML;
}

/* The exit status, stable for scripts. */
typedef enum ExitStatus {
        EXIT_STATUS_DONE = 0,
        EXIT_STATUS_FAILED = 1,
        EXIT_STATUS_USAGE = 2,
        EXIT_STATUS_PARTLY = 3,
        EXIT_STATUS_TIMEOUT = 124, /* as timeout(1) has it */
        EXIT_STATUS_SIGNAL = 128,  /* and the number of the signal that ended it, as in a shell */
} ExitStatus;

static inline ExitStatus exit_status_of(bool has_failed, bool has_succeeded) {
        return !has_failed     ? EXIT_STATUS_DONE
               : has_succeeded ? EXIT_STATUS_PARTLY
                               : EXIT_STATUS_FAILED;
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
