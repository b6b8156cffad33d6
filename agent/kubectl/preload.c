/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/preload.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/loop.h"
#include "agent/base/sorted.h"
#include "agent/base/text.h"
#include "agent/ctl/format.h"
#include "agent/ctl/terminal.h"
#include "agent/ctl/view.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/preload-plan.h"
#include "agent/kubectl/workload.h"
#include "agent/kube/patch.h"

#define WRITES_MAX 16u
#define USEC_PER_SEC ((uint64_t) 1000000)
#define DRAW_USEC (USEC_PER_SEC / 4)
#define QUIET_USEC (5 * USEC_PER_SEC) /* before it is said what is awaited */
#define REPEAT_USEC (30 * USEC_PER_SEC)
/* A few nodes are watched one by one, rather than all there are. */
#define NODES_WATCHED_ALONE ((size_t) SESSION_WATCHES_MAX - 1)

typedef struct Preload Preload;

typedef struct PreloadNode {
        Preload *preload;
        char *name;
        char *version; /* resourceVersion of the NodeImage as last seen; NULL: there is none */
        PreloadEntry *entries; /* an entry for each image */
        PreloadPull *pulls;
        KubePatch write;
        bool has_begun;
        bool is_written;
        char *written_version; /* until the watch shows it */
        char *refusal;         /* why nothing more is expected of it */
        uint64_t asked_usec;   /* since when no agent has answered; 0: one has, or none was asked */
        bool is_late;
} PreloadNode;

struct Preload {
        Session *session;
        const PreloadRequest *request;
        PreloadTerms terms;
        PreloadLimits limits;
        PreloadImage *images;
        size_t n_images;
        const char *version;     /* version of NodeImages */
        const char *job_version; /* version of ImagePullJobs; NULL: there are none */
        PreloadJob *jobs;    /* a job for each image; NULL: this program writes the NodeImages */
        PreloadNode **nodes; /* sorted by name */
        size_t n_nodes;
        bool is_fixed; /* no more nodes are added */
        unsigned n_writes;
        int64_t progress; /* the most that there was */
        uint64_t progress_usec;
        bool is_stalled;
        bool is_away; /* not all nodes were shown yet */
        bool is_live; /* a table on a terminal, drawn again */
        uint64_t began_usec;
        uint64_t explained_usec; /* when it was said what is awaited; 0: not yet */
        uint64_t drawn_usec;
        size_t n_drawn; /* lines */
};

static void node_free(PreloadNode *node, size_t n_images) {
        kube_patch_done(&node->write);
        for (size_t i = 0; node->entries && i < n_images; i++)
                preload_entry_done(&node->entries[i]);
        for (size_t i = 0; node->pulls && i < n_images; i++)
                free(node->pulls[i].message);
        free(node->entries);
        free(node->pulls);
        free(node->written_version);
        free(node->refusal);
        free(node->version);
        free(node->name);
        free(node);
}

static void preload_done(Preload *preload) {
        for (size_t i = 0; i < preload->n_nodes; i++)
                node_free(preload->nodes[i], preload->n_images);
        for (size_t i = 0; preload->images && i < preload->n_images; i++)
                preload_image_done(&preload->images[i]);
        for (size_t i = 0; preload->jobs && i < preload->n_images; i++) {
                free(preload->jobs[i].name);
                free(preload->jobs[i].uid);
        }
        free(preload->nodes);
        free(preload->images);
        free(preload->jobs);
}

static uint64_t now_usec(const Preload *preload) {
        return loop_now_usec(kube_client_event(session_client(preload->session)));
}

/* Nodes. */

static int compare_name(const void *node, const void *name) {
        return strcmp(((const PreloadNode *) node)->name, name);
}

static PreloadNode *find_node(const Preload *preload, const char *name) {
        size_t at;

        return sorted_find(preload->nodes, preload->n_nodes, compare_name, name, &at)
                       ? preload->nodes[at]
                       : NULL;
}

static int add_node(Preload *preload, const char *name) {
        PreloadNode **nodes, *node;
        size_t at;

        if (find_node(preload, name))
                return 0;

        nodes = reallocarray(preload->nodes, preload->n_nodes + 1, sizeof(*nodes));
        if (!nodes)
                return -ENOMEM;

        preload->nodes = nodes;
        node = calloc(1, sizeof(*node));
        if (!node)
                return -ENOMEM;

        *node = (PreloadNode){
                .preload = preload,
                .name = strdup(name),
                .entries = calloc(preload->n_images, sizeof(*node->entries)),
                .pulls = calloc(preload->n_images, sizeof(*node->pulls)),
                .write = { .client = session_client(preload->session), .userdata = node },
        };
        if (!node->name || !node->entries || !node->pulls) {
                node_free(node, 0);
                return -ENOMEM;
        }

        for (size_t i = 0; i < preload->n_images; i++)
                node->pulls[i] = PRELOAD_PULL_INIT;
        (void) sorted_find(nodes, preload->n_nodes, compare_name, name, &at);
        sorted_insert(nodes, &preload->n_nodes, at, node);
        return 0;
}

/* Whether the NodeImage has a request that is to be waited for, though it was not made here. */
static bool is_ours(const Preload *preload, const PreloadEntry *entry, size_t i) {
        if (entry->phase == PRELOAD_ABSENT)
                return false;
        if (preload->request->mode == PRELOAD_WATCH)
                return true;

        return preload->jobs && preload_entry_is_of(entry, preload->jobs[i].uid);
}

static int node_read(PreloadNode *node, const KubeObject *object) {
        Preload *preload = node->preload;
        int r;

        r = text_set(&node->version, object->resource_version);
        for (size_t i = 0; r >= 0 && i < preload->n_images; i++) {
                PreloadEntry *entry = &node->entries[i];
                PreloadPull *pull = &node->pulls[i];

                preload_entry_done(entry);
                r = preload_entry_read(object->json, &preload->images[i], &preload->terms, entry);
                if (r < 0)
                        return r;

                r = is_ours(preload, entry, i) && pull->version < 0
                            ? preload_pull_begin(pull, entry, /* is_requested= */ false)
                            : preload_pull_take(pull, entry);
        }
        if (node->written_version && !kube_version_is_older(node->version, node->written_version))
                node->written_version = (free(node->written_version), NULL);

        return r;
}

static int on_object(const KubeObject *object, void *userdata) {
        Preload *preload = userdata;
        PreloadNode *node;
        int r;

        if (!preload->is_fixed && preload->request->labels) {
                r = add_node(preload, object->name);
                if (r < 0)
                        return r;
        }

        node = find_node(preload, object->name);
        return node ? node_read(node, object) : 0;
}

static int on_gone(const KubeObject *object, void *userdata) {
        PreloadNode *node = find_node(userdata, object->name);

        return node ? text_set(&node->refusal, "NodeGone: its NodeImage was deleted") : 0;
}

static int on_job_gone(const KubeObject *object, void *userdata) {
        Preload *preload = userdata;

        for (size_t i = 0; i < preload->n_images; i++)
                if (strcmp(preload->jobs[i].uid, object->uid) == 0)
                        preload->jobs[i].has_ended = true;

        return 0;
}

static int on_job(const KubeObject *object, void *userdata) {
        json_object *status = json_get(object->json, "status", json_type_object);

        return json_get_filled(status, "completionTime") ? on_job_gone(object, userdata) : 0;
}

static PreloadNodeView view_of(const PreloadNode *node) {
        const Preload *preload = node->preload;

        return (PreloadNodeView){
                .mode = preload->request->mode,
                .n_images = preload->n_images,
                .entries = node->entries,
                .pulls = node->pulls,
                .jobs = preload->jobs,
                .refusal = node->refusal,
                .is_registered = node->version,
                .has_begun = node->has_begun,
                .is_over = session_is_dry_run(preload->session) && node->is_written,
                .is_late = node->is_late,
                .is_stalled = preload->is_stalled,
        };
}

static PreloadNodeState node_state(const PreloadNode *node) {
        PreloadNodeView view = view_of(node);

        return preload_node_state(&view);
}

static PreloadCounts count_nodes(const Preload *preload) {
        PreloadCounts counts = { .n_idle = 0 };

        for (size_t i = 0; i < preload->n_nodes; i++)
                switch (node_state(preload->nodes[i])) {
                case PRELOAD_NODE_IDLE: counts.n_idle++; break;
                case PRELOAD_NODE_RUNNING: counts.n_running++; break;
                case PRELOAD_NODE_DONE: counts.n_done++; break;
                case PRELOAD_NODE_FAILED:
                case PRELOAD_NODE_SILENT: counts.n_failed++; break;
                case PRELOAD_NODE_UNCONCERNED:
                case _PRELOAD_NODE_STATE_MAX: break;
                }

        return counts;
}

/* While the API server is away, agents cannot answer. */
static void note_answer(PreloadNode *node, uint64_t now) {
        PreloadNodeView view = view_of(node);

        if (!preload_node_is_unanswered(&view))
                node->asked_usec = 0;
        else if (node->asked_usec == 0 || session_is_away(node->preload->session))
                node->asked_usec = now;
        node->is_late = node->asked_usec > 0 && now - node->asked_usec >= PRELOAD_ANSWER_USEC;
}

static void note_time(Preload *preload) {
        uint64_t now = now_usec(preload);
        int64_t progress = 0;

        for (size_t i = 0; i < preload->n_nodes; i++) {
                PreloadNodeView view = view_of(preload->nodes[i]);

                note_answer(preload->nodes[i], now);
                progress += preload_node_progress(&view);
        }
        if (progress > preload->progress || preload->progress_usec == 0) {
                preload->progress = progress;
                preload->progress_usec = now;
        }
        preload->is_stalled = now - preload->progress_usec >= PRELOAD_PROGRESS_USEC;
}

/* Writing NodeImages. */

/* The watch may have been faster than the answer. */
static int note_written(PreloadNode *node, const char *version) {
        if (!version || !kube_version_is_older(node->version, version))
                return 0;

        return text_set(&node->written_version, version);
}

static int on_written(const KubePatchAnswer *answer, void *userdata) {
        PreloadNode *node = userdata;

        node->preload->n_writes--;
        switch (answer->outcome) {
        case KUBE_PATCH_TAKEN: node->is_written = true; return note_written(node, answer->version);
        case KUBE_PATCH_GONE:
        case KUBE_PATCH_REFUSED: return text_set(&node->refusal, error_message(answer->error));
        case KUBE_PATCH_CONFLICT: /* the watch shows what it is now */
        case KUBE_PATCH_UNKNOWN:
        case _KUBE_PATCH_OUTCOME_MAX: break;
        }

        return 0;
}

static int make_patch(PreloadNode *node, json_object **ret) {
        const Preload *preload = node->preload;

        if (preload->request->mode == PRELOAD_WITHDRAW)
                return preload_patch_withdraw(preload->images, node->entries, preload->n_images,
                                              node->version, ret);

        return preload_patch_request(preload->images, node->entries, preload->n_images,
                                     &preload->terms, node->version, ret);
}

/* Notes the request to wait for after the write; without a write where others have requested the image already. */
static int expect(PreloadNode *node) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < node->preload->n_images; i++) {
                const PreloadEntry *entry = &node->entries[i];

                r = preload_pull_begin(&node->pulls[i], entry, !preload_entry_is_under_way(entry));
        }

        return r;
}

static int node_write(PreloadNode *node) {
        Preload *preload = node->preload;
        cleanup(json_object_put_p) json_object *steps = NULL;
        KubePatchRequest request = {
                .verb = KUBE_PATCH_STEPS,
                .path = { .group = PRELOAD_GROUP,
                          .version = preload->version,
                          .resource = "nodeimages",
                          .name = node->name,
                          .query = session_is_dry_run(preload->session) ? "dryRun=All" : NULL },
                .on_answered = on_written,
        };
        int r;

        node->has_begun = true;
        r = make_patch(node, &steps);
        if (r >= 0 && preload->request->mode == PRELOAD_PULL)
                r = expect(node);
        if (r < 0)
                return r;

        if (!steps) {
                node->is_written = true;
                return 0;
        }

        request.body = steps;
        r = kube_patch_send(&node->write, &request);
        if (r < 0)
                return r;

        preload->n_writes++;
        return 0;
}

/* Something is to be written: for the first time, again after a conflict, or more of it. */
static bool node_is_due(const PreloadNode *node, uint64_t now) {
        if (node->write.call || node->written_version ||
            kube_patch_when_usec(&node->write, 0) > now)
                return false;

        return !node->is_written || node->preload->request->mode == PRELOAD_WITHDRAW;
}

static int write_nodes(Preload *preload) {
        uint64_t now = now_usec(preload);
        PreloadCounts counts = count_nodes(preload);
        size_t room = preload_room(&counts, &preload->limits);

        for (size_t i = 0; i < preload->n_nodes && preload->n_writes < WRITES_MAX; i++) {
                PreloadNode *node = preload->nodes[i];
                PreloadNodeState state = node_state(node);
                int r;

                if ((state != PRELOAD_NODE_RUNNING && (state != PRELOAD_NODE_IDLE || room == 0)) ||
                    !node_is_due(node, now))
                        continue;

                room -= state == PRELOAD_NODE_IDLE;
                r = node_write(node);
                if (r < 0)
                        return r;
        }

        return 0;
}

/* Showing progress */

/* clang-format off */
static const TableColumn columns[] = {
        { .title = "IMAGE", .may_be_cut = true, .keeps_tail = true },
        { .title = "NODES", .is_right = true },
        { .title = "DONE", .is_right = true },
        { .title = "WAITING", .is_right = true },
        { .title = "RUNNING", .is_right = true },
        { .title = "FAILED", .is_right = true },
        { .title = "PROGRESS", .is_right = true },
        { .title = "SINCE", .is_right = true },
};
/* clang-format on */

#define N_COLUMNS (sizeof(columns) / sizeof(columns[0]))

static int add_row(const Preload *preload, size_t i, Table *table) {
        uint64_t elapsed_sec = (now_usec(preload) - preload->began_usec) / USEC_PER_SEC;
        PreloadImageCounts counts = { .n_nodes = 0 };
        char numbers[5][24], percent[24] = "-";

        for (size_t k = 0; k < preload->n_nodes; k++) {
                PreloadNodeView view = view_of(preload->nodes[k]);

                preload_image_count(&view, i, &counts);
        }
        for (size_t k = 0; k < sizeof(numbers) / sizeof(numbers[0]); k++)
                (void) snprintf(numbers[k], sizeof(numbers[k]), "%zu",
                                (const size_t[]){ counts.n_nodes, counts.n_done, counts.n_waiting,
                                                  counts.n_running, counts.n_failed }[k]);
        if (counts.n_nodes > 0)
                (void) snprintf(percent, sizeof(percent), "%lld%%",
                                (long long) counts.percent / (long long) counts.n_nodes);
        return table_add_row(table, (const char *[N_COLUMNS]){
                                            preload->request->images[i], numbers[0], numbers[1],
                                            numbers[2], numbers[3], numbers[4], percent,
                                            format_age(elapsed_sec, FORMAT_BUFFER) });
}

/* Where and for what; a line each. */
static int describe_wait(const Preload *preload, char **ret) {
        cleanup(preload_reasons_done) PreloadReasons awaited = PRELOAD_REASONS_INIT;
        int r = 0;

        if (preload->is_away || session_is_away(preload->session))
                return text_copy("the API server does not answer", ret);

        for (size_t i = 0; r >= 0 && i < preload->n_nodes; i++) {
                PreloadNodeView view = view_of(preload->nodes[i]);

                if (preload_node_state(&view) == PRELOAD_NODE_RUNNING)
                        r = preload_reasons_add(&awaited, preload->nodes[i]->name,
                                                preload_node_awaited(&view));
        }
        return r < 0 ? r : preload_reasons_format(&awaited, ret);
}

static int explain_wait(Preload *preload) {
        cleanup(free_p) char *lines = NULL;
        char *rest;
        int r;

        r = describe_wait(preload, &lines);
        rest = lines;
        for (const char *line; r >= 0 && (line = strsep(&rest, "\n")) && line[0];) {
                cleanup(free_p) char *text = NULL;

                if (text_format(&text, "waiting: %s", line) < 0)
                        return -ENOMEM;

                r = preload->is_live ? print_cut(text) : print_safe("%s", text);
                preload->n_drawn++;
        }
        return r;
}

static int draw(Preload *preload, bool is_last) {
        cleanup(table_free_p) Table *table = NULL;
        uint64_t now = now_usec(preload);
        int r;

        r = table_new(columns, N_COLUMNS, /* is_wide= */ false, &table);
        for (size_t i = 0; r >= 0 && i < preload->n_images; i++)
                r = add_row(preload, i, table);
        if (r < 0)
                return r;

        terminal_rewind(preload->n_drawn);
        preload->drawn_usec = now;
        preload->n_drawn = preload->n_images + 1;
        r = table_print(table);
        if (r >= 0 && !is_last && now - preload->began_usec >= QUIET_USEC)
                r = explain_wait(preload);
        return r;
}

/* On a terminal the table, drawn again; elsewhere lines, and the table in the end. */
static int show(Preload *preload) {
        uint64_t now = now_usec(preload);
        int r = 0;

        if (!preload->request->is_shown)
                return 0;
        if (preload->is_live) {
                if (now >= preload->drawn_usec + DRAW_USEC)
                        r = draw(preload, /* is_last= */ false);
        } else if (preload->explained_usec == 0) {
                /* As if it had been said before: the next time is after QUIET_USEC. */
                preload->explained_usec = now - (REPEAT_USEC - QUIET_USEC);
        } else if (now >= preload->explained_usec + REPEAT_USEC) {
                preload->explained_usec = now;
                r = explain_wait(preload);
        }
        (void) fflush(stdout);
        return r;
}

static int show_end(Preload *preload) {
        int r;

        if (!preload->request->is_shown || preload->request->mode == PRELOAD_WITHDRAW)
                return 0;

        r = draw(preload, /* is_last= */ true);
        (void) fflush(stdout);
        return r;
}

/* The wait. */

/* How many of the nodes; the text has been checked. */
static size_t share_of(const Preload *preload, const char *text, size_t otherwise) {
        cleanup(error_done) Error error = ERROR_INIT;
        int64_t number;

        if (!text ||
            share_parse(text, (int64_t) preload->n_nodes, SHARE_ROUNDED_UP, &number, &error) < 0)
                return otherwise;

        return (size_t) number;
}

static int print_start(const Preload *preload) {
        size_t n_more = preload->n_images - 1;
        char more[48] = "";

        if (!preload->request->is_shown || preload->is_live ||
            preload->request->mode != PRELOAD_PULL)
                return 0;
        if (n_more > 0)
                (void) snprintf(more, sizeof(more), " and %zu more image%s", n_more,
                                n_more == 1 ? "" : "s");
        return print_safe("preloading %s%s on %zu node%s", preload->request->images[0], more,
                          preload->n_nodes, preload->n_nodes == 1 ? "" : "s");
}

static int fix_nodes(Preload *preload) {
        const PreloadRequest *request = preload->request;

        preload->is_fixed = true;
        preload->limits.max_failures = share_of(preload, request->max_failures, SIZE_MAX);
        preload->limits.parallelism =
                share_of(preload, request->parallelism ?: PRELOAD_PARALLELISM, 1);
        return print_start(preload);
}

static bool is_over(const Preload *preload) {
        PreloadCounts counts = count_nodes(preload);

        if (preload->jobs && counts.n_failed > preload->limits.max_failures)
                return true;
        if (preload->request->mode == PRELOAD_WATCH)
                return counts.n_running == 0;

        return preload_is_over(&counts, &preload->limits);
}

static int is_done(void *userdata) {
        Preload *preload = userdata;
        int r = 0;

        preload->is_away = false;
        if (!preload->is_fixed)
                r = fix_nodes(preload);
        note_time(preload);
        if (r < 0 || preload->is_stalled)
                return r < 0 ? r : 1;
        if (!preload->jobs && preload->request->mode != PRELOAD_WATCH)
                r = write_nodes(preload);
        if (r >= 0)
                r = show(preload);
        if (r < 0)
                return r;

        return is_over(preload);
}

static int is_away(const Error *error, void *userdata) {
        Preload *preload = userdata;
        int r;

        preload->is_away = true;
        note_time(preload);
        r = show(preload);
        return r < 0 ? r : preload->is_stalled;
}

static SessionWatch watch_of_nodes(const Preload *preload) {
        return (SessionWatch){
                .path = { .group = PRELOAD_GROUP,
                          .version = preload->version,
                          .resource = "nodeimages" },
                .on_object = on_object,
                .on_gone = on_gone,
        };
}

static int wait_for_nodes(Preload *preload, Error *reterr) {
        SessionWatch watches[SESSION_WATCHES_MAX];
        char fields[NODES_WATCHED_ALONE][300];
        size_t n = 0;
        int r;

        if (!preload->request->labels && preload->n_nodes <= NODES_WATCHED_ALONE) {
                for (; n < preload->n_nodes; n++) {
                        (void) snprintf(fields[n], sizeof(fields[n]), "metadata.name=%.253s",
                                        preload->nodes[n]->name);
                        watches[n] = watch_of_nodes(preload);
                        watches[n].fields = fields[n];
                }
        } else {
                watches[n] = watch_of_nodes(preload);
                if (preload->request->labels && preload->request->labels[0])
                        watches[n].labels = preload->request->labels;
                n++;
        }
        if (preload->jobs)
                watches[n++] = (SessionWatch){
                        .path = { .group = PRELOAD_GROUP,
                                  .version = preload->job_version,
                                  .namespace = preload->terms.namespace,
                                  .resource = "imagepulljobs" },
                        .labels = PRELOAD_JOB_LABEL "=" PRELOAD_JOB_LABEL_VALUE,
                        .on_object = on_job,
                        .on_gone = on_job_gone,
                };

        r = session_wait(preload->session,
                         &(SessionWait){ .watches = watches,
                                         .n_watches = n,
                                         .is_done = is_done,
                                         .is_away = is_away,
                                         .userdata = preload },
                         reterr);
        return r < 0 || !preload->is_away
                       ? r
                       : error_set(reterr, ERROR_TIMEOUT,
                                   "the API server has not answered for ten minutes");
}

/* ImagePullJobs. */

/* Asks which of the two kinds the server has; takes the newer version where it has both. */
static int discover(Preload *preload, Error *reterr) {
        static const char *const versions[] = { "v1beta1", "v1alpha1", NULL };
        int r;

        r = session_find_version(preload->session, PRELOAD_GROUP, versions, "nodeimages",
                                 &preload->version, reterr);
        if (r >= 0 && !preload->version)
                return error_set(reterr, ERROR_UNSUPPORTED,
                                 "the cluster has no NodeImages (" PRELOAD_GROUP
                                 "): install inplaced's definitions, or OpenKruise");

        return r < 0 ? r
                     : session_find_version(preload->session, PRELOAD_GROUP, versions,
                                            "imagepulljobs", &preload->job_version, reterr);
}

static KubePath path_of_jobs(const Preload *preload, const char *name) {
        return (KubePath){ .group = PRELOAD_GROUP,
                           .version = preload->job_version,
                           .namespace = preload->terms.namespace,
                           .resource = "imagepulljobs",
                           .name = name };
}

static json_object *names_to_json(const Preload *preload) {
        cleanup(json_object_put_p) json_object *list = json_object_new_array();

        for (size_t i = 0; list && i < preload->n_nodes; i++)
                if (patch_append(list, json_object_new_string(preload->nodes[i]->name)) < 0)
                        return NULL;

        return take_ptr(list);
}

static int create_job(Preload *preload, size_t i, Error *reterr) {
        const PreloadRequest *request = preload->request;
        cleanup(json_object_put_p) json_object *job =
                preload_job_make(preload->job_version, request->images[i], &preload->terms,
                                 preload->limits.parallelism, names_to_json(preload));
        cleanup(json_object_put_p) json_object *created = NULL;
        const KubePath path = path_of_jobs(preload, NULL);
        json_object *metadata;
        int r;

        if (!job)
                return -ENOMEM;

        r = session_create(preload->session, &path, job, &created, reterr);
        if (r < 0)
                return r;

        metadata = json_get(created, "metadata", json_type_object);
        preload->jobs[i].name = strdup(json_get_text(metadata, "name") ?: "");
        preload->jobs[i].uid = strdup(json_get_text(metadata, "uid") ?: "");
        return preload->jobs[i].name && preload->jobs[i].uid ? 0 : -ENOMEM;
}

static int add_listed(json_object *object, void *userdata) {
        const char *name = json_get_text(json_get(object, "metadata", json_type_object), "name");

        return name ? add_node(userdata, name) : 0;
}

/* A job names its nodes, so that no other node counts. */
static int list_nodes(Preload *preload, Error *reterr) {
        cleanup(free_p) char *query = NULL;
        KubePath path = { .group = PRELOAD_GROUP,
                          .version = preload->version,
                          .resource = "nodeimages" };
        int r;

        if (!preload->request->labels)
                return 0;

        r = kube_path_select(NULL, preload->request->labels[0] ? preload->request->labels : NULL,
                             &query);
        if (r < 0)
                return r;

        path.query = query;
        return session_list(preload->session, &path, add_listed, preload, reterr);
}

static int create_jobs(Preload *preload, Error *reterr) {
        int r;

        r = list_nodes(preload, reterr);
        if (r < 0)
                return r;

        r = fix_nodes(preload);
        if (r < 0 || preload->n_nodes == 0)
                return r;

        preload->jobs = calloc(preload->n_images, sizeof(*preload->jobs));
        if (!preload->jobs)
                return -ENOMEM;

        for (size_t i = 0; r >= 0 && i < preload->n_images; i++)
                r = create_job(preload, i, reterr);
        return r;
}

/* The job's controller takes the request back. */
static int delete_job(const Preload *preload, const char *name, Error *reterr) {
        const KubePath path = path_of_jobs(preload, name);
        cleanup(error_done) Error error = ERROR_INIT;
        int r = session_delete(preload->session, &path, NULL, &error);

        if (error.kind == ERROR_NOT_FOUND)
                return 0;
        return error.kind == ERROR_NONE ? r : error_copy(reterr, &error);
}

static int delete_jobs(const Preload *preload, Error *reterr) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < preload->n_images; i++)
                r = delete_job(preload, preload->jobs[i].name, reterr);
        return r;
}

typedef struct Withdrawal {
        const PreloadRequest *request;
        json_object *names;
} Withdrawal;

static int note_job(json_object *job, void *userdata) {
        const Withdrawal *withdrawal = userdata;
        const PreloadRequest *request = withdrawal->request;
        json_object *spec = json_get(job, "spec", json_type_object);

        for (size_t i = 0; i < request->n_images; i++)
                if (json_is(spec, "image", request->images[i]))
                        return patch_append(withdrawal->names,
                                            json_object_new_string(object_name(job)));

        return 0;
}

static int withdraw_jobs(const Preload *preload, PreloadResult *result, Error *reterr) {
        cleanup(json_object_put_p) json_object *names = json_object_new_array();
        Withdrawal withdrawal = { .request = preload->request, .names = names };
        cleanup(free_p) char *query = NULL;
        KubePath path = path_of_jobs(preload, NULL);
        int r = names ? kube_path_select(NULL, PRELOAD_JOB_LABEL "=" PRELOAD_JOB_LABEL_VALUE,
                                         &query)
                      : -ENOMEM;

        path.query = query;
        if (r >= 0)
                r = session_list(preload->session, &path, note_job, &withdrawal, reterr);
        for (size_t i = 0; r >= 0 && i < json_object_array_length(names); i++) {
                const char *name = json_object_get_string(json_object_array_get_idx(names, i));

                r = delete_job(preload, name, reterr);
                if (r >= 0 && preload->request->is_shown)
                        r = print_safe("imagepulljob.apps.kruise.io/%s deleted", name);
                result->n_done += r >= 0;
        }

        return r;
}

/* The whole. */

static int check(const PreloadRequest *request, Error *reterr) {
        int64_t number = 1;
        int r = 0;

        if (request->n_images == 0 || request->n_images > PRELOAD_IMAGES_MAX ||
            request->n_secrets > PRELOAD_SECRETS_MAX)
                return error_set(reterr, ERROR_INVALID,
                                 "no more than %zu images and %zu pull secrets at a time",
                                 PRELOAD_IMAGES_MAX, PRELOAD_SECRETS_MAX);
        if (request->max_failures)
                r = share_parse(request->max_failures, 100, SHARE_ROUNDED_UP, &number, reterr);
        if (r >= 0 && request->parallelism)
                r = share_parse(request->parallelism, 100, SHARE_ROUNDED_UP, &number, reterr);
        if (r >= 0 && request->parallelism && number == 0)
                return error_set(reterr, ERROR_INVALID, "a parallelism of 0 would request nothing");

        return r;
}

static int preload_init(Preload *preload, Error *reterr) {
        const PreloadRequest *request = preload->request;
        int r;

        r = check(request, reterr);
        if (r < 0)
                return r;

        preload->images = calloc(request->n_images, sizeof(*preload->images));
        if (!preload->images)
                return -ENOMEM;

        preload->n_images = request->n_images;
        for (size_t i = 0; r >= 0 && i < preload->n_images; i++)
                r = preload_image_parse(request->images[i], &preload->images[i], reterr);
        for (size_t i = 0; r >= 0 && i < request->n_nodes; i++)
                r = add_node(preload, request->nodes[i]);
        return r < 0 ? r : discover(preload, reterr);
}

static int conclude_all(const Preload *preload, PreloadResult *ret) {
        cleanup(preload_reasons_done) PreloadReasons reasons = PRELOAD_REASONS_INIT;
        int r = 0;

        ret->nodes = json_object_new_array();
        if (!ret->nodes)
                return -ENOMEM;

        for (size_t i = 0; r >= 0 && i < preload->n_nodes; i++) {
                PreloadNodeView view = view_of(preload->nodes[i]);

                r = preload_result_add(ret, &reasons, preload->nodes[i]->name, &view);
        }

        return r < 0 ? r : preload_reasons_format(&reasons, &ret->reasons);
}

static int run(Preload *preload, PreloadResult *result, Error *reterr) {
        bool has_jobs = preload->job_version;
        int r = 0;

        if (has_jobs && preload->request->mode == PRELOAD_WITHDRAW)
                return withdraw_jobs(preload, result, reterr);
        if (has_jobs && preload->request->mode == PRELOAD_PULL)
                r = create_jobs(preload, reterr);
        if (r < 0 || (has_jobs && session_is_dry_run(preload->session)))
                return r;

        r = wait_for_nodes(preload, reterr);
        if (r >= 0 && preload->jobs && count_nodes(preload).n_failed > preload->limits.max_failures)
                r = delete_jobs(preload, reterr);
        return r;
}

int preload_run(Session *session, const PreloadRequest *request, PreloadResult *ret,
                Error *reterr) {
        cleanup(preload_done) Preload preload = {
                .session = session,
                .request = request,
                .terms = { .namespace = request->namespace ?: session_namespace(session),
                           .secrets = request->secrets,
                           .n_secrets = request->n_secrets,
                           .ttl_sec = request->ttl_sec ?: PRELOAD_TTL_SEC,
                           .now_sec = time(NULL) },
        };
        int r, error;

        *ret = (PreloadResult){ .n_nodes = 0 };
        preload.is_live = request->is_shown && request->mode != PRELOAD_WITHDRAW &&
                          terminal_is_capable(STDOUT_FILENO);
        preload.began_usec = now_usec(&preload);
        r = preload_init(&preload, reterr);
        if (r < 0)
                return r;

        r = run(&preload, ret, reterr);
        error = show_end(&preload);
        if (error >= 0)
                error = conclude_all(&preload, ret);
        return r < 0 ? r : error;
}
