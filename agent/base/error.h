/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Errors
 *
 * Two kinds of failure exist in the agent, and they travel differently.
 *
 *   Local failure: no memory, a bad file descriptor, a bug. A function reports it as a negative
 *   errno which is not interpreted; it goes up to main().
 *
 *   Refusal: a peer or a person (the runtime, the API server, the author of the config) said no.
 *   The caller has to decide something, and a human will read the reason. It is described by an
 *   Error, whose kind is the same whether a gRPC status or an HTTP status was behind it.
 */

#include <stdbool.h>

typedef enum ErrorKind {
        ERROR_NONE,
        ERROR_INVALID, /* the request is wrong; retrying cannot help */
        ERROR_NOT_FOUND,
        ERROR_CONFLICT, /* another writer was first; read again */
        ERROR_GONE,     /* the resource version is too old; list again */
        ERROR_DENIED,
        ERROR_TIMEOUT,
        ERROR_UNAVAILABLE, /* the peer is not there now; retry later */
        ERROR_CANCELED,    /* we asked for it */
        ERROR_UNSUPPORTED, /* the peer does not know this call */
        ERROR_INTERNAL,
        _ERROR_KIND_MAX,
} ErrorKind;

typedef struct Error {
        ErrorKind kind;
        char *message; /* owned; NULL when there was no memory to format it */
} Error;

#define ERROR_INIT ((Error){ .kind = ERROR_NONE })

/* Fills *error, which must be unset, and returns the errno that matches the kind. A NULL error is
 * allowed and means that the caller needs no text. Peers' texts come in here, so this removes
 * secrets from their URLs, see redact.h. */
int error_set(Error *error, ErrorKind kind, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

/* Copies another error into *error, which must be unset. */
int error_copy(Error *error, const Error *source);

bool error_equal(const Error *a, const Error *b);

/* Replaces *error by a copy of another one; NULL: unset. Returns whether the text differs from
 * before, to log each reason once. */
bool error_update(Error *error, const Error *source);

/* Frees the text and makes *error unset again. Does nothing to an unset one. */
void error_done(Error *error);

const char *error_message(const Error *error);

/* No answer came: the peer was not there, or was silent. What was asked may have been done. */
bool error_is_unanswered(const Error *error);
const char *error_kind_to_string(ErrorKind kind);
