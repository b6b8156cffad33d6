/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A container runtime, without a runtime
 *
 * Keeps the calls that run, for the test to inspect and to answer. It stands at the interface of cri/:
 * to be included once by a test that needs nothing else of cri/ and of agent/rpc/client.h.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cri/client.h"
#include "cri/content.h"
#include "cri/runtimes.h"

#define FAKE_RUNTIME_CALLS_MAX 64

struct RpcCall {
        bool is_running;
        const char *method; /* "PullImage" */
        char target[192];   /* a reference, or an ID */
        RpcDone done;
        void *userdata;
};

static struct {
        RpcCall calls[FAKE_RUNTIME_CALLS_MAX];
        bool is_away;
        bool returns;     /* as soon as that was noticed */
        unsigned n_pulls; /* calls of PullImage so far */
} fake_runtime;

static inline void fake_runtime_reset(void) {
        memset(&fake_runtime, 0, sizeof(fake_runtime));
}

static inline int fake_runtime_call(const char *method, const char *target, RpcDone done,
                                    void *userdata, RpcCall **ret) {
        for (size_t i = 0; i < FAKE_RUNTIME_CALLS_MAX; i++) {
                RpcCall *call = &fake_runtime.calls[i];

                if (call->is_running)
                        continue;

                *call = (RpcCall){
                        .is_running = true, .method = method, .done = done, .userdata = userdata
                };
                snprintf(call->target, sizeof(call->target), "%s", target);
                *ret = call;
                return 0;
        }

        fail_msg("too many calls of %s", method);
        return 0;
}

/* The call of this method that runs, or NULL. */
static inline RpcCall *fake_runtime_find(const char *method) {
        for (size_t i = 0; i < FAKE_RUNTIME_CALLS_MAX; i++)
                if (fake_runtime.calls[i].is_running &&
                    strcmp(fake_runtime.calls[i].method, method) == 0)
                        return &fake_runtime.calls[i];

        return NULL;
}

static inline unsigned fake_runtime_n_calls(void) {
        unsigned n = 0;

        for (size_t i = 0; i < FAKE_RUNTIME_CALLS_MAX; i++)
                n += fake_runtime.calls[i].is_running;
        return n;
}

/* Answers the call of this method, which must be there. */
static inline void fake_runtime_answer(const char *method, const void *reply, const Error *error) {
        RpcCall *call = fake_runtime_find(method);

        if (!call)
                fail_msg("no call of %s", method);
        else
                assert_int_equal(call->done(reply, error, call->userdata), 0);
}

static inline void fake_runtime_refuse(const char *method, ErrorKind kind, const char *message) {
        Error error = { .kind = kind, .message = (char *) message };

        fake_runtime_answer(method, NULL, &error);
}

/* The image under the reference that is asked for; NULL: there is none. */
static inline void fake_runtime_answer_status(const char *id) {
        CriImage image = RUNTIME__V1__IMAGE__INIT;
        CriImageStatus status = RUNTIME__V1__IMAGE_STATUS_RESPONSE__INIT;

        image.id = (char *) id;
        status.image = id ? &image : NULL;
        fake_runtime_answer("ImageStatus", &status, NULL);
}

static inline void fake_runtime_answer_pull(const char *id) {
        CriPullReply reply = RUNTIME__V1__PULL_IMAGE_RESPONSE__INIT;

        reply.image_ref = (char *) id;
        fake_runtime_answer("PullImage", &reply, NULL);
}

int cri_image_status(RpcClient *client, const char *reference, RpcDone done, void *userdata,
                     RpcCall **ret) {
        return fake_runtime_call("ImageStatus", reference, done, userdata, ret);
}

int cri_pull_image(RpcClient *client, const CriPullRequest *request, uint64_t timeout_usec,
                   RpcDone done, void *userdata, RpcCall **ret) {
        fake_runtime.n_pulls++;
        return fake_runtime_call("PullImage", request->image->image, done, userdata, ret);
}

int content_list_ingests(RpcClient *client, RpcDone done, void *userdata, RpcCall **ret) {
        return fake_runtime_call("ListIngests", "", done, userdata, ret);
}

int content_list(RpcClient *client, const char *const *filters, size_t n_filters,
                 RpcMessage on_list, RpcDone done, void *userdata, RpcCall **ret) {
        return fake_runtime_call("List", "", done, userdata, ret);
}

int content_read(RpcClient *client, const char *digest, RpcMessage on_part, RpcDone done,
                 void *userdata, RpcCall **ret) {
        return fake_runtime_call("Read", digest, done, userdata, ret);
}

RpcCall *rpc_call_unref(RpcCall *call) {
        if (call)
                call->is_running = false;
        return NULL;
}

RpcClient *runtimes_client(const Runtimes *runtimes) {
        return fake_runtime.is_away ? NULL : (RpcClient *) &fake_runtime;
}

bool runtimes_are_alive(const Runtimes *runtimes) {
        bool is_away = fake_runtime.is_away;

        if (fake_runtime.returns)
                fake_runtime.is_away = false;
        return !is_away;
}

Runtime *runtimes_chosen(const Runtimes *runtimes) {
        return (Runtime *) &fake_runtime;
}

unsigned runtime_n_connects(const Runtime *runtime) {
        return 1;
}
