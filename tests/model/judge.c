/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The properties that every run has
 *
 * An update in place creates and deletes no pod. It makes no more pods unavailable at a time than allowed. It writes
 * nothing over what another user has written. A workload shows no failure while another image heals it. What a run says of
 * pods at its end was so when it has read them last, and it takes no restart for other resources for a failure. In the end the workload has the strategy that its users gave it, or
 * shows that it is held.
 */

#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/controller-plan.h"
#include "agent/kubectl/rollout-kinds.h"
#include "agent/kubectl/rollout-record.h"
#include "agent/pod/gate-spec.h"
#include "agent/view/output.h"
#include "tests/model/tools.h"
#include "tests/model/world.h"

#define LIMIT "spec.updateStrategy.rollingUpdate.maxUnavailable"

/* Pods that are made and ended */

void judge_pod_made(World *world) {
        if (!world->judge.is_excused && --world->judge.n_creates < 0)
                fail(world, "an update in place has made a controller create a pod");
}

void judge_pod_ended(World *world) {
        if (!world->judge.is_excused && --world->judge.n_deletes < 0)
                fail(world, "an update in place has made a controller delete a pod");
}

/* Before Kubernetes 1.36 a controller may act on a StatefulSet as it was before its own last write to the status. */
static bool is_status_unseen(World *world) {
        json_object *seen = items_find(&world->manager.items[STATEFUL_SETS], WORKLOAD);

        return seen && !text_equal(object_text(seen, "status.currentRevision"),
                                   object_text(api_workload(world), "status.currentRevision"));
}

/* With a partition, or where its controller has not seen yet which revision is the current one, the next pod may be of the
 * revision before, until it sees that the workload is handed back: it is replaced then. */
void judge_pod_lost(World *world) {
        bool may_be_old = world->judge.partition > 0 || is_status_unseen(world);

        world->judge.n_creates += 1 + may_be_old;
        world->judge.n_deletes += may_be_old;
}

/* Pods in excess may be unavailable as well, until the controller of budgets has counted. */
void judge_scaled_down(World *world, int64_t n) {
        world->judge.n_deletes += (int) n;
        if (world->judge.budget != INT64_MAX)
                world->judge.budget += n;
}

/* An update may end without a pod that is lost for long. A successor that is made before the workload is handed back is of
 * the revision before, and is replaced. */
void judge_pod_replaced(World *world) {
        judge_pod_lost(world);
        if (world->scenario.kind == WORKLOAD_STATEFUL_SET) {
                judge_pod_lost(world);
                world->judge.n_deletes++;
        }
}

/* A Deployment that keeps no history loses a ReplicaSet that its controller has just scaled up again, and its pods. */
void judge_cleaned_up(World *world, const char *replica_set) {
        if (object_integer(api_get(world, REPLICA_SETS, replica_set), "spec.replicas") > 0)
                world->judge.is_excused = true;
}

/* A pod that a user has taken away by its labels is none of it any more. */
static bool is_of_workload(World *world, json_object *pod) {
        json_object *workload = api_workload(world);

        if (!object_owner(pod))
                return false;
        for (size_t i = 0; i < world->items[REPLICA_SETS].n; i++)
                if (pod_is_claimed(pod, world->items[REPLICA_SETS].items[i]))
                        return true;
        return workload && pod_is_claimed(pod, workload);
}

/* Containers of the first image have crashed, and the kubelet makes a pause. */
static bool waits_after_crash(World *world, json_object *pod) {
        const Runtime *runtime = runtime_find(world, pod);

        return world->scenario.has_crashes && runtime &&
               runtime->containers[0].state == RUNTIME_BACKOFF;
}

void judge_quiet(World *world) {
        int64_t n_pods = 0, n_ended = 0;
        int64_t wanted = world->scenario.kind == WORKLOAD_DAEMON_SET
                                 ? daemons_wanted(world)
                                 : object_integer(api_workload(world), "spec.replicas");

        /* The controller may replace a pod when it is given back: one that was made by the revision before. */
        if (world->judge.has_returned || (world->scenario.kind == WORKLOAD_STATEFUL_SET &&
                                          annotation_of(api_workload(world), HELD_ANNOTATION)))
                return;
        for (size_t i = 0; i < world->items[PODS].n; i++) {
                if (object_is_deleted(world->items[PODS].items[i]))
                        return;
                if (!is_of_workload(world, world->items[PODS].items[i]))
                        continue;
                /* Time alone brings it to be available, and its controller goes on then. */
                if (waits_after_crash(world, world->items[PODS].items[i]))
                        return;
                if (pod_is_available(world, world->items[PODS].items[i], 0) &&
                    !pod_is_available(world, world->items[PODS].items[i],
                                      object_integer(api_workload(world), "spec.minReadySeconds")))
                        return;
                n_pods++;
                n_ended += pod_has_ended(world->items[PODS].items[i]);
        }
        if (n_pods - n_ended == wanted) {
                world->judge.n_creates = 0;
                world->judge.n_deletes = n_ended;
        }
}

/* Pods that are unavailable */

static int64_t ordinal_of(const World *world, json_object *pod) {
        return pod_ordinal(pod) - world->scenario.start;
}

static bool is_kept_below(const World *world, json_object *pod) {
        return world->scenario.kind == WORKLOAD_STATEFUL_SET &&
               ordinal_of(world, pod) < world->judge.partition;
}

static bool is_up(World *world, json_object *pod) {
        return object_is_observed(pod) &&
               pod_is_available(world, pod, world->judge.least_ready_sec);
}

static bool takes_down(json_object *old, json_object *new) {
        json_object *gate = json_find(GET(new, "status", "conditions"), "type", GATE_CONDITION);

        return !json_object_equal(GET(old, "spec", "containers"), GET(new, "spec", "containers")) ||
               (json_is(gate, "status", "False") &&
                !json_is(json_find(GET(old, "status", "conditions"), "type", GATE_CONDITION),
                         "status", "False"));
}

/* A container of the image before that still runs, or that its kubelet has started before it saw the change, will end. */
static bool has_come_back(World *world, const Runtime *runtime, json_object *pod) {
        return is_up(world, pod) && (runtime->is_renewed || text_equal(runtime->containers[0].image,
                                                                       template_image(pod, "app")));
}

/* A pod that has come back before this write, and may end again for reasons of its own. */
static void judge_return(World *world, json_object *old) {
        Runtime *runtime = runtime_find(world, old);

        if (runtime && runtime->is_down && has_come_back(world, runtime, old))
                runtime->is_down = false;
}

/* It has waited for room on a node for so long that each run has seen it. */
static bool is_unbound(const World *world, json_object *pod) {
        return pod_node(pod) < 0 && !annotation_of(pod, ROLLOUT_POD_ANNOTATION) &&
               world->now_sec - json_get_time(GET(pod, "metadata"), "creationTimestamp") > 60;
}

static int64_t count_unbound(World *world) {
        int64_t n = 0;

        for (size_t i = 0; i < world->items[PODS].n; i++)
                n += is_unbound(world, world->items[PODS].items[i]) &&
                     is_of_workload(world, world->items[PODS].items[i]);
        return n;
}

/* Counts the pods that tools have made unavailable, and that still are, and those that have no node; a budget minds no
 * minReadySeconds. */
static void judge_availability(World *world, json_object *old, json_object *new) {
        Runtime *runtime = runtime_find(world, new);
        int64_t n, n_unready = 0;

        if (!runtime || runtime->is_down || !takes_down(old, new) || !is_up(world, old))
                return;
        n = count_unbound(world);
        runtime->is_down = true;
        for (size_t i = 0; i < world->n_runtimes; i++) {
                Runtime *other = &world->runtimes[i];
                json_object *pod = api_get(world, PODS, object_name(other->seen));

                if (other->is_down && other != runtime &&
                    (!pod || object_is_deleted(pod) || other->has_failed ||
                     has_come_back(world, other, pod) || !is_of_workload(world, pod) ||
                     world->nodes[other->node].lost_sec != NEVER))
                        other->is_down = false;
                n += other->is_down;
                n_unready +=
                        other->is_down && (other == runtime || !object_is_observed(pod) ||
                                           !other->is_renewed || !pod_is_available(world, pod, 0));
        }
        /* A run that another one has turned may not have seen that yet. */
        if (n > world->judge.max_unavailable + world->scenario.has_rival)
                fail(world,
                     "%" PRId64 " pods are unavailable by the update, %" PRId64 " are allowed", n,
                     world->judge.max_unavailable);
        if (n_unready - world->scenario.has_rival > world->judge.budget)
                fail(world,
                     "%" PRId64 " pods are unready by the update, the budget allows %" PRId64,
                     n_unready, world->judge.budget);
}

/* Writes of tools */

static bool is_any_of(const char *text, const char *const *texts) {
        for (; *texts; texts++)
                if (strcmp(text, *texts) == 0)
                        return true;
        return false;
}

/* A member of `object` that is not known, and is otherwise in the other one. */
static const char *find_strange(json_object *object, json_object *other, const char *const *known) {
        if (!object)
                return NULL;
        json_object_object_foreach(object, key, value) {
                if (!is_any_of(key, known) &&
                    !json_object_equal(value, json_object_object_get(other, key)))
                        return key;
        }
        return NULL;
}

static const char *strange_member(json_object *old, json_object *new, const char *const *known) {
        return find_strange(old, new, known) ?: find_strange(new, old, known);
}

/* Each container has what it had but for its image. */
static bool has_containers(json_object *old, json_object *new) {
        static const char *const known[] = { "image", NULL };
        size_t n = old ? json_object_array_length(old) : 0;

        if (json_object_equal(old, new))
                return true;
        for (size_t i = 0; i < n; i++)
                if (strange_member(json_object_array_get_idx(old, i),
                                   json_object_array_get_idx(new, i), known))
                        return false;
        return n == json_object_array_length(new);
}

static const char *strange_part(json_object *old, json_object *new) {
        static const char *const top[] = { "metadata", "spec", "status", NULL };
        static const char *const metadata[] = { "annotations", "labels", "generation",
                                                "resourceVersion", NULL };
        static const char *const annotations[] = { ROLLOUT_ANNOTATION,       HELD_ANNOTATION,
                                                   UPDATE_STATUS_ANNOTATION, ROLLOUT_POD_ANNOTATION,
                                                   RESTART_ANNOTATION,       NULL };
        static const char *const labels[] = { REVISION_LABEL, NULL };
        static const char *const spec[] = { "paused", "updateStrategy", "template", "containers",
                                            NULL };
        static const char *const template[] = { "spec", NULL };
        static const char *const inner[] = { "containers", NULL };
        static const char *const status[] = { "conditions", NULL };
        const char *part = strange_member(old, new, top);

        part = part ?: strange_member(GET(old, "metadata"), GET(new, "metadata"), metadata);
        part = part
                       ?: strange_member(GET(old, "metadata", "annotations"),
                                         GET(new, "metadata", "annotations"), annotations);
        part = part
                       ?: strange_member(GET(old, "metadata", "labels"),
                                         GET(new, "metadata", "labels"), labels);
        part = part ?: strange_member(GET(old, "spec"), GET(new, "spec"), spec);
        part = part
                       ?: strange_member(GET(old, "spec", "template"), GET(new, "spec", "template"),
                                         template);
        part = part
                       ?: strange_member(GET(old, "spec", "template", "spec"),
                                         GET(new, "spec", "template", "spec"), inner);
        if (!has_containers(GET(old, "spec", "containers"), GET(new, "spec", "containers")) ||
            !has_containers(GET(old, "spec", "template", "spec", "containers"),
                            GET(new, "spec", "template", "spec", "containers")))
                return "containers";
        return part ?: strange_member(GET(old, "status"), GET(new, "status"), status);
}

bool has_open_record(json_object *workload) {
        cleanup(json_object_put_p) json_object *record = NULL;

        return rollout_record_read(workload, &record, NULL) >= 0 && rollout_record_is_open(record);
}

bool workload_record(World *world, json_object **ret) {
        return rollout_record_read(api_workload(world), ret, NULL) >= 0 &&
               rollout_record_is_open(*ret);
}

static bool is_new_update(json_object *old, json_object *new) {
        return !text_equal(annotation_of(old, ROLLOUT_ANNOTATION),
                           annotation_of(new, ROLLOUT_ANNOTATION)) &&
               !has_open_record(old) && has_open_record(new);
}

/* As the manual page says: a template that follows its pods has one of the update's two images at any time, and the update
 * decides which. Any other has the one that it leads to, also where a user has written another in between. */
static bool is_of_update(const World *world, json_object *workload, const char *image) {
        cleanup(json_object_put_p) json_object *record = NULL;
        bool follows = world->scenario.kind == WORKLOAD_DEPLOYMENT ||
                       world->scenario.kind == WORKLOAD_REPLICA_SET;

        return rollout_record_read(workload, &record, NULL) >= 0 &&
               (json_is(record_target(record), "app", image) ||
                (follows && (json_is(record_images(record, true), "app", image) ||
                             json_is(record_images(record, false), "app", image))));
}

/* Admission makes other images of the template's, or changes more in pods than images. */
static bool changes_images(const World *world) {
        return world->scenario.webhook != WEBHOOK_NONE &&
               world->scenario.webhook != WEBHOOK_INJECTS &&
               world->scenario.webhook != WEBHOOK_DENIES;
}

/* As the manual page says: an ordinary update follows where pods that the update would begin with run two images, which
 * no record could name, where their revision is gone, or where admission changes them. */
void judge_impossible(World *world) {
        const char *target = template_image(GET(api_workload(world), "spec", "template"), "app");
        const char *first = NULL;

        world->judge.is_excused = world->judge.is_excused || changes_images(world);
        for (size_t i = 0; i < world->items[PODS].n; i++) {
                const char *image = template_image(world->items[PODS].items[i], "app");

                if (image_is_same(world, image, target) ||
                    object_is_deleted(world->items[PODS].items[i]) ||
                    is_kept_below(world, world->items[PODS].items[i]))
                        continue;
                if ((first && !text_equal(image, first)) ||
                    pod_has_lost_revision(world, world->items[PODS].items[i]))
                        world->judge.is_excused = true;
                first = image;
        }
}

/* An image that another user has written into the template of an open update stays. */
static void judge_template(World *world, Author author, json_object *old, json_object *new) {
        const char *before = template_image(GET(old, "spec", "template"), "app");
        const char *after = template_image(GET(new, "spec", "template"), "app");

        if (is_new_update(old, new)) {
                free(world->judge.foreign_image);
                world->judge.foreign_image = NULL;
                world->judge.open_step = world->n_steps;
        }
        if (text_equal(before, after))
                return;
        if (author == AUTHOR_USER && has_open_record(old)) {
                free(world->judge.foreign_image);
                world->judge.foreign_image = is_of_update(world, old, after) ? NULL : strdup(after);
        }
        if (author == AUTHOR_TOOL && text_equal(before, world->judge.foreign_image))
                fail(world, "an update has written %s over %s of another user in the template",
                     after, before);
}

/* Only an update that has begun can be abandoned. */
static void judge_record(World *world, Author author, json_object *new) {
        cleanup(json_object_put_p) json_object *record = NULL;

        if (rollout_record_read(new, &record, NULL) < 0 || !record)
                return;
        if (author == AUTHOR_TOOL && !world->judge.has_begun && !rollout_record_is_open(record))
                fail(world, "an update that has not begun is \"%s\"",
                     json_get_text(record, "state"));
        world->judge.has_begun = true;
}

/* Notes for which image a failure is shown. */
static void judge_status(World *world, Author author, json_object *old, json_object *new) {
        const char *status = annotation_of(new, UPDATE_STATUS_ANNOTATION);

        if (author != AUTHOR_TOOL || !status ||
            text_equal(status, annotation_of(old, UPDATE_STATUS_ANNOTATION)))
                return;
        free(world->judge.failed_image);
        world->judge.failed_image =
                strdup(template_image(GET(new, "spec", "template"), "app") ?: "");
}

/* As docs/GITOPS.md says: another image heals an update, so clients that wait for that one must not see the failure. */
void judge_idle(World *world) {
        json_object *workload = api_workload(world);
        const char *image = template_image(GET(workload, "spec", "template"), "app");

        for (size_t i = 0; i < world->n_tools; i++)
                if (tool_is_child(world->tools[i]) && !tool_has_ended(world->tools[i]) &&
                    workload_is_declared(workload) &&
                    annotation_of(workload, UPDATE_STATUS_ANNOTATION) &&
                    !text_equal(world->judge.failed_image, image))
                        fail(world, "the failure of %s is shown while the workload gets %s",
                             world->judge.failed_image, image);
}

/* Words about the pod are about the images that it had then. Where no container runs, or one that its kubelet has not reported,
 * one of the image before looks like one of the image now. */
static void judge_change(World *world, json_object *old, json_object *new) {
        Runtime *runtime = runtime_find(world, new);

        if (!runtime || text_equal(template_image(old, "app"), template_image(new, "app")))
                return;
        runtime->is_named = runtime->is_renewed = false;
        runtime->has_crashed = runtime->containers[0].state != RUNTIME_RUNNING || runtime->has_news;
}

void judge_write(World *world, Author author, Resource resource, json_object *old,
                 json_object *new) {
        const char *strange;

        if (resource == workload_resource(world) && text_equal(object_name(new), WORKLOAD)) {
                judge_template(world, author, old, new);
                judge_record(world, author, new);
                judge_status(world, author, old, new);
        }
        if (resource == PODS) {
                judge_return(world, old);
                judge_change(world, old, new);
        }
        if (author != AUTHOR_TOOL || resource == LEASES)
                return;
        strange = strange_part(old, new);
        if (strange)
                fail(world, "an update has written over \"%s\" of %s", strange, object_name(new));
        if (resource != PODS)
                return;
        if (world->scenario.kind == WORKLOAD_STATEFUL_SET &&
            ordinal_of(world, new) < world->judge.least_partition && takes_down(old, new))
                fail(world, "an update has changed pod %s, which is below the partition",
                     object_name(new));
        judge_availability(world, old, new);
}

/* The end */

/* Users' strategy, as they see it: not that of an update. */
void judge_intent(World *world, json_object *workload) {
        Judge *judge = &world->judge;
        int64_t partition = workload_partition(workload);
        int64_t min_ready_sec = object_integer(workload, "spec.minReadySeconds");

        if (min_ready_sec < judge->least_ready_sec)
                judge->least_ready_sec = min_ready_sec;
        if (partition == INT32_MAX)
                return;
        judge->partition = partition;
        if (partition < judge->least_partition)
                judge->least_partition = partition;
}

/* With minAvailable as many may be unavailable as the workload has pods more than that, which changes. */
void judge_budget(World *world) {
        json_object *budget = api_get(world, BUDGETS, WORKLOAD);
        json_object *limit = GET(budget, "spec", "maxUnavailable");
        int64_t n = limit ? json_object_get_int64(limit) : INT64_MAX;

        if (n > world->judge.budget)
                world->judge.budget = n;
}

void judge_begin(World *world) {
        json_object *workload = api_workload(world);
        Judge *judge = &world->judge;

        judge->is_kept = world->scenario.is_kept;
        judge_budget(world);
        judge->max_unavailable = world->scenario.max_unavailable ?: 1;
        judge->partition = object_integer(workload, "spec.updateStrategy.rollingUpdate.partition");
        judge->least_partition = judge->partition;
        judge->least_ready_sec = object_integer(workload, "spec.minReadySeconds");
        judge->own_unavailable =
                object_integer(workload, world->scenario.kind == WORKLOAD_DEPLOYMENT
                                                 ? "spec.strategy.rollingUpdate.maxUnavailable"
                                                 : LIMIT);
}

void judge_kept_only(World *world) {
        if (!annotation_of(api_workload(world), UPDATE_STATUS_ANNOTATION))
                fail(world, "nothing shows why the workload is held");
}

static void judge_strategy(World *world) {
        json_object *workload = api_workload(world);
        int64_t partition = object_integer(workload, "spec.updateStrategy.rollingUpdate.partition");
        const char *limit = world->scenario.kind == WORKLOAD_DEPLOYMENT
                                    ? "spec.strategy.rollingUpdate.maxUnavailable"
                                    : LIMIT;

        /* docs/TROUBLESHOOTING.md: without its record, a held workload is as one that its users hold. */
        if (world->scenario.kind == WORKLOAD_REPLICA_SET ||
            (world->judge.is_forgotten && workload_is_held(world->scenario.kind, workload)))
                return;
        if (world->judge.is_kept) {
                if (!workload_is_held(world->scenario.kind, workload))
                        fail(world, "its users hold it no more");
        } else if (workload_is_held(world->scenario.kind, workload))
                fail(world, "nothing shows that the workload is held");
        else if (partition != world->judge.partition)
                fail(world, "the partition is %" PRId64 ", its users had set %" PRId64, partition,
                     world->judge.partition);
        else if (object_integer(workload, limit) != world->judge.own_unavailable)
                fail(world, "maxUnavailable is %" PRId64 ", its users had set %" PRId64,
                     object_integer(workload, limit), world->judge.own_unavailable);
        else if (annotation_of(workload, HELD_ANNOTATION))
                fail(world, "the annotation of the hold is left");
}

/* As the manual page says: no update begins where admission has given a pod another name of its image. */
static bool is_mirrored(const World *world, json_object *record) {
        bool has_any = false;

        for (size_t i = 0; i < world->items[PODS].n; i++)
                has_any = has_any || *template_image(world->items[PODS].items[i], "app") == 'm';
        return has_any && !json_is(record, "state", "done");
}

/* As the manual page says: the update of a Deployment or ReplicaSet that is not declared ends without the pods that a
 * budget keeps back because of lost ones, and names them. Pods keep what they have where a release has ended it, where a
 * controller waits for those with an image that does not run, and where a ReplicaSet's pods went back from a template that
 * is not the update's. */
static bool may_keep_image(World *world, json_object *record, json_object *pod) {
        const Runtime *runtime = runtime_find(world, pod);
        bool is_named = runtime && runtime->is_named;

        return json_is(record, "state", "abandoned") ||
               (world->scenario.kind == WORKLOAD_REPLICA_SET &&
                json_is(record, "state", "undone") && json_is(record, "mode", "rollout")) ||
               is_mirrored(world, record) ||
               ((world->judge.is_kept || is_named ||
                 world->scenario.kind == WORKLOAD_STATEFUL_SET) &&
                !image_is_good(
                        template_image(GET(api_workload(world), "spec", "template"), "app"))) ||
               (is_named && world->scenario.has_budget && !has_revisions(world) &&
                !workload_is_declared(api_workload(world)));
}

/* The words of runs */

static bool names_pod(json_object *output, json_object *pod) {
        const char *reason = json_get_text(output, "reason");
        char text[80];

        (void) snprintf(text, sizeof(text), "pod \"%s\"", object_name(pod));
        return reason && strstr(reason, text);
}

/* A pod that the update has written cannot be updated before its container was started once. */
static void judge_report(World *world, json_object *item, const char *target, bool has_moved) {
        json_object *pod = api_get(world, PODS, json_get_text(item, "name"));
        const char *image = object_text(item, "images.app");
        Runtime *runtime = pod ? runtime_find(world, pod) : NULL;

        if (!json_is(item, "phase", "updated") && !json_is(item, "phase", "left as it is") &&
            !(json_is(item, "phase", "waiting") && text_equal(image, target)) && !has_moved)
                fail(world, "an update counts as done, but pod %s is \"%s\"",
                     json_get_text(item, "name"), json_get_text(item, "phase"));
        if (runtime && json_is(item, "phase", "updated") && image_is_good(image) &&
            annotation_of(pod, ROLLOUT_POD_ANNOTATION) && !runtime_has_started(runtime, image))
                fail(world, "pod %s counts as updated, and has never started %s", object_name(pod),
                     image);
}

/* The pods were as they are shown when the run has read them last, and an update that counts as ended has ended. */
static void judge_done(World *world, const Telling *telling) {
        json_object *pods = GET(telling->output, "pods");
        json_object *images = GET(telling->output, "images");
        const char *target =
                images ? json_get_text(json_object_array_get_idx(images, 0), "after") : NULL;
        const char *image = template_image(GET(api_workload(world), "spec", "template"), "app");
        /* The pods were so when this run has ended the update, or another client goes on from there. */
        bool has_moved = telling->has_closed || (target && !text_equal(target, image));

        if (has_open_record(api_workload(world)) && world->judge.open_step < telling->begin_step)
                fail(world, "an update counts as %s, and is open",
                     json_get_text(telling->output, "outcome"));
        for (size_t i = 0; pods && i < json_object_array_length(pods); i++)
                judge_report(world, json_object_array_get_idx(pods, i), target, has_moved);
}

/* A change of its resources may restart a container, which says nothing about its image. */
static void judge_restarts(World *world, json_object *output, const Runtime *runtime) {
        const char *reason = json_get_text(output, "reason");

        if (reason && strstr(reason, "has restarted since the update") &&
            names_pod(output, runtime->seen) && !runtime->has_crashed)
                fail(world, "pod %s counts as failed, and its containers run on",
                     object_name(runtime->seen));
}

void judge_told(World *world, const Telling *telling) {
        bool is_done = json_is(telling->output, "outcome", "updated") ||
                       json_is(telling->output, "outcome", "undone");

        if (telling->was_killed)
                return;
        for (size_t i = 0; i < world->n_runtimes; i++) {
                Runtime *runtime = &world->runtimes[i];

                judge_restarts(world, telling->output, runtime);
                runtime->is_named = names_pod(telling->output, runtime->seen) ||
                                    (runtime->is_named && !telling->has_closed);
        }
        if (is_done && telling->status == EXIT_STATUS_DONE)
                judge_done(world, telling);
}

bool judge_has_named(World *world) {
        const char *image = template_image(GET(api_workload(world), "spec", "template"), "app");
        bool has_any = false;

        for (size_t i = 0; i < world->items[PODS].n; i++) {
                json_object *pod = world->items[PODS].items[i];
                const Runtime *runtime = runtime_find(world, pod);

                if (object_is_deleted(pod) || pod_has_ended(pod) || !is_of_workload(world, pod) ||
                    image_is_same(world, template_image(pod, "app"), image))
                        continue;
                if (!runtime || !runtime->is_named)
                        return false;
                has_any = true;
        }
        return has_any;
}

/* Whether every pod runs the image of its template, and is ready. */
static void judge_pods(World *world, json_object *record) {
        json_object *workload = api_workload(world);
        const char *image = template_image(GET(workload, "spec", "template"), "app");

        /* Only another update opens the gate of a returned pod, or gives it an image. None to this image ends well, and the
         * command says that a pod has to be restarted whose revision is gone. */
        if (world->judge.has_returned && (!image_is_good(image) || world->judge.is_kept))
                return;

        for (size_t i = 0; i < world->items[PODS].n; i++) {
                json_object *pod = world->items[PODS].items[i];

                if (object_is_deleted(pod) || pod_has_ended(pod) || !is_of_workload(world, pod))
                        continue;
                if (!image_is_same(world, template_image(pod, "app"), image) &&
                    !is_kept_below(world, pod) && !may_keep_image(world, record, pod))
                        fail(world, "pod %s is left with %s, the template has %s", object_name(pod),
                             template_image(pod, "app"), image);
                else if (image_is_good(template_image(pod, "app")) &&
                         !pod_is_available(world, pod, 0) && !waits_after_crash(world, pod))
                        fail(world, "pod %s is left unready", object_name(pod));
        }
}

void judge_end(World *world) {
        cleanup(json_object_put_p) json_object *record = NULL;
        bool is_left_open;

        if (!api_workload(world))
                return;
        is_left_open = workload_record(world, &record);
        if (is_left_open)
                fail(world, "the update does not end: \"%s\"", json_get_text(record, "state"));
        judge_strategy(world);
        if (!world->judge.is_excused)
                judge_pods(world, record);
}
