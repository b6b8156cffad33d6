/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the commands that ask about the node have in common
 */

#include <json-c/json.h>
#include <stddef.h>

#include "proto/inplaced/v1/node.pb-c.h"

/* Prints "problem: SUBJECT: MESSAGE; ADVICE" for each, to stdout. */
int problems_print(Inplaced__V1__Problem *const *problems, size_t n_problems);

/* The same as an array. NULL if there is no memory. */
json_object *problems_json(Inplaced__V1__Problem *const *problems, size_t n_problems);

/* printf() to stdout, with everything made safe for a terminal; ends the line. */
int print_safe(const char *format, ...) __attribute__((format(printf, 1, 2)));
