/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Kubelets, the agents beside them, and the controller of nodes
 *
 * A kubelet sees a pod late, stops and starts containers one by one, and reports their status later still. Images that
 * end in "none" cannot be pulled, those in "crash" do not keep running, those in "unready" never become ready.
 */

#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"
#include "agent/pod/gate-spec.h"
#include "tests/model/world.h"

#define MARKED_SEC 40
#define EVICTED_SEC 340
#define PULL_SEC 300
#define BACKOFF_SEC 10

static bool ends_in(const char *text, const char *end) {
        size_t size = strlen(text), n = strlen(end);

        return size >= n && strcmp(text + size - n, end) == 0;
}

bool image_is_good(const char *image) {
        return !ends_in(image, "none") && !ends_in(image, "crash") && !ends_in(image, "unready");
}

bool image_is_same(const World *world, const char *image, const char *other) {
        bool is_mirrored = world->scenario.webhook == WEBHOOK_MIRRORS ||
                           world->scenario.webhook == WEBHOOK_MIRRORS_ALWAYS;

        return text_equal(image, other) ||
               (is_mirrored && image && other && strcmp(image + 1, other + 1) == 0);
}

static const char *image_of(json_object *pod, size_t i) {
        json_object *containers = GET(pod, "spec", "containers");

        return containers && i < json_object_array_length(containers)
                       ? json_get_text(json_object_array_get_idx(containers, i), "image")
                       : NULL;
}

static json_object *condition_of(json_object *pod, const char *type) {
        return json_find(GET(pod, "status", "conditions"), "type", type);
}

static bool has_gate(json_object *pod) {
        return GET(pod, "spec", "readinessGates") != NULL;
}

static bool is_true(json_object *pod, const char *type) {
        return json_is(condition_of(pod, type), "status", "True");
}

static Resources resources_of(json_object *pod) {
        json_object *first = json_object_array_get_idx(GET(pod, "spec", "containers"), 0);
        json_object *requests = GET(first, "resources", "requests");

        return (Resources){ (int) json_get_integer(requests, "cpu"),
                            (int) json_get_integer(requests, "memory") };
}

static bool resources_equal(const Resources *a, const Resources *b) {
        return a->cpu == b->cpu && a->memory == b->memory;
}

void runtime_add(World *world, json_object *pod) {
        Runtime *runtime = &world->runtimes[world->n_runtimes++];

        *runtime = (Runtime){ .seen = json_object_get(pod),
                              .node = pod_node(pod),
                              .allocated = resources_of(pod) };
        (void) snprintf(runtime->uid, sizeof(runtime->uid), "%s", object_text(pod, "metadata.uid"));
        if (world->n_runtimes == sizeof(world->runtimes) / sizeof(world->runtimes[0]))
                fail(world, "the model has no room for more pods");
}

static void remove_runtime(World *world, Runtime *runtime) {
        json_object_put(runtime->seen);
        *runtime = world->runtimes[--world->n_runtimes];
}

Runtime *runtime_find(World *world, json_object *pod) {
        for (size_t i = 0; i < world->n_runtimes; i++)
                if (text_equal(world->runtimes[i].uid, object_text(pod, "metadata.uid")))
                        return &world->runtimes[i];
        return NULL;
}

static const char *name_of(const Runtime *runtime, int i) {
        return json_get_text(json_object_array_get_idx(GET(runtime->seen, "spec", "containers"),
                                                       (size_t) i),
                             "name");
}

static int n_containers(const Runtime *runtime) {
        return (int) json_object_array_length(GET(runtime->seen, "spec", "containers"));
}

void runtime_fail(World *world, Runtime *runtime) {
        runtime->has_failed = runtime->has_news = true;
        for (int i = 0; i < n_containers(runtime); i++) {
                runtime->containers[i].state = RUNTIME_DEAD;
                runtime->containers[i].is_ready = false;
        }
        runtime->n_changes++;
}

/* The pod in the API; NULL: it is gone. */
static json_object *pod_of(World *world, const Runtime *runtime) {
        json_object *pod = api_get(world, PODS, object_name(runtime->seen));

        return text_equal(object_text(pod, "metadata.uid"), runtime->uid) ? pod : NULL;
}

/* Containers */

static uint32_t image_bit(const char *image) {
        uint32_t hash = 0;

        for (; *image; image++)
                hash = hash * 31 + (unsigned char) *image;
        return UINT32_C(1) << (hash % 31);
}

bool runtime_has_started(const Runtime *runtime, const char *image) {
        return runtime->started & image_bit(image);
}

static void start(World *world, RuntimeContainer *container, const char *image) {
        (void) snprintf(container->tried, sizeof(container->tried), "%s", image);
        container->is_ready = false;
        container->reason = NULL;
        if (ends_in(image, "none")) {
                container->state = RUNTIME_BACKOFF;
                container->reason = "ImagePullBackOff";
                container->retry_sec = world->now_sec + PULL_SEC;
                return;
        }
        container->n_restarts += container->state != RUNTIME_NONE;
        container->state = RUNTIME_RUNNING;
        container->id = ++world->n_ids;
        container->started_sec = world->now_sec;
        (void) snprintf(container->image, sizeof(container->image), "%s", image);
}

static void crash(World *world, RuntimeContainer *container) {
        unsigned n = container->n_restarts < 5 ? container->n_restarts : 5;

        container->state = RUNTIME_BACKOFF;
        container->is_ready = false;
        container->reason = "CrashLoopBackOff";
        container->retry_sec = world->now_sec + (BACKOFF_SEC << n);
}

typedef enum Deed {
        DEED_NONE,
        DEED_START,
        DEED_KILL,
        DEED_READY,
        DEED_CRASH,
        DEED_RESIZE,
} Deed;

static int64_t clock_of(const World *world, const Runtime *runtime) {
        return world->now_sec + world->nodes[runtime->node].skew_sec;
}

/* Notes a start of the first container. */
static void note_start(World *world, Runtime *runtime, const char *image) {
        json_object *pod = pod_of(world, runtime);

        runtime->started |= image_bit(image);
        runtime->is_renewed = runtime->is_renewed || text_equal(image_of(pod, 0), image);
}

/* allocated: resources of the first container; NULL: it is another one. */
static Deed next_deed(const World *world, const RuntimeContainer *container, const char *image,
                      const Resources *allocated) {
        switch (container->state) {
        case RUNTIME_NONE:
        case RUNTIME_DEAD: return DEED_START;
        case RUNTIME_BACKOFF:
                return strcmp(container->tried, image) != 0 ||
                                       container->retry_sec <= world->now_sec
                               ? DEED_START
                               : DEED_NONE;
        case RUNTIME_RUNNING:
                if (strcmp(container->image, image) != 0 ||
                    (allocated && container->resources.memory != allocated->memory))
                        return DEED_KILL;
                if (allocated && container->resources.cpu != allocated->cpu)
                        return DEED_RESIZE;
                if (ends_in(image, "crash"))
                        return DEED_CRASH;
                return container->is_ready || ends_in(image, "unready") ? DEED_NONE : DEED_READY;
        }
        return DEED_NONE;
}

static const Resources *allocated_to(const Runtime *runtime, const RuntimeContainer *container) {
        return container == &runtime->containers[0] ? &runtime->allocated : NULL;
}

static void act(World *world, Runtime *runtime, RuntimeContainer *container, const char *image) {
        Deed deed = next_deed(world, container, image, allocated_to(runtime, container));
        static const char *const names[] = { "",         "starts", "stops", "finds ready",
                                             "sees end", "resizes" };

        note(world, "kubelet of %s: %s %s", object_name(runtime->seen), names[deed],
             deed == DEED_START ? image : container->image);
        switch (deed) {
        case DEED_START:
                start(world, container, image);
                container->started_sec = clock_of(world, runtime);
                container->resources = runtime->allocated;
                if (container == &runtime->containers[0] && container->state == RUNTIME_RUNNING)
                        note_start(world, runtime, image);
                break;
        case DEED_KILL:
                container->state = RUNTIME_DEAD;
                container->is_ready = false;
                break;
        case DEED_READY: container->is_ready = true; break;
        case DEED_RESIZE: container->resources = runtime->allocated; break;
        case DEED_CRASH:
                crash(world, container);
                runtime->has_crashed = true;
                break;
        case DEED_NONE: break;
        }
        runtime->has_news = true;
        runtime->n_changes++;
}

/* The image does not keep running, which may be why its users update it. */
void runtime_crash_old(World *world, Runtime *runtime) {
        RuntimeContainer *container = &runtime->containers[0];

        if (container->state != RUNTIME_RUNNING || strcmp(container->image, "r/app:1") != 0 ||
            runtime->has_failed || world->nodes[runtime->node].lost_sec != NEVER)
                return;
        note(world, "a container of pod %s crashes", object_name(runtime->seen));
        crash(world, container);
        runtime->has_crashed = true;
        if (happens(world, 50))
                container->state = RUNTIME_DEAD;
        runtime->has_news = true;
        runtime->n_changes++;
}

/* The status */

static json_object *state_of(const RuntimeContainer *container, const char *image) {
        json_object *state = json_object_new_object();

        switch (container->state) {
        case RUNTIME_NONE: SET_TEXT(&state, "ContainerCreating", "waiting", "reason"); break;
        case RUNTIME_RUNNING:
                SET(&state, time_text(container->started_sec), "running", "startedAt");
                break;
        case RUNTIME_DEAD:
                SET_NUMBER(&state, 137, "terminated", "exitCode");
                SET_TEXT(&state, "Error", "terminated", "reason");
                break;
        case RUNTIME_BACKOFF:
                SET_TEXT(&state, container->reason, "waiting", "reason");
                if (strcmp(container->reason, "ImagePullBackOff") == 0) {
                        char message[80];

                        (void) snprintf(message, sizeof(message),
                                        "Back-off pulling image \"%s\": not found", image);
                        SET_TEXT(&state, message, "waiting", "message");
                } else
                        SET_TEXT(&state, "back-off 10s restarting failed container", "waiting",
                                 "message");
                break;
        }
        return state;
}

/* Two of the images are the same under other names, and each is in the other registry. */
static const char *content_of(const char *image) {
        return strcmp(image + 1, "/app:3") == 0 ? "/app:1" : image + 1;
}

static json_object *status_of(const RuntimeContainer *container, const char *name) {
        json_object *status = json_object_new_object();
        char id[24];

        (void) snprintf(id, sizeof(id), "c://%u", container->id);
        json_object_object_add(status, "name", json_object_new_string(name));
        json_object_object_add(status, "image", json_object_new_string(container->image));
        if (container->id) {
                json_object_object_add(status, "containerID", json_object_new_string(id));
                json_object_object_add(status, "imageID",
                                       json_object_new_string(content_of(container->image)));
        }
        json_object_object_add(status, "restartCount",
                               json_object_new_int64(container->n_restarts));
        json_object_object_add(status, "ready", json_object_new_boolean(container->is_ready));
        json_object_object_add(status, "state", state_of(container, container->tried));
        return status;
}

static void add_condition(int64_t now_sec, json_object *list, json_object *pod, const char *type,
                          bool is_now) {
        json_object *old = condition_of(pod, type), *condition;

        if (old && is_true(pod, type) == is_now) {
                json_object_array_add(list, json_object_get(old));
                return;
        }
        condition = json_object_new_object();
        json_object_object_add(condition, "type", json_object_new_string(type));
        json_object_object_add(condition, "status",
                               json_object_new_string(is_now ? "True" : "False"));
        json_object_object_add(condition, "lastTransitionTime", time_text(now_sec));
        json_object_array_add(list, condition);
}

/* The node has no room for the resources that the pod is to have. */
static bool is_pending(const Runtime *runtime) {
        Resources wanted = resources_of(runtime->seen);

        return !resources_equal(&wanted, &runtime->allocated);
}

static json_object *conditions_of(World *world, const Runtime *runtime, json_object *pod) {
        json_object *list = json_object_new_array();
        int64_t now_sec = clock_of(world, runtime);
        bool is_ready = true;

        for (int i = 0; i < n_containers(runtime); i++)
                is_ready = is_ready && runtime->containers[i].is_ready;
        json_object_array_add(list, json_object_get(condition_of(pod, "PodScheduled")));
        if (condition_of(pod, GATE_CONDITION))
                json_object_array_add(list, json_object_get(condition_of(pod, GATE_CONDITION)));
        if (is_pending(runtime))
                add_condition(now_sec, list, pod, "PodResizePending", true);
        if (runtime->containers[0].state == RUNTIME_RUNNING &&
            !resources_equal(&runtime->containers[0].resources, &runtime->allocated))
                add_condition(now_sec, list, pod, "PodResizeInProgress", true);
        add_condition(now_sec, list, pod, "ContainersReady", is_ready);
        add_condition(now_sec, list, pod, "Ready",
                      is_ready && (!has_gate(pod) || is_true(runtime->seen, GATE_CONDITION)));
        return list;
}

static void report(World *world, Runtime *runtime, json_object *pod) {
        json_object *statuses = json_object_new_array(), *changed = json_object_get(pod);
        json_object *status = json_object_new_object();

        for (int i = 0; i < n_containers(runtime); i++)
                json_object_array_add(statuses,
                                      status_of(&runtime->containers[i], name_of(runtime, i)));
        json_object_object_add(status, "phase",
                               json_object_new_string(runtime->has_failed ? "Failed" : "Running"));
        json_object_object_add(status, "startTime",
                               json_object_get(GET(pod, "metadata", "creationTimestamp")));
        json_object_object_add(status, "observedGeneration",
                               json_object_new_int64(
                                       object_integer(runtime->seen, "metadata.generation")));
        json_object_object_add(status, "containerStatuses", statuses);
        json_object_object_add(status, "conditions", conditions_of(world, runtime, pod));
        SET(&changed, status, "status");
        runtime->has_news = false;
        (void) api_update(world, AUTHOR_KUBELET, PODS, true, changed);
}

/* The agent */

static bool runs(const World *world, const Runtime *runtime, json_object *pod,
                 json_object *images) {
        for (int i = 0; i < n_containers(runtime); i++) {
                const char *wanted = images ? json_get_text(images, name_of(runtime, i)) : NULL;
                const RuntimeContainer *container = &runtime->containers[i];

                if (images && !wanted)
                        continue;
                if (container->state != RUNTIME_RUNNING ||
                    (wanted && (strcmp(container->image, wanted) != 0 ||
                                !text_equal(image_of(pod, (size_t) i), wanted))))
                        return false;
        }
        return true;
}

static bool is_to_open(const World *world, const Runtime *runtime, json_object *pod) {
        json_object *gate = condition_of(pod, GATE_CONDITION);
        cleanup(json_object_put_p) json_object *message = NULL;

        if (!gate)
                return runs(world, runtime, pod, NULL);
        if (!json_is(gate, "status", "False") || !json_is(gate, "reason", GATE_REASON_UPDATE))
                return false;
        message = json_tokener_parse(json_get_text(gate, "message"));
        return runs(world, runtime, pod, GET(message, "images"));
}

static void judge_gate(World *world, const Runtime *runtime, json_object *pod) {
        json_object *list, *old = GET(pod, "status", "conditions"), *gate;
        json_object *changed = json_object_get(pod);

        if (!is_to_open(world, runtime, pod)) {
                json_object_put(changed);
                return;
        }
        list = json_object_new_array();
        for (size_t i = 0; i < json_object_array_length(old); i++)
                if (!json_is(json_object_array_get_idx(old, i), "type", GATE_CONDITION))
                        json_object_array_add(list,
                                              json_object_get(json_object_array_get_idx(old, i)));
        gate = json_object_new_object();
        json_object_object_add(gate, "type", json_object_new_string(GATE_CONDITION));
        json_object_object_add(gate, "status", json_object_new_string("True"));
        json_object_object_add(gate, "reason", json_object_new_string(GATE_REASON_UPDATED));
        json_object_object_add(gate, "lastTransitionTime", time_text(clock_of(world, runtime)));
        json_object_array_add(list, gate);
        SET(&changed, list, "status", "conditions");
        note(world, "agent of %s: opens its gate", object_name(pod));
        (void) api_update(world, AUTHOR_AGENT, PODS, true, changed);
}

static bool agent_is_due(const Runtime *runtime, json_object *pod) {
        return has_gate(pod) &&
               (runtime->judged != pod || runtime->judged_changes != runtime->n_changes);
}

/* Steps */

static bool has_new_pod(const Runtime *runtime, json_object *pod) {
        return !pod || object_is_deleted(pod) != object_is_deleted(runtime->seen) ||
               !json_object_equal(GET(pod, "metadata", "generation"),
                                  GET(runtime->seen, "metadata", "generation")) ||
               (has_gate(pod) &&
                is_true(pod, GATE_CONDITION) != is_true(runtime->seen, GATE_CONDITION));
}

static void see(World *world, Runtime *runtime, json_object *pod) {
        if (!pod) {
                remove_runtime(world, runtime);
                return;
        }
        json_object_put(runtime->seen);
        runtime->seen = json_object_get(pod);
        if (!world->is_full)
                runtime->allocated = resources_of(pod);
        runtime->has_news = true;
}

/* A finalizer keeps the object. */
static void end(World *world, Runtime *runtime, json_object *pod) {
        note(world, "kubelet: pod %s has ended", object_name(runtime->seen));
        if (GET(pod, "metadata", "finalizers")) {
                runtime_fail(world, runtime);
                report(world, runtime, pod);
        } else
                api_remove(world, PODS, object_name(runtime->seen));
        remove_runtime(world, runtime);
}

/* Does the n-th step that is possible; returns how many there are otherwise. */
static uint32_t pick(World *world, Runtime *runtime, uint32_t n) {
        json_object *pod = pod_of(world, runtime);
        uint32_t found = 0;

        if (world->nodes[runtime->node].lost_sec != NEVER)
                return 0;
        if (has_new_pod(runtime, pod) && found++ == n)
                return see(world, runtime, pod), found;
        if (!pod)
                return found;
        if (object_is_deleted(runtime->seen)) {
                if (found++ == n)
                        end(world, runtime, pod);
                return found;
        }
        for (int i = 0; i < n_containers(runtime) && !runtime->has_failed; i++) {
                RuntimeContainer *container = &runtime->containers[i];
                const char *image = image_of(runtime->seen, (size_t) i);

                if (next_deed(world, container, image, allocated_to(runtime, container)) !=
                            DEED_NONE &&
                    found++ == n)
                        return act(world, runtime, container, image), found;
        }
        if (is_pending(runtime) && !world->is_full && found++ == n)
                return see(world, runtime, pod), found;
        if (runtime->has_news && found++ == n)
                return report(world, runtime, pod), found;
        if (!runtime->has_failed && agent_is_due(runtime, pod) && found++ == n) {
                runtime->judged = pod;
                runtime->judged_changes = runtime->n_changes;
                judge_gate(world, runtime, pod);
        }
        return found;
}

bool kubelet_step(World *world, Runtime *runtime) {
        uint32_t n;

        if (runtime->idle_sec == world->now_sec && runtime->idle_changes == world->n_changes &&
            !runtime->has_news)
                return false;
        runtime->idle_sec = 0;
        n = pick(world, runtime, UINT32_MAX);
        if (n > 0)
                (void) pick(world, runtime, choose(world, n));
        else {
                runtime->idle_sec = world->now_sec;
                runtime->idle_changes = world->n_changes;
        }
        return n > 0;
}

int64_t kubelet_next_sec(const World *world) {
        int64_t next = NEVER;

        for (size_t i = 0; i < world->n_runtimes; i++)
                for (int k = 0; k < n_containers(&world->runtimes[i]); k++) {
                        const RuntimeContainer *container = &world->runtimes[i].containers[k];

                        if (container->state == RUNTIME_BACKOFF && container->retry_sec < next)
                                next = container->retry_sec;
                }
        return next;
}

/* Nodes */

bool nodes_are_due(const World *world) {
        for (int i = 0; i < NODES_MAX; i++) {
                const Node *node = &world->nodes[i];

                if (node->lost_sec != NEVER &&
                    world->now_sec >= node->lost_sec + (node->is_marked ? EVICTED_SEC : MARKED_SEC))
                        return true;
        }
        return false;
}

static void mark_lost(World *world, json_object *pod) {
        json_object *list, *old = GET(pod, "status", "conditions"), *changed;

        if (!is_true(pod, "Ready"))
                return;
        list = json_object_new_array();
        for (size_t i = 0; i < json_object_array_length(old); i++)
                if (!json_is(json_object_array_get_idx(old, i), "type", "Ready"))
                        json_object_array_add(list,
                                              json_object_get(json_object_array_get_idx(old, i)));
        add_condition(world->now_sec, list, pod, "Ready", false);
        changed = json_object_get(pod);
        SET(&changed, list, "status", "conditions");
        (void) api_update(world, AUTHOR_MANAGER, PODS, true, changed);
}

static void mark_node(World *world, int number) {
        Node *node = &world->nodes[number];

        note(world, "node-%d: its pods are %s", number, node->is_marked ? "evicted" : "not ready");
        for (size_t i = world->items[PODS].n; i > 0; i--) {
                json_object *pod = world->items[PODS].items[i - 1];

                if (pod_node(pod) != number)
                        continue;
                if (!node->is_marked)
                        mark_lost(world, pod);
                else if (world->scenario.kind != WORKLOAD_DAEMON_SET && !object_is_deleted(pod)) {
                        judge_pod_replaced(world);
                        (void) api_delete(world, AUTHOR_MANAGER, PODS, object_name(pod));
                }
        }
        if (node->is_marked)
                node->lost_sec = NEVER - EVICTED_SEC - 1; /* all is done, and it is lost still */
        node->is_marked = true;
}

void node_return(World *world, int number) {
        if (world->nodes[number].lost_sec == NEVER)
                return;
        note(world, "node-%d is back", number);
        world->nodes[number].lost_sec = NEVER;
        world->nodes[number].is_marked = false;
        world->has_unbound = true;
        for (size_t i = 0; i < world->n_runtimes; i++)
                if (world->runtimes[i].node == number) {
                        world->runtimes[i].has_news = true;
                        world->runtimes[i].is_down = false; /* not by the update alone */
                }
}

void nodes_step(World *world) {
        for (int i = 0; i < NODES_MAX; i++) {
                const Node *node = &world->nodes[i];

                if (node->lost_sec != NEVER &&
                    world->now_sec >= node->lost_sec + (node->is_marked ? EVICTED_SEC : MARKED_SEC))
                        mark_node(world, i);
        }
}
