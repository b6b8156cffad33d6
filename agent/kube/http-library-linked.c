/* SPDX-License-Identifier: Apache-2.0 */

/* For a static program, which can load nothing: its own libcurl. */

#include "agent/kube/http-library.h"

int http_library_load(const char *name, HttpLibrary *ret, Error *reterr) {
        static const HttpLibrary linked = {
#define FUNCTION(function) .function = curl_##function,
                HTTP_LIBRARY_FUNCTIONS(FUNCTION)
#undef FUNCTION
        };

        *ret = linked;
        return 0;
}
