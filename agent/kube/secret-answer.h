/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What was learnt about a pull secret, shared by all who asked for it
 *
 * The text is wiped when the last owner lets go of it.
 */

#include "agent/base/cleanup.h"
#include "agent/kube/secret-spec.h"

typedef struct SecretAnswer {
        unsigned n_owners;
        SecretText text;
        Error error; /* unset: there is a text */
} SecretAnswer;

/* Takes the text over, or copies the error. The caller is the only owner. */
int secret_answer_new(SecretText *text, const Error *error, SecretAnswer **ret);
SecretAnswer *secret_answer_ref(SecretAnswer *answer);
SecretAnswer *secret_answer_unref(SecretAnswer *answer);

DEFINE_CLEANUP(SecretAnswer *, secret_answer_unref)
