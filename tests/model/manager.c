/* SPDX-License-Identifier: Apache-2.0 */

/*
 * kube-controller-manager: its queue, and the controllers of Deployments, ReplicaSets and PodDisruptionBudgets; the
 * scheduler
 *
 * Controllers decide by their informers, which lag, and write under the version that these have.
 */

#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/hash.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"
#include "tests/model/world.h"

#define DISRUPTED_SEC 120

/* The queue */

static const struct {
        Resource resource;
        void (*sync)(World *world, json_object *object);
} controllers[] = {
        { DEPLOYMENTS, deployment_sync },
        { REPLICA_SETS, replica_set_sync },
        { STATEFUL_SETS, stateful_set_sync },
        { DAEMON_SETS, daemon_set_sync },
        { BUDGETS, budget_sync },
};

#define N_CONTROLLERS (sizeof(controllers) / sizeof(controllers[0]))

static void touch(World *world, Resource resource) {
        Items *items = &world->manager.items[resource];

        for (size_t i = 0; i < items->n; i++)
                items->is_dirty[i] = true;
}

void manager_touch(World *world) {
        for (size_t i = 0; i < N_CONTROLLERS; i++)
                touch(world, controllers[i].resource);
}

static void advance(World *world, Resource resource) {
        cache_advance(world, &world->manager, resource);
        if (resource == REPLICA_SETS)
                touch(world, DEPLOYMENTS);
        if (resource == PODS || resource == REVISIONS) {
                for (size_t i = 1; i < N_CONTROLLERS; i++)
                        touch(world, controllers[i].resource);
        }
}

/* The scheduler */

static int number_of(const char *node) {
        return node ? node[5] - '0' : -1;
}

int pod_node(json_object *pod) {
        return number_of(object_text(pod, "spec.nodeName"));
}

int pod_target(json_object *pod) {
        json_object *only = GET(pod, "spec", "nodeSelector", "kubernetes.io/hostname");

        return only ? number_of(json_object_get_string(only)) : -1;
}

/* Pods of DaemonSets tolerate that their node is cordoned. -1: there is none. */
static int find_node(World *world, json_object *pod) {
        int only = pod_target(pod), first = (int) choose(world, NODES_MAX);

        for (int i = 0; i < NODES_MAX && !world->is_full; i++) {
                int number = only < 0 ? (first + i) % NODES_MAX : only;
                const Node *node = &world->nodes[number];

                if (!node->is_marked && (only >= 0 || !node->is_cordoned))
                        return number;
        }
        return -1;
}

static void assign(World *world, json_object *pod, int node) {
        json_object *changed = json_object_get(pod), *conditions = json_object_new_array();
        json_object *scheduled = json_object_new_object();
        char name[16];

        (void) snprintf(name, sizeof(name), "node-%d", node);
        note(world, "scheduler: pod %s gets %s", object_name(pod), node < 0 ? "no node" : name);
        SET_TEXT(&scheduled, "PodScheduled", "type");
        SET_TEXT(&scheduled, node < 0 ? "False" : "True", "status");
        if (node < 0)
                SET_TEXT(&scheduled, "Unschedulable", "reason");
        else
                SET_TEXT(&changed, name, "spec", "nodeName");
        json_object_array_add(conditions, scheduled);
        SET(&changed, conditions, "status", "conditions");
        (void) api_update(world, AUTHOR_MANAGER, PODS, true, changed);
        if (node >= 0)
                runtime_add(world, api_get(world, PODS, object_name(pod)));
}

/* Looks for a node for one pod, and says once that there is none. */
static void schedule(World *world) {
        const Items *pods = &world->items[PODS];

        for (size_t i = 0; i < pods->n; i++) {
                json_object *pod = pods->items[i];
                int node;

                if (pod_node(pod) >= 0 || object_is_deleted(pod))
                        continue;
                node = find_node(world, pod);
                if (node < 0 && GET(pod, "status", "conditions"))
                        continue;
                assign(world, pod, node);
                return;
        }
        world->has_unbound = false;
}

/* The owner is gone. */
static bool is_garbage(World *world, json_object *object) {
        json_object *owner = object_list(object, "metadata.ownerReferences");

        for (Resource resource = DEPLOYMENTS; owner && resource < REVISIONS; resource++)
                for (size_t i = 0; i < world->items[resource].n; i++)
                        if (pod_is_owned(object, world->items[resource].items[i]))
                                return false;
        return owner && !object_is_deleted(object);
}

/* The garbage collector deletes one object. */
static void collect_garbage(World *world) {
        static const Resource resources[] = { REPLICA_SETS, REVISIONS, PODS };

        for (size_t k = 0; k < sizeof(resources) / sizeof(resources[0]); k++) {
                const Items *items = &world->items[resources[k]];

                for (size_t i = 0; i < items->n; i++)
                        if (is_garbage(world, items->items[i])) {
                                note(world, "manager: collects %s", object_name(items->items[i]));
                                (void) api_delete(world, AUTHOR_MANAGER, resources[k],
                                                  items->names[i]);
                                return;
                        }
        }
        world->has_garbage = false;
}

typedef struct Deed {
        size_t controller; /* N_CONTROLLERS: the informer of `resource` goes on; more: garbage, the scheduler */
        size_t item;
        Resource resource;
} Deed;

static void act(World *world, const Deed *deed) {
        Items *items = &world->manager.items[deed->resource];
        cleanup(json_object_put_p) json_object *object = NULL;

        if (deed->controller > N_CONTROLLERS) {
                (deed->controller == N_CONTROLLERS + 1 ? collect_garbage : schedule)(world);
                return;
        }
        if (deed->controller == N_CONTROLLERS) {
                advance(world, deed->resource);
                return;
        }
        object = json_object_get(items->items[deed->item]);
        items->is_dirty[deed->item] = false;
        controllers[deed->controller].sync(world, object);
}

bool manager_step(World *world) {
        Deed deeds[64];
        uint32_t n = 0;

        for (Resource resource = 0; resource < LEASES; resource++)
                if (cache_is_behind(world, &world->manager, resource))
                        deeds[n++] = (Deed){ N_CONTROLLERS, 0, resource };
        if (world->has_garbage)
                deeds[n++] = (Deed){ .controller = N_CONTROLLERS + 1 };
        if (world->has_unbound)
                deeds[n++] = (Deed){ .controller = N_CONTROLLERS + 2 };
        for (size_t i = 0; i < N_CONTROLLERS; i++) {
                const Items *items = &world->manager.items[controllers[i].resource];

                for (size_t k = 0; k < items->n && n < 64; k++)
                        if (items->is_dirty[k])
                                deeds[n++] = (Deed){ i, k, controllers[i].resource };
        }
        if (n > 0)
                act(world, &deeds[choose(world, n)]);
        return n > 0;
}

/* Pods */

bool pod_is_owned(json_object *pod, json_object *owner) {
        return text_equal(object_owner(pod), object_text(owner, "metadata.uid"));
}

static bool is_selected(json_object *pod, json_object *owner) {
        return selector_matches(GET(owner, "spec", "selector"), GET(pod, "metadata", "labels"));
}

bool pod_is_claimed(json_object *pod, json_object *owner) {
        return is_selected(pod, owner) &&
               (object_owner(pod) ? pod_is_owned(pod, owner) : !object_is_deleted(pod));
}

/* By a patch that minds the uid alone */
static void set_owners(World *world, json_object *pod, json_object *owners) {
        json_object *now = api_get(world, PODS, object_name(pod)), *changed;

        if (!text_equal(object_text(now, "metadata.uid"), object_text(pod, "metadata.uid"))) {
                json_object_put(owners);
                return;
        }
        changed = json_object_get(now);
        note(world, "manager: %s pod %s", owners ? "adopts" : "releases", object_name(pod));
        SET(&changed, owners, "metadata", "ownerReferences");
        (void) api_update(world, AUTHOR_MANAGER, PODS, false, changed);
}

void manager_claim_pods(World *world, json_object *owner, const char *kind) {
        const Items *pods = &world->manager.items[PODS];

        for (size_t i = 0; i < pods->n; i++) {
                json_object *pod = pods->items[i];

                if (pod_is_owned(pod, owner) && !is_selected(pod, owner))
                        set_owners(world, pod, NULL);
                else if (!object_owner(pod) && pod_is_claimed(pod, owner))
                        set_owners(world, pod, make_owners(owner, kind));
        }
}

static bool is_active(json_object *pod, json_object *owner) {
        return pod_is_claimed(pod, owner) && !object_is_deleted(pod) && !pod_has_ended(pod);
}

bool pod_is_available(const World *world, json_object *pod, int64_t min_ready_sec) {
        json_object *ready = json_find(GET(pod, "status", "conditions"), "type", "Ready");

        return json_is(ready, "status", "True") &&
               (min_ready_sec == 0 ||
                world->now_sec - json_get_time(ready, "lastTransitionTime") >= min_ready_sec);
}

json_object *make_owners(json_object *owner, const char *kind) {
        json_object *list = json_object_new_array(), *entry = json_object_new_object();

        SET_TEXT(&entry, "apps/v1", "apiVersion");
        SET_TEXT(&entry, kind, "kind");
        SET_TEXT(&entry, object_name(owner), "name");
        SET_TEXT(&entry, object_text(owner, "metadata.uid"), "uid");
        SET(&entry, json_object_new_boolean(true), "controller");
        json_object_array_add(list, entry);
        return list;
}

json_object *make_pod(World *world, json_object *owner, json_object *template, const char *kind,
                      const char *name, int node) {
        json_object *pod = json_object_get(template);
        char node_name[16];

        SET_TEXT(&pod, name, "metadata", "name");
        SET_TEXT(&pod, NAMESPACE, "metadata", "namespace");
        SET(&pod, time_text(world->now_sec), "metadata", "creationTimestamp");
        SET(&pod, make_owners(owner, kind), "metadata", "ownerReferences");
        SET_TEXT(&pod, "Pending", "status", "phase");
        if (node < 0)
                return pod;
        /* It stands for the node affinity that a DaemonSet's controller writes. */
        (void) snprintf(node_name, sizeof(node_name), "node-%d", node);
        SET_TEXT(&pod, node_name, "spec", "nodeSelector", "kubernetes.io/hostname");
        return pod;
}

ErrorKind manager_create_pod(World *world, json_object *pod) {
        cleanup(json_object_put_p) json_object *made = NULL;
        ErrorKind kind = api_create(world, AUTHOR_MANAGER, PODS, pod, false, &made);

        json_object_put(pod);
        if (kind != ERROR_NONE)
                return kind;
        note(world, "manager: creates pod %s with %s", object_name(made),
             template_image(made, "app"));
        judge_pod_made(world);
        world->awaited_pods = world->logs[PODS].n;
        world->has_unbound = true;
        return ERROR_NONE;
}

ErrorKind manager_delete_pod(World *world, json_object *pod) {
        json_object *now = api_get(world, PODS, object_name(pod));

        if (!now || object_is_deleted(now) ||
            !text_equal(object_text(now, "metadata.uid"), object_text(pod, "metadata.uid")))
                return ERROR_NOT_FOUND;
        note(world, "manager: deletes pod %s", object_name(pod));
        judge_pod_ended(world);
        (void) api_delete(world, AUTHOR_MANAGER, PODS, object_name(pod));
        world->awaited_pods = world->logs[PODS].n;
        return ERROR_NONE;
}

/* ReplicaSets */

static void create_pods(World *world, json_object *replica_set, int64_t n) {
        json_object *template = GET(replica_set, "spec", "template");

        for (int64_t i = 0; i < n; i++) {
                char name[64];

                (void) snprintf(name, sizeof(name), "%s-%u", object_name(replica_set),
                                ++world->n_ids);
                (void) manager_create_pod(world, make_pod(world, replica_set, template,
                                                          "ReplicaSet", name, -1));
        }
}

/* Pods that are not ready go first. */
static void delete_pods(World *world, json_object *replica_set, int64_t n) {
        const Items *pods = &world->manager.items[PODS];

        for (int pass = 0; pass < 2; pass++)
                for (size_t i = pods->n; i > 0 && n > 0; i--) {
                        json_object *pod = pods->items[i - 1];

                        if (is_active(pod, replica_set) &&
                            pod_is_available(world, pod, 0) == (pass == 1) &&
                            manager_delete_pod(world, pod) == ERROR_NONE)
                                n--;
                }
}

static bool has_numbers(json_object *object, const char *const *keys, const int64_t *values) {
        for (size_t i = 0; keys[i]; i++) {
                json_object *value = GET(object, keys[i]);

                if (!value || json_object_get_int64(value) != values[i])
                        return false;
        }
        return true;
}

static void write_status(World *world, Resource resource, json_object *object,
                         const char *const *keys, const int64_t *values) {
        cleanup(json_object_put_p) json_object *body = NULL;

        if (has_numbers(GET(object, "status"), keys, values))
                return;
        body = json_object_new_object();
        json_object_object_add(body, "status", with_numbers(NULL, keys, values));
        (void) api_patch(world,
                         &(Patch){ .author = AUTHOR_MANAGER,
                                   .resource = resource,
                                   .name = object_name(object),
                                   .is_status = true,
                                   .body = body },
                         NULL);
}

void replica_set_sync(World *world, json_object *replica_set) {
        static const char *const keys[] = { "replicas", "readyReplicas", "availableReplicas",
                                            "observedGeneration", NULL };
        const Items *pods = &world->manager.items[PODS];
        int64_t min_ready_sec = object_integer(replica_set, "spec.minReadySeconds");
        int64_t n = 0, n_ready = 0, n_available = 0;
        int64_t wanted = object_integer(replica_set, "spec.replicas");

        manager_claim_pods(world, replica_set, "ReplicaSet");
        for (size_t i = 0; i < pods->n; i++) {
                json_object *pod = pods->items[i];

                if (!is_active(pod, replica_set))
                        continue;
                n++;
                n_ready += pod_is_available(world, pod, 0);
                n_available += pod_is_available(world, pod, min_ready_sec);
        }
        if (world->manager.seen[PODS] >= world->awaited_pods) {
                create_pods(world, replica_set, wanted - n);
                delete_pods(world, replica_set, n - wanted);
        }
        write_status(world, REPLICA_SETS, replica_set, keys,
                     (const int64_t[]){ n, n_ready, n_available,
                                        object_integer(replica_set, "metadata.generation") });
}

int64_t history_limit(json_object *workload) {
        json_object *limit = GET(workload, "spec", "revisionHistoryLimit");

        return limit ? json_object_get_int64(limit) : 10;
}

/* Deployments */

typedef struct DeploymentSync {
        World *world;
        json_object *deployment;
        json_object *sets[16]; /* by age */
        size_t n;
        json_object *new_set; /* NULL: there is none */
} DeploymentSync;

static int64_t replicas_of(json_object *object) {
        return object_integer(object, "spec.replicas");
}

static int64_t revision_of(json_object *object) {
        const char *text = annotation_of(object, REVISION);

        return text ? strtoll(text, NULL, 10) : 0;
}

static int compare_ages(const void *a, const void *b) {
        json_object *const *left = a, *const *right = b;
        int64_t difference = json_get_time(GET(*left, "metadata"), "creationTimestamp") -
                             json_get_time(GET(*right, "metadata"), "creationTimestamp");

        return difference != 0 ? (difference > 0 ? 1 : -1)
                               : strcmp(object_name(*left), object_name(*right));
}

static void find_sets(DeploymentSync *turn) {
        const Items *items = &turn->world->manager.items[REPLICA_SETS];

        for (size_t i = 0; i < items->n && turn->n < 16; i++)
                if (pod_is_owned(items->items[i], turn->deployment))
                        turn->sets[turn->n++] = items->items[i];
        qsort(turn->sets, turn->n, sizeof(turn->sets[0]), compare_ages);
        for (size_t i = 0; i < turn->n && !turn->new_set; i++)
                if (templates_equal(GET(turn->sets[i], "spec", "template"),
                                    GET(turn->deployment, "spec", "template")))
                        turn->new_set = turn->sets[i];
}

static int64_t next_revision(const DeploymentSync *turn) {
        int64_t max = 0;

        for (size_t i = 0; i < turn->n; i++)
                if (turn->sets[i] != turn->new_set && revision_of(turn->sets[i]) > max)
                        max = revision_of(turn->sets[i]);
        return max + 1;
}

static bool is_copied(const char *key) {
        static const char *const skipped[] = { "kubectl.kubernetes.io/last-applied-configuration",
                                               REVISION, DESIRED };

        for (size_t i = 0; i < sizeof(skipped) / sizeof(skipped[0]); i++)
                if (strcmp(key, skipped[i]) == 0)
                        return false;
        return true;
}

static void copy_annotations(json_object *annotations, json_object **replica_set) {
        json_object_object_foreach(annotations, key, value) {
                if (is_copied(key) &&
                    !json_object_equal(value, GET(*replica_set, "metadata", "annotations", key)))
                        SET(replica_set, json_object_get(value), "metadata", "annotations", key);
        }
}

/* The Deployment's annotations, and a revision that does not fall. */
static void annotate(const DeploymentSync *turn, json_object **replica_set) {
        json_object *annotations = GET(turn->deployment, "metadata", "annotations");
        int64_t revision = next_revision(turn);
        char text[24];

        if (annotations)
                copy_annotations(annotations, replica_set);
        if (revision <= revision_of(*replica_set))
                return;
        (void) snprintf(text, sizeof(text), "%" PRId64, revision);
        SET_TEXT(replica_set, text, "metadata", "annotations", REVISION);
}

static void set_desired(const DeploymentSync *turn, json_object **replica_set) {
        char text[24];

        (void) snprintf(text, sizeof(text), "%" PRId64, replicas_of(turn->deployment));
        if (!text_equal(annotation_of(*replica_set, DESIRED), text))
                SET_TEXT(replica_set, text, "metadata", "annotations", DESIRED);
}

/* Returns whether it was written: then the next turn goes on. */
static bool write_set(const DeploymentSync *turn, json_object *old, json_object *new) {
        bool is_same = json_object_equal(old, new);

        if (is_same)
                json_object_put(new);
        else
                (void) api_update(turn->world, AUTHOR_MANAGER, REPLICA_SETS, false, new);
        return !is_same;
}

static bool sync_revision(const DeploymentSync *turn) {
        json_object *changed = json_object_get(turn->new_set);
        json_object *wait = GET(turn->deployment, "spec", "minReadySeconds");

        annotate(turn, &changed);
        if (wait && !json_object_equal(wait, GET(changed, "spec", "minReadySeconds")))
                SET(&changed, json_object_get(wait), "spec", "minReadySeconds");
        if (write_set(turn, turn->new_set, changed))
                return true;
        if (text_equal(annotation_of(turn->deployment, REVISION),
                       annotation_of(turn->new_set, REVISION)))
                return false;
        changed = json_object_get(turn->deployment);
        SET_TEXT(&changed, annotation_of(turn->new_set, REVISION), "metadata", "annotations",
                 REVISION);
        (void) api_update(turn->world, AUTHOR_MANAGER, DEPLOYMENTS, true, changed);
        return true;
}

static bool scale(const DeploymentSync *turn, json_object *set, int64_t replicas) {
        json_object *changed = json_object_get(set);

        if (replicas != replicas_of(set)) {
                note(turn->world, "manager: scales %s to %" PRId64, object_name(set), replicas);
                SET_NUMBER(&changed, replicas, "spec", "replicas");
        }
        set_desired(turn, &changed);
        return write_set(turn, set, changed);
}

static int64_t count_replicas(const DeploymentSync *turn) {
        int64_t sum = 0;

        for (size_t i = 0; i < turn->n; i++)
                sum += replicas_of(turn->sets[i]);
        return sum;
}

static int64_t share_of(const DeploymentSync *turn, const char *path, ShareRounding rounding) {
        json_object *value = object_at(turn->deployment, path);
        int64_t number = 0;

        if (value)
                (void) share_parse(json_object_get_string(value), replicas_of(turn->deployment),
                                   rounding, &number, NULL);
        return number;
}

static bool is_recreate(const DeploymentSync *turn) {
        return text_equal(object_text(turn->deployment, "spec.strategy.type"), "Recreate");
}

static int64_t max_surge(const DeploymentSync *turn) {
        return share_of(turn, "spec.strategy.rollingUpdate.maxSurge", SHARE_ROUNDED_UP);
}

static int64_t new_replicas(const DeploymentSync *turn, int64_t n_new) {
        int64_t total = replicas_of(turn->deployment) + max_surge(turn);
        int64_t room = total - count_replicas(turn);
        int64_t lacking = replicas_of(turn->deployment) - n_new;

        return room <= 0 || lacking <= 0 ? n_new : n_new + (room < lacking ? room : lacking);
}

static bool create_new(DeploymentSync *turn) {
        json_object *deployment = turn->deployment, *template, *made;
        int64_t collisions = object_integer(deployment, "status.collisionCount");
        uint64_t hash =
                hash64_text(HASH64_START + (uint64_t) collisions,
                            json_object_to_json_string(GET(deployment, "spec", "template")));
        char label[16], name[64];
        ErrorKind kind;

        (void) snprintf(label, sizeof(label), "%08x", (unsigned) (hash ^ hash >> 32));
        (void) snprintf(name, sizeof(name), "%s-%s", object_name(deployment), label);
        template = json_object_get(GET(deployment, "spec", "template"));
        SET_TEXT(&template, label, "metadata", "labels", "pod-template-hash");
        made = json_object_new_object();
        SET_TEXT(&made, name, "metadata", "name");
        SET(&made, time_text(turn->world->now_sec), "metadata", "creationTimestamp");
        SET(&made, json_object_get(GET(template, "metadata", "labels")), "metadata", "labels");
        SET(&made, json_object_get(GET(template, "metadata", "labels")), "spec", "selector",
            "matchLabels");
        SET(&made, make_owners(deployment, "Deployment"), "metadata", "ownerReferences");
        SET(&made, template, "spec", "template");
        SET_NUMBER(&made, new_replicas(turn, 0), "spec", "replicas");
        annotate(turn, &made);
        set_desired(turn, &made);
        kind = api_create(turn->world, AUTHOR_MANAGER, REPLICA_SETS, made, false, NULL);
        json_object_put(made);
        note(turn->world, "manager: creates ReplicaSet %s%s", name,
             kind == ERROR_CONFLICT ? ", which exists" : "");
        if (kind == ERROR_CONFLICT &&
            (!pod_is_owned(api_get(turn->world, REPLICA_SETS, name), deployment) ||
             !templates_equal(GET(api_get(turn->world, REPLICA_SETS, name), "spec", "template"),
                              GET(deployment, "spec", "template")))) {
                made = json_object_get(deployment);
                SET_NUMBER(&made, collisions + 1, "status", "collisionCount");
                (void) api_update(turn->world, AUTHOR_MANAGER, DEPLOYMENTS, true, made);
        }
        return true;
}

/* The only one with pods, or the new one, or else the youngest where none has: it alone is scaled. NULL: there are several. */
static json_object *find_active(const DeploymentSync *turn) {
        json_object *active = NULL;

        for (size_t i = 0; i < turn->n; i++)
                if (replicas_of(turn->sets[i]) > 0) {
                        if (active)
                                return NULL;
                        active = turn->sets[i];
                }
        if (!active && !turn->new_set && turn->n > 0)
                return turn->sets[turn->n - 1];
        return active ? active : turn->new_set;
}

static int64_t desired_of(json_object *set) {
        const char *desired = annotation_of(set, DESIRED);

        return desired ? strtoll(desired, NULL, 10) : 0;
}

static bool is_saturated(const DeploymentSync *turn) {
        int64_t n = replicas_of(turn->deployment);
        json_object *newest = turn->new_set;

        return newest && replicas_of(newest) == n && desired_of(newest) == n &&
               object_integer(newest, "status.availableReplicas") == n;
}

/* The largest first, and of the same size the newest where pods are added. */
static size_t find_by_size(const DeploymentSync *turn, bool is_newest_first, json_object **ret) {
        size_t n = 0;

        for (size_t i = 0; i < turn->n; i++) {
                json_object *set = turn->sets[is_newest_first ? turn->n - 1 - i : i];
                size_t at = n;

                if (replicas_of(set) == 0)
                        continue;
                for (; at > 0 && replicas_of(ret[at - 1]) < replicas_of(set); at--)
                        ret[at] = ret[at - 1];
                ret[at] = set;
                n++;
        }
        return n;
}

/* How many of the pods to add, or fewer than 0 to remove, are this one's. */
static int64_t proportion_of(const DeploymentSync *turn, json_object *set, int64_t rest) {
        int64_t before = desired_of(set) + max_surge(turn), n = replicas_of(set), share = -n;

        if (replicas_of(turn->deployment) > 0)
                share = before > 0 ? (2 * n * (replicas_of(turn->deployment) + max_surge(turn)) +
                                      before) / (2 * before) -
                                             n
                                   : 0;
        return rest > 0 ? (share < rest ? share : rest) : (share > rest ? share : rest);
}

static void scale_in_proportion(const DeploymentSync *turn) {
        int64_t wanted = replicas_of(turn->deployment);
        int64_t rest = (wanted > 0 ? wanted + max_surge(turn) : 0) - count_replicas(turn);
        int64_t sizes[16];
        json_object *sets[16];
        size_t n = find_by_size(turn, rest > 0, sets);

        for (size_t i = 0; i < n; i++) {
                int64_t share = rest != 0 ? proportion_of(turn, sets[i], rest) : 0;

                sizes[i] = replicas_of(sets[i]) + share;
                rest -= share;
        }
        for (size_t i = 0; i < n; i++) {
                int64_t size = i == 0 ? sizes[i] + rest : sizes[i];

                (void) scale(turn, sets[i], size > 0 ? size : 0);
        }
}

static void scale_all(const DeploymentSync *turn) {
        json_object *active = find_active(turn);
        bool is_full = is_saturated(turn);

        if (active && replicas_of(active) != replicas_of(turn->deployment))
                (void) scale(turn, active, replicas_of(turn->deployment));
        if (active)
                return;
        for (size_t i = 0; i < turn->n && is_full; i++)
                if (turn->sets[i] != turn->new_set && replicas_of(turn->sets[i]) > 0)
                        (void) scale(turn, turn->sets[i], 0);
        if (!is_full && !is_recreate(turn))
                scale_in_proportion(turn);
}

static bool is_scaling(const DeploymentSync *turn) {
        for (size_t i = 0; i < turn->n; i++) {
                const char *desired = annotation_of(turn->sets[i], DESIRED);

                if (replicas_of(turn->sets[i]) > 0 && desired &&
                    strtoll(desired, NULL, 10) != replicas_of(turn->deployment))
                        return true;
        }
        return false;
}

static bool roll(const DeploymentSync *turn) {
        int64_t n_max =
                share_of(turn, "spec.strategy.rollingUpdate.maxUnavailable", SHARE_ROUNDED_DOWN);
        int64_t n_surge = max_surge(turn), n_new = replicas_of(turn->new_set), spare;

        if (n_new > replicas_of(turn->deployment))
                return scale(turn, turn->new_set, replicas_of(turn->deployment));
        if (scale(turn, turn->new_set, new_replicas(turn, n_new)))
                return true;
        spare = count_replicas(turn) -
                (replicas_of(turn->deployment) - (n_surge == 0 && n_max == 0 ? 1 : n_max)) -
                (n_new - object_integer(turn->new_set, "status.availableReplicas"));
        for (size_t i = 0; i < turn->n; i++) {
                json_object *old = turn->sets[i];
                int64_t n_down = replicas_of(old) < spare ? replicas_of(old) : spare;

                if (old != turn->new_set && n_down > 0)
                        return scale(turn, old, replicas_of(old) - n_down);
        }
        return false;
}

static bool has_old_pods(const DeploymentSync *turn) {
        const Items *pods = &turn->world->manager.items[PODS];

        for (size_t i = 0; i < turn->n; i++)
                for (size_t k = 0; k < pods->n && turn->sets[i] != turn->new_set; k++)
                        if (pod_is_owned(pods->items[k], turn->sets[i]) &&
                            !pod_has_ended(pods->items[k]))
                                return true;
        return false;
}

/* All old pods end before the first new one is made. */
static bool recreate(DeploymentSync *turn) {
        bool is_scaled = false;

        for (size_t i = 0; i < turn->n; i++)
                if (turn->sets[i] != turn->new_set && replicas_of(turn->sets[i]) > 0)
                        is_scaled = scale(turn, turn->sets[i], 0) || is_scaled;
        if (is_scaled || has_old_pods(turn))
                return is_scaled;
        return !turn->new_set ? create_new(turn)
                              : scale(turn, turn->new_set, replicas_of(turn->deployment));
}

static int compare_revisions(const void *a, const void *b) {
        json_object *const *left = a, *const *right = b;
        int64_t difference = revision_of(*left) - revision_of(*right);

        return difference != 0 ? (difference > 0 ? 1 : -1) : compare_ages(a, b);
}

static void clean_up(const DeploymentSync *turn) {
        json_object *old[16];
        size_t n = 0;

        for (size_t i = 0; i < turn->n; i++)
                if (turn->sets[i] != turn->new_set)
                        old[n++] = turn->sets[i];
        qsort(old, n, sizeof(old[0]), compare_revisions);
        for (size_t i = 0; (int64_t) i < (int64_t) n - history_limit(turn->deployment); i++)
                if (replicas_of(old[i]) == 0 && object_integer(old[i], "status.replicas") == 0 &&
                    object_is_observed(old[i])) {
                        judge_cleaned_up(turn->world, object_name(old[i]));
                        (void) api_delete(turn->world, AUTHOR_MANAGER, REPLICA_SETS,
                                          object_name(old[i]));
                }
}

static bool is_complete(json_object *deployment) {
        int64_t n = replicas_of(deployment);

        return object_integer(deployment, "status.updatedReplicas") == n &&
               object_integer(deployment, "status.replicas") == n &&
               object_integer(deployment, "status.availableReplicas") == n &&
               object_is_observed(deployment);
}

static void sync_status(const DeploymentSync *turn) {
        static const char *const keys[] = { "replicas",           "readyReplicas",
                                            "availableReplicas",  "updatedReplicas",
                                            "observedGeneration", NULL };
        json_object *status = GET(turn->deployment, "status"), *changed;
        int64_t values[5] = { 0 };

        for (size_t k = 0; k < 3; k++)
                for (size_t i = 0; i < turn->n; i++)
                        values[k] += json_object_get_int64(GET(turn->sets[i], "status", keys[k]));
        values[3] = object_integer(turn->new_set, "status.replicas");
        values[4] = object_integer(turn->deployment, "metadata.generation");
        if (has_numbers(status, keys, values))
                return;
        changed = json_object_get(turn->deployment);
        SET(&changed, with_numbers(status, keys, values), "status");
        (void) api_update(turn->world, AUTHOR_MANAGER, DEPLOYMENTS, true, changed);
}

void deployment_sync(World *world, json_object *deployment) {
        DeploymentSync turn = { .world = world, .deployment = deployment };
        bool is_paused = json_object_get_boolean(GET(deployment, "spec", "paused"));

        find_sets(&turn);
        if (turn.new_set && sync_revision(&turn))
                return;
        if (is_paused || is_scaling(&turn)) {
                scale_all(&turn);
                if (is_paused)
                        clean_up(&turn);
        } else if (is_recreate(&turn) ? recreate(&turn)
                   : !turn.new_set    ? create_new(&turn)
                                      : roll(&turn))
                return;
        else if (is_complete(deployment))
                clean_up(&turn);
        sync_status(&turn);
}

/* PodDisruptionBudgets */

/* Pods that the API server has let be evicted of late, and that the controller has not seen as deleted. */
static json_object *find_disrupted(World *world, json_object *budget) {
        json_object *found = json_object_new_object(),
                    *all = GET(budget, "status", "disruptedPods");
        const Items *pods = &world->manager.items[PODS];

        for (size_t i = 0; all && i < pods->n; i++)
                if (!object_is_deleted(pods->items[i]) &&
                    world->now_sec - json_get_time(all, pods->names[i]) < DISRUPTED_SEC)
                        json_object_object_add(found, pods->names[i],
                                               json_object_get(GET(all, pods->names[i])));
        return found;
}

void budget_sync(World *world, json_object *budget) {
        static const char *const keys[] = { "expectedPods",       "currentHealthy",
                                            "desiredHealthy",     "disruptionsAllowed",
                                            "observedGeneration", NULL };
        const Items *pods = &world->manager.items[PODS];
        json_object *least = GET(budget, "spec", "minAvailable");
        int64_t n_max = object_integer(budget, "spec.maxUnavailable");
        int64_t n = 0, n_healthy = 0, n_wanted, n_allowed;
        json_object *disrupted = find_disrupted(world, budget), *changed, *status;

        for (size_t i = 0; i < pods->n; i++) {
                n += is_selected(pods->items[i], budget);
                n_healthy += !object_is_deleted(pods->items[i]) &&
                             is_selected(pods->items[i], budget) &&
                             !GET(disrupted, pods->names[i]) &&
                             pod_is_available(world, pods->items[i], 0);
        }
        if (!least && n > 0)
                n = object_integer(api_workload(world), "spec.replicas");
        n_wanted = least ? json_object_get_int64(least) : n > n_max ? n - n_max : 0;
        n_allowed = n > 0 && n_healthy > n_wanted ? n_healthy - n_wanted : 0;
        status = with_numbers(GET(budget, "status"), keys,
                              (const int64_t[]){ n, n_healthy, n_wanted, n_allowed,
                                                 object_integer(budget, "metadata.generation") });
        SET(&status, disrupted, "disruptedPods");
        changed = json_object_get(budget);
        SET(&changed, status, "status");
        (void) api_update(world, AUTHOR_MANAGER, BUDGETS, true, changed);
}
