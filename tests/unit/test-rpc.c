/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Client and server together, in one process on one event loop
 */

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/base/cleanup.h"
#include "agent/rpc/client.h"
#include "agent/rpc/server.h"
#include "agent/rpc/wire.h"
#include "proto/inplaced/v1/node.pb-c.h"

#define TIMEOUT_USEC ((uint64_t) 60 * 1000000)
#define N_CALLS 200
#define N_CALLS_OF_USER_MAX 64
#define N_MESSAGES 1000
#define LARGE_SIZE (20 * 1024 * 1024)

typedef Inplaced__V1__CancelRequest CancelRequest;
typedef Inplaced__V1__CancelResponse CancelResponse;
typedef Inplaced__V1__PreloadRequest PreloadRequest;
typedef Inplaced__V1__PreloadEvent PreloadEvent;
typedef Inplaced__V1__GetVersionRequest VersionRequest;
typedef Inplaced__V1__GetVersionResponse VersionReply;

#define TYPE(name) (&inplaced__v1__##name##__descriptor)

static const RpcMethod cancel = { "/inplaced.v1.Node/Cancel", TYPE(cancel_response), NULL, NULL };
static const RpcMethod preload = { "/inplaced.v1.Node/Preload", TYPE(preload_event), NULL, NULL };
static const RpcMethod version = { "/inplaced.v1.Node/GetVersion", TYPE(get_version_response),
                                   "key", "value" };
static const RpcMethod missing = { "/inplaced.v1.Node/Missing", TYPE(cancel_response), NULL, NULL };

/* What the handlers have seen is only compared in the tests, so that a failure leaves no handler. */
typedef struct Fixture {
        char folder[32];
        char path[64];
        int listening;
        int served; /* another descriptor of the server's connection */
        sd_event *event;
        CompletionQueue *completions;
        RpcServer *server;
        RpcClient *client;
        RpcCall *calls[N_CALLS];

        uid_t uid;     /* the next connection is this user's, and not ours */
        Error refusal; /* and refused */

        ErrorKind refuse_with; /* what the server does; ERROR_NONE: it replies */
        bool holds;            /* it keeps the requests instead */
        size_t reply_size;     /* of the reply to GetVersion */
        unsigned n_requested;  /* messages of a stream */

        RpcRequest *held[N_CALLS]; /* requests that were not answered, or streams */
        unsigned n_served;
        unsigned n_held;
        unsigned n_sent;
        unsigned n_gone;

        unsigned n_done; /* what the client has seen */
        unsigned n_messages;
        unsigned n_in_order;
        unsigned n_closed;
        unsigned n_observed;
        unsigned n_canceled; /* of the last reply */
        ErrorKind kind;      /* of the last error */
        char message[256];
        ErrorKind observed;
        size_t size;
} Fixture;

/* The server's side. */

static int refuse(const Fixture *fixture, RpcRequest *request) {
        cleanup(error_done) Error error = ERROR_INIT;

        (void) error_set(&error, fixture->refuse_with, "no: %s", rpc_request_path(request));
        return rpc_request_refuse(request, &error);
}

static int hold(Fixture *fixture, RpcRequest *request) {
        fixture->held[fixture->n_held++] = request;
        return 0;
}

static int serve_cancel(RpcRequest *request, const void *message, void *userdata) {
        const CancelRequest *question = message;
        CancelResponse reply = INPLACED__V1__CANCEL_RESPONSE__INIT;
        Fixture *fixture = userdata;

        fixture->n_served++;
        if (fixture->holds)
                return hold(fixture, request);
        if (fixture->refuse_with != ERROR_NONE)
                return refuse(fixture, request);

        reply.canceled = (uint32_t) strlen(question->image);
        return rpc_request_reply(request, &reply.base);
}

static int serve_version(RpcRequest *request, const void *message, void *userdata) {
        VersionReply reply = INPLACED__V1__GET_VERSION_RESPONSE__INIT;
        Fixture *fixture = userdata;
        cleanup(free_p) char *text = malloc(fixture->reply_size + 1);

        fixture->n_served++;
        memset(text, 'x', fixture->reply_size);
        text[fixture->reply_size] = '\0';
        reply.version = text;
        return rpc_request_reply(request, &reply.base);
}

/* Sends numbered messages until there are as many as requested. */
static int on_ready(RpcRequest *request, void *userdata) {
        PreloadEvent message = INPLACED__V1__PRELOAD_EVENT__INIT;
        Fixture *fixture = userdata;
        cleanup(error_done) Error error = ERROR_INIT;

        if (fixture->n_sent < fixture->n_requested) {
                message.bytes_done = fixture->n_sent++;
                return rpc_request_send(request, &message.base);
        }
        if (fixture->holds)
                return 0;

        fixture->held[0] = NULL;
        if (fixture->refuse_with == ERROR_NONE)
                return rpc_request_finish(request, NULL);

        (void) error_set(&error, fixture->refuse_with, "no more");
        return rpc_request_finish(request, &error);
}

static int on_gone(RpcRequest *request, void *userdata) {
        Fixture *fixture = userdata;

        fixture->n_gone++;
        for (size_t i = 0; i < N_CALLS; i++)
                if (fixture->held[i] == request)
                        fixture->held[i] = NULL;
        return rpc_request_finish(request, NULL);
}

static int serve_preload(RpcRequest *request, const void *message, void *userdata) {
        Fixture *fixture = userdata;

        fixture->n_served++;
        (void) hold(fixture, request);
        rpc_request_open_stream(request, on_ready, on_gone, fixture);
        return 0;
}

static const RpcService services[] = {
        { "/inplaced.v1.Node/Cancel", TYPE(cancel_request), serve_cancel },
        { "/inplaced.v1.Node/Preload", TYPE(preload_request), serve_preload },
        { "/inplaced.v1.Node/GetVersion", TYPE(get_version_request), serve_version },
};

/* The client's side. */

static int on_done(const void *reply, const Error *error, void *userdata) {
        Fixture *fixture = userdata;

        fixture->n_done++;
        fixture->kind = error ? error->kind : ERROR_NONE;
        snprintf(fixture->message, sizeof(fixture->message), "%s",
                 error ? error_message(error) : "");
        return 0;
}

static int on_canceled(const void *reply, const Error *error, void *userdata) {
        const CancelResponse *answer = reply;
        Fixture *fixture = userdata;

        if (answer)
                fixture->n_canceled = answer->canceled;
        return on_done(reply, error, userdata);
}

static int on_version(const void *reply, const Error *error, void *userdata) {
        const VersionReply *answer = reply;
        Fixture *fixture = userdata;

        if (answer)
                fixture->size = strlen(answer->version);
        return on_done(reply, error, userdata);
}

static int on_message(const void *message, void *userdata) {
        const PreloadEvent *event = message;
        Fixture *fixture = userdata;

        fixture->n_in_order += event->bytes_done == fixture->n_messages;
        fixture->n_messages++;
        return 0;
}

static int on_closed(void *userdata) {
        Fixture *fixture = userdata;

        fixture->n_closed++;
        return 0;
}

static void on_observed(const RpcMethod *method, uint64_t duration_usec, ErrorKind result,
                        void *userdata) {
        Fixture *fixture = userdata;

        fixture->n_observed++;
        fixture->observed = result;
}

static void call_cancel(Fixture *fixture, size_t i, const RpcMethod *method, const char *image,
                        uint64_t timeout_usec) {
        CancelRequest request = INPLACED__V1__CANCEL_REQUEST__INIT;

        request.image = (char *) image;
        assert_int_equal(rpc_call_unary(fixture->client, method, &request.base, timeout_usec,
                                        on_canceled, fixture, &fixture->calls[i]),
                         0);
}

static void call_version(Fixture *fixture, size_t i) {
        VersionRequest request = INPLACED__V1__GET_VERSION_REQUEST__INIT;

        assert_int_equal(rpc_call_unary(fixture->client, &version, &request.base, RPC_NO_TIMEOUT,
                                        on_version, fixture, &fixture->calls[i]),
                         0);
}

static void call_preload(Fixture *fixture, size_t i) {
        PreloadRequest request = INPLACED__V1__PRELOAD_REQUEST__INIT;

        assert_int_equal(rpc_call_stream(fixture->client, &preload, &request.base, RPC_NO_TIMEOUT,
                                         on_message, on_done, fixture, &fixture->calls[i]),
                         0);
}

/* Both together. */

static uint64_t now_usec(void) {
        struct timespec now;

        (void) clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t) now.tv_sec * 1000000 + (uint64_t) now.tv_nsec / 1000;
}

/* Runs the loop until a count is what it should be. */
static void wait_for(const Fixture *fixture, const unsigned *count, unsigned expected) {
        uint64_t end = now_usec() + TIMEOUT_USEC;

        while (*count < expected && now_usec() < end)
                assert_true(sd_event_run(fixture->event, 100000) >= 0);
        assert_int_equal(*count, expected);
}

static void assert_ended(const Fixture *fixture, ErrorKind kind) {
        assert_string_equal(error_kind_to_string(fixture->kind), error_kind_to_string(kind));
}

static void listen_on_path(Fixture *fixture) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };

        strcpy(address.sun_path, fixture->path);
        fixture->listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(fixture->listening >= 0);
        assert_int_equal(bind(fixture->listening, (struct sockaddr *) &address, sizeof(address)),
                         0);
        assert_int_equal(listen(fixture->listening, 8), 0);
}

static void connect_client(Fixture *fixture) {
        RpcChannel *channel;
        Peer peer;
        int fd;

        assert_int_equal(rpc_client_connect(fixture->completions, fixture->path, on_closed, fixture,
                                            &fixture->client, NULL),
                         0);
        fd = accept4(fixture->listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        assert_true(fd >= 0);
        close_p(&fixture->served);
        fixture->served = dup(fd);
        assert_int_equal(peer_read(fd, &peer), 0);
        peer.uid = fixture->uid ?: peer.uid;
        assert_int_equal(rpc_server_add_connection(fixture->server, fd, &peer,
                                                   fixture->refusal.kind == ERROR_NONE
                                                           ? NULL
                                                           : &fixture->refusal,
                                                   &channel),
                         0);
}

static int set_up(void **state) {
        Fixture *fixture = calloc(1, sizeof(*fixture));

        assert_non_null(fixture);
        fixture->served = -1;
        strcpy(fixture->folder, "/tmp/rpc-XXXXXX");
        assert_non_null(mkdtemp(fixture->folder));
        sprintf(fixture->path, "%s/socket", fixture->folder);
        listen_on_path(fixture);

        assert_true(sd_event_new(&fixture->event) >= 0);
        assert_int_equal(completion_queue_new(fixture->event, &fixture->completions), 0);
        assert_int_equal(rpc_server_new(fixture->completions, services,
                                        sizeof(services) / sizeof(services[0]), fixture,
                                        &fixture->server),
                         0);
        connect_client(fixture);
        *state = fixture;
        return 0;
}

/* As at the end of the agent, whatever is still in flight. */
static void shut_down(Fixture *fixture) {
        for (size_t i = 0; i < N_CALLS; i++) {
                fixture->calls[i] = rpc_call_unref(fixture->calls[i]);
                fixture->held[i] = rpc_request_unref(fixture->held[i]);
        }
        fixture->client = rpc_client_free(fixture->client);
        fixture->server = rpc_server_free(fixture->server);
        fixture->completions = completion_queue_free(fixture->completions);
        fixture->event = sd_event_unref(fixture->event);
}

static int tear_down(void **state) {
        Fixture *fixture = *state;

        if (fixture->completions)
                shut_down(fixture);
        close_p(&fixture->served);
        close_p(&fixture->listening);
        (void) unlink(fixture->path);
        assert_int_equal(rmdir(fixture->folder), 0);
        free(fixture);
        return 0;
}

static void test_reply(void **state) {
        Fixture *fixture = *state;

        call_cancel(fixture, 0, &cancel, "nginx", RPC_NO_TIMEOUT);
        assert_int_equal(fixture->n_done, 0);
        wait_for(fixture, &fixture->n_done, 1);
        assert_ended(fixture, ERROR_NONE);
        assert_int_equal(fixture->n_canceled, strlen("nginx"));
}

static void test_one_after_the_other(void **state) {
        Fixture *fixture = *state;
        char image[N_CALLS + 1] = "";

        for (unsigned i = 0; i < N_CALLS; i++) {
                image[i] = 'x';
                call_cancel(fixture, i, &cancel, image, RPC_NO_TIMEOUT);
                wait_for(fixture, &fixture->n_done, i + 1);
                assert_int_equal(fixture->n_canceled, i + 1);
        }
}

/* The server refuses what exceeds its limit of calls, and ends the connection if the client has not
 * known it in time; with the first reply it does. */
static void call_many(Fixture *fixture) {
        call_cancel(fixture, 0, &cancel, "x", RPC_NO_TIMEOUT);
        wait_for(fixture, &fixture->n_done, 1);
        for (size_t i = 1; i < N_CALLS; i++)
                call_cancel(fixture, i, &cancel, "x", RPC_NO_TIMEOUT);
}

static void test_many_at_once(void **state) {
        Fixture *fixture = *state;

        call_many(fixture);
        wait_for(fixture, &fixture->n_done, N_CALLS);
        assert_ended(fixture, ERROR_NONE);
        assert_int_equal(fixture->n_served, N_CALLS);
}

/* The client gets the reason of the server's refusal. */
static ErrorKind current_kind;

static int set_up_refusal(void **state) {
        current_kind = *(const ErrorKind *) *state;
        return set_up(state);
}

static void test_refusal(void **state) {
        Fixture *fixture = *state;

        fixture->refuse_with = current_kind;
        call_cancel(fixture, 0, &cancel, "x", RPC_NO_TIMEOUT);
        wait_for(fixture, &fixture->n_done, 1);
        assert_ended(fixture, current_kind);
        assert_string_equal(fixture->message, "no: /inplaced.v1.Node/Cancel");

        call_preload(fixture, 1);
        wait_for(fixture, &fixture->n_done, 2);
        assert_ended(fixture, current_kind);
        assert_string_equal(fixture->message, "no more");
}

static void test_unknown_method(void **state) {
        Fixture *fixture = *state;

        call_cancel(fixture, 0, &missing, "x", RPC_NO_TIMEOUT);
        wait_for(fixture, &fixture->n_done, 1);
        assert_ended(fixture, ERROR_UNSUPPORTED);
        assert_non_null(strstr(fixture->message, "no such method"));
        assert_int_equal(fixture->n_served, 0);
}

/* A number where a text should be. */
static void test_request_that_cannot_be_read(void **state) {
        Fixture *fixture = *state;
        CancelResponse request = INPLACED__V1__CANCEL_RESPONSE__INIT;

        request.canceled = 7;
        assert_int_equal(rpc_call_unary(fixture->client, &cancel, &request.base, RPC_NO_TIMEOUT,
                                        on_done, fixture, &fixture->calls[0]),
                         0);
        wait_for(fixture, &fixture->n_done, 1);
        assert_ended(fixture, ERROR_INVALID);
        assert_int_equal(fixture->n_served, 0);
}

static void test_reply_that_cannot_be_read(void **state) {
        const RpcMethod wrong = { cancel.path, TYPE(cancel_request), NULL, NULL };
        Fixture *fixture = *state;

        call_cancel(fixture, 0, &wrong, "x", RPC_NO_TIMEOUT);
        wait_for(fixture, &fixture->n_done, 1);
        assert_ended(fixture, ERROR_INTERNAL);
        assert_non_null(strstr(fixture->message, "cannot be read"));
}

static void test_message_that_cannot_be_read(void **state) {
        const RpcMethod wrong = { preload.path, TYPE(image), NULL, NULL };
        PreloadRequest request = INPLACED__V1__PRELOAD_REQUEST__INIT;
        Fixture *fixture = *state;

        fixture->n_sent = 1; /* messages that are not empty */
        fixture->n_requested = UINT32_MAX;
        assert_int_equal(rpc_call_stream(fixture->client, &wrong, &request.base, RPC_NO_TIMEOUT,
                                         on_message, on_done, fixture, &fixture->calls[0]),
                         0);
        wait_for(fixture, &fixture->n_done, 1);
        assert_ended(fixture, ERROR_INTERNAL);
        assert_non_null(strstr(fixture->message, "cannot be read"));
        assert_int_equal(fixture->n_messages, 0);
        wait_for(fixture, &fixture->n_gone, 1);
}

static void test_large_reply(void **state) {
        Fixture *fixture = *state;

        fixture->reply_size = 15 * 1024 * 1024;
        call_version(fixture, 0);
        wait_for(fixture, &fixture->n_done, 1);
        assert_ended(fixture, ERROR_NONE);
        assert_int_equal(fixture->size, 15 * 1024 * 1024);
}

/* No peer makes us hold more than our limit; the connection goes on. */
static void test_too_large_reply(void **state) {
        Fixture *fixture = *state;

        fixture->reply_size = LARGE_SIZE;
        call_version(fixture, 0);
        wait_for(fixture, &fixture->n_done, 1);
        assert_ended(fixture, ERROR_INTERNAL);
        assert_int_equal(fixture->size, 0);

        fixture->reply_size = 3;
        call_version(fixture, 1);
        wait_for(fixture, &fixture->n_done, 2);
        assert_ended(fixture, ERROR_NONE);
        assert_int_equal(fixture->size, 3);
}

static void test_too_large_request(void **state) {
        Fixture *fixture = *state;
        cleanup(free_p) char *image = malloc(LARGE_SIZE + 1);

        memset(image, 'x', LARGE_SIZE);
        image[LARGE_SIZE] = '\0';
        call_cancel(fixture, 0, &cancel, image, RPC_NO_TIMEOUT);
        wait_for(fixture, &fixture->n_done, 1);
        assert_ended(fixture, ERROR_INTERNAL);
        assert_int_equal(fixture->n_served, 0);

        call_cancel(fixture, 1, &cancel, "x", RPC_NO_TIMEOUT);
        wait_for(fixture, &fixture->n_done, 2);
        assert_ended(fixture, ERROR_NONE);
}

static void test_stream(void **state) {
        Fixture *fixture = *state;

        fixture->n_requested = N_MESSAGES;
        call_preload(fixture, 0);
        wait_for(fixture, &fixture->n_done, 1);
        assert_ended(fixture, ERROR_NONE);
        assert_int_equal(fixture->n_messages, N_MESSAGES);
        assert_int_equal(fixture->n_in_order, N_MESSAGES);
        assert_int_equal(fixture->n_gone, 0);
}

static void test_empty_stream(void **state) {
        Fixture *fixture = *state;

        call_preload(fixture, 0);
        wait_for(fixture, &fixture->n_done, 1);
        assert_ended(fixture, ERROR_NONE);
        assert_int_equal(fixture->n_messages, 0);
}

static void test_stream_that_is_refused_at_the_end(void **state) {
        Fixture *fixture = *state;

        fixture->n_requested = 10;
        fixture->refuse_with = ERROR_NOT_FOUND;
        call_preload(fixture, 0);
        wait_for(fixture, &fixture->n_done, 1);
        assert_ended(fixture, ERROR_NOT_FOUND);
        assert_int_equal(fixture->n_messages, 10);
}

static void test_caller_goes_away(void **state) {
        Fixture *fixture = *state;

        fixture->n_requested = 3;
        fixture->holds = true;
        call_preload(fixture, 0);
        wait_for(fixture, &fixture->n_messages, 3);
        assert_int_equal(fixture->n_gone, 0);

        fixture->calls[0] = rpc_call_unref(fixture->calls[0]);
        wait_for(fixture, &fixture->n_gone, 1);
        assert_int_equal(fixture->n_done, 0);
        assert_int_equal(fixture->n_messages, 3);
}

/* While messages are on their way, too. */
static void test_caller_goes_away_in_the_middle(void **state) {
        Fixture *fixture = *state;
        unsigned n_messages;

        fixture->n_requested = UINT32_MAX;
        call_preload(fixture, 0);
        wait_for(fixture, &fixture->n_served, 1);
        while (fixture->n_messages < 10)
                assert_true(sd_event_run(fixture->event, 100000) >= 0);

        n_messages = fixture->n_messages;
        fixture->calls[0] = rpc_call_unref(fixture->calls[0]);
        wait_for(fixture, &fixture->n_gone, 1);
        assert_int_equal(fixture->n_messages, n_messages);
        assert_int_equal(fixture->n_done, 0);
}

/* As when the process of the caller is killed. */
static void test_connection_of_the_caller_ends(void **state) {
        Fixture *fixture = *state;

        fixture->holds = true;
        call_preload(fixture, 0);
        wait_for(fixture, &fixture->n_held, 1);
        assert_int_equal(shutdown(fixture->served, SHUT_RDWR), 0);
        wait_for(fixture, &fixture->n_gone, 1);
}

/* The server's answer comes too late for its caller. */
static void test_unreferenced_before_its_answer(void **state) {
        Fixture *fixture = *state;
        CancelResponse reply = INPLACED__V1__CANCEL_RESPONSE__INIT;

        fixture->holds = true;
        call_cancel(fixture, 0, &cancel, "x", RPC_NO_TIMEOUT);
        wait_for(fixture, &fixture->n_held, 1);
        fixture->calls[0] = rpc_call_unref(fixture->calls[0]);
        assert_int_equal(rpc_request_reply(take_ptr(fixture->held[0]), &reply.base), 0);

        fixture->holds = false;
        call_cancel(fixture, 1, &cancel, "x", RPC_NO_TIMEOUT);
        wait_for(fixture, &fixture->n_served, 2);
        wait_for(fixture, &fixture->n_done, 1);
        assert_ended(fixture, ERROR_NONE);
}

/* A connection above the limit gets the reason, whatever it asks for. */
static void test_connection_is_refused(void **state) {
        Fixture *fixture = *state;

        fixture->client = rpc_client_free(fixture->client);
        (void) error_set(&fixture->refusal, ERROR_UNAVAILABLE, "too many of you");
        connect_client(fixture);
        error_done(&fixture->refusal);
        call_cancel(fixture, 0, &cancel, "x", RPC_NO_TIMEOUT);
        wait_for(fixture, &fixture->n_done, 1);
        assert_ended(fixture, ERROR_UNAVAILABLE);
        assert_string_equal(fixture->message, "too many of you");
        call_preload(fixture, 1);
        wait_for(fixture, &fixture->n_done, 2);
        assert_string_equal(fixture->message, "too many of you");
        assert_int_equal(fixture->n_served, 0);
}

/* A user other than root has so many calls, over all connections, and the next one when one ends. */
static void test_calls_of_a_user_are_limited(void **state) {
        Fixture *fixture = *state;

        RpcClient *first = NULL;

        if (geteuid() != 0)
                skip(); /* else it is us that is root */

        fixture->client = rpc_client_free(fixture->client);
        fixture->uid = 12345;
        connect_client(fixture);
        fixture->holds = true;
        for (unsigned i = 0; i < N_CALLS_OF_USER_MAX; i++) {
                if (i == N_CALLS_OF_USER_MAX / 2) {
                        first = fixture->client;
                        connect_client(fixture);
                }
                call_cancel(fixture, i, &cancel, "x", RPC_NO_TIMEOUT);
                wait_for(fixture, &fixture->n_held, i + 1);
        }
        call_cancel(fixture, N_CALLS_OF_USER_MAX, &cancel, "x", RPC_NO_TIMEOUT);
        wait_for(fixture, &fixture->n_done, 1);
        assert_ended(fixture, ERROR_UNAVAILABLE);
        assert_non_null(strstr(fixture->message, "user 12345 has too many calls: 64"));

        fixture->held[0] = rpc_request_unref(fixture->held[0]);
        wait_for(fixture, &fixture->n_done, 2);
        fixture->holds = false;
        call_cancel(fixture, N_CALLS_OF_USER_MAX + 1, &cancel, "x", RPC_NO_TIMEOUT);
        wait_for(fixture, &fixture->n_done, 3);
        assert_ended(fixture, ERROR_NONE);
        for (size_t i = 0; i < N_CALLS_OF_USER_MAX / 2; i++)
                fixture->calls[i] = rpc_call_unref(fixture->calls[i]);
        rpc_client_free(first);
}

/* Whose connection it came by is known for each request. */
static void test_peer(void **state) {
        Fixture *fixture = *state;

        fixture->holds = true;
        call_cancel(fixture, 0, &cancel, "x", RPC_NO_TIMEOUT);
        wait_for(fixture, &fixture->n_held, 1);
        fixture->client = rpc_client_free(fixture->client);
        fixture->uid = 12345;
        connect_client(fixture);
        call_cancel(fixture, 1, &cancel, "x", RPC_NO_TIMEOUT);
        wait_for(fixture, &fixture->n_held, 2);
        assert_int_equal(rpc_request_peer(fixture->held[0])->uid, geteuid());
        assert_int_equal(rpc_request_peer(fixture->held[0])->pid, getpid());
        assert_int_equal(rpc_request_peer(fixture->held[1])->uid, 12345);
}

/* An observer is notified of what happened, not about what we did. */
static void test_observer(void **state) {
        Fixture *fixture = *state;

        rpc_client_set_observer(fixture->client, on_observed, fixture);
        fixture->refuse_with = ERROR_DENIED;
        call_cancel(fixture, 0, &cancel, "x", RPC_NO_TIMEOUT);
        wait_for(fixture, &fixture->n_done, 1);
        assert_int_equal(fixture->n_observed, 1);
        assert_int_equal(fixture->observed, ERROR_DENIED);

        call_preload(fixture, 1);
        wait_for(fixture, &fixture->n_done, 2);
        assert_int_equal(fixture->n_observed, 2);

        fixture->holds = true;
        call_cancel(fixture, 2, &cancel, "x", RPC_NO_TIMEOUT);
        wait_for(fixture, &fixture->n_held, 2);
        fixture->calls[2] = rpc_call_unref(fixture->calls[2]);
        fixture->held[1] = rpc_request_unref(fixture->held[1]);

        fixture->holds = false;
        fixture->refuse_with = ERROR_NONE;
        call_cancel(fixture, 3, &cancel, "x", RPC_NO_TIMEOUT);
        wait_for(fixture, &fixture->n_done, 3);
        assert_int_equal(fixture->n_observed, 3);
        assert_int_equal(fixture->observed, ERROR_NONE);
}

/* A request without an answer is a call that is canceled, not one that hangs. */
static void test_request_is_dropped(void **state) {
        Fixture *fixture = *state;

        fixture->holds = true;
        call_cancel(fixture, 0, &cancel, "x", RPC_NO_TIMEOUT);
        wait_for(fixture, &fixture->n_held, 1);
        fixture->held[0] = rpc_request_unref(fixture->held[0]);
        wait_for(fixture, &fixture->n_done, 1);
        assert_ended(fixture, ERROR_CANCELED);
}

static void test_time_out(void **state) {
        Fixture *fixture = *state;

        fixture->holds = true;
        call_cancel(fixture, 0, &cancel, "x", 20000);
        wait_for(fixture, &fixture->n_done, 1);
        assert_ended(fixture, ERROR_TIMEOUT);
        assert_int_equal(fixture->n_closed, 0);
}

static void test_server_vanishes(void **state) {
        Fixture *fixture = *state;

        fixture->holds = true;
        call_cancel(fixture, 0, &cancel, "x", RPC_NO_TIMEOUT);
        call_preload(fixture, 1);
        wait_for(fixture, &fixture->n_held, 2);
        assert_true(rpc_client_is_connected(fixture->client));

        assert_int_equal(shutdown(fixture->served, SHUT_RDWR), 0);
        assert_false(rpc_client_is_connected(fixture->client));
        wait_for(fixture, &fixture->n_closed, 1);
        wait_for(fixture, &fixture->n_done, 2);
        assert_ended(fixture, ERROR_UNAVAILABLE);
}

/* It stays closed, even though a server listens there again. */
static void test_dead_client_stays_dead(void **state) {
        Fixture *fixture = *state;

        assert_int_equal(shutdown(fixture->served, SHUT_RDWR), 0);
        wait_for(fixture, &fixture->n_closed, 1);
        for (unsigned i = 0; i < 3; i++) {
                call_cancel(fixture, i, &cancel, "x", RPC_NO_TIMEOUT);
                wait_for(fixture, &fixture->n_done, i + 1);
                assert_ended(fixture, ERROR_UNAVAILABLE);
                fixture->kind = ERROR_NONE;
        }
        assert_int_equal(fixture->n_served, 0);
        assert_int_equal(fixture->n_closed, 1);
        assert_false(rpc_client_is_connected(fixture->client));
}

static void test_another_client(void **state) {
        Fixture *fixture = *state;

        assert_int_equal(shutdown(fixture->served, SHUT_RDWR), 0);
        wait_for(fixture, &fixture->n_closed, 1);
        fixture->client = rpc_client_free(fixture->client);
        connect_client(fixture);
        call_cancel(fixture, 0, &cancel, "x", RPC_NO_TIMEOUT);
        wait_for(fixture, &fixture->n_done, 1);
        assert_ended(fixture, ERROR_NONE);
}

/* A server that stops ends all connections, and accepts no more. */
static void test_server_is_freed(void **state) {
        Fixture *fixture = *state;
        unsigned n_served;

        call_many(fixture);
        while (fixture->n_served < 2) /* one turn of the loop may serve more */
                assert_true(sd_event_run(fixture->event, 100000) >= 0);

        n_served = fixture->n_served;
        fixture->server = rpc_server_free(fixture->server);
        wait_for(fixture, &fixture->n_done, N_CALLS);
        assert_int_equal(fixture->n_served, n_served);
        wait_for(fixture, &fixture->n_closed, 1);
}

/* Calls outlive their client, as the header says. */
static void test_client_is_freed(void **state) {
        Fixture *fixture = *state;

        call_cancel(fixture, 0, &cancel, "nginx", RPC_NO_TIMEOUT);
        fixture->client = rpc_client_free(fixture->client);
        wait_for(fixture, &fixture->n_done, 1);
        assert_int_equal(fixture->n_closed, 0);
}

/* What is in flight at the end of the agent, at whatever stage, is canceled and freed. */
static void test_shutdown_in_flight(void **state) {
        Fixture *fixture = *state;

        fixture->holds = true;
        fixture->n_requested = UINT32_MAX;
        for (size_t i = 0; i < 10; i++) {
                call_cancel(fixture, i, &cancel, "x", RPC_NO_TIMEOUT);
                call_preload(fixture, 10 + i);
        }
        while (fixture->n_held < 5 || fixture->n_messages < 5)
                assert_true(sd_event_run(fixture->event, 100000) >= 0);
        for (size_t i = 0; i < 100; i++)
                call_cancel(fixture, 20 + i, &cancel, "x", RPC_NO_TIMEOUT);

        shut_down(fixture);
        assert_int_equal(fixture->n_done, 0);
        assert_int_equal(fixture->n_gone, 0);
}

static void test_shutdown_at_once(void **state) {
        Fixture *fixture = *state;

        for (size_t i = 0; i < N_CALLS; i++)
                call_cancel(fixture, i, &cancel, "x", RPC_NO_TIMEOUT);
        shut_down(fixture);
        assert_int_equal(fixture->n_done, 0);
}

static void assert_no_connection(Fixture *fixture, const char *path, ErrorKind kind,
                                 const char *words) {
        cleanup(error_done) Error error = ERROR_INIT;
        RpcClient *client = NULL;

        assert_true(rpc_client_connect(fixture->completions, path, NULL, NULL, &client, &error) <
                    0);
        assert_null(client);
        assert_string_equal(error_kind_to_string(error.kind), error_kind_to_string(kind));
        assert_non_null(strstr(error_message(&error), path));
        assert_non_null(strstr(error_message(&error), words));
}

static void test_no_server_to_connect_to(void **state) {
        Fixture *fixture = *state;
        char path[200];

        sprintf(path, "%s/none", fixture->folder);
        assert_no_connection(fixture, path, ERROR_UNAVAILABLE, "no such file");

        close_p(&fixture->listening);
        fixture->listening = -1;
        assert_no_connection(fixture, fixture->path, ERROR_UNAVAILABLE, "nothing listens");

        memset(path, 'x', sizeof(path));
        path[sizeof(path) - 1] = '\0';
        assert_no_connection(fixture, path, ERROR_INVALID, "107 bytes");
}

static void test_not_allowed_to_connect(void **state) {
        Fixture *fixture = *state;

        if (geteuid() != 0)
                skip(); /* only root can be another user */

        assert_int_equal(chmod(fixture->folder, 0755), 0);
        assert_int_equal(chmod(fixture->path, 0600), 0);
        assert_int_equal(seteuid(12345), 0);
        assert_no_connection(fixture, fixture->path, ERROR_DENIED, "permission denied");
        assert_int_equal(seteuid(0), 0);
}

static void test_statuses(void **state) {
        assert_int_equal(wire_error_kind(GRPC_STATUS_UNAUTHENTICATED), ERROR_DENIED);
        assert_int_equal(wire_error_kind(GRPC_STATUS_RESOURCE_EXHAUSTED), ERROR_INTERNAL);
        assert_int_equal(wire_error_kind((grpc_status_code) 99), ERROR_INTERNAL);
        assert_string_equal(wire_status_to_string(GRPC_STATUS_UNKNOWN), "UNKNOWN");
        assert_non_null(wire_status_to_string((grpc_status_code) 99));
        for (int status = 0; status <= 16; status++)
                assert_true((wire_error_kind((grpc_status_code) status) == ERROR_NONE) ==
                            (status == GRPC_STATUS_OK));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

static const struct CMUnitTest tests[] = {
        TEST(test_reply),
        TEST(test_one_after_the_other),
        TEST(test_many_at_once),
        TEST(test_unknown_method),
        TEST(test_request_that_cannot_be_read),
        TEST(test_reply_that_cannot_be_read),
        TEST(test_message_that_cannot_be_read),
        TEST(test_large_reply),
        TEST(test_too_large_reply),
        TEST(test_too_large_request),
        TEST(test_stream),
        TEST(test_empty_stream),
        TEST(test_stream_that_is_refused_at_the_end),
        TEST(test_caller_goes_away),
        TEST(test_caller_goes_away_in_the_middle),
        TEST(test_connection_of_the_caller_ends),
        TEST(test_unreferenced_before_its_answer),
        TEST(test_connection_is_refused),
        TEST(test_calls_of_a_user_are_limited),
        TEST(test_peer),
        TEST(test_observer),
        TEST(test_request_is_dropped),
        TEST(test_time_out),
        TEST(test_server_vanishes),
        TEST(test_dead_client_stays_dead),
        TEST(test_another_client),
        TEST(test_server_is_freed),
        TEST(test_client_is_freed),
        TEST(test_shutdown_in_flight),
        TEST(test_shutdown_at_once),
        TEST(test_no_server_to_connect_to),
        TEST(test_not_allowed_to_connect),
        cmocka_unit_test(test_statuses),
};

/* As main() would: gRPC's threads must not take the signals. */
static void block_signals(void) {
        sigset_t all;

        sigfillset(&all);
        assert_int_equal(sigprocmask(SIG_BLOCK, &all, NULL), 0);
}

int main(void) {
        struct CMUnitTest rows[_ERROR_KIND_MAX];
        ErrorKind kinds[_ERROR_KIND_MAX];
        size_t n = 0;

        for (ErrorKind kind = ERROR_INVALID; kind < _ERROR_KIND_MAX; kind++) {
                kinds[n] = kind;
                rows[n] = (struct CMUnitTest){
                        .name = error_kind_to_string(kind),
                        .test_func = test_refusal,
                        .setup_func = set_up_refusal,
                        .teardown_func = tear_down,
                        .initial_state = &kinds[n],
                };
                n++;
        }

        block_signals();
        return cmocka_run_group_tests_name("rpc", tests, NULL, NULL) +
               _cmocka_run_group_tests("refusal", rows, n, NULL, NULL);
}
