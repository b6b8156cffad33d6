/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/pod/hook.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/base/quote.h"
#include "agent/pod/hook-http.h"
#include "agent/pod/tcp-knock.h"
#include "cri/client.h"

#define USEC_PER_SEC ((uint64_t) 1000000)

struct Hook {
        sd_event *event;
        HookDone on_done;
        void *userdata;
        uint64_t timeout_usec;
        RpcCall *call;
        HookHttp *http;
        TcpKnock *knock;
        sd_event_source *timer; /* of the limit, or of the sleep */
        sd_event_source *refusal;
        Error error; /* of the refusal */
};

DEFINE_CLEANUP(Hook *, hook_free)

static int hook_end(Hook *hook, const Error *error) {
        hook->timer = sd_event_source_disable_unref(hook->timer);
        return hook->on_done(error, hook->userdata);
}

/* Of what a program writes to complain, the first line says the most. */
static void describe_exit(const CriExec *reply, Error *ret) {
        char line[QUOTE_SIZE];
        size_t size = 0;

        while (size < reply->stderr.len && size < sizeof(line) - 1 &&
               reply->stderr.data[size] != '\n' && reply->stderr.data[size] != '\0')
                size++;
        if (size == 0) {
                (void) error_set(ret, ERROR_INVALID, "the command exited with status %d",
                                 reply->exit_code);
                return;
        }

        memcpy(line, reply->stderr.data, size);
        line[size] = '\0';
        (void) error_set(ret, ERROR_INVALID, "the command exited with status %d: %s",
                         reply->exit_code, quote(line, (char[QUOTE_SIZE]){ 0 }));
}

static int on_exec(const void *reply, const Error *error, void *userdata) {
        cleanup(error_done) Error failure = ERROR_INIT;
        const CriExec *exec = reply;
        Hook *hook = userdata;

        hook->call = rpc_call_unref(hook->call);
        if (exec && exec->exit_code != 0) {
                describe_exit(exec, &failure);
                error = &failure;
        }

        return hook_end(hook, error);
}

static int on_http(const Error *error, void *userdata) {
        return hook_end(userdata, error);
}

static int on_knocked(int number, void *userdata) {
        cleanup(error_done) Error error = ERROR_INIT;
        Hook *hook = userdata;

        if (number == 0)
                return hook_end(hook, NULL);

        (void) error_set(&error, number == ETIMEDOUT ? ERROR_TIMEOUT : ERROR_UNAVAILABLE,
                         "cannot connect: %s", strerror(number));
        return hook_end(hook, &error);
}

static int on_timeout(sd_event_source *source, uint64_t usec, void *userdata) {
        cleanup(error_done) Error error = ERROR_INIT;
        Hook *hook = userdata;

        hook->call = rpc_call_unref(hook->call);
        hook->http = hook_http_free(hook->http);
        hook->knock = tcp_knock_free(hook->knock);
        (void) error_set(&error, ERROR_TIMEOUT, "it was not done within %llu s",
                         (unsigned long long) (hook->timeout_usec / USEC_PER_SEC));
        return hook_end(hook, &error);
}

static int on_slept(sd_event_source *source, uint64_t usec, void *userdata) {
        return hook_end(userdata, NULL);
}

static int on_refusal(sd_event_source *source, void *userdata) {
        Hook *hook = userdata;

        return hook_end(hook, &hook->error);
}

static int hook_add_timer(Hook *hook, uint64_t usec, sd_event_time_handler_t handler) {
        return loop_add_time_relative(hook->event, &hook->timer, CLOCK_MONOTONIC, usec,
                                      /* accuracy= */ 1000, handler, hook);
}

static int hook_exec(Hook *hook, const HookSpec *spec, const HookTarget *target) {
        uint64_t timeout_sec = hook->timeout_usec / USEC_PER_SEC;

        if (!target->client)
                return error_set(&hook->error, ERROR_UNAVAILABLE,
                                 "the container runtime is not there");

        return cri_exec_sync(target->client, target->container_id, spec->command,
                             timeout_sec > 0 ? (int64_t) timeout_sec : 1, on_exec, hook,
                             &hook->call);
}

static int hook_knock(Hook *hook, const HookSpec *spec, const HookTarget *target) {
        const char *host = spec->host ?: target->address;
        TcpAddress address;

        if (!host)
                return error_set(&hook->error, ERROR_INVALID, "the pod's address is not known");
        if (!tcp_address_read(host, spec->port, &address))
                return error_set(&hook->error, ERROR_UNSUPPORTED,
                                 "%s is not an address, and names are not looked up for it",
                                 quote(host, (char[QUOTE_SIZE]){ 0 }));

        return tcp_knock(hook->event, &address, hook->timeout_usec, on_knocked, hook, &hook->knock);
}

static bool sleeps_in_time(const HookSpec *spec, uint64_t timeout_usec) {
        return (uint64_t) spec->sleep_sec <= timeout_usec / USEC_PER_SEC;
}

static int hook_start(Hook *hook, const HookSpec *spec, const HookTarget *target) {
        switch (spec->kind) {
        case HOOK_EXEC: return hook_exec(hook, spec, target);
        case HOOK_HTTP:
                return hook_http_new(hook->event, spec, target->address, on_http, hook, &hook->http,
                                     &hook->error);
        case HOOK_TCP: return hook_knock(hook, spec, target);
        case HOOK_SLEEP:
                if (sleeps_in_time(spec, hook->timeout_usec))
                        return hook_add_timer(hook, (uint64_t) spec->sleep_sec * USEC_PER_SEC,
                                              on_slept);
                return 0;
        case HOOK_NONE:
        case _HOOK_KIND_MAX: break;
        }

        abort();
}

static int hook_refuse(Hook *hook) {
        return loop_add_defer(hook->event, &hook->refusal, on_refusal, hook);
}

int hook_run(sd_event *event, const HookSpec *spec, const HookTarget *target, uint64_t timeout_usec,
             HookDone on_done, void *userdata, Hook **ret) {
        cleanup(hook_free_p) Hook *hook = NULL;
        int r;

        hook = malloc(sizeof(*hook));
        if (!hook)
                return -ENOMEM;

        *hook = (Hook){
                .event = sd_event_ref(event),
                .on_done = on_done,
                .userdata = userdata,
                .timeout_usec = timeout_usec,
        };
        r = hook_start(hook, spec, target);
        if (hook->error.kind != ERROR_NONE)
                r = hook_refuse(hook);
        else if (r >= 0 && !hook->timer)
                r = hook_add_timer(hook, timeout_usec, on_timeout);
        if (r < 0)
                return r;

        *ret = take_ptr(hook);
        return 0;
}

const char *hook_plain_host(const Hook *hook) {
        return hook->http ? hook_http_plain_host(hook->http) : NULL;
}

Hook *hook_free(Hook *hook) {
        if (!hook)
                return NULL;

        rpc_call_unref(hook->call);
        hook_http_free(hook->http);
        tcp_knock_free(hook->knock);
        sd_event_source_disable_unref(hook->timer);
        sd_event_source_disable_unref(hook->refusal);
        error_done(&hook->error);
        sd_event_unref(hook->event);
        free(hook);
        return NULL;
}
