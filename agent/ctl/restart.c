/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/clock.h"
#include "agent/base/text.h"
#include "agent/base/time-units.h"
#include "agent/ctl/commands.h"
#include "agent/ctl/connect.h"
#include "agent/ctl/message-json.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/view/format.h"
#include "agent/view/output.h"
#include "agent/view/terminal.h"
#include "proto/inplaced/v1/node.pb-c.h"

typedef Inplaced__V1__RestartEvent Event;

/* A container that is being restarted. */
typedef struct RestartItem {
        Event *event;          /* the newest */
        uint64_t begun_usec;   /* begin of the stop; 0: not seen */
        uint64_t stopped_usec; /* end of the stop; 0: not yet */
} RestartItem;

typedef struct RestartList {
        RestartItem *items;
        size_t n_items;
} RestartList;

#define RESTART_LIST_INIT ((RestartList){ .items = NULL })

typedef struct RestartCommand {
        const Options *options;
        NodeClient *client;
        RpcCall *call;
        RestartList list;
        int signal;    /* signal that canceled it; 0: none */
        Error refused; /* why it ended before all was done */
} RestartCommand;

static const RpcMethod restart_method = {
        .path = "/inplaced.v1.Node/Restart",
        .reply = &inplaced__v1__restart_event__descriptor,
};

static void event_free_p(Event **event) {
        inplaced__v1__restart_event__free_unpacked(*event, NULL);
}

static int event_copy(const Event *event, Event **ret) {
        size_t size = inplaced__v1__restart_event__get_packed_size(event);
        cleanup(free_p) uint8_t *packed = malloc(size + 1);
        Event *copy;

        if (!packed)
                return -ENOMEM;

        size = inplaced__v1__restart_event__pack(event, packed);
        copy = inplaced__v1__restart_event__unpack(NULL, size, packed);
        if (!copy)
                return -ENOMEM;

        *ret = copy;
        return 0;
}

static bool is_of(const RestartItem *item, const Event *event) {
        return strcmp(item->event->container, event->container) == 0 &&
               strcmp(item->event->pod, event->pod) == 0 &&
               strcmp(item->event->namespace_, event->namespace_) == 0;
}

static int find_or_add(RestartList *list, const Event *event, RestartItem **ret) {
        for (size_t i = 0; i < list->n_items; i++)
                if (is_of(&list->items[i], event)) {
                        *ret = &list->items[i];
                        return 0;
                }

        if (array_grow(&list->items, list->n_items, sizeof(RestartItem)) < 0)
                return -ENOMEM;

        *ret = &list->items[list->n_items];
        **ret = (RestartItem){ .event = NULL };
        return 0;
}

/* Applies and copies an event of the agent. Sets *ret_item to its item. */
static int restart_list_apply(RestartList *list, const Event *event, uint64_t now_usec,
                              RestartItem **ret_item) {
        cleanup(event_free_p) Event *copy = NULL;
        RestartItem *item;
        Event *old;
        int r;

        r = event_copy(event, &copy);
        if (r < 0)
                return r;

        r = find_or_add(list, event, &item);
        if (r < 0)
                return r;

        if (!item->event)
                list->n_items++;
        old = item->event;
        item->event = take_ptr(copy);
        copy = old;

        if (event->phase == INPLACED__V1__RESTART_PHASE__RESTART_PHASE_STOPPING &&
            item->begun_usec == 0)
                item->begun_usec = now_usec;
        if (event->phase == INPLACED__V1__RESTART_PHASE__RESTART_PHASE_STOPPED &&
            item->stopped_usec == 0)
                item->stopped_usec = now_usec;
        *ret_item = item;
        return 0;
}

static void restart_list_done(RestartList *list) {
        for (size_t i = 0; i < list->n_items; i++)
                event_free_p(&list->items[i].event);
        free(list->items);
        *list = RESTART_LIST_INIT;
}

/* Each container has its last state. */
static bool restart_list_is_finished(const RestartList *list) {
        for (size_t i = 0; i < list->n_items; i++)
                if (!list->items[i].event->final)
                        return false;

        return list->n_items > 0;
}

/* must_run: a container that was only stopped counts as done in part. A command without any
 * container, or with an unfinished one, has failed. */
static ExitStatus restart_list_exit_status(const RestartList *list, bool must_run) {
        size_t n_done = 0, n_failed = 0;

        for (size_t i = 0; i < list->n_items; i++) {
                const Event *event = list->items[i].event;

                if (!event->final ||
                    event->phase == INPLACED__V1__RESTART_PHASE__RESTART_PHASE_FAILED)
                        n_failed++;
                else if (!must_run ||
                         event->phase == INPLACED__V1__RESTART_PHASE__RESTART_PHASE_RUNNING)
                        n_done++;
        }

        if (n_failed == list->n_items)
                return EXIT_STATUS_FAILED;
        return n_done == list->n_items ? EXIT_STATUS_DONE : EXIT_STATUS_PARTLY;
}

static void put_stopped(FILE *file, const RestartItem *item) {
        uint64_t usec = item->stopped_usec - item->begun_usec;

        fputs("stopped", file);
        if (item->begun_usec == 0)
                return;
        if (usec < USEC_PER_SEC)
                fprintf(file, " (%" PRIu64 " ms)", usec / USEC_PER_MSEC);
        else
                fprintf(file, " (%s)", format_elapsed(usec, FORMAT_BUFFER));
}

static void put_phase(FILE *file, const RestartItem *item, bool has_full_id) {
        const char *id = item->event->new_container_id;

        switch (item->event->phase) {
        case INPLACED__V1__RESTART_PHASE__RESTART_PHASE_STOPPING: fputs("stopping", file); break;
        case INPLACED__V1__RESTART_PHASE__RESTART_PHASE_STOPPED: put_stopped(file, item); break;
        case INPLACED__V1__RESTART_PHASE__RESTART_PHASE_RUNNING:
                fprintf(file, "running again as %s",
                        has_full_id ? id : format_short_id(id, FORMAT_BUFFER));
                break;
        case INPLACED__V1__RESTART_PHASE__RESTART_PHASE_FAILED: fputs("failed", file); break;
        default: fputs("waiting", file);
        }
}

/* Makes the line about the container, such as "default/web/app  stopping"; "" if there is nothing
 * new. NULL if there is no memory. */
static char *restart_item_line(const RestartItem *item, bool has_full_id) {
        cleanup(free_p) char *text = NULL;
        const Event *event = item->event;
        size_t size;
        FILE *file;

        if (event->phase == INPLACED__V1__RESTART_PHASE__RESTART_PHASE_WAITING &&
            !event->message[0])
                return strdup("");

        file = text_open(&text, &size);
        if (!file)
                return NULL;

        fprintf(file, "%s/%s/%s  ", event->namespace_, event->pod, event->container);
        put_phase(file, item, has_full_id);
        if (event->message[0])
                fprintf(file, ": %s", event->message);
        return text_close(file, &text) == 0 ? terminal_text_escape(text) : NULL;
}

/* All of them as one document. NULL if there is no memory. */
static json_object *restart_list_json(const RestartList *list) {
        cleanup(json_object_put_p) json_object *containers = json_object_new_array();

        for (size_t i = 0; containers && i < list->n_items; i++)
                if (patch_append(containers, json_from_message(list->items[i].event)) < 0)
                        return NULL;

        return containers ? patch_wrap("containers", take_ptr(containers)) : NULL;
}

static int on_event(const void *message, void *userdata) {
        RestartCommand *command = userdata;
        cleanup(free_p) char *line = NULL;
        RestartItem *item;
        int r;

        node_client_heard(command->client);
        r = restart_list_apply(&command->list, message, clock_monotonic_usec(), &item);
        if (r < 0 || !options_wants_table(command->options))
                return r;

        line = restart_item_line(item, command->options->format == OUTPUT_WIDE);
        if (!line)
                return -ENOMEM;

        if (line[0])
                puts(line);
        (void) fflush(stdout); /* a pipe would keep the line */
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
                (void) error_set(
                        &command->refused, error->kind,
                        "not done within the %s of --timeout; restarts in progress continue",
                        format_duration((uint64_t) command->options->timeout_sec, FORMAT_BUFFER));
                break;
        case ERROR_UNAVAILABLE:
        case ERROR_CANCELED: /* the answer of an agent that stops */
                if (!has_begun)
                        return node_client_explain(command->client, error, &command->refused);
                (void) error_set(
                        &command->refused, error->kind,
                        "lost the connection to inplaced; restarts in progress continue; try: "
                        "systemctl status inplaced");
                break;
        default: (void) node_client_explain(command->client, error, &command->refused);
        }

        return 0;
}

static int on_end(const void *reply, const Error *error, void *userdata) {
        RestartCommand *command = userdata;

        node_client_heard(command->client);
        command->call = rpc_call_unref(command->call);
        if (!restart_list_is_finished(&command->list))
                (void) refuse(command, error ?: &ERROR_INIT);
        return sd_event_exit(node_client_event(command->client), 0);
}

static int on_interrupt(sd_event_source *source, const struct signalfd_siginfo *info,
                        void *userdata) {

        RestartCommand *command = userdata;

        command->call = rpc_call_unref(command->call); /* the agent notices */
        command->signal = (int) info->ssi_signo;
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
        int r;

        pod = split_target(options->arguments[0], &container);
        if (!pod)
                return -ENOMEM;

        r = node_client_await(command->client);
        if (r < 0)
                return r;

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
        cleanup(json_object_put_p) json_object *tree = NULL;

        if (options_wants_table(command->options))
                return 0;

        tree = restart_list_json(&command->list);
        return tree ? output_tree(command->options->format, tree) : -ENOMEM;
}

/* Prints why the exit status is not 0. */
static void complain_of_undone(const RestartCommand *command) {
        const RestartList *list = &command->list;
        const Event *failed = NULL;
        size_t n_failed = 0, n_stopped = 0;

        for (size_t i = 0; i < list->n_items; i++) {
                const Event *event = list->items[i].event;

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

static int conclude(const RestartCommand *command) {
        if (command->signal > 0) {
                complain("interrupted; restarts in progress continue, the others are canceled");
                return EXIT_STATUS_SIGNAL + command->signal;
        }
        if (command->refused.kind == ERROR_NONE) {
                complain_of_undone(command);
                return (int) restart_list_exit_status(&command->list, command->options->wait);
        }

        complain("%s", error_message(&command->refused));
        return command->refused.kind == ERROR_INVALID   ? EXIT_STATUS_USAGE
               : command->refused.kind == ERROR_TIMEOUT ? EXIT_STATUS_TIMEOUT
                                                        : EXIT_STATUS_FAILED;
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
                complain("\"%s\" is neither POD nor POD/CONTAINER; a namespace is given with "
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
