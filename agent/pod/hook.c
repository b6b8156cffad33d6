/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/pod/hook.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/quote.h"

#define USER_AGENT "kube-lifecycle/inplaced"

struct Hook {
        HandlerKind kind;
        HttpPeer *http;
        Handler *handler;
        HookDone on_done;
        void *userdata;
};

DEFINE_CLEANUP(Hook *, hook_free)

/* Describes a failed command by the first line of its standard error. */
static void describe_exit(const HandlerResult *result, Error *ret) {
        char line[QUOTE_SIZE];
        size_t size = 0;

        while (size < result->output_size && size < sizeof(line) - 1 &&
               result->output[size] != '\n' && result->output[size] != '\0')
                size++;
        if (size == 0) {
                (void) error_copy(ret, result->error);
                return;
        }

        memcpy(line, result->output, size);
        line[size] = '\0';
        (void) error_set(ret, result->error->kind, "%s: %s", error_message(result->error),
                         quote(line, (char[QUOTE_SIZE]){ 0 }));
}

static int on_handled(const HandlerResult *result, void *userdata) {
        cleanup(error_done) Error exit = ERROR_INIT;
        Hook *hook = userdata;
        const Error *error = result->error;

        if (hook->kind == HANDLER_HTTP && result->status != 0)
                error = NULL;
        if (hook->kind == HANDLER_EXEC && result->status != 0) {
                describe_exit(result, &exit);
                error = &exit;
        }

        return hook->on_done(error, result->plain_host, hook->userdata);
}

int hook_run(sd_event *event, const HandlerSpec *spec, const HookTarget *target,
             uint64_t timeout_usec, HookDone on_done, void *userdata, Hook **ret) {
        cleanup(hook_free_p) Hook *hook = NULL;
        HandlerOptions options = {
                .event = event,
                .spec = spec,
                .client = target->client,
                .container_id = target->container_id,
                .address = target->address,
                .user_agent = USER_AGENT,
                .allows_plain = true,
                .timeout_usec = timeout_usec,
                .on_done = on_handled,
        };
        int r;

        hook = malloc(sizeof(*hook));
        if (!hook)
                return -ENOMEM;

        *hook = (Hook){ .kind = spec->kind, .on_done = on_done, .userdata = userdata };
        r = http_peer_new_for_any(event, &hook->http);
        if (r < 0)
                return r;

        options.http = hook->http;
        options.userdata = hook;
        r = handler_run(&options, &hook->handler);
        if (r < 0)
                return r;

        *ret = take_ptr(hook);
        return 0;
}

Hook *hook_free(Hook *hook) {
        if (!hook)
                return NULL;

        handler_free(hook->handler);
        http_peer_unref(hook->http);
        free(hook);
        return NULL;
}
