/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The terminal behind a descriptor
 */

#include <stdbool.h>
#include <stddef.h>

/* Whether lines can be drawn again in place. */
bool terminal_is_capable(int fd);

/* What the terminal says, else what COLUMNS and LINES say, else 80 by 24. */
void terminal_get_size(int fd, size_t *ret_rows, size_t *ret_columns);
