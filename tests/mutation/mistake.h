/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The mistake that a program makes: that of the number in INPLACED_MISTAKE, or none. mutations.py writes
 * the calls, and each source file begins with this header.
 *
 * With INPLACED_EXECUTED, the name of a file, the program sets a byte there for each mistake that it could
 * have made: the one at the mistake's number. The file has one for each.
 */

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct Mistake {
        long number;
        char *executed; /* mapped file; NULL: there is none */
};

/* The same object in all source files of a program. */
__attribute__((weak)) struct Mistake mistake_state;

__attribute__((constructor, weak)) void mistake_begin(void) {
        const char *number = getenv("INPLACED_MISTAKE"), *path = getenv("INPLACED_EXECUTED");
        struct stat about;
        void *mapped;
        int fd;

        if (number)
                mistake_state.number = strtol(number, NULL, 10);
        if (!path)
                return;
        fd = open(path, O_RDWR | O_CLOEXEC);
        if (fd < 0)
                return;
        if (fstat(fd, &about) == 0) {
                mapped = mmap(NULL, about.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
                if (mapped != MAP_FAILED)
                        mistake_state.executed = mapped;
        }
        close(fd);
}

static inline bool mistake_is(long number) {
        return mistake_state.number == number;
}

static inline void mistake_executed(long number) {
        if (mistake_state.executed)
                mistake_state.executed[number] = 1;
}
