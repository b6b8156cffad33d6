/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Client and server together, in one process on one event loop
 */

#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "agent/rpc/client.h"
#include "agent/rpc/server.h"
#include "agent/rpc/wire.h"
#include "proto/inplaced/v1/node.pb-c.h"
#include "tests/unit/descriptor-limit.h"
#include "tests/unit/scratch-folder.h"
#include "tests/unit/unit.h"

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

/* State of the handlers, compared in the tests alone, so that a failure leaves no handler. */
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

        ErrorKind refuse_with; /* error that the server refuses with; ERROR_NONE: it replies */
        bool holds;            /* the server keeps the requests instead */
        size_t reply_size;     /* size of the reply to GetVersion */
        unsigned n_requested;  /* messages of a stream */

        RpcRequest *held[N_CALLS]; /* requests that were not answered, or streams */
        unsigned n_served;
        unsigned n_held;
        unsigned n_sent;
        unsigned n_gone;

        unsigned n_done; /* answers that the client has seen */
        unsigned n_messages;
        unsigned n_in_order;
        unsigned n_closed;
        unsigned n_observed;
        unsigned n_canceled; /* canceled calls in the last reply */
        ErrorKind kind;      /* kind of the last error */
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
        assert_ok(rpc_call_unary(fixture->client, method, &request.base, timeout_usec, on_canceled,
                                 fixture, &fixture->calls[i]));
}

static void call_version(Fixture *fixture, size_t i) {
        VersionRequest request = INPLACED__V1__GET_VERSION_REQUEST__INIT;

        assert_ok(rpc_call_unary(fixture->client, &version, &request.base, RPC_NO_TIMEOUT,
                                 on_version, fixture, &fixture->calls[i]));
}

static void call_preload(Fixture *fixture, size_t i) {
        PreloadRequest request = INPLACED__V1__PRELOAD_REQUEST__INIT;

        assert_ok(rpc_call_stream(fixture->client, &preload, &request.base, RPC_NO_TIMEOUT,
                                  on_message, on_done, fixture, &fixture->calls[i]));
}

/* Both together. */

static uint64_t now_usec(void) {
        struct timespec now;

        (void) clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t) now.tv_sec * 1000000 + (uint64_t) now.tv_nsec / 1000;
}

/* Runs the loop until a count has this value. */
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
        assert_ok(bind(fixture->listening, (struct sockaddr *) &address, sizeof(address)));
        assert_ok(listen(fixture->listening, 8));
}

static void connect_client(Fixture *fixture) {
        RpcChannel *channel;
        Peer peer;
        int fd;

        assert_ok(rpc_client_connect(fixture->completions, fixture->path, on_closed, fixture,
                                     &fixture->client, NULL));
        fd = accept4(fixture->listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        assert_true(fd >= 0);
        close_p(&fixture->served);
        fixture->served = dup(fd);
        assert_ok(peer_read(fd, &peer));
        peer.uid = fixture->uid ?: peer.uid;
        assert_ok(rpc_server_add_connection(fixture->server, fd, &peer,
                                            fixture->refusal.kind == ERROR_NONE ? NULL
                                                                                : &fixture->refusal,
                                            &channel));
}

static void open_fixture(Fixture *fixture) {
        fixture->served = -1;
        scratch_make(fixture->folder);
        sprintf(fixture->path, "%s/socket", fixture->folder);
        listen_on_path(fixture);

        assert_true(sd_event_new(&fixture->event) >= 0);
        assert_ok(completion_queue_new(fixture->event, &fixture->completions));
        assert_ok(rpc_server_new(fixture->completions, services, N_ELEMENTS(services), fixture,
                                 &fixture->server));
        connect_client(fixture);
}

/* Frees all as the agent does at its end, with calls in flight. */
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

static void close_fixture(Fixture *fixture) {
        if (fixture->completions)
                shut_down(fixture);
        close_p(&fixture->served);
        close_p(&fixture->listening);
        (void) unlink(fixture->path);
        assert_ok(rmdir(fixture->folder));
}

DEFINE_FIXTURE(Fixture, open_fixture, close_fixture)

TEST_F(test_reply, Fixture *fixture) {
        call_cancel(fixture, 0, &cancel, "nginx", RPC_NO_TIMEOUT);
        assert_int_equal(fixture->n_done, 0);
        wait_for(fixture, &fixture->n_done, 1);
        assert_ended(fixture, ERROR_NONE);
        assert_int_equal(fixture->n_canceled, strlen("nginx"));
}

TEST_F(test_one_after_the_other, Fixture *fixture) {
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

TEST_F(test_many_at_once, Fixture *fixture) {
        call_many(fixture);
        wait_for(fixture, &fixture->n_done, N_CALLS);
        assert_ended(fixture, ERROR_NONE);
        assert_int_equal(fixture->n_served, N_CALLS);
}

static const struct Refusal {
        const char *name;
        ErrorKind kind;
} refusals[] = {
#define REFUSAL(kind) \
        { #kind, kind }
        REFUSAL(ERROR_INVALID),     REFUSAL(ERROR_NOT_FOUND), REFUSAL(ERROR_CONFLICT),
        REFUSAL(ERROR_GONE),        REFUSAL(ERROR_DENIED),    REFUSAL(ERROR_TIMEOUT),
        REFUSAL(ERROR_UNAVAILABLE), REFUSAL(ERROR_CANCELED),  REFUSAL(ERROR_UNSUPPORTED),
        REFUSAL(ERROR_INTERNAL),
};

/* The client gets the reason of the server's refusal. */
TEST_ROWS_F(test_refusal, refusals, name, const struct Refusal *row, Fixture *fixture) {
        fixture->refuse_with = row->kind;
        call_cancel(fixture, 0, &cancel, "x", RPC_NO_TIMEOUT);
        wait_for(fixture, &fixture->n_done, 1);
        assert_ended(fixture, row->kind);
        assert_string_equal(fixture->message, "no: /inplaced.v1.Node/Cancel");

        call_preload(fixture, 1);
        wait_for(fixture, &fixture->n_done, 2);
        assert_ended(fixture, row->kind);
        assert_string_equal(fixture->message, "no more");
}

TEST_F(test_unknown_method, Fixture *fixture) {
        call_cancel(fixture, 0, &missing, "x", RPC_NO_TIMEOUT);
        wait_for(fixture, &fixture->n_done, 1);
        assert_ended(fixture, ERROR_UNSUPPORTED);
        assert_contains(fixture->message, "no such method");
        assert_int_equal(fixture->n_served, 0);
}

/* A number where a text should be. */
TEST_F(test_request_that_cannot_be_read, Fixture *fixture) {
        CancelResponse request = INPLACED__V1__CANCEL_RESPONSE__INIT;

        request.canceled = 7;
        assert_ok(rpc_call_unary(fixture->client, &cancel, &request.base, RPC_NO_TIMEOUT, on_done,
                                 fixture, &fixture->calls[0]));
        wait_for(fixture, &fixture->n_done, 1);
        assert_ended(fixture, ERROR_INVALID);
        assert_int_equal(fixture->n_served, 0);
}

static void call_preload_of(Fixture *fixture, size_t i, size_t n_images, const char *image) {
        PreloadRequest request = INPLACED__V1__PRELOAD_REQUEST__INIT;
        cleanup(free_p) char **images = malloc(n_images * sizeof(images[0]));

        for (size_t k = 0; k < n_images; k++)
                images[k] = (char *) image;
        request.images = images;
        request.n_images = n_images;
        assert_ok(rpc_call_stream(fixture->client, &preload, &request.base, RPC_NO_TIMEOUT,
                                  on_message, on_done, fixture, &fixture->calls[i]));
}

/* The few bytes would take some forty times as many in memory. The largest real request is read. */
TEST_F(test_request_of_many_parts, Fixture *fixture) {
        static const size_t refused[] = { 500000, 120000 };
        char image[500];

        for (size_t i = 0; i < N_ELEMENTS(refused); i++) {
                call_preload_of(fixture, i, refused[i], "");
                wait_for(fixture, &fixture->n_done, (unsigned) i + 1);
                assert_ended(fixture, ERROR_INVALID);
                assert_contains(fixture->message, "cannot be read");
                assert_int_equal(fixture->n_served, 0);
        }

        memset(image, 'x', sizeof(image) - 1);
        image[sizeof(image) - 1] = '\0';
        call_preload_of(fixture, 2, 4096, image);
        wait_for(fixture, &fixture->n_done, 3);
        assert_ended(fixture, ERROR_NONE);
        assert_int_equal(fixture->n_served, 1);
}

TEST_F(test_reply_that_cannot_be_read, Fixture *fixture) {
        const RpcMethod wrong = { cancel.path, TYPE(cancel_request), NULL, NULL };

        call_cancel(fixture, 0, &wrong, "x", RPC_NO_TIMEOUT);
        wait_for(fixture, &fixture->n_done, 1);
        assert_ended(fixture, ERROR_INTERNAL);
        assert_contains(fixture->message, "cannot be read");
}

TEST_F(test_message_that_cannot_be_read, Fixture *fixture) {
        const RpcMethod wrong = { preload.path, TYPE(image), NULL, NULL };
        PreloadRequest request = INPLACED__V1__PRELOAD_REQUEST__INIT;

        fixture->n_sent = 1; /* messages that are not empty */
        fixture->n_requested = UINT32_MAX;
        assert_ok(rpc_call_stream(fixture->client, &wrong, &request.base, RPC_NO_TIMEOUT,
                                  on_message, on_done, fixture, &fixture->calls[0]));
        wait_for(fixture, &fixture->n_done, 1);
        assert_ended(fixture, ERROR_INTERNAL);
        assert_contains(fixture->message, "cannot be read");
        assert_int_equal(fixture->n_messages, 0);
        wait_for(fixture, &fixture->n_gone, 1);
}

TEST_F(test_large_reply, Fixture *fixture) {
        fixture->reply_size = 15 * 1024 * 1024;
        call_version(fixture, 0);
        wait_for(fixture, &fixture->n_done, 1);
        assert_ended(fixture, ERROR_NONE);
        assert_int_equal(fixture->size, 15 * 1024 * 1024);
}

/* No peer makes us hold more than our limit; the connection goes on. */
TEST_F(test_too_large_reply, Fixture *fixture) {
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

TEST_F(test_too_large_request, Fixture *fixture) {
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

TEST_F(test_stream, Fixture *fixture) {
        fixture->n_requested = N_MESSAGES;
        call_preload(fixture, 0);
        wait_for(fixture, &fixture->n_done, 1);
        assert_ended(fixture, ERROR_NONE);
        assert_int_equal(fixture->n_messages, N_MESSAGES);
        assert_int_equal(fixture->n_in_order, N_MESSAGES);
        assert_int_equal(fixture->n_gone, 0);
}

TEST_F(test_empty_stream, Fixture *fixture) {
        call_preload(fixture, 0);
        wait_for(fixture, &fixture->n_done, 1);
        assert_ended(fixture, ERROR_NONE);
        assert_int_equal(fixture->n_messages, 0);
}

TEST_F(test_stream_that_is_refused_at_the_end, Fixture *fixture) {
        fixture->n_requested = 10;
        fixture->refuse_with = ERROR_NOT_FOUND;
        call_preload(fixture, 0);
        wait_for(fixture, &fixture->n_done, 1);
        assert_ended(fixture, ERROR_NOT_FOUND);
        assert_int_equal(fixture->n_messages, 10);
}

TEST_F(test_caller_goes_away, Fixture *fixture) {
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
TEST_F(test_caller_goes_away_in_the_middle, Fixture *fixture) {
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
TEST_F(test_connection_of_the_caller_ends, Fixture *fixture) {
        fixture->holds = true;
        call_preload(fixture, 0);
        wait_for(fixture, &fixture->n_held, 1);
        assert_ok(shutdown(fixture->served, SHUT_RDWR));
        wait_for(fixture, &fixture->n_gone, 1);
}

/* The server's answer comes too late for its caller. */
TEST_F(test_unreferenced_before_its_answer, Fixture *fixture) {
        CancelResponse reply = INPLACED__V1__CANCEL_RESPONSE__INIT;

        fixture->holds = true;
        call_cancel(fixture, 0, &cancel, "x", RPC_NO_TIMEOUT);
        wait_for(fixture, &fixture->n_held, 1);
        fixture->calls[0] = rpc_call_unref(fixture->calls[0]);
        assert_ok(rpc_request_reply(take_ptr(fixture->held[0]), &reply.base));

        fixture->holds = false;
        call_cancel(fixture, 1, &cancel, "x", RPC_NO_TIMEOUT);
        wait_for(fixture, &fixture->n_served, 2);
        wait_for(fixture, &fixture->n_done, 1);
        assert_ended(fixture, ERROR_NONE);
}

/* A connection above the limit gets the reason, for any request. */
TEST_F(test_connection_is_refused, Fixture *fixture) {
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
TEST_F(test_calls_of_a_user_are_limited, Fixture *fixture) {
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
        assert_contains(fixture->message, "user 12345 has too many calls: 64");

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

/* The server knows the connection of each request. */
TEST_F(test_peer, Fixture *fixture) {
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

/* An observer is notified of events, not of our own actions. */
TEST_F(test_observer, Fixture *fixture) {
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
TEST_F(test_request_is_dropped, Fixture *fixture) {
        fixture->holds = true;
        call_cancel(fixture, 0, &cancel, "x", RPC_NO_TIMEOUT);
        wait_for(fixture, &fixture->n_held, 1);
        fixture->held[0] = rpc_request_unref(fixture->held[0]);
        wait_for(fixture, &fixture->n_done, 1);
        assert_ended(fixture, ERROR_CANCELED);
}

TEST_F(test_time_out, Fixture *fixture) {
        fixture->holds = true;
        call_cancel(fixture, 0, &cancel, "x", 20000);
        wait_for(fixture, &fixture->n_done, 1);
        assert_ended(fixture, ERROR_TIMEOUT);
        assert_int_equal(fixture->n_closed, 0);
}

TEST_F(test_server_vanishes, Fixture *fixture) {
        fixture->holds = true;
        call_cancel(fixture, 0, &cancel, "x", RPC_NO_TIMEOUT);
        call_preload(fixture, 1);
        wait_for(fixture, &fixture->n_held, 2);
        assert_true(rpc_client_is_connected(fixture->client));

        assert_ok(shutdown(fixture->served, SHUT_RDWR));
        assert_false(rpc_client_is_connected(fixture->client));
        wait_for(fixture, &fixture->n_closed, 1);
        wait_for(fixture, &fixture->n_done, 2);
        assert_ended(fixture, ERROR_UNAVAILABLE);
}

/* It stays closed, even though a server listens there again. */
TEST_F(test_dead_client_stays_dead, Fixture *fixture) {
        assert_ok(shutdown(fixture->served, SHUT_RDWR));
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

TEST_F(test_another_client, Fixture *fixture) {
        assert_ok(shutdown(fixture->served, SHUT_RDWR));
        wait_for(fixture, &fixture->n_closed, 1);
        fixture->client = rpc_client_free(fixture->client);
        connect_client(fixture);
        call_cancel(fixture, 0, &cancel, "x", RPC_NO_TIMEOUT);
        wait_for(fixture, &fixture->n_done, 1);
        assert_ended(fixture, ERROR_NONE);
}

/* A server that stops ends all connections, and accepts no more. */
TEST_F(test_server_is_freed, Fixture *fixture) {
        unsigned n_served;

        call_many(fixture);
        while (fixture->n_served < 2) /* a turn of the loop may serve several */
                assert_true(sd_event_run(fixture->event, 100000) >= 0);

        n_served = fixture->n_served;
        fixture->server = rpc_server_free(fixture->server);
        wait_for(fixture, &fixture->n_done, N_CALLS);
        assert_int_equal(fixture->n_served, n_served);
        wait_for(fixture, &fixture->n_closed, 1);
}

/* Calls outlive their client, as the header says. */
TEST_F(test_client_is_freed, Fixture *fixture) {
        call_cancel(fixture, 0, &cancel, "nginx", RPC_NO_TIMEOUT);
        fixture->client = rpc_client_free(fixture->client);
        wait_for(fixture, &fixture->n_done, 1);
        assert_int_equal(fixture->n_closed, 0);
}

/* The owner frees the client when the connection breaks, maybe before gRPC has noticed that. */
TEST_F(test_client_is_freed_in_the_middle, Fixture *fixture) {
        fixture->holds = true;
        call_cancel(fixture, 0, &cancel, "nginx", RPC_NO_TIMEOUT);
        wait_for(fixture, &fixture->n_held, 1);
        fixture->client = rpc_client_free(fixture->client);
        wait_for(fixture, &fixture->n_done, 1);
        assert_ended(fixture, ERROR_UNAVAILABLE);
}

/* Calls in flight at the end of the agent, at whatever stage, are canceled and freed. */
TEST_F(test_shutdown_in_flight, Fixture *fixture) {
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

TEST_F(test_shutdown_at_once, Fixture *fixture) {
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
        assert_contains(error_message(&error), path);
        assert_contains(error_message(&error), words);
}

TEST_F(test_no_server_to_connect_to, Fixture *fixture) {
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

/* A passing lack, either of both descriptors of a connection or of the second one. */
TEST_F(test_no_descriptor_to_connect_with, Fixture *fixture) {
        for (unsigned n_left = 0; n_left < 2; n_left++) {
                struct rlimit limit = lower_limit(n_left);

                assert_no_connection(fixture, fixture->path, ERROR_UNAVAILABLE,
                                     "Too many open files");
                assert_ok(setrlimit(RLIMIT_NOFILE, &limit));
        }
}

TEST_F(test_not_allowed_to_connect, Fixture *fixture) {
        if (geteuid() != 0)
                skip(); /* only root can be another user */

        assert_ok(chmod(fixture->folder, 0755));
        assert_ok(chmod(fixture->path, 0600));
        assert_ok(seteuid(12345));
        assert_no_connection(fixture, fixture->path, ERROR_DENIED, "permission denied");
        assert_ok(seteuid(0));
}

TEST(test_statuses) {
        assert_int_equal(wire_error_kind(GRPC_STATUS_UNAUTHENTICATED), ERROR_DENIED);
        assert_int_equal(wire_error_kind(GRPC_STATUS_RESOURCE_EXHAUSTED), ERROR_INTERNAL);
        assert_int_equal(wire_error_kind((grpc_status_code) 99), ERROR_INTERNAL);
        assert_int_equal(wire_late_error_kind(GRPC_STATUS_CANCELLED), ERROR_TIMEOUT);
        assert_int_equal(wire_late_error_kind(GRPC_STATUS_NOT_FOUND), ERROR_NOT_FOUND);
        assert_string_equal(wire_status_to_string(GRPC_STATUS_UNKNOWN), "UNKNOWN");
        assert_non_null(wire_status_to_string((grpc_status_code) 99));
        for (int status = 0; status <= 16; status++)
                assert_true((wire_error_kind((grpc_status_code) status) == ERROR_NONE) ==
                            (status == GRPC_STATUS_OK));
}

/* As main() would: gRPC's threads must not take the signals. */
int main(void) {
        sigset_t all;

        sigfillset(&all);
        if (sigprocmask(SIG_BLOCK, &all, NULL) < 0)
                return 1;
        return unit_run();
}
