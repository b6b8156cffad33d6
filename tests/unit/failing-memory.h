/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Memory that is short, for one file of a test program and the thread that begins: its functions stand before those of
 * the C library, and of a sanitizer, also for the libraries that the program uses
 *
 *     do {
 *             failing_memory_begin();
 *             r = call();
 *             has_failed = failing_memory_end();
 *             ...
 *     } while (has_failed);
 *
 * makes the call with its first allocation failing, then with the second, and so on, and at last with all that it needs.
 * ASSERT_WITHOUT_MEMORY() does so with a call that may return -ENOMEM then.
 */

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/unit.h"

/* Makes the call with each allocation failing, and checks that it returns -ENOMEM then, or else the result: some libraries
 * do without. The check follows each such call. */
#define ASSERT_WITHOUT_MEMORY(call, result, check)                    \
        do {                                                          \
                bool memory_has_failed;                               \
                                                                      \
                do {                                                  \
                        int returned;                                 \
                                                                      \
                        failing_memory_begin();                       \
                        returned = (call);                            \
                        memory_has_failed = failing_memory_end();     \
                        if (memory_has_failed && returned == -ENOMEM) \
                                continue;                             \
                        assert_int_equal(returned, (result));         \
                        check;                                        \
                } while (memory_has_failed);                          \
        } while (0)

/* They run before the sanitizer does. */
#define FAILING_MEMORY_EARLY \
        __attribute__((no_sanitize("address"), no_sanitize("thread"), no_sanitize("undefined")))

/* Functions of a sanitizer, if there is one, and of glibc. */
void *__interceptor_malloc(size_t size) __attribute__((weak));
void *__interceptor_calloc(size_t n, size_t size) __attribute__((weak));
void *__interceptor_realloc(void *old, size_t size) __attribute__((weak));
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);

/* Only the thread that began lacks memory: a library's own threads cannot do without. */
static _Thread_local struct {
        size_t size;     /* size of the allocations that count; 0: all do */
        unsigned nth;    /* number of the one that fails in this round, or 0 */
        unsigned n_left; /* number of those until then; 0: none fails any more */
        bool has_failed;
} failing_memory;

static inline void failing_memory_begin(void) {
        failing_memory.n_left = ++failing_memory.nth;
        failing_memory.has_failed = false;
}

/* Returns whether an allocation has failed; if none has, the next round is the first one again. */
static inline bool failing_memory_end(void) {
        failing_memory.n_left = 0;
        if (!failing_memory.has_failed)
                failing_memory.nth = 0;
        return failing_memory.has_failed;
}

FAILING_MEMORY_EARLY static inline bool failing_memory_is_due(size_t size) {
        if (failing_memory.n_left == 0 ||
            (failing_memory.size > 0 && failing_memory.size != size) || --failing_memory.n_left > 0)
                return false;

        failing_memory.has_failed = true;
        errno = ENOMEM;
        return true;
}

FAILING_MEMORY_EARLY static inline void *failing_memory_take(size_t size) {
        return __interceptor_malloc ? __interceptor_malloc(size) : __libc_malloc(size);
}

FAILING_MEMORY_EARLY void *malloc(size_t size) {
        return failing_memory_is_due(size) ? NULL : failing_memory_take(size);
}

FAILING_MEMORY_EARLY void *calloc(size_t n, size_t size) {
        if (failing_memory_is_due(n * size))
                return NULL;
        return __interceptor_calloc ? __interceptor_calloc(n, size) : __libc_calloc(n, size);
}

FAILING_MEMORY_EARLY void *realloc(void *old, size_t size) {
        if (failing_memory_is_due(size))
                return NULL;
        return __interceptor_realloc ? __interceptor_realloc(old, size) : __libc_realloc(old, size);
}

/* json-c before 0.17 copies a key that it parses, and uses it without looking. */
static inline bool failing_memory_is_key(const void *caller) {
        Dl_info info;

        return dladdr(caller, &info) != 0 && info.dli_sname &&
               strcmp(info.dli_sname, "json_tokener_parse_ex") == 0;
}

FAILING_MEMORY_EARLY char *strdup(const char *text) {
        size_t size = strlen(text) + 1;
        char *copy;

        if (failing_memory.n_left > 0 && !failing_memory_is_key(__builtin_return_address(0)) &&
            failing_memory_is_due(size))
                return NULL;

        copy = failing_memory_take(size);
        return copy ? memcpy(copy, text, size) : NULL;
}

/* json-c before 0.17 does not free the value that it leaves out. */
const char *__lsan_default_suppressions(void);

const char *__lsan_default_suppressions(void) {
        return "leak:libjson-c\n";
}
