/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A guarded write to one object
 *
 * The agent makes each write from an object that it has seen, and the server refuses the write if that
 * object has changed: the guard is its resourceVersion, its UID, or both. A KubePatch is a field of its
 * owner. It sends one request at a time, interprets the answer, names a missing right, and knows when the
 * next request may be sent: later after each failure, soon after a conflict, and later each time if the
 * write is reverted. It has neither a timer nor a log, and keeps no body: its owner makes the body from
 * the current state when the request is sent.
 */

#include <json-c/json_types.h>

#include "agent/base/repeat.h"
#include "agent/kube/client.h"
#include "agent/kube/path.h"

#define KUBE_PATCH_CONFLICT_USEC ((uint64_t) 500 * 1000) /* wait until the watch shows the object */
#define KUBE_PATCH_CONFLICTS_MAX 4 /* in a row; then the watch does not, and the pauses grow */

typedef enum KubePatchVerb {
        KUBE_PATCH_GET,  /* read of the object before a write */
        KUBE_PATCH_LIST, /* the same of several: the path has no name */
        KUBE_PATCH_CREATE,
        KUBE_PATCH_MERGE,
        KUBE_PATCH_STRATEGIC,
        KUBE_PATCH_STEPS, /* a JSON patch (RFC 6902), which has its guard in it */
        KUBE_PATCH_DELETE,
        _KUBE_PATCH_VERB_MAX,
} KubePatchVerb;

typedef enum KubePatchOutcome {
        KUBE_PATCH_TAKEN,
        KUBE_PATCH_CONFLICT, /* the object has changed: a watch shows the new one */
        KUBE_PATCH_GONE,     /* no object has that name */
        KUBE_PATCH_REFUSED,  /* refused again each time, until a right or an object is changed */
        KUBE_PATCH_UNKNOWN,  /* no answer, or an internal error: the write may have been taken */
        _KUBE_PATCH_OUTCOME_MAX,
} KubePatchOutcome;

typedef struct KubePatchAnswer {
        KubePatchOutcome outcome;
        const char *version; /* version that the write made; NULL: the answer has none */
        const KubeReply *reply;
        const Error *error; /* NULL: the server took the request */
} KubePatchAnswer;

/* The owner may send the next request, or free the KubePatch. */
typedef int (*KubePatchAnswered)(const KubePatchAnswer *answer, void *userdata);

/* All is borrowed during the call. */
typedef struct KubePatchRequest {
        KubePatchVerb verb;
        KubePath path;
        struct json_object *body; /* NULL for GET and DELETE; the guard is added to it */
        const char *uid;          /* the guard; NULL: any */
        const char *version;
        const char *accept; /* form of the answer, such as KUBE_PROTOBUF; NULL: its metadata */
        size_t reply_max;   /* bytes of the answer; a larger one is ERROR_INVALID. 0: 4 MiB */
        uint64_t digest;    /* digest of the content, see repeat.h; 0: no pause if it repeats */
        KubePatchAnswered on_answered;
} KubePatchRequest;

/* The owner sets the first two members, the others are zero at first. */
typedef struct KubePatch {
        KubeClient *client;
        void *userdata;

        KubeCall *call; /* NULL: none is under way */
        KubePatchAnswered on_answered;
        KubePatchVerb verb;
        char *right; /* right that the call needs */
        uint64_t digest;
        Repeat repeat;
        unsigned n_failures;  /* failures in a row, without conflicts */
        unsigned n_conflicts; /* in a row; the owner may take a newer object as the end of them, and
                               * an answer without a version as one more */
        uint64_t rest_usec;   /* nothing is sent before this time of the monotonic clock */
} KubePatch;

/* Sends the request at once; no other may be under way. */
int kube_patch_send(KubePatch *patch, const KubePatchRequest *request);

/* Reads the object of an answer, in JSON, without its managedFields. The caller owns *ret. */
int kube_patch_read(const KubeReply *reply, struct json_object **ret, Error *reterr);

/* Returns the earliest time for a request with this digest; 0: at any time. */
uint64_t kube_patch_when_usec(const KubePatch *patch, uint64_t digest);

/* Counts a failure, because the answer was useless, and starts a pause. reply may be NULL. */
void kube_patch_fail(KubePatch *patch, const KubeReply *reply);

/* Counts a conflict, because the write was in vain, and starts a pause. */
void kube_patch_conflict(KubePatch *patch, const KubeReply *reply);

/* Sends nothing for this time. */
void kube_patch_rest(KubePatch *patch, uint64_t usec);

/* Ends failures and pauses: the write has succeeded, or is not needed any more. A GET that succeeds
 * does not show that the write after it will. */
void kube_patch_succeed(KubePatch *patch);

/* Drops the call, if there is one: its answer is ignored. Nothing is left to be freed. */
void kube_patch_cancel(KubePatch *patch);

/* Versions are numbers in all known API servers; false for any others. */
bool kube_version_is_older(const char *version, const char *than);
