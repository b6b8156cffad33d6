/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Why a pull failed
 *
 * The runtime reports a failed pull as a gRPC status, nearly always UNKNOWN, and a text made of the
 * errors of all layers below it. An operator, a script and a metric need a class instead, which this
 * table finds. It searches for words of containerd's and CRI-O's messages.
 */

#include <stdbool.h>

#include "agent/base/error.h"

typedef enum PullReason {
        PULL_REASON_NONE,
        PULL_REASON_INVALID_REFERENCE,
        PULL_REASON_INVALID_SPEC,         /* the agent cannot understand the desired image */
        PULL_REASON_NOT_FOUND,            /* no such image or tag */
        PULL_REASON_UNAUTHORIZED,         /* 401, 403, denied: credentials are missing or wrong */
        PULL_REASON_INVALID_CREDENTIALS,  /* credentials that cannot be read or used */
        PULL_REASON_REGISTRY_UNREACHABLE, /* name, route, connection, time-out of the connection */
        PULL_REASON_TLS,                  /* certificate or handshake */
        PULL_REASON_RATE_LIMITED,         /* 429 */
        PULL_REASON_REGISTRY_ERROR,       /* 5xx, or an invalid answer */
        PULL_REASON_WRONG_CONTENT,        /* digest or size differs from the manifest */
        PULL_REASON_NO_SPACE,
        PULL_REASON_REMOVED,       /* another program removed the pulled image */
        PULL_REASON_DISK_PRESSURE, /* less disk is free than has to stay free: pulls wait */
        PULL_REASON_POD_WAITS,     /* a pod's image is pulled first: pulls wait */
        PULL_REASON_NODES_FIRST,   /* other nodes pull first, or at most so many at a time */
        PULL_REASON_NO_PROGRESS,   /* no byte arrived for a while, says the agent or the runtime */
        PULL_REASON_INCOMPLETE,    /* layers are fetched on demand, and have to be there */
        PULL_REASON_DEADLINE,      /* deadline of the attempt, or of all attempts */
        PULL_REASON_CANCELED,      /* no request for it is left; never from the runtime */
        PULL_REASON_RUNTIME_UNAVAILABLE,
        PULL_REASON_UNSUPPORTED, /* no manifest for this platform, unknown media type */
        PULL_REASON_UNKNOWN,
        _PULL_REASON_MAX,
} PullReason;

/* Returns the class of a refusal by the runtime. Never PULL_REASON_NONE. */
PullReason pull_reason_from_error(const Error *error);

/* Returns "NotFound", "Unauthorized" ...: the class as in a status, a log and a metric. */
const char *pull_reason_to_string(PullReason reason);

/* Returns PULL_REASON_UNKNOWN for an unknown word. */
PullReason pull_reason_from_string(const char *text);

/* Remedies after which the same pull may succeed. */
typedef enum PullRemedy {
        PULL_REMEDY_TIME,    /* time, or a change that the agent does not see */
        PULL_REMEDY_NETWORK, /* the registry can be reached, and works */
        /* Other credentials: those that were used may have been wrong, or the account's limit reached.
         * Registries that hide what they have say "not found" instead of "denied". */
        PULL_REMEDY_CREDENTIALS,
        PULL_REMEDY_NONE, /* none: the owner has to ask for another image */
} PullRemedy;

PullRemedy pull_reason_remedy(PullReason reason);

/* Whether the answer is a plain no, which more attempts seldom change: the registry does not
 * have the image, denies it to this node, or its host name does not exist. text: what the
 * runtime said. */
bool pull_reason_is_refusal(PullReason reason, const char *text);

/* Returns advice for the operator, as the end of a sentence, e.g. "check the name and the tag".
 * Never NULL. */
const char *pull_reason_advice(PullReason reason);
