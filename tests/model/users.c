/* SPDX-License-Identifier: Apache-2.0 */

/* Other users, an autoscaler, drains, and nodes that are lost or full: all that happens to a workload meanwhile */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/controller-plan.h"
#include "agent/kubectl/rollout-kinds.h"
#include "agent/kubectl/rollout-record.h"
#include "tests/model/world.h"

/* Writes a merge patch of the workload; the body is taken over. */
static void patch_workload(World *world, const char *what, json_object *body, bool is_strategic) {
        cleanup(json_object_put_p) json_object *owned = body;
        ErrorKind kind = api_patch(world,
                                   &(Patch){ .author = AUTHOR_USER,
                                             .resource = workload_resource(world),
                                             .name = WORKLOAD,
                                             .is_strategic = is_strategic,
                                             .body = body },
                                   NULL);

        note(world, "user: %s%s", what, kind == ERROR_NONE ? "" : ": refused");
}

static json_object *images_patch(const char *image) {
        json_object *body = json_object_new_object(), *list = json_object_new_array();
        json_object *container = json_object_new_object();

        SET_TEXT(&container, "app", "name");
        SET_TEXT(&container, image, "image");
        json_object_array_add(list, container);
        SET(&body, list, "spec", "template", "spec", "containers");
        return body;
}

void user_set_image(World *world, const char *image) {
        patch_workload(world, image, images_patch(image), true);
}

static const char *any_image(World *world) {
        static const char *const images[] = { "r/app:1", "r/app:2", "r/app:3" };

        return images[choose(world, 3)];
}

/* Edits that the update must keep, and that do not end it */

static void edit_annotation(World *world) {
        json_object *body = json_object_new_object();
        char text[16];

        (void) snprintf(text, sizeof(text), "%u", ++world->n_ids);
        SET_TEXT(&body, text, "metadata", "annotations", "example.org/note");
        patch_workload(world, "annotates", body, false);
}

static void scale(World *world, int64_t replicas) {
        json_object *body = json_object_new_object();
        int64_t before = object_integer(api_workload(world), "spec.replicas");

        if (replicas > before)
                world->judge.n_creates += (int) (replicas - before);
        else
                judge_scaled_down(world, before - replicas);
        /* The controller makes them of the revision before, and replaces them where the workload is handed back meanwhile. */
        if (world->judge.partition > 0 && workload_held(api_workload(world)))
                for (int64_t i = before; i < replicas; i++)
                        judge_pod_replaced(world);
        SET_NUMBER(&body, replicas, "spec", "replicas");
        patch_workload(world, replicas > before ? "scales up" : "scales down", body, false);
}

static void edit_scale(World *world) {
        if (world->scenario.kind != WORKLOAD_DAEMON_SET)
                scale(world, choose(world, PODS_MAX + 1));
}

static bool is_recreate(World *world) {
        return text_equal(object_text(api_workload(world), "spec.strategy.type"), "Recreate");
}

/* The API server refuses limits beside Recreate. */
static void edit_strategy(World *world) {
        static const char rolling[] =
                "{\"spec\":{\"strategy\":{\"type\":\"RollingUpdate\",\"rollingUpdate\":"
                "{\"maxUnavailable\":1,\"maxSurge\":0}}}}";
        static const char recreate[] =
                "{\"spec\":{\"strategy\":{\"type\":\"Recreate\",\"rollingUpdate\":null}}}";

        if (world->scenario.kind != WORKLOAD_DEPLOYMENT) {
                edit_annotation(world);
                return;
        }
        patch_workload(world, "changes the strategy",
                       json_tokener_parse(is_recreate(world) ? rolling : recreate), false);
        judge_intent(world, api_workload(world));
        world->judge.own_unavailable =
                object_integer(api_workload(world), "spec.strategy.rollingUpdate.maxUnavailable");
}

static void edit_limit(World *world) {
        bool is_deployment = world->scenario.kind == WORKLOAD_DEPLOYMENT;
        int64_t n = 1 + choose(world, 2);
        json_object *body;

        if (world->scenario.is_kept || world->scenario.kind == WORKLOAD_REPLICA_SET ||
            is_recreate(world)) {
                edit_annotation(world);
                return;
        }
        body = json_object_new_object();
        SET_NUMBER(&body, n, "spec", is_deployment ? "strategy" : "updateStrategy", "rollingUpdate",
                   "maxUnavailable");
        if (n > world->judge.max_unavailable)
                world->judge.max_unavailable = n;
        patch_workload(world, "sets maxUnavailable", body, false);
        judge_intent(world, api_workload(world));
        world->judge.own_unavailable = n;
}

static void edit_min_ready(World *world) {
        static const int seconds[] = { 0, 5, 30 };
        json_object *body = json_object_new_object();
        int sec = seconds[choose(world, 3)];

        if (sec > 0)
                world->scenario.min_ready_sec = sec;
        SET_NUMBER(&body, sec, "spec", "minReadySeconds");
        patch_workload(world, "sets minReadySeconds", body, false);
        judge_intent(world, api_workload(world));
}

/* Lowered while nothing holds it, it lets the controller replace pods that it has kept, also by such that do not start. */
static void judge_lowered(World *world, int64_t partition) {
        const char *image = template_image(GET(api_workload(world), "spec", "template"), "app");

        for (int64_t i = partition; i < world->judge.partition; i++) {
                world->judge.n_creates++;
                world->judge.n_deletes++;
                world->judge.is_excused = world->judge.is_excused || !image_is_good(image);
        }
}

static void set_partition(World *world, int64_t partition) {
        json_object *body = json_object_new_object();

        SET_NUMBER(&body, partition, "spec", "updateStrategy", "rollingUpdate", "partition");
        patch_workload(world,
                       partition > world->judge.partition ? "raises the partition"
                                                          : "lowers the partition",
                       body, false);
        judge_intent(world, api_workload(world));
}

/* Admission keeps it for the end of its hold. Under an update of a person it would let the controller go, as let_go() does. */
static void edit_partition(World *world) {
        json_object *workload = api_workload(world);
        bool is_held = workload_is_held(world->scenario.kind, workload);
        int64_t partition = choose(world, PODS_MAX);

        if (world->scenario.kind != WORKLOAD_STATEFUL_SET || world->scenario.is_kept ||
            (is_held && !(workload_held(workload) && workload_is_declared(workload)))) {
                edit_annotation(world);
                return;
        }
        if (!is_held)
                judge_lowered(world, partition);
        set_partition(world, partition);
}

/* Pods that have got an image that does not start, before the partition was raised, would keep it. */
void user_free_partition(World *world) {
        json_object *workload = api_workload(world);

        if (world->scenario.kind == WORKLOAD_STATEFUL_SET && workload_held(workload) &&
            workload_is_declared(workload))
                set_partition(world, 0);
}

/* The other limit is removed. */
static void set_budget(World *world, const char *limit, int64_t n) {
        cleanup(json_object_put_p) json_object *body = json_object_new_object();
        json_object *spec = json_object_new_object();

        json_object_object_add(spec, "maxUnavailable", NULL);
        json_object_object_add(spec, "minAvailable", NULL);
        json_object_object_add(spec, limit, json_object_new_int64(n));
        json_object_object_add(body, "spec", spec);
        note(world, "user: sets %s of the budget to %" PRId64, limit, n);
        (void) api_patch(world,
                         &(Patch){ .author = AUTHOR_USER,
                                   .resource = BUDGETS,
                                   .name = WORKLOAD,
                                   .body = body },
                         NULL);
}

/* A DaemonSet has no scale, without which the controller of budgets counts no maxUnavailable. */
static void edit_budget(World *world) {
        bool is_least = world->scenario.kind == WORKLOAD_DAEMON_SET || happens(world, 50);
        const char *limit = is_least ? "minAvailable" : "maxUnavailable";
        int64_t n = choose(world, PODS_MAX);

        world->scenario.has_budget = true;
        if (!api_get(world, BUDGETS, WORKLOAD)) {
                note(world, "user: makes a budget with %s %" PRId64, limit, n);
                cluster_make_budget(world, limit, n);
        } else if (happens(world, 70))
                set_budget(world, limit, n);
        else {
                note(world, "user: deletes the budget");
                (void) api_delete(world, AUTHOR_USER, BUDGETS, WORKLOAD);
        }
        judge_budget(world);
}

void user_free_budget(World *world) {
        bool is_daemon_set = world->scenario.kind == WORKLOAD_DAEMON_SET;

        if (!api_get(world, BUDGETS, WORKLOAD))
                return;
        set_budget(world, is_daemon_set ? "minAvailable" : "maxUnavailable",
                   is_daemon_set ? daemons_wanted(world) / 2 : 1);
        judge_budget(world);
}

static void edit_history(World *world) {
        json_object *body;

        if (world->scenario.kind == WORKLOAD_REPLICA_SET)
                return;
        body = json_object_new_object();
        SET_NUMBER(&body, choose(world, 3), "spec", "revisionHistoryLimit");
        patch_workload(world, "sets revisionHistoryLimit", body, false);
}

static json_object *any_pod(World *world) {
        const Items *pods = &world->items[PODS];

        return pods->n ? pods->items[choose(world, (uint32_t) pods->n)] : NULL;
}

static void patch_pod(World *world, json_object *pod, json_object *metadata) {
        json_object *body = json_object_new_object();

        json_object_object_add(body, "metadata", metadata);
        (void) api_patch(world,
                         &(Patch){ .author = AUTHOR_USER,
                                   .resource = PODS,
                                   .name = object_name(pod),
                                   .body = body },
                         NULL);
        json_object_put(body);
}

static void edit_pod(World *world) {
        json_object *pod = any_pod(world), *metadata = json_object_new_object();

        if (!pod) {
                json_object_put(metadata);
                return;
        }
        SET_TEXT(&metadata, "yes", "labels", "example.org/seen");
        note(world, "user: labels pod %s", object_name(pod));
        patch_pod(world, pod, metadata);
}

/* By the subresource "resize" */
static void resize(World *world) {
        json_object *pod = any_pod(world), *changed, *list, *app;
        const char *resource = happens(world, 50) ? "cpu" : "memory";

        if (!pod || object_is_deleted(pod) ||
            !text_equal(object_text(pod, "status.phase"), "Running"))
                return;
        list = copy_list(GET(pod, "spec", "containers"));
        app = json_object_get(json_object_array_get_idx(list, 0));
        SET_NUMBER(&app, 1 + choose(world, 3), "resources", "requests", resource);
        json_object_array_put_idx(list, 0, app);
        note(world, "user: changes %s of pod %s", resource, object_name(pod));
        changed = json_object_get(pod);
        SET(&changed, list, "spec", "containers");
        SET_NUMBER(&changed, object_integer(pod, "metadata.generation") + 1, "metadata",
                   "generation");
        (void) api_update(world, AUTHOR_USER, PODS, true, changed);
}

static void edit_declared_image(World *world) {
        if (world->scenario.is_declared)
                user_set_image(world, any_image(world));
        else
                edit_annotation(world);
}

static void set_mode(World *world, const char *mode) {
        json_object *body = json_object_new_object();

        SET_TEXT(&body, mode, "metadata", "annotations", UPDATE_ANNOTATION);
        patch_workload(world, mode, body, false);
}

static void edit_mode(World *world) {
        if (workload_is_declared(api_workload(world)))
                set_mode(world, happens(world, 50) ? UPDATE_ONLY : UPDATE_IF_POSSIBLE);
}

void user_allow_ordinary(World *world) {
        set_mode(world, UPDATE_IF_POSSIBLE);
}

/* A manifest that is applied again: the strategy is the user's, and the image is the last one. Under an update of a person it
 * would let the controller go, as let_go() does. */
static void apply_again(World *world) {
        json_object *body = json_object_new_object();

        if (!world->scenario.is_declared || world->scenario.has_person ||
            world->scenario.kind == WORKLOAD_REPLICA_SET) {
                json_object_put(body);
                return;
        }
        if (world->scenario.kind != WORKLOAD_DEPLOYMENT)
                SET_TEXT(&body, "RollingUpdate", "spec", "updateStrategy", "type");
        SET_TEXT(&body, "yes", "metadata", "annotations", "example.org/applied");
        patch_workload(world, "applies its manifest again", body, false);
}

/* As "kubectl replace" writes a manifest: without all that others have added. */
static void replace(World *world) {
        static const char *const added[] = { HELD_ANNOTATION, ROLLOUT_ANNOTATION,
                                             UPDATE_STATUS_ANNOTATION };
        json_object *body, *annotations;

        if (!world->scenario.is_declared || world->scenario.has_person || world->scenario.is_kept ||
            world->scenario.kind == WORKLOAD_REPLICA_SET) {
                edit_annotation(world);
                return;
        }
        body = json_object_new_object();
        annotations = json_object_new_object();
        for (size_t i = 0; i < sizeof(added) / sizeof(added[0]); i++)
                json_object_object_add(annotations, added[i], NULL);
        SET(&body, annotations, "metadata", "annotations");
        if (world->scenario.kind == WORKLOAD_DEPLOYMENT)
                SET(&body, json_object_new_boolean(false), "spec", "paused");
        else
                SET_TEXT(&body, "RollingUpdate", "spec", "updateStrategy", "type");
        if (world->scenario.kind == WORKLOAD_STATEFUL_SET)
                SET_NUMBER(&body, world->judge.partition, "spec", "updateStrategy", "rollingUpdate",
                           "partition");
        patch_workload(world, "replaces it with its manifest", body, false);
}

/* "kubectl rollout undo" */

static bool is_kept_annotation(const char *key) {
        return strcmp(key, REVISION) == 0 || strcmp(key, DESIRED) == 0;
}

static int64_t history_number(json_object *object) {
        const char *text = annotation_of(object, REVISION);

        return text ? strtoll(text, NULL, 10) : object_integer(object, "revision");
}

/* The second newest; NULL: there is none. */
static json_object *find_previous(World *world, Resource resource) {
        json_object *newest = NULL, *previous = NULL;

        for (size_t i = 0; i < world->items[resource].n; i++) {
                json_object *object = world->items[resource].items[i];

                if (!pod_is_owned(object, api_workload(world)))
                        continue;
                if (!newest || history_number(object) > history_number(newest)) {
                        previous = newest;
                        newest = object;
                } else if (!previous || history_number(object) > history_number(previous))
                        previous = object;
        }
        return previous;
}

/* The ReplicaSet's annotations replace the Deployment's but for those that the controller keeps. */
static json_object *annotations_after_undo(json_object *deployment, json_object *replica_set) {
        json_object *annotations = json_object_new_object();

        json_object_object_foreach(GET(deployment, "metadata", "annotations"), key, value) {
                if (is_kept_annotation(key))
                        json_object_object_add(annotations, key, json_object_get(value));
        }
        json_object_object_foreach(GET(replica_set, "metadata", "annotations"), name, text) {
                if (!is_kept_annotation(name))
                        json_object_object_add(annotations, name, json_object_get(text));
        }
        return annotations;
}

/* It refuses a Deployment that is paused. */
static void roll_back(World *world) {
        bool is_deployment = world->scenario.kind == WORKLOAD_DEPLOYMENT;
        json_object *workload = api_workload(world);
        json_object *previous = find_previous(world, is_deployment ? REPLICA_SETS : REVISIONS);
        json_object *template = previous ? json_object_get(template_of(previous)) : NULL;

        if (!template ||
            (is_deployment && json_object_get_boolean(GET(workload, "spec", "paused"))) ||
            templates_equal(template, GET(workload, "spec", "template"))) {
                json_object_put(template);
                return;
        }
        json_object_get(workload);
        if (is_deployment) {
                SET(&template, NULL, "metadata", "labels", "pod-template-hash");
                SET(&workload, annotations_after_undo(workload, previous), "metadata",
                    "annotations");
        } else
                SET(&template, NULL, "$patch");
        note(world, "user: rolls back to %s", template_image(template, "app"));
        SET(&workload, template, "spec", "template");
        (void) api_update(world, AUTHOR_USER, workload_resource(world), false, workload);
}

static void roll_back_declared(World *world) {
        if (world->scenario.is_declared)
                roll_back(world);
        else
                edit_annotation(world);
}

/* Edits that take the workload away from the update: its controller replaces pods then */

static void edit_environment(World *world) {
        json_object *body = images_patch(any_image(world));

        SET_TEXT(&body, happens(world, 50) ? "a" : "b", "spec", "template", "metadata",
                 "annotations", "example.org/restarted");
        patch_workload(world, "changes the template", body, true);
}

/* Adds the container "side", or removes it, together with another image. */
static void edit_containers(World *world) {
        json_object *workload = json_object_get(api_workload(world));
        json_object *list = json_object_new_array();
        json_object *old = GET(workload, "spec", "template", "spec", "containers");
        json_object *app = json_object_get(json_object_array_get_idx(old, 0));
        json_object *side = NULL;

        SET_TEXT(&app, any_image(world), "image");
        json_object_array_add(list, app);
        if (json_object_array_length(old) < 2) {
                SET_TEXT(&side, "side", "name");
                SET_TEXT(&side, "r/side:1", "image");
                json_object_array_add(list, side);
        }
        note(world, "user: %s a container", side ? "adds" : "removes");
        SET(&workload, list, "spec", "template", "spec", "containers");
        (void) api_update(world, AUTHOR_USER, workload_resource(world), false, workload);
}

/* As "kubectl rollout restart" does, which refuses a Deployment that is paused. */
static void restart(World *world) {
        json_object *body;
        char text[16];

        if (json_object_get_boolean(GET(api_workload(world), "spec", "paused")))
                return;
        body = json_object_new_object();
        (void) snprintf(text, sizeof(text), "%u", ++world->n_ids);
        SET_TEXT(&body, text, "spec", "template", "metadata", "annotations",
                 "kubectl.kubernetes.io/restartedAt");
        patch_workload(world, "restarts it", body, false);
}

static void edit_image(World *world) {
        user_set_image(world, any_image(world));
}

static void let_go(World *world) {
        json_object *body = json_object_new_object();

        if (world->scenario.kind == WORKLOAD_DEPLOYMENT)
                SET(&body, json_object_new_boolean(false), "spec", "paused");
        else if (world->scenario.kind == WORKLOAD_DAEMON_SET || world->scenario.is_kept)
                SET_TEXT(&body, "RollingUpdate", "spec", "updateStrategy", "type");
        else if (world->scenario.kind == WORKLOAD_STATEFUL_SET)
                SET_NUMBER(&body, 0, "spec", "updateStrategy", "rollingUpdate", "partition");
        world->judge.is_kept = false;
        patch_workload(world, "lets the controller go on", body, false);
        judge_intent(world, api_workload(world));
}

static void forget_record(World *world) {
        json_object *body = json_object_new_object(), *annotations = json_object_new_object();
        json_object *metadata = json_object_new_object();

        json_object_object_add(annotations, ROLLOUT_ANNOTATION, NULL);
        json_object_object_add(metadata, "annotations", annotations);
        json_object_object_add(body, "metadata", metadata);
        world->judge.is_forgotten = true;
        patch_workload(world, "removes the record", body, false);
}

static void declare_no_more(World *world) {
        json_object *body = json_object_new_object(), *annotations = json_object_new_object();
        json_object *metadata = json_object_new_object();

        json_object_object_add(annotations, UPDATE_ANNOTATION, NULL);
        json_object_object_add(metadata, "annotations", annotations);
        json_object_object_add(body, "metadata", metadata);
        patch_workload(world, "declares nothing any more", body, false);
}

static void delete_replica_set(World *world) {
        const Items *items = &world->items[REPLICA_SETS];
        const char *name;

        if (world->scenario.kind != WORKLOAD_DEPLOYMENT || items->n == 0)
                return;
        name = items->names[choose(world, (uint32_t) items->n)];
        note(world, "user: deletes ReplicaSet %s", name);
        (void) api_delete(world, AUTHOR_USER, REPLICA_SETS, name);
}

/* As "kubectl replace --force" or another release of a package does; later it is made anew. */
static void delete_workload(World *world) {
        note(world, "user: deletes the workload");
        (void) api_delete(world, AUTHOR_USER, workload_resource(world), WORKLOAD);
}

void user_make_anew(World *world) {
        const char *image = any_image(world);

        note(world, "user: makes the workload anew with %s", image);
        cluster_make_workload(world, image);
        judge_begin(world);
        world->judge.is_kept = false;
}

void user_keep(World *world) {
        json_object *body = json_object_new_object();

        if (world->scenario.kind == WORKLOAD_DEPLOYMENT)
                SET(&body, json_object_new_boolean(true), "spec", "paused");
        else
                SET_TEXT(&body, "OnDelete", "spec", "updateStrategy", "type");
        if (world->scenario.kind == WORKLOAD_STATEFUL_SET)
                json_object_object_add(GET(body, "spec", "updateStrategy"), "rollingUpdate", NULL);
        patch_workload(world, "holds it", body, false);
}

void user_edit(World *world) {
        static void (*const friendly[])(
                World *) = { edit_annotation,     edit_scale,    edit_limit,     edit_pod,
                             edit_declared_image, apply_again,   replace,        roll_back_declared,
                             edit_history,        edit_mode,     edit_partition, edit_min_ready,
                             edit_budget,         edit_strategy, resize };
        static void (*const hostile[])(
                World *) = { edit_environment,   edit_containers, edit_image, let_go,
                             forget_record,      declare_no_more, roll_back,  restart,
                             delete_replica_set, delete_workload };

        if (!api_workload(world))
                user_make_anew(world);
        else if (world->scenario.has_hostile_users && happens(world, 40)) {
                world->judge.is_excused = true;
                hostile[choose(world, sizeof(hostile) / sizeof(hostile[0]))](world);
        } else
                friendly[choose(world, sizeof(friendly) / sizeof(friendly[0]))](world);
}

/* Disturbances */

static bool is_taken(json_object *pod) {
        return !text_equal(object_text(pod, "metadata.labels.app"), WORKLOAD);
}

static void delete_pod(World *world, json_object *pod, const char *verb) {
        note(world, "user: %s pod %s", verb, object_name(pod));
        judge_pod_lost(world);
        (void) api_delete(world, AUTHOR_USER, PODS, object_name(pod));
}

static void delete_any(World *world) {
        json_object *pod = any_pod(world);

        if (pod && !object_is_deleted(pod))
                delete_pod(world, pod, "deletes");
}

/* By pods of other workloads */
static void fill_nodes(World *world) {
        note(world, "the nodes have no more room");
        world->is_full = true;
}

/* Drains it from now on. A DaemonSet's pods would stay. */
static void cordon_node(World *world) {
        int number = (int) choose(world, NODES_MAX);

        if (world->scenario.kind == WORKLOAD_DAEMON_SET)
                return;
        note(world, "user: drains node-%d", number);
        world->nodes[number].is_cordoned = true;
}

/* Takes one from the budget of the pod, as the API server does for an eviction. */
static bool take_from_budget(World *world, json_object *pod) {
        json_object *budget = api_get(world, BUDGETS, WORKLOAD), *changed;
        int64_t n_wanted = object_integer(budget, "status.desiredHealthy");
        int64_t n_allowed = object_integer(budget, "status.disruptionsAllowed");

        if (!budget || is_taken(pod) || pod_has_ended(pod) ||
            text_equal(object_text(pod, "status.phase"), "Pending") ||
            (!pod_is_available(world, pod, 0) && n_wanted > 0 &&
             object_integer(budget, "status.currentHealthy") >= n_wanted))
                return true;
        if (n_allowed == 0 || !object_is_observed(budget))
                return false;
        changed = json_object_get(budget);
        SET_NUMBER(&changed, n_allowed - 1, "status", "disruptionsAllowed");
        SET(&changed, time_text(world->now_sec), "status", "disruptedPods", object_name(pod));
        return api_update(world, AUTHOR_USER, BUDGETS, true, changed) == ERROR_NONE;
}

/* As "kubectl drain", which tries again what is refused. */
void user_drain(World *world) {
        bool has_any = false;

        for (int i = 0; i < NODES_MAX; i++)
                has_any = has_any || world->nodes[i].is_cordoned;
        if (has_any)
                manager_touch(world);
        for (size_t i = has_any ? world->items[PODS].n : 0; i > 0; i--) {
                json_object *pod = world->items[PODS].items[i - 1];
                int node = pod_node(pod);

                if (node < 0 || !world->nodes[node].is_cordoned || object_is_deleted(pod) ||
                    !object_owner(pod) || happens(world, 50))
                        continue;
                if (take_from_budget(world, pod))
                        delete_pod(world, pod, "evicts");
                else
                        note(world, "user: may not evict pod %s", object_name(pod));
        }
}

static void lose_node(World *world) {
        Node *node = &world->nodes[choose(world, NODES_MAX)];

        if (node->lost_sec != NEVER)
                return;
        note(world, "node-%d is lost", (int) (node - world->nodes));
        node->lost_sec = world->now_sec;
        node->is_marked = false;
}

/* A label or a taint of the node decides whether a DaemonSet has a pod there. Also a node that joins. */
static void bar_node(World *world) {
        Node *node = &world->nodes[choose(world, NODES_MAX)];

        if (world->scenario.kind != WORKLOAD_DAEMON_SET)
                return;
        node->is_barred = !node->is_barred;
        note(world, "node-%d %s", (int) (node - world->nodes),
             node->is_barred ? "leaves" : "joins");
        world->judge.n_deletes += node->is_barred;
        world->judge.n_creates += !node->is_barred;
        manager_touch(world);
}

static void restart_container(World *world) {
        Runtime *runtime = &world->runtimes[choose(world, (uint32_t) world->n_runtimes)];
        RuntimeContainer *container = &runtime->containers[0];

        if (container->state != RUNTIME_RUNNING || world->nodes[runtime->node].lost_sec != NEVER)
                return;
        note(world, "a container of pod %s ends", object_name(runtime->seen));
        container->state = RUNTIME_DEAD;
        container->is_ready = false;
        runtime->has_crashed = true;
        runtime->has_news = true;
        runtime->n_changes++;
}

/* The node lacks memory, for example. The pod stays as an object, which the controllers of revisions delete. */
static void fail_pod(World *world) {
        Runtime *runtime = &world->runtimes[choose(world, (uint32_t) world->n_runtimes)];

        if (runtime->has_failed || world->nodes[runtime->node].lost_sec != NEVER)
                return;
        note(world, "kubelet: evicts pod %s", object_name(runtime->seen));
        judge_pod_lost(world);
        world->judge.n_deletes++;
        runtime_fail(world, runtime);
}

/* The controller makes another; before it has seen that, it may delete this one. When it has it again, it deletes one, and
 * replaces this one if that is of another revision. */
static void relabel(World *world, json_object *pod) {
        json_object *metadata = json_object_new_object();

        note(world, "user: %s pod %s", is_taken(pod) ? "returns" : "takes", object_name(pod));
        judge_pod_replaced(world);
        world->judge.n_deletes++;
        if (is_taken(pod)) {
                world->judge.n_deletes++;
                world->judge.has_returned = true;
        }
        SET_TEXT(&metadata, is_taken(pod) ? WORKLOAD : "debug", "labels", "app");
        patch_pod(world, pod, metadata);
}

static void relabel_any(World *world) {
        json_object *pod = any_pod(world);

        if (pod && !object_is_deleted(pod))
                relabel(world, pod);
}

static void set_finalizers(World *world, json_object *pod, json_object *finalizers) {
        json_object *metadata = json_object_new_object();

        json_object_object_add(metadata, "finalizers", finalizers);
        patch_pod(world, pod, metadata);
}

/* The controller would wait without end for a pod that was taken from it, and has the name that the next one gets. */
static void delete_finalized(World *world) {
        json_object *pod = any_pod(world);

        if (!pod || object_is_deleted(pod) || is_taken(pod) || !object_owner(pod))
                return;
        note(world, "user: deletes pod %s, which has a finalizer", object_name(pod));
        judge_pod_replaced(world);
        set_finalizers(world, pod, json_tokener_parse("[\"example.org/kept\"]"));
        (void) api_delete(world, AUTHOR_USER, PODS, object_name(pod));
}

static void finalize(World *world, json_object *pod) {
        bool has_ended = object_is_deleted(pod) && !runtime_find(world, pod);

        if (!GET(pod, "metadata", "finalizers"))
                return;
        note(world, "user: removes the finalizer of pod %s", object_name(pod));
        if (has_ended)
                api_remove(world, PODS, object_name(pod));
        else
                set_finalizers(world, pod, NULL);
}

void user_free_pods(World *world) {
        bool are_returned = happens(world, 50), are_finalized = happens(world, 50);

        /* The budget would keep other pods back without end, and a StatefulSet's controller make none of those that are missing. */
        are_finalized = are_finalized || world->scenario.has_budget ||
                        world->scenario.kind == WORKLOAD_STATEFUL_SET;

        for (size_t i = world->items[PODS].n; i > 0; i--) {
                json_object *pod = world->items[PODS].items[i - 1];

                if (is_taken(pod) && are_returned)
                        relabel(world, pod);
                else if (is_taken(pod))
                        (void) api_delete(world, AUTHOR_USER, PODS, object_name(pod));
                if (are_finalized && i <= world->items[PODS].n)
                        finalize(world, world->items[PODS].items[i - 1]);
        }
}

bool pod_has_lost_revision(World *world, json_object *pod) {
        const char *revision = object_revision(pod) ?: "";
        char name[64];

        /* The label of a StatefulSet's pod has the whole name. */
        (void) snprintf(name, sizeof(name), WORKLOAD "-%s", revision);
        return has_revisions(world) && !api_get(world, REVISIONS, name) &&
               !api_get(world, REVISIONS, revision);
}

/* As the command says of pods whose revision its controller has deleted. */
void user_restart_lost(World *world) {
        for (size_t i = world->items[PODS].n; i > 0; i--) {
                json_object *pod = world->items[PODS].items[i - 1];

                if (!pod_has_lost_revision(world, pod))
                        continue;
                note(world, "user: restarts pod %s", object_name(pod));
                judge_pod_lost(world);
                (void) api_delete(world, AUTHOR_USER, PODS, object_name(pod));
        }
}

void user_disturb(World *world) {
        static void (*const disturbances[])(World *) = { delete_any, lose_node,   restart_container,
                                                         fail_pod,   relabel_any, delete_finalized,
                                                         bar_node,   fill_nodes,  cordon_node };

        if (world->n_runtimes > 0)
                disturbances[choose(world, sizeof(disturbances) / sizeof(disturbances[0]))](world);
}
