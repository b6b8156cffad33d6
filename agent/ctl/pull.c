/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "agent/base/clock.h"
#include "agent/base/loop.h"
#include "agent/base/time-units.h"
#include "agent/ctl/commands.h"
#include "agent/ctl/connect.h"
#include "agent/ctl/progress-view.h"
#include "agent/ctl/pull-list.h"
#include "agent/document/json-cleanup.h"
#include "agent/image/pull-reason.h"
#include "agent/view/output.h"
#include "agent/view/terminal.h"

#define GOODBYE_USEC (2 * USEC_PER_SEC)
#define QUEUED_USEC USEC_PER_SEC
#define TIMEOUT_MARGIN_USEC USEC_PER_SEC
#define REDRAW_USEC (USEC_PER_SEC / 8)
#define RETRY_HINT "--attempts and --timeout limit the attempts; Ctrl-C withdraws the request"
#define REFUSALS_MAX 5 /* with their pauses they take about a minute */

typedef struct Pull {
        const Options *options;
        NodeClient *client;
        RpcCall *call;
        PullList list;
        ProgressView *view; /* NULL unless progress is shown */
        Timer redraw;
        sd_event_source *resize;
        Timer timeout;  /* ends the command at --timeout */
        Timer queued;   /* time to print which images are still queued */
        Timer waits;    /* --attempt-timeout, for images without an attempt yet */
        Timer goodbye;  /* limits the wait for the end of the call */
        bool was_heard; /* the agent has said something */
        bool is_past_timeout;
        int signal;    /* signal that canceled it; 0: none */
        Error refused; /* why the request ended before its images did */
} Pull;

static const RpcMethod preload_method = {
        .path = "/inplaced.v1.Node/Preload",
        .reply = &inplaced__v1__preload_event__descriptor,
};

static int draw(Pull *pull) {
        return progress_view_draw(pull->view, &pull->list, node_client_is_away(pull->client),
                                  clock_monotonic_usec());
}

static int on_redraw(void *userdata) {
        Pull *pull = userdata;
        int r;

        r = draw(pull);
        return r < 0 ? r : timer_start(&pull->redraw, REDRAW_USEC);
}

static int on_resize(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata) {
        Pull *pull = userdata;
        size_t rows, columns;

        terminal_get_size(&rows, &columns);
        progress_view_resize(pull->view, rows, columns);
        return draw(pull);
}

static int show_progress(Pull *pull) {
        bool is_limited = pull->options->n_attempts > 0 || pull->options->timeout_sec > 0;
        sd_event *event = node_client_event(pull->client);
        size_t rows, columns;
        int r;

        terminal_get_size(&rows, &columns);
        r = progress_view_new(stdout, rows, columns, pull->options->format == OUTPUT_WIDE,
                              is_limited ? NULL : RETRY_HINT, &pull->view);
        if (r < 0)
                return r;

        timer_init(&pull->redraw, event, /* accuracy_usec= */ 0, on_redraw, pull);
        r = timer_start(&pull->redraw, REDRAW_USEC);
        if (r < 0)
                return r;

        return loop_add_signal(event, &pull->resize, SIGWINCH, on_resize, pull);
}

static bool wants_progress(const Options *options) {
        return options_wants_table(options) && !options->quiet && !options->no_wait &&
               terminal_is_capable();
}

static int print_id(const PullItem *item) {
        cleanup(free_p) char *id = terminal_text_escape(item->image_id);
        cleanup(free_p) char *failure = pull_item_failure(item);

        if (!id || !failure)
                return -ENOMEM;

        if (item->phase == INPLACED__V1__PHASE__PHASE_SUCCEEDED)
                printf("%s\n", id);
        else if (item->phase == INPLACED__V1__PHASE__PHASE_FAILED)
                complain("%s: %s", item->image, failure);
        return 0;
}

static int print_line(const PullItem *item) {
        cleanup(free_p) char *line = NULL;

        line = pull_report_line(item, &(PullReportStyle){ .has_full_id = true });
        if (!line)
                return -ENOMEM;

        puts(line);
        return 0;
}

static int print_items(Pull *pull, bool with_unfinished) {
        for (size_t i = 0; i < pull->list.n_items; i++) {
                PullItem *item = &pull->list.items[i];
                int r;

                if (item->is_printed || !(with_unfinished || pull_item_is_finished(item)))
                        continue;

                r = pull->options->quiet ? print_id(item) : print_line(item);
                if (r < 0)
                        return r;

                item->is_printed = true;
        }

        (void) fflush(stdout); /* a pipe would keep the line */
        return 0;
}

/* To be called when an image has finished. */
static int print_update(Pull *pull) {
        if (pull->view)
                return draw(pull);

        return options_wants_table(pull->options) ? print_items(pull, false) : 0;
}

/* A request that goes on without us can be withdrawn. */
static int print_request(const Pull *pull) {
        const char *id = pull->list.request_id;

        if (!pull->options->no_wait || pull->options->quiet || !id[0])
                return 0;

        return print_safe("request %s; to withdraw it: inplacectl cancel %s", id, id);
}

/* To be called when nothing will change any more. */
static int print_end(Pull *pull) {
        cleanup(json_object_put_p) json_object *tree = NULL;
        int r;

        if (pull->view)
                return draw(pull);
        if (options_wants_table(pull->options)) {
                r = print_items(pull, true);
                return r < 0 ? r : print_request(pull);
        }

        tree = pull_report_json(&pull->list);
        return tree ? output_tree(pull->options->format, tree) : -ENOMEM;
}

/* The same if nothing was begun: there are no lines about single images. */
static int print_abandoned(Pull *pull) {
        if (!options_wants_table(pull->options))
                return print_end(pull);

        if (pull->view)
                progress_view_clear(pull->view);
        return 0;
}

/* Finds the first failure, and whether all have the same reason. */
static const PullItem *failed_item(const PullList *list, bool *ret_is_same) {
        const PullItem *first = NULL;

        *ret_is_same = true;
        for (size_t i = 0; i < list->n_items; i++) {
                const PullItem *item = &list->items[i];

                if (item->phase != INPLACED__V1__PHASE__PHASE_FAILED)
                        continue;
                if (!first)
                        first = item;
                else if (strcmp(first->reason, item->reason) != 0)
                        *ret_is_same = false;
        }

        return first;
}

/* The pull ended because the registry refused it too often. */
static bool has_given_up(const PullItem *failed, const Options *options) {
        PullReason reason = pull_reason_from_string(failed->reason);

        return !options->has_attempts && !failed->option &&
               pull_reason_is_refusal(reason, failed->message);
}

/* Returns advice about a failure, with the option that caused it, if one did. */
static const char *advice_for(const PullItem *failed, const Options *options) {
        PullReason reason = pull_reason_from_string(failed->reason);

        if (failed->cause[0])
                return pull_reason_advice(pull_reason_from_string(failed->cause));
        if (failed->option)
                return strcmp(failed->option, "--timeout") == 0
                               ? "allow more with --timeout"
                               : "allow more with --attempt-timeout";
        if (reason == PULL_REASON_DEADLINE && options->attempt_timeout_sec > 0)
                return "allow more with --attempt-timeout, or check the network between node and "
                       "registry";

        return pull_reason_advice(reason);
}

static void complain_of_one(const PullItem *failed, const char *advice, bool has_ended) {
        char attempts[40] = "";

        if (has_ended && failed->attempt > 1)
                (void) snprintf(attempts, sizeof(attempts), " in %u attempts",
                                (unsigned) failed->attempt);
        if (failed->option)
                complain("cannot pull %s: %s (%s)%s%s; %s", failed->image, failed->reason,
                         failed->option, failed->cause[0] ? " after " : ", ",
                         failed->cause[0] ? failed->cause : pull_item_stage(failed), advice);
        else
                complain("cannot pull %s: %s%s%s%s; %s%s", failed->image, failed->reason, attempts,
                         failed->cause[0] ? " after " : "", failed->cause, advice,
                         has_ended ? "; --attempts 0 tries for ever" : "");
}

/* Prints one line to stderr if images failed. */
static void print_summary(const PullList *list, const Options *options) {
        size_t n_failed = pull_list_count_failed(list);
        const PullItem *failed;
        const char *advice;
        bool is_same;

        failed = failed_item(list, &is_same);
        if (!failed)
                return;

        advice = is_same ? advice_for(failed, options) : "see the reason of each";
        if (n_failed == 1)
                complain_of_one(failed, advice, has_given_up(failed, options));
        else
                complain("%zu of %zu images failed; %s%s", n_failed, list->n_items, advice,
                         is_same && has_given_up(failed, options) ? "; --attempts 0 tries for ever"
                                                                  : "");
}

static int pull_ask(Pull *pull);

static int pull_end(Pull *pull) {
        return sd_event_exit(node_client_event(pull->client), 0);
}

/* Uses the agent's words, so that scripts need not know who ended it. */
static const char *reason_of(const Error *error) {
        return error->kind == ERROR_INVALID ? pull_reason_to_string(PULL_REASON_INVALID_REFERENCE)
                                            : "AgentUnavailable";
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

static int on_back(const Error *given_up, void *userdata) {
        return given_up ? pull_refused(userdata, given_up) : pull_ask(userdata);
}

/* The agent most likely restarts, and loses the request, so the command repeats it; a second
 * request for an image costs nothing. */
static int pull_lost(Pull *pull) {
        if (!node_client_is_away(pull->client)) {
                pull_list_wait(&pull->list, clock_monotonic_usec());
                if (!pull->view)
                        complain("lost the connection to inplaced, connecting again");
        }

        return node_client_reconnect(pull->client, on_back, pull);
}

/* Without drawing in place, prints once why an image waits, such as for the runtime or the disk,
 * and each failed attempt. */
static int print_wait(const Pull *pull, PullItem *item) {
        cleanup(free_p) char *retry = NULL;

        if (item->step == INPLACED__V1__STEP__STEP_WAITING_FOR_RUNTIME &&
            pull_list_count_step(&pull->list, item->step) == 1)
                complain("waiting for the container runtime%s%s", item->message[0] ? ": " : "",
                         item->message);

        if (item->step == INPLACED__V1__STEP__STEP_WAITING_FOR_DISK &&
            pull_list_count_step(&pull->list, item->step) == 1)
                complain("%s: waiting for free disk space: %s", item->image, item->message);

        if (item->step == INPLACED__V1__STEP__STEP_WAITING_FOR_POD &&
            pull_list_count_step(&pull->list, item->step) == 1)
                complain("%s: waiting for a pod: %s", item->image, item->message);

        if (item->step != INPLACED__V1__STEP__STEP_BACKING_OFF ||
            item->attempt == item->reported_attempt)
                return 0;

        retry = pull_item_retry(item, pull->options, clock_monotonic_usec());
        if (!retry)
                return -ENOMEM;

        item->reported_attempt = item->attempt;
        complain("%s: %s; %s", item->image, item->message, retry);
        return 0;
}

/* Each image is queued for a moment. */
static int on_queued(void *userdata) {
        const Pull *pull = userdata;
        size_t n = pull_list_count_unbegun(&pull->list);

        if (n > 0)
                complain("%zu of %zu image%s wait%s for a turn; see maxParallelPulls and: "
                         "inplacectl "
                         "status",
                         n, pull->list.n_items, pull->list.n_items == 1 ? "" : "s",
                         n == 1 ? "s" : "");
        return 0;
}

/* The agent ends the pulls at that time as well, if it can, and its status has the reason; so one
 * that has answered gets a moment. But it may be away or hang, its clock starts at each image's
 * turn, and another request may have more time. */
static int on_timeout(void *userdata) {
        Pull *pull = userdata;
        int r;

        if (pull->was_heard && !pull->is_past_timeout) {
                pull->is_past_timeout = true;
                return timer_start(&pull->timeout, TIMEOUT_MARGIN_USEC);
        }

        r = pull_list_end_at_timeout(&pull->list, clock_monotonic_usec());
        return r < 0 ? r : pull_end(pull);
}

/* Images with possible attempts go on. */
static int on_waits(void *userdata) {
        uint64_t now_usec = clock_monotonic_usec(), next_usec;
        Pull *pull = userdata;
        int r;

        r = pull_list_end_waits(&pull->list, pull->options->attempt_timeout_sec, now_usec,
                                &next_usec);
        if (r < 0)
                return r;
        if (pull_list_is_finished(&pull->list))
                return pull_end(pull);

        r = print_update(pull);
        return r < 0 ? r : timer_start_at(&pull->waits, next_usec);
}

static int pull_start_limits(Pull *pull) {
        const Options *options = pull->options;
        int r = 0;

        if (options->timeout_sec > 0)
                r = timer_start(&pull->timeout, (uint64_t) options->timeout_sec * USEC_PER_SEC);
        if (r >= 0 && !pull->view && !options->no_wait)
                r = timer_start(&pull->queued, QUEUED_USEC);
        if (r >= 0 && options->attempt_timeout_sec > 0)
                r = timer_start(&pull->waits,
                                (uint64_t) options->attempt_timeout_sec * USEC_PER_SEC);
        return r;
}

static int on_goodbye(void *userdata) {
        return pull_end(userdata);
}

static int on_event(const void *message, void *userdata) {
        Pull *pull = userdata;
        PullItem *item;
        int r;

        node_client_heard(pull->client);
        pull->was_heard = true;

        r = pull_list_apply(&pull->list, message, clock_monotonic_usec(), time(NULL), &item);
        if (r < 0 || !item)
                return r;
        if (!pull_item_is_finished(item))
                return pull->view || pull->options->no_wait ? 0 : print_wait(pull, item);

        r = print_update(pull);
        if (r < 0 || !pull_list_is_finished(&pull->list))
                return r;

        /* The agent ends the stream now. If it does not, stops waiting. */
        return timer_start(&pull->goodbye, GOODBYE_USEC);
}

static int on_end(const void *reply, const Error *error, void *userdata) {
        cleanup(error_done) Error early = ERROR_INIT, explained = ERROR_INIT;
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

        /* An agent that stops cancels its calls; the command has not canceled this one itself. */
        if (pull->was_heard ? error->kind == ERROR_UNAVAILABLE || error->kind == ERROR_CANCELED
                            : node_client_is_lost(pull->client, error))
                return pull_lost(pull);

        (void) node_client_explain(pull->client, error, &explained);
        return pull_refused(pull, &explained);
}

static void set_limits(Inplaced__V1__PreloadRequest *request, const Options *options) {
        request->timeout_seconds = options->attempt_timeout_sec;
        request->active_deadline_seconds = options->timeout_sec;
        if (!options->has_attempts) {
                request->refusal_limit_presence_case =
                        INPLACED__V1__PRELOAD_REQUEST__REFUSAL_LIMIT_PRESENCE_REFUSAL_LIMIT;
                request->refusal_limit = REFUSALS_MAX - 1;
        } else if (options->n_attempts > 0) {
                request->backoff_limit_presence_case =
                        INPLACED__V1__PRELOAD_REQUEST__BACKOFF_LIMIT_PRESENCE_BACKOFF_LIMIT;
                request->backoff_limit = options->n_attempts - 1;
        }
}

static int pull_ask(Pull *pull) {
        Inplaced__V1__PreloadRequest request = INPLACED__V1__PRELOAD_REQUEST__INIT;
        cleanup(free_p) char **images = calloc(pull->list.n_items, sizeof(*images));
        int r;

        if (!images)
                return -ENOMEM;

        if (!pull->view) {
                r = node_client_await(pull->client);
                if (r < 0)
                        return r;
        }

        request.images = images;
        for (size_t i = 0; i < pull->list.n_items; i++)
                if (!pull_item_is_finished(&pull->list.items[i]))
                        images[request.n_images++] = (char *) pull->list.items[i].image;

        request.pull_policy = pull->options->always_pull
                                      ? INPLACED__V1__PULL_POLICY__PULL_POLICY_ALWAYS
                                      : INPLACED__V1__PULL_POLICY__PULL_POLICY_IF_NOT_PRESENT;
        request.complete = pull->options->complete;
        request.pin = pull->options->pin;
        request.detach = pull->options->no_wait;
        set_limits(&request, pull->options);

        return rpc_call_stream(node_client_rpc(pull->client), &preload_method, &request.base,
                               RPC_NO_TIMEOUT, on_event, on_end, pull, &pull->call);
}

static int on_interrupt(sd_event_source *source, const struct signalfd_siginfo *info,
                        void *userdata) {

        Pull *pull = userdata;
        int r;

        pull->call = rpc_call_unref(pull->call); /* the agent notices, and withdraws the request */
        pull->signal = (int) info->ssi_signo;

        r = pull_list_cancel(&pull->list, clock_monotonic_usec());
        if (r < 0)
                return r;

        return pull_end(pull);
}

static void pull_done(Pull *pull) {
        rpc_call_unref(pull->call);
        timer_done(&pull->timeout);
        timer_done(&pull->waits);
        timer_done(&pull->queued);
        timer_done(&pull->goodbye);
        sd_event_source_disable_unref(pull->resize);
        timer_done(&pull->redraw);
        progress_view_free(pull->view);
        node_client_free(pull->client);
        pull_list_done(&pull->list);
        error_done(&pull->refused);
}

static int pull_run(Pull *pull) {
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        r = pull_start_limits(pull);
        if (r < 0)
                return r;

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

static int pull_conclude(const Pull *pull) {
        if (pull->signal > 0) {
                complain("interrupted");
                return EXIT_STATUS_SIGNAL + pull->signal;
        }

        if (pull->refused.kind != ERROR_NONE)
                complain("%s", error_message(&pull->refused));
        else
                print_summary(&pull->list, pull->options);

        if (pull->refused.kind == ERROR_INVALID)
                return EXIT_STATUS_USAGE;
        return (int) pull_list_exit_status(&pull->list);
}

int command_pull(const Options *options) {
        cleanup(pull_done) Pull pull = { .options = options };
        bool has_begun;
        int r;

        r = pull_list_init(&pull.list, options->arguments, (size_t) options->n_arguments,
                           options->timeout_sec, clock_monotonic_usec());
        if (r < 0)
                return r;

        r = node_client_new(options->socket_path, on_interrupt, &pull, &pull.client);
        if (r < 0)
                return r;
        timer_init(&pull.timeout, node_client_event(pull.client), /* accuracy_usec= */ 1000,
                   on_timeout, &pull);
        timer_init(&pull.queued, node_client_event(pull.client), /* accuracy_usec= */ 0, on_queued,
                   &pull);
        timer_init(&pull.waits, node_client_event(pull.client), /* accuracy_usec= */ 1000, on_waits,
                   &pull);
        timer_init(&pull.goodbye, node_client_event(pull.client), /* accuracy_usec= */ 0,
                   on_goodbye, &pull);

        if (wants_progress(options)) {
                r = show_progress(&pull);
                if (r < 0)
                        return r;
        }

        r = pull_run(&pull);
        if (r < 0)
                return r;

        has_begun = pull.was_heard || (pull.refused.kind == ERROR_NONE && pull.signal == 0);
        r = has_begun ? print_end(&pull) : print_abandoned(&pull);
        if (r < 0)
                return r;

        return pull_conclude(&pull);
}

int command_pin(const Options *options) {
        Options pin = *options;

        pin.pin = true;
        return command_pull(&pin);
}
