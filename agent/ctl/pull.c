/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/ctl/pull.h"

#include <errno.h>
#include <stdio.h>

#include "agent/base/clock.h"
#include "agent/base/loop.h"
#include "agent/ctl/connect.h"
#include "agent/ctl/pull-list.h"
#include "agent/ctl/pull-output.h"
#include "agent/ctl/terminal.h"
#include "agent/image/pull-reason.h"

#define USEC_PER_SEC ((uint64_t) 1000000)
#define RECONNECT_USEC (USEC_PER_SEC / 4)
#define AWAY_USEC_MAX (30 * USEC_PER_SEC)
#define GOODBYE_USEC (2 * USEC_PER_SEC)

typedef struct Pull {
        const Options *options;
        NodeClient *client;
        RpcCall *call;
        PullList list;
        PullOutput *output;
        sd_event_source *timer; /* to connect again, or to wait no longer for the end */
        bool was_heard;         /* the agent has said something */
        uint64_t away_since;    /* 0 while it is there */
        bool was_canceled;
        Error refused; /* why the request ended before its images did */
} Pull;

static const RpcMethod preload_method = {
        .path = "/inplaced.v1.Node/Preload",
        .reply = &inplaced__v1__preload_event__descriptor,
};

static int pull_ask(Pull *pull);

static int pull_end(Pull *pull) {
        return sd_event_exit(node_client_event(pull->client), 0);
}

/* In the words of the agent, so that a script need not know who said it. */
static const char *reason_of(const Error *error) {
        switch (error->kind) {
        case ERROR_INVALID: return pull_reason_to_string(PULL_REASON_INVALID_REFERENCE);
        case ERROR_CANCELED: return pull_reason_to_string(PULL_REASON_CANCELED);
        default: return "AgentUnavailable";
        }
}

static int pull_refused(Pull *pull, const Error *error) {
        int r;

        r = pull_list_fail_rest(&pull->list, reason_of(error), error_message(error),
                                clock_monotonic_usec());
        if (r < 0)
                return r;

        error_done(&pull->refused);
        (void) error_set(&pull->refused, error->kind, "%s", error_message(error));
        return pull_end(pull);
}

static int pull_start_timer(Pull *pull, uint64_t usec, sd_event_time_handler_t handler) {
        pull->timer = sd_event_source_disable_unref(pull->timer);
        return loop_add_time_relative(node_client_event(pull->client), &pull->timer,
                                      CLOCK_MONOTONIC, usec, 0, handler, pull);
}

static int pull_give_up(Pull *pull) {
        cleanup(error_done) Error error = ERROR_INIT;

        (void) error_set(&error, ERROR_UNAVAILABLE,
                         "inplaced went away and did not come back within %d s; try: systemctl "
                         "status inplaced",
                         (int) (AWAY_USEC_MAX / USEC_PER_SEC));
        return pull_refused(pull, &error);
}

static int on_reconnect(sd_event_source *source, uint64_t usec, void *userdata) {
        cleanup(error_done) Error error = ERROR_INIT;
        Pull *pull = userdata;
        int r;

        r = node_client_connect(pull->client, &error);
        if (r < 0 && error.kind == ERROR_NONE)
                return r;
        if (r == 0)
                return pull_ask(pull);

        if (clock_monotonic_usec() - pull->away_since > AWAY_USEC_MAX)
                return pull_give_up(pull);

        return pull_start_timer(pull, RECONNECT_USEC, on_reconnect);
}

/* The agent restarts, most likely. What it was asked for is forgotten with it, but asking twice for
 * an image costs nothing. */
static int pull_lost(Pull *pull) {
        if (pull->away_since == 0)
                pull->away_since = clock_monotonic_usec();
        pull_output_set_away(pull->output, true);

        if (clock_monotonic_usec() - pull->away_since > AWAY_USEC_MAX)
                return pull_give_up(pull);

        return pull_start_timer(pull, RECONNECT_USEC, on_reconnect);
}

static int on_goodbye(sd_event_source *source, uint64_t usec, void *userdata) {
        return pull_end(userdata);
}

static int on_event(const void *message, void *userdata) {
        Pull *pull = userdata;
        PullItem *item;
        int r;

        pull->was_heard = true;
        pull->away_since = 0;
        pull_output_set_away(pull->output, false);

        r = pull_list_apply(&pull->list, message, clock_monotonic_usec(), &item);
        if (r < 0 || !item || !pull_item_is_finished(item))
                return r;

        r = pull_output_update(pull->output);
        if (r < 0 || !pull_list_is_finished(&pull->list))
                return r;

        /* The agent ends the stream now. If it does not, there is nothing left to wait for. */
        return pull_start_timer(pull, GOODBYE_USEC, on_goodbye);
}

static int on_end(const void *reply, const Error *error, void *userdata) {
        cleanup(error_done) Error early = ERROR_INIT;
        Pull *pull = userdata;

        pull->call = rpc_call_unref(pull->call);
        if (pull_list_is_finished(&pull->list))
                return pull_end(pull);

        if (!error && pull->options->no_wait)
                return pull_end(pull);
        if (!error) {
                (void) error_set(&early, ERROR_INTERNAL,
                                 "inplaced ended the request early; try: inplacectl status");
                return pull_refused(pull, &early);
        }

        /* An agent that stops cancels what it serves; that we did not cancel it ourselves is
         * certain here. */
        if (pull->was_heard && (error->kind == ERROR_UNAVAILABLE || error->kind == ERROR_CANCELED))
                return pull_lost(pull);

        return pull_refused(pull, error);
}

static int pull_ask(Pull *pull) {
        Inplaced__V1__PreloadRequest request = INPLACED__V1__PRELOAD_REQUEST__INIT;
        cleanup(free_p) char **images = calloc(pull->list.n_items, sizeof(*images));

        if (!images)
                return -ENOMEM;

        request.images = images;
        for (size_t i = 0; i < pull->list.n_items; i++)
                if (!pull_item_is_finished(&pull->list.items[i]))
                        images[request.n_images++] = (char *) pull->list.items[i].image;

        request.pull_policy = pull->options->always_pull
                                      ? INPLACED__V1__PULL_POLICY__PULL_POLICY_ALWAYS
                                      : INPLACED__V1__PULL_POLICY__PULL_POLICY_IF_NOT_PRESENT;
        request.timeout_seconds = pull->options->timeout_sec;
        request.active_deadline_seconds = pull->options->deadline_sec;
        request.detach = pull->options->no_wait;

        return rpc_call_stream(node_client_rpc(pull->client), &preload_method, &request.base,
                               RPC_NO_TIMEOUT, on_event, on_end, pull, &pull->call);
}

static int on_interrupt(sd_event_source *source, const struct signalfd_siginfo *info,
                        void *userdata) {

        Pull *pull = userdata;
        int r;

        pull->call = rpc_call_unref(pull->call); /* the agent notices, and withdraws the request */
        pull->was_canceled = true;

        r = pull_list_fail_rest(&pull->list, pull_reason_to_string(PULL_REASON_CANCELED), "",
                                clock_monotonic_usec());
        if (r < 0)
                return r;

        return pull_end(pull);
}

static void pull_done(Pull *pull) {
        rpc_call_unref(pull->call);
        sd_event_source_disable_unref(pull->timer);
        pull_output_free(pull->output);
        node_client_free(pull->client);
        pull_list_done(&pull->list);
        error_done(&pull->refused);
}

static int pull_run(Pull *pull) {
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        r = node_client_connect(pull->client, &error);
        if (error.kind != ERROR_NONE) {
                r = pull_refused(pull, &error);
        } else if (r >= 0) {
                r = pull_ask(pull);
        }
        if (r < 0)
                return r;

        return sd_event_loop(node_client_event(pull->client));
}

static ExitStatus pull_conclude(const Pull *pull) {
        if (pull->was_canceled) {
                complain("canceled");
                return EXIT_STATUS_FAILED;
        }

        if (pull->refused.kind != ERROR_NONE)
                complain("%s", error_message(&pull->refused));
        else
                pull_output_print_summary(&pull->list);

        if (pull->refused.kind == ERROR_INVALID)
                return EXIT_STATUS_USAGE;
        return pull_list_exit_status(&pull->list);
}

int command_pull(const Options *options) {
        cleanup(pull_done) Pull pull = { .options = options };
        int r;

        r = pull_list_init(&pull.list, options->arguments, (size_t) options->n_arguments,
                           clock_monotonic_usec());
        if (r < 0)
                return r;

        r = node_client_new(options->socket_path, on_interrupt, &pull, &pull.client);
        if (r < 0)
                return r;

        r = pull_output_new(node_client_event(pull.client), options, &pull.list, &pull.output);
        if (r < 0)
                return r;

        r = pull_run(&pull);
        if (r < 0)
                return r;

        r = pull.was_heard ? pull_output_finish(pull.output) : pull_output_abandon(pull.output);
        if (r < 0)
                return r;

        return (int) pull_conclude(&pull);
}
