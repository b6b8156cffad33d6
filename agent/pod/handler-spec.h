/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a hook or a probe consists of (core/v1 LifecycleHandler and ProbeHandler), from JSON such as the
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
        char **command; /* of EXEC, ends with NULL */
        char *scheme;   /* of HTTP: "http" or "https" */
        char *host;     /* of HTTP and TCP; NULL: the pod's own address */
        uint16_t port;
        char *path; /* of HTTP; begins with "/" */
        HandlerHeader *headers;
        size_t n_headers;
        int64_t sleep_sec; /* of SLEEP */
        char *service;     /* of GRPC: whose health is asked for; "": the whole server's */
} HandlerSpec;

#define HANDLER_SPEC_INIT ((HandlerSpec){ .kind = HANDLER_NONE })

/* Of a hook. ports: the annotation io.kubernetes.container.ports, where names of ports are found; may
 * be NULL. handler NULL, or one that is empty, is HANDLER_NONE. */
int handler_spec_parse(const char *handler, const char *ports, HandlerSpec *ret, Error *reterr);
void handler_spec_done(HandlerSpec *spec);

/* Of a probe: the member of the object at the path that says what it consists of. Ports are numbers.
 * None: HANDLER_NONE. */
int handler_spec_read_probe(struct json_object *probe, const JsonPath *path, HandlerSpec *ret,
                            Error *reterr);

/* "Exec lifecycle hook ([sleep 5])", as the kubelet calls it in events; the caller owns *ret. */
int handler_spec_describe_hook(const HandlerSpec *spec, char **ret);
