/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agent's side of a command of inplacectl
 *
 * It answers the command's calls with the steps of a script, in which time passes only as the script says. The functions
 * that begin with __wrap_ have to be wrapped, see tests/CMakeLists.txt. To be included once.
 */

#include <signal.h>
#include <time.h>

#include "agent/rpc/client.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/stderr-capture.h"

#define PLAYED_STEPS_MAX 16
#define PLAYED_NOW 1000 /* seconds since the epoch */

/* A step has one of these. */
typedef struct PlayedStep {
        const void *says; /* message of a stream, or a reply */
        bool ends;        /* the call, without an error */
        ErrorKind fails;  /* the call, with this error */
        const char *why;
        uint64_t passes_usec;
        int signal;   /* sent to the command */
        bool is_gone; /* no connection is possible from now on */
} PlayedStep;

static struct {
        PlayedStep steps[PLAYED_STEPS_MAX];
        void (*on_request)(const void *request);
        unsigned n_calls, n_connections;
        bool is_gone, is_disconnected;
        bool is_terminal; /* stdout can be drawn on */
        RpcMessage on_message;
        RpcDone done;
        void *userdata;
} played_agent;

int __wrap_rpc_client_connect(CompletionQueue *queue, const char *path, RpcClosed on_closed,
                              void *userdata, RpcClient **ret, Error *reterr);
bool __wrap_rpc_client_is_connected(const RpcClient *client);
int __wrap_rpc_call_stream(RpcClient *client, const RpcMethod *method,
                           const ProtobufCMessage *request, uint64_t timeout_usec,
                           RpcMessage on_message, RpcDone done, void *userdata, RpcCall **ret);
int __wrap_rpc_call_unary(RpcClient *client, const RpcMethod *method,
                          const ProtobufCMessage *request, uint64_t timeout_usec, RpcDone done,
                          void *userdata, RpcCall **ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);
time_t __wrap_time(time_t *ret);
bool __wrap_terminal_is_capable(void);

int __wrap_rpc_client_connect(CompletionQueue *queue, const char *path, RpcClosed on_closed,
                              void *userdata, RpcClient **ret, Error *reterr) {
        played_agent.n_connections++;
        *ret = NULL;
        return played_agent.is_gone ? error_set(reterr, ERROR_UNAVAILABLE, "refused") : 0;
}

bool __wrap_rpc_client_is_connected(const RpcClient *client) {
        return !played_agent.is_disconnected;
}

int __wrap_rpc_call_stream(RpcClient *client, const RpcMethod *method,
                           const ProtobufCMessage *request, uint64_t timeout_usec,
                           RpcMessage on_message, RpcDone done, void *userdata, RpcCall **ret) {
        played_agent.n_calls++;
        played_agent.on_message = on_message;
        played_agent.done = done;
        played_agent.userdata = userdata;
        *ret = NULL;
        if (played_agent.on_request)
                played_agent.on_request(request);
        return 0;
}

int __wrap_rpc_call_unary(RpcClient *client, const RpcMethod *method,
                          const ProtobufCMessage *request, uint64_t timeout_usec, RpcDone done,
                          void *userdata, RpcCall **ret) {
        return __wrap_rpc_call_stream(client, method, request, timeout_usec, NULL, done, userdata,
                                      ret);
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret) {
        *ret = (struct timespec){ .tv_sec = PLAYED_NOW };
        if (clock == CLOCK_MONOTONIC)
                *ret = (struct timespec){
                        .tv_sec = (time_t) (fake_clock.now_usec / 1000000),
                        .tv_nsec = (long) (fake_clock.now_usec % 1000000) * 1000,
                };
        return 0;
}

time_t __wrap_time(time_t *ret) {
        return PLAYED_NOW;
}

bool __wrap_terminal_is_capable(void) {
        return played_agent.is_terminal;
}

static inline bool played_has_ended(sd_event *event) {
        return sd_event_get_state(event) == SD_EVENT_FINISHED;
}

static inline void played_turn(sd_event *event) {
        while (!played_has_ended(event) && sd_event_run(event, 0) > 0)
                continue;
}

static inline void played_pass(sd_event *event, uint64_t usec) {
        uint64_t end_usec = fake_clock.now_usec + usec;
        const FakeTimer *timer;

        while (!played_has_ended(event) && (timer = fake_clock_find()) &&
               timer->due_usec <= end_usec) {
                fake_clock_skip(event);
                played_turn(event);
        }
        fake_clock.now_usec = end_usec;
}

static inline void played_do(sd_event *event, const PlayedStep *step) {
        cleanup(error_done) Error error = ERROR_INIT;

        if (step->says && played_agent.on_message) {
                assert_ok(played_agent.on_message(step->says, played_agent.userdata));
        } else if (step->says || step->ends) {
                assert_ok(played_agent.done(step->says, NULL, played_agent.userdata));
        } else if (step->fails != ERROR_NONE) {
                (void) error_set(&error, step->fails, "%s", step->why ?: "why");
                assert_ok(played_agent.done(NULL, &error, played_agent.userdata));
        } else if (step->signal > 0) {
                assert_ok(kill(getpid(), step->signal));
        } else if (step->passes_usec > 0) {
                played_pass(event, step->passes_usec);
        }
        played_agent.is_gone = played_agent.is_gone || step->is_gone;
}

/* Takes the place of libsystemd's. The command has to end with the last step, and not before. */
int sd_event_loop(sd_event *event) {
        int status;

        played_turn(event);
        for (size_t i = 0;
             i < PLAYED_STEPS_MAX &&
             memcmp(&played_agent.steps[i], &(PlayedStep){ 0 }, sizeof(PlayedStep)) != 0;
             i++) {
                assert_false(played_has_ended(event));
                played_do(event, &played_agent.steps[i]);
                played_turn(event);
        }
        assert_true(played_has_ended(event));
        assert_ok(sd_event_get_exit_code(event, &status));
        fake_clock_done();
        return status;
}

typedef struct Played {
        Stderr out, err;
        int status;
} Played;

/* Runs a command, and keeps what it prints. */
#define PLAY(played, call)                             \
        do {                                           \
                played_agent.n_calls = 0;              \
                played_agent.n_connections = 0;        \
                stdout_pipe(&(played)->out);           \
                stderr_pipe(&(played)->err);           \
                (played)->status = (call);             \
                (void) stderr_restore(&(played)->err); \
                (void) stderr_restore(&(played)->out); \
        } while (0)
