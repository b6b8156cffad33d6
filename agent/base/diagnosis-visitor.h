/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is wrong with a part of the agent, and what to do about it
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

/* A part that can be asked. All NULL: there is none. */
typedef struct DiagnosisSource {
        int (*visit)(const void *source, const DiagnosisVisitor *visitor);
        /* It does what it is there for. If not, *ret_why is one sentence, borrowed. */
        bool (*is_ready)(const void *source, const char **ret_why);
        /* What it is about, in words; borrowed. */
        const char *(*target)(const void *source);
        const void *source;
} DiagnosisSource;
