/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The client of the API server, without a server
 *
 * It stands at the interface of agent/kube/client.h, and keeps the calls that run, for the test to
 * inspect and to answer. Everything above, such as watches, writes and events, is the real code. There
 * is one client, and it is taken whichever is named. To be included once.
 */

#include "agent/kube/client.h"
#include "tests/unit/unit.h"

#define FAKE_KUBE_CALLS_MAX 256
#define FAKE_KUBE_PIECE_SIZE 7 /* size of a piece of a body */

struct KubeCall {
        KubeRequest request; /* request with texts of our own */
        unsigned number;     /* from 1; no other one has it */
};

struct KubeClient {
        sd_event *event;
        KubeCall *calls[FAKE_KUBE_CALLS_MAX]; /* running calls, in the order in which they began */
        size_t n_calls;
        unsigned n_begun;
        Error trouble;
        bool is_unknown;     /* the server does not know who we are */
        int64_t server_usec; /* the server's time; 0: it has not said so */
};

static KubeClient fake_kube;

static inline char *fake_kube_copy(const char *text) {
        return text ? strdup(text) : NULL;
}

int kube_call(KubeClient *client, const KubeRequest *request, KubeCall **ret) {
        KubeCall *call = calloc(1, sizeof(*call));

        assert_non_null(call);
        assert_true(fake_kube.n_calls < FAKE_KUBE_CALLS_MAX);
        call->request = *request;
        call->request.method = fake_kube_copy(request->method);
        call->request.path = fake_kube_copy(request->path);
        call->request.accept = fake_kube_copy(request->accept);
        call->request.content_type = fake_kube_copy(request->content_type);
        call->request.body = fake_kube_copy(request->body);
        fake_kube.calls[fake_kube.n_calls++] = call;
        call->number = ++fake_kube.n_begun;
        *ret = call;
        return 0;
}

KubeCall *kube_call_unref(KubeCall *call) {
        size_t i = 0;

        if (!call)
                return NULL;

        while (fake_kube.calls[i] != call)
                assert_true(++i < fake_kube.n_calls);
        memmove(fake_kube.calls + i, fake_kube.calls + i + 1,
                (--fake_kube.n_calls - i) * sizeof(fake_kube.calls[0]));
        free((char *) call->request.method);
        free((char *) call->request.path);
        free((char *) call->request.accept);
        free((char *) call->request.content_type);
        free((char *) call->request.body);
        free(call);
        return NULL;
}

sd_event *kube_client_event(const KubeClient *client) {
        return fake_kube.event;
}

const Error *kube_client_trouble(const KubeClient *client) {
        return fake_kube.trouble.kind == ERROR_NONE ? NULL : &fake_kube.trouble;
}

bool kube_client_is_in_trouble(const KubeClient *client) {
        return fake_kube.trouble.kind != ERROR_NONE || fake_kube.is_unknown;
}

bool kube_client_server_usec(const KubeClient *client, int64_t *ret) {
        *ret = fake_kube.server_usec;
        return fake_kube.server_usec > 0;
}

/* The call of that number; NULL: it does not run any more. */
static inline KubeCall *fake_kube_call_of(unsigned number) {
        for (size_t i = 0; i < fake_kube.n_calls; i++)
                if (fake_kube.calls[i]->number == number)
                        return fake_kube.calls[i];

        return NULL;
}

/* Finds the oldest call whose path has that part; method: NULL for any. Returns NULL if there is none. */
static inline KubeCall *fake_kube_find(const char *method, const char *part) {
        for (size_t i = 0; i < fake_kube.n_calls; i++) {
                const KubeRequest *request = &fake_kube.calls[i]->request;

                if (strstr(request->path, part) &&
                    (!method || strcmp(request->method, method) == 0))
                        return fake_kube.calls[i];
        }

        return NULL;
}

static inline ErrorKind fake_kube_kind(int code) {
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

static inline int fake_kube_accept(KubeCall *call) {
        return call->request.on_accepted(call->request.userdata);
}

/* A piece of a body. The memory is gone right after, as curl's would be. */
static inline int fake_kube_send(KubeCall *call, const void *data, size_t size) {
        cleanup(free_p) char *copy = malloc(size);

        assert_non_null(copy);
        memcpy(copy, data, size);
        return call->request.on_data(copy, size, call->request.userdata);
}

/* Gives the body out piece by piece. Whether it was taken. */
static inline bool fake_kube_stream(KubeCall *call, const char *body, size_t size) {
        for (size_t i = 0; i < size; i += FAKE_KUBE_PIECE_SIZE) {
                size_t n = size - i < FAKE_KUBE_PIECE_SIZE ? size - i : FAKE_KUBE_PIECE_SIZE;

                if (fake_kube_send(call, body + i, n) < 0)
                        return false;
        }

        return true;
}

/* Ends the call; the error is borrowed, NULL for none. */
static inline int fake_kube_end(KubeCall *call, const KubeReply *reply, const Error *error) {
        return call->request.on_replied(reply, error, call->request.userdata);
}

/* Answers the call, with a code of 0 as if no server did. */
static inline int fake_kube_reply(KubeCall *call, KubeReply reply) {
        cleanup(error_done) Error error = ERROR_INIT;
        bool is_good = reply.code >= 200 && reply.code < 300;

        assert_non_null(call);
        if (is_good && call->request.on_data) {
                is_good = fake_kube_stream(call, reply.body, reply.size);
                reply.body = "";
                reply.size = 0;
                if (!is_good)
                        error_set(&error, ERROR_CANCELED, "canceled");
        } else if (!is_good) {
                error_set(&error, fake_kube_kind(reply.code), "code %d", reply.code);
        }

        return fake_kube_end(call, &reply, is_good ? NULL : &error);
}

static inline int fake_kube_answer_call(KubeCall *call, int code, const char *body) {
        return fake_kube_reply(call,
                               (KubeReply){ .code = code, .body = body, .size = strlen(body) });
}

/* Does so with the oldest call. */
static inline int fake_kube_answer(int code, const char *body) {
        assert_true(fake_kube.n_calls > 0);
        return fake_kube_answer_call(fake_kube.calls[0], code, body);
}

static inline void fake_kube_open(void) {
        fake_kube = (KubeClient){ .trouble = ERROR_INIT };
        assert_true(sd_event_new(&fake_kube.event) >= 0);
}

/* All calls have to be dropped by now. */
static inline void fake_kube_close(void) {
        assert_int_equal(fake_kube.n_calls, 0);
        error_done(&fake_kube.trouble);
        fake_kube.event = sd_event_unref(fake_kube.event);
}
