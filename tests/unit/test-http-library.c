/* SPDX-License-Identifier: Apache-2.0 */

/*
 * libcurl at run time: the one that is there, one that is not, and a library that is another one
 */

#include "agent/kube/http-library.h"
#include "tests/unit/unit.h"

static void assert_refused(const char *name, const char *begin, const char *end) {
        cleanup(error_done) Error error = ERROR_INIT;
        const char *message;
        HttpLibrary library;
        HttpLibrary before;

        memset(&library, 'x', sizeof(library));
        before = library;
        assert_true(http_library_load(name, &library, &error) < 0);
        assert_int_equal(error.kind, ERROR_UNAVAILABLE);
        message = error_message(&error);
        assert_int_equal(strncmp(message, begin, strlen(begin)), 0);
        assert_true(strlen(message) > strlen(end));
        assert_string_equal(message + strlen(message) - strlen(end), end);
        assert_memory_equal(&library, &before, sizeof(library));
}

TEST(test_there) {
        cleanup(error_done) Error error = ERROR_INIT;
        HttpLibrary again;
        HttpLibrary library;
        char *text;
        CURLU *url;

        assert_ok(http_library_load(HTTP_LIBRARY_NAME, &library, &error));
        assert_ok(http_library_load(HTTP_LIBRARY_NAME, &again, &error));
        assert_int_equal(error.kind, ERROR_NONE);
        assert_memory_equal(&library, &again, sizeof(library));

        /* No client holds it any more, and it is there all the same. */
        url = library.url();
        assert_non_null(url);
        assert_int_equal(library.url_set(url, CURLUPART_URL, "https://a.example:6443", 0), 0);
        assert_int_equal(library.url_get(url, CURLUPART_PORT, &text, 0), 0);
        assert_string_equal(text, "6443");
        library.free(text);
        library.url_cleanup(url);
}

TEST(test_missing) {
        assert_refused("libcurl.so.999",
                       "libcurl.so.999 cannot be loaded: cannot open shared object file: ",
                       "; install libcurl4");
}

/* The loader says where it found that one. */
TEST(test_other) {
        assert_refused("libm.so.6", "libm.so.6 cannot be loaded: /",
                       "libm.so.6: undefined symbol: curl_global_init; install libcurl4");
}
