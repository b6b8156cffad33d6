/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the runtime is asked for in one attempt
 *
 * The same image with one credential after the other. Without any it is asked for anonymously, with
 * some it never is.
 */

#include "agent/image/pull-keys.h"
#include "cri/types.h"

typedef Runtime__V1__PodSandboxConfig__LabelsEntry SandboxLabel;
typedef Runtime__V1__PodSandboxConfig__AnnotationsEntry SandboxAnnotation;

/* All zero: not ready. Stays where it is, since its parts point to each other. */
typedef struct PullRequest {
        PullKeys keys;
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

/* Takes the keys over. The desired image and the reference are borrowed as long as the request lives. */
int pull_request_init(PullRequest *request, const DesiredImage *desired, const ImageRef *ref,
                      const char *reference, PullKeys *keys);
void pull_request_done(PullRequest *request);

const CriPullRequest *pull_request_message(const PullRequest *request);

/* Where the credential that is used now comes from, or NULL if the pull is anonymous. */
const char *pull_request_source(const PullRequest *request);

/* False: there is none left, and the request stays as it was. */
bool pull_request_next_credential(PullRequest *request);
