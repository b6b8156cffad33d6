/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The client of the API server, without a server
 *
 * Keeps what is asked of it, for the test to inspect and to answer. To be included once by a test
 * that is built without client.c and retry.c.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/kube/client.h"
#include "agent/kube/retry.h"

#define FAKE_CALLS_MAX 256
#define FAKE_PIECE_SIZE 7 /* of a body */

struct KubeCall {
        KubeClient *client;
        KubeRequest request;
};

struct KubeClient {
        sd_event *event;
        KubeCall *calls[FAKE_CALLS_MAX]; /* that run, in the order in which they began */
        size_t n_calls;
        size_t n_begun;
        uint64_t retry_usec; /* what kube_retry_usec() says */
};

static KubeClient fake = { .retry_usec = 1000 };

static inline char *fake_copy(const char *text) {
        return text ? strdup(text) : NULL;
}

int kube_call(KubeClient *client, const KubeRequest *request, KubeCall **ret) {
        KubeCall *call = calloc(1, sizeof(*call));

        assert_non_null(call);
        assert_true(client->n_calls < FAKE_CALLS_MAX);
        call->client = client;
        call->request = *request;
        call->request.method = fake_copy(request->method);
        call->request.path = fake_copy(request->path);
        call->request.body = fake_copy(request->body);
        client->calls[client->n_calls++] = call;
        client->n_begun++;
        *ret = call;
        return 0;
}

KubeCall *kube_call_unref(KubeCall *call) {
        KubeClient *client;
        size_t i = 0;

        if (!call)
                return NULL;

        client = call->client;
        while (client->calls[i] != call)
                i++;
        memmove(client->calls + i, client->calls + i + 1,
                (client->n_calls - i - 1) * sizeof(client->calls[0]));
        client->n_calls--;
        free((char *) call->request.method);
        free((char *) call->request.path);
        free((char *) call->request.body);
        free(call);
        return NULL;
}

sd_event *kube_client_event(const KubeClient *client) {
        return client->event;
}

bool kube_is_retriable(const KubeReply *reply, const Error *error) {
        return reply->code == 0 ? error->kind != ERROR_CANCELED
                                : reply->code == 429 || reply->code >= 500;
}

uint64_t kube_retry_usec(unsigned n_failures, const KubeReply *reply, uint32_t random) {
        return reply && reply->retry_after_usec ? reply->retry_after_usec : fake.retry_usec;
}

static inline ErrorKind fake_kind(int code) {
        switch (code) {
        case 400:
        case 422: return ERROR_INVALID;
        case 401:
        case 403: return ERROR_DENIED;
        case 404: return ERROR_NOT_FOUND;
        case 409: return ERROR_CONFLICT;
        default: return ERROR_UNAVAILABLE;
        }
}

/* Gives the body out piece by piece. Whether it was taken. */
static inline bool fake_stream(const KubeRequest *request, const char *body, size_t size) {
        for (size_t i = 0; i < size; i += FAKE_PIECE_SIZE) {
                size_t n = size - i < FAKE_PIECE_SIZE ? size - i : FAKE_PIECE_SIZE;

                if (request->on_data(body + i, n, request->userdata) < 0)
                        return false;
        }

        return true;
}

/* Answers the oldest call, with a code of 0 as if no server did. */
static inline int fake_answer_full(KubeReply reply) {
        const KubeRequest request = fake.calls[0]->request;
        bool is_good = reply.code >= 200 && reply.code < 300;
        Error error = ERROR_INIT;
        int r;

        if (is_good && request.on_data) {
                is_good = fake_stream(&request, reply.body, reply.size);
                reply.body = "";
                reply.size = 0;
                if (!is_good)
                        error_set(&error, ERROR_CANCELED, "canceled");
        } else if (!is_good) {
                error_set(&error, fake_kind(reply.code), "code %d", reply.code);
        }

        r = request.on_replied(&reply, is_good ? NULL : &error, request.userdata);
        error_done(&error);
        return r;
}

static inline int fake_answer(int code, const char *body) {
        return fake_answer_full((KubeReply){ .code = code, .body = body, .size = strlen(body) });
}

static inline void fake_open(void) {
        assert_true(sd_event_new(&fake.event) >= 0);
        fake.n_begun = 0;
}

static inline void fake_close(void) {
        assert_int_equal(fake.n_calls, 0);
        fake.event = sd_event_unref(fake.event);
}

/* Runs whatever is due now. */
static inline void fake_turn(void) {
        while (sd_event_run(fake.event, 0) > 0)
                ;
}

/* Runs until a call waits for an answer. */
static inline void fake_wait_for_call(void) {
        while (fake.n_calls == 0)
                assert_true(sd_event_run(fake.event, 60 * 1000000) > 0);
}
