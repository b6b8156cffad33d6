/* SPDX-License-Identifier: Apache-2.0 */

/*
 * kubectl inplace status
 *
 * One line for each update in place that has not ended, and one for each pod. Where its node's agent may not be asked
 * for, that column is empty. Of a pod that waits for an image, the agent of its node is asked how far the pull is.
 */

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/clock.h"
#include "agent/base/text.h"
#include "agent/base/time-units.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/agents.h"
#include "agent/kubectl/commands.h"
#include "agent/kubectl/hint.h"
#include "agent/kubectl/open-updates.h"
#include "agent/kubectl/pod-choice.h"
#include "agent/kubectl/pod-pulls.h"
#include "agent/kubectl/pod-report.h"
#include "agent/kubectl/pulls-plan.h"
#include "agent/view/format.h"
#include "agent/view/output.h"
#include "agent/view/pulls-view.h"
#include "agent/view/table.h"
#include "agent/view/terminal.h"

#define DESCRIPTION_SIZE 256
/* Updates are read again after a change of their pods, and while one has not ended. */
#define UPDATES_CHANGED_USEC (2 * USEC_PER_SEC)
#define UPDATES_OPEN_USEC (5 * USEC_PER_SEC)

/* clang-format off */
enum { COLUMN_NAMESPACE, COLUMN_POD, COLUMN_IMAGE, COLUMN_RUNNING, COLUMN_VERDICT, COLUMN_ENVIRONMENT,
       COLUMN_RESTARTS, COLUMN_SINCE, COLUMN_PULL, COLUMN_AGENT, COLUMN_NODE, COLUMN_MESSAGE, _COLUMN_MAX };

static const TableColumn columns[_COLUMN_MAX] = {
        [COLUMN_NAMESPACE]   = { .title = "NAMESPACE", .may_be_cut = true },
        [COLUMN_POD]         = { .title = "POD", .may_be_cut = true, .keeps_tail = true, .width_min = 12 },
        [COLUMN_IMAGE]       = { .title = "IMAGE", .may_be_cut = true, .keeps_tail = true },
        [COLUMN_RUNNING]     = { .title = "RUNNING", .may_be_cut = true },
        [COLUMN_VERDICT]     = { .title = "VERDICT", .is_optional = true },
        [COLUMN_ENVIRONMENT] = { .title = "ENVIRONMENT", .is_optional = true },
        [COLUMN_RESTARTS]    = { .title = "RESTARTS", .is_right = true },
        [COLUMN_SINCE]       = { .title = "SINCE", .is_right = true },
        [COLUMN_PULL]        = { .title = "PULL", .is_optional = true },
        [COLUMN_AGENT]       = { .title = "AGENT", .may_be_cut = true, .is_optional = true },
        [COLUMN_NODE]        = { .title = "NODE", .is_wide = true },
        [COLUMN_MESSAGE]     = { .title = "MESSAGE", .is_wide = true },
};
/* clang-format on */

/* A pod that waits for an image, and where its pull is shown. */
typedef struct Waiting {
        char *namespace, *name;
        size_t row;        /* row of the table */
        json_object *item; /* NULL: a table */
} Waiting;

/* The first column is there only with --all-namespaces. */
typedef struct Status {
        Session *session;
        const Flags *flags;
        Table *table;                     /* NULL: -o json, yaml or name */
        TableColumn columns[_COLUMN_MAX]; /* columns of the table */
        json_object *list;                /* NULL: a table, or names */
        json_object *updates;             /* updates that have not ended */
        uint64_t read_usec;               /* when they were read */
        bool has_changed;                 /* a pod, since then */
        Agents agents;
        PodPulls *pulls; /* NULL: no pod waits for an image, as far as is known */
        Waiting *waiting;
        size_t n_waiting;
        bool has_failed; /* some of what was asked for is not there */
        bool has_begun;  /* a watch has printed a document */
        size_t n_pods;
} Status;

static void status_done(Status *status) {
        table_free(status->table);
        json_object_put(status->list);
        json_object_put(status->updates);
        agents_done(&status->agents);
        pod_pulls_free(status->pulls);
        for (size_t i = 0; i < status->n_waiting; i++) {
                free(status->waiting[i].namespace);
                free(status->waiting[i].name);
                json_object_put(status->waiting[i].item);
        }
        free(status->waiting);
}

/* Column of the first cell of a row. */
static size_t first_column(const Status *status) {
        return status->flags->all_namespaces ? COLUMN_NAMESPACE : COLUMN_POD;
}

static int add_row(Status *status, const PodReport *report) {
        const bool is_wide = status->flags->format == OUTPUT_WIDE;
        char agent[DESCRIPTION_SIZE], restarts[32];
        const char *cells[_COLUMN_MAX] = {
                [COLUMN_NAMESPACE] = report->namespace,
                [COLUMN_POD] = report->name,
                [COLUMN_IMAGE] = is_wide ? report->images : report->short_images,
                [COLUMN_RUNNING] = is_wide ? report->running_ids : report->running,
                [COLUMN_VERDICT] = report->verdict,
                [COLUMN_ENVIRONMENT] = report->environment,
                [COLUMN_RESTARTS] = restarts,
                [COLUMN_SINCE] = "-",
                [COLUMN_PULL] = "-",
                [COLUMN_AGENT] = node_agent_describe(agents_find(&status->agents, report->node),
                                                     agent, sizeof(agent)),
                [COLUMN_NODE] = report->node,
                [COLUMN_MESSAGE] = strcmp(report->verdict, "Verified") == 0 ? "" : report->message,
        };
        const int64_t age = session_server_sec(status->session) - report->since;
        FormatBuffer since;

        (void) snprintf(restarts, sizeof(restarts), "%lld", (long long) report->restarts);
        if (report->since > 0)
                cells[COLUMN_SINCE] = format_age(age > 0 ? (uint64_t) age : 0, &since);
        return table_add_row(status->table, cells + first_column(status));
}

static int add_item(Status *status, json_object *pod, const PodReport *report) {
        const NodeAgent *agent = agents_find(&status->agents, report->node);
        cleanup(json_object_put_p) json_object *item = pod_report_json(pod, report);
        char text[DESCRIPTION_SIZE];

        if (!item || (agent && patch_add_text(item, "agent",
                                              node_agent_describe(agent, text, sizeof(text))) < 0))
                return -ENOMEM;

        return patch_append(status->list, take_ptr(item));
}

/* The pod was added just now. */
static int note_waiting(Status *status, const PodReport *report) {
        json_object *item =
                status->list ? json_object_array_get_idx(status->list, status->n_pods - 1) : NULL;
        Waiting *waiting;
        int r = status->pulls ? 0 : pod_pulls_new(status->session, status->flags, &status->pulls);

        if (r < 0 || array_grow(&status->waiting, status->n_waiting, sizeof(*waiting)) < 0)
                return -ENOMEM;

        waiting = &status->waiting[status->n_waiting++];
        *waiting = (Waiting){ .row = status->n_pods - 1, .item = json_object_get(item) };
        if (text_copy(report->namespace, &waiting->namespace) < 0 ||
            text_copy(report->name, &waiting->name) < 0)
                return -ENOMEM;

        return pod_pulls_ask(status->pulls, agents_find(&status->agents, report->node));
}

static int add_pulls(Status *status, Error *reterr) {
        int r = status->pulls ? pod_pulls_wait(status->pulls, reterr) : 0;

        for (size_t i = 0; r >= 0 && i < status->n_waiting; i++) {
                const Waiting *waiting = &status->waiting[i];
                json_object *pull =
                        pod_pulls_find(status->pulls, waiting->namespace, waiting->name);
                cleanup(free_p) char *text = NULL;

                if (pull && waiting->item)
                        r = patch_add(waiting->item, "pull", json_object_get(pull));
                else if (pull)
                        r = pull_summary(pull, &text)
                                    ?: table_set_cell(status->table, waiting->row,
                                                      COLUMN_PULL - first_column(status), text);
        }
        return r;
}

static int on_pod(json_object *pod, void *userdata) {
        cleanup(pod_report_done) PodReport report = POD_REPORT_INIT;
        Status *status = userdata;
        int r;

        r = pod_report_make(pod, &report);
        if (r < 0)
                return r;

        status->n_pods++;
        if (!status->table && !status->list)
                return print_safe("pod/%s", report.name);

        r = status->table ? add_row(status, &report) : add_item(status, pod, &report);
        if (r < 0 || status->flags->watch || !pod_awaits_image(pod))
                return r;

        return note_waiting(status, &report);
}

/* NULL: all. */
static const char *namespace_of(const Status *status) {
        return status->flags->all_namespaces ? NULL : session_namespace(status->session);
}

static int choose(const Status *status, size_t i, PodChoice *ret, Error *reterr) {
        return i < (size_t) status->flags->n_arguments
                       ? pod_choice_of_name(status->session, status->flags->arguments[i], ret,
                                            reterr)
                       : pod_choice_of_labels(status->flags->selector, ret);
}

/* Complains of an object that is not there, and lets the others be shown. */
static int show_choice(Status *status, size_t i, Error *reterr) {
        cleanup(pod_choice_done) PodChoice choice = POD_CHOICE_INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        size_t n;
        int r;

        r = choose(status, i, &choice, &error);
        if (error.kind == ERROR_NONE && r >= 0)
                r = pod_choice_list(status->session, &choice, namespace_of(status), on_pod, status,
                                    &n, &error);
        if (error.kind == ERROR_NOT_FOUND) {
                complain("%s", error_message(&error));
                status->has_failed = true;
                return 0;
        }
        if (error.kind != ERROR_NONE)
                return error_copy(reterr, &error);
        if (r < 0)
                return r;

        if (n == 0 && choice.fields) {
                complain("pods \"%s\" not found in namespace %s", choice.name,
                         session_namespace(status->session));
                status->has_failed = true;
        }
        return 0;
}

static int print_update(const Status *status, json_object *update, const char *text) {
        const bool is_all = status->flags->all_namespaces;

        return print_safe("%s%s%s/%s: %s", is_all ? json_get_text(update, "namespace") : "",
                          is_all ? " " : "", json_get_text(update, "kind"),
                          json_get_text(update, "name"), text);
}

static int print_updates(const Status *status) {
        for (size_t i = 0; i < json_object_array_length(status->updates); i++) {
                json_object *update = json_object_array_get_idx(status->updates, i);
                bool can_go_on = open_update_can_go_on(update);
                cleanup(free_p) char *name = NULL;
                cleanup(free_p) char *text = NULL;
                int r;

                if (text_format(&name, "%s/%s", json_get_text(update, "kind"),
                                json_get_text(update, "name")) < 0 ||
                    text_format(&text, "%s%s", json_get_text(update, "text"),
                                can_go_on ? "; to go on:" : "") < 0)
                        return -ENOMEM;
                r = print_update(status, update, text);
                if (r < 0)
                        return r;
                if (can_go_on)
                        hint(status->session, json_get_text(update, "namespace"),
                             "kubectl inplace rollout", HINT_WORDS(name));
        }
        return 0;
}

/* Names of pods alone say nothing of workloads. */
static int find_updates(Status *status, Error *reterr) {
        const Flags *flags = status->flags;
        int r = 0;

        if (flags->wants_names)
                return 0;
        if (flags->n_arguments == 0)
                return open_updates_of_namespace(status->session, namespace_of(status),
                                                 flags->selector, status->updates, reterr);
        for (int i = 0; r >= 0 && i < flags->n_arguments; i++)
                if (strchr(flags->arguments[i], '/'))
                        r = open_updates_of_workload(status->session, flags->arguments[i],
                                                     status->updates, reterr);
        return r;
}

static size_t count_choices(const Status *status) {
        return status->flags->n_arguments > 0 ? (size_t) status->flags->n_arguments : 1;
}

static int print_all(Status *status) {
        if (status->list) {
                cleanup(json_object_put_p) json_object *tree = json_object_new_object();

                if (patch_add(tree, "items", take_ptr(status->list)) < 0 ||
                    patch_add(tree, "rollouts", json_object_get(status->updates)) < 0)
                        return -ENOMEM;
                return output_tree(status->flags->format, tree);
        }
        if (status->table && status->n_pods > 0)
                return table_print(status->table);
        if (status->n_pods == 0 && !status->has_failed)
                complain("no pods found%s%s", status->flags->all_namespaces ? "" : " in namespace ",
                         namespace_of(status) ?: "");

        return 0;
}

static int show_once(Status *status) {
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        for (size_t i = 0; i < count_choices(status); i++) {
                r = show_choice(status, i, &error);
                if (r < 0)
                        return session_fail(status->session, r, &error);
        }

        r = find_updates(status, &error);
        if (r >= 0)
                r = add_pulls(status, &error);
        if (r < 0)
                return session_fail(status->session, r, &error);
        if (!status->list)
                r = print_updates(status);
        if (r >= 0)
                r = print_all(status);
        if (r < 0)
                return r;
        return exit_status_of(status->has_failed, status->n_pods > 0);
}

static int on_watched(const KubeObject *object, void *userdata) {
        Status *status = userdata;

        status->has_changed = true;
        return on_pod(object->json, userdata);
}

static int on_pod_gone(const KubeObject *object, void *userdata) {
        Status *status = userdata;

        status->has_changed = true;
        if (!status->table)
                return 0;

        return table_add_row(status->table,
                             &(const char *const[_COLUMN_MAX]){
                                     object->namespace, object->name, "-", "-", "Deleted", "-", "-",
                                     "-", "-", "-", "-", "" }[first_column(status)]);
}

/* Documents of YAML that follow each other have a line in between. */
static int print_document(Status *status, json_object *tree) {
        if (status->has_begun && status->flags->format == OUTPUT_YAML)
                puts("---");
        status->has_begun = true;
        return output_tree(status->flags->format, tree);
}

static int print_changes(Status *status) {
        int r = 0;

        if (status->table)
                r = table_print_more(status->table);
        if (status->list && json_object_array_length(status->list) > 0)
                for (size_t i = 0; r >= 0 && i < json_object_array_length(status->list); i++)
                        r = print_document(status, json_object_array_get_idx(status->list, i));
        if (r >= 0 && status->list) {
                json_object_put(status->list);
                status->list = json_object_new_array();
                r = status->list ? 0 : -ENOMEM;
        }
        (void) fflush(stdout);
        return r;
}

static void free_choices(PodChoice (*choices)[SESSION_WATCHES_MAX]) {
        for (size_t i = 0; i < SESSION_WATCHES_MAX; i++)
                pod_choice_done(&(*choices)[i]);
}

/* Whether it is time to read the updates again. */
static int is_due(void *userdata) {
        Status *status = userdata;
        uint64_t age_usec = clock_monotonic_usec() - status->read_usec;
        int r = print_changes(status);

        if (r < 0 || status->flags->wants_names)
                return r;
        return (status->has_changed && age_usec >= UPDATES_CHANGED_USEC) ||
               (json_object_array_length(status->updates) > 0 && age_usec >= UPDATES_OPEN_USEC);
}

static json_object *find_update(json_object *list, json_object *update) {
        static const char *const keys[] = { "kind", "namespace", "name" };

        for (size_t i = 0; i < json_object_array_length(list); i++) {
                json_object *one = json_object_array_get_idx(list, i);
                bool is_same = true;

                for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++)
                        is_same = is_same && json_is(one, keys[k], json_get_text(update, keys[k]));
                if (is_same)
                        return one;
        }
        return NULL;
}

/* Compares all members but the text, which has an age in it. */
static bool has_same_state(json_object *a, json_object *b) {
        static const char *const keys[] = { "by",      "since", "state", "before", "after",
                                            "updated", "pods",  "first", "held",   "reason" };

        for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
                if (!json_object_equal(json_object_object_get(a, keys[i]),
                                       json_object_object_get(b, keys[i])))
                        return false;
        return true;
}

/* Lists the updates that are new, further than before, or have ended. */
static int list_changes(json_object *before, json_object *now, json_object *changes) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < json_object_array_length(now); i++) {
                json_object *update = json_object_array_get_idx(now, i);
                json_object *known = find_update(before, update);

                if (!known || !has_same_state(known, update))
                        r = patch_append(changes, json_object_get(update));
        }
        for (size_t i = 0; r >= 0 && i < json_object_array_length(before); i++) {
                json_object *known = json_object_array_get_idx(before, i);

                if (find_update(now, known))
                        continue;
                r = patch_add_text(known, "text", "its update has ended");
                if (r >= 0)
                        r = patch_append(changes, json_object_get(known));
        }
        return r;
}

/* With -o json or yaml prints all open updates, as a separate document. */
static int print_changed_updates(Status *status, json_object *before) {
        cleanup(json_object_put_p) json_object *changes = json_object_new_array();
        cleanup(json_object_put_p) json_object *tree = NULL;
        int r = changes ? list_changes(before, status->updates, changes) : -ENOMEM;

        if (r < 0 || json_object_array_length(changes) == 0)
                return r;
        if (status->list) {
                tree = patch_wrap("rollouts", json_object_get(status->updates));
                return tree ? print_document(status, tree) : -ENOMEM;
        }
        for (size_t i = 0; r >= 0 && i < json_object_array_length(changes); i++) {
                json_object *update = json_object_array_get_idx(changes, i);

                r = print_update(status, update, json_get_text(update, "text"));
        }
        return r;
}

/* While the server is away, keeps the updates that were read before. */
static int read_again(Status *status, Error *reterr) {
        cleanup(json_object_put_p) json_object *before = status->updates;
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        status->updates = json_object_new_array();
        r = status->updates ? find_updates(status, &error) : -ENOMEM;
        status->read_usec = clock_monotonic_usec();
        if (r >= 0) {
                status->has_changed = false;
                r = print_changed_updates(status, before);
                (void) fflush(stdout);
                return r;
        }
        if (!session_is_lost(status->session, &error))
                return error.kind == ERROR_NONE ? r : error_copy(reterr, &error);
        json_object_put(status->updates);
        status->updates = take_ptr(before);
        return 0;
}

/* Shows the open updates before the first pod, as a separate document. */
static int show_updates(Status *status, Error *reterr) {
        cleanup(json_object_put_p) json_object *none = json_object_new_array();
        int r = none ? find_updates(status, reterr) : -ENOMEM;

        status->read_usec = clock_monotonic_usec();
        if (r < 0)
                return r;
        return status->list ? print_changed_updates(status, none) : print_updates(status);
}

/* Only a signal or the time-out ends it. */
static int follow(Status *status, const SessionWatch *watches, size_t n, Error *reterr) {
        cleanup(session_follow_free_p) SessionFollow *follow = NULL;
        int r = show_updates(status, reterr);

        if (r >= 0)
                r = session_follow_new(status->session, watches, n, status, &follow);
        while (r >= 0) {
                r = session_follow_wait(follow, is_due, NULL, status, reterr);
                if (r >= 0)
                        r = read_again(status, reterr);
        }
        return r;
}

static int watch(Status *status) {
        cleanup(free_choices) PodChoice choices[SESSION_WATCHES_MAX] = { POD_CHOICE_INIT };
        SessionWatch watches[SESSION_WATCHES_MAX];
        cleanup(error_done) Error error = ERROR_INIT;
        size_t n = count_choices(status);
        int r;

        if (n > SESSION_WATCHES_MAX) {
                complain("--watch takes up to %d names", SESSION_WATCHES_MAX);
                return EXIT_STATUS_USAGE;
        }
        for (size_t i = 0; i < n; i++) {
                r = choose(status, i, &choices[i], &error);
                if (r < 0)
                        return session_fail(status->session, r, &error);

                watches[i] = (SessionWatch){ .path = { .version = "v1",
                                                       .namespace = namespace_of(status),
                                                       .resource = "pods" },
                                             .fields = choices[i].fields,
                                             .labels = choices[i].labels,
                                             .on_object = on_watched,
                                             .on_gone = on_pod_gone };
        }

        r = follow(status, watches, n, &error);
        if (session_end_status(status->session) > 0)
                return session_end_status(status->session);

        return session_fail(status->session, r, &error);
}

/* Where the server has no NodeImages there may still be agents. */
static int read_agents(Status *status, Error *reterr) {
        const char *version;
        int r;

        r = session_find_kruise(status->session, "nodeimages", &version, reterr);
        return r < 0 ? r
                     : agents_read(status->session, version, /* must_answer= */ false,
                                   &status->agents, reterr);
}

static int status_init(Status *status) {
        const size_t first = first_column(status);

        status->updates = json_object_new_array();
        if (!status->updates)
                return -ENOMEM;
        if (status->flags->wants_names)
                return 0;
        if (!output_is_document(status->flags->format)) {
                memcpy(status->columns, columns, sizeof(columns));
                for (size_t i = 0; status->flags->watch && i < _COLUMN_MAX; i++)
                        status->columns[i].is_optional = false; /* later rows may fill it */
                status->columns[COLUMN_PULL].is_wide = status->flags->watch;
                return table_new(status->columns + first, _COLUMN_MAX - first,
                                 status->flags->format == OUTPUT_WIDE, &status->table);
        }

        status->list = json_object_new_array();
        return status->list ? 0 : -ENOMEM;
}

int kubectl_status(Session *session, const Flags *flags) {
        cleanup(status_done) Status status = { .session = session, .flags = flags };
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        if (flags->selector && flags->n_arguments > 0) {
                complain("a name and a selector exclude each other");
                return EXIT_STATUS_USAGE;
        }
        if (flags->all_namespaces && flags->n_arguments > 0) {
                complain("a name and --all-namespaces exclude each other");
                return EXIT_STATUS_USAGE;
        }

        r = status_init(&status);
        if (r < 0)
                return r;
        if (!flags->wants_names) {
                r = read_agents(&status, &error);
                if (r < 0)
                        return session_fail(session, r, &error);
        }

        return flags->watch ? watch(&status) : show_once(&status);
}
