/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Scope-bound ownership
 *
 * A local variable declared with cleanup(fn) owns what it points to until the end of its scope.
 * take_ptr() and take_fd() move the ownership elsewhere, and are the only way to do so: a return
 * statement or an assignment without them would leave two owners.
 */

#include <stdlib.h>
#include <unistd.h>

#define cleanup(fn) __attribute__((cleanup(fn)))

/* Defines fn_p(), which cleanup() needs: fn() on the variable behind a pointer. */
#define DEFINE_CLEANUP(type, fn)             \
        static inline void fn##_p(type *p) { \
                if (*p)                      \
                        fn(*p);              \
        }

#define take_ptr(p)                              \
        ({                                       \
                __typeof__(p) *_source = &(p);   \
                __typeof__(p) _taken = *_source; \
                *_source = NULL;                 \
                _taken;                          \
        })

static inline int take_fd(int *fd) {
        int taken = *fd;

        *fd = -1;
        return taken;
}

static inline void free_p(void *p) {
        free(*(void **) p);
}

static inline void close_p(int *fd) {
        if (*fd >= 0)
                close(*fd);
}
