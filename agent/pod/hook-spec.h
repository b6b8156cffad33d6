/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a container wants done before it is stopped (core/v1 LifecycleHandler, as the kubelet writes
 * it into the annotation io.kubernetes.container.preStopHandler)
 */

#include <stddef.h>
#include <stdint.h>

#include "agent/base/error.h"

typedef enum HookKind {
        HOOK_NONE,
        HOOK_EXEC,
        HOOK_HTTP,
        HOOK_TCP,
        HOOK_SLEEP,
        _HOOK_KIND_MAX,
} HookKind;

typedef struct HookHeader {
        char *name;
        char *value;
} HookHeader;

/* Owned texts; NULL where there is nothing. */
typedef struct HookSpec {
        HookKind kind;
        char **command; /* of EXEC, ends with NULL */
        char *scheme;   /* of HTTP: "http" or "https" */
        char *host;     /* of HTTP and TCP; NULL: the pod's own address */
        uint16_t port;
        char *path; /* of HTTP; begins with "/" */
        HookHeader *headers;
        size_t n_headers;
        int64_t sleep_sec; /* of SLEEP */
} HookSpec;

#define HOOK_SPEC_INIT ((HookSpec){ .kind = HOOK_NONE })

/* ports: the annotation io.kubernetes.container.ports, where names of ports are looked up; may be
 * NULL. handler NULL, or one that is empty, is HOOK_NONE. */
int hook_spec_parse(const char *handler, const char *ports, HookSpec *ret, Error *reterr);
void hook_spec_done(HookSpec *spec);

/* "Exec lifecycle hook ([sleep 5])", as the kubelet calls it in events; the caller owns *ret. */
int hook_spec_describe(const HookSpec *spec, char **ret);
