/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/fleet/preload.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/sorted.h"
#include "agent/base/text.h"
#include "agent/ctl/terminal.h"
#include "agent/ctl/view.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/fleet/preload-plan.h"
#include "agent/fleet/workload.h"
#include "agent/kube/patch.h"

#define GROUP "apps.kruise.io"
#define JOB_LABEL "app.kubernetes.io/managed-by"
#define JOB_LABEL_VALUE "kubectl-inplace"

#define WRITES_MAX 16u
#define DRAW_USEC ((uint64_t) 250 * 1000)
/* A few nodes are watched one by one, rather than all there are. */
#define NODES_WATCHED_ALONE ((size_t) SESSION_WATCHES_MAX - 1)

typedef struct Preload Preload;

/* One image on one node. */
typedef struct Pursuit {
        int64_t version; /* of the request that is waited for; -1: there is none yet */
        bool was_seen;
        PreloadPhase outcome; /* PRELOAD_SUCCEEDED, PRELOAD_FAILED; PRELOAD_ABSENT: none yet */
        char *message;
} Pursuit;

typedef struct PreloadNode {
        Preload *preload;
        char *name;
        char *version;         /* of its NodeImage as it was seen last; NULL: there is none */
        PreloadEntry *entries; /* one for each image */
        Pursuit *pursuits;
        KubePatch write;
        bool has_begun;
        bool is_written;
        char *written_version; /* until the watch shows it */
        char *refusal;         /* why nothing more is expected of it */
} PreloadNode;

typedef struct PreloadJob {
        char *name;
        char *uid;
        bool has_ended;
} PreloadJob;

struct Preload {
        Session *session;
        const PreloadRequest *request;
        PreloadTerms terms;
        PreloadLimits limits;
        PreloadImage *images;
        size_t n_images;
        const char *version;     /* of NodeImages */
        const char *job_version; /* of ImagePullJobs; NULL: there are none */
        PreloadJob *jobs;        /* one for each image; NULL: NodeImages are written here */
        PreloadNode **nodes;     /* sorted by name */
        size_t n_nodes;
        bool is_fixed; /* no more nodes are added */
        unsigned n_writes;
        uint64_t drawn_usec;
        size_t n_drawn; /* lines */
};

static void node_free(PreloadNode *node, size_t n_images) {
        kube_patch_done(&node->write);
        for (size_t i = 0; node->entries && i < n_images; i++)
                preload_entry_done(&node->entries[i]);
        for (size_t i = 0; node->pursuits && i < n_images; i++)
                free(node->pursuits[i].message);
        free(node->entries);
        free(node->pursuits);
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
        uint64_t usec = 0;

        (void) sd_event_now(kube_client_event(session_client(preload->session)), CLOCK_MONOTONIC,
                            &usec);
        return usec;
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
                .pursuits = calloc(preload->n_images, sizeof(*node->pursuits)),
                .write = { .client = session_client(preload->session), .userdata = node },
        };
        if (!node->name || !node->entries || !node->pursuits) {
                node_free(node, 0);
                return -ENOMEM;
        }

        for (size_t i = 0; i < preload->n_images; i++)
                node->pursuits[i].version = -1;
        (void) sorted_find(nodes, preload->n_nodes, compare_name, name, &at);
        sorted_insert(nodes, &preload->n_nodes, at, node);
        return 0;
}

static int conclude(Pursuit *pursuit, PreloadPhase outcome, const char *message) {
        pursuit->outcome = outcome;
        return text_set(&pursuit->message, message);
}

/* What is shown of an image that was requested. */
static int pursue(Pursuit *pursuit, const PreloadEntry *entry) {
        if (pursuit->version < 0 || pursuit->outcome != PRELOAD_ABSENT)
                return 0;
        if (entry->phase == PRELOAD_ABSENT || entry->version < pursuit->version)
                return pursuit->was_seen
                               ? conclude(pursuit, PRELOAD_FAILED, "Withdrawn: by another client")
                               : 0;

        pursuit->was_seen = true;
        if (entry->phase != PRELOAD_SUCCEEDED && entry->phase != PRELOAD_FAILED)
                return 0;

        return conclude(pursuit, entry->phase, entry->message);
}

/* Whether the NodeImage has a request that is to be waited for, though it was not made here. */
static bool is_ours(const Preload *preload, const PreloadEntry *entry, size_t i) {
        if (entry->phase == PRELOAD_ABSENT)
                return false;
        if (preload->request->mode == PRELOAD_WATCH)
                return true;

        return preload->jobs && entry->owner && strcmp(entry->owner, preload->jobs[i].uid) == 0;
}

static int node_read(PreloadNode *node, const KubeObject *object) {
        Preload *preload = node->preload;
        int r;

        r = text_set(&node->version, object->resource_version);
        for (size_t i = 0; r >= 0 && i < preload->n_images; i++) {
                PreloadEntry *entry = &node->entries[i];
                Pursuit *pursuit = &node->pursuits[i];

                preload_entry_done(entry);
                r = preload_entry_read(object->json, &preload->images[i], &preload->terms, entry);
                if (r < 0)
                        return r;

                if (is_ours(preload, entry, i) && pursuit->version < 0)
                        pursuit->version = entry->version;
                r = pursue(pursuit, entry);
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

static int on_job(const KubeObject *object, void *userdata) {
        Preload *preload = userdata;
        json_object *status = json_get(object->json, "status", json_type_object);

        for (size_t i = 0; i < preload->n_images; i++)
                if (strcmp(preload->jobs[i].uid, object->uid) == 0 &&
                    json_get_filled(status, "completionTime"))
                        preload->jobs[i].has_ended = true;

        return 0;
}

static int on_job_gone(const KubeObject *object, void *userdata) {
        Preload *preload = userdata;

        for (size_t i = 0; i < preload->n_images; i++)
                if (strcmp(preload->jobs[i].uid, object->uid) == 0)
                        preload->jobs[i].has_ended = true;

        return 0;
}

typedef enum NodeState {
        NODE_IDLE,
        NODE_RUNNING,
        NODE_DONE,
        NODE_FAILED,
        NODE_UNCONCERNED, /* of PRELOAD_WATCH: it has no such request */
        _NODE_STATE_MAX,
} NodeState;

/* Those of a node's images together. */
static NodeState state_of_pulls(const PreloadNode *node) {
        const Preload *preload = node->preload;
        size_t n_begun = 0, n_over = 0, n_failed = 0;

        for (size_t i = 0; i < preload->n_images; i++) {
                const Pursuit *pursuit = &node->pursuits[i];
                bool is_left = preload->jobs && preload->jobs[i].has_ended && pursuit->version < 0;

                n_begun += pursuit->version >= 0 || is_left;
                n_over += pursuit->outcome != PRELOAD_ABSENT || is_left;
                n_failed += pursuit->outcome == PRELOAD_FAILED || is_left;
        }

        if (preload->request->mode == PRELOAD_WATCH && n_begun == 0)
                return NODE_UNCONCERNED;
        if (preload->request->mode == PRELOAD_WATCH ? n_over == n_begun
                                                    : n_over == preload->n_images)
                return n_failed > 0 ? NODE_FAILED : NODE_DONE;

        return n_begun > 0 || node->has_begun ? NODE_RUNNING : NODE_IDLE;
}

static NodeState state_of_withdrawal(const PreloadNode *node) {
        for (size_t i = 0; i < node->preload->n_images; i++)
                if (node->entries[i].phase != PRELOAD_ABSENT)
                        return node->has_begun ? NODE_RUNNING : NODE_IDLE;

        return node->has_begun ? NODE_DONE : NODE_UNCONCERNED;
}

static NodeState node_state(const PreloadNode *node) {
        bool is_withdrawal = node->preload->request->mode == PRELOAD_WITHDRAW;

        if (session_is_dry_run(node->preload->session) && node->is_written)
                return NODE_DONE;
        if (node->version && is_withdrawal)
                return node->refusal ? NODE_FAILED : state_of_withdrawal(node);
        if (!node->version && node->preload->request->mode != PRELOAD_PULL)
                return NODE_UNCONCERNED;
        if (!node->version || node->refusal)
                return NODE_FAILED;

        return state_of_pulls(node);
}

static const char *node_message(const PreloadNode *node) {
        if (node->refusal)
                return node->refusal;
        if (!node->version)
                return "NoNodeImage: no agent has registered the node";

        for (size_t i = 0; i < node->preload->n_images; i++) {
                const Pursuit *pursuit = &node->pursuits[i];

                if (pursuit->outcome == PRELOAD_FAILED)
                        return pursuit->message ?: "Failed: without a reason";
                if (node->preload->jobs && node->preload->jobs[i].has_ended && pursuit->version < 0)
                        return "NotTaken: the ImagePullJob ended without this node";
        }
        for (size_t i = 0; i < node->preload->n_images; i++)
                if (node->entries[i].message)
                        return node->entries[i].message;

        return NULL;
}

static PreloadCounts count_nodes(const Preload *preload) {
        PreloadCounts counts = { .n_idle = 0 };

        for (size_t i = 0; i < preload->n_nodes; i++)
                switch (node_state(preload->nodes[i])) {
                case NODE_IDLE: counts.n_idle++; break;
                case NODE_RUNNING: counts.n_running++; break;
                case NODE_DONE: counts.n_done++; break;
                case NODE_FAILED: counts.n_failed++; break;
                case NODE_UNCONCERNED:
                case _NODE_STATE_MAX: break;
                }

        return counts;
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

/* What is waited for once it is written; at once where others have requested it already. */
static int expect(PreloadNode *node) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < node->preload->n_images; i++) {
                const PreloadEntry *entry = &node->entries[i];
                bool is_joined = preload_entry_is_under_way(entry);

                node->pursuits[i].version = is_joined ? entry->version : entry->next_version;
                r = pursue(&node->pursuits[i], entry);
        }

        return r;
}

static int node_write(PreloadNode *node) {
        Preload *preload = node->preload;
        cleanup(json_object_put_p) json_object *steps = NULL;
        KubePatchRequest request = {
                .verb = KUBE_PATCH_STEPS,
                .path = { .group = GROUP,
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
                NodeState state = node_state(node);
                int r;

                if ((state != NODE_RUNNING && (state != NODE_IDLE || room == 0)) ||
                    !node_is_due(node, now))
                        continue;

                room -= state == NODE_IDLE;
                r = node_write(node);
                if (r < 0)
                        return r;
        }

        return 0;
}

/* What is shown. */

/* clang-format off */
static const TableColumn columns[] = {
        { .title = "IMAGE", .may_be_cut = true, .keeps_tail = true },
        { .title = "NODES", .is_right = true },
        { .title = "DONE", .is_right = true },
        { .title = "RUNNING", .is_right = true },
        { .title = "FAILED", .is_right = true },
        { .title = "PROGRESS", .is_right = true },
};
/* clang-format on */

#define N_COLUMNS (sizeof(columns) / sizeof(columns[0]))

typedef struct ImageCounts {
        size_t n_nodes, n_done, n_running, n_failed;
        int64_t percent; /* of those that are pulled, together */
} ImageCounts;

static void count_image(const PreloadNode *node, size_t i, ImageCounts *counts) {
        const Pursuit *pursuit = &node->pursuits[i];

        counts->n_nodes++;
        if (pursuit->outcome == PRELOAD_SUCCEEDED)
                counts->n_done++;
        else if (node_state(node) == NODE_FAILED)
                counts->n_failed++;
        else if (pursuit->version >= 0)
                counts->n_running++;
        if (pursuit->version >= 0)
                counts->percent +=
                        pursuit->outcome == PRELOAD_SUCCEEDED ? 100 : node->entries[i].percent;
}

static int add_row(const Preload *preload, size_t i, Table *table) {
        ImageCounts counts = { .n_nodes = 0 };
        char numbers[4][24], percent[24] = "-";
        const char *cells[N_COLUMNS] = {
                preload->request->images[i], numbers[0], numbers[1], numbers[2], numbers[3], percent
        };

        for (size_t k = 0; k < preload->n_nodes; k++)
                if (node_state(preload->nodes[k]) != NODE_UNCONCERNED)
                        count_image(preload->nodes[k], i, &counts);

        (void) snprintf(numbers[0], sizeof(numbers[0]), "%zu", counts.n_nodes);
        (void) snprintf(numbers[1], sizeof(numbers[1]), "%zu", counts.n_done);
        (void) snprintf(numbers[2], sizeof(numbers[2]), "%zu", counts.n_running);
        (void) snprintf(numbers[3], sizeof(numbers[3]), "%zu", counts.n_failed);
        if (counts.n_nodes > 0)
                (void) snprintf(percent, sizeof(percent), "%lld%%",
                                (long long) counts.percent / (long long) counts.n_nodes);
        return table_add_row(table, cells);
}

static int draw(Preload *preload, bool is_last) {
        bool is_live = terminal_is_capable(STDOUT_FILENO);
        cleanup(table_free_p) Table *table = NULL;
        int r;

        if (!preload->request->is_shown || preload->request->mode == PRELOAD_WITHDRAW ||
            (!is_last && (!is_live || now_usec(preload) < preload->drawn_usec + DRAW_USEC)))
                return 0;

        r = table_new(columns, N_COLUMNS, /* is_wide= */ false, &table);
        for (size_t i = 0; r >= 0 && i < preload->n_images; i++)
                r = add_row(preload, i, table);
        if (r < 0)
                return r;

        terminal_rewind(preload->n_drawn);
        preload->drawn_usec = now_usec(preload);
        preload->n_drawn = preload->n_images + 1;
        r = table_print(table);
        (void) fflush(stdout);
        return r;
}

/* The wait. */

/* How many of the nodes; the text has been checked. */
static size_t share_of(const Preload *preload, const char *text, size_t otherwise) {
        cleanup(error_done) Error error = ERROR_INIT;
        int64_t number;

        if (!text || share_parse(text, (int64_t) preload->n_nodes, &number, &error) < 0)
                return otherwise;

        return (size_t) number;
}

static void fix_nodes(Preload *preload) {
        const PreloadRequest *request = preload->request;

        preload->is_fixed = true;
        preload->limits.max_failures = share_of(preload, request->max_failures, SIZE_MAX);
        preload->limits.parallelism =
                share_of(preload, request->parallelism ?: PRELOAD_PARALLELISM, 1);
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

        if (!preload->is_fixed)
                fix_nodes(preload);
        if (!preload->jobs && preload->request->mode != PRELOAD_WATCH)
                r = write_nodes(preload);
        if (r >= 0)
                r = draw(preload, /* is_last= */ false);
        if (r < 0)
                return r;

        return is_over(preload);
}

static SessionWatch watch_of_nodes(const Preload *preload) {
        return (SessionWatch){
                .path = { .group = GROUP, .version = preload->version, .resource = "nodeimages" },
                .on_object = on_object,
                .on_gone = on_gone,
        };
}

static int wait_for_nodes(Preload *preload, Error *reterr) {
        SessionWatch watches[SESSION_WATCHES_MAX];
        char fields[NODES_WATCHED_ALONE][300];
        size_t n = 0;

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
                        .path = { .group = GROUP,
                                  .version = preload->job_version,
                                  .namespace = preload->terms.namespace,
                                  .resource = "imagepulljobs" },
                        .labels = JOB_LABEL "=" JOB_LABEL_VALUE,
                        .on_object = on_job,
                        .on_gone = on_job_gone,
                };

        return session_wait(preload->session,
                            &(SessionWait){ .watches = watches,
                                            .n_watches = n,
                                            .is_done = is_done,
                                            .userdata = preload },
                            reterr);
}

/* ImagePullJobs. */

static bool has_resource(json_object *list, const char *name) {
        json_object *resources = json_get(list, "resources", json_type_array);

        for (size_t i = 0; resources && i < json_object_array_length(resources); i++)
                if (json_is(json_object_array_get_idx(resources, i), "name", name))
                        return true;

        return false;
}

/* What the server has of the two kinds; the newer version where it has both. */
static int discover(Preload *preload, Error *reterr) {
        static const char *const versions[] = { "v1beta1", "v1alpha1" };

        for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
                cleanup(json_object_put_p) json_object *list = NULL;
                cleanup(error_done) Error error = ERROR_INIT;
                const KubePath path = { .group = GROUP, .version = versions[i] };
                int r;

                r = session_get(preload->session, &path, &list, &error);
                if (error.kind == ERROR_NOT_FOUND)
                        continue;
                if (r < 0)
                        return error.kind == ERROR_NONE ? r : error_copy(reterr, &error);

                if (!preload->version && has_resource(list, "nodeimages"))
                        preload->version = versions[i];
                if (!preload->job_version && has_resource(list, "imagepulljobs"))
                        preload->job_version = versions[i];
        }

        return preload->version
                       ? 0
                       : error_set(reterr, ERROR_UNSUPPORTED,
                                   "the cluster has no NodeImages (" GROUP "): install inplaced's "
                                   "definitions, or OpenKruise");
}

static KubePath path_of_jobs(const Preload *preload, const char *name) {
        return (KubePath){ .group = GROUP,
                           .version = preload->job_version,
                           .namespace = preload->terms.namespace,
                           .resource = "imagepulljobs",
                           .name = name };
}

static json_object *texts_to_json(const char *const *texts, size_t n) {
        cleanup(json_object_put_p) json_object *list = json_object_new_array();

        for (size_t i = 0; list && i < n; i++)
                if (patch_append(list, json_object_new_string(texts[i])) < 0)
                        return NULL;

        return take_ptr(list);
}

static json_object *names_to_json(const Preload *preload) {
        cleanup(json_object_put_p) json_object *list = json_object_new_array();

        for (size_t i = 0; list && i < preload->n_nodes; i++)
                if (patch_append(list, json_object_new_string(preload->nodes[i]->name)) < 0)
                        return NULL;

        return take_ptr(list);
}

static json_object *parallelism_to_json(const char *text) {
        return strchr(text, '%') ? json_object_new_string(text)
                                 : json_object_new_int64(strtoll(text, NULL, 10));
}

static json_object *make_job_spec(const Preload *preload, size_t i) {
        const PreloadRequest *request = preload->request;
        cleanup(json_object_put_p) json_object *spec = json_object_new_object();
        json_object *policy = patch_wrap("type", json_object_new_string("Always"));

        if (!spec || patch_add(spec, "completionPolicy", policy) < 0 ||
            patch_add(policy, "ttlSecondsAfterFinished",
                      json_object_new_int64(preload->terms.ttl_sec)) < 0 ||
            patch_add_text(spec, "image", request->images[i]) < 0 ||
            patch_add(spec, "parallelism",
                      parallelism_to_json(request->parallelism ?: PRELOAD_PARALLELISM)) < 0 ||
            patch_add(spec, "selector", patch_wrap("names", names_to_json(preload))) < 0 ||
            (request->n_secrets > 0 &&
             patch_add(spec, "pullSecrets", texts_to_json(request->secrets, request->n_secrets)) <
                     0))
                return NULL;

        return take_ptr(spec);
}

static json_object *make_job(const Preload *preload, size_t i) {
        cleanup(json_object_put_p) json_object *job = json_object_new_object();
        char version[64];
        json_object *metadata;

        (void) snprintf(version, sizeof(version), GROUP "/%s", preload->job_version);
        metadata = patch_wrap("generateName", json_object_new_string("preload-"));
        if (!job || patch_add_text(job, "apiVersion", version) < 0 ||
            patch_add_text(job, "kind", "ImagePullJob") < 0 ||
            patch_add(job, "metadata", metadata) < 0 ||
            patch_add(metadata, "labels",
                      patch_wrap(JOB_LABEL, json_object_new_string(JOB_LABEL_VALUE))) < 0 ||
            patch_add(job, "spec", make_job_spec(preload, i)) < 0)
                return NULL;

        return take_ptr(job);
}

static int create_job(Preload *preload, size_t i, Error *reterr) {
        cleanup(json_object_put_p) json_object *job = make_job(preload, i), *created = NULL;
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
        KubePath path = { .group = GROUP, .version = preload->version, .resource = "nodeimages" };
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

        fix_nodes(preload);
        if (preload->n_nodes == 0)
                return 0;

        preload->jobs = calloc(preload->n_images, sizeof(*preload->jobs));
        if (!preload->jobs)
                return -ENOMEM;

        for (size_t i = 0; r >= 0 && i < preload->n_images; i++)
                r = create_job(preload, i, reterr);
        return r;
}

/* Their controller takes the requests back. */
static int delete_jobs(Preload *preload, Error *reterr) {
        for (size_t i = 0; i < preload->n_images; i++) {
                const KubePath path = path_of_jobs(preload, preload->jobs[i].name);
                cleanup(error_done) Error error = ERROR_INIT;
                int r;

                r = session_delete(preload->session, &path, NULL, &error);
                if (r < 0 && error.kind != ERROR_NOT_FOUND)
                        return error.kind == ERROR_NONE ? r : error_copy(reterr, &error);
        }

        return 0;
}

typedef struct Withdrawal {
        Preload *preload;
        char **names;
        size_t n_names;
} Withdrawal;

static void withdrawal_done(Withdrawal *withdrawal) {
        for (size_t i = 0; i < withdrawal->n_names; i++)
                free(withdrawal->names[i]);
        free(withdrawal->names);
}

static int note_job(json_object *job, void *userdata) {
        Withdrawal *withdrawal = userdata;
        const Preload *preload = withdrawal->preload;
        const char *name = json_get_text(json_get(job, "metadata", json_type_object), "name");
        json_object *spec = json_get(job, "spec", json_type_object);
        char **names;

        for (size_t i = 0; name && i < preload->n_images; i++) {
                if (!json_is(spec, "image", preload->request->images[i]))
                        continue;

                names = reallocarray(withdrawal->names, withdrawal->n_names + 1, sizeof(*names));
                if (!names)
                        return -ENOMEM;

                withdrawal->names = names;
                names[withdrawal->n_names] = strdup(name);
                return names[withdrawal->n_names++] ? 0 : -ENOMEM;
        }

        return 0;
}

static int withdraw_jobs(Preload *preload, PreloadResult *result, Error *reterr) {
        cleanup(withdrawal_done) Withdrawal withdrawal = { .preload = preload };
        cleanup(free_p) char *query = NULL;
        KubePath path = path_of_jobs(preload, NULL);
        int r;

        r = kube_path_select(NULL, JOB_LABEL "=" JOB_LABEL_VALUE, &query);
        if (r < 0)
                return r;

        path.query = query;
        r = session_list(preload->session, &path, note_job, &withdrawal, reterr);
        for (size_t i = 0; r >= 0 && i < withdrawal.n_names; i++) {
                path = path_of_jobs(preload, withdrawal.names[i]);
                r = session_delete(preload->session, &path, NULL, reterr);
                if (r >= 0 && preload->request->is_shown)
                        r = print_safe("imagepulljob.apps.kruise.io/%s deleted",
                                       withdrawal.names[i]);
        }

        result->n_done = withdrawal.n_names;
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
                r = share_parse(request->max_failures, 100, &number, reterr);
        if (r >= 0 && request->parallelism)
                r = share_parse(request->parallelism, 100, &number, reterr);
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

static const char *state_to_string(NodeState state) {
        switch (state) {
        case NODE_IDLE: return "NotRequested";
        case NODE_RUNNING: return "Running";
        case NODE_DONE: return "Succeeded";
        case NODE_FAILED: return "Failed";
        case NODE_UNCONCERNED:
        case _NODE_STATE_MAX: break;
        }

        return "";
}

static int describe_node(const PreloadNode *node, NodeState state, json_object *nodes) {
        const char *message = state == NODE_DONE ? NULL : node_message(node);
        json_object *item = patch_wrap("name", json_object_new_string(node->name));

        if (patch_append(nodes, item) < 0 ||
            patch_add_text(item, "phase", state_to_string(state)) < 0 ||
            (message && patch_add_text(item, "message", message) < 0))
                return -ENOMEM;

        return 0;
}

static int conclude_all(const Preload *preload, PreloadResult *ret) {
        cleanup(preload_reasons_done) PreloadReasons reasons = PRELOAD_REASONS_INIT;

        ret->nodes = json_object_new_array();
        if (!ret->nodes)
                return -ENOMEM;

        for (size_t i = 0; i < preload->n_nodes; i++) {
                const PreloadNode *node = preload->nodes[i];
                NodeState state = node_state(node);
                int r;

                if (state == NODE_UNCONCERNED)
                        continue;

                ret->n_nodes++;
                ret->n_done += state == NODE_DONE;
                ret->n_failed += state == NODE_FAILED;
                r = describe_node(node, state, ret->nodes);
                if (r >= 0 && state == NODE_FAILED)
                        r = preload_reasons_add(&reasons, node->name, node_message(node));
                if (r < 0)
                        return r;
        }

        return preload_reasons_format(&reasons, &ret->reasons);
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
        r = preload_init(&preload, reterr);
        if (r < 0)
                return r;

        r = run(&preload, ret, reterr);
        error = draw(&preload, /* is_last= */ true);
        if (error >= 0)
                error = conclude_all(&preload, ret);
        return r < 0 ? r : error;
}

void preload_result_done(PreloadResult *result) {
        free(result->reasons);
        json_object_put(result->nodes);
        *result = (PreloadResult){ .n_nodes = 0 };
}
