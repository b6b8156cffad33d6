/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/preload.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/loop.h"
#include "agent/base/array.h"
#include "agent/base/text.h"
#include "agent/base/time-units.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/kube/patch.h"
#include "agent/kubectl/announcer.h"
#include "agent/kubectl/preload-plan.h"
#include "agent/kubectl/sets-plan.h"
#include "agent/kubectl/workload.h"
#include "agent/view/format.h"
#include "agent/view/live.h"
#include "agent/view/output.h"
#include "agent/view/table.h"
#include "agent/view/terminal.h"

#define WRITES_MAX 16u
#define DRAW_USEC (USEC_PER_SEC / 4)
#define LINES_MIN 4u /* the title, an image, how many more there are, and what is awaited */
/* A few nodes are watched one by one, rather than all there are. */
#define NODES_WATCHED_ALONE ((size_t) SESSION_WATCHES_MAX - 1)

typedef struct Preload Preload;

/* A node, and the write to its NodeImage. */
typedef struct Target {
        PreloadNode node;
        Preload *preload;
        KubePatch write;
        char *written_version; /* until the watch shows it */
        uint64_t asked_usec;   /* since when no agent has answered; 0: one has, or none was asked */
} Target;

struct Preload {
        Session *session;
        const PreloadRequest *request;
        PreloadTask task;
        PreloadLimits limits;
        PreloadImage *images;
        const char *version;     /* version of NodeImages */
        const char *job_version; /* version of ImagePullJobs; NULL: there are none */
        PreloadJob *jobs; /* a job for each image; NULL: this program writes the NodeImages */
        Target **targets; /* sorted by name */
        size_t n_targets;
        bool is_fixed; /* no more nodes are added */
        unsigned n_writes;
        int64_t progress; /* the most that there was */
        uint64_t progress_usec;
        uint64_t answered_usec; /* last time at which a node has answered first; 0: none has */
        uint64_t slowest_usec;  /* the most that a node took for its first answer */
        bool is_away;           /* not all nodes were shown yet */
        bool is_live;           /* a table on a terminal, drawn again */
        uint64_t began_usec;
        Announcer announcer;
        uint64_t drawn_usec;
        Live live;
};

static void target_free(Target *target) {
        kube_patch_cancel(&target->write);
        preload_node_done(&target->node);
        free(target->written_version);
        free(target);
}

static void preload_done(Preload *preload) {
        live_done(&preload->live);
        for (size_t i = 0; i < preload->n_targets; i++)
                target_free(preload->targets[i]);
        for (size_t i = 0; i < preload->task.n_images; i++) {
                if (preload->images)
                        preload_image_done(&preload->images[i]);
                if (preload->jobs) {
                        free(preload->jobs[i].name);
                        free(preload->jobs[i].uid);
                }
        }
        free(preload->targets);
        free(preload->images);
        free(preload->jobs);
}

static uint64_t now_usec(const Preload *preload) {
        return loop_now_usec(kube_client_event(session_client(preload->session)));
}

/* Nodes. */

static int compare_name(const void *target, const void *name) {
        return strcmp(((const Target *) target)->node.name, name);
}

static Target *find_target(const Preload *preload, const char *name) {
        size_t at;

        return sorted_find(preload->targets, preload->n_targets, compare_name, name, &at)
                       ? preload->targets[at]
                       : NULL;
}

static int add_node(Preload *preload, const char *name) {
        Target *target;
        size_t at;
        int r;

        if (sorted_find(preload->targets, preload->n_targets, compare_name, name, &at))
                return 0;

        target = calloc(1, sizeof(*target));
        if (!target)
                return -ENOMEM;

        target->preload = preload;
        target->write =
                (KubePatch){ .client = session_client(preload->session), .userdata = target };
        r = preload_node_init(&target->node, &preload->task, name)
                    ?: sorted_insert(&preload->targets, &preload->n_targets, at, target);
        if (r < 0)
                target_free(target);
        return r;
}

static int on_object(const KubeObject *object, void *userdata) {
        Preload *preload = userdata;
        Target *target;
        int r;

        /* All nodes of the set would do what is meant for one node. */
        if (set_is_set(object->json))
                return 0;
        if (!preload->is_fixed && preload->request->labels) {
                r = add_node(preload, object->name);
                if (r < 0)
                        return r;
        }

        target = find_target(preload, object->name);
        if (!target)
                return 0;

        if (target->written_version &&
            !kube_version_is_older(object->resource_version, target->written_version))
                free(take_ptr(target->written_version));
        return preload_node_read(&target->node, object->json);
}

static int on_gone(const KubeObject *object, void *userdata) {
        Target *target = find_target(userdata, object->name);

        return target ? preload_node_lose(&target->node) : 0;
}

static int on_job_gone(const KubeObject *object, void *userdata) {
        Preload *preload = userdata;

        for (size_t i = 0; i < preload->task.n_images; i++)
                if (strcmp(preload->jobs[i].uid, object->uid) == 0)
                        preload->jobs[i].has_ended = true;

        return 0;
}

static int on_job(const KubeObject *object, void *userdata) {
        json_object *status = json_get(object->json, "status", json_type_object);

        return json_get_filled(status, "completionTime") ? on_job_gone(object, userdata) : 0;
}

static PreloadCounts count_nodes(const Preload *preload) {
        PreloadCounts counts = {
                .are_answering = preload->answered_usec > 0 &&
                                 now_usec(preload) - preload->answered_usec <
                                         preload_patience_usec(preload->slowest_usec),
        };

        for (size_t i = 0; i < preload->n_targets; i++)
                switch (preload_node_state(&preload->targets[i]->node)) {
                case PRELOAD_NODE_IDLE: counts.n_idle++; break;
                case PRELOAD_NODE_RUNNING: counts.n_running++; break;
                case PRELOAD_NODE_DONE: counts.n_done++; break;
                case PRELOAD_NODE_FAILED: counts.n_failed++; break;
                case PRELOAD_NODE_SILENT:
                        counts.n_failed++;
                        counts.n_silent++;
                        break;
                case PRELOAD_NODE_UNCONCERNED:
                case _PRELOAD_NODE_STATE_MAX: break;
                }

        return counts;
}

static void note_first_answer(Preload *preload, uint64_t now, uint64_t took_usec) {
        preload->answered_usec = now;
        if (took_usec > preload->slowest_usec)
                preload->slowest_usec = took_usec;
}

/* While the API server is away, or refuses the request for now, agents cannot answer. */
static bool is_asked(const Target *target) {
        return !session_is_away(target->preload->session) &&
               (target->node.is_written || target->preload->task.mode != PRELOAD_PULL);
}

static void note_answer(Target *target, uint64_t now) {
        if (!preload_node_is_unanswered(&target->node)) {
                if (target->asked_usec > 0)
                        note_first_answer(target->preload, now, now - target->asked_usec);
                target->asked_usec = 0;
        } else if (target->asked_usec == 0 || !is_asked(target))
                target->asked_usec = now;
        target->node.is_late =
                target->asked_usec > 0 && now - target->asked_usec >= PRELOAD_ANSWER_USEC;
}

static void note_time(Preload *preload) {
        uint64_t now = now_usec(preload);
        int64_t progress = 0;

        for (size_t i = 0; i < preload->n_targets; i++) {
                note_answer(preload->targets[i], now);
                progress += preload_node_progress(&preload->targets[i]->node);
        }
        if (progress > preload->progress || preload->progress_usec == 0) {
                preload->progress = progress;
                preload->progress_usec = now;
        }
        preload->task.is_stalled = now - preload->progress_usec >= PRELOAD_PROGRESS_USEC;
}

/* resource: "nodeimages", "imagepulljobs"; name: NULL: all. */
static KubePath path_of(const Preload *preload, const char *resource, const char *name) {
        bool is_job = strcmp(resource, "imagepulljobs") == 0;

        return (KubePath){ .group = PRELOAD_GROUP,
                           .version = is_job ? preload->job_version : preload->version,
                           .namespace = is_job ? preload->task.namespace : NULL,
                           .resource = resource,
                           .name = name };
}

/* Writing NodeImages. */

static int on_written(const KubePatchAnswer *answer, void *userdata) {
        Target *target = userdata;

        target->preload->n_writes--;
        switch (answer->outcome) {
        case KUBE_PATCH_TAKEN:
                target->node.is_written = true;
                /* The watch may have been faster than the answer. */
                return answer->version &&
                                       kube_version_is_older(target->node.version, answer->version)
                               ? text_set(&target->written_version, answer->version)
                               : 0;
        case KUBE_PATCH_GONE: return preload_node_lose(&target->node);
        case KUBE_PATCH_REFUSED:
                return text_set(&target->node.refusal, error_message(answer->error));
        case KUBE_PATCH_CONFLICT: /* the watch shows what it is now */
        case KUBE_PATCH_UNKNOWN:
        case _KUBE_PATCH_OUTCOME_MAX: break;
        }

        return 0;
}

static int write_target(Target *target) {
        Preload *preload = target->preload;
        cleanup(json_object_put_p) json_object *patch = NULL;
        KubePatchRequest request = {
                .verb = KUBE_PATCH_MERGE,
                .path = path_of(preload, "nodeimages", target->node.name),
                .version = target->node.version,
                .on_answered = on_written,
        };
        int r;

        target->node.has_begun = true;
        r = preload_node_patch(&target->node, &patch);
        if (r >= 0 && preload->task.mode == PRELOAD_PULL)
                r = preload_node_expect(&target->node);
        if (r < 0)
                return r;

        if (!patch) {
                target->node.is_written = true;
                return 0;
        }

        request.path.query = preload->task.is_dry_run ? "dryRun=All" : NULL;
        request.body = patch;
        preload->n_writes++;
        return kube_patch_send(&target->write, &request);
}

/* Something is to be written: for the first time, again after a conflict, or more of it. */
static bool is_due(const Target *target, uint64_t now) {
        if (target->write.call || target->written_version ||
            kube_patch_when_usec(&target->write, 0) > now)
                return false;

        return !target->node.is_written || target->node.task->mode == PRELOAD_WITHDRAW;
}

static int write_nodes(Preload *preload) {
        uint64_t now = now_usec(preload);
        PreloadCounts counts = count_nodes(preload);
        size_t room = preload_room(&counts, &preload->limits);

        for (size_t i = 0; i < preload->n_targets && preload->n_writes < WRITES_MAX; i++) {
                Target *target = preload->targets[i];
                PreloadNodeState state = preload_node_state(&target->node);
                int r;

                if ((state != PRELOAD_NODE_RUNNING && (state != PRELOAD_NODE_IDLE || room == 0)) ||
                    !is_due(target, now))
                        continue;

                room -= state == PRELOAD_NODE_IDLE;
                r = write_target(target);
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

        for (size_t k = 0; k < preload->n_targets; k++)
                preload_image_count(&preload->targets[k]->node, i, &counts);
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

        for (size_t i = 0; r >= 0 && i < preload->n_targets; i++) {
                const PreloadNode *node = &preload->targets[i]->node;

                if (preload_node_state(node) == PRELOAD_NODE_RUNNING)
                        r = preload_reasons_add(&awaited, node->name, preload_node_awaited(node));
        }
        return r < 0 ? r : preload_reasons_format(&awaited, ret);
}

static int explain_wait(const Preload *preload, FILE *file, size_t n_max) {
        cleanup(free_p) char *lines = NULL;
        char *rest;
        int r;

        r = describe_wait(preload, &lines);
        rest = lines;
        for (const char *line; r >= 0 && n_max-- > 0 && (line = strsep(&rest, "\n")) && line[0];) {
                cleanup(free_p) char *text = NULL;

                if (text_format(&text, "waiting: %s", line) < 0)
                        return -ENOMEM;

                if (preload->request->is_shown)
                        r = preload->is_live ? print_cut_to(file, text)
                                             : print_safe_to(file, "%s", text);
                else
                        complain("%s", text);
        }
        return r;
}

/* A frame that is drawn again is no longer than the screen, from which a line could not be taken back. */
static int draw(Preload *preload, bool is_last) {
        cleanup(table_free_p) Table *table = NULL;
        const size_t n_images = preload->task.n_images;
        size_t n_lines, n;
        FILE *frame;
        int r;

        live_measure(&preload->live);
        n_lines = preload->live.rows > LINES_MIN ? preload->live.rows - 1 : LINES_MIN;
        n = is_last || n_images + 2 <= n_lines ? n_images : n_lines - 3;
        r = table_new(columns, N_COLUMNS, /* is_wide= */ false, &table);
        for (size_t i = 0; r >= 0 && i < n; i++)
                r = add_row(preload, i, table);
        if (r < 0)
                return r;

        preload->drawn_usec = now_usec(preload);
        r = live_begin(&preload->live, 0, &frame);
        if (r >= 0)
                r = table_print_to(table, frame);
        if (r >= 0 && n < n_images)
                r = print_safe_to(frame, "%zu more", n_images - n);
        if (r >= 0 && !is_last && announcer_still_sec(&preload->announcer) >= ANNOUNCER_QUIET_SEC)
                r = explain_wait(preload, frame, n_lines - 1 - n - (n < n_images));
        return r < 0 ? r : live_end(&preload->live);
}

/* On a terminal the table, drawn again; elsewhere lines, and the table in the end. Beside a document only what is
 * awaited. */
static int show(Preload *preload) {
        uint64_t now = now_usec(preload);
        int r = 0;

        if (preload->is_live) {
                if (now >= preload->drawn_usec + DRAW_USEC)
                        r = draw(preload, /* is_last= */ false);
        } else if (announcer_is_due(&preload->announcer)) {
                r = explain_wait(preload, stdout, SIZE_MAX);
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
            share_parse(text, (int64_t) preload->n_targets, SHARE_ROUNDED_UP, &number, &error) < 0)
                return otherwise;

        return (size_t) number;
}

static int print_start(const Preload *preload) {
        size_t n_more = preload->task.n_images - 1;
        char more[48] = "";

        if (!preload->request->is_shown || preload->is_live ||
            preload->request->mode != PRELOAD_PULL)
                return 0;
        if (n_more > 0)
                (void) snprintf(more, sizeof(more), " and %zu more image%s", n_more,
                                n_more == 1 ? "" : "s");
        return print_safe("preloading %s%s on %zu node%s", preload->request->images[0], more,
                          preload->n_targets, preload->n_targets == 1 ? "" : "s");
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

static bool is_outdated(const Preload *preload) {
        const PreloadRequest *request = preload->request;

        return request->is_outdated && request->is_outdated(request->userdata);
}

static int is_done(void *userdata) {
        Preload *preload = userdata;
        int r = 0;

        preload->is_away = false;
        if (!preload->is_fixed)
                r = fix_nodes(preload);
        note_time(preload);
        if (r < 0 || preload->task.is_stalled || is_outdated(preload))
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
        return r < 0 ? r : preload->task.is_stalled;
}

static SessionWatch watch_of_nodes(const Preload *preload) {
        return (SessionWatch){ .path = path_of(preload, "nodeimages", NULL),
                               .labels = preload->request->labels,
                               .on_object = on_object,
                               .on_gone = on_gone };
}

static int refuse_timeout(const Preload *preload, Error *reterr) {
        cleanup(free_p) char *lines = NULL;

        if (describe_wait(preload, &lines) < 0)
                return -ENOMEM;
        return error_set(reterr, ERROR_TIMEOUT, "timed out waiting%s%.*s", lines[0] ? ": " : "",
                         (int) strcspn(lines, "\n"), lines);
}

static int wait_for_nodes(Preload *preload, Error *reterr) {
        cleanup(error_done) Error error = ERROR_INIT;
        SessionWatch watches[SESSION_WATCHES_MAX];
        char fields[NODES_WATCHED_ALONE][300];
        size_t n = 0;
        int r;

        if (!preload->request->labels && preload->n_targets <= NODES_WATCHED_ALONE) {
                for (; n < preload->n_targets; n++) {
                        (void) snprintf(fields[n], sizeof(fields[n]), "metadata.name=%.253s",
                                        preload->targets[n]->node.name);
                        watches[n] = watch_of_nodes(preload);
                        watches[n].fields = fields[n];
                }
        } else {
                watches[n++] = watch_of_nodes(preload);
        }
        if (preload->jobs)
                watches[n++] = (SessionWatch){
                        .path = path_of(preload, "imagepulljobs", NULL),
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
                         &error);
        if (r < 0 && session_end_status(preload->session) == EXIT_STATUS_TIMEOUT)
                return refuse_timeout(preload, reterr);
        if (r < 0)
                return error.kind == ERROR_NONE ? r : error_copy(reterr, &error);
        return !preload->is_away ? 0
                                 : error_set(reterr, ERROR_TIMEOUT,
                                             "the API server has not answered for ten minutes");
}

/* ImagePullJobs. */

/* Asks which of the two kinds the server has; takes the newer version where it has both. */
static int discover(Preload *preload, Error *reterr) {
        int r;

        r = session_find_kruise(preload->session, "nodeimages", &preload->version, reterr);
        if (r >= 0 && !preload->version)
                return error_set(reterr, ERROR_UNSUPPORTED,
                                 "the cluster has no NodeImages (" PRELOAD_GROUP
                                 "): install inplaced's definitions, or OpenKruise");

        return r < 0 ? r
                     : session_find_kruise(preload->session, "imagepulljobs", &preload->job_version,
                                           reterr);
}

static json_object *names_to_json(const Preload *preload) {
        cleanup(json_object_put_p) json_object *list = json_object_new_array();

        for (size_t i = 0; list && i < preload->n_targets; i++)
                if (patch_append(list, json_object_new_string(preload->targets[i]->node.name)) < 0)
                        return NULL;

        return take_ptr(list);
}

static int create_job(Preload *preload, size_t i, Error *reterr) {
        const PreloadRequest *request = preload->request;
        cleanup(json_object_put_p) json_object *job =
                preload_job_make(preload->job_version, request->images[i], &preload->task,
                                 preload->limits.parallelism, names_to_json(preload));
        cleanup(json_object_put_p) json_object *created = NULL;
        const KubePath path = path_of(preload, "imagepulljobs", NULL);
        json_object *metadata;
        int r;

        if (!job)
                return -ENOMEM;

        r = session_create(preload->session, &path, job, &created, reterr);
        if (r < 0)
                return r;

        metadata = json_get(created, "metadata", json_type_object);
        return text_copy(json_get_text(metadata, "name") ?: "", &preload->jobs[i].name)
                       ?: text_copy(json_get_text(metadata, "uid") ?: "", &preload->jobs[i].uid);
}

/* A dry run stores no job: all that it can say of a node is whether it has a NodeImage. */
static int on_listed(json_object *object, void *userdata) {
        Preload *preload = userdata;
        const char *name = object_name(object);
        Target *target;
        int r = preload->request->labels && !set_is_set(object) ? add_node(preload, name) : 0;

        target = r >= 0 ? find_target(preload, name) : NULL;
        if (target)
                target->node.is_written = preload->task.is_dry_run;
        return r;
}

/* A job names its nodes, so that no other node counts. */
static int list_nodes(Preload *preload, Error *reterr) {
        KubePath path = path_of(preload, "nodeimages", NULL);

        path.labels = preload->request->labels;
        return path.labels || preload->task.is_dry_run
                       ? session_list_metadata(preload->session, &path, on_listed, preload, reterr)
                       : 0;
}

static int create_jobs(Preload *preload, Error *reterr) {
        int r;

        r = list_nodes(preload, reterr);
        if (r < 0)
                return r;

        r = fix_nodes(preload);
        if (r < 0 || preload->n_targets == 0)
                return r;

        preload->task.jobs = preload->jobs = calloc(preload->task.n_images, sizeof(*preload->jobs));
        if (!preload->jobs)
                return -ENOMEM;

        for (size_t i = 0; r >= 0 && i < preload->task.n_images; i++)
                r = create_job(preload, i, reterr);
        return r;
}

/* The job's controller takes the request back. */
static int delete_job(const Preload *preload, const char *name, Error *reterr) {
        const KubePath path = path_of(preload, "imagepulljobs", name);
        cleanup(error_done) Error error = ERROR_INIT;
        int r = session_delete(preload->session, &path, NULL, &error);

        if (error.kind == ERROR_NOT_FOUND)
                return 0;
        return error.kind == ERROR_NONE ? r : error_copy(reterr, &error);
}

static int delete_jobs(const Preload *preload, Error *reterr) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < preload->task.n_images; i++)
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
        KubePath path = path_of(preload, "imagepulljobs", NULL);
        int r = names ? 0 : -ENOMEM;

        path.labels = PRELOAD_JOB_LABEL "=" PRELOAD_JOB_LABEL_VALUE;
        if (r >= 0)
                r = session_list(preload->session, &path, note_job, &withdrawal, reterr);
        for (size_t i = 0; r >= 0 && i < json_object_array_length(names); i++) {
                const char *name = json_object_get_string(json_object_array_get_idx(names, i));

                r = delete_job(preload, name, reterr);
                if (r >= 0 && preload->request->is_shown)
                        r = print_safe("imagepulljob.apps.kruise.io/%s deleted%s", name,
                                       preload->task.is_dry_run ? " (server dry run)" : "");
                result->n_done += r >= 0;
        }

        return r;
}

/* The whole. */

static int check(const PreloadRequest *request, Error *reterr) {
        int64_t number = 1;
        int r = 0;

        if (request->n_images == 0 || request->n_images > PRELOAD_IMAGES_MAX ||
            json_object_object_length(request->secrets) > PRELOAD_SECRETS_MAX)
                return error_set(reterr, ERROR_UNSUPPORTED,
                                 "no more than %zu images and %d pull secrets at a time",
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

        preload->task.images = preload->images =
                calloc(request->n_images, sizeof(*preload->images));
        if (!preload->images)
                return -ENOMEM;

        preload->task.n_images = request->n_images;
        for (size_t i = 0; r >= 0 && i < preload->task.n_images; i++)
                r = preload_image_parse(request->images[i], &preload->images[i], reterr);
        json_object_object_foreach(request->nodes, name, none) {
                (void) none;
                r = r < 0 ? r : add_node(preload, name);
        }
        return r < 0 ? r : discover(preload, reterr);
}

static int conclude_all(const Preload *preload, PreloadResult *ret) {
        cleanup(preload_reasons_done) PreloadReasons reasons = PRELOAD_REASONS_INIT;
        int r = 0;

        ret->nodes = json_object_new_array();
        if (!ret->nodes)
                return -ENOMEM;

        for (size_t i = 0; r >= 0 && i < preload->n_targets; i++)
                r = preload_result_add(ret, &reasons, &preload->targets[i]->node);
        return r < 0 ? r : preload_reasons_format(&reasons, &ret->reasons);
}

static int run(Preload *preload, PreloadResult *result, Error *reterr) {
        bool has_jobs = preload->job_version;
        int r = 0;

        if (has_jobs && preload->request->resolves && session_is_dry_run(preload->session))
                return error_set(reterr, ERROR_UNSUPPORTED,
                                 "a dry run creates no ImagePullJobs, by which OpenKruise's nodes "
                                 "resolve tags");
        if (has_jobs && preload->request->mode == PRELOAD_WITHDRAW)
                return withdraw_jobs(preload, result, reterr);
        if (has_jobs && preload->request->mode == PRELOAD_PULL)
                r = create_jobs(preload, reterr);
        if (r < 0 || (has_jobs && preload->task.is_dry_run))
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
                .task = { .mode = request->mode,
                          .resolves = request->resolves,
                          .keeps_apart = request->keeps_apart,
                          .is_dry_run = session_is_dry_run(session) && !request->resolves,
                          .namespace = request->namespace ?: session_namespace(session),
                          .secrets = request->secrets,
                          .ttl_sec = request->ttl_sec ?: PRELOAD_TTL_SEC },
        };
        int r, error;

        *ret = (PreloadResult){ .n_nodes = 0 };
        preload.is_live =
                request->is_shown && request->mode != PRELOAD_WITHDRAW && terminal_is_capable();
        live_init(&preload.live, stdout);
        preload.began_usec = now_usec(&preload);
        announcer_begin(&preload.announcer);
        r = preload_init(&preload, reterr);
        if (r < 0)
                return r;

        preload.task.now_sec = session_server_sec(session);
        r = run(&preload, ret, reterr);
        error = show_end(&preload);
        if (error >= 0)
                error = conclude_all(&preload, ret);
        return r < 0 ? r : error;
}

int preload_run_first(Session *session, json_object *images, const PreloadRequest *request,
                      PreloadResult *ret, Error *reterr) {
        cleanup(free_p) const char **texts =
                calloc((size_t) json_object_object_length(images) + 1, sizeof(*texts));
        PreloadRequest whole = *request;
        int r;

        *ret = (PreloadResult){ .n_nodes = 0 };
        if (!texts)
                return -ENOMEM;

        json_object_object_foreach(images, text, none) {
                (void) none;
                texts[whole.n_images++] = text;
        }
        whole.images = texts;
        r = preload_run(session, &whole, ret, reterr);
        if (session_is_ended(session))
                complain("nothing has changed; nodes that have begun to pull go on");
        return r;
}
