/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/secret-answer.h"

#include <errno.h>
#include <stdlib.h>

int secret_answer_new(SecretText *text, const Error *error, SecretAnswer **ret) {
        SecretAnswer *answer;

        answer = malloc(sizeof(*answer));
        if (!answer)
                return -ENOMEM;

        *answer = (SecretAnswer){ .n_owners = 1, .text = SECRET_TEXT_INIT, .error = ERROR_INIT };
        if (error) {
                (void) error_copy(&answer->error, error);
        } else {
                answer->text = *text;
                *text = SECRET_TEXT_INIT;
        }

        *ret = answer;
        return 0;
}

SecretAnswer *secret_answer_ref(SecretAnswer *answer) {
        answer->n_owners++;
        return answer;
}

SecretAnswer *secret_answer_unref(SecretAnswer *answer) {
        if (!answer || --answer->n_owners > 0)
                return NULL;

        secret_text_done(&answer->text);
        error_done(&answer->error);
        free(answer);
        return NULL;
}
