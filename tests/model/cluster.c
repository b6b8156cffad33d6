/* SPDX-License-Identifier: Apache-2.0 */

/* A cluster with a workload whose pods all are ready, made by the controllers once for each kind of scenario */

#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/document/json-cleanup.h"
#include "agent/kubectl/rollout-kinds.h"
#include "agent/pod/gate-spec.h"
#include "tests/model/world.h"

#define START_SEC INT64_C(1800000000)

static json_object *make_containers(const Scenario *scenario, const char *image) {
        json_object *list = json_object_new_array();

        for (int i = 0; i < scenario->n_containers; i++) {
                json_object *container = json_object_new_object();

                SET_TEXT(&container, i == 0 ? "app" : "side", "name");
                SET_TEXT(&container, i == 0 ? image : "r/side:1", "image");
                json_object_array_add(list, container);
        }
        return list;
}

static json_object *make_template(const Scenario *scenario, const char *image) {
        json_object *template = json_object_new_object();

        SET_TEXT(&template, "web", "metadata", "labels", "app");
        SET(&template, make_containers(scenario, image), "spec", "containers");
        SET_NUMBER(&template, 1, "spec", "terminationGracePeriodSeconds");
        if (scenario->has_gate)
                SET(&template, json_tokener_parse("[{\"conditionType\":\"" GATE_CONDITION "\"}]"),
                    "spec", "readinessGates");
        return template;
}

static void set_strategy(const Scenario *scenario, json_object **workload) {
        bool is_deployment = scenario->kind == WORKLOAD_DEPLOYMENT;

        if (scenario->kind == WORKLOAD_REPLICA_SET)
                return;
        if (scenario->is_recreate) {
                SET_TEXT(workload, "Recreate", "spec", "strategy", "type");
                return;
        }
        SET_TEXT(workload, "RollingUpdate", "spec", is_deployment ? "strategy" : "updateStrategy",
                 "type");
        SET_NUMBER(workload, scenario->max_unavailable, "spec",
                   is_deployment ? "strategy" : "updateStrategy", "rollingUpdate",
                   "maxUnavailable");
        if (is_deployment)
                SET_NUMBER(workload, scenario->max_unavailable == 0, "spec", "strategy",
                           "rollingUpdate", "maxSurge");
        if (scenario->kind == WORKLOAD_STATEFUL_SET)
                SET_NUMBER(workload, scenario->partition, "spec", "updateStrategy", "rollingUpdate",
                           "partition");
}

static json_object *make_workload(const Scenario *scenario, const char *image) {
        json_object *workload = json_object_new_object();

        SET_TEXT(&workload, WORKLOAD, "metadata", "name");
        SET_TEXT(&workload, NAMESPACE, "metadata", "namespace");
        if (scenario->is_declared)
                SET_TEXT(&workload, scenario->is_only ? UPDATE_ONLY : UPDATE_IF_POSSIBLE,
                         "metadata", "annotations", UPDATE_ANNOTATION);
        if (scenario->kind != WORKLOAD_DAEMON_SET)
                SET_NUMBER(&workload, scenario->n_pods, "spec", "replicas");
        SET_TEXT(&workload, "web", "spec", "selector", "matchLabels", "app");
        if (scenario->kind != WORKLOAD_REPLICA_SET)
                SET_NUMBER(&workload, scenario->history_limit, "spec", "revisionHistoryLimit");
        if (scenario->min_ready_sec > 0)
                SET_NUMBER(&workload, scenario->min_ready_sec, "spec", "minReadySeconds");
        if (scenario->start > 0)
                SET_NUMBER(&workload, scenario->start, "spec", "ordinals", "start");
        if (scenario->is_parallel)
                SET_TEXT(&workload, "Parallel", "spec", "podManagementPolicy");
        SET(&workload, make_template(scenario, image), "spec", "template");
        set_strategy(scenario, &workload);
        return workload;
}

void cluster_make_workload(World *world, const char *image) {
        cleanup(json_object_put_p) json_object *workload = make_workload(&world->scenario, image);

        (void) api_create(world, AUTHOR_USER, workload_resource(world), workload, false, NULL);
}

void cluster_make_budget(World *world, const char *limit, int64_t n) {
        cleanup(json_object_put_p) json_object *budget = json_object_new_object();

        SET_TEXT(&budget, WORKLOAD, "metadata", "name");
        SET_NUMBER(&budget, n, "spec", limit);
        SET_TEXT(&budget, "web", "spec", "selector", "matchLabels", "app");
        (void) api_create(world, AUTHOR_USER, BUDGETS, budget, false, NULL);
}

/* Controllers and kubelets act until nothing is left. */
static bool step(World *world) {
        for (size_t i = 0; i < world->n_runtimes; i++)
                if (kubelet_step(world, &world->runtimes[i]))
                        return true;
        return manager_step(world);
}

void cluster_settle(World *world) {
        for (int n_idle = 0; n_idle < 24 && !world->judge.failure[0];) {
                if (step(world))
                        continue;
                n_idle++;
                world->now_sec += 2;
                manager_touch(world);
        }
}

/* The scheduler and the kubelets look again. */
void cluster_make_room(World *world) {
        world->is_full = false;
        world->has_unbound = true;
        world->n_changes++;
}

static void create(World *world) {
        const Scenario *scenario = &world->scenario;
        bool is_declared = scenario->is_declared;

        world->now_sec = START_SEC;
        world->judge.is_excused = true;
        world->has_webhook = scenario->is_webhook_first;
        for (int i = 0; i < NODES_MAX; i++)
                world->nodes[i] = (Node){ .lost_sec = NEVER };
        cluster_make_workload(world, scenario->has_older ? "r/app:2" : "r/app:1");
        if (scenario->has_budget)
                cluster_make_budget(world, "maxUnavailable", 1);
        cluster_settle(world);
        if (scenario->has_older && !is_declared) {
                user_set_image(world, "r/app:1");
                cluster_settle(world);
        }
        if (!scenario->is_kept)
                return;
        user_keep(world);
        cluster_settle(world);
}

/* Clusters that were made */

static struct Made {
        uint64_t key;
        World *world;
} * made;
static size_t n_made;

static uint64_t key_of(const Scenario *scenario) {
        int webhook = scenario->is_webhook_first ? (int) scenario->webhook : 0;
        const int parts[] = { (int) scenario->kind,    scenario->n_pods,
                              scenario->n_containers,  scenario->max_unavailable,
                              scenario->min_ready_sec, scenario->has_gate,
                              scenario->has_budget,    scenario->has_older,
                              scenario->is_declared,   scenario->is_kept,
                              scenario->is_only,       scenario->history_limit,
                              scenario->start,         scenario->is_parallel,
                              scenario->partition,     scenario->is_recreate + 2 * webhook };
        uint64_t key = 1;

        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
                key = key * 16 + (uint64_t) parts[i];
        return key;
}

static const World *find_made(const Scenario *scenario) {
        uint64_t key = key_of(scenario);
        World *world;

        for (size_t i = 0; i < n_made; i++)
                if (made[i].key == key)
                        return made[i].world;
        made = reallocarray(made, n_made + 1, sizeof(*made));
        world = calloc(1, sizeof(*world));
        made[n_made++] = (struct Made){ key, world };
        world->scenario = *scenario;
        world->random = key;
        create(world);
        return world;
}

static void copy_items(Items *items) {
        for (size_t i = 0; i < items->n; i++) {
                json_object_get(items->items[i]);
                items->is_dirty[i] = false;
        }
}

void cluster_make(World *world) {
        const World *source = find_made(&world->scenario);

        world->now_sec = source->now_sec;
        world->n_versions = source->n_versions;
        world->n_uids = source->n_uids;
        world->n_ids = source->n_ids;
        world->has_webhook = source->has_webhook;
        for (Resource resource = 0; resource < _RESOURCE_MAX; resource++) {
                world->items[resource] = source->items[resource];
                world->manager.items[resource] = source->items[resource];
                copy_items(&world->items[resource]);
                copy_items(&world->manager.items[resource]);
        }
        memcpy(world->nodes, source->nodes, sizeof(world->nodes));
        memcpy(world->runtimes, source->runtimes, sizeof(world->runtimes));
        world->n_runtimes = source->n_runtimes;
        for (size_t i = 0; i < world->n_runtimes; i++)
                json_object_get(world->runtimes[i].seen);
        judge_begin(world);
        if (source->judge.failure[0])
                fail(world, "%s", source->judge.failure);
}
