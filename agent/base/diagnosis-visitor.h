/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Problems of a part of the agent, and advice for each
 *
 * Each part that can fail reports its problems in this form on request.
 */

#include <stdbool.h>

/* The texts are borrowed during the call. */
typedef struct DiagnosisVisitor {
        int (*on_problem)(const char *subject, const char *message, const char *advice,
                          void *userdata);
        int (*on_fact)(const char *subject, const char *value, void *userdata);
        void *userdata;
} DiagnosisVisitor;

/* A part that can report its problems. All NULL: there is none. */
typedef struct DiagnosisSource {
        int (*visit)(const void *source, const DiagnosisVisitor *visitor);
        /* Whether the part works. If not, *ret_why is one sentence, borrowed. */
        bool (*is_ready)(const void *source, const char **ret_why);
        /* Returns the peer that the part talks to, in words; borrowed. */
        const char *(*target)(const void *source);
        const void *source;
} DiagnosisSource;
