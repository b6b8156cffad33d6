/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests the next patch of an update in place: each row is a state of a cluster, and the step that
 * follows
 */

#include "agent/base/text.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/rollout-plan.h"
#include "tests/unit/failing-memory.h"
#include "tests/unit/quoted-json.h"
#include "tests/unit/unit.h"

#define NOW_SEC 1000000000
#define HELD INT32_MAX
#define FORWARD_COPY                                                                       \
        "{\"state\": \"forward\", \"mode\": \"set-image\", \"by\": \"alice\", \"since\": " \
        "\"2026-11-20T08:00:00Z\", \"revision\": \"old\", \"before\": {\"app\": \"A\"}, "  \
        "\"after\": {\"app\": \"B\"}}"

/* Differences from a pod that runs A, is ready, and was never updated. */
typedef struct TestPod {
        const char *image;   /* image in its spec; NULL: there is no such pod */
        const char *hash;    /* hash of its revision; NULL: "old" */
        const char *id;      /* ID of its container; NULL: "1" */
        const char *former;  /* annotation of an update; NULL: none */
        const char *waiting; /* instead of running: "Reason: message" */
        const char *gate;    /* the condition of its gate, as JSON; NULL: it has no gate */
        const char *verified;
        const char *restarted; /* annotation of a restart; NULL: none */
        const char *deleted;   /* when it should have been gone; NULL: it is not deleted */
        bool is_unready, is_behind, is_finalized;
        bool is_scheduled; /* to a node */
        bool is_just_ready;
} TestPod;

typedef struct TestState {
        WorkloadKind kind;
        const char *
                record; /* "state mode written" of a record from A to B, or less; NULL: there is none */
        const char *template; /* image of the template; NULL: A */
        const char *source;   /* image of the ReplicaSet; NULL: A */
        const char *older;    /* image of another ReplicaSet; NULL: there is none */
        int n_others;         /* pods of the other ReplicaSet, which are none of those below */
        const char *env;      /* variables in the workload's template alone */
        bool has_sidecar;     /* in the workload's template, in "revision", and in pods of that */
        bool has_history;
        bool is_released;   /* the controller may act */
        bool is_begun_held; /* the controller might not act before the update, either */
        bool is_declared;
        const char *held; /* annotation of the policy: the partition before; NULL: none */
        bool is_behind, is_source_behind, is_older_behind;
        bool is_source_unseen; /* no controller has ever seen it */
        bool is_copied;        /* the open record, to the other ReplicaSet */
        int n_updated;         /* by the controller's count */
        int n_misscheduled;
        int n_missing;        /* pods that it should have, and has not */
        const char *revision; /* the newest; NULL: "old" */
        const char *current; /* the revision of which the controller makes pods; NULL: the newest */
        const char *older_env; /* variables of the revision "older"; NULL: there is none */
        int partition;         /* before */
        int min_ready_sec;
        int first; /* number of pods after which it waits; 0: all */
        TestPod pods[3];
        int budget;    /* disruptions that are allowed, and one; 0: there is no budget */
        int budget_of; /* so many pods */
        bool is_budget_behind;
        int grace_sec;
        int unsettled_sec; /* how long a run that was replaced may still write */
        const char *max_unavailable;
        int noted_sec; /* how long its pods have been as they are, as far as this run has seen */
        bool is_fresh; /* but web-1, which it has just seen updated */
        bool is_long_updated; /* web-1 was updated that long ago */
        bool is_silent;       /* the pods were, when they came to be as they are */
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

static void add_sidecar(json_object *template) {
        json_object_array_add(object_at(template, "spec.containers"),
                              parse("{'name': 'side', 'image': 'S'}"));
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
        char word[16] = "", mode[16] = "set-image", written[16] = "";

        if (!state->record) {
                json_object_put(record);
                return NULL;
        }
        (void) sscanf(state->record, "%15s %15s %15s", word, mode, written);
        json_object_object_add(record, "state", json_object_new_string(word));
        json_object_object_add(record, "mode", json_object_new_string(mode));
        json_object_object_add(record, "by", json_object_new_string("alice"));
        json_object_object_add(record, "since", json_object_new_string("2026-11-20T08:00:00Z"));
        json_object_object_add(record, "revision", json_object_new_string("old"));
        json_object_object_add(record, "before", parse("{'app': 'A'}"));
        json_object_object_add(record, "after", parse("{'app': 'B'}"));
        if (*written)
                json_object_object_add(record, "written", json_object_new_string(written));
        if (state->first > 0)
                json_object_object_add(record, "first", json_object_new_int(state->first));
        if (state->kind == WORKLOAD_STATEFUL_SET)
                json_object_object_add(
                        record, "former",
                        parse("{'updateStrategy': {'type': 'RollingUpdate', 'rollingUpdate': "
                              "{'partition': %d}}}",
                              state->partition));
        if (state->is_begun_held)
                json_object_object_del(record, "former");
        return record;
}

static json_object *make_spec(const TestState *state) {
        bool is_held = !state->is_released;

        switch (state->kind) {
        case WORKLOAD_DEPLOYMENT:
                return parse("{'paused': %s%s}", is_held ? "true" : "false",
                             state->has_history ? ", 'selector': {'matchLabels': {'app': 'web'}}"
                                                : "");
        case WORKLOAD_STATEFUL_SET:
                return parse("{'minReadySeconds': %d, 'updateStrategy': {'type': 'RollingUpdate', "
                             "'rollingUpdate': {'partition': %d}}}",
                             state->min_ready_sec, is_held ? HELD : state->partition);
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
                "'updatedNumberScheduled': %d, 'numberMisscheduled': %d, 'desiredNumberScheduled': %d, 'updateRevision': '%s', "
                "'currentRevision': '%s'}}",
                state->is_behind ? 1 : 2, state->n_updated, state->n_updated, state->n_misscheduled,
                count_pods(state) + state->n_missing, or_else(state->revision, "old"),
                or_else(state->current, or_else(state->revision, "old")));
        json_object *spec = make_spec(state);

        json_object_object_add(spec, "replicas",
                               json_object_new_int(count_pods(state) + state->n_missing));
        json_object_object_add(spec, "template",
                               make_template(or_else(state->template, "A"), state->env));
        if (state->has_sidecar)
                add_sidecar(object_at(spec, "template"));
        json_object_object_add(workload, "spec", spec);
        if (state->is_declared)
                json_object_object_add(object_at(workload, "metadata.annotations"),
                                       UPDATE_ANNOTATION, json_object_new_string(UPDATE_ONLY));
        if (state->held)
                json_object_object_add(object_at(workload, "metadata.annotations"), HELD_ANNOTATION,
                                       json_object_new_string(state->held));
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

static json_object *make_revision(const char *name, int number, const char *image,
                                  const char *env) {
        json_object *made =
                parse("{'metadata': {'name': '%s', 'labels': {'controller-revision-hash': '%s'}}, "
                      "'revision': %d, 'data': {'spec': {}}}",
                      name, name, number);

        json_object_object_add(object_at(made, "data.spec"), "template", make_template(image, env));
        return made;
}

static json_object *make_owned(const TestState *state) {
        json_object *owned = json_object_new_object();

        if (state->kind == WORKLOAD_DEPLOYMENT) {
                json_object_object_add(owned, "old",
                                       make_replica_set("old", or_else(state->source, "A"),
                                                        count_pods(state),
                                                        state->is_source_behind));
                if (state->is_source_unseen)
                        json_object_object_del(object_at(json_object_object_get(owned, "old"),
                                                         "status"),
                                               "observedGeneration");
                if (state->older)
                        json_object_object_add(owned, "older",
                                               make_replica_set("older", state->older,
                                                                state->n_others,
                                                                state->is_older_behind));
                if (state->is_copied)
                        json_object_object_add(object_at(json_object_object_get(owned, "older"),
                                                         "metadata"),
                                               "annotations",
                                               patch_wrap(ROLLOUT_ANNOTATION,
                                                          json_object_new_string(FORWARD_COPY)));
                return owned;
        }
        json_object_object_add(owned, "old", make_revision("old", 1, "A", NULL));
        if (state->older_env)
                json_object_object_add(owned, "older",
                                       make_revision("older", 0, "A", state->older_env));
        if (state->revision)
                json_object_object_add(owned, state->revision,
                                       make_revision(state->revision, 2,
                                                     or_else(state->template, "A"), NULL));
        if (state->revision && state->has_sidecar)
                add_sidecar(object_template(json_object_object_get(owned, state->revision)));
        return owned;
}

static json_object *make_status(const TestPod *pod) {
        json_object *status;
        char reason[32] = "";
        int n = 0;

        status =
                parse("{'observedGeneration': %d, 'conditions': [{'type': 'Ready', 'status': '%s', "
                      "'lastTransitionTime': '%s'}]}",
                      pod->is_behind ? 1 : 2, pod->is_unready || pod->waiting ? "False" : "True",
                      pod->is_just_ready ? "2001-09-09T01:46:40Z" : "2001-09-09T00:00:00Z");
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
                "{'metadata': {'name': 'web-%d', 'uid': 'u%d', 'resourceVersion': '5', 'generation': 2, 'labels': {'app': "
                "'web', 'controller-revision-hash': '%s'}, 'annotations': {}, 'ownerReferences': "
                "[{'controller': true, 'uid': '%s'}]}}",
                n, n, or_else(pod->hash, "old"), owner);

        if (state->has_sidecar && pod->hash && strcmp(pod->hash, or_else(state->revision, "")) == 0)
                add_sidecar(template);
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
        if (pod->restarted)
                json_object_object_add(object_at(made, "metadata.annotations"), RESTART_ANNOTATION,
                                       json_object_new_string(pod->restarted));
        if (pod->deleted)
                json_object_object_add(object_at(made, "metadata"), "deletionTimestamp",
                                       json_object_new_string(pod->deleted));
        if (pod->is_finalized) {
                json_object_object_add(object_at(made, "metadata"), "finalizers", parse("['f']"));
                json_object_object_add(object_at(made, "status"), "phase",
                                       json_object_new_string("Failed"));
        }
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
                json_object_object_add(
                        made.view.noted, name,
                        parse("{'phase': '%s', 'since': %d, 'silent': %s, 'first': -3}",
                              n == 1 && (state->is_fresh || state->is_long_updated) ? "updated"
                                                                                    : "updating",
                              NOW_SEC - (n == 1 && state->is_fresh ? 0 : state->noted_sec),
                              state->is_silent ? "true" : "false"));
        }
        if (state->budget > 0)
                json_object_object_add(
                        made.view.budgets, "pdb",
                        parse("{'metadata': {'generation': 2}, 'spec': {'selector': {'matchLabels': "
                              "{'app': 'web'}}}, 'status': {'observedGeneration': %d, "
                              "'disruptionsAllowed': %d, 'expectedPods': %d, 'desiredHealthy': %d}}",
                              state->is_budget_behind ? 1 : 2, state->budget - 1, state->budget_of,
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
#define SILENT(image_now, gate_image) \
        { .image = image_now, .former = FROM_A, .is_unready = true, .gate = CLOSED_FOR(gate_image) }
#define OLD \
        { .image = "A" }
/* Another person has restarted it ten seconds ago, and its container stops. */
#define RESTARTED                                                                        \
        {                                                                                \
                .image = "A", .restarted = "{\"app\": {\"as\": \"A\", \"from\": \"1\", " \
                                           "\"starts\": {\"A\": {\"n\": 1, \"at\": "     \
                                           "\"2001-09-09T01:46:30Z\"}}}}"                \
        }
#define NEW \
        { .image = "B", .hash = "new", .id = "2", .former = FROM_A }
#define STOPPING \
        { .image = "B", .hash = "new", .former = FROM_A }
#define FREE .is_released = true
#define HISTORY .has_history = true
#define DECLARED .is_declared = true, .record = "forward rollout"
#define DEPLOYMENT .kind = WORKLOAD_DEPLOYMENT, .record = "forward"
#define STATEFUL .kind = WORKLOAD_STATEFUL_SET, .record = "forward"
#define DAEMON .kind = WORKLOAD_DAEMON_SET, .record = "forward"
#define DONE .record = "done", .template = "B", .source = "B", .revision = "new"
#define TURNED .template = "B", .revision = "new"

typedef struct PlanCase {
        TestState state;
        RolloutAction action;
        const char *about; /* a part of the message, or of the name */
        const char *patch; /* a part of it */
} PlanCase;

static void check_step(size_t i, const PlanCase *row, const RolloutStep *step) {
        const char *about = or_else(step->message ? step->message : step->name, "");
        const char *text = step->patch
                                   ? json_object_to_json_string_ext(step->patch,
                                                                    JSON_C_TO_STRING_NOSLASHESCAPE)
                                   : "";

        if (step->action != row->action)
                fail_msg("row %zu: action %d, not %d: %s %s %s", i, step->action, row->action,
                         or_else(step->name, ""), or_else(step->message, ""), text);
        if (row->about && !strstr(about, row->about))
                fail_msg("row %zu: \"%s\" instead of \"%s\"", i, about, row->about);
        if (row->patch && !strstr(text, row->patch))
                fail_msg("row %zu: %s is not in %s", i, row->patch, text);
}

static void check_plan(size_t i, const PlanCase *row) {
        cleanup(view_done) TestView made = make_view(&row->state);
        cleanup(rollout_step_done) RolloutStep step = ROLLOUT_STEP_INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        const RolloutLimits limits = { .max_unavailable = row->state.max_unavailable,
                                       .grace_sec = row->state.grace_sec,
                                       .settled_sec = NOW_SEC + row->state.unsettled_sec };
        cleanup(census_done) Census census = CENSUS_INIT;
        int r;

        assert_ok(census_take(&made.view, made.record, &census));
        r = rollout_plan(&made.view, made.record, &limits, &census, &step, &error);

        if (r < 0)
                fail_msg("row %zu: %s", i, error_message(&error));
        check_step(i, row, &step);
}

/* The next step without limits of a person. */
static void plan(const TestView *made, RolloutStep *ret) {
        cleanup(census_done) Census census = CENSUS_INIT;
        const RolloutLimits limits = { .grace_sec = 0 };

        assert_ok(census_take(&made->view, made->record, &census));
        assert_ok(rollout_plan(&made->view, made->record, &limits, &census, ret, NULL));
}

/* clang-format off */
static const PlanCase plan_rows[] = {
        /* Deployment: a pod, its ReplicaSet, the other pods, its own template */
        { { DEPLOYMENT, .is_behind = true, .pods = { OLD, OLD } }, ROLLOUT_WAIT, "for its controller", NULL },
        { { DEPLOYMENT, .pods = { OLD, OLD } }, ROLLOUT_PATCH_POD, "web-0", "\"image\":\"B\"" },
        { { DEPLOYMENT, .pods = { RESTARTED, OLD, OLD } }, ROLLOUT_WAIT, "until pod \"web-0\" is available", NULL },
        { { DEPLOYMENT, .pods = { RESTARTED, OLD, OLD }, .max_unavailable = "3", .budget = 2, .budget_of = 3 },
          ROLLOUT_WAIT, "until the PodDisruptionBudget", NULL },
        { { STATEFUL, TURNED, .pods = { OLD, OLD, RESTARTED } }, ROLLOUT_WAIT, "until pod \"web-2\" is available", NULL },
        { { DEPLOYMENT, .pods = { { .image = "B", .former = FROM_A }, OLD, OLD }, .max_unavailable = "3" },
          ROLLOUT_WAIT, "web-0", NULL },
        { { DEPLOYMENT, .pods = { { .image = "B", .former = FROM_A,
            .waiting = "ImagePullBackOff: Back-off pulling image B" }, OLD } }, ROLLOUT_STOP, "Back-off pulling", NULL },
        { { DEPLOYMENT }, ROLLOUT_PATCH_REPLICA_SET, "old", NULL },
        /* The pod that takes the place of the last one has the image before. */
        { { DEPLOYMENT, .pods = { { .image = "B", .former = FROM_A, .deleted = "now" } } }, ROLLOUT_WAIT,
          "for its controller to make the missing pods", NULL },
        { { DEPLOYMENT, .n_missing = -1, .pods = { { .image = "A", .deleted = "now" } } }, ROLLOUT_PATCH_REPLICA_SET, "old", NULL },
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
        /* A run that was replaced may write a pod even now. */
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "undo", .unsettled_sec = 1, .n_updated = 1, .pods = { OLD } },
          ROLLOUT_WAIT, "for other runs", NULL },
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "abandoned", FREE }, ROLLOUT_STOP, NULL, NULL },
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "done", .source = "B", .template = "B", .is_behind = true,
            .pods = { NEW, NEW } }, ROLLOUT_WAIT, NULL, NULL },
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "done", .source = "B", .template = "B", .n_updated = 2,
            .pods = { NEW, NEW } }, ROLLOUT_DONE, NULL, NULL },
        { { DONE, .kind = WORKLOAD_DEPLOYMENT, .n_updated = 2, .pods = { NEW, OLD } }, ROLLOUT_DONE, "pod \"web-1\"", NULL },

        /* The template before is kept, once the Deployment has the new one. */
        { { DEPLOYMENT, HISTORY, .source = "B", .pods = { NEW, OLD } }, ROLLOUT_PATCH_POD, "web-1", NULL },
        { { DEPLOYMENT, HISTORY, .source = "B", .pods = { NEW, NEW } }, ROLLOUT_PATCH_WORKLOAD, NULL, "\"image\":\"B\"" },
        { { DEPLOYMENT, HISTORY, .source = "B", .template = "B", .is_behind = true, .pods = { NEW, NEW } },
          ROLLOUT_WAIT, "for its controller", NULL },
        { { DEPLOYMENT, HISTORY, .source = "B", .template = "B", .n_updated = 2, .pods = { NEW, NEW } },
          ROLLOUT_CREATE_REPLICA_SET, "web-", "\"image\":\"A\"" },
        { { DEPLOYMENT, HISTORY, .source = "B", .template = "B", .n_updated = 2, .older = "A", .pods = { NEW, NEW } },
          ROLLOUT_HAND_BACK, NULL, NULL },
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "forward rollout", HISTORY, .template = "B", .source = "B",
            .n_updated = 1, .pods = { NEW } }, ROLLOUT_CREATE_REPLICA_SET, "web-", "\"replicas\":0" },
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "undo", HISTORY, .pods = { OLD, OLD }, .n_updated = 2 },
          ROLLOUT_HAND_BACK, NULL, "\\\"undone\\\"" },
        /* A declared update: the Deployment counts no pod as updated before all are. */
        { { DECLARED, .template = "B", .kind = WORKLOAD_DEPLOYMENT, .pods = { NEW, OLD } }, ROLLOUT_PATCH_POD, "web-1", NULL },
        { { DECLARED, .template = "B", .kind = WORKLOAD_DEPLOYMENT, .pods = { NEW, NEW } }, ROLLOUT_PATCH_REPLICA_SET, "old", "\"image\":\"B\"" },
        { { .record = "forward rollout", .template = "B", .kind = WORKLOAD_DEPLOYMENT, .pods = { NEW, OLD } },
          ROLLOUT_PATCH_REPLICA_SET, "old", NULL },
        /* A declared one gets it in a write of its own, or admission would hold it once more. */
        { { .is_declared = true, DEPLOYMENT, .source = "B", .pods = { NEW, NEW } }, ROLLOUT_PATCH_WORKLOAD, NULL, "\"image\":\"B\"" },
        /* In the end admission holds the workload no more. */
        { { DECLARED, .held = "paused", .template = "B", .source = "B", .kind = WORKLOAD_DEPLOYMENT, .n_updated = 1, .pods = { NEW } },
          ROLLOUT_HAND_BACK, NULL, "\"inplaced.io/held\":null" },
        { { DECLARED, .held = "paused", .template = "B", .source = "B", .kind = WORKLOAD_DEPLOYMENT, .n_updated = 1, .pods = { NEW } },
          ROLLOUT_HAND_BACK, NULL, "\"spec\":{\"paused\":false}" },
        /* The template has yet other images by now. */
        { { DECLARED, .template = "C", .kind = WORKLOAD_DEPLOYMENT, .pods = { NEW, OLD } }, ROLLOUT_RETARGET, NULL, NULL },
        { { DECLARED, .template = "A", .kind = WORKLOAD_STATEFUL_SET, .pods = { NEW, OLD } }, ROLLOUT_RETARGET, NULL, NULL },
        { { DECLARED, .template = "B", .env = "1", .kind = WORKLOAD_DEPLOYMENT, .pods = { NEW, OLD } }, ROLLOUT_ABANDON, NULL, NULL },
        { { .is_declared = true, DEPLOYMENT, .template = "C", .pods = { NEW, OLD } }, ROLLOUT_RETARGET, NULL, NULL },
        { { .is_declared = true, STATEFUL, .pods = { NEW, OLD } }, ROLLOUT_RETARGET, NULL, NULL },
        { { .is_declared = true, .kind = WORKLOAD_DAEMON_SET, .record = "undo", .template = "C", .pods = { OLD } }, ROLLOUT_RETARGET, NULL, NULL },

        /* A budget that pods have spent which will not return ends it for the others. */
        { { DEPLOYMENT, .source = "B", .budget = 1, .budget_of = 3, .noted_sec = 99, .pods = { OLD, NEW, STILL_ILL } },
          ROLLOUT_HAND_BACK, "pod \"web-0\": the PodDisruptionBudget \"pdb\" allows no further pod to be unavailable", NULL },
        { { DEPLOYMENT, .source = "B", .budget = 1, .budget_of = 3, .pods = { OLD, NEW, STILL_ILL } },
          ROLLOUT_WAIT, NULL, NULL },
        { { DEPLOYMENT, .source = "B", .budget = 1, .budget_of = 3, .noted_sec = 99, .is_long_updated = true,
            .pods = { OLD, NEW, STILL_ILL } }, ROLLOUT_HAND_BACK, "pod \"web-0\": the PodDisruptionBudget", NULL },
        /* Held on, where the controller would replace those pods, or the next run updates them. */
        { { DAEMON, TURNED, .n_updated = 1, .budget = 1, .budget_of = 2, .noted_sec = 99, .pods = { OLD, STILL_ILL } },
          ROLLOUT_STOP, "not all pods run the images: pod \"web-0\": the PodDisruptionBudget \"pdb\"", NULL },
        { { STATEFUL, TURNED, .n_updated = 2, .budget = 1, .budget_of = 3, .noted_sec = 99, .pods = { OLD, NEW, STILL_ILL } },
          ROLLOUT_STOP, "pod \"web-2\"", NULL },
        { { DECLARED, .kind = WORKLOAD_DEPLOYMENT, .template = "B", .n_updated = 1, .budget = 1, .budget_of = 3,
            .noted_sec = 99, .pods = { OLD, NEW, STILL_ILL } }, ROLLOUT_STOP, "pod \"web-0\"", NULL },
        /* No other pod is made in place of one that does not end. */
        { { STATEFUL, TURNED, .n_updated = 1, .budget = 1, .budget_of = 3, .noted_sec = 99,
            .pods = { OLD, NEW, { .image = "A", .deleted = "2001-09-09T00:00:00Z" } } }, ROLLOUT_STOP,
          "pod \"web-2\": it is deleted, and its node \"\" does not end it", NULL },
        /* Not while its status may lack what has just become ready, and not where others than those keep it spent. */
        { { DEPLOYMENT, .source = "B", .budget = 1, .budget_of = 3, .noted_sec = 99, .is_fresh = true,
            .pods = { OLD, NEW, STILL_ILL } }, ROLLOUT_WAIT, "PodDisruptionBudget", NULL },
        { { DEPLOYMENT, .source = "B", .budget = 1, .budget_of = 3, .noted_sec = 99, .is_budget_behind = true,
            .pods = { OLD, NEW, STILL_ILL } }, ROLLOUT_WAIT, "PodDisruptionBudget", NULL },
        { { DEPLOYMENT, .source = "B", .budget = 1, .budget_of = 3, .noted_sec = 99, .n_missing = 1,
            .pods = { OLD, STILL_ILL } }, ROLLOUT_WAIT, "missing pod", NULL },
        { { DEPLOYMENT, .budget = 1, .budget_of = 2, .noted_sec = 99, .pods = { OLD, STILL_ILL } }, ROLLOUT_ABANDON,
          "handed back: pod \"web-0\": the PodDisruptionBudget", "\"paused\":false" },

        /* the first pods alone, and the ReplicaSet's template stays */
        { { DEPLOYMENT, .first = 1, .pods = { OLD, OLD } }, ROLLOUT_PATCH_POD, "web-0", NULL },
        { { DEPLOYMENT, .first = 1, .pods = { { .image = "B", .former = FROM_A }, OLD } }, ROLLOUT_WAIT, "web-0", NULL },
        { { DEPLOYMENT, .first = 1, .pods = { NEW, OLD } }, ROLLOUT_PAUSE, NULL, NULL },
        { { DEPLOYMENT, .first = 2, .pods = { NEW, OLD, OLD } }, ROLLOUT_PATCH_POD, "web-1", NULL },
        { { DEPLOYMENT, .first = 2, .pods = { NEW, OLD, ILL }, .max_unavailable = "2" }, ROLLOUT_PATCH_POD, "web-1", NULL },
        { { DEPLOYMENT, .first = 2, .pods = { NEW, NEW, OLD } }, ROLLOUT_PAUSE, NULL, NULL },
        /* pods that were given up count, and one that is not ready comes after those that are, also if these wait */
        { { DEPLOYMENT, .first = 2, .pods = { NEW, STILL_ILL, OLD }, .noted_sec = 99, .max_unavailable = "3" },
          ROLLOUT_PAUSE, "pod \"web-1\": ", NULL },
        { { DEPLOYMENT, .first = 1, .pods = { ILL, OLD } }, ROLLOUT_WAIT, "until pod \"web-0\" is available", NULL },
        { { DEPLOYMENT, .first = 1, .pods = { ILL, OLD }, .max_unavailable = "2" }, ROLLOUT_PATCH_POD, "web-1", NULL },
        { { DEPLOYMENT, .first = 1, .pods = { ILL, ILL } }, ROLLOUT_PATCH_POD, "web-0", NULL },
        { { STATEFUL, TURNED, .first = 1, .pods = { { .image = "A", .is_unready = true }, OLD } }, ROLLOUT_WAIT,
          "until pod \"web-0\" is available", NULL },
        /* a template that has got the images already gets the ones before again, and its twin the other ones */
        { { DEPLOYMENT, .first = 2, .source = "B", .pods = { NEW, OLD, OLD } }, ROLLOUT_PATCH_REPLICA_SET, "old",
          "\"image\":\"A\"" },
        { { DEPLOYMENT, .first = 1, .source = "B", .pods = { NEW, OLD } }, ROLLOUT_PATCH_REPLICA_SET, "old",
          "\"image\":\"A\"" },
        { { DEPLOYMENT, .first = 1, .source = "B", .n_missing = 1, .pods = { NEW, NEW } }, ROLLOUT_PATCH_REPLICA_SET, "old",
          "\"image\":\"A\"" },
        { { DEPLOYMENT, .first = 1, .older = "A", .pods = { NEW, OLD } }, ROLLOUT_PATCH_REPLICA_SET, "older",
          "\"image\":\"B\"" },
        { { .kind = WORKLOAD_REPLICA_SET, .record = "forward", .first = 1, .template = "B", .pods = { NEW, OLD } },
          ROLLOUT_PATCH_WORKLOAD, NULL, "\"image\":\"A\"" },
        { { .kind = WORKLOAD_REPLICA_SET, .record = "forward rollout", .first = 1, .template = "B", .pods = { NEW, OLD } },
          ROLLOUT_PAUSE, NULL, NULL },
        /* it ends as any other when no other pod is left */
        { { DEPLOYMENT, .first = 2, .pods = { NEW, NEW } }, ROLLOUT_PATCH_REPLICA_SET, "old", "\"image\":\"B\"" },
        { { DEPLOYMENT, .first = 1, .source = "B", .pods = { NEW, NEW } }, ROLLOUT_HAND_BACK, NULL, NULL },
        { { DEPLOYMENT, .first = 1, .n_missing = 1, .pods = { NEW } }, ROLLOUT_PAUSE, NULL, NULL },
        { { .kind = WORKLOAD_DAEMON_SET, .record = "forward", TURNED, .first = 1, .pods = { OLD, NEW } },
          ROLLOUT_PAUSE, NULL, NULL },

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

        /* a pod that the kubelet is about to start, for the image before */
        { { DEPLOYMENT, .source = "B", .pods = { { .image = "A", .id = "", .is_scheduled = true,
            .waiting = "ContainerCreating: " } } }, ROLLOUT_WAIT, "web-0", NULL },
        { { DEPLOYMENT, .source = "B", .pods = { { .image = "A", .id = "", .is_scheduled = true,
            .waiting = "ErrImagePull: A" } } }, ROLLOUT_PATCH_POD, "web-0", NULL },
        { { DEPLOYMENT, .source = "B", .pods = { { .image = "A", .id = "", .waiting = "ContainerCreating: " } } },
          ROLLOUT_PATCH_POD, "web-0", NULL },

        /* a pod that the kubelet is about to restart for the update that is undone */
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "undo", .pods = { { .image = "B", .former = FROM_A }, OLD } },
          ROLLOUT_WAIT, "web-0", NULL },
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "undo", .pods = { { .image = "B", .former = FROM_A,
            .waiting = "ImagePullBackOff: Back-off pulling image B" }, OLD } }, ROLLOUT_PATCH_POD, "web-0", NULL },

        /* failures */
        { { DEPLOYMENT, .source = "B", .pods = { { .image = "B", .former = FROM_A,
            .waiting = "ImagePullBackOff: Back-off pulling image B" }, OLD } }, ROLLOUT_STOP, "Back-off pulling", NULL },
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "undo", .pods = { { .image = "A", .former = FROM_A,
            .waiting = "ImagePullBackOff: Back-off pulling image B" }, OLD } }, ROLLOUT_WAIT, "web-0", NULL },
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "undo", .pods = { { .image = "A", .id = "1", .former = FROM_B,
            .waiting = "CrashLoopBackOff: back-off" }, OLD } }, ROLLOUT_STOP, "web-0", NULL },
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "undo", .pods = { { .image = "A", .id = "1", .former = FROM_B,
            .waiting = "CrashLoopBackOff: back-off" }, NEW } }, ROLLOUT_WAIT, "until pod \"web-0\" is available", NULL },
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
            .max_unavailable = "100%" }, ROLLOUT_PATCH_POD, "web-1", NULL },
        { { STATEFUL, TURNED, .n_updated = 1, .pods = { OLD, OLD, { .image = "B", .former = FROM_A, .hash = "new" } },
            .max_unavailable = "50%" }, ROLLOUT_WAIT, "web-2", NULL },
        { { DAEMON, TURNED, .n_updated = 1, .pods = { OLD, OLD, { .image = "B", .former = FROM_A, .hash = "new" } },
            .max_unavailable = "50%" }, ROLLOUT_PATCH_POD, "web-0", NULL },
        { { DEPLOYMENT, .source = "B", .pods = { OLD, OLD }, .max_unavailable = "0" }, ROLLOUT_PATCH_POD, "web-0", NULL },
        { { DEPLOYMENT, .source = "B", .pods = { { .image = "B", .former = FROM_A }, OLD }, .max_unavailable = "0" },
          ROLLOUT_WAIT, "web-0", NULL },
        { { DEPLOYMENT, .source = "B", .pods = { OLD, OLD }, .budget = 1 }, ROLLOUT_WAIT, "\"pdb\"", NULL },
        { { DEPLOYMENT, .source = "B", .pods = { OLD, OLD }, .budget = 2 }, ROLLOUT_PATCH_POD, NULL, NULL },
        { { DEPLOYMENT, .source = "B", .pods = { OLD, OLD }, .budget = 2, .is_budget_behind = true }, ROLLOUT_WAIT, "\"pdb\"", NULL },
        { { DEPLOYMENT, .source = "B", .pods = { { .image = "B", .former = FROM_A }, OLD }, .budget = 2,
            .max_unavailable = "100%" }, ROLLOUT_WAIT, "web-0", NULL },
        /* the controller has not yet counted that a pod is not ready; pods of another workload are unknown */
        { { DEPLOYMENT, .source = "B", .pods = { { .image = "B", .former = FROM_A, .is_unready = true }, OLD },
            .budget = 2, .budget_of = 2, .max_unavailable = "100%" }, ROLLOUT_WAIT, "web-0", NULL },
        { { DEPLOYMENT, .source = "B", .pods = { { .image = "B", .former = FROM_A, .is_unready = true }, OLD },
            .budget = 2, .budget_of = 3, .max_unavailable = "100%" }, ROLLOUT_PATCH_POD, "web-1", NULL },
        { { DEPLOYMENT, .source = "B", .pods = { { .image = "B", .deleted = "now" }, OLD } }, ROLLOUT_WAIT,
          "until a missing pod is available: --max-unavailable is 1", NULL },

        /* a pod that its kubelet does not end, which keeps its name or its node */
        { { STATEFUL, TURNED, .pods = { OLD, { .image = "A", .deleted = "2001-09-09T01:45:40Z" } } },
          ROLLOUT_WAIT, "until a missing pod is available", NULL },
        { { STATEFUL, TURNED, .pods = { OLD, { .image = "A", .deleted = "2001-09-09T01:45:39Z" } } },
          ROLLOUT_PATCH_POD, "web-0", NULL },
        /* It was scaled down: web-2 takes no place, and web-1 is made anew. */
        { { STATEFUL, TURNED, .n_missing = -1,
            .pods = { OLD, { .image = "A", .deleted = "2001-09-09T01:46:40Z" },
                      { .image = "A", .deleted = "2001-09-09T01:45:39Z" } } },
          ROLLOUT_WAIT, "until a missing pod is available", NULL },
        { { STATEFUL, TURNED, .n_updated = 1, .pods = { { .image = "B", .former = FROM_A, .id = "2", .hash = "new" },
                      { .image = "A", .deleted = "2001-09-09T01:45:39Z", .is_scheduled = true } } },
          ROLLOUT_HAND_BACK, "pod \"web-1\": it is deleted, and its node \"n\" does not end it", NULL },
        { { STATEFUL, TURNED, .n_updated = 1,
            .pods = { NEW, { .image = "A", .deleted = "2001-09-09T01:45:39Z", .is_finalized = true } } },
          ROLLOUT_HAND_BACK, "pod \"web-1\": it is deleted, and its finalizer \"f\" keeps it", NULL },
        { { DEPLOYMENT, .source = "B", .pods = { OLD, { .image = "B", .deleted = "2001-09-09T01:45:39Z" } } },
          ROLLOUT_WAIT, "until a missing pod is available", NULL },
        { { DAEMON, TURNED, .pods = { OLD, { .image = "A", .deleted = "2001-09-09T01:45:39Z" } } },
          ROLLOUT_PATCH_POD, "web-0", NULL },
        { { DAEMON, TURNED, .pods = { OLD, { .image = "A", .deleted = "2001-09-09T01:45:39Z", .is_finalized = true } } },
          ROLLOUT_WAIT, "until a missing pod is available", NULL },

        /* the gate */
        { { DEPLOYMENT, .source = "B", .pods = { { .image = "A", .gate = OPEN } } }, ROLLOUT_CLOSE_GATE, "web-0",
          "\\\"app\\\":\\\"B\\\"" },
        { { DEPLOYMENT, .source = "B", .pods = { { .image = "A", .gate = OPEN } } }, ROLLOUT_CLOSE_GATE, "web-0",
          "\"resourceVersion\":\"5\"" },
        { { DEPLOYMENT, .source = "B", .pods = { { .image = "A", .gate = CLOSED_FOR("B") } } }, ROLLOUT_WAIT, "web-0", NULL },
        { { DEPLOYMENT, .source = "B", .pods = { { .image = "A", .gate = CLOSED_FOR("B"), .is_unready = true } } },
          ROLLOUT_PATCH_POD, "web-0", NULL },
        { { DEPLOYMENT, .source = "B", .grace_sec = 5,
            .pods = { { .image = "A", .gate = CLOSED_FOR("B"), .is_unready = true } } }, ROLLOUT_WAIT, "web-0", NULL },
        { { DEPLOYMENT, .source = "B", .pods = { { .image = "B", .former = FROM_A,
            .waiting = "ImagePullBackOff: Back-off pulling image B" }, { .image = "A", .gate = CLOSED_FOR("B"), .is_unready = true } } },
          ROLLOUT_RETURN_POD, "web-1", "\\\"app\\\":\\\"A\\\"" },
        /* The grace period need not be over, nor need the kubelet have seen the gate. */
        { { DEPLOYMENT, .source = "B", .grace_sec = 5, .pods = { { .image = "B", .former = FROM_A,
            .waiting = "ImagePullBackOff: Back-off pulling image B" }, { .image = "A", .gate = CLOSED_FOR("B"), .is_unready = true } } },
          ROLLOUT_RETURN_POD, "web-1", "\\\"app\\\":\\\"A\\\"" },
        { { DEPLOYMENT, .source = "B", .pods = { { .image = "B", .former = FROM_A,
            .waiting = "ImagePullBackOff: Back-off pulling image B" }, { .image = "A", .gate = CLOSED_FOR("B") } } },
          ROLLOUT_RETURN_POD, "web-1", "\\\"app\\\":\\\"A\\\"" },
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "undo",
            .pods = { { .image = "A", .gate = CLOSED_FOR("B"), .is_unready = true } } }, ROLLOUT_CLOSE_GATE, "web-0",
          "\\\"app\\\":\\\"A\\\"" },
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "undo",
            .pods = { { .image = "A", .gate = CLOSED_FOR("B") } } }, ROLLOUT_CLOSE_GATE, "web-0", NULL },
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "undo",
            .pods = { { .image = "A", .gate = CLOSED_FOR("A"), .is_unready = true } } }, ROLLOUT_WAIT, "web-0", NULL },

        /* a closed gate hides that the node is lost, but the old container runs too long */
        { { DEPLOYMENT, .noted_sec = 60, .pods = { SILENT("B", "B"), OLD } }, ROLLOUT_WAIT, "web-0", NULL },
        { { DEPLOYMENT, .noted_sec = 61, .pods = { SILENT("B", "B"), OLD } }, ROLLOUT_PATCH_POD, "web-1", NULL },
        { { DEPLOYMENT, .source = "B", .noted_sec = 61, .pods = { SILENT("B", "B"), NEW } }, ROLLOUT_HAND_BACK,
          "pod \"web-0\": its node \"\" does not answer", NULL },
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "undo", .noted_sec = 60, .pods = { SILENT("B", "A"), OLD } },
          ROLLOUT_WAIT, "web-0", NULL },
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "undo", .noted_sec = 61, .pods = { SILENT("B", "A"), OLD } },
          ROLLOUT_PATCH_POD, "web-0", NULL },
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "undo", .is_silent = true, .n_updated = 2,
            .pods = { SILENT("A", "A"), OLD } }, ROLLOUT_HAND_BACK, "pod \"web-0\": its node \"\" does not answer", NULL },
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "undo", .noted_sec = 99, .pods = { SILENT("A", "A"), OLD } },
          ROLLOUT_WAIT, "has not opened its readiness gate", NULL },
        { { DEPLOYMENT, .source = "B", .noted_sec = 99, .pods = { { .image = "B", .id = "2", .former = FROM_A,
            .gate = CLOSED_FOR("B"), .is_unready = true }, OLD } }, ROLLOUT_WAIT, "has not opened its readiness gate", NULL },
        { { DEPLOYMENT, .source = "B", .noted_sec = 99, .pods = { { .image = "B", .former = FROM_A,
            .gate = CLOSED_FOR("B"), .waiting = "ErrImagePull: later" }, OLD } }, ROLLOUT_WAIT, "ErrImagePull: later", NULL },

        /* StatefulSet: the highest ordinal first, with the label of the new revision */
        { { STATEFUL, .pods = { OLD, OLD } }, ROLLOUT_ABANDON, "changed its template", "\"partition\":0" },
        { { .kind = WORKLOAD_STATEFUL_SET, .record = "undo", TURNED, .pods = { OLD, OLD } }, ROLLOUT_ABANDON,
          "changed its template", "\"partition\":0" },
        { { STATEFUL, TURNED, .is_behind = true, .pods = { OLD, OLD } }, ROLLOUT_WAIT, NULL, NULL },
        { { STATEFUL, TURNED, .pods = { { .image = "A", .is_unready = true }, OLD } }, ROLLOUT_PATCH_POD, "web-0", NULL },
        { { STATEFUL, TURNED, .pods = { { .image = "B", .hash = "new", .former = FROM_A, .is_unready = true }, OLD } },
          ROLLOUT_WAIT, "web-0", NULL },
        /* a pod that serves, if not yet for minReadySeconds, waits for the others */
        { { STATEFUL, TURNED, .min_ready_sec = 8, .pods = { { .image = "A", .is_just_ready = true },
            { .image = "B", .hash = "new", .former = FROM_A } } }, ROLLOUT_WAIT, "web-1", NULL },
        { { STATEFUL, TURNED, .pods = { OLD, OLD } }, ROLLOUT_PATCH_POD, "web-1",
          "\"controller-revision-hash\":\"new\"" },
        { { STATEFUL, TURNED, .n_updated = 1, .pods = { OLD, NEW } }, ROLLOUT_PATCH_POD, "web-0", NULL },
        /* The partition was raised over a pod whose old container is about to end. */
        { { STATEFUL, TURNED, .partition = 1, .pods = { STOPPING, OLD } }, ROLLOUT_WAIT, "web-0", NULL },
        { { STATEFUL, TURNED, .partition = 1, .pods = { OLD, OLD } }, ROLLOUT_PATCH_POD, "web-1", NULL },
        { { STATEFUL, TURNED, .partition = 1, .pods = { NEW, OLD } }, ROLLOUT_PATCH_POD, "web-1", NULL },
        { { STATEFUL, TURNED, .n_updated = 1, .partition = 1, .pods = { OLD, NEW } }, ROLLOUT_HAND_BACK, NULL,
          "\"partition\":1" },
        { { STATEFUL, TURNED, .n_updated = 1, .pods = { NEW, NEW } }, ROLLOUT_WAIT, "count", NULL },
        { { STATEFUL, TURNED, .n_updated = 2, .pods = { NEW, NEW } }, ROLLOUT_HAND_BACK, NULL, "\"partition\":0" },
        /* the controller would make the next pods of the revision before, and replace them after the end */
        { { STATEFUL, TURNED, .current = "old", .n_updated = 2, .pods = { NEW, NEW } }, ROLLOUT_WAIT, "current", NULL },
        { { STATEFUL, TURNED, .current = "old", .n_updated = 2, .n_missing = 1, .pods = { NEW, NEW } }, ROLLOUT_WAIT,
          "missing pods", NULL },
        /* made anew while it was held, of a revision that differs in more than images */
        { { STATEFUL, TURNED, .current = "older", .older_env = "1", .n_updated = 1, .pods = { NEW, { .image = "A", .hash = "older" } } },
          ROLLOUT_HAND_BACK, "pod \"web-1\": it was made of an older template, and its controller replaces it", NULL },
        { { STATEFUL, TURNED, .current = "older", .older_env = "1", .n_updated = 1, .pods = { OLD, { .image = "A", .hash = "older" } } },
          ROLLOUT_PATCH_POD, "web-0", NULL },
        /* Scaled down to web-0, which is made anew. */
        { { STATEFUL, TURNED, .n_updated = 1, .n_missing = -1,
            .pods = { { .image = "A", .deleted = "2001-09-09T01:46:40Z" }, NEW } }, ROLLOUT_WAIT, "missing pods", NULL },
        { { STATEFUL, TURNED, .current = "old", .n_updated = 1, .partition = 1, .pods = { OLD, NEW } }, ROLLOUT_HAND_BACK,
          NULL, NULL },
        /* a pod that the controller made again meanwhile */
        { { STATEFUL, TURNED, .n_updated = 1, .pods = { { .image = "A" }, NEW } }, ROLLOUT_PATCH_POD, "web-0", NULL },
        /* a pod with the image, but not the label */
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
        { { .kind = WORKLOAD_DAEMON_SET, .record = "forward rollout", .template = "B", .pods = { OLD } }, ROLLOUT_WAIT,
          "Revision", NULL },

        /* other clients */
        { { DEPLOYMENT, .is_released = true, .source = "B", .pods = { NEW, OLD } }, ROLLOUT_ABANDON, "let its controller",
          "abandoned" },
        { { STATEFUL, .is_released = true, .pods = { OLD } }, ROLLOUT_ABANDON, "let its controller", NULL },
        { { DEPLOYMENT, .is_released = true, .pods = { NEW, OLD } }, ROLLOUT_STOP, "has resumed it", NULL },
        { { DEPLOYMENT, .is_released = true, .older = "A", .pods = { NEW, OLD } }, ROLLOUT_ABANDON, "let its controller", NULL },
        { { DEPLOYMENT, .is_released = true, .template = "B", .source = "B", .pods = { NEW, OLD } }, ROLLOUT_STOP,
          "has resumed it", NULL },
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "forward rollout", .is_released = true, .pods = { NEW, OLD } },
          ROLLOUT_ABANDON, "with other images", "abandoned" },
        { { DEPLOYMENT, .template = "C", .pods = { OLD } }, ROLLOUT_ABANDON, "changed its template", "\"paused\":false" },
        /* The images before, which the update had replaced, and those after, on the way back. */
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "forward set-image after", .source = "B", .pods = { NEW } },
          ROLLOUT_ABANDON, "changed its template", "\"paused\":false" },
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "undo set-image before", .template = "B", .pods = { OLD } },
          ROLLOUT_ABANDON, "changed its template", "\"paused\":false" },
        { { DEPLOYMENT, .env = "x", .pods = { OLD } }, ROLLOUT_ABANDON, "env", "\"paused\":false" },
        { { STATEFUL, .env = "x", .pods = { OLD } }, ROLLOUT_ABANDON, "env", "\"partition\":0" },
        { { DAEMON, .template = "C", .pods = { OLD } }, ROLLOUT_ABANDON, "changed its template", "RollingUpdate" },
        { { DAEMON, .env = "x", .pods = { OLD } }, ROLLOUT_ABANDON, "its controller brings its pods to its template now", NULL },
        { { DAEMON, .is_begun_held = true, .env = "x", .pods = { OLD } }, ROLLOUT_ABANDON, "its pods stay as they are", NULL },
        { { DAEMON, .is_declared = true, .held = "RollingUpdate", .is_begun_held = true, .env = "x", .pods = { OLD } }, ROLLOUT_ABANDON, "it stays held", NULL },

        /* without a controller's template */
        { { .kind = WORKLOAD_REPLICA_SET, .record = "forward", .pods = { OLD } }, ROLLOUT_PATCH_POD, "web-0", NULL },
        { { .kind = WORKLOAD_REPLICA_SET, .record = "forward", .pods = { NEW } }, ROLLOUT_PATCH_WORKLOAD, NULL, NULL },
        { { .kind = WORKLOAD_REPLICA_SET, .record = "forward", .template = "B", .pods = { OLD } }, ROLLOUT_PATCH_POD,
          "web-0", NULL },
        { { .kind = WORKLOAD_POD, .record = "forward", .pods = { OLD } }, ROLLOUT_PATCH_POD, "web-0", NULL },
        { { .kind = WORKLOAD_POD, .record = "forward", .pods = { NEW } }, ROLLOUT_HAND_BACK, NULL, NULL },
};
/* clang-format on */

TEST(test_plan) {
        for (size_t i = 0; i < N_ELEMENTS(plan_rows); i++)
                check_plan(i, &plan_rows[i]);
}

/* clang-format off */
static const struct PatienceRow {
        const char *name;
        const char *spec;
        RolloutLimits limits;
        int64_t sec;
} patience_rows[] = {
        { "ten minutes", "{}", { .grace_sec = 5 }, 605 },
        { "its own deadline", "{'progressDeadlineSeconds': 60}", { .progress_sec = 3600 }, 60 },
        { "a person has time", "{'progressDeadlineSeconds': 7200}", { .grace_sec = 0 }, 7200 },
        { "no deadline, and others wait", "{'progressDeadlineSeconds': 2147483647}", { .progress_sec = 3600 }, 3600 },
        { "its pods take time", "{'progressDeadlineSeconds': 7200, 'minReadySeconds': 10, 'template': {'spec': "
          "{'terminationGracePeriodSeconds': 30}}}", { .progress_sec = 3600 }, 3640 },
};
/* clang-format on */

/* A run without progress ends: the controller has few places for them. */
TEST_ROWS(test_patience, patience_rows, name, const struct PatienceRow *row) {
        cleanup(json_object_put_p) json_object *workload = parse("{'spec': %s}", row->spec);
        const RolloutView view = { .kind = WORKLOAD_DEPLOYMENT, .workload = workload };

        assert_int_equal(rollout_patience_sec(&view, &row->limits), row->sec);
}

/* Changes after a census; texts are merge patches. */
static const struct FollowRow {
        const char *name;
        int sec; /* time that has passed */
        const char *workload, *record;
        const char *noted; /* new notes of web-1 */
        TestPod pod;       /* web-1, made anew */
        bool is_deleted;   /* web-0 */
        bool is_kept;      /* the other states are */
} follow_rows[] = {
        { "time", .sec = 60 },
        { "the time to be ready", .workload = "{'spec': {'minReadySeconds': 0}}" },
        { "the workload", .workload = "{'metadata': {'uid': 'another'}}" },
        { "the revision", .workload = "{'status': {'updateRevision': 'newer'}}" },
        { "the first ordinal", .workload = "{'spec': {'ordinals': {'start': 1}}}" },
        { "the direction", .record = "{'state': 'undo'}" },
        { "the update", .record = "{'since': '2026-11-21T08:00:00Z'}" },
        { "the partition", .record = "{'partition': 2}" },
        { "the notes", .noted = "{'phase': 'updated', 'since': 0, 'restarts': -1}",
          .is_kept = true },
        { "a pod", .pod = OLD, .is_kept = true },
        { "the pods", .is_deleted = true, .is_kept = true },
        { "the pods and one of them", .pod = OLD, .is_deleted = true, .is_kept = true },
};

static void patch_with(json_object *object, const char *text) {
        cleanup(json_object_put_p) json_object *patch = text ? parse("%s", text) : NULL;

        if (patch)
                assert_ok(json_merge_patch(&object, patch));
}

static void follow(const struct FollowRow *row, const TestState *state, TestView *made) {
        made->view.now_sec += row->sec;
        patch_with(made->view.workload, row->workload);
        patch_with(made->record, row->record);
        if (row->noted)
                json_object_object_add(made->view.noted, "web-1", parse("%s", row->noted));
        if (row->pod.image)
                json_object_object_add(made->view.pods, "web-1", make_pod(state, &row->pod, 1));
        if (row->is_deleted)
                json_object_object_del(made->view.pods, "web-0");
}

/* Returns whether all states are the same. */
static bool censuses_equal(const Census *a, const Census *b) {
        bool is_same = a->n_pods == b->n_pods;

        for (size_t i = 0; is_same && i < a->n_pods; i++) {
                const PodState *left = &a->pods[i], *right = &b->pods[i];

                is_same = left->pod == right->pod && left->phase == right->phase &&
                          text_equal(left->reason, right->reason) &&
                          left->is_member == right->is_member &&
                          left->is_available == right->is_available &&
                          left->n_restarts == right->n_restarts;
        }
        return is_same && a->n_concerned == b->n_concerned && a->n_members == b->n_members &&
               a->n_unavailable == b->n_unavailable && a->n_revised == b->n_revised &&
               memcmp(a->n_by_phase, b->n_by_phase, sizeof(a->n_by_phase)) == 0;
}

TEST(test_pods_below_the_partition) {
        static const TestState state = { STATEFUL, .partition = 2, .pods = { OLD, OLD, OLD } };
        cleanup(view_done) TestView made = make_view(&state);
        cleanup(census_done) Census census = CENSUS_INIT;

        assert_ok(census_take(&made.view, made.record, &census));
        assert_int_equal(census.n_by_phase[ROLLOUT_LEFT], 2);
        assert_int_equal(census.n_concerned, 1);
}

/* A census after another one is as the first one would be, and reads the pods that have changed alone. */
TEST_ROWS(test_follow, follow_rows, name, const struct FollowRow *row) {
        static const TestState state = {
                STATEFUL,
                TURNED,
                .min_ready_sec = 10,
                .pods = { { .image = "B",
                            .hash = "new",
                            .former =
                                    "{\"app\": {\"image\": \"A\", \"id\": \"1\", \"silent\": true, "
                                    "\"since\": \"2026-11-20T08:00:00Z\"}}",
                            .is_unready = true,
                            .gate = CLOSED_FOR("B") },
                          { .image = "B",
                            .hash = "new",
                            .id = "2",
                            .former = "{\"app\": {\"image\": \"A\", \"id\": \"1\", "
                                      "\"since\": \"2026-11-20T08:00:00Z\"}}",
                            .is_just_ready = true },
                          { .image = "B", .hash = "new", .former = FROM_A, .is_scheduled = true } },
        };
        cleanup(view_done) TestView made = make_view(&state);
        cleanup(census_done) Census before = CENSUS_INIT;
        cleanup(census_done) Census census = CENSUS_INIT;
        cleanup(census_done) Census fresh = CENSUS_INIT;
        const char *kept;

        assert_ok(census_take(&made.view, made.record, &before));
        assert_ok(census_take(&made.view, made.record, &census));
        assert_true(censuses_equal(&before, &census));
        kept = census_reason(&census, "web-2");
        follow(row, &state, &made);
        assert_ok(census_take(&made.view, made.record, &census));
        assert_ok(census_take(&made.view, made.record, &fresh));
        assert_true(censuses_equal(&census, &fresh));
        assert_false(censuses_equal(&census, &before));
        if (row->is_kept)
                assert_ptr_equal(census_reason(&census, "web-2"), kept);
}

#define TWIN                                                                                      \
        .kind = WORKLOAD_DEPLOYMENT, .record = "forward rollout", .template = "B", .source = "B", \
        .older = "B"

static const struct TwinRow {
        const char *name;
        TestState state;
        RolloutAction action;
} twin_rows[] = {
        { "lagging pods", { TWIN, .pods = { NEW, OLD } }, ROLLOUT_PATCH_POD },
        { "none any more", { TWIN, .pods = { NEW, NEW } }, ROLLOUT_HAND_BACK },
};

/* Pods lag behind a template that is that of another ReplicaSet as well: there are no other images that would tell the two
 * apart, and the controller counts the pods of the older one. The update goes on, and ends. */
TEST_ROWS(test_twin, twin_rows, name, const struct TwinRow *row) {
        cleanup(view_done) TestView made = make_view(&row->state);
        cleanup(rollout_step_done) RolloutStep step = ROLLOUT_STEP_INIT;

        json_object_object_add(made.record, "before", parse("{'app': 'B'}"));
        plan(&made, &step);
        assert_int_equal(step.action, row->action);
}

static const struct TargetRow {
        const char *record, *image;
} target_rows[] = { { "forward", "B" }, { "undo", "A" }, { "done", "B" }, { "undone", "A" } };

/* Also when the record is closed. */
TEST_ROWS(test_target, target_rows, record, const struct TargetRow *row) {
        const TestState with = { .kind = WORKLOAD_DEPLOYMENT, .record = row->record };
        cleanup(view_done) TestView made = make_view(&with);

        assert_string_equal(json_get_text(record_target(made.record), "app"), row->image);
}

/* clang-format off */
static const struct ReturnRow {
        const char *name;
        TestPod pod;
        RolloutAction action; /* action of the step that the plan has made */
        const char *images;   /* for which the gate is closed then; NULL: the step stays */
        const char *held;     /* the partition that a StatefulSet gets back; NULL: a Deployment */
        const char *record;   /* NULL: "forward" */
} return_rows[] = {
        { "closed for others", { .image = "A", .gate = CLOSED_FOR("B") }, ROLLOUT_ABANDON, "{\\\"app\\\":\\\"A\\\"}", NULL, NULL },
        { "its images", { .image = "B", .gate = CLOSED_FOR("B") }, ROLLOUT_ABANDON, NULL, NULL, NULL },
        { "its own again", { .image = "A", .gate = CLOSED_FOR("A") }, ROLLOUT_ABANDON, NULL, NULL, NULL },
        { "open", { .image = "A", .gate = OPEN }, ROLLOUT_ABANDON, NULL, NULL, NULL },
        { "no gate", { .image = "A" }, ROLLOUT_ABANDON, NULL, NULL, NULL },
        { "deleted", { .image = "A", .gate = CLOSED_FOR("B"), .deleted = "2001-09-09T01:46:40Z" }, ROLLOUT_ABANDON, NULL, NULL, NULL },
        { "handed back", { .image = "A", .gate = CLOSED_FOR("B") }, ROLLOUT_HAND_BACK, NULL, NULL, NULL },
        { "stopped", { .image = "A", .gate = CLOSED_FOR("B") }, ROLLOUT_STOP, NULL, NULL, NULL },
        { "abandoned by another run", { .image = "A", .gate = CLOSED_FOR("B") }, ROLLOUT_STOP, "{\\\"app\\\":\\\"A\\\"}", NULL, "abandoned" },
        { "partition raised", { .image = "A", .gate = CLOSED_FOR("B") }, ROLLOUT_WAIT, "{\\\"app\\\":\\\"A\\\"}", "1", NULL },
        { "above the partition", { .image = "A", .gate = CLOSED_FOR("B") }, ROLLOUT_WAIT, NULL, "0", NULL },
};
/* clang-format on */

/* The agent opens the gate of a pod that will not get the images. */
TEST_ROWS(test_return, return_rows, name, const struct ReturnRow *row) {
        cleanup(view_done) TestView made = make_view(
                &(TestState){ .kind = row->held ? WORKLOAD_STATEFUL_SET : WORKLOAD_DEPLOYMENT,
                              .record = or_else(row->record, "forward"),
                              .is_begun_held = row->held,
                              .held = row->held,
                              .pods = { row->pod } });
        cleanup(rollout_step_done) RolloutStep step = ROLLOUT_STEP_INIT;

        step.action = row->action;
        assert_ok(rollout_plan_return(&made.view, made.record, &step));
        assert_int_equal(step.action, row->images ? ROLLOUT_RETURN_POD : row->action);
        assert_true(
                !row->images ||
                strstr(json_object_to_json_string_ext(step.patch, JSON_C_TO_STRING_NOSLASHESCAPE),
                       row->images));
}

static void check_clean(RolloutStep *step, bool is_copied) {
        assert_int_equal(step->action, is_copied ? ROLLOUT_PATCH_REPLICA_SET : ROLLOUT_WAIT);
        assert_true(!is_copied || text_equal(step->name, "older"));
        rollout_step_done(step);
}

/* A ReplicaSet keeps no copy of an open record, whatever has become of the record. */
TEST(test_clean) {
        for (int is_copied = 0; is_copied < 2; is_copied++) {
                cleanup(view_done) TestView made =
                        make_view(&(TestState){ .kind = WORKLOAD_DEPLOYMENT,
                                                .record = "abandoned",
                                                .template = "C",
                                                .older = "A",
                                                .is_copied = is_copied,
                                                .pods = { OLD } });
                RolloutStep step;

                ASSERT_WITHOUT_MEMORY(rollout_plan_clean(&made.view, &step), 0,
                                      check_clean(&step, is_copied));
        }
}

typedef struct LostCase {
        TestState state;
        const char *patch; /* a part of it */
        bool gives_back;
        const char *message; /* a part of it; NULL: any */
} LostCase;

/* clang-format off */
static const LostCase lost_rows[] = {
        { { DEPLOYMENT, .pods = { OLD } }, "\\\"state\\\":\\\"abandoned\\\"", true, NULL },
        { { DEPLOYMENT, .pods = { OLD } }, "\"spec\":{\"paused\":false}", true, NULL },
        { { DEPLOYMENT, FREE, .pods = { OLD } }, "abandoned", false, NULL },
        { { STATEFUL, .partition = 1, .pods = { OLD } }, "\"partition\":1", true, NULL },
        { { DAEMON, FREE, .pods = { OLD } }, "abandoned", false, "brings its pods" },
        { { .is_declared = true, .held = "paused", DEPLOYMENT, .pods = { OLD } }, "abandoned", false, NULL },
        { { DAEMON, .is_begun_held = true, .pods = { OLD } }, "abandoned", false, "its pods stay as they are" },
};
/* clang-format on */

/* Another client removes the record: the pods are held no more. */
TEST(test_lost) {
        for (size_t i = 0; i < N_ELEMENTS(lost_rows); i++) {
                const LostCase *row = &lost_rows[i];
                cleanup(view_done) TestView made = make_view(&row->state);
                cleanup(rollout_step_done) RolloutStep step = ROLLOUT_STEP_INIT;
                const char *text;

                assert_ok(rollout_plan_lost(&made.view, made.record, &step));
                text = json_object_to_json_string_ext(step.patch, JSON_C_TO_STRING_NOSLASHESCAPE);
                if (!strstr(text, row->patch) ||
                    (object_at(step.patch, "spec") != NULL) != row->gives_back)
                        fail_msg("row %zu: %s", i, text);
                assert_int_equal(step.action, ROLLOUT_ABANDON);
                assert_true(!row->message || strstr(step.message, row->message));
        }
}

/* Pods come in the order in which a run has seen them. */
TEST(test_same_pod_for_each_run) {
        const TestState with = { DEPLOYMENT, .pods = { OLD, OLD } };
        cleanup(view_done) TestView made = make_view(&with);
        cleanup(json_object_put_p) json_object *pods = made.view.pods;
        cleanup(rollout_step_done) RolloutStep step = ROLLOUT_STEP_INIT;

        made.view.pods = json_object_new_object();
        for (int n = 1; n >= 0; n--) {
                const char *name = n == 1 ? "web-1" : "web-0";

                json_object_object_add(made.view.pods, name,
                                       json_object_get(json_object_object_get(pods, name)));
        }
        plan(&made, &step);
        assert_int_equal(step.action, ROLLOUT_PATCH_POD);
        assert_string_equal(step.name, "web-0");
}

/* The controller was let go on for a while: the pods that it made would count as missing without end. */
TEST(test_held_again) {
        for (int n_others = 0; n_others < 2; n_others++) {
                const TestState with = { DEPLOYMENT, .older = "A", .n_others = n_others,
                                         .pods = { NEW, OLD } };
                cleanup(view_done) TestView made = make_view(&with);
                cleanup(rollout_step_done) RolloutStep step = ROLLOUT_STEP_INIT;

                plan(&made, &step);
                assert_int_equal(step.action == ROLLOUT_ABANDON, n_others > 0);
                if (n_others > 0) {
                        assert_null(object_at(step.patch, "spec"));
                        assert_non_null(strstr(step.message, "\"older\""));
                }
        }
}

/* A user has taken the last pod away, or it is gone already. The controller that cannot make another counts none. */
TEST(test_last_pod_is_gone) {
        for (int n_counted = 0; n_counted < 2; n_counted++) {
                const TestState with = { DEPLOYMENT, .n_missing = 1 };
                cleanup(view_done) TestView made = make_view(&with);
                cleanup(rollout_step_done) RolloutStep step = ROLLOUT_STEP_INIT;
                json_object *base = json_object_object_get(made.view.owned, "old");

                json_object_object_add(object_at(base, "status"), "replicas",
                                       json_object_new_int(n_counted));
                plan(&made, &step);
                assert_int_equal(step.action,
                                 n_counted > 0 ? ROLLOUT_WAIT : ROLLOUT_PATCH_REPLICA_SET);
        }
}

static const struct LateRow {
        const char *name;
        TestState state;
        const char *named; /* the pod; NULL: none */
} late_rows[] = {
        { "a Deployment's pod",
          { DONE, .kind = WORKLOAD_DEPLOYMENT, .pods = { NEW, OLD } },
          "web-1" },
        { "its first one", { DONE, .kind = WORKLOAD_DEPLOYMENT, .pods = { OLD, NEW } }, "web-0" },
        { "a StatefulSet's, which is replaced",
          { DONE, .kind = WORKLOAD_STATEFUL_SET, FREE, .pods = { OLD, NEW } },
          NULL },
        { "a DaemonSet's, which is held",
          { DONE, .kind = WORKLOAD_DAEMON_SET, .pods = { NEW, OLD } },
          "web-1" },
        { "after another change of the template",
          { .record = "done", .template = "C", .pods = { NEW, OLD } },
          NULL },
        { "all as they should be",
          { DONE, .kind = WORKLOAD_DEPLOYMENT, .pods = { NEW, NEW } },
          NULL },
        { "in an update that was handed back",
          { .record = "abandoned", .template = "B", .pods = { NEW, OLD } },
          NULL },
};

/* A run that had hung writes a pod after the end of the update, and its controller may mind no images. */
TEST_ROWS(test_late, late_rows, name, const struct LateRow *row) {
        cleanup(view_done) TestView made = make_view(&row->state);
        cleanup(census_done) Census census = CENSUS_INIT;
        cleanup(free_p) char *late = NULL, *expected = NULL;

        assert_ok(census_take(&made.view, made.record, &census));
        assert_ok(rollout_name_late(&made.view, made.record, &census, &late));
        if (!row->named) {
                assert_null(late);
                return;
        }
        assert_true(text_format(&expected, "pod \"%s\": it has other images than the template",
                                row->named) >= 0);
        assert_string_equal(late, expected);
}

static const struct UnfinishedRow {
        const char *name;
        TestState state;
        const char *named; /* NULL: none */
} unfinished_rows[] = {
        { "a pod whose old container still runs",
          { DONE, .kind = WORKLOAD_DEPLOYMENT, .pods = { NEW, STOPPING } },
          "pod \"web-1\": the old container is stopping (grace period 30 s, 30 s left)" },
        { "a pod whose node does not answer",
          { DONE, .kind = WORKLOAD_DEPLOYMENT, .noted_sec = 61, .pods = { SILENT("B", "B"), NEW } },
          "pod \"web-0\": its node \"\" does not answer" },
        { "all as they should be",
          { DONE, .kind = WORKLOAD_DEPLOYMENT, .pods = { NEW, NEW } },
          NULL },
        { "other images, which are late",
          { DONE, .kind = WORKLOAD_DEPLOYMENT, .pods = { NEW, OLD } },
          NULL },
        { "after another change of the template",
          { .record = "done", .template = "C", .pods = { NEW, STOPPING } },
          NULL },
        { "in an update that was handed back",
          { .record = "abandoned", .template = "B", .pods = { NEW, STOPPING } },
          NULL },
};

/* Another run has ended the update, and has named the pods that it gave up; this one has no notes that would say so. */
TEST_ROWS(test_unfinished, unfinished_rows, name, const struct UnfinishedRow *row) {
        cleanup(view_done) TestView made = make_view(&row->state);
        cleanup(census_done) Census census = CENSUS_INIT;
        cleanup(free_p) char *named = NULL;

        assert_ok(census_take(&made.view, made.record, &census));
        assert_ok(rollout_name_unfinished(&made.view, made.record, &census, &named));
        if (row->named)
                assert_string_equal(named, row->named);
        else
                assert_null(named);
}

static const struct AnewRow {
        const char *name;
        const char *uid;     /* uid in the record; NULL: an older version has written it */
        const char *created; /* time of the ReplicaSet, whose uid is "rs" */
        const char *desired; /* number of pods in its annotation; NULL: there is none */
        const char *message;
        bool gives_back;
} anew_rows[] = {
        { "made anew as the update began", "before", "2026-11-20T08:00:00Z", NULL,
          "has deleted its ReplicaSet \"old\"", true },
        { "the same, by a clock that is behind", "before", "2026-11-20T07:59:59Z", NULL,
          "has deleted its ReplicaSet \"old\"", true },
        { "made anew before, and seen by no controller", "", "2026-11-20T07:59:59Z", NULL,
          "has deleted its ReplicaSet \"old\"", true },
        { "made in the second in which the update began, before it", "rs", "2026-11-20T08:00:00Z",
          NULL, "holds it again", false },
        { "made then, for all that an older version has recorded", NULL, "2026-11-20T08:00:00Z",
          NULL, "holds it again", false },
        { "scaled to 0 and up, in that second", "rs", "2026-11-20T08:00:00Z", "0",
          "scaled it to 0 and up again", true },
        { "scaled to 0 and up, and made anew", "before", "2026-11-20T08:00:00Z", "0",
          "scaled it to 0 and up again", true },
};

/* The base was deleted and made anew as the update began, so that the hold is that of the update alone. */
TEST_ROWS(test_made_anew_at_the_beginning, anew_rows, name, const struct AnewRow *row) {
        const TestState with = { DEPLOYMENT, .older = "A", .n_others = 1, .pods = { NEW, OLD } };
        cleanup(view_done) TestView made = make_view(&with);
        cleanup(rollout_step_done) RolloutStep step = ROLLOUT_STEP_INIT;
        json_object *metadata =
                object_at(json_object_object_get(made.view.owned, "old"), "metadata");

        if (row->uid)
                json_object_object_add(made.record, "uid", json_object_new_string(row->uid));
        json_object_object_add(metadata, "creationTimestamp", json_object_new_string(row->created));
        if (row->desired)
                json_object_object_add(metadata, "annotations",
                                       parse("{'deployment.kubernetes.io/desired-replicas':'%s'}",
                                             row->desired));
        plan(&made, &step);
        assert_int_equal(step.action, ROLLOUT_ABANDON);
        assert_int_equal(object_at(step.patch, "spec.paused") != NULL, row->gives_back);
        assert_contains(step.message, row->message);
}

/* clang-format off */
/* The row of a Deployment names its images, where it gets any; no row has a message unless it waits. */
static const PlanCase release_rows[] = {
        { { DEPLOYMENT, .source = "B", .pods = { NEW, OLD } }, ROLLOUT_ABANDON, NULL, "\"image\":\"B\"" },
        { { DEPLOYMENT, .source = "B", .pods = { NEW, OLD } }, ROLLOUT_ABANDON, NULL, "\"paused\":false" },
        { { DEPLOYMENT, .source = "B", .unsettled_sec = 1, .pods = { NEW, OLD } }, ROLLOUT_WAIT, "for other runs", NULL },
        { { .kind = WORKLOAD_DEPLOYMENT, .record = "undo", .source = "A", .template = "B", .pods = { OLD } },
          ROLLOUT_ABANDON, NULL, "\"image\":\"A\"" },
        { { DEPLOYMENT, .source = "C", .template = "B", .pods = { OLD } }, ROLLOUT_ABANDON, NULL, "\"image\":\"C\"" },
        { { DEPLOYMENT, .source = "B", .is_source_behind = true, .pods = { NEW, OLD } }, ROLLOUT_WAIT,
          "for the controllers to see the last change", NULL },
        { { DEPLOYMENT, .source = "B", .is_behind = true, .pods = { NEW, OLD } }, ROLLOUT_WAIT,
          "for the controllers to see the last change", NULL },
        { { DEPLOYMENT, .source = "B", .older = "B", .pods = { NEW, OLD } }, ROLLOUT_PATCH_REPLICA_SET, "older", NULL },
        { { STATEFUL, TURNED, .partition = 1, .pods = { OLD, NEW } }, ROLLOUT_ABANDON, NULL, "\"partition\":1" },
        { { DAEMON, TURNED, .pods = { NEW } }, ROLLOUT_ABANDON, NULL, "\"type\":\"RollingUpdate\"" },
        { { DECLARED, .held = "paused", .template = "B", .kind = WORKLOAD_DEPLOYMENT, .pods = { NEW, OLD } }, ROLLOUT_ABANDON,
          NULL, "\"inplaced.io/held\":null" },
        { { DECLARED, .held = "2", TURNED, .kind = WORKLOAD_STATEFUL_SET, .pods = { OLD, NEW } }, ROLLOUT_ABANDON,
          NULL, "\"partition\":2" },
        { { DECLARED, .held = "12", TURNED, .kind = WORKLOAD_STATEFUL_SET, .pods = { OLD, NEW } }, ROLLOUT_ABANDON,
          NULL, "\"partition\":12" },
        /* Another client has changed the template since. */
        { { STATEFUL, .template = "C", .pods = { OLD } }, ROLLOUT_ABANDON, "changed its template", "\"partition\":0" },
};
/* clang-format on */

/* In the middle of an update a Deployment gets the images of its ReplicaSet: without them its controller would replace all
 * pods. */
TEST(test_release) {
        for (size_t i = 0; i < N_ELEMENTS(release_rows); i++) {
                const PlanCase *row = &release_rows[i];
                cleanup(view_done) TestView made = make_view(&row->state);
                cleanup(rollout_step_done) RolloutStep step = ROLLOUT_STEP_INIT;
                const RolloutLimits limits = { .settled_sec = NOW_SEC + row->state.unsettled_sec };

                assert_ok(rollout_plan_release(&made.view, made.record, &limits, &step));
                check_step(i, row, &step);
        }
}

/* Where another client has let the controller go on, only the record is closed. */
TEST(test_release_free) {
        const TestState with = { DEPLOYMENT, FREE, .source = "B", .pods = { NEW, OLD } };
        cleanup(view_done) TestView made = make_view(&with);
        cleanup(rollout_step_done) RolloutStep step = ROLLOUT_STEP_INIT;
        const RolloutLimits limits = { .grace_sec = 0 };

        assert_ok(rollout_plan_release(&made.view, made.record, &limits, &step));
        assert_int_equal(step.action, ROLLOUT_ABANDON);
        assert_null(object_at(step.patch, "spec"));
}

/* The template still leads forward. */
TEST(test_hold_outlasts_the_way_back) {
        const TestState with = { .kind = WORKLOAD_DEPLOYMENT,
                                 .record = "undo rollout",
                                 .is_declared = true,
                                 .held = "paused",
                                 .template = "B",
                                 .pods = { OLD } };
        cleanup(view_done) TestView made = make_view(&with);
        cleanup(rollout_step_done) RolloutStep step = ROLLOUT_STEP_INIT;

        plan(&made, &step);
        assert_int_equal(step.action, ROLLOUT_HAND_BACK);
        assert_false(json_object_object_get_ex(object_at(step.patch, "metadata.annotations"),
                                               HELD_ANNOTATION, NULL));
}

/* The person who goes on with what admission holds wants the lower pods to stay as they are. */
TEST(test_partition_outlasts_the_hold) {
        const TestState with = { DECLARED,       .held = "0",
                                 TURNED,         .kind = WORKLOAD_STATEFUL_SET,
                                 .n_updated = 1, .pods = { OLD, NEW } };
        cleanup(view_done) TestView made = make_view(&with);
        cleanup(rollout_step_done) RolloutStep step = ROLLOUT_STEP_INIT;

        json_object_object_add(made.record, "partition", json_object_new_int(1));
        plan(&made, &step);
        assert_int_equal(step.action, ROLLOUT_HAND_BACK);
        assert_int_equal(object_integer(step.patch, "spec.updateStrategy.rollingUpdate.partition"),
                         1);
}

/* kubectl rollout undo would bring the annotations of the hold back. */
TEST(test_history_holds_nothing) {
        const TestState with = { DECLARED,         HISTORY,
                                 .held = "paused", .kind = WORKLOAD_DEPLOYMENT,
                                 .template = "B",  .source = "B",
                                 .n_updated = 1,   .pods = { NEW } };
        cleanup(view_done) TestView made = make_view(&with);
        cleanup(rollout_step_done) RolloutStep step = ROLLOUT_STEP_INIT;
        json_object *annotations;

        plan(&made, &step);
        assert_int_equal(step.action, ROLLOUT_CREATE_REPLICA_SET);
        annotations = object_at(step.patch, "metadata.annotations");
        assert_string_equal(json_get_text(annotations, UPDATE_ANNOTATION), UPDATE_ONLY);
        assert_null(json_get_text(annotations, HELD_ANNOTATION));
        assert_null(json_get_text(annotations, ROLLOUT_ANNOTATION));
}

/* clang-format off */
static const struct RehearseRow {
        const char *name;
        TestState state;
        RolloutAction action;
        const char *patch; /* a part of it; NULL: it needs no such write */
} rehearse_rows[] = {
        { "a Deployment's template", { DEPLOYMENT, .pods = { OLD } }, ROLLOUT_PATCH_WORKLOAD, "\"image\":\"B\"" },
        { "a template that leads", { STATEFUL, .pods = { OLD } }, ROLLOUT_PATCH_WORKLOAD, NULL },
        { "a declared template", { DECLARED, .kind = WORKLOAD_DEPLOYMENT, .template = "B", .pods = { OLD } },
          ROLLOUT_PATCH_WORKLOAD, NULL },
        { "a ReplicaSet", { DEPLOYMENT, .pods = { OLD } }, ROLLOUT_PATCH_REPLICA_SET, "\"image\":\"B\"" },
        { "no ReplicaSet", { STATEFUL, .pods = { OLD } }, ROLLOUT_PATCH_REPLICA_SET, NULL },
        { "history", { DEPLOYMENT, HISTORY, .pods = { OLD } }, ROLLOUT_CREATE_REPLICA_SET, "\"image\":\"A\"" },
        { "history that is there", { DEPLOYMENT, HISTORY, .older = "B", .pods = { OLD } }, ROLLOUT_CREATE_REPLICA_SET, NULL },
        { "no history", { STATEFUL, HISTORY, .pods = { OLD } }, ROLLOUT_CREATE_REPLICA_SET, NULL },
        { "a gate", { DEPLOYMENT, .pods = { { .image = "A", .gate = OPEN } } }, ROLLOUT_CLOSE_GATE,
          "\\\"app\\\":\\\"B\\\"" },
        { "a gate that is closed", { DEPLOYMENT, .pods = { { .image = "A", .gate = CLOSED_FOR("B") } } }, ROLLOUT_CLOSE_GATE,
          NULL },
        { "no gate", { DEPLOYMENT, .pods = { OLD } }, ROLLOUT_CLOSE_GATE, NULL },
        { "a pod", { DEPLOYMENT, .pods = { NEW, OLD } }, ROLLOUT_PATCH_POD, "\"uid\":\"u1\"" },
        { "a pod on the way back", { .kind = WORKLOAD_DEPLOYMENT, .record = "undo", .pods = { NEW } }, ROLLOUT_PATCH_POD,
          "\"image\":\"A\"" },
        { "no pod", { DEPLOYMENT, .pods = { NEW } }, ROLLOUT_PATCH_POD, NULL },
        { "the end", { DEPLOYMENT, .pods = { OLD } }, ROLLOUT_HAND_BACK, NULL },
};
/* clang-format on */

/* The server checks the writes before the first one. */
TEST_ROWS(test_rehearse, rehearse_rows, name, const struct RehearseRow *row) {
        cleanup(view_done) TestView made = make_view(&row->state);
        cleanup(rollout_step_done) RolloutStep step = ROLLOUT_STEP_INIT;
        const RolloutLimits limits = { .grace_sec = 0 };
        cleanup(census_done) Census census = CENSUS_INIT;

        assert_ok(census_take(&made.view, made.record, &census));
        assert_ok(rollout_rehearse(&made.view, made.record, &limits, &census, row->action, &step));
        assert_int_equal(step.action, row->patch ? row->action : ROLLOUT_WAIT);
        if (row->patch)
                assert_contains(json_to_text(step.patch), row->patch);
        else
                assert_null(step.patch);
}

typedef struct BeginCase {
        TestState state;
        RolloutMode mode;
        const char *container; /* container that gets "B"; NULL: "app" */
        int partition;         /* partition of the update; 0: none */
        const char *refusal;   /* part of the refusal; NULL: it begins */
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
        { { .pods = { OLD } }, 0, NULL, 0, NULL, "\\\"revision\\\":\\\"old\\\",\\\"uid\\\":\\\"rs\\\"" },
        { { .pods = { OLD }, .is_source_behind = true }, 0, NULL, 0, NULL, "\\\"uid\\\":\\\"rs\\\"" },
        { { .pods = { OLD }, .is_source_unseen = true }, 0, NULL, 0, NULL, "\\\"uid\\\":\\\"\\\"" },
        { { FREE, .source = "B", .template = "B", .pods = { NEW } }, 0, NULL, 0, NULL, "nothing" },
        { { .record = "forward", .pods = { OLD } }, 0, NULL, 0,
          "has begun an update", NULL },
        { { .record = "undo", FREE, .pods = { OLD } }, 0, NULL, 0, "has begun an update", NULL },
        { { .record = "done", FREE, .pods = { OLD } }, 0, NULL, 0, NULL, "\"spec\":{\"paused\":true}" },
        { { FREE, .pods = { OLD } }, 0, "none", 0, "no container \"none\"", NULL },
        { { FREE, .pods = { OLD } }, 0, "init", 0, NULL, "\\\"after\\\":{\\\"init\\\":\\\"B\\\"}" },
        { { FREE, .pods = { OLD }, .is_behind = true }, 0, NULL, 0, "not observed its last change", NULL },
        { { FREE, .pods = { OLD }, .env = "x" }, 0, NULL, 0,
          "in spec.containers[0].env: only images of containers change in place; let its controller replace the pods first", NULL },
        { { FREE, .pods = { OLD }, .template = "C" }, 0, NULL, 0, "do not have the images", NULL },
        { { FREE, .pods = { OLD }, .template = "B" }, 0, NULL, 0, "do not have the images", NULL },
        { { FREE, .pods = { OLD } }, 0, NULL, 1, "--first updates some pods", NULL },
        { { FREE, .pods = { OLD } }, ROLLOUT_FOLLOW, NULL, 0, "\"set image\" begins an update", NULL },
        { { .template = "B", .pods = { OLD } }, ROLLOUT_FOLLOW, NULL, 0, NULL, "\\\"after\\\":{\\\"app\\\":\\\"B\\\"}" },
        { { .pods = { OLD } }, ROLLOUT_FOLLOW, NULL, 0, NULL, "nothing" },
        { { .kind = WORKLOAD_STATEFUL_SET, FREE, .pods = { OLD, OLD } }, 0, NULL, 0, NULL, "\"partition\":2147483647" },
        { { .kind = WORKLOAD_STATEFUL_SET, FREE, .pods = { OLD, OLD } }, 0, NULL, 0, NULL,
          "\"template\":{\"spec\":{\"containers\":[{\"name\":\"app\",\"image\":\"B\"}]}}" },
        { { .kind = WORKLOAD_STATEFUL_SET, FREE, .pods = { OLD, OLD } }, 0, NULL, 2, NULL, "\\\"partition\\\":1" },
        { { .kind = WORKLOAD_STATEFUL_SET, FREE, TURNED, .pods = { OLD, NEW } }, 0, NULL, 0, NULL, "\"partition\"" },
        { { .kind = WORKLOAD_STATEFUL_SET, FREE, TURNED, .pods = { OLD, { .image = "A", .hash = "x" } } }, 0, NULL, 0,
          "several revisions (\"web-1\" is of \"x\", others of \"old\"): a rollout is under way; wait for its end", NULL },
        /* Held, it does not end by itself. */
        { { .kind = WORKLOAD_STATEFUL_SET, .is_declared = true, .held = "0", TURNED, .pods = { OLD, { .image = "A", .hash = "x" } } },
          ROLLOUT_FOLLOW, NULL, 0, "it is held before its end, and kubectl inplace rollout --release lets its controller go on", NULL },
        { { .kind = WORKLOAD_DAEMON_SET, TURNED, .pods = { OLD, { .image = "A", .hash = "x" } } }, ROLLOUT_FOLLOW, NULL, 0,
          "let its controller go on first", NULL },
        { { .kind = WORKLOAD_STATEFUL_SET, FREE, TURNED, .pods = { { .image = "A", .hash = "x" } } }, 0, NULL, 0,
          "is gone", NULL },
        { { .kind = WORKLOAD_STATEFUL_SET, .pods = { OLD } }, 0, NULL, 0, "says why is gone: set spec.updateStrategy.type to OnDelete", NULL },
        /* The controller makes the missing pods of its current revision. */
        { { .kind = WORKLOAD_STATEFUL_SET, TURNED, .held = "0", .current = "old", .n_missing = 1 }, ROLLOUT_FOLLOW, NULL, 0,
          NULL, "\\\"before\\\":{\\\"app\\\":\\\"A\\\"}" },
        { { .kind = WORKLOAD_STATEFUL_SET, TURNED, .held = "0", .current = "old", .n_missing = 1, .pods = { NEW } },
          ROLLOUT_FOLLOW, NULL, 0, NULL, "\\\"before\\\":{\\\"app\\\":\\\"A\\\"}" },
        { { .kind = WORKLOAD_STATEFUL_SET, TURNED, .held = "0", .current = "old", .pods = { NEW } }, ROLLOUT_FOLLOW, NULL, 0,
          NULL, "nothing" },
        { { .kind = WORKLOAD_STATEFUL_SET, TURNED, .held = "0", .n_missing = 1, .pods = { NEW } }, ROLLOUT_FOLLOW, NULL, 0,
          NULL, "nothing" },
        { { .kind = WORKLOAD_STATEFUL_SET, FREE, TURNED, .current = "old", .n_missing = 1, .pods = { NEW } }, 0, NULL, 0,
          NULL, "nothing" },
        { { .kind = WORKLOAD_DAEMON_SET, FREE, .pods = { OLD } }, 0, NULL, 0, NULL, "\"updateStrategy\":{\"type\":\"OnDelete\"}" },
        { { .kind = WORKLOAD_DAEMON_SET, FREE, .pods = { OLD } }, 0, NULL, 0, NULL,
          "\\\"former\\\":{\\\"updateStrategy\\\":{\\\"type\\\":\\\"RollingUpdate\\\"}}" },
        { { .kind = WORKLOAD_DAEMON_SET, TURNED, .pods = { OLD } }, ROLLOUT_FOLLOW, NULL, 0, NULL, "inplaced.io/rollout" },
        { { .kind = WORKLOAD_REPLICA_SET, .pods = { OLD } }, ROLLOUT_FOLLOW, NULL, 0, NULL, "nothing" },
        /* pods that lack the template's image; the way back is to the image that all have */
        { { .kind = WORKLOAD_REPLICA_SET, .template = "B", .pods = { OLD, OLD } }, ROLLOUT_FOLLOW, NULL, 0, NULL,
          "\\\"before\\\":{\\\"app\\\":\\\"A\\\",\\\"init\\\":\\\"I\\\"},\\\"after\\\":{\\\"app\\\":\\\"B\\\",\\\"init\\\":\\\"I\\\"}" },
        { { .kind = WORKLOAD_REPLICA_SET, .template = "B", .pods = { OLD, NEW } }, 0, NULL, 0, NULL,
          "\\\"before\\\":{\\\"app\\\":\\\"B\\\"},\\\"after\\\":{\\\"app\\\":\\\"B\\\"}" },
        { { FREE, .source = "B", .template = "B", .pods = { NEW, OLD } }, 0, NULL, 0, NULL, "\"paused\":true" },
        /* The template has got another container since the pods were made. */
        { { .kind = WORKLOAD_REPLICA_SET, .has_sidecar = true, .pods = { OLD } }, ROLLOUT_FOLLOW, NULL, 0,
          "pod \"web-0\" has no container \"side\", unlike its template: only images of containers change in place; delete that pod first", NULL },
        { { .kind = WORKLOAD_REPLICA_SET, .has_sidecar = true, .pods = { OLD } }, 0, "side", 0,
          "pod \"web-0\" has no container \"side\"", NULL },
        { { .kind = WORKLOAD_REPLICA_SET, .has_sidecar = true, .pods = { { .image = "A", .deleted = "now" }, OLD } }, 0, "side", 0,
          "pod \"web-1\" has no container \"side\"", NULL },
        { { .kind = WORKLOAD_REPLICA_SET, .has_sidecar = true, .pods = { OLD } }, 0, NULL, 0, NULL, "\\\"after\\\":{\\\"app\\\":\\\"B\\\"}" },
        /* Only pods below the partition lack it, and stay as they are. */
        { { .kind = WORKLOAD_STATEFUL_SET, FREE, .partition = 1, .revision = "new", .has_sidecar = true,
            .pods = { OLD, { .image = "A", .hash = "new" } } }, 0, "side", 0, NULL, "\\\"after\\\":{\\\"side\\\":\\\"B\\\"}" },
        /* the gate of a pod that was away while another update went back */
        { { FREE, .source = "B", .template = "B", .pods = { { .image = "B", .gate = CLOSED_FOR("C") } } }, 0, NULL, 0, NULL, "\"paused\":true" },
        { { FREE, .source = "B", .template = "B", .pods = { { .image = "B", .gate = CLOSED_FOR("B") } } }, 0, NULL, 0, NULL, "nothing" },
        { { .kind = WORKLOAD_POD, .pods = { OLD } }, ROLLOUT_FOLLOW, NULL, 0, "has no template to follow: \"set image\" begins one", NULL },
        { { .kind = WORKLOAD_REPLICA_SET, .pods = { OLD } }, 0, NULL, 0, NULL, "inplaced.io/rollout" },
};
/* clang-format on */

TEST(test_begin) {
        for (size_t i = 0; i < N_ELEMENTS(begin_rows); i++)
                check_begin(i, &begin_rows[i]);
}

static const struct LoneRow {
        const char *name;
        TestState state;
        RolloutMode mode;
        const char *refusal; /* a part of it; NULL: there is nothing to do */
} lone_rows[] = {
        { "its controller makes one when the hold ends",
          { .is_declared = true, .held = "paused" },
          ROLLOUT_FOLLOW,
          NULL },
        { "other images",
          { .is_declared = true, .held = "paused" },
          ROLLOUT_SET_IMAGE,
          "no ReplicaSet has its pods or its template, and its controller makes none" },
        { "it is paused",
          { .env = NULL },
          ROLLOUT_FOLLOW,
          "no ReplicaSet has its pods or its template, and its controller makes none" },
        { "its controller goes on",
          { FREE },
          ROLLOUT_SET_IMAGE,
          "its controller has made no ReplicaSet yet" },
};

/* A Deployment has no ReplicaSet: it was just made, or another client has deleted it. */
TEST_ROWS(test_begin_without_replica_set, lone_rows, name, const struct LoneRow *row) {
        cleanup(view_done) TestView made = make_view(&row->state);
        cleanup(json_object_put_p) json_object *images = parse("{'app': 'B'}");
        cleanup(json_object_put_p) json_object *patch = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        const RolloutRequest request = { .mode = row->mode,
                                         .images = row->mode == ROLLOUT_SET_IMAGE ? images : NULL,
                                         .partition = -1,
                                         .by = "alice" };
        int r;

        json_object_object_del(made.view.owned, "old");
        r = rollout_begin(&made.view, &request, &patch, &error);
        assert_true(row->refusal ? r < 0 : r == 0);
        assert_null(patch);
        if (row->refusal)
                assert_contains(error_message(&error), row->refusal);
}

static json_object *read_record(json_object *patch) {
        json_object *record = NULL;

        assert_ok(rollout_record_read(patch, &record, NULL));
        return record;
}

static const struct HeldPartitionRow {
        const char *name;
        const char *first, *then; /* partition that admission keeps */
        int64_t asked;            /* by a person; -1: none */
        RolloutAction action;
} held_partition_rows[] = {
        { "kept", "1", "1", -1, ROLLOUT_HAND_BACK },
        { "lowered", "1", "0", -1, ROLLOUT_PATCH_POD },
        { "raised", "0", "1", -1, ROLLOUT_HAND_BACK },
        { "asked for", "1", "1", 0, ROLLOUT_PATCH_POD },
};

/* Another user may change the partition that admission keeps, while the update is under way: it follows that. */
TEST_ROWS(test_held_partition, held_partition_rows, name, const struct HeldPartitionRow *row) {
        TestState state = { .kind = WORKLOAD_STATEFUL_SET,
                            .is_declared = true,
                            .held = row->first,
                            TURNED,
                            .n_updated = 1,
                            .pods = { OLD, OLD } };
        cleanup(view_done) TestView before = make_view(&state);
        cleanup(view_done) TestView made = { .record = NULL };
        cleanup(json_object_put_p) json_object *patch = NULL;
        cleanup(rollout_step_done) RolloutStep step = ROLLOUT_STEP_INIT;
        const RolloutRequest request = {
                .mode = ROLLOUT_FOLLOW, .by = "alice", .partition = row->asked, .now_sec = NOW_SEC
        };

        assert_ok(rollout_begin(&before.view, &request, &patch, NULL));
        state.held = row->then;
        state.pods[1] = (TestPod) NEW;
        made = make_view(&state);
        made.record = read_record(patch);
        plan(&made, &step);
        assert_int_equal(step.action, row->action);
}

/* With the strategy Recreate the next ReplicaSet has no pods yet, and may have the same template. */
TEST(test_begin_while_pods_end) {
        const TestState state = { FREE, .older = "A", .pods = { OLD } };
        cleanup(view_done) TestView made = make_view(&state);
        cleanup(json_object_put_p) json_object *images = parse("{'app': 'B'}");
        cleanup(json_object_put_p) json_object *patch = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        const RolloutRequest request = {
                .images = images, .partition = -1, .by = "alice", .now_sec = NOW_SEC
        };

        json_object_object_add(object_at(json_object_object_get(made.view.owned, "old"), "spec"),
                               "replicas", json_object_new_int(0));
        assert_true(rollout_begin(&made.view, &request, &patch, &error) < 0);
        assert_contains(error_message(&error), "a rollout is under way; wait for its end");
}

typedef struct ResumeCase {
        TestState state;
        const char *image;  /* image that "app" gets; NULL: no other one */
        const char *images; /* part of the template's patch; NULL: it is not patched */
} ResumeCase;

/* Other images while an update is open: a template that has got its images has those before again. */
TEST(test_resume) {
        static const ResumeCase rows[] = {
                { { DEPLOYMENT, .source = "B", .pods = { NEW, OLD } }, "C", NULL },
                { { DEPLOYMENT, .source = "B", .template = "B", .pods = { NEW, NEW } }, "C", "A" },
                { { .kind = WORKLOAD_REPLICA_SET, .record = "forward", .pods = { OLD } },
                  "C",
                  NULL },
                { { .kind = WORKLOAD_REPLICA_SET,
                    .record = "forward",
                    .template = "B",
                    .pods = { NEW, OLD } },
                  "C",
                  "A" },
                { { .kind = WORKLOAD_REPLICA_SET,
                    .record = "forward",
                    .template = "B",
                    .pods = { NEW, OLD } },
                  NULL,
                  NULL },
                { { .kind = WORKLOAD_POD, .record = "forward set-image after", .pods = { NEW } },
                  "C",
                  NULL },
                { { STATEFUL, TURNED, .pods = { OLD, NEW } }, "C", "C" },
        };
        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                cleanup(view_done) TestView made = make_view(&rows[i].state);
                cleanup(json_object_put_p) json_object *images =
                        rows[i].image ? parse("{'app': '%s'}", rows[i].image) : NULL;
                cleanup(json_object_put_p) json_object *patch = NULL;
                const RolloutRequest request = {
                        .images = images, .by = "bob", .takes_over = true, .partition = -1
                };
                json_object *containers;

                assert_ok(rollout_resume(&made.view, &request, &patch, NULL));
                containers = object_list(patch, "spec.template.spec.containers");
                if (!text_equal(json_get_text(json_find(containers, "name", "app"), "image"),
                                rows[i].images) ||
                    (images && strstr(json_to_text(patch), "written")))
                        fail_msg("row %zu: %s", i, json_to_text(patch));
        }
}

/* A workload that declares its updates has other images by now: the update goes on to those, in all pods, and writes no others. */
TEST(test_resume_to_template) {
        static const struct {
                TestState state;
                const char *held; /* annotation that the hold gets; NULL: it stays as it is */
        } rows[] = {
                { { .is_declared = true,
                    .kind = WORKLOAD_DEPLOYMENT,
                    .record = "forward set-image after",
                    .source = "B",
                    .template = "C",
                    .first = 1,
                    .pods = { NEW, OLD } },
                  "paused" },
                { { .is_declared = true,
                    .kind = WORKLOAD_DEPLOYMENT,
                    .record = "undo set-image before",
                    .template = "C",
                    .pods = { OLD } },
                  "paused" },
                { { .is_declared = true, STATEFUL, .template = "C", .pods = { OLD, NEW } }, "0" },
                { { .is_declared = true,
                    STATEFUL,
                    .template = "C",
                    .partition = 1,
                    .pods = { OLD, NEW } },
                  "1" },
                { { .is_declared = true,
                    STATEFUL,
                    .is_begun_held = true,
                    .held = "0",
                    .template = "C",
                    .pods = { OLD, NEW } },
                  NULL },
                { { .is_declared = true, DAEMON, .template = "C", .pods = { OLD, NEW } },
                  "RollingUpdate" },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                cleanup(view_done) TestView made = make_view(&rows[i].state);
                cleanup(json_object_put_p) json_object *patch = NULL;
                cleanup(json_object_put_p) json_object *record = NULL;
                const RolloutRequest request = { .by = "alice", .partition = -1 };

                assert_ok(rollout_resume(&made.view, &request, &patch, NULL));
                assert_null(object_at(patch, "spec"));
                assert_ok(rollout_record_read(patch, &record, NULL));
                assert_false(record_sets_images(record) || record_is_undo(record));
                assert_null(record_written(record));
                assert_true(record_first(record) == 0);
                assert_true(json_is(record_images(record, true), "app", "A"));
                assert_true(json_is(record_images(record, false), "app", "C"));
                assert_null(object_at(record, "former"));
                assert_null(object_at(
                        record,
                        "partition")); /* the annotation has it, and its users may change it */
                if (!text_equal(workload_held(patch), rows[i].held))
                        fail_msg("row %zu: %s", i, json_to_text(patch));
        }
}

/* The template is the one before again: the way back leads to the update's images, by the revision that has them. */
TEST(test_resume_to_template_before) {
        static const struct {
                TestState state;
                const char *env;      /* variables of the revision with these images */
                const char *revision; /* revision of the record */
        } rows[] = {
                { { .is_declared = true, STATEFUL, .pods = { OLD, NEW } }, NULL, "newer" },
                { { .is_declared = true, DAEMON, .pods = { OLD, NEW } }, NULL, "newer" },
                { { .is_declared = true, DAEMON, .pods = { OLD, NEW } }, "x", "old" },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                cleanup(view_done) TestView made = make_view(&rows[i].state);
                cleanup(json_object_put_p) json_object *patch = NULL;
                cleanup(json_object_put_p) json_object *record = NULL;
                const RolloutRequest request = { .by = "alice", .partition = -1 };

                json_object_object_add(made.view.owned, "newer",
                                       make_revision("newer", 2, "B", rows[i].env));
                assert_ok(rollout_resume(&made.view, &request, &patch, NULL));
                assert_ok(rollout_record_read(patch, &record, NULL));
                assert_true(json_is(record_images(record, true), "app", "B"));
                assert_true(json_is(record_images(record, false), "app", "A"));
                if (!json_is(record, "revision", rows[i].revision))
                        fail_msg("row %zu: %s", i, json_to_text(patch));
        }
}

/* Other images are not written into a template to which its controller brings the pods by now: it would replace them. */
TEST(test_resume_with_images_let_go) {
        static const TestState rows[] = {
                { STATEFUL, TURNED, .is_released = true, .pods = { OLD, NEW } },
                { DAEMON, TURNED, .is_released = true, .pods = { OLD, NEW } },
                { DEPLOYMENT, .is_released = true, .source = "B", .template = "A",
                  .pods = { NEW, OLD } },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                cleanup(view_done) TestView made = make_view(&rows[i]);
                cleanup(json_object_put_p) json_object *images = parse("{'app': 'C'}");
                cleanup(json_object_put_p) json_object *patch = NULL;
                cleanup(error_done) Error error = ERROR_INIT;
                const RolloutRequest request = { .images = images, .by = "alice", .partition = -1 };

                if (rollout_resume(&made.view, &request, &patch, &error) >= 0)
                        fail_msg("row %zu: %s", i, json_to_text(patch));
                assert_int_equal(error.kind, ERROR_CONFLICT);
                assert_contains(error_message(&error), "has let its controller go on");
        }
}

/* A strategy by which users have let its controller go on outlasts the way back. */
TEST(test_resume_let_go) {
        static const struct {
                TestState state;
                bool has_former;
        } rows[] = {
                { { STATEFUL, TURNED, .is_released = true, .pods = { OLD, NEW } }, false },
                { { DAEMON, TURNED, .is_released = true, .pods = { OLD, NEW } }, false },
                { { STATEFUL, TURNED, .pods = { OLD, NEW } }, true },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                cleanup(view_done) TestView made = make_view(&rows[i].state);
                cleanup(json_object_put_p) json_object *patch = NULL;
                cleanup(json_object_put_p) json_object *record = NULL;
                const RolloutRequest request = { .by = "alice",
                                                 .goes_back = true,
                                                 .partition = -1 };

                assert_ok(rollout_resume(&made.view, &request, &patch, NULL));
                assert_ok(rollout_record_read(patch, &record, NULL));
                assert_true(record_is_undo(record));
                if (!object_at(record, "former") == rows[i].has_former)
                        fail_msg("row %zu: %s", i, json_to_text(patch));
        }
}

/* A Deployment that another client has resumed is held again, where its controller replaces no pod. */
TEST(test_resume_held) {
        static const struct {
                TestState state;
                bool is_held;
        } rows[] = {
                { { DEPLOYMENT, .is_released = true, .pods = { NEW, OLD } }, true },
                { { DEPLOYMENT, .is_released = true, .source = "B", .pods = { NEW, OLD } }, false },
                { { DEPLOYMENT, .is_released = true, .template = "C", .pods = { NEW, OLD } },
                  false },
                { { DEPLOYMENT, .pods = { NEW, OLD } }, false },
                { { STATEFUL, .is_released = true, .pods = { OLD, NEW } }, false },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                cleanup(view_done) TestView made = make_view(&rows[i].state);
                cleanup(json_object_put_p) json_object *patch = NULL;
                cleanup(json_object_put_p) json_object *record = NULL;
                const RolloutRequest request = { .by = "alice", .partition = -1 };

                json_object_object_del(made.record, "former");
                assert_ok(rollout_resume(&made.view, &request, &patch, NULL));
                if (json_object_get_boolean(object_at(patch, "spec.paused")) != rows[i].is_held)
                        fail_msg("row %zu: %s", i, json_to_text(patch));
                if (!rows[i].is_held)
                        continue;
                assert_ok(rollout_record_read(patch, &record, NULL));
                assert_non_null(object_at(record, "former.paused"));
        }
}

typedef struct ForeignCase {
        TestState state;
        const char *image; /* image that "app" gets; NULL: no other one */
        bool goes_back;
        int first;
} ForeignCase;

/* Another client's template stays, whatever the request: nothing but the user changes. */
TEST(test_resume_foreign) {
        /* clang-format off */
        static const ForeignCase rows[] = {
                { { STATEFUL, .template = "C", .first = 1, .pods = { OLD, NEW } }, NULL, false, 0 },
                { { STATEFUL, .template = "A", .first = 1, .pods = { OLD, NEW } }, NULL, false, 2 },
                { { STATEFUL, .template = "A", .pods = { OLD, NEW } }, NULL, true, 0 },
                { { STATEFUL, .template = "C", .pods = { OLD, NEW } }, "D", false, 0 },
                { { STATEFUL, TURNED, .env = "x", .pods = { OLD, NEW } }, NULL, true, 0 },
                { { DAEMON, .template = "C", .first = 1, .pods = { OLD, NEW } }, NULL, false, 0 },
                { { DAEMON, .template = "A", .pods = { OLD, NEW } }, NULL, true, 0 },
                { { DEPLOYMENT, .source = "B", .template = "C", .pods = { NEW, OLD } }, "D", false, 0 },
                { { .kind = WORKLOAD_REPLICA_SET, .record = "forward", .template = "C", .pods = { OLD } }, "D", false, 0 },
        };
        /* clang-format on */
        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                cleanup(view_done) TestView made = make_view(&rows[i].state);
                cleanup(json_object_put_p) json_object *images =
                        rows[i].image ? parse("{'app': '%s'}", rows[i].image) : NULL;
                cleanup(json_object_put_p) json_object *patch = NULL;
                cleanup(json_object_put_p) json_object *record = NULL;
                const RolloutRequest request = { .images = images,
                                                 .by = "bob",
                                                 .takes_over = true,
                                                 .goes_back = rows[i].goes_back,
                                                 .first = rows[i].first,
                                                 .partition = -1 };

                assert_ok(rollout_resume(&made.view, &request, &patch, NULL));
                assert_ok(rollout_record_read(patch, &record, NULL));
                json_object_object_add(made.record, "by", json_object_new_string("bob"));
                if (object_at(patch, "spec") || !json_object_equal(record, made.record))
                        fail_msg("row %zu: %s", i, json_to_text(patch));
        }
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

TEST(test_undo) {
        for (size_t i = 0; i < N_ELEMENTS(undo_rows); i++) {
                const UndoCase *row = &undo_rows[i];
                cleanup(view_done) TestView made =
                        make_view(&(TestState){ .record = row->record, .template = row->template });
                RolloutUndo undo = rollout_record_undo(&made.view, made.record);

                if (undo != row->undo)
                        fail_msg("row %zu: %d, not %d", i, undo, row->undo);
        }
}

/* The record says that it undoes an ended update, until it leads to other images. */
TEST(test_undoes) {
        static const TestState ended = {
                .kind = WORKLOAD_REPLICA_SET, .record = "done", .template = "B", .pods = { NEW }
        };
        cleanup(view_done) TestView made = make_view(&ended);
        cleanup(json_object_put_p) json_object *before = parse("{'app': 'A'}");
        cleanup(json_object_put_p) json_object *other = parse("{'app': 'C'}");
        cleanup(json_object_put_p) json_object *patch = NULL;
        cleanup(json_object_put_p) json_object *record = NULL;
        RolloutRequest request = {
                .images = before, .undone = made.record, .by = "alice", .partition = -1
        };
        assert_ok(rollout_begin(&made.view, &request, &patch, NULL));
        record = read_record(patch);
        assert_true(record_undoes(record) && !record_is_undo(record));

        json_object_object_add(object_at(made.view.workload, "metadata.annotations"),
                               ROLLOUT_ANNOTATION, json_object_new_string(json_to_text(record)));
        for (int i = 0; i < 3; i++) {
                cleanup(json_object_put_p) json_object *next = NULL;
                cleanup(json_object_put_p) json_object *changed = NULL;

                request = (RolloutRequest){ .images = i == 1 ? other : NULL,
                                            .goes_back = i == 2,
                                            .by = "bob",
                                            .takes_over = true,
                                            .partition = -1 };
                assert_ok(rollout_resume(&made.view, &request, &next, NULL));
                changed = read_record(next);
                assert_int_equal(record_undoes(changed), i == 0);
        }
}

/* Other images that another client has written count as well. */
TEST(test_undoes_no_more) {
        static const TestState declared = { .is_declared = true,
                                            .kind = WORKLOAD_DAEMON_SET,
                                            .record = "forward",
                                            .template = "C",
                                            .pods = { OLD } };
        cleanup(view_done) TestView made = make_view(&declared);
        const RolloutRequest request = { .by = "bob", .takes_over = true, .partition = -1 };
        cleanup(json_object_put_p) json_object *patch = NULL;
        cleanup(json_object_put_p) json_object *record = json_copy(made.record);

        assert_ok(patch_add_bool(record, "undoes", true));
        json_object_object_add(object_at(made.view.workload, "metadata.annotations"),
                               ROLLOUT_ANNOTATION, json_object_new_string(json_to_text(record)));
        assert_ok(rollout_resume(&made.view, &request, &patch, NULL));
        json_object_put(record);
        record = read_record(patch);
        assert_string_equal(json_get_text(record_target(record), "app"), "C");
        assert_false(record_undoes(record));
}

static void check_and_put(json_object *patch, json_object *expected) {
        assert_true(json_object_equal(patch, expected));
        json_object_put(patch);
}

/* A lower partition with the same images goes on with the update that has ended, and the way back is that of both. */
TEST(test_lower_partition) {
        static const struct {
                const char *state, *before;
                int64_t ended;  /* partition of the update that has ended */
                int64_t former; /* partition before */
                int now;        /* partition of the workload */
        } rows[] = {
                { "done", "A", 2, 0, 2 }, { "undone", "A", 2, 2, 2 }, { "done", "X", 2, 2, 2 },
                { "done", "A", 1, 2, 2 }, /* another client has changed it since */
                { "done", "A", 1, 1, 1 }, /* the same partition is no lower one */
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                const TestState state = { .kind = WORKLOAD_STATEFUL_SET,
                                          .record = rows[i].state,
                                          FREE,
                                          TURNED,
                                          .partition = rows[i].now,
                                          .pods = { OLD, OLD, NEW } };
                cleanup(view_done) TestView made = make_view(&state);
                cleanup(json_object_put_p) json_object *images = parse("{'app': 'B'}");
                cleanup(json_object_put_p) json_object *patch = NULL;
                cleanup(json_object_put_p) json_object *record = NULL;
                const RolloutRequest request = {
                        .images = images, .by = "bob", .partition = 1, .now_sec = NOW_SEC
                };
                json_object *again;

                json_object_object_add(made.record, "partition",
                                       json_object_new_int64(rows[i].ended));
                json_object_object_add(made.record, "before",
                                       parse("{'app': '%s'}", rows[i].before));
                json_object_object_add(object_at(made.record,
                                                 "former.updateStrategy.rollingUpdate"),
                                       "partition", json_object_new_int(0));
                json_object_object_add(object_at(made.view.workload, "metadata.annotations"),
                                       ROLLOUT_ANNOTATION,
                                       json_object_new_string(json_to_text(made.record)));
                assert_ok(rollout_begin(&made.view, &request, &patch, NULL));
                ASSERT_WITHOUT_MEMORY(rollout_begin(&made.view, &request, &again, NULL), 0,
                                      check_and_put(again, patch));
                record = read_record(patch);
                assert_int_equal(record_partition(record), 1);
                assert_int_equal(object_integer(record,
                                                "former.updateStrategy.rollingUpdate.partition"),
                                 rows[i].former);
                assert_int_equal(json_is(record, "since", "2026-11-20T08:00:00Z"),
                                 rows[i].former == 0);
        }
}

/* The undo goes back in all pods of the update: it does not leave those below the partition before. */
TEST(test_undo_lower_partition) {
        const TestState state = { .kind = WORKLOAD_STATEFUL_SET,
                                  .record = "done",
                                  FREE,
                                  TURNED,
                                  .pods = { NEW, NEW, NEW } };
        cleanup(view_done) TestView made = make_view(&state);
        cleanup(json_object_put_p) json_object *images = parse("{'app': 'A'}");
        cleanup(json_object_put_p) json_object *patch = NULL;
        cleanup(json_object_put_p) json_object *record = NULL;
        const RolloutRequest request = {
                .images = images, .by = "bob", .undone = made.record, .partition = -1
        };

        json_object_object_add(made.record, "partition", json_object_new_int64(0));
        json_object_object_add(object_at(made.record, "former.updateStrategy.rollingUpdate"),
                               "partition", json_object_new_int(2));
        assert_ok(rollout_begin(&made.view, &request, &patch, NULL));
        record = read_record(patch);
        assert_ok(record_partition(record));
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
        { FORWARD ", 'former': {'updateStrategy': {'rollingUpdate': 5}}}", "cannot be read" },
        { FORWARD ", 'former': {'updateStrategy': {'rollingUpdate': null}}}", NULL },
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

TEST(test_record) {
        for (size_t i = 0; i < N_ELEMENTS(record_rows); i++)
                check_record(i, &record_rows[i]);
}

#define ALWAYS "'restartPolicy': 'Always'"
#define NEVER "'restartPolicy': 'Never'"
#define NEVER_WITH(policy) \
        NEVER ", 'volumes': [{'name':'data','image':{'reference':'V','pullPolicy':'" policy "'}}]"

static const struct StartRow {
        const char *name;
        const char *spec;   /* more of the pod's */
        const char *policy; /* imagePullPolicy of its container */
        bool has_preloaded;
        const char *refusal; /* NULL: it is updated */
        bool is_ended;
} start_rows[] = {
        { "it comes back", ALWAYS, "Always", false, NULL, false },
        { "its image may be missing", NEVER, "IfNotPresent", false, "of container app", false },
        { "its image is there", NEVER, "IfNotPresent", true, NULL, false },
        { "the registry is asked for it", NEVER, "Always", true, "of container app", false },
        { "or for a volume", NEVER_WITH("Always"), "IfNotPresent", true, "of volume data", false },
        { "but not for this one", NEVER_WITH("IfNotPresent"), "IfNotPresent", true, NULL, false },
        { "it stays ended", NEVER, "IfNotPresent", true,
          "pod/web: container app has ended, and its restart policy or rules might not start it again",
          true },
        { "it is started again", ALWAYS, "IfNotPresent", true, NULL, true },
};

/* A container is not updated that the kubelet would not start, or only if the registry answers. */
TEST_ROWS(test_start, start_rows, name, const struct StartRow *row) {
        cleanup(json_object_put_p) json_object *record = parse("{'after': {'app': 'B'}}");
        cleanup(json_object_put_p) json_object *pod =
                parse("{'metadata': {'name': 'web'}, 'spec': {'containers': [{'name': 'app', "
                      "'image': 'A', 'imagePullPolicy': '%s'}], %s}, 'status': "
                      "{'containerStatuses': [{'name': 'app', 'state': {'%s': {}}}]}}",
                      row->policy, row->spec, row->is_ended ? "terminated" : "running");
        PodState state = { .pod = pod, .phase = ROLLOUT_OLD };
        const Census census = { .pods = &state, .n_pods = 1 };
        cleanup(error_done) Error error = ERROR_INIT;
        int r = rollout_check_returns(&census, record, row->has_preloaded, &error);

        assert_int_equal(r < 0, row->refusal != NULL);
        if (row->refusal)
                assert_contains(error_message(&error), row->refusal);
}
