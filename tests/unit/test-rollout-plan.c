/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What is written next of an update in place: each row is a state of a cluster, and the step that follows
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/rollout-plan.h"
#include "tests/unit/quoted-json.h"

#define NOW_SEC 1000000000
#define HELD INT32_MAX
#define FORWARD_COPY                                                                       \
        "{\"state\": \"forward\", \"mode\": \"set-image\", \"by\": \"alice\", \"since\": " \
        "\"2026-11-20T08:00:00Z\", \"revision\": \"old\", \"before\": {\"app\": \"A\"}, "  \
        "\"after\": {\"app\": \"B\"}}"

/* What differs from a pod that runs A, is ready, and was never updated. */
typedef struct TestPod {
        const char *image;   /* that it asks for; NULL: there is no such pod */
        const char *hash;    /* of its revision; NULL: "old" */
        const char *id;      /* of its container; NULL: "1" */
        const char *former;  /* the annotation of an update; NULL: none */
        const char *waiting; /* instead of running: "Reason: message" */
        const char *gate;    /* the condition of its gate, as JSON; NULL: it has no gate */
        const char *verified;
        bool is_unready, is_deleted, is_behind;
        bool is_scheduled; /* to a node */
} TestPod;

typedef struct TestState {
        WorkloadKind kind;
        const char *record;   /* "state mode" of a record from A to B; NULL: there is none */
        const char *template; /* its image; NULL: A */
        const char *source;   /* of the ReplicaSet; NULL: A */
        const char *older;    /* image of another ReplicaSet, without pods; NULL: there is none */
        const char *env;      /* in the workload's template alone */
        bool is_released;     /* the controller may act */
        bool is_behind, is_source_behind, is_older_behind;
        bool is_copied; /* the open record, to the other ReplicaSet */
        int n_updated;  /* by the controller's count */
        int n_misscheduled;
        const char *revision; /* the newest; NULL: "old" */
        int partition;        /* before */
        TestPod pods[3];
        int budget;    /* disruptions that are allowed, and one; 0: there is no budget */
        int budget_of; /* so many pods */
        int grace_sec;
        const char *max_unavailable;
        int noted_sec; /* how long its pods have been as they are, as far as this run has seen */
} TestState;

static const char *or_else(const char *text, const char *other) {
        return text ? text : other;
}

static json_object *make_template(const char *image, const char *env) {
        return parse(
                "{'metadata': {'labels': {'app': 'web'}}, 'spec': {'containers': [{'name': 'app', "
                "'image': '%s'%s}], 'initContainers': [{'name': 'init', 'image': 'I'}]}}",
                image, env ? ", 'env': []" : "");
}

static const char *const records[_WORKLOAD_KIND_MAX] = {
        [WORKLOAD_DEPLOYMENT] = "{'former': {'paused': false}}",
        [WORKLOAD_REPLICA_SET] = "{}",
        [WORKLOAD_STATEFUL_SET] =
                "{'former': {'updateStrategy': {'type': 'RollingUpdate', 'rollingUpdate': {'partition': 0}}}}",
        [WORKLOAD_DAEMON_SET] =
                "{'former': {'updateStrategy': {'type': 'RollingUpdate', 'rollingUpdate': null}}}",
        [WORKLOAD_POD] = "{}",
};

static json_object *make_record(const TestState *state) {
        json_object *record = parse("%s", records[state->kind]);
        char word[16] = "", mode[16] = "set-image";

        if (!state->record) {
                json_object_put(record);
                return NULL;
        }
        (void) sscanf(state->record, "%15s %15s", word, mode);
        json_object_object_add(record, "state", json_object_new_string(word));
        json_object_object_add(record, "mode", json_object_new_string(mode));
        json_object_object_add(record, "by", json_object_new_string("alice"));
        json_object_object_add(record, "since", json_object_new_string("2026-11-20T08:00:00Z"));
        json_object_object_add(record, "revision", json_object_new_string("old"));
        json_object_object_add(record, "before", parse("{'app': 'A'}"));
        json_object_object_add(record, "after", parse("{'app': 'B'}"));
        if (state->kind == WORKLOAD_STATEFUL_SET)
                json_object_object_add(
                        record, "former",
                        parse("{'updateStrategy': {'type': 'RollingUpdate', 'rollingUpdate': "
                              "{'partition': %d}}}",
                              state->partition));
        return record;
}

static json_object *make_spec(const TestState *state) {
        bool is_held = !state->is_released;

        switch (state->kind) {
        case WORKLOAD_DEPLOYMENT: return parse("{'paused': %s}", is_held ? "true" : "false");
        case WORKLOAD_STATEFUL_SET:
                return parse("{'updateStrategy': {'type': 'RollingUpdate', 'rollingUpdate': "
                             "{'partition': %d}}}",
                             is_held ? HELD : state->partition);
        case WORKLOAD_DAEMON_SET:
                return parse("{'updateStrategy': {'type': '%s'}}",
                             is_held ? "OnDelete" : "RollingUpdate");
        case WORKLOAD_REPLICA_SET:
        case WORKLOAD_POD:
        case WORKLOAD_CLONE_SET:
        case WORKLOAD_ADVANCED_STATEFUL_SET:
        case WORKLOAD_ADVANCED_DAEMON_SET:
        case _WORKLOAD_KIND_MAX: break;
        }
        return parse("{}");
}

static int count_pods(const TestState *state) {
        int n = 0;

        while (n < 3 && state->pods[n].image)
                n++;
        return n;
}

static json_object *make_workload(const TestState *state, json_object *record) {
        json_object *workload = parse(
                "{'metadata': {'name': 'web', 'uid': 'w', 'resourceVersion': '7', 'generation': 2, "
                "'annotations': {}}, 'status': {'observedGeneration': %d, 'updatedReplicas': %d, "
                "'updatedNumberScheduled': %d, 'numberMisscheduled': %d, 'desiredNumberScheduled': %d, 'updateRevision': '%s'}}",
                state->is_behind ? 1 : 2, state->n_updated, state->n_updated, state->n_misscheduled,
                count_pods(state), or_else(state->revision, "old"));
        json_object *spec = make_spec(state);

        json_object_object_add(spec, "replicas", json_object_new_int(count_pods(state)));
        json_object_object_add(spec, "template",
                               make_template(or_else(state->template, "A"), state->env));
        json_object_object_add(workload, "spec", spec);
        if (record)
                json_object_object_add(object_at(workload, "metadata.annotations"),
                                       ROLLOUT_ANNOTATION,
                                       json_object_new_string(json_to_text(record)));
        return workload;
}

static json_object *make_replica_set(const char *name, const char *image, int n_pods,
                                     bool is_behind) {
        json_object *made = parse(
                "{'metadata': {'name': '%s', 'uid': '%s', 'generation': 2}, 'spec': {'replicas': "
                "%d}, 'status': {'observedGeneration': %d, 'replicas': %d}}",
                name, strcmp(name, "old") == 0 ? "rs" : name, n_pods, is_behind ? 1 : 2, n_pods);

        json_object_object_add(object_at(made, "spec"), "template", make_template(image, NULL));
        return made;
}

static json_object *make_revision(const char *name, int number, const char *image) {
        json_object *made =
                parse("{'metadata': {'name': '%s', 'labels': {'controller-revision-hash': '%s'}}, "
                      "'revision': %d, 'data': {'spec': {}}}",
                      name, name, number);

        json_object_object_add(object_at(made, "data.spec"), "template",
                               make_template(image, NULL));
        return made;
}

static json_object *make_owned(const TestState *state) {
        json_object *owned = json_object_new_object();

        if (state->kind == WORKLOAD_DEPLOYMENT) {
                json_object_object_add(owned, "old",
                                       make_replica_set("old", or_else(state->source, "A"),
                                                        count_pods(state),
                                                        state->is_source_behind));
                if (state->older)
                        json_object_object_add(owned, "older",
                                               make_replica_set("older", state->older, 0,
                                                                state->is_older_behind));
                if (state->is_copied)
                        json_object_object_add(object_at(json_object_object_get(owned, "older"),
                                                         "metadata"),
                                               "annotations",
                                               patch_wrap(ROLLOUT_ANNOTATION,
                                                          json_object_new_string(FORWARD_COPY)));
                return owned;
        }
        json_object_object_add(owned, "old", make_revision("old", 1, "A"));
        if (state->revision)
                json_object_object_add(owned, state->revision,
                                       make_revision(state->revision, 2,
                                                     or_else(state->template, "A")));
        return owned;
}

static json_object *make_status(const TestPod *pod) {
        json_object *status;
        char reason[32] = "";
        int n = 0;

        status = parse(
                "{'observedGeneration': %d, 'conditions': [{'type': 'Ready', 'status': '%s'}]}",
                pod->is_behind ? 1 : 2, pod->is_unready || pod->waiting ? "False" : "True");
        if (pod->waiting)
                (void) sscanf(pod->waiting, "%31[^:]: %n", reason, &n);
        json_object_object_add(
                status, "containerStatuses",
                pod->waiting
                        ? parse("[{'name': 'app', 'containerID': '%s', 'state': {'waiting': {'reason': '%s', "
                                "'message': '%s'}}}]",
                                or_else(pod->id, "1"), reason, pod->waiting + n)
                        : parse("[{'name': 'app', 'containerID': '%s', 'state': {'running': {}}}]",
                                or_else(pod->id, "1")));
        if (pod->gate && *pod->gate)
                json_object_array_add(object_at(status, "conditions"), parse("%s", pod->gate));
        if (pod->verified)
                json_object_array_add(
                        object_at(status, "conditions"),
                        parse("{'type': 'inplaced.io/InPlaceVerified', 'status': '%s'}",
                              pod->verified));
        return status;
}

static json_object *make_pod(const TestState *state, const TestPod *pod, int n) {
        const char *owner = state->kind == WORKLOAD_DEPLOYMENT ? "rs" : "w";
        cleanup(json_object_put_p) json_object *template = make_template(pod->image, NULL);
        json_object *made = parse(
                "{'metadata': {'name': 'web-%d', 'uid': 'u%d', 'generation': 2, 'labels': {'app': "
                "'web', 'controller-revision-hash': '%s'}, 'annotations': {}, 'ownerReferences': "
                "[{'controller': true, 'uid': '%s'}]}}",
                n, n, or_else(pod->hash, "old"), owner);

        json_object_object_add(made, "spec", json_object_get(object_at(template, "spec")));
        json_object_object_add(made, "status", make_status(pod));
        if (pod->is_scheduled)
                json_object_object_add(object_at(made, "spec"), "nodeName",
                                       json_object_new_string("n"));
        if (pod->gate)
                json_object_object_add(object_at(made, "spec"), "readinessGates",
                                       parse("[{'conditionType': 'inplaced.io/Ready'}]"));
        if (pod->former)
                json_object_object_add(object_at(made, "metadata.annotations"),
                                       ROLLOUT_POD_ANNOTATION, json_object_new_string(pod->former));
        if (pod->is_deleted)
                json_object_object_add(object_at(made, "metadata"), "deletionTimestamp",
                                       json_object_new_string("now"));
        return made;
}

typedef struct TestView {
        RolloutView view;
        json_object *record;
} TestView;

static TestView make_view(const TestState *state) {
        json_object *record = make_record(state);
        TestView made = { .view = { .kind = state->kind,
                                    .workload = make_workload(state, record),
                                    .owned = make_owned(state),
                                    .pods = json_object_new_object(),
                                    .budgets = json_object_new_object(),
                                    .noted = json_object_new_object(),
                                    .now_sec = NOW_SEC },
                          .record = record };
        char name[16];

        for (int n = 0; n < count_pods(state); n++) {
                (void) snprintf(name, sizeof(name), "web-%d", n);
                json_object_object_add(made.view.pods, name, make_pod(state, &state->pods[n], n));
                json_object_object_add(made.view.noted, name,
                                       parse("{'phase': 'updating', 'since': %d}",
                                             NOW_SEC - state->noted_sec));
        }
        if (state->budget > 0)
                json_object_object_add(
                        made.view.budgets, "pdb",
                        parse("{'spec': {'selector': {'matchLabels': {'app': 'web'}}}, 'status': "
                              "{'disruptionsAllowed': %d, 'expectedPods': %d, 'desiredHealthy': %d}}",
                              state->budget - 1, state->budget_of,
                              count_pods(state) - state->budget + 1));
        return made;
}

static void view_done(TestView *made) {
        json_object_put(made->view.workload);
        json_object_put(made->view.owned);
        json_object_put(made->view.pods);
        json_object_put(made->view.budgets);
        json_object_put(made->view.noted);
        json_object_put(made->record);
}

#define FROM_A "{\"app\": {\"image\": \"A\", \"id\": \"1\"}}"
#define FROM_B "{\"app\": {\"image\": \"B\", \"id\": \"2\"}}"
#define CLOSED_FOR(image)                                                                              \
        "{'type': 'inplaced.io/Ready', 'status': 'False', 'reason': 'InPlaceUpdate', "                 \
        "'lastTransitionTime': '2001-09-09T01:46:40Z', 'message': '{\\'images\\':{\\'app\\':\\'" image \
        "\\'}}'}"
#define OPEN "{'type': 'inplaced.io/Ready', 'status': 'True'}"

#define UNREADY_A "{\"app\": {\"image\": \"A\", \"id\": \"1\", \"unready\": true}}"
#define ILL \
        { .image = "A", .is_unready = true }
#define STILL_ILL \
        { .image = "B", .hash = "new", .former = UNREADY_A, .is_unready = true }
#define NOT_PULLED                                                      \
        {                                                               \
                .image = "B", .former = UNREADY_A,                      \
                .waiting = "ImagePullBackOff: Back-off pulling image B" \
        }
#define OLD \
        { .image = "A" }
#define NEW \
        { .image = "B", .hash = "new", .id = "2", .former = FROM_A }
#define FREE .is_released = true
#define DEPLOYMENT .kind = WORKLOAD_DEPLOYMENT, .record = "forward"
#define STATEFUL .kind = WORKLOAD_STATEFUL_SET, .record = "forward"
#define DAEMON .kind = WORKLOAD_DAEMON_SET, .record = "forward"
#define TURNED .template = "B", .revision = "new"

typedef struct PlanCase {
        TestState state;
        RolloutAction action;
        const char *about; /* the name, or a part of the message */
        const char *patch; /* a part of it */
} PlanCase;

static void check_plan(size_t i, const PlanCase *row) {
        cleanup(view_done) TestView made = make_view(&row->state);
        cleanup(rollout_step_done) RolloutStep step = ROLLOUT_STEP_INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        const RolloutLimits limits = { .max_unavailable = row->state.max_unavailable,
                                       .grace_sec = row->state.grace_sec };
        const char *text;
        int r = rollout_plan(&made.view, made.record, &limits, &step, &error);

        if (r < 0)
                fail_msg("row %zu: %s", i, error_message(&error));
        text = step.patch
                       ? json_object_to_json_string_ext(step.patch, JSON_C_TO_STRING_NOSLASHESCAPE)
                       : "";
        if (step.action != row->action)
                fail_msg("row %zu: action %d, not %d: %s %s %s", i, step.action, row->action,
                         or_else(step.name, ""), or_else(step.message, ""), text);
        if (row->about && !strstr(or_else(step.name ? step.name : step.message, ""), row->about))
                fail_msg("row %zu: \"%s\" instead of \"%s\"", i,
                         or_else(step.name ? step.name : step.message, ""), row->about);
        if (row->patch && !strstr(text, row->patch))
                fail_msg("row %zu: %s is not in %s", i, row->patch, text);
}

/* clang-format off */
static const PlanCase plan_rows[] = {
        /* Deployment: a pod, its ReplicaSet, the other pods, its own template */
        { { DEPLOYMENT, .is_behind = true, .pods = { OLD, OLD } }, ROLLOUT_WAIT, "for its controller", NULL },
        { { DEPLOYMENT, .pods = { OLD, OLD } }, ROLLOUT_PATCH_POD, "web-0", "\"image\":\"B\"" },
        { { DEPLOYMENT, .pods = { { .image = "B", .former = FROM_A }, OLD, OLD }, .max_unavailable = "3" },
          ROLLOUT_WAIT, "web-0", NULL },
        { { DEPLOYMENT, .pods = { { .image = "B", .former = FROM_A,
            .waiting = "ImagePullBackOff: Back-off pulling image B" }, OLD } }, ROLLOUT_STOP, "Back-off pulling", NULL },
        { { DEPLOYMENT }, ROLLOUT_PATCH_REPLICA_SET, "old", NULL },
        { { DEPLOYMENT, .pods = { NEW, OLD } }, ROLLOUT_PATCH_REPLICA_SET, "old", "\"image\":\"B\"" },
        { { DEPLOYMENT, .pods = { NEW, OLD } }, ROLLOUT_PATCH_REPLICA_SET, "old",
          "\"annotations\":{\"inplaced.io/rollout\":null}" },
        { { DEPLOYMENT, .source = "B", .is_source_behind = true, .pods = { OLD, OLD } },
          ROLLOUT_WAIT, "ReplicaSet", NULL },
        { { DEPLOYMENT, .source = "B", .pods = { OLD, OLD } }, ROLLOUT_PATCH_POD, "web-0", "\"uid\":\"u0\"" },
        { { DEPLOYMENT, .source = "B", .pods = { OLD, { .image = "A", .is_unready = true } } },
          ROLLOUT_PATCH_POD, "web-1", "\"image\":\"B\"" },
        { { DEPLOYMENT, .source = "B", .pods = { { .image = "B", .former = FROM_A }, OLD } },
          ROLLOUT_WAIT, "web-0", NULL },
        { { DEPLOYMENT, .source = "B", .pods = { { .image = "B", .former = FROM_A }, OLD }, .max_unavailable = "2" },
          ROLLOUT_PATCH_POD, "web-1", NULL },
        { { DEPLOYMENT, .source = "B", .pods = { NEW, OLD } }, ROLLOUT_PATCH_POD, "web-1", NULL },
        { { DEPLOYMENT, .source = "B", .n_updated = 2, .pods = { NEW, NEW } }, ROLLOUT_WAIT, "count", NULL },
        { { DEPLOYMENT, .source = "B", .pods = { NEW, NEW } }, ROLLOUT_HAND_BACK, NULL,
          "\"spec\":{\"paused\":false,\"template\"" },
        { { DEPLOYMENT, .source = "B", .pods = { NEW, NEW } }, ROLLOUT_HAND_BACK, NULL, "\"resourceVersion\":\"7\"" },
        { { DEPLOYMENT, .source = "B", .template = "B", .n_updated = 2, .pods = { NEW, NEW } },
          ROLLOUT_HAND_BACK, NULL, "\\\"done\\\"" },
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "abandoned", FREE }, ROLLOUT_STOP, NULL, NULL },
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "done", .source = "B", .template = "B", .is_behind = true,
            .pods = { NEW, NEW } }, ROLLOUT_WAIT, NULL, NULL },
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "done", .source = "B", .template = "B", .n_updated = 2,
            .pods = { NEW, NEW } }, ROLLOUT_DONE, NULL, NULL },

        /* An older ReplicaSet with the new template gets the one before, and is seen with it. */
        { { DEPLOYMENT, .source = "B", .older = "B", .pods = { NEW, OLD } }, ROLLOUT_PATCH_REPLICA_SET, "older",
          "\"image\":\"A\"" },
        { { DEPLOYMENT, .source = "B", .older = "A", .pods = { NEW, OLD } }, ROLLOUT_PATCH_POD, "web-1", NULL },
        { { DEPLOYMENT, .source = "B", .older = "A", .is_older_behind = true, .pods = { NEW, NEW } }, ROLLOUT_WAIT,
          "count", NULL },
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "undo", .older = "A", .pods = { NEW, OLD } },
          ROLLOUT_PATCH_REPLICA_SET, "older", "\"image\":\"B\"" },
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "forward rollout", .template = "B", .source = "B", .older = "B",
            .pods = { OLD } }, ROLLOUT_PATCH_REPLICA_SET, "older", "\"image\":\"A\"" },

        { { .kind = WORKLOAD_DEPLOYMENT, .record = "done", .source = "B", .template = "B", .n_updated = 2,
            .older = "A", .is_copied = true, .pods = { NEW, NEW } }, ROLLOUT_PATCH_REPLICA_SET, "older",
          "\"annotations\":{\"inplaced.io/rollout\":null}" },

        /* back */
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "undo", .pods = { OLD, OLD }, .n_updated = 2 },
          ROLLOUT_HAND_BACK, NULL, "\\\"undone\\\"" },
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "undo", .source = "B", .pods = { NEW, OLD } },
          ROLLOUT_PATCH_REPLICA_SET, NULL, "\"image\":\"A\"" },
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "undo", .pods = { NEW, OLD } }, ROLLOUT_PATCH_POD, "web-0",
          "\"image\":\"A\"" },
        /* a pod that was never restarted, and the kubelet has seen it */
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "undo", .n_updated = 2,
            .pods = { { .image = "A", .former = FROM_A }, OLD } }, ROLLOUT_HAND_BACK, NULL, NULL },
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "undo", .n_updated = 2,
            .pods = { { .image = "A", .former = FROM_A, .is_behind = true }, OLD } }, ROLLOUT_WAIT, "web-0", NULL },
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "undo", .n_updated = 2,
            .pods = { { .image = "A", .id = "2", .former = FROM_B }, OLD } }, ROLLOUT_WAIT, "web-0", NULL },

        /* one that the kubelet is about to start, for the image before */
        { { DEPLOYMENT, .source = "B", .pods = { { .image = "A", .id = "", .is_scheduled = true,
            .waiting = "ContainerCreating: " } } }, ROLLOUT_WAIT, "web-0", NULL },
        { { DEPLOYMENT, .source = "B", .pods = { { .image = "A", .id = "", .is_scheduled = true,
            .waiting = "ErrImagePull: A" } } }, ROLLOUT_PATCH_POD, "web-0", NULL },
        { { DEPLOYMENT, .source = "B", .pods = { { .image = "A", .id = "", .waiting = "ContainerCreating: " } } },
          ROLLOUT_PATCH_POD, "web-0", NULL },

        /* one that the kubelet is about to restart for the update that is undone */
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "undo", .pods = { { .image = "B", .former = FROM_A }, OLD } },
          ROLLOUT_WAIT, "web-0", NULL },
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "undo", .pods = { { .image = "B", .former = FROM_A,
            .waiting = "ImagePullBackOff: Back-off pulling image B" }, OLD } }, ROLLOUT_PATCH_POD, "web-0", NULL },

        /* failures */
        { { DEPLOYMENT, .source = "B", .pods = { { .image = "B", .former = FROM_A,
            .waiting = "ImagePullBackOff: Back-off pulling image B" }, OLD } }, ROLLOUT_STOP, "Back-off pulling", NULL },
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "undo", .pods = { { .image = "A", .former = FROM_A,
            .waiting = "ImagePullBackOff: Back-off pulling image B" }, OLD } }, ROLLOUT_WAIT, "web-0", NULL },
        { { DEPLOYMENT, .source = "B", .pods = { { .image = "B", .id = "2", .former = FROM_A,
            .waiting = "CrashLoopBackOff: back-off" }, OLD } }, ROLLOUT_STOP, "web-0", NULL },
        { { DEPLOYMENT, .source = "B", .pods = { { .image = "B", .former = FROM_A,
            .waiting = "CrashLoopBackOff: back-off" }, OLD } }, ROLLOUT_WAIT, "web-0", NULL },
        { { DEPLOYMENT, .source = "B", .pods = { { .image = "B", .id = "2", .former = FROM_A, .verified = "False" }, OLD } },
          ROLLOUT_WAIT, "web-0", NULL },
        { { DEPLOYMENT, .source = "B", .pods = { { .image = "B", .id = "2", .former = FROM_A, .verified = "True" }, OLD } },
          ROLLOUT_PATCH_POD, "web-1", NULL },

        /* pods that were not ready before: a healthy one proves the image, and the end does not wait for them */
        { { DEPLOYMENT, .pods = { ILL, OLD }, .max_unavailable = "2" }, ROLLOUT_PATCH_POD, "web-1", NULL },
        { { DEPLOYMENT, .pods = { ILL, OLD } }, ROLLOUT_PATCH_POD, "web-0", NULL },
        { { DEPLOYMENT, .noted_sec = 60, .pods = { STILL_ILL, OLD } }, ROLLOUT_WAIT, "web-0", NULL },
        { { DEPLOYMENT, .noted_sec = 61, .pods = { STILL_ILL, OLD } }, ROLLOUT_PATCH_POD, "web-1", NULL },
        { { DEPLOYMENT, .noted_sec = 61, .pods = { STILL_ILL, NEW } }, ROLLOUT_PATCH_REPLICA_SET, "old", NULL },
        { { DEPLOYMENT, .noted_sec = 61, .pods = { STILL_ILL, STILL_ILL } }, ROLLOUT_PATCH_REPLICA_SET, "old", NULL },
        { { DEPLOYMENT, .source = "B", .noted_sec = 61, .pods = { STILL_ILL, NEW } }, ROLLOUT_HAND_BACK,
          "pod \"web-0\": ", NULL },
        { { STATEFUL, TURNED, .noted_sec = 61, .n_updated = 2, .pods = { NEW, STILL_ILL } }, ROLLOUT_HAND_BACK,
          "pod \"web-1\": ", NULL },
        { { DAEMON, TURNED, .noted_sec = 61, .pods = { STILL_ILL, OLD } }, ROLLOUT_PATCH_POD, "web-1", NULL },
        { { DEPLOYMENT, .pods = { NOT_PULLED, OLD } }, ROLLOUT_PATCH_POD, "web-1", NULL },
        { { DEPLOYMENT, .pods = { NOT_PULLED, ILL } }, ROLLOUT_STOP, "web-0", NULL },
        { { DEPLOYMENT, .source = "B", .pods = { NOT_PULLED, NEW } }, ROLLOUT_HAND_BACK, "web-0", NULL },
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "undo", .pods = { STILL_ILL, OLD } }, ROLLOUT_PATCH_POD, "web-0",
          "\\\"unready\\\":true" },

        /* limits */
        { { DEPLOYMENT, .source = "B", .pods = { { .image = "B", .former = FROM_A }, OLD, OLD }, .max_unavailable = "50%" },
          ROLLOUT_WAIT, "web-0", NULL },
        { { STATEFUL, TURNED, .n_updated = 1, .pods = { OLD, OLD, { .image = "B", .former = FROM_A, .hash = "new" } },
            .max_unavailable = "50%" }, ROLLOUT_PATCH_POD, "web-1", NULL },
        { { DEPLOYMENT, .source = "B", .pods = { OLD, OLD }, .max_unavailable = "0" }, ROLLOUT_PATCH_POD, "web-0", NULL },
        { { DEPLOYMENT, .source = "B", .pods = { OLD, OLD }, .budget = 1 }, ROLLOUT_WAIT, "\"pdb\"", NULL },
        { { DEPLOYMENT, .source = "B", .pods = { OLD, OLD }, .budget = 2 }, ROLLOUT_PATCH_POD, NULL, NULL },
        { { DEPLOYMENT, .source = "B", .pods = { { .image = "B", .former = FROM_A }, OLD }, .budget = 2,
            .max_unavailable = "100%" }, ROLLOUT_WAIT, "web-0", NULL },
        /* it has not been counted yet that a pod is not ready; of another workload's pods nothing is known */
        { { DEPLOYMENT, .source = "B", .pods = { { .image = "B", .former = FROM_A, .is_unready = true }, OLD },
            .budget = 2, .budget_of = 2, .max_unavailable = "100%" }, ROLLOUT_WAIT, "web-0", NULL },
        { { DEPLOYMENT, .source = "B", .pods = { { .image = "B", .former = FROM_A, .is_unready = true }, OLD },
            .budget = 2, .budget_of = 3, .max_unavailable = "100%" }, ROLLOUT_PATCH_POD, "web-1", NULL },
        { { DEPLOYMENT, .source = "B", .pods = { { .image = "B", .is_deleted = true }, OLD } }, ROLLOUT_WAIT,
          "until a missing pod is available: --max-unavailable is 1", NULL },

        /* the gate */
        { { DEPLOYMENT, .source = "B", .pods = { { .image = "A", .gate = OPEN } } }, ROLLOUT_CLOSE_GATE, "web-0",
          "\\\"app\\\":\\\"B\\\"" },
        { { DEPLOYMENT, .source = "B", .pods = { { .image = "A", .gate = CLOSED_FOR("B") } } }, ROLLOUT_WAIT, "web-0", NULL },
        { { DEPLOYMENT, .source = "B", .pods = { { .image = "A", .gate = CLOSED_FOR("B"), .is_unready = true } } },
          ROLLOUT_PATCH_POD, "web-0", NULL },
        { { DEPLOYMENT, .source = "B", .grace_sec = 5,
            .pods = { { .image = "A", .gate = CLOSED_FOR("B"), .is_unready = true } } }, ROLLOUT_WAIT, "web-0", NULL },
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "undo",
            .pods = { { .image = "A", .gate = CLOSED_FOR("B"), .is_unready = true } } }, ROLLOUT_CLOSE_GATE, "web-0",
          "\\\"app\\\":\\\"A\\\"" },
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "undo",
            .pods = { { .image = "A", .gate = CLOSED_FOR("B") } } }, ROLLOUT_CLOSE_GATE, "web-0", NULL },
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "undo",
            .pods = { { .image = "A", .gate = CLOSED_FOR("A"), .is_unready = true } } }, ROLLOUT_WAIT, "web-0", NULL },

        /* StatefulSet: the highest ordinal first, with the label of the new revision */
        { { STATEFUL, .pods = { OLD, OLD } }, ROLLOUT_ABANDON, "changed its template", "\"partition\":0" },
        { { .kind = WORKLOAD_STATEFUL_SET, .record = "undo", TURNED, .pods = { OLD, OLD } }, ROLLOUT_ABANDON,
          "changed its template", "\"partition\":0" },
        { { STATEFUL, TURNED, .is_behind = true, .pods = { OLD, OLD } }, ROLLOUT_WAIT, NULL, NULL },
        { { STATEFUL, TURNED, .pods = { { .image = "A", .is_unready = true }, OLD } }, ROLLOUT_PATCH_POD, "web-0", NULL },
        { { STATEFUL, TURNED, .pods = { { .image = "B", .hash = "new", .former = FROM_A, .is_unready = true }, OLD } },
          ROLLOUT_WAIT, "web-0", NULL },
        { { STATEFUL, TURNED, .pods = { OLD, OLD } }, ROLLOUT_PATCH_POD, "web-1",
          "\"controller-revision-hash\":\"new\"" },
        { { STATEFUL, TURNED, .n_updated = 1, .pods = { OLD, NEW } }, ROLLOUT_PATCH_POD, "web-0", NULL },
        { { STATEFUL, TURNED, .n_updated = 1, .partition = 1, .pods = { OLD, NEW } }, ROLLOUT_HAND_BACK, NULL,
          "\"partition\":1" },
        { { STATEFUL, TURNED, .n_updated = 1, .pods = { NEW, NEW } }, ROLLOUT_WAIT, "count", NULL },
        { { STATEFUL, TURNED, .n_updated = 2, .pods = { NEW, NEW } }, ROLLOUT_HAND_BACK, NULL, "\"partition\":0" },
        /* a pod that the controller made again meanwhile */
        { { STATEFUL, TURNED, .n_updated = 1, .pods = { { .image = "A" }, NEW } }, ROLLOUT_PATCH_POD, "web-0", NULL },
        /* one with the image, but not the label */
        { { STATEFUL, TURNED, .n_updated = 1, .pods = { { .image = "B", .id = "2" }, NEW } }, ROLLOUT_PATCH_POD,
          "web-0", "\"controller-revision-hash\":\"new\"" },

        /* DaemonSet */
        { { DAEMON, .pods = { OLD } }, ROLLOUT_ABANDON, "changed its template", "RollingUpdate" },
        { { DAEMON, .template = "B", .pods = { OLD } }, ROLLOUT_WAIT, "Revision", NULL },
        { { DAEMON, TURNED, .pods = { OLD } }, ROLLOUT_PATCH_POD, "web-0", "\"controller-revision-hash\":\"new\"" },
        { { DAEMON, TURNED, .n_updated = 1, .pods = { NEW } }, ROLLOUT_HAND_BACK, NULL, "\"type\":\"RollingUpdate\"" },
        { { DAEMON, TURNED, .n_updated = 1, .pods = { NEW, NEW } }, ROLLOUT_WAIT, "count", NULL },
        { { DAEMON, TURNED, .n_updated = 1, .n_misscheduled = 1, .pods = { NEW, NEW } }, ROLLOUT_HAND_BACK, NULL, NULL },

        /* a template that is there already */
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "forward rollout", .template = "B", .source = "B", .n_updated = 1,
            .pods = { NEW } }, ROLLOUT_HAND_BACK, NULL, NULL },
        { { .kind = WORKLOAD_STATEFUL_SET, .record = "undo rollout", TURNED, .pods = { NEW } }, ROLLOUT_PATCH_POD,
          "web-0", "\"controller-revision-hash\":\"old\"" },
        { { .kind = WORKLOAD_DAEMON_SET, .record = "undo rollout", TURNED, .pods = { OLD } }, ROLLOUT_HAND_BACK, NULL, NULL },

        /* other clients */
        { { DEPLOYMENT, .is_released = true, .source = "B", .pods = { NEW, OLD } }, ROLLOUT_ABANDON, "let its controller",
          "abandoned" },
        { { STATEFUL, .is_released = true, .pods = { OLD } }, ROLLOUT_ABANDON, "let its controller", NULL },
        { { DEPLOYMENT, .template = "C", .pods = { OLD } }, ROLLOUT_ABANDON, "changed its template", "\"paused\":false" },
        { { DEPLOYMENT, .env = "x", .pods = { OLD } }, ROLLOUT_ABANDON, "env", "\"paused\":false" },
        { { STATEFUL, .env = "x", .pods = { OLD } }, ROLLOUT_ABANDON, "env", "\"partition\":0" },
        { { DAEMON, .template = "C", .pods = { OLD } }, ROLLOUT_ABANDON, "changed its template", "RollingUpdate" },

        /* without a controller's template */
        { { .kind = WORKLOAD_REPLICA_SET, .record = "forward", .pods = { OLD } }, ROLLOUT_PATCH_POD, "web-0", NULL },
        { { .kind = WORKLOAD_REPLICA_SET, .record = "forward", .pods = { NEW } }, ROLLOUT_PATCH_WORKLOAD, NULL, NULL },
        { { .kind = WORKLOAD_REPLICA_SET, .record = "forward", .template = "B", .pods = { OLD } }, ROLLOUT_PATCH_POD,
          "web-0", NULL },
        { { .kind = WORKLOAD_POD, .record = "forward", .pods = { OLD } }, ROLLOUT_PATCH_POD, "web-0", NULL },
        { { .kind = WORKLOAD_POD, .record = "forward", .pods = { NEW } }, ROLLOUT_HAND_BACK, NULL, NULL },
};
/* clang-format on */

static void test_plan(void **state) {
        (void) state;
        for (size_t i = 0; i < sizeof(plan_rows) / sizeof(plan_rows[0]); i++)
                check_plan(i, &plan_rows[i]);
}

typedef struct LostCase {
        TestState state;
        const char *patch; /* a part of it */
        bool gives_back;
} LostCase;

/* clang-format off */
static const LostCase lost_rows[] = {
        { { DEPLOYMENT, .pods = { OLD } }, "\\\"state\\\":\\\"abandoned\\\"", true },
        { { DEPLOYMENT, .pods = { OLD } }, "\"spec\":{\"paused\":false}", true },
        { { DEPLOYMENT, FREE, .pods = { OLD } }, "abandoned", false },
        { { STATEFUL, .partition = 1, .pods = { OLD } }, "\"partition\":1", true },
        { { DAEMON, FREE, .pods = { OLD } }, "abandoned", false },
};
/* clang-format on */

/* The record is removed by another client: nothing is left held. */
static void test_lost(void **state) {
        (void) state;
        for (size_t i = 0; i < sizeof(lost_rows) / sizeof(lost_rows[0]); i++) {
                const LostCase *row = &lost_rows[i];
                cleanup(view_done) TestView made = make_view(&row->state);
                cleanup(rollout_step_done) RolloutStep step = ROLLOUT_STEP_INIT;
                const char *text;

                assert_int_equal(rollout_plan_lost(&made.view, made.record, &step), 0);
                text = json_object_to_json_string_ext(step.patch, JSON_C_TO_STRING_NOSLASHESCAPE);
                if (!strstr(text, row->patch) ||
                    (object_at(step.patch, "spec") != NULL) != row->gives_back)
                        fail_msg("row %zu: %s", i, text);
                assert_int_equal(step.action, ROLLOUT_ABANDON);
        }
}

typedef struct BeginCase {
        TestState state;
        RolloutMode mode;
        const char *container; /* that gets "B"; NULL: "app" */
        int partition;         /* and one; 0: none */
        const char *refusal;   /* a part of it; NULL: it begins */
        const char *patch;
} BeginCase;

static void check_begin(size_t i, const BeginCase *row) {
        cleanup(view_done) TestView made = make_view(&row->state);
        cleanup(json_object_put_p) json_object *images =
                parse("{'%s': 'B'}", or_else(row->container, "app"));
        cleanup(json_object_put_p) json_object *patch = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        const RolloutRequest request = {
                .mode = row->mode,
                .images = row->mode == ROLLOUT_SET_IMAGE ? images : NULL,
                .partition = row->partition - 1,
                .by = "alice",
                .now_sec = NOW_SEC,
        };
        const char *text;
        int r = rollout_begin(&made.view, &request, &patch, &error);

        if (row->refusal && (r >= 0 || !strstr(error_message(&error), row->refusal)))
                fail_msg("row %zu: \"%s\" instead of \"%s\"", i, error_message(&error),
                         row->refusal);
        if (!row->refusal && r < 0)
                fail_msg("row %zu: %s", i, error_message(&error));
        text = patch ? json_object_to_json_string_ext(patch, JSON_C_TO_STRING_NOSLASHESCAPE)
                     : "nothing";
        if (row->patch && !strstr(text, row->patch))
                fail_msg("row %zu: %s is not in %s", i, row->patch, text);
}

/* clang-format off */
static const BeginCase begin_rows[] = {
        { { FREE, .pods = { OLD } }, 0, NULL, 0, NULL, "\"spec\":{\"paused\":true}" },
        { { FREE, .pods = { OLD } }, 0, NULL, 0, NULL, "\\\"former\\\":{\\\"paused\\\":false}" },
        { { .pods = { OLD } }, 0, NULL, 0, NULL, "\\\"by\\\":\\\"alice\\\"" },
        { { FREE, .source = "B", .template = "B", .pods = { NEW } }, 0, NULL, 0, NULL, "nothing" },
        { { .record = "forward", .pods = { OLD } }, 0, NULL, 0, "has begun an update", NULL },
        { { .record = "undo", FREE, .pods = { OLD } }, 0, NULL, 0, "has begun an update", NULL },
        { { .record = "done", FREE, .pods = { OLD } }, 0, NULL, 0, NULL, "\"spec\":{\"paused\":true}" },
        { { FREE, .pods = { OLD } }, 0, "none", 0, "no container \"none\"", NULL },
        { { FREE, .pods = { OLD } }, 0, "init", 0, "init container", NULL },
        { { FREE, .pods = { OLD }, .is_behind = true }, 0, NULL, 0, "not seen its last change", NULL },
        { { FREE, .pods = { OLD }, .env = "x" }, 0, NULL, 0, "spec.containers[0].env", NULL },
        { { FREE, .pods = { OLD }, .template = "C" }, 0, NULL, 0, "do not have the images", NULL },
        { { FREE, .pods = { OLD } }, 0, NULL, 1, "only a StatefulSet", NULL },
        { { FREE, .pods = { OLD } }, ROLLOUT_FOLLOW, NULL, 0, "its controller itself", NULL },
        { { .template = "B", .pods = { OLD } }, ROLLOUT_FOLLOW, NULL, 0, NULL, "\\\"after\\\":{\\\"app\\\":\\\"B\\\"}" },
        { { .pods = { OLD } }, ROLLOUT_FOLLOW, NULL, 0, NULL, "nothing" },
        { { .kind = WORKLOAD_STATEFUL_SET, FREE, .pods = { OLD, OLD } }, 0, NULL, 0, NULL, "\"partition\":2147483647" },
        { { .kind = WORKLOAD_STATEFUL_SET, FREE, .pods = { OLD, OLD } }, 0, NULL, 0, NULL,
          "\"template\":{\"spec\":{\"containers\":[{\"name\":\"app\",\"image\":\"B\"}]}}" },
        { { .kind = WORKLOAD_STATEFUL_SET, FREE, .pods = { OLD, OLD } }, 0, NULL, 2, NULL, "\\\"partition\\\":1" },
        { { .kind = WORKLOAD_STATEFUL_SET, FREE, TURNED, .pods = { OLD, NEW } }, 0, NULL, 0, NULL, "\"partition\"" },
        { { .kind = WORKLOAD_STATEFUL_SET, FREE, TURNED, .pods = { OLD, { .image = "A", .hash = "x" } } }, 0, NULL, 0,
          "several revisions", NULL },
        { { .kind = WORKLOAD_STATEFUL_SET, FREE, TURNED, .pods = { { .image = "A", .hash = "x" } } }, 0, NULL, 0,
          "is gone", NULL },
        { { .kind = WORKLOAD_STATEFUL_SET, .pods = { OLD } }, 0, NULL, 0, "whose record is gone", NULL },
        { { .kind = WORKLOAD_DAEMON_SET, FREE, .pods = { OLD } }, 0, NULL, 0, NULL, "\"type\":\"OnDelete\",\"rollingUpdate\":null" },
        { { .kind = WORKLOAD_DAEMON_SET, TURNED, .pods = { OLD } }, ROLLOUT_FOLLOW, NULL, 0, NULL, "inplaced.io/rollout" },
        { { .kind = WORKLOAD_REPLICA_SET, .pods = { OLD } }, ROLLOUT_FOLLOW, NULL, 0, NULL, "nothing" },
        /* pods that do not have what the template has; back is to what all of them have */
        { { .kind = WORKLOAD_REPLICA_SET, .template = "B", .pods = { OLD, OLD } }, ROLLOUT_FOLLOW, NULL, 0, NULL,
          "\\\"before\\\":{\\\"app\\\":\\\"A\\\"},\\\"after\\\":{\\\"app\\\":\\\"B\\\"}" },
        { { .kind = WORKLOAD_REPLICA_SET, .template = "B", .pods = { OLD, NEW } }, 0, NULL, 0, NULL,
          "\\\"before\\\":{\\\"app\\\":\\\"B\\\"},\\\"after\\\":{\\\"app\\\":\\\"B\\\"}" },
        { { FREE, .source = "B", .template = "B", .pods = { NEW, OLD } }, 0, NULL, 0, NULL, "\"paused\":true" },
        { { .kind = WORKLOAD_POD, .pods = { OLD } }, ROLLOUT_FOLLOW, NULL, 0, "has no template", NULL },
        { { .kind = WORKLOAD_REPLICA_SET, .pods = { OLD } }, 0, NULL, 0, NULL, "inplaced.io/rollout" },
};
/* clang-format on */

static void test_begin(void **state) {
        (void) state;
        for (size_t i = 0; i < sizeof(begin_rows) / sizeof(begin_rows[0]); i++)
                check_begin(i, &begin_rows[i]);
}

typedef struct UndoCase {
        const char *record, *template; /* as in TestState */
        RolloutUndo undo;
} UndoCase;

/* clang-format off */
static const UndoCase undo_rows[] = {
        { NULL, "B", ROLLOUT_UNDO_NOTHING },
        { "undone", "A", ROLLOUT_UNDO_NOTHING },
        { "abandoned", "B", ROLLOUT_UNDO_NOTHING },
        { "done", "B", ROLLOUT_UNDO_SET_IMAGE },
        { "done", "A", ROLLOUT_UNDO_NOTHING },
        { "done", "C", ROLLOUT_UNDO_NOTHING },
        { "done rollout", "B", ROLLOUT_UNDO_TEMPLATE },
        { "done rollout", "A", ROLLOUT_UNDO_FOLLOW },
        { "done rollout", "C", ROLLOUT_UNDO_NOTHING },
};
/* clang-format on */

static void test_undo(void **unused) {
        (void) unused;
        for (size_t i = 0; i < sizeof(undo_rows) / sizeof(undo_rows[0]); i++) {
                const UndoCase *row = &undo_rows[i];
                cleanup(view_done) TestView made =
                        make_view(&(TestState){ .record = row->record, .template = row->template });
                RolloutUndo undo = rollout_record_undo(&made.view, made.record);

                if (undo != row->undo)
                        fail_msg("row %zu: %d, not %d", i, undo, row->undo);
        }
}

typedef struct RecordCase {
        const char *record;
        const char *refusal; /* a part of it; NULL: it is read */
} RecordCase;

/* With these members, and others after them. */
#define RECORD(state, mode) \
        "'state': '" state "', 'mode': '" mode "', 'by': 'alice', 'since': 's', 'revision': 'r'"
#define IMAGES "'before': {'app': 'A'}, 'after': {'app': 'B'}"
#define FORWARD "{" RECORD("forward", "set-image") ", " IMAGES

/* clang-format off */
static const RecordCase record_rows[] = {
        { "", "cannot be read" },
        { "[]", "cannot be read" },
        { "{}", "cannot be read" },
        { "{'state': 'forward'}", "cannot be read" },
        { FORWARD "}", NULL },
        { FORWARD ", 'former': {'paused': false}}", NULL },
        { FORWARD ", 'former': {'updateStrategy': {'type': 'RollingUpdate'}}}", NULL },
        { FORWARD ", 'former': {'replicas': 0}}", "cannot be read" },
        { FORWARD ", 'former': {'paused': 'no'}}", "cannot be read" },
        { FORWARD ", 'former': null}", "cannot be read" },
        { FORWARD ", 'of a newer version': 1}", NULL },
        { "{" RECORD("verifying", "set-image") ", " IMAGES "}", "of another version" },
        { "{" RECORD("forward", "set-env") ", " IMAGES "}", "of another version" },
        { "{" RECORD("done", "rollout") ", 'before': {'app': 'A'}, 'after': {'web': 'B'}}", "cannot be read" },
        { "{" RECORD("done", "rollout") ", 'before': {'app': 1}, 'after': {'app': 'B'}}", "cannot be read" },
        { "{'state': 'forward', 'mode': 'set-image', 'by': 'alice', 'since': 's', " IMAGES "}", "cannot be read" },
};
/* clang-format on */

static void check_record(size_t i, const RecordCase *row) {
        cleanup(json_object_put_p) json_object *workload =
                parse("{'metadata': {'name': 'web', 'annotations': {}}}");
        cleanup(json_object_put_p) json_object *written =
                row->record[0] ? parse("%s", row->record) : NULL;
        cleanup(json_object_put_p) json_object *record = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        json_object_object_add(object_at(workload, "metadata.annotations"), ROLLOUT_ANNOTATION,
                               json_object_new_string(written ? json_to_text(written) : ""));
        r = rollout_record_read(workload, &record, &error);
        if (row->refusal ? r >= 0 || !strstr(error_message(&error), row->refusal) : r < 0)
                fail_msg("row %zu: \"%s\" instead of \"%s\"", i, error_message(&error),
                         or_else(row->refusal, ""));
}

static void test_record(void **state) {
        (void) state;
        for (size_t i = 0; i < sizeof(record_rows) / sizeof(record_rows[0]); i++)
                check_record(i, &record_rows[i]);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_plan),   cmocka_unit_test(test_lost),
                cmocka_unit_test(test_begin),  cmocka_unit_test(test_undo),
                cmocka_unit_test(test_record),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
