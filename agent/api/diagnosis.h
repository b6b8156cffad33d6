/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The problems of this node, with advice
 *
 * One list for doctor, status and /readyz. Each call makes it anew; nothing is kept.
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
        DiagnosisSource cluster;       /* problems of the cluster, instead of an images folder */
        DiagnosisSource pods;          /* problems of pods, in a cluster */
        DiagnosisSource pins;          /* pins that are not in effect */
        DiagnosisSource files;         /* other users who may write or read the agent's files */
        DiagnosisSource groups;        /* groups that may use the socket */
        DiagnosisSource configuration; /* configuration on disk */
} DiagnosisSubject;

/* Visits the problems for a status, which shows the images itself. */
int diagnosis_visit(const DiagnosisSubject *subject, const DiagnosisVisitor *visitor);

/* Visits the problems for the doctor: adds missing images, and whether inplaced would start
 * again. */
int diagnosis_visit_all(const DiagnosisSubject *subject, const DiagnosisVisitor *visitor);

/* Returns a sentence about the chosen runtime, or why there is none. Borrowed from the runtimes. */
const char *diagnosis_runtime_sentence(const Runtimes *runtimes);

/* The agent can pull images and restart containers. If not, *ret_why is one sentence, borrowed. */
bool diagnosis_is_ready(const DiagnosisSubject *subject, const char **ret_why);

/* Whether only the NodeImage requests the image: if it has failed, its tag needs a new version. */
bool diagnosis_is_of_node_image(const Image *image);
