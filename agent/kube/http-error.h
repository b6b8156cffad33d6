/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Why an exchange over HTTP failed, in words that help
 */

#include <curl/curl.h>
#include <stdbool.h>

#include "agent/base/error.h"

#define HTTP_CONNECT_SECONDS 15

/* Fills *ret, which must be unset. text is what curl says about it, os_errno what the kernel
 * said, or 0. Never names anything that is secret. */
void http_error_describe(CURLcode code, const char *server, const char *text, int os_errno,
                         Error *ret);

/* Whoever was to speak TLS has spoken plain HTTP. */
bool http_error_is_plain(CURLcode code, const char *text);
