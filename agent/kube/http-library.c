/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/http-library.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "agent/base/cleanup.h"

static inline void library_close(void *library) {
        (void) dlclose(library);
}

DEFINE_CLEANUP(void *, library_close)

static int refuse(const char *name, Error *reterr) {
        const char *reason = dlerror();
        size_t size = strlen(name);

        /* The loader names the library at fault first, which may be one that this one needs. */
        if (reason && strncmp(reason, name, size) == 0 && strncmp(reason + size, ": ", 2) == 0)
                reason += size + 2;

        return error_set(reterr, ERROR_UNAVAILABLE, "%s cannot be loaded: %s; install libcurl4",
                         name, reason ?: "no reason given");
}

static int look_up(void *library, const char *name, HttpLibrary *ret, Error *reterr) {
        static const struct {
                const char *name;
                size_t offset;
        } functions[] = {
#define FUNCTION(function) { "curl_" #function, offsetof(HttpLibrary, function) },
                HTTP_LIBRARY_FUNCTIONS(FUNCTION)
#undef FUNCTION
        };

        for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
                void *function = dlsym(library, functions[i].name);

                if (!function)
                        return refuse(name, reterr);

                memcpy((char *) ret + functions[i].offset, &function, sizeof(function));
        }

        return 0;
}

int http_library_load(const char *name, HttpLibrary *ret, Error *reterr) {
        cleanup(library_close_p) void *library = NULL;
        HttpLibrary found;
        int r;

        /* RTLD_NODELETE: closing it gives back the handle, and leaves the library where it is. */
        library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (!library)
                return refuse(name, reterr);

        r = look_up(library, name, &found, reterr);
        if (r < 0)
                return r;

        *ret = found;
        return 0;
}
