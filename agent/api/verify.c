/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdlib.h>

#include "agent/api/calls.h"
#include "agent/base/cleanup.h"
#include "agent/inplace/verify.h"

#define VERIFICATIONS_MAX 256 /* more than all users but root have calls */

typedef Inplaced__V1__VerifyRequest VerifyMessage;
typedef Inplaced__V1__VerifiedContainer ContainerMessage;

/* A caller that waits for the verdicts. */
struct Verification {
        LIST_LINKS(Verification);
        Api *api;
        RpcRequest *request;
        Verify *verify;
};

/* clang-format off */
static const Inplaced__V1__Verdict verdicts[_VERDICT_MAX] = {
        [VERDICT_UNKNOWN] = INPLACED__V1__VERDICT__VERDICT_UNKNOWN,
        [VERDICT_CURRENT] = INPLACED__V1__VERDICT__VERDICT_CURRENT,
        [VERDICT_STALE]   = INPLACED__V1__VERDICT__VERDICT_STALE,
};
/* clang-format on */

void verification_drop(Verification *verification) {
        list_remove(&verification->api->verifications, verification);
        verification->api->n_verifications--;
        verify_free(verification->verify);
        rpc_request_unref(verification->request);
        free(verification);
}

static const char *environment_of(const Api *api, const VerifyRow *row) {
        InPlaceEnvironment environment = INPLACE_ENVIRONMENT_NONE;

        if (api->meta)
                environment = inplace_environment(api->meta, row->namespace, row->pod, row->uid,
                                                  row->container);

        return environment == INPLACE_ENVIRONMENT_NONE ? ""
                                                       : inplace_environment_to_string(environment);
}

static void container_message_init(ContainerMessage *message, const Api *api,
                                   const VerifyRow *row) {
        inplaced__v1__verified_container__init(message);
        message->namespace_ = plain_text(row->namespace);
        message->pod = plain_text(row->pod);
        message->container = plain_text(row->container);
        message->reference = plain_text(row->reference);
        message->reference_id = plain_text(row->reference_id);
        message->running_id = plain_text(row->running_id);
        message->verdict = verdicts[row->verdict];
        message->environment = (char *) environment_of(api, row);
        message->message = plain_text(row->message);
}

static int reply_with(Api *api, RpcRequest *request, const VerifyRow *rows, size_t n_rows) {
        Inplaced__V1__VerifyResponse reply = INPLACED__V1__VERIFY_RESPONSE__INIT;
        cleanup(free_p) ContainerMessage *items = calloc(n_rows + 1, sizeof(items[0]));
        cleanup(free_p) ContainerMessage **list = calloc(n_rows + 1, sizeof(list[0]));

        if (!items || !list) {
                rpc_request_unref(request);
                return -ENOMEM;
        }

        for (size_t i = 0; i < n_rows; i++) {
                container_message_init(&items[i], api, &rows[i]);
                list[i] = &items[i];
        }

        reply.containers = list;
        reply.n_containers = n_rows;
        return api_reply(api, request, &reply.base);
}

static int on_verified(const VerifyRow *rows, size_t n_rows, const Error *error, void *userdata) {
        Verification *verification = userdata;
        RpcRequest *request = take_ptr(verification->request);
        Verify *verify = take_ptr(verification->verify);
        Api *api = verification->api;
        int r;

        verification_drop(verification);
        r = error ? api_refuse(api, request, error->kind, error_message(error))
                  : reply_with(api, request, rows, n_rows);
        verify_free(verify); /* it owned the rows and the error */
        return r;
}

int api_verify(RpcRequest *request, const void *message, void *userdata) {
        const VerifyMessage *asked = message;
        Verification *verification;
        Api *api = userdata;

        if (api->n_verifications == VERIFICATIONS_MAX)
                return api_refuse(api, request, ERROR_UNAVAILABLE,
                                  "too many callers ask at the same time; try again later");
        if (!runtimes_are_alive(api->runtimes))
                return api_refuse(api, request, ERROR_UNAVAILABLE,
                                  diagnosis_runtime_sentence(api->runtimes));

        verification = calloc(1, sizeof(*verification));
        if (!verification)
                return -ENOMEM;

        verification->api = api;
        verification->request = request;
        list_prepend(&api->verifications, verification);
        api->n_verifications++;
        return verify_new(
                &(VerifyOptions){
                        .client = runtimes_client(api->runtimes),
                        .runtime_name = runtime_name(runtimes_chosen(api->runtimes)),
                        .pods = api->pods,
                        .namespace = asked->namespace_[0] ? asked->namespace_ : NULL,
                        .pod = asked->pod[0] ? asked->pod : NULL,
                        .on_done = on_verified,
                        .userdata = verification,
                },
                &verification->verify);
}
