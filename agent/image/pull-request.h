/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Request of one attempt to the runtime, and verification of its answer
 *
 * An attempt tries one credential after the other; only without any it pulls anonymously. The engine
 * asks for the credentials before each attempt, because they may have been corrected or have expired.
 * Reading them may take time: a file, the API server, another program.
 */

#include <stdbool.h>

#include "agent/base/error.h"
#include "agent/image/credentials.h"
#include "agent/image/desired-image.h"
#include "agent/image/image-ref.h"
#include "agent/image/image-status.h"
#include "cri/types.h"

/* Keyrings to try, in this order. */
typedef struct PullCredentials {
        Keyring *named;   /* credentials of the desired image's own pull secrets; or NULL */
        Keyring *general; /* credentials of the node; or NULL */
        char *lacking;    /* why no named pull secret is there; NULL: one is, or none is named */
} PullCredentials;

void pull_credentials_done(PullCredentials *keys);

typedef struct PullCredentialsAsk PullCredentialsAsk;

typedef struct PullCredentialsQuestion {
        const DesiredImage *desired;
        const ImageRef *ref;
        bool was_denied; /* the last attempt was denied: cached credentials will not do */
} PullCredentialsQuestion;

/* The keys may be taken out of *keys. Refuses if none of the named pull secrets can be read, though
 * some are there. May drop the ask. Runs once, not from within ask(). */
typedef int (*PullCredentialsReady)(PullCredentials *keys, const Error *error, void *userdata);

/* Interface that hides the sources of credentials from the engine. */
typedef struct PullCredentialsSource {
        /* The question is borrowed during the call. */
        int (*ask)(void *source, const PullCredentialsQuestion *question,
                   PullCredentialsReady on_ready, void *userdata, PullCredentialsAsk **ret);
        /* on_ready does not run any more; returns NULL. Does nothing to NULL. */
        PullCredentialsAsk *(*drop)(PullCredentialsAsk *ask);
        void *source;
} PullCredentialsSource;

typedef Runtime__V1__PodSandboxConfig__LabelsEntry SandboxLabel;
typedef Runtime__V1__PodSandboxConfig__AnnotationsEntry SandboxAnnotation;

/* All zero: not ready. It must not be moved, since its parts point to each other. */
typedef struct PullRequest {
        PullCredentials keys;
        CredentialList credentials;
        size_t i_credential;

        CriPullRequest message;
        CriImageSpec image;
        CriAuth auth;
        CriSandboxConfig sandbox;
        SandboxLabel *labels;
        SandboxLabel **label_list;
        SandboxAnnotation *annotations;
        SandboxAnnotation **annotation_list;
} PullRequest;

/* Takes the keys over. Drops them if the runtime searches for the name, as it would send them to
 * each registry of its list. The desired image and reference are borrowed while the request
 * lives. */
int pull_request_init(PullRequest *request, const DesiredImage *desired, const ImageRef *ref,
                      const char *reference, PullCredentials *keys);
void pull_request_done(PullRequest *request);

const CriPullRequest *pull_request_message(const PullRequest *request);

/* Moves to the next credential. False: there is none left, and the request stays as it was. */
bool pull_request_next_credential(PullRequest *request);

/* Whether what the runtime shows can be reported as the truth: an ID only if it is one, and an image
 * that was asked for by digest only if the runtime holds that very digest.
 *
 * digest: what was asked for, or NULL or "" if it was a tag. Refuses with ERROR_INVALID. */
int pull_verify_image(const CriImage *image, const char *digest, Error *reterr);

/* The same, and then records ID, digests, and the names that a searched name may stand for, only of
 * the repository that PullImage answered if it did. answer: "repository@digest", an image ID, or
 * NULL. With is_digest_wanted it records the digests that a tag's repository has of the
 * image: more than one where the same content was pushed in several forms. */
int pull_verify_take(const CriImage *image, const ImageRef *ref, bool is_digest_wanted,
                     const char *answer, ImageStatus *status, Error *reterr);
