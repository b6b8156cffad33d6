/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Recorded runs of the real controllers, which those of the model repeat
 *
 * A recording (recordings/KIND.json) is a list of turns: a write, and the facts when the controllers had nothing left to do.
 * tests/cluster/test_model.py makes it with a real control plane and a real kubelet, and checks it there.
 */

#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/rollout-kinds.h"
#include "agent/kubectl/rollout-record.h"
#include "tests/model/world.h"

#define UIDS_MAX 64

typedef struct Replay {
        World world;
        char uids[UIDS_MAX][16]; /* pods in the order in which they were seen */
        int64_t since[UIDS_MAX]; /* turn of each */
        size_t n_uids;
        int64_t turn;
} Replay;

/* Recordings call the images A and B. */
static const char *image_of(json_object *object) {
        return text_equal(template_image(object_template(object), "app"), "r/app:1") ? "A" : "B";
}

/* The turn after which a pod was seen for the first time: it tells whether the pod was replaced. */
static int64_t since_of(Replay *replay, json_object *pod) {
        const char *uid = object_text(pod, "metadata.uid");
        size_t i = 0;

        while (i < replay->n_uids && strcmp(replay->uids[i], uid) != 0)
                i++;
        if (i == replay->n_uids && i < UIDS_MAX) {
                (void) snprintf(replay->uids[i], sizeof(replay->uids[i]), "%s", uid);
                replay->since[i] = replay->turn;
                replay->n_uids++;
        }
        return replay->since[i];
}

static int compare_texts(const void *a, const void *b) {
        json_object *const *left = a, *const *right = b;

        return strcmp(json_object_to_json_string(*left), json_object_to_json_string(*right));
}

static json_object *list_pods(Replay *replay, json_object *workload) {
        const Items *pods = &replay->world.items[PODS];
        json_object *list = json_object_new_array();
        const char *update = object_text(workload, "status.updateRevision");

        for (size_t i = 0; i < pods->n; i++) {
                json_object *pod = pods->items[i], *entry = json_object_new_array();

                json_object_array_add(entry, json_object_new_string(image_of(pod)));
                json_object_array_add(entry, json_object_new_int64(since_of(replay, pod)));
                if (update)
                        json_object_array_add(entry,
                                              json_object_new_boolean(
                                                      text_equal(object_revision(pod), update)));
                json_object_array_add(list, entry);
        }
        return list;
}

static json_object *list_replica_sets(World *world) {
        const Items *sets = &world->items[REPLICA_SETS];
        json_object *list = json_object_new_array();

        for (size_t i = 0; i < sets->n; i++) {
                json_object *set = sets->items[i], *entry = json_object_new_array();
                bool has_record = annotation_of(set, ROLLOUT_ANNOTATION) != NULL;

                json_object_array_add(entry, json_object_new_string(image_of(set)));
                json_object_array_add(entry,
                                      json_object_new_int64(object_integer(set, "spec.replicas")));
                json_object_array_add(entry, json_object_new_int64(
                                                     object_integer(set, "status.replicas")));
                json_object_array_add(entry, json_object_new_boolean(has_record));
                json_object_array_add(list, entry);
        }
        return list;
}

static json_object *make_facts(Replay *replay) {
        World *world = &replay->world;
        json_object *workload = api_workload(world), *facts = json_object_new_object();
        bool is_daemon_set = world->scenario.kind == WORKLOAD_DAEMON_SET;

        json_object_object_add(facts, "pods", list_pods(replay, workload));
        json_object_object_add(facts, "updated",
                               json_object_new_int64(object_integer(
                                       workload, is_daemon_set ? "status.updatedNumberScheduled"
                                                               : "status.updatedReplicas")));
        if (world->scenario.kind == WORKLOAD_DEPLOYMENT)
                json_object_object_add(facts, "replicaSets", list_replica_sets(world));
        else
                json_object_object_add(facts, "revisions",
                                       json_object_new_int64((int64_t) world->items[REVISIONS].n));
        if (world->scenario.kind == WORKLOAD_STATEFUL_SET)
                json_object_object_add(facts, "isCurrent",
                                       json_object_new_boolean(text_equal(
                                               object_text(workload, "status.currentRevision"),
                                               object_text(workload, "status.updateRevision"))));
        return facts;
}

/* Writes */

static json_object *first_of(json_object *list) {
        return list ? json_object_array_get_idx(list, 0) : NULL;
}

static json_object *list_of(json_object *item) {
        json_object *list = json_object_new_array();

        json_object_array_add(list, item);
        return list;
}

/* "UPDATE" in a label stands for the newest revision, whose name is the controller's. */
static json_object *make_body(World *world, json_object *write) {
        json_object *body = json_object_get(json_object_object_get(write, "body"));
        static const char *const places[][5] = { { "spec", "template", "spec", "containers" },
                                                 { "spec", "containers" } };
        const char *revision = object_text(api_workload(world), "status.updateRevision");

        if (GET(body, "metadata", "labels", REVISION_LABEL) && revision)
                SET_TEXT(&body, revision, "metadata", "labels", REVISION_LABEL);
        for (size_t i = 0; i < 2; i++) {
                json_object *old = first_of(get_at(body, places[i]));
                json_object *container;

                if (!old)
                        continue;
                container = json_object_get(old);
                SET_TEXT(&container, json_is(old, "image", "A") ? "r/app:1" : "r/app:2", "image");
                set_at(&body, list_of(container), places[i]);
        }
        return body;
}

static void apply_to(World *world, Resource resource, json_object *object, json_object *write) {
        cleanup(json_object_put_p) json_object *body = make_body(world, write);
        cleanup(json_object_put_p) json_object *kept = json_object_get(object);

        if (json_object_get_boolean(json_object_object_get(write, "deletes"))) {
                (void) api_delete(world, AUTHOR_USER, resource, object_name(kept));
                return;
        }
        (void) api_patch(world,
                         &(Patch){ .author = AUTHOR_USER,
                                   .resource = resource,
                                   .name = object_name(kept),
                                   .is_strategic = true,
                                   .body = body },
                         NULL);
}

static int compare_names(const void *a, const void *b) {
        json_object *const *left = a, *const *right = b;

        return strcmp(object_name(*left), object_name(*right));
}

/* "of": the workload; "pods", the first by name or all; "replicasets", those with pods. */
static void apply(World *world, json_object *write) {
        const char *of = json_get_text(write, "of");
        Resource resource = text_equal(of, "workload") ? workload_resource(world)
                            : text_equal(of, "pods")   ? PODS
                                                       : REPLICA_SETS;
        bool is_first = json_object_get_boolean(json_object_object_get(write, "first"));
        Items items = world->items[resource];

        qsort(items.items, items.n, sizeof(items.items[0]), compare_names);
        for (size_t i = 0; i < items.n; i++) {
                if (resource == REPLICA_SETS &&
                    object_integer(items.items[i], "spec.replicas") == 0)
                        continue;
                apply_to(world, resource, items.items[i], write);
                if (is_first)
                        return;
        }
}

static void sort_lists(json_object *facts) {
        static const char *const lists[] = { "pods", "replicaSets" };

        for (size_t i = 0; i < 2; i++) {
                json_object *list = json_object_object_get(facts, lists[i]);

                if (list)
                        json_object_array_sort(list, compare_texts);
        }
}

static bool play(Replay *replay, const char *name, json_object *turns, FILE *out) {
        for (size_t i = 0; i < json_object_array_length(turns); i++) {
                json_object *turn = json_object_array_get_idx(turns, i);
                json_object *write = json_object_object_get(turn, "write");
                cleanup(json_object_put_p) json_object *facts = NULL;

                replay->turn = (int64_t) i;
                if (write)
                        apply(&replay->world, write);
                cluster_settle(&replay->world);
                facts = make_facts(replay);
                sort_lists(facts);
                sort_lists(json_object_object_get(turn, "facts"));
                if (json_object_equal(facts, json_object_object_get(turn, "facts")))
                        continue;
                fprintf(out, "%s, turn %zu, %s: the model has\n  %s, recorded was\n  %s\n", name, i,
                        json_get_text(turn, "what"), json_object_to_json_string(facts),
                        json_object_to_json_string(json_object_object_get(turn, "facts")));
                return false;
        }
        fprintf(out, "%s: %zu turns are as recorded\n", name, json_object_array_length(turns));
        return true;
}

bool replay_recording(const char *path, FILE *out) {
        cleanup(json_object_put_p) json_object *recording = json_object_from_file(path);
        const char *kind = json_get_text(recording, "kind") ?: "";
        Replay *replay = calloc(1, sizeof(*replay));
        World *world = &replay->world;
        bool is_good;

        world->scenario =
                (Scenario){ .n_containers = 1, .max_unavailable = 1, .history_limit = 10 };
        world->scenario.n_pods = (int) json_get_integer(recording, "pods");
        world->random = 1;
        world->judge.is_excused = true;
        if (!workload_kind_parse(kind, strlen(kind), &world->scenario.kind)) {
                fprintf(out, "%s: no recording of a workload\n", path);
                free(replay);
                return false;
        }
        cluster_make(world);
        is_good = play(replay, path, json_object_object_get(recording, "turns"), out);
        for (size_t i = 0; i < world->n_runtimes; i++)
                json_object_put(world->runtimes[i].seen);
        api_done(world);
        free(replay);
        return is_good;
}
