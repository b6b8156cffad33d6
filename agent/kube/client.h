/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Requests to the API server
 *
 * HTTP/2 where the server has it, so that all requests and watches share one connection. Each
 * request carries the credentials of its moment; one that is refused with 401 is sent once more with
 * fresh ones. Nothing else is tried again here: the caller knows best what is worth repeating and
 * what has become outdated meanwhile (see kube_retry_usec()).
 */

#include <systemd/sd-event.h>

#include "agent/base/error.h"
#include "agent/base/loop.h"
#include "agent/kube/access.h"
#include "agent/observe/metrics.h"

typedef struct KubeClient KubeClient;
typedef struct KubeCall KubeCall;

#define KUBE_JSON "application/json"
#define KUBE_JSON_PATCH "application/json-patch+json"
#define KUBE_MERGE_PATCH "application/merge-patch+json"
#define KUBE_STRATEGIC_MERGE_PATCH "application/strategic-merge-patch+json"
#define KUBE_PROTOBUF "application/vnd.kubernetes.protobuf"
/* Instead of the whole object, which may be large, only its metadata. */
#define KUBE_METADATA_ONLY "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
#define KUBE_METADATA_LIST "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

/* Users write the managedFields of their objects, as deep and as large as they like: readers leave them
 * out. Depths of the metadata that has them: of an object alone, in an event of a watch, in a list. */
#define KUBE_MANAGED_FIELDS "managedFields"
#define KUBE_DEPTH_OBJECT 2u
#define KUBE_DEPTH_EVENT 3u
#define KUBE_DEPTH_LIST 4u

/* The server answers (NULL) or does not, and why; reported when that changes, or the reason does. An
 * answer that refuses one request, such as 403, is an answer. */
typedef void (*KubeReachable)(const Error *trouble, void *userdata);

typedef struct KubeClientOptions {
        sd_event *event;
        const KubeAccessOptions *access; /* event, on_changed and userdata are set by the client */
        Metrics *metrics;                /* counts requests; may be NULL */
        const char *user_agent_header;   /* "User-Agent: ..."; NULL: the agent's. Borrowed */
        KubeReachable on_reachable;
        void *userdata;
} KubeClientOptions;

/* Refuses what kube_access_new() refuses, and if libcurl cannot be loaded. Sends nothing yet. */
int kube_client_new(const KubeClientOptions *options, KubeClient **ret, Error *reterr);

/* Ends all calls, whose callbacks do not run any more. Returns NULL. */
KubeClient *kube_client_free(KubeClient *client);

sd_event *kube_client_event(const KubeClient *client);

/* Returns the monotonic time at which this turn of the client's loop began. */
static inline uint64_t kube_client_now_usec(const KubeClient *client) {
        return loop_now_usec(kube_client_event(client));
}

/* Why the server does not answer, or NULL. Before the first answer it is unset: ERROR_NONE. */
const Error *kube_client_trouble(const KubeClient *client);

/* Whether all calls fail for the same reason: the server does not answer, or does not know who we
 * are. The caller need not report that. */
bool kube_client_is_in_trouble(const KubeClient *client);

/* Returns the server's time, in microseconds since 1970, whatever the clock of this node says, to
 * compare with times in objects; false: no answer has shown it yet. */
bool kube_client_server_usec(const KubeClient *client, int64_t *ret);

/* Returns the client's access; borrowed. */
const KubeAccess *kube_client_access(const KubeClient *client);

/* "https://10.96.0.1:443 by the pod's service account"; for people; borrowed. */
const char *kube_client_target(const KubeClient *client);

typedef struct KubeReply {
        int code;         /* HTTP's status; 0: none came */
        const char *body; /* ends with a NUL that size does not count; "" if on_data took it */
        size_t size;
        uint64_t retry_after_usec; /* pause that the server requests; 0: none */
} KubeReply;

/* error is NULL for a status of 2xx. Else its kind is that of the status: 400 and 422 INVALID, 401
 * and 403 DENIED, 404 NOT_FOUND, 405, 406 and 415 UNSUPPORTED, 409 CONFLICT, 410 GONE, 408 and 504
 * TIMEOUT, 429 and the other 5xx UNAVAILABLE; and its message what the server's Status object says.
 * Without a status: UNAVAILABLE, TIMEOUT, or DENIED if the server's certificate cannot be trusted.
 * The message is one line that names the request, e.g. "PATCH nodeimages/node-1/status: ...". */
typedef int (*KubeReplied)(const KubeReply *reply, const Error *error, void *userdata);

/* A piece of a body of status 2xx; other bodies come with the reply. A negative return ends the
 * call as if the connection were cut: on_replied gets ERROR_CANCELED. */
typedef int (*KubeData)(const char *data, size_t size, void *userdata);

/* The status is 2xx; the first piece of the body may be long in coming. A negative return ends the
 * call, as for a piece. */
typedef int (*KubeAccepted)(void *userdata);

typedef struct KubeRequest {
        const char *verb;   /* get, list, watch, create, patch or delete, for metrics; NULL: none */
        const char *method; /* GET, POST, PATCH, DELETE */
        const char *path;   /* path from kube_path_format() */
        const char *accept; /* NULL: KUBE_JSON */
        const char *content_type;
        const char *body; /* NULL: none; ends with a NUL */
        size_t reply_max; /* bytes; a larger body is ERROR_INVALID. 0: 4 MiB. Not for on_data */
        uint64_t timeout_usec;    /* timeout of the whole exchange; 0: 30 s, UINT64_MAX: none */
        uint64_t accept_usec;     /* timeout of the answer's begin; 0: as timeout_usec */
        uint64_t silence_usec;    /* without a byte, once the answer began; 0: no limit */
        KubeAccepted on_accepted; /* once at most, before on_data; may be NULL */
        KubeData on_data;         /* NULL: the body comes with the reply */
        KubeReplied on_replied;   /* once, and last; not from within kube_call() */
        void *userdata;
} KubeRequest;

/* The request is copied. The caller owns *ret; it may be dropped in a callback. */
int kube_call(KubeClient *client, const KubeRequest *request, KubeCall **ret);

/* Ends the call if it still runs; no callback runs after that. Returns NULL. */
KubeCall *kube_call_unref(KubeCall *call);
