/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/ctl/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool terminal_is_capable(int fd) {
        const char *type = getenv("TERM");

        return isatty(fd) && type && type[0] && strcmp(type, "dumb") != 0;
}

static size_t number_from_environment(const char *name, size_t otherwise) {
        const char *text = getenv(name);
        int number = text ? atoi(text) : 0;

        return number > 0 ? (size_t) number : otherwise;
}

void terminal_get_size(int fd, size_t *ret_rows, size_t *ret_columns) {
        struct winsize size = { 0 };

        (void) ioctl(fd, TIOCGWINSZ, &size);
        *ret_rows = size.ws_row ?: number_from_environment("LINES", 24);
        *ret_columns = size.ws_col ?: number_from_environment("COLUMNS", 80);
}
