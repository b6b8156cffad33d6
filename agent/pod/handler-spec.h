/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The handler of a hook or a probe (core/v1 LifecycleHandler and ProbeHandler), from JSON such as the
 * kubelet writes into the annotation io.kubernetes.container.preStopHandler
 */

#include <stddef.h>
#include <stdint.h>

#include "agent/document/json-reader.h"

typedef enum HandlerKind {
        HANDLER_NONE,
        HANDLER_EXEC,
        HANDLER_HTTP,
        HANDLER_TCP,
        HANDLER_SLEEP,
        HANDLER_GRPC,
        _HANDLER_KIND_MAX,
} HandlerKind;

typedef struct HandlerHeader {
        char *name;
        char *value;
} HandlerHeader;

/* Owned texts; NULL where there is nothing. */
typedef struct HandlerSpec {
        HandlerKind kind;
        char **command; /* arguments of EXEC, ended by NULL */
        char *scheme;   /* scheme of HTTP: "http" or "https" */
        char *host;     /* host of HTTP and TCP; NULL: the pod's address */
        uint16_t port;
        char *path; /* path of HTTP; begins with "/" */
        HandlerHeader *headers;
        size_t n_headers;
        int64_t sleep_sec; /* duration of SLEEP */
        char *service;     /* service that GRPC checks; "": the whole server */
} HandlerSpec;

#define HANDLER_SPEC_INIT ((HandlerSpec){ .kind = HANDLER_NONE })

/* Parses a hook. ports: the annotation io.kubernetes.container.ports, which resolves names of
 * ports; may be NULL. A handler that is NULL or empty gives HANDLER_NONE. */
int handler_spec_parse(const char *handler, const char *ports, HandlerSpec *ret, Error *reterr);
void handler_spec_done(HandlerSpec *spec);

/* Reads the handler among the members of a probe at the path. Ports are numbers. HANDLER_NONE if
 * there is none. */
int handler_spec_read_probe(struct json_object *probe, const JsonPath *path, HandlerSpec *ret,
                            Error *reterr);

/* "Exec lifecycle hook ([sleep 5])", as the kubelet calls it in events; the caller owns *ret. */
int handler_spec_describe_hook(const HandlerSpec *spec, char **ret);
