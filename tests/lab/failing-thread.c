/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A limit of threads, for a program that is started with this before the C library (LD_PRELOAD)
 *
 * One thread is not made: the first, or as many later as INPLACED_FAILING_THREAD says.
 */

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

typedef void *(*Run)(void *);
typedef int (*Create)(pthread_t *, const pthread_attr_t *, Run, void *);

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, Run run, void *userdata) {
        static int n;
        const char *failing = getenv("INPLACED_FAILING_THREAD");
        Create create;

        if (failing && __atomic_fetch_add(&n, 1, __ATOMIC_RELAXED) == atoi(failing))
                return EAGAIN;

        *(void **) &create = dlsym(RTLD_NEXT, "pthread_create");
        return create(thread, attributes, run, userdata);
}
