/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/inplace/image-ids.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/image/image-ref.h"
#include "cri/client.h"

#define CALLS_MAX 8

typedef struct Question {
        ImageIds *ids;
        char *reference;
        size_t same_as; /* index of the first question with this reference */
        RpcCall *call;
} Question;

struct ImageIds {
        RpcClient *client;
        Question *questions;
        char **answers; /* NULL: none */
        size_t n_questions, n_begun, n_running;
        Error error;
        ImageIdsDone on_done;
        void *userdata;
};

DEFINE_CLEANUP(ImageIds *, image_ids_free)

static int ids_finish(ImageIds *ids) {
        for (size_t i = 0; i < ids->n_questions; i++) {
                const char *answer = ids->answers[ids->questions[i].same_as];

                if (ids->questions[i].same_as == i || !answer)
                        continue;

                ids->answers[i] = strdup(answer);
                if (!ids->answers[i])
                        return -ENOMEM;
        }

        return ids->on_done((const char *const *) ids->answers,
                            ids->error.kind != ERROR_NONE ? &ids->error : NULL, ids->userdata);
}

static int ids_continue(ImageIds *ids);

static int on_status(const void *reply, const Error *error, void *userdata) {
        Question *question = userdata;
        const CriImageStatus *status = reply;
        ImageIds *ids = question->ids;
        char *answer;
        int r;

        question->call = rpc_call_unref(question->call);
        ids->n_running--;
        if (error) {
                if (ids->error.kind == ERROR_NONE)
                        (void) error_copy(&ids->error, error);
        } else {
                r = image_id_normalize(status->image ? status->image->id : "", &answer);
                if (r < 0)
                        return r;
                ids->answers[question - ids->questions] = answer;
        }

        r = ids_continue(ids);
        if (r < 0)
                return r;

        return ids->n_running == 0 ? ids_finish(ids) : 0;
}

static int ids_continue(ImageIds *ids) {
        for (; ids->n_begun < ids->n_questions && ids->n_running < CALLS_MAX; ids->n_begun++) {
                Question *question = &ids->questions[ids->n_begun];
                int r;

                if (question->same_as != ids->n_begun)
                        continue;

                r = cri_image_status(ids->client, question->reference, on_status, question,
                                     &question->call);
                if (r < 0)
                        return r;

                ids->n_running++;
        }

        return 0;
}

/* Adds the tag that is left out, as the kubelet does: runtimes may take "cafe" for the beginning of an ID. */
static int copy_with_tag(const char *reference, char **ret) {
        static const char latest[] = ":latest";
        const char *tail = strrchr(reference, ':');
        ImageRef ref;
        bool has_tag;

        if (image_ref_parse(reference, SHORT_NAMES_SEARCHED, &ref, NULL) < 0)
                return text_copy(reference, ret);

        has_tag = ref.digest[0] || strcmp(ref.tag, latest + 1) != 0 || text_equal(tail, latest);
        return text_format(ret, "%s%s", reference, has_tag ? "" : latest);
}

static int ids_add(ImageIds *ids, const char *reference) {
        Question *question = &ids->questions[ids->n_questions];
        int r;

        *question = (Question){ .ids = ids };
        r = copy_with_tag(reference, &question->reference);
        if (r < 0)
                return r;

        while (question->same_as < ids->n_questions &&
               strcmp(ids->questions[question->same_as].reference, question->reference) != 0)
                question->same_as++;
        ids->n_questions++;
        return 0;
}

int image_ids_new(RpcClient *client, const char *const *references, size_t n_references,
                  ImageIdsDone on_done, void *userdata, ImageIds **ret) {
        cleanup(image_ids_free_p) ImageIds *ids = NULL;
        int r;

        ids = malloc(sizeof(*ids));
        if (!ids)
                return -ENOMEM;

        *ids = (ImageIds){
                .client = client,
                .questions = calloc(n_references, sizeof(*ids->questions)),
                .answers = calloc(n_references, sizeof(*ids->answers)),
                .on_done = on_done,
                .userdata = userdata,
        };
        if (!ids->questions || !ids->answers)
                return -ENOMEM;

        for (size_t i = 0; i < n_references; i++) {
                r = ids_add(ids, references[i]);
                if (r < 0)
                        return r;
        }

        r = ids_continue(ids);
        if (r < 0)
                return r;

        *ret = take_ptr(ids);
        return 0;
}

ImageIds *image_ids_free(ImageIds *ids) {
        if (!ids)
                return NULL;

        for (size_t i = 0; i < ids->n_questions; i++) {
                rpc_call_unref(ids->questions[i].call);
                free(ids->questions[i].reference);
                free(ids->answers[i]);
        }
        error_done(&ids->error);
        free(ids->questions);
        free(ids->answers);
        free(ids);
        return NULL;
}

Verdict verdict_of(const char *reference_id, const char *running_id) {
        if (!reference_id || !reference_id[0] || !running_id || !running_id[0])
                return VERDICT_UNKNOWN;

        return image_id_equal(reference_id, running_id) ? VERDICT_CURRENT : VERDICT_STALE;
}
