/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * libcurl, loaded for the first request: to an API server, a pod, or the runtime's ExecSync
 *
 * Linked as usual, libcurl and the many libraries behind it cost three megabytes whether they are used
 * or not. So it is not linked: its functions are looked up at run time, and who needs them is handed a
 * table of them. Types and constants come from curl's header all the same.
 *
 * Loaded once, it stays until the process ends, since other libraries and threads may remember it.
 */

#include <curl/curl.h>

#include "agent/base/error.h"

#define HTTP_LIBRARY_NAME "libcurl.so.4"

/* Without the "curl_" that all of them begin with. */
#define HTTP_LIBRARY_FUNCTIONS(X) \
        X(global_init)            \
        X(global_cleanup)         \
        X(free)                   \
        X(easy_init)              \
        X(easy_setopt)            \
        X(easy_getinfo)           \
        X(easy_strerror)          \
        X(easy_cleanup)           \
        X(multi_init)             \
        X(multi_setopt)           \
        X(multi_assign)           \
        X(multi_add_handle)       \
        X(multi_remove_handle)    \
        X(multi_socket_action)    \
        X(multi_info_read)        \
        X(multi_cleanup)          \
        X(slist_append)           \
        X(slist_free_all)         \
        X(url)                    \
        X(url_set)                \
        X(url_get)                \
        X(url_cleanup)

#define HTTP_LIBRARY_MEMBER(function) __typeof__(curl_##function) *function;

/* May be copied. */
typedef struct HttpLibrary {
        HTTP_LIBRARY_FUNCTIONS(HTTP_LIBRARY_MEMBER)
} HttpLibrary;

/* name is HTTP_LIBRARY_NAME, except in tests. Fills *ret whole or, refused with one line, not at all.
 * Reads files; the second time there is nothing left to read. */
int http_library_load(const char *name, HttpLibrary *ret, Error *reterr);
