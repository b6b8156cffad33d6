/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/loop.h"
#include "agent/base/text.h"
#include "agent/base/time-units.h"
#include "agent/ctl/commands.h"
#include "agent/ctl/follow.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/view/format.h"
#include "agent/view/output.h"
#include "agent/view/status-rows.h"
#include "agent/view/status-select.h"
#include "agent/view/terminal.h"

/* An image to wait for. */
typedef struct Target {
        char *name; /* "demo/web:1" */
        char *phase;
        char *message;
        bool is_desired;
        bool is_present;
        bool has_failed;
} Target;

typedef struct Wait {
        const Options *options;
        NodeClient *client;
        Follower *follower;
        Timer timeout;
        Target *targets;
        size_t n_targets;
        size_t n_present;
        size_t n_failed;
        bool has_begun; /* the first line has been printed */
        bool is_over;
        int result; /* an ExitStatus, or 128 and the number of a signal */
} Wait;

static int wait_end(Wait *wait, int result) {
        wait->is_over = true;
        wait->result = result;
        return sd_event_exit(node_client_event(wait->client), 0);
}

static Target *find(const Wait *wait, const char *name) {
        for (size_t i = 0; i < wait->n_targets; i++)
                if (strcmp(wait->targets[i].name, name) == 0)
                        return &wait->targets[i];

        return NULL;
}

/* A target that is there no more by its name: the agent calls Docker Hub's images by others once it knows the
 * runtime. */
static Target *find_renamed(const Wait *wait, const char *name) {
        for (size_t i = 0; i < wait->n_targets; i++)
                if (!wait->targets[i].is_desired &&
                    status_reference_equal(wait->targets[i].name, name))
                        return &wait->targets[i];

        return NULL;
}

static int mark_desired(Wait *wait, const StatusRows *rows) {
        for (size_t i = 0; i < wait->n_targets; i++)
                wait->targets[i].is_desired = false;

        for (size_t i = 0; i < rows->n_items; i++) {
                cleanup(free_p) char *name = NULL;
                Target *target;

                if (status_row_reference(&rows->items[i], &name) < 0)
                        return -ENOMEM;
                target = find(wait, name);
                if (target)
                        target->is_desired = true;
        }

        return 0;
}

static int find_or_add(Wait *wait, const StatusRow *row, Target **ret) {
        cleanup(free_p) char *name = NULL;

        if (status_row_reference(row, &name) < 0)
                return -ENOMEM;

        *ret = find(wait, name);
        if (*ret)
                return 0;
        *ret = find_renamed(wait, name);
        if (*ret)
                return text_set(&(*ret)->name, name);

        if (array_grow(&wait->targets, wait->n_targets, sizeof(Target)) < 0)
                return -ENOMEM;

        wait->targets[wait->n_targets] = (Target){ .name = take_ptr(name) };
        *ret = &wait->targets[wait->n_targets++];
        return 0;
}

/* Prints news: an image is present, or why it has failed. */
static int update_target(Wait *wait, const StatusRow *row) {
        bool is_present = strcmp(row->phase, "Succeeded") == 0;
        bool has_failed = strcmp(row->phase, "Failed") == 0;
        Target *target;
        int r;

        r = find_or_add(wait, row, &target);
        if (r < 0)
                return r;

        if (is_present && !target->is_present && options_wants_table(wait->options)) {
                r = print_safe("%s condition met", target->name);
                (void) fflush(stdout); /* a pipe would keep the line */
        }
        if (has_failed && !target->has_failed)
                complain("%s failed: %s", target->name, row->message);
        wait->n_present = wait->n_present + is_present - target->is_present;
        wait->n_failed = wait->n_failed + has_failed - target->has_failed;
        target->is_desired = true;
        target->is_present = is_present;
        target->has_failed = has_failed;
        if (r < 0 || text_set(&target->phase, row->phase) < 0 ||
            text_set(&target->message, row->message) < 0)
                return -ENOMEM;

        return 0;
}

/* Names the first image to wait for, and the number of the others. */
static void complain_of_waiting(const Wait *wait, const char *what) {
        size_t n = wait->n_targets - wait->n_present - wait->n_failed;
        const Target *target = wait->targets;
        char more[40] = "";

        while (target->is_present || target->has_failed)
                target++;
        if (n > 1)
                snprintf(more, sizeof(more), " and %zu more", n - 1);
        complain("%s %s%s: %s%s%s", what, target->name, more, target->phase,
                 target->message[0] ? ": " : "", target->message);
}

static int end_if_done(Wait *wait, json_object *selected) {
        ExitStatus result = wait->n_failed == 0    ? EXIT_STATUS_DONE
                            : wait->n_present == 0 ? EXIT_STATUS_FAILED
                                                   : EXIT_STATUS_PARTLY;
        int r = 0;

        if (wait->n_present + wait->n_failed < wait->n_targets) {
                if (!wait->has_begun)
                        complain_of_waiting(wait, "waiting for");
                wait->has_begun = true;
                return 0;
        }

        if (!options_wants_table(wait->options))
                r = output_tree(wait->options->format, selected);
        return r < 0 ? r : wait_end(wait, (int) result);
}

static int update(Wait *wait, json_object *selected) {
        cleanup(status_rows_done) StatusRows rows = STATUS_ROWS_INIT;
        int r;

        r = status_rows_read(selected, &rows);
        if (r >= 0)
                r = mark_desired(wait, &rows);
        for (size_t i = 0; r >= 0 && i < rows.n_items; i++)
                r = update_target(wait, &rows.items[i]);
        if (r < 0)
                return r;

        for (size_t i = 0; i < wait->n_targets; i++) {
                const Target *target = &wait->targets[i];

                if (target->is_desired || target->is_present || target->has_failed)
                        continue;
                complain("%s is no longer desired; try: inplacectl status", target->name);
                return wait_end(wait, EXIT_STATUS_FAILED);
        }

        return end_if_done(wait, selected);
}

static int on_changed(json_object *node_image, json_object *changes,
                      const Inplaced__V1__WatchEvent *event, void *userdata) {

        cleanup(json_object_put_p) json_object *selected = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        Wait *wait = userdata;
        const StatusSelection selection = {
                .images = wait->options->arguments,
                .n_images = (size_t) wait->options->n_arguments,
                /* A request that is finished may end before the others. */
                .is_partial = wait->n_targets > 0,
        };
        int r;

        if (wait->is_over)
                return 0;
        selected = json_copy(node_image);
        if (!selected)
                return -ENOMEM;

        r = status_select(selected, &selection, &error);
        if (error.kind != ERROR_NONE) {
                complain("%s", error_message(&error));
                return wait_end(wait, error.kind == ERROR_INVALID ? EXIT_STATUS_USAGE
                                                                  : EXIT_STATUS_FAILED);
        }

        return r < 0 ? r : update(wait, selected);
}

static int on_refused(const Error *error, void *userdata) {
        complain("%s", error_message(error));
        return wait_end(userdata, EXIT_STATUS_FAILED);
}

static int on_timeout(void *userdata) {
        cleanup(free_p) char *what = NULL;
        Wait *wait = userdata;

        if (text_format(&what, "timed out after the %s of --timeout waiting for",
                        format_duration((uint64_t) wait->options->timeout_sec, FORMAT_BUFFER)) < 0)
                return -ENOMEM;

        if (wait->n_present + wait->n_failed < wait->n_targets)
                complain_of_waiting(wait, what);
        else
                complain("%s inplaced at %s", what, wait->options->socket_path);
        return wait_end(wait, EXIT_STATUS_TIMEOUT);
}

static int on_interrupt(sd_event_source *source, const struct signalfd_siginfo *info,
                        void *userdata) {

        complain("interrupted");
        return wait_end(userdata, EXIT_STATUS_SIGNAL + (int) info->ssi_signo);
}

static void wait_done(Wait *wait) {
        timer_done(&wait->timeout);
        follower_free(wait->follower);
        node_client_free(wait->client);
        for (size_t i = 0; i < wait->n_targets; i++) {
                free(wait->targets[i].name);
                free(wait->targets[i].phase);
                free(wait->targets[i].message);
        }
        free(wait->targets);
}

static int wait_run(Wait *wait) {
        int r;

        if (wait->options->timeout_sec > 0) {
                r = timer_start(&wait->timeout,
                                (uint64_t) wait->options->timeout_sec * USEC_PER_SEC);
                if (r < 0)
                        return r;
        }

        r = follower_new(
                &(FollowerOptions){
                        .client = wait->client,
                        .on_changed = on_changed,
                        .on_refused = on_refused,
                        .userdata = wait,
                },
                &wait->follower);
        return r < 0 || wait->is_over ? r : sd_event_loop(node_client_event(wait->client));
}

int command_wait(const Options *options) {
        cleanup(wait_done) Wait wait = { .options = options };
        int r;

        r = node_client_new(options->socket_path, on_interrupt, &wait, &wait.client);
        if (r < 0)
                return r;

        timer_init(&wait.timeout, node_client_event(wait.client), /* accuracy_usec= */ 1000,
                   on_timeout, &wait);
        r = wait_run(&wait);
        return r < 0 ? r : wait.result;
}
