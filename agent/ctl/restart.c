/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/ctl/restart.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/ctl/connect.h"
#include "agent/ctl/restart-list.h"
#include "agent/ctl/terminal.h"
#include "agent/ctl/view.h"

#define USEC_PER_SEC ((uint64_t) 1000000)

typedef struct RestartCommand {
        const Options *options;
        NodeClient *client;
        RpcCall *call;
        RestartList list;
        bool was_canceled;
        Error refused; /* why it ended before all was done */
} RestartCommand;

static const RpcMethod restart_method = {
        .path = "/inplaced.v1.Node/Restart",
        .reply = &inplaced__v1__restart_event__descriptor,
};

static int on_event(const void *message, void *userdata) {
        RestartCommand *command = userdata;
        cleanup(free_p) char *line = NULL;
        RestartItem *item;
        int r;

        r = restart_list_apply(&command->list, message, clock_monotonic_usec(), &item);
        if (r < 0 || !options_wants_table(command->options))
                return r;

        line = restart_item_line(item, command->options->format == OUTPUT_WIDE);
        if (!line)
                return -ENOMEM;

        if (line[0])
                puts(line);
        (void) fflush(stdout); /* whoever reads it wants the line now */
        return 0;
}

static int refuse(RestartCommand *command, const Error *error) {
        bool has_begun = command->list.n_items > 0;

        switch (error->kind) {
        case ERROR_NONE:
                (void) error_set(&command->refused, ERROR_INTERNAL,
                                 "inplaced ended the request early");
                break;
        case ERROR_TIMEOUT:
                (void) error_set(&command->refused, error->kind,
                                 "not done within %d s; what has begun goes on",
                                 (int) command->options->timeout_sec);
                break;
        case ERROR_UNAVAILABLE:
        case ERROR_CANCELED: /* so does an agent that stops */
                if (!has_begun)
                        return error_copy(&command->refused, error);
                (void) error_set(&command->refused, error->kind,
                                 "inplaced went away; what has begun goes on; try: systemctl "
                                 "status inplaced");
                break;
        default: (void) error_copy(&command->refused, error);
        }

        return 0;
}

static int on_end(const void *reply, const Error *error, void *userdata) {
        RestartCommand *command = userdata;

        command->call = rpc_call_unref(command->call);
        if (!restart_list_is_finished(&command->list))
                (void) refuse(command, error ?: &ERROR_INIT);
        return sd_event_exit(node_client_event(command->client), 0);
}

static int on_interrupt(sd_event_source *source, const struct signalfd_siginfo *info,
                        void *userdata) {

        RestartCommand *command = userdata;

        command->call = rpc_call_unref(command->call); /* the agent notices */
        command->was_canceled = true;
        return sd_event_exit(node_client_event(command->client), 0);
}

/* "POD/CONTAINER"; NULL if it is something else. */
static char *split_target(const char *text, const char **ret_container) {
        char *pod = strdup(text), *slash = pod ? strchr(pod, '/') : NULL;

        *ret_container = "";
        if (slash) {
                *slash = '\0';
                *ret_container = slash + 1;
        }

        return pod;
}

static bool is_target(const char *text) {
        const char *slash = strchr(text, '/');

        return text[0] && text[0] != '/' && (!slash || (slash[1] && !strchr(slash + 1, '/')));
}

static int ask(RestartCommand *command) {
        Inplaced__V1__RestartRequest request = INPLACED__V1__RESTART_REQUEST__INIT;
        const Options *options = command->options;
        cleanup(free_p) char *pod = NULL;
        const char *container;

        pod = split_target(options->arguments[0], &container);
        if (!pod)
                return -ENOMEM;

        request.namespace_ = (char *) (options->namespace ?: "");
        request.pod = pod;
        request.container = (char *) container;
        request.reason = (char *) (options->reason ?: "");
        request.wait = options->wait;
        request.wait_seconds = options->timeout_sec;
        if (options->has_grace) {
                request.grace_presence_case =
                        INPLACED__V1__RESTART_REQUEST__GRACE_PRESENCE_GRACE_SECONDS;
                request.grace_seconds = options->grace_sec;
        }

        return rpc_call_stream(node_client_rpc(command->client), &restart_method, &request.base,
                               options->timeout_sec > 0
                                       ? (uint64_t) options->timeout_sec * USEC_PER_SEC
                                       : RPC_NO_TIMEOUT,
                               on_event, on_end, command, &command->call);
}

static int run(RestartCommand *command) {
        int r;

        r = node_client_connect(command->client, &command->refused);
        if (command->refused.kind != ERROR_NONE)
                return 0;
        if (r < 0)
                return r;

        r = ask(command);
        if (r < 0)
                return r;

        return sd_event_loop(node_client_event(command->client));
}

static int print_document(const RestartCommand *command) {
        cleanup(json_put_p) json_object *tree = NULL;

        if (options_wants_table(command->options))
                return 0;

        tree = restart_list_json(&command->list);
        return tree ? output_tree(command->options->format, tree) : -ENOMEM;
}

/* Why the exit status is not 0. */
static void complain_of_undone(const RestartCommand *command) {
        const RestartList *list = &command->list;
        const Inplaced__V1__RestartEvent *failed = NULL;
        size_t n_failed = 0, n_stopped = 0;

        for (size_t i = 0; i < list->n_items; i++) {
                const Inplaced__V1__RestartEvent *event = list->items[i].event;

                if (event->phase == INPLACED__V1__RESTART_PHASE__RESTART_PHASE_STOPPED)
                        n_stopped++;
                if (event->phase != INPLACED__V1__RESTART_PHASE__RESTART_PHASE_FAILED)
                        continue;
                failed = event;
                n_failed++;
        }

        if (n_failed == 1)
                complain("container %s: %s", failed->container, failed->message);
        else if (n_failed > 1)
                complain("%zu of %zu containers failed; see the message of each", n_failed,
                         list->n_items);
        else if (command->options->wait && n_stopped > 0)
                complain("%zu of %zu containers have ended and are not started again", n_stopped,
                         list->n_items);
}

static ExitStatus conclude(const RestartCommand *command) {
        if (command->was_canceled) {
                complain("canceled; what has begun goes on, the rest is dropped");
                return EXIT_STATUS_FAILED;
        }
        if (command->refused.kind == ERROR_NONE) {
                complain_of_undone(command);
                return restart_list_exit_status(&command->list, command->options->wait);
        }

        complain("%s", error_message(&command->refused));
        return command->refused.kind == ERROR_INVALID ? EXIT_STATUS_USAGE : EXIT_STATUS_FAILED;
}

static void command_done(RestartCommand *command) {
        rpc_call_unref(command->call);
        node_client_free(command->client);
        restart_list_done(&command->list);
        error_done(&command->refused);
}

int command_restart(const Options *options) {
        cleanup(command_done) RestartCommand command = { .options = options };
        int r;

        if (!is_target(options->arguments[0])) {
                complain("'%s' is neither POD nor POD/CONTAINER; a namespace is given with "
                         "--namespace",
                         options->arguments[0]);
                return EXIT_STATUS_USAGE;
        }

        r = node_client_new(options->socket_path, on_interrupt, &command, &command.client);
        if (r < 0)
                return r;

        r = run(&command);
        if (r < 0)
                return r;

        r = print_document(&command);
        return r < 0 ? r : (int) conclude(&command);
}
