/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is wrong on this node, and how to correct it
 *
 * One list for doctor, status and /readyz. It is made when it is asked for, and keeps nothing.
 */

#include "agent/auth/docker-config.h"
#include "agent/base/diagnosis-visitor.h"
#include "agent/image/images.h"
#include "agent/node/images-dir.h"
#include "agent/node/state-file.h"

/* Borrowed; any may be NULL while the agent starts. */
typedef struct DiagnosisSubject {
        const Runtimes *runtimes;
        const Images *images;
        const ImagesDir *images_dir;
        AuthDir *auth_dir;
        const StateFile *state_file;
        const char *images_path;
        DiagnosisSource cluster;       /* instead of an images folder */
        DiagnosisSource pods;          /* in a cluster */
        DiagnosisSource files;         /* who else may write or read them */
        DiagnosisSource groups;        /* who may use the socket */
        DiagnosisSource configuration; /* as it is on disk now */
} DiagnosisSubject;

/* For a status, which shows the images by itself. */
int diagnosis_visit(const DiagnosisSubject *subject, const DiagnosisVisitor *visitor);

/* For the doctor: the same, the images that are not there, and whether inplaced would start again. */
int diagnosis_visit_all(const DiagnosisSubject *subject, const DiagnosisVisitor *visitor);

/* The sentence about the runtime that counts: the chosen one, or why there is none. Borrowed from
 * the runtimes. */
const char *diagnosis_runtime_sentence(const Runtimes *runtimes);

/* The agent can do what it is there for. If not, *ret_why is one sentence, borrowed. */
bool diagnosis_is_ready(const DiagnosisSubject *subject, const char **ret_why);
