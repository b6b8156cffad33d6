/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A guarded write to one object
 *
 * All that the agent writes is made from an object that it has seen, and is refused by the server if
 * that object is another one by now: the guard is its resourceVersion, its UID, or both. A KubePatch is
 * a field of its owner. It sends one request at a time, says what the answer means, names the right
 * that is missing, and knows when the next request may be sent: later after each failure, soon after a
 * conflict, and later each time if what was written is changed back. It has neither a timer nor a log,
 * and keeps no body: its owner makes that anew from what is true when the request is sent.
 */

#include <json-c/json_types.h>

#include "agent/base/repeat.h"
#include "agent/kube/client.h"
#include "agent/kube/path.h"

#define KUBE_PATCH_CONFLICT_USEC ((uint64_t) 500 * 1000) /* for the watch to show the object */
#define KUBE_PATCH_CONFLICTS_MAX 4 /* in a row; then the watch does not, and the pauses grow */

typedef enum KubePatchVerb {
        KUBE_PATCH_GET, /* not a write, but what one is made from */
        KUBE_PATCH_CREATE,
        KUBE_PATCH_MERGE,
        KUBE_PATCH_STRATEGIC,
        KUBE_PATCH_STEPS, /* a JSON patch (RFC 6902), which has its guard in it */
        KUBE_PATCH_DELETE,
        _KUBE_PATCH_VERB_MAX,
} KubePatchVerb;

typedef enum KubePatchOutcome {
        KUBE_PATCH_TAKEN,
        KUBE_PATCH_CONFLICT, /* it is not that object any more: a watch shows what it is */
        KUBE_PATCH_GONE,     /* there is no object of that name */
        KUBE_PATCH_REFUSED,  /* as often as it is sent, until a right or an object is changed */
        KUBE_PATCH_UNKNOWN,  /* the server did not answer, or could not: it may have been taken */
        _KUBE_PATCH_OUTCOME_MAX,
} KubePatchOutcome;

typedef struct KubePatchAnswer {
        KubePatchOutcome outcome;
        const char *version; /* that the write has made; NULL: the answer does not say */
        const KubeReply *reply;
        const Error *error; /* NULL: it was taken */
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
        const char *
                accept; /* of the object, such as KUBE_PROTOBUF; NULL: the answer is its metadata */
        uint64_t digest; /* of what it says, see repeat.h; 0: it may be said again at any time */
        KubePatchAnswered on_answered;
} KubePatchRequest;

/* The first two are set by the owner, the others are zero at first. */
typedef struct KubePatch {
        KubeClient *client;
        void *userdata;

        KubeCall *call; /* NULL: none is under way */
        KubePatchAnswered on_answered;
        KubePatchVerb verb;
        char *right; /* that the call needs */
        uint64_t digest;
        Repeat repeat;
        unsigned n_failures;  /* in a row; a conflict is none */
        unsigned n_conflicts; /* in a row; the owner may take a newer object as the end of them, and
                               * an answer without a version as one more */
        uint64_t rest_usec;   /* nothing is sent before; by the monotonic clock */
} KubePatch;

/* Sends it at once; none may be under way. */
int kube_patch_send(KubePatch *patch, const KubePatchRequest *request);

/* When this may be sent; 0: at any time. */
uint64_t kube_patch_when_usec(const KubePatch *patch, uint64_t digest);

/* The answer was of no use: one more failure, and the pause after it. reply may be NULL. */
void kube_patch_fail(KubePatch *patch, const KubeReply *reply);

/* The write was in vain: one more conflict, and the pause after it. */
void kube_patch_conflict(KubePatch *patch, const KubeReply *reply);

/* Nothing is sent for so long. */
void kube_patch_rest(KubePatch *patch, uint64_t usec);

/* What was to be written is there, or is not to be written any more. A GET that succeeds is no sign
 * that the write after it will. */
void kube_patch_succeed(KubePatch *patch);

/* Drops the call, if there is one: its answer does not count. */
void kube_patch_cancel(KubePatch *patch);
void kube_patch_done(KubePatch *patch);

/* Versions are numbers in all API servers there are; where they are not, none is older. */
bool kube_version_is_older(const char *version, const char *than);
