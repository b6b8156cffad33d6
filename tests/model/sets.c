/* SPDX-License-Identifier: Apache-2.0 */

/* The controllers of StatefulSets and DaemonSets, whose templates are kept in ControllerRevisions */

#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/hash.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/rollout-kinds.h"
#include "tests/model/world.h"

static bool is_template_of(json_object *revision, json_object *set) {
        return templates_equal(template_of(revision), template_of(set));
}

static bool has_revision(json_object *pod, const char *revision) {
        return text_equal(object_revision(pod), revision);
}

/* The newest revision with the set's template; NULL: there is none. */
static json_object *find_revision(World *world, json_object *set) {
        const Items *items = &world->manager.items[REVISIONS];
        json_object *found = NULL;

        for (size_t i = 0; i < items->n; i++) {
                json_object *revision = items->items[i];

                if (pod_is_owned(revision, set) && is_template_of(revision, set) &&
                    (!found ||
                     object_integer(revision, "revision") > object_integer(found, "revision")))
                        found = revision;
        }
        return found;
}

/* The number of the newest revision but this one; 0: there is no other. */
static int64_t newest_other(World *world, json_object *set, json_object *found) {
        const Items *items = &world->manager.items[REVISIONS];
        int64_t max = 0;

        for (size_t i = 0; i < items->n; i++) {
                int64_t number = object_integer(items->items[i], "revision");

                if (items->items[i] != found && pod_is_owned(items->items[i], set) && number > max)
                        max = number;
        }
        return max;
}

static void count_collision(World *world, Resource resource, json_object *set) {
        json_object *changed = json_object_get(set);

        SET_NUMBER(&changed, object_integer(set, "status.collisionCount") + 1, "status",
                   "collisionCount");
        (void) api_update(world, AUTHOR_MANAGER, resource, true, changed);
}

static void create_revision(World *world, Resource resource, json_object *set, int64_t number) {
        cleanup(json_object_put_p) json_object *made = json_object_new_object();
        uint64_t hash =
                hash64_text(HASH64_START + (uint64_t) object_integer(set, "status.collisionCount"),
                            json_object_to_json_string(template_of(set)));
        char label[16], name[64];

        (void) snprintf(label, sizeof(label), "%08x", (unsigned) (hash ^ hash >> 32));
        (void) snprintf(name, sizeof(name), "%s-%s", object_name(set), label);
        SET_TEXT(&made, name, "metadata", "name");
        SET_TEXT(&made, label, "metadata", "labels", REVISION_LABEL);
        SET_TEXT(&made, "web", "metadata", "labels", "app");
        SET(&made, make_owners(set, resource == DAEMON_SETS ? "DaemonSet" : "StatefulSet"),
            "metadata", "ownerReferences");
        SET_NUMBER(&made, number, "revision");
        SET(&made, json_object_get(template_of(set)), "data", "spec", "template");
        SET_TEXT(&made, "replace", "data", "spec", "template", "$patch");
        note(world, "manager: creates ControllerRevision %s", name);
        if (api_create(world, AUTHOR_MANAGER, REVISIONS, made, false, NULL) == ERROR_CONFLICT &&
            !is_template_of(api_get(world, REVISIONS, name), set))
                count_collision(world, resource, set);
}

/* The revision of the template, as the newest; NULL: it is being made. */
static json_object *sync_revision(World *world, Resource resource, json_object *set) {
        json_object *found = find_revision(world, set), *changed;
        int64_t max = newest_other(world, set, found);

        if (!found)
                create_revision(world, resource, set, max + 1);
        if (!found || object_integer(found, "revision") > max)
                return found;
        changed = json_object_get(found);
        SET_NUMBER(&changed, max + 1, "revision");
        (void) api_update(world, AUTHOR_MANAGER, REVISIONS, false, changed);
        return NULL;
}

static bool is_live(World *world, json_object *set, const char *revision) {
        const Items *pods = &world->manager.items[PODS];

        for (size_t i = 0; i < pods->n; i++)
                if (pod_is_owned(pods->items[i], set) && has_revision(pods->items[i], revision))
                        return true;
        return false;
}

static int compare_numbers(const void *a, const void *b) {
        json_object *const *left = a, *const *right = b;
        int64_t difference = object_integer(*left, "revision") - object_integer(*right, "revision");

        return difference != 0 ? (difference > 0 ? 1 : -1) : 0;
}

/* All revisions of the set but these two, the oldest first. */
static size_t find_old_revisions(World *world, json_object *set, json_object *update,
                                 json_object *current, json_object **ret) {
        const Items *items = &world->manager.items[REVISIONS];
        size_t n = 0;

        for (size_t i = 0; i < items->n; i++)
                if (pod_is_owned(items->items[i], set) && items->items[i] != update &&
                    items->items[i] != current)
                        ret[n++] = items->items[i];
        qsort(ret, n, sizeof(ret[0]), compare_numbers);
        return n;
}

static void delete_revision(World *world, json_object *revision) {
        note(world, "manager: deletes ControllerRevision %s", object_name(revision));
        (void) api_delete(world, AUTHOR_MANAGER, REVISIONS, object_name(revision));
}

static json_object *find_named(World *world, const char *name) {
        return name ? items_find(&world->manager.items[REVISIONS], name) : NULL;
}

static void create_pod(World *world, json_object *set, json_object *revision, const char *kind,
                       const char *name, int node) {
        json_object *template = json_object_get(template_of(revision));

        SET(&template, NULL, "$patch");
        SET_TEXT(&template,
                 strcmp(kind, "DaemonSet") == 0 ? object_revision(revision) : object_name(revision),
                 "metadata", "labels", REVISION_LABEL);
        (void) manager_create_pod(world, make_pod(world, set, template, kind, name, node));
        json_object_put(template);
}

/* StatefulSets */

typedef struct SetSync {
        World *world;
        json_object *set;
        json_object *update, *current;   /* revisions */
        json_object *pods[2 * PODS_MAX]; /* by ordinal, from the start on; NULL: there is none */
        int64_t start, replicas, partition, max_unavailable, min_ready_sec;
        bool is_on_delete;
        bool is_parallel; /* pods are made and deleted without waiting for others */
} SetSync;

static bool is_healthy(const SetSync *turn, json_object *pod) {
        return pod && !object_is_deleted(pod) &&
               pod_is_available(turn->world, pod, turn->min_ready_sec);
}

/* Returns whether the next ordinals have to wait. */
static bool make_ordinal(const SetSync *turn, int64_t i) {
        json_object *pod = turn->pods[i];
        bool is_current = !turn->is_on_delete && i < turn->partition;
        int64_t ordinal = turn->start + i;
        char name[32];

        if (pod && pod_has_ended(pod) && !object_is_deleted(pod))
                (void) manager_delete_pod(turn->world, pod);
        else if (!pod) {
                (void) snprintf(name, sizeof(name), "%s-%" PRId64, WORKLOAD, ordinal);
                create_pod(turn->world, turn->set, is_current ? turn->current : turn->update,
                           "StatefulSet", name, -1);
        }
        return !turn->is_parallel && !is_healthy(turn, pod);
}

/* Returns whether the update has to wait. */
static bool scale_down(const SetSync *turn) {
        for (int64_t i = 2 * PODS_MAX - 1; i >= turn->replicas; i--) {
                json_object *pod = turn->pods[i];

                if (!pod)
                        continue;
                if (!object_is_deleted(pod))
                        (void) manager_delete_pod(turn->world, pod);
                if (!turn->is_parallel)
                        return true;
        }
        return false;
}

/* From the highest ordinal on, `n` pods at most that are older than the template, and as healthy as asked for. */
static void delete_old(const SetSync *turn, int64_t n, bool with_healthy, bool with_others) {
        for (int64_t i = turn->replicas - 1; i >= turn->partition && n > 0; i--) {
                json_object *pod = turn->pods[i];

                if (!pod || has_revision(pod, object_name(turn->update)) ||
                    object_is_deleted(pod) || !(is_healthy(turn, pod) ? with_healthy : with_others))
                        continue;
                (void) manager_delete_pod(turn->world, pod);
                n--;
        }
}

/* As Kubernetes 1.37 does: in parallel, old pods that are not available anyway come before, whatever the limit. */
static void replace_pods(const SetSync *turn) {
        int64_t n = turn->max_unavailable;

        for (int64_t i = 0; i < turn->replicas; i++)
                n -= !is_healthy(turn, turn->pods[i]);
        if (turn->is_parallel)
                delete_old(turn, turn->replicas, false, true);
        delete_old(turn, n, true, !turn->is_parallel);
}

static void act_on_set(const SetSync *turn) {
        for (int64_t i = 0; i < turn->replicas; i++)
                if (make_ordinal(turn, i))
                        return;
        if (!scale_down(turn) && !turn->is_on_delete)
                replace_pods(turn);
}

/* Revisions of pods do not count. */
static void truncate_history(const SetSync *turn) {
        json_object *old[32];
        size_t n_all = find_old_revisions(turn->world, turn->set, turn->update, turn->current, old);
        size_t n = 0;

        for (size_t i = 0; i < n_all; i++)
                if (!is_live(turn->world, turn->set, object_name(old[i])))
                        old[n++] = old[i];
        for (size_t i = 0; (int64_t) i < (int64_t) n - history_limit(turn->set); i++)
                delete_revision(turn->world, old[i]);
}

static void write_set_status(const SetSync *turn) {
        static const char *const keys[] = { "replicas",           "readyReplicas",
                                            "updatedReplicas",    "currentReplicas",
                                            "observedGeneration", NULL };
        const char *update = object_name(turn->update), *current = object_name(turn->current);
        int64_t n = 0, n_ready = 0, n_updated = 0, n_current = 0;
        cleanup(json_object_put_p) json_object *body = json_object_new_object();
        json_object *status;

        for (size_t i = 0; i < 2 * PODS_MAX; i++) {
                json_object *pod = turn->pods[i];

                if (!pod)
                        continue;
                n++;
                n_ready += pod_is_available(turn->world, pod, 0);
                n_updated += !object_is_deleted(pod) && has_revision(pod, update);
                n_current += !object_is_deleted(pod) && has_revision(pod, current);
        }
        if (!turn->is_on_delete && n_updated == turn->replicas && n_ready == turn->replicas &&
            n == turn->replicas) {
                current = update;
                n_current = n_updated;
        }
        status =
                with_numbers(GET(turn->set, "status"), keys,
                             (const int64_t[]){ n, n_ready, n_updated, n_current,
                                                object_integer(turn->set, "metadata.generation") });
        json_object_object_add(status, "updateRevision", json_object_new_string(update));
        json_object_object_add(status, "currentRevision", json_object_new_string(current));
        /* It is written again over a newer version, with the generation that was seen. */
        json_object_object_add(body, "status", status);
        (void) api_patch(turn->world,
                         &(Patch){ .author = AUTHOR_MANAGER,
                                   .resource = STATEFUL_SETS,
                                   .name = WORKLOAD,
                                   .is_status = true,
                                   .body = body },
                         NULL);
}

void stateful_set_sync(World *world, json_object *set) {
        const Items *pods = &world->manager.items[PODS];
        SetSync turn = {
                .world = world,
                .set = set,
                .start = object_integer(set, "spec.ordinals.start"),
                .replicas = object_integer(set, "spec.replicas"),
                .partition = object_integer(set, "spec.updateStrategy.rollingUpdate.partition"),
                .max_unavailable =
                        object_integer(set, "spec.updateStrategy.rollingUpdate.maxUnavailable"),
                .min_ready_sec = object_integer(set, "spec.minReadySeconds"),
                .is_on_delete = !workload_is_rolling(set),
                .is_parallel = text_equal(object_text(set, "spec.podManagementPolicy"), "Parallel")
        };

        if (turn.max_unavailable < 1)
                turn.max_unavailable = 1;
        manager_claim_pods(world, set, "StatefulSet");
        turn.update = sync_revision(world, STATEFUL_SETS, set);
        if (!turn.update)
                return;
        turn.current = find_named(world, object_text(set, "status.currentRevision"));
        turn.current = turn.current ? turn.current : turn.update;
        for (size_t i = 0; i < pods->n; i++) {
                int64_t n = pod_ordinal(pods->items[i]) - turn.start;

                if (pod_is_claimed(pods->items[i], set) && n >= 0 && n < 2 * PODS_MAX)
                        turn.pods[n] = pods->items[i];
        }
        if (world->manager.seen[PODS] >= world->awaited_pods)
                act_on_set(&turn);
        write_set_status(&turn);
        truncate_history(&turn);
}

/* DaemonSets */

int daemons_wanted(const World *world) {
        int n = 0;

        for (int i = 0; i < world->scenario.n_pods; i++)
                n += !world->nodes[i].is_barred;
        return n;
}

/* NULL: none, or it has ended and is being deleted, which the controller does not wait for. */
static json_object *pod_on(World *world, json_object *set, int node) {
        const Items *pods = &world->manager.items[PODS];
        json_object *found = NULL;

        for (size_t i = 0; i < pods->n; i++) {
                json_object *pod = pods->items[i];
                bool is_over = object_is_deleted(pod) && pod_has_ended(pod);

                if (pod_is_claimed(pod, set) && !is_over && pod_target(pod) == node &&
                    (!found || object_is_deleted(found)))
                        found = pod;
        }
        return found;
}

static bool is_older(json_object *pod, json_object *other) {
        int64_t difference = json_get_time(GET(pod, "metadata"), "creationTimestamp") -
                             json_get_time(GET(other, "metadata"), "creationTimestamp");

        return difference != 0 ? difference < 0 : strcmp(object_name(pod), object_name(other)) < 0;
}

/* The youngest where several pods are on the node, that is where one was adopted; NULL: there is one at most. */
static json_object *find_surplus(World *world, json_object *set, int node) {
        const Items *pods = &world->manager.items[PODS];
        json_object *youngest = NULL;
        size_t n = 0;

        for (size_t i = 0; i < pods->n; i++) {
                json_object *pod = pods->items[i];

                if (!pod_is_claimed(pod, set) || object_is_deleted(pod) || pod_has_ended(pod) ||
                    pod_target(pod) != node)
                        continue;
                n++;
                if (!youngest || is_older(youngest, pod))
                        youngest = pod;
        }
        return n > 1 ? youngest : NULL;
}

/* Deletes old pods: first those that are not available. */
static void replace_daemons(World *world, json_object *set, const char *hash) {
        int64_t spare = object_integer(set, "spec.updateStrategy.rollingUpdate.maxUnavailable");
        int64_t min_ready_sec = object_integer(set, "spec.minReadySeconds");

        for (int i = 0; i < world->scenario.n_pods; i++) {
                json_object *pod = pod_on(world, set, i);

                if (!pod && world->nodes[i].is_barred)
                        continue;
                if (!pod || object_is_deleted(pod) || find_surplus(world, set, i) ||
                    !pod_is_available(world, pod, min_ready_sec))
                        spare--;
        }
        for (int i = 0; i < world->scenario.n_pods; i++) {
                json_object *pod = pod_on(world, set, i);
                bool is_up = pod && pod_is_available(world, pod, min_ready_sec);

                if (!pod || object_is_deleted(pod) || has_revision(pod, hash) ||
                    find_surplus(world, set, i) || (is_up && spare <= 0))
                        continue;
                spare -= is_up;
                (void) manager_delete_pod(world, pod);
        }
}

/* Revisions of pods count, and stay. */
static void clean_history(World *world, json_object *set, json_object *revision) {
        json_object *old[32];
        size_t n = find_old_revisions(world, set, revision, revision, old);
        int64_t n_surplus = (int64_t) n - history_limit(set);

        for (size_t i = 0; i < n && n_surplus > 0; i++) {
                if (is_live(world, set, object_revision(old[i])))
                        continue;
                delete_revision(world, old[i]);
                n_surplus--;
        }
}

static void act_on_daemons(World *world, json_object *set, json_object *revision) {
        for (int i = 0; i < world->scenario.n_pods; i++) {
                json_object *pod = pod_on(world, set, i), *surplus = find_surplus(world, set, i);
                bool is_barred = world->nodes[i].is_barred;
                char name[32];

                if (pod && (pod_has_ended(pod) || is_barred) && !object_is_deleted(pod))
                        (void) manager_delete_pod(world, pod);
                if (surplus)
                        (void) manager_delete_pod(world, surplus);
                if (pod || is_barred)
                        continue;
                (void) snprintf(name, sizeof(name), "%s-%u", WORKLOAD, ++world->n_ids);
                create_pod(world, set, revision, "DaemonSet", name, i);
        }
        if (world->manager.seen[PODS] >= world->awaited_pods && workload_is_rolling(set))
                replace_daemons(world, set, object_revision(revision));
        clean_history(world, set, revision);
}

void daemon_set_sync(World *world, json_object *set) {
        static const char *const keys[] = { "desiredNumberScheduled", "currentNumberScheduled",
                                            "numberAvailable",        "updatedNumberScheduled",
                                            "observedGeneration",     NULL };
        json_object *revision = sync_revision(world, DAEMON_SETS, set);
        cleanup(json_object_put_p) json_object *body = json_object_new_object();
        int64_t n_available = 0, n_updated = 0, n = 0;

        manager_claim_pods(world, set, "DaemonSet");
        if (!revision)
                return;
        if (world->manager.seen[PODS] >= world->awaited_pods)
                act_on_daemons(world, set, revision);
        for (int i = 0; i < world->scenario.n_pods; i++) {
                json_object *pod = world->nodes[i].is_barred ? NULL : pod_on(world, set, i);

                n += pod != NULL;
                n_available += pod && pod_is_available(world, pod,
                                                       object_integer(set, "spec.minReadySeconds"));
                n_updated += pod && has_revision(pod, object_revision(revision));
        }
        json_object_object_add(
                body, "status",
                with_numbers(NULL, keys,
                             (const int64_t[]){ daemons_wanted(world), n, n_available, n_updated,
                                                object_integer(set, "metadata.generation") }));
        (void) api_patch(world,
                         &(Patch){ .author = AUTHOR_MANAGER,
                                   .resource = DAEMON_SETS,
                                   .name = WORKLOAD,
                                   .is_status = true,
                                   .body = body },
                         NULL);
}
