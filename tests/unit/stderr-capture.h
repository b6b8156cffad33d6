/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Puts a pipe or a pseudo-terminal in the place of stderr or stdout for a while, and reads what was written.
 */

#include <fcntl.h>
#include <pty.h>
#include <unistd.h>

#include "tests/unit/unit.h"

/* Replaces stderr or stdout during a test. */
typedef struct Stderr {
        int fd; /* STDERR_FILENO or STDOUT_FILENO */
        int saved;
        int reader;
        char text[16384];
} Stderr;

static inline void output_replace(Stderr *e, int fd, int reader, int writer) {
        (void) fflush(stdout);
        *e = (Stderr){ .fd = fd, .saved = dup(fd), .reader = reader };
        assert_int_equal(dup2(writer, fd), fd);
        close(writer);
}

static inline void output_pipe(Stderr *e, int fd) {
        int fds[2];

        assert_ok(pipe2(fds, O_CLOEXEC));
        output_replace(e, fd, fds[0], fds[1]);
}

static inline void stderr_pipe(Stderr *e) {
        output_pipe(e, STDERR_FILENO);
}

static inline void stdout_pipe(Stderr *e) {
        output_pipe(e, STDOUT_FILENO);
}

static inline void stderr_terminal(Stderr *e) {
        int reader, writer;

        assert_ok(openpty(&reader, &writer, NULL, NULL, NULL));
        output_replace(e, STDERR_FILENO, reader, writer);
}

/* Reads what was written, which a terminal may give in pieces, and puts the real one back. */
static inline const char *stderr_restore(Stderr *e) {
        size_t size = 0;
        ssize_t n;

        (void) fflush(stdout);
        assert_ok(fcntl(e->reader, F_SETFL, O_NONBLOCK));
        while ((n = read(e->reader, e->text + size, sizeof(e->text) - 1 - size)) > 0)
                size += (size_t) n;
        e->text[size] = '\0';
        assert_int_equal(dup2(e->saved, e->fd), e->fd);
        close(e->saved);
        close(e->reader);
        return e->text;
}

#define STDERR_TIME_SIZE 20 /* "2026-11-22 18:19:52 " */

/* The same of a log, each line without its time. */
static inline const char *stderr_restore_log(Stderr *e) {
        char *to = e->text;

        for (const char *line = stderr_restore(e), *end; *line; line = end) {
                end = strchr(line, '\n');
                assert_non_null(end++);
                assert_true(end - line > STDERR_TIME_SIZE);
                line += STDERR_TIME_SIZE;
                memmove(to, line, (size_t) (end - line));
                to += end - line;
        }
        *to = '\0';
        return e->text;
}
