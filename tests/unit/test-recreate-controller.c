/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests the part of a controller for a restart request
 */

#include "tests/unit/unit.h"

#include "agent/base/text.h"
#include "agent/recreate/recreate-plan.h"
#include "agent/recreate/recreate-controller-spec.h"
#include "tests/unit/quoted-json.h"

#define HERE .are_pods_known = true, .has_pod = true
#define NEVER UINT64_MAX

typedef struct Row {
        const char *name;
        RecreateSpec spec;
        RecreateView view;
        RecreateAction action;
        const char *message;
        uint64_t wait_sec;
} Row;

/* Created at 1000. A time of 0 stands for none. */
#define SPEC(...) \
        { .created_at = 1000, __VA_ARGS__ }
#define RUNS .status = { .phase = RECREATE_RECREATING }
#define ENDED .status = { .phase = RECREATE_COMPLETED, .is_completed = true, .completed_at = 2000 }

/* clang-format off */
static const Row rows[] = {
        { "nothing is asked of a controller", SPEC(RUNS), { HERE, .now_sec = 1001 },
          RECREATE_ACTION_NONE, NULL, NEVER },
        { "is invalid", SPEC(.problem = (char *) "spec: has no podName"), { HERE },
          RECREATE_ACTION_COMPLETE, "spec: has no podName", NEVER },
        { "has time", SPEC(.deadline_sec = 60, RUNS), { HERE, .now_sec = 1001, .known_sec = 1 },
          RECREATE_ACTION_NONE, NULL, 59 },
        { "has no time any more", SPEC(.deadline_sec = 60, RUNS),
          { HERE, .now_sec = 1060, .known_sec = 2 }, RECREATE_ACTION_COMPLETE,
          "recreating has exceeded the activeDeadlineSeconds", NEVER },
        { "has no time any more, though the clock says otherwise", SPEC(.deadline_sec = 60, RUNS),
          { HERE, .now_sec = 5, .known_sec = 60 }, RECREATE_ACTION_COMPLETE,
          "recreating has exceeded the activeDeadlineSeconds", NEVER },
        { "the pod is gone", SPEC(RUNS), { .are_pods_known = true }, RECREATE_ACTION_COMPLETE,
          "pod has gone", NEVER },
        { "the pods are not known", SPEC(RUNS), { 0 }, RECREATE_ACTION_NONE, NULL, NEVER },
        { "the pod is being deleted", SPEC(RUNS), { HERE, .is_pod_deleted = true },
          RECREATE_ACTION_COMPLETE, "pod has gone", NEVER },
        { "the pod has finished before", SPEC(), { HERE, .is_pod_finished = true },
          RECREATE_ACTION_COMPLETE, "pod has finished", NEVER },
        { "the pod finishes by what is being stopped", SPEC(RUNS),
          { HERE, .is_pod_finished = true, .is_stopping = true }, RECREATE_ACTION_NONE, NULL,
          NEVER },
        { "the pod has finished by what was stopped", SPEC(RUNS), { HERE, .is_pod_finished = true },
          RECREATE_ACTION_COMPLETE, "pod has finished", NEVER },
        { "is to be drained, but has to wait", SPEC(.unready_sec = 3, RUNS), { HERE },
          RECREATE_ACTION_NONE, NULL, NEVER },
        { "is to be drained", SPEC(.unready_sec = 3, RUNS), { HERE, .has_turn = true },
          RECREATE_ACTION_DRAIN, NULL, NEVER },
        { "is to be drained, but the pods are not known",
          SPEC(.unready_sec = 3, .deadline_sec = 60, RUNS),
          { .has_turn = true, .now_sec = 1001, .known_sec = 1 }, RECREATE_ACTION_NONE, NULL, 59 },
        { "is to be drained, by the gate", SPEC(.unready_sec = 3, RUNS),
          { HERE, .has_turn = true, .has_pod_gate = true }, RECREATE_ACTION_CLOSE_GATE, NULL,
          NEVER },
        { "the gate is closed", SPEC(.unready_sec = 3, RUNS),
          { HERE, .has_turn = true, .has_pod_gate = true, .is_gate_closed = true },
          RECREATE_ACTION_DRAIN, NULL, NEVER },
        { "is drained", SPEC(.unready_sec = 3, .is_drained = true, RUNS),
          { HERE, .has_turn = true, .has_pod_gate = true }, RECREATE_ACTION_NONE, NULL, NEVER },
        { "is over: the gate is opened", SPEC(.unready_sec = 3, ENDED),
          { HERE, .has_pod_gate = true, .is_gate_closed = true }, RECREATE_ACTION_OPEN_GATE, NULL,
          NEVER },
        { "is over, and the gate is open", SPEC(.unready_sec = 3, ENDED),
          { HERE, .has_pod_gate = true, .is_gate_opened = true }, RECREATE_ACTION_UNLABEL, NULL,
          NEVER },
        { "is over, but a stop is not", SPEC(ENDED), { HERE, .is_stopping = true },
          RECREATE_ACTION_NONE, NULL, NEVER },
        { "is over, and stays", SPEC(ENDED), { HERE }, RECREATE_ACTION_UNLABEL, NULL, NEVER },
        { "is over, and stays for a while", SPEC(.ttl_sec = 60, ENDED), { HERE, .now_sec = 2010 },
          RECREATE_ACTION_NONE, NULL, 50 },
        { "is over for long enough", SPEC(.ttl_sec = 60, ENDED), { HERE, .now_sec = 2060 },
          RECREATE_ACTION_DELETE, NULL, NEVER },
        { "is over, and the pods are not known", SPEC(.ttl_sec = 1, .unready_sec = 3, ENDED),
          { .now_sec = 2001 }, RECREATE_ACTION_NONE, NULL, NEVER },
        { "is over, and which pods there are is not known any more, but the gate is open",
          SPEC(.ttl_sec = 1, .unready_sec = 3, ENDED), { .now_sec = 2001, .is_gate_opened = true },
          RECREATE_ACTION_DELETE, NULL, NEVER },
        { "is over, and its pod is gone", SPEC(.ttl_sec = 1, .unready_sec = 3, ENDED),
          { .are_pods_known = true, .now_sec = 2001 }, RECREATE_ACTION_DELETE, NULL, NEVER },
        { "is being deleted", SPEC(.is_deleted = true, ENDED), { HERE }, RECREATE_ACTION_NONE, NULL,
          NEVER },
};
/* clang-format on */

TEST_ROWS(test_row, rows, name, const Row *row) {
        RecreateSpec spec = row->spec;
        RecreateActionPlan plan;

        spec.deadline_sec = spec.deadline_sec ?: -1;
        spec.ttl_sec = spec.ttl_sec ?: -1;
        spec.unready_sec = spec.unready_sec ?: -1;
        plan = recreate_controller_plan(&spec, &row->view);
        assert_int_equal(plan.action, row->action);
        assert_string_equal(plan.message ?: "", row->message ?: "");
        assert_true(plan.wait_sec == row->wait_sec);
}

#define ADOPTED                                                                           \
        "{'metadata':{'resourceVersion':'7','labels':{'crr.apps.kruise.io/node-name':"    \
        "'node-1','crr.apps.kruise.io/active':'true','crr.apps.kruise.io/pod-uid':'p-1'," \
        "'inplaced.io/managed':'true'}},'spec':{'strategy':{'failurePolicy':'Fail',"      \
        "'terminationGracePeriodSeconds':25}"

TEST(test_adopt) {
        PodContainer containers[] = {
                { .name = (char *) "app",
                  .container_id = (char *) "containerd://a1",
                  .restart_count = 3 },
                { .name = (char *) "new", .container_id = (char *) "" },
        };
        const Pod pod = {
                .uid = (char *) "p-1", .grace_sec = 25, .containers = containers, .n_containers = 2
        };
        cleanup(json_object_put_p) json_object *spec =
                parse("{'podName':'web','strategy':"
                      "{'orderedRecreate':true},'containers':[{'name':'app','preStop':{'exec':"
                      "{'command':['x']}},'ports':[1]},{'name':'new'},{'name':'ghost'}]}");
        cleanup(json_object_put_p) json_object *patch = NULL, *again = NULL;

        assert_ok(recreate_controller_adopt(spec, "7", &pod, "node-1", false, &patch));
        assert_json(
                patch, ADOPTED
                ",'containers':[{'name':'app','preStop':{'exec':"
                "{'command':['x']}},'ports':[1],'statusContext':{'containerID':'containerd://a1',"
                "'restartCount':3}},{'name':'new'},{'name':'ghost'}]}}");
        assert_ok(recreate_controller_adopt(spec, "7", &pod, "node-1", true, &again));
        assert_json(again, ADOPTED "}}");
}

TEST(test_drain) {
        static const RecreateSpec spec = {
                .version = (char *) "7",
                .conditions = (char *) "[{\"type\":\"Other\",\"status\":\"True\"},"
                                       "{\"type\":\"PreRecreateGrace\",\"status\":\"False\"}]",
        };
        cleanup(json_object_put_p) json_object *new = NULL, *old = NULL;

        assert_ok(recreate_controller_drain(&spec, RECREATE_V1BETA1, 60, &new));
        assert_json(new,
                    "{'metadata':{'resourceVersion':'7'},'status':{'conditions':[{'type':'Other',"
                    "'status':'True'},{'type':'PreRecreateGrace','status':'True',"
                    "'lastTransitionTime':'1970-01-01T00:01:00Z','reason':'PreRecreateGrace'}]}}");
        assert_ok(recreate_controller_drain(&spec, RECREATE_V1ALPHA1, 60, &old));
        assert_json(old, "{'metadata':{'resourceVersion':'7','annotations':"
                         "{'crr.apps.kruise.io/unready-acquired':'1970-01-01T00:01:00Z'}}}");
}

TEST(test_snapshot) {
        RecreateContainer named[] = {
                { .name = (char *) "same", .context_id = (char *) "containerd://s1" },
                { .name = (char *) "anew", .context_id = (char *) "containerd://a1" },
                { .name = (char *) "first" },
                { .name = (char *) "ended", .context_id = (char *) "containerd://e1" },
                { .name = (char *) "ghost" },
        };
        PodContainer containers[] = {
                { .name = (char *) "same",
                  .container_id = (char *) "containerd://s1",
                  .is_running = true,
                  .is_ready = true },
                { .name = (char *) "anew",
                  .container_id = (char *) "containerd://a2",
                  .restart_count = 3,
                  .is_running = true,
                  .is_ready = true },
                { .name = (char *) "first",
                  .container_id = (char *) "containerd://f1",
                  .is_running = true },
                { .name = (char *) "ended", .container_id = (char *) "containerd://e2" },
        };
        const RecreateSpec spec = { .containers = named, .n_containers = 5 };
        const RecreateSpec other = { .containers = named, .n_containers = 1 };
        const Pod pod = { .containers = containers, .n_containers = 4 };
        cleanup(json_object_put_p) json_object *list = NULL;
        struct json_object *none;

        assert_ok(recreate_controller_snapshot(&spec, &pod, &list));
        assert_json(list, "[{'name':'anew','ready':true,'restartCount':3,'containerID':"
                          "'containerd://a2'},{'name':'first','ready':false,'restartCount':0,"
                          "'containerID':'containerd://f1'}]");
        assert_ok(recreate_controller_snapshot(&other, &pod, &none));
        assert_null(none);
}

TEST(test_unlabel) {
        static const RecreateSpec spec = { .version = (char *) "7" };
        cleanup(json_object_put_p) json_object *unlabel = NULL;

        assert_ok(recreate_controller_unlabel(&spec, &unlabel));
        assert_json(unlabel, "{'metadata':{'resourceVersion':'7','labels':"
                             "{'crr.apps.kruise.io/active':null}}}");
}

#define POD(status, message)                                                               \
        "{'metadata':{'uid':'p-1','resourceVersion':'9'},'status':{'conditions':[{'type':" \
        "'Ready','status':'True'},{'type':'KruisePodReady','status':'" status              \
        "','message':'" message "'}]}}"
#define PATCH(status, message)                                                \
        "{'status':{'conditions':[{'type':'KruisePodReady','status':'" status \
        "','lastTransitionTime':'1970-01-01T00:01:00Z','message':'" message   \
        "'}]},'metadata':{'uid':'p-1','resourceVersion':'9'}}"
#define OURS "{\\'userAgent\\':\\'ContainerRecreateRequest\\',\\'key\\':\\'d/n\\'}"
#define OTHER "{\\'userAgent\\':\\'X\\',\\'key\\':\\'y\\'}"

static const struct GateRow {
        const char *pod;
        bool is_closed;
        const char *patch; /* NULL: none is needed */
} gate_rows[] = {
        { POD("True", ""), true, PATCH("False", "[" OURS "]") },
        { "{'metadata':{'uid':'p-1','resourceVersion':'9'}}", true, PATCH("False", "[" OURS "]") },
        { POD("False", "[" OURS "]"), true, NULL },
        { POD("True", "[" OURS "]"), true, PATCH("False", "[" OURS "]") },
        { POD("False", "[" OTHER "]"), true, PATCH("False", "[" OTHER "," OURS "]") },
        { POD("False", "[" OURS "]"), false, PATCH("True", "") },
        { POD("False", "[" OURS "," OTHER "]"), false, PATCH("False", "[" OTHER "]") },
        { POD("True", ""), false, NULL },
        { POD("False", "no list"), true, PATCH("False", "[" OURS "]") },
};

#define WRITER(agent, key) "{\"userAgent\":\"" agent "\",\"key\":\"" key "\"}"
#define REQUEST(key) WRITER("ContainerRecreateRequest", key)

/* Names of other namespaces, and of other writers, are no requests of this pod. */
TEST(test_requests_of_a_gate) {
        static const struct {
                const char *message;
                const char *names; /* each with a space */
        } messages[] = {
                { NULL, "" },
                { "no list", "" },
                { "[" REQUEST("d/n") "," WRITER("X", "d/o") "," REQUEST("e/p") "," REQUEST(
                          "dd/q") "," REQUEST("d/") "," REQUEST("d/r") "]",
                  "n r " },
        };

        for (size_t i = 0; i < N_ELEMENTS(messages); i++) {
                const Pod pod = { .namespace = (char *) "d",
                                  .kruise_message = (char *) messages[i].message };
                cleanup(texts_free_p) char **names = NULL;
                char joined[64] = "";

                assert_ok(recreate_gate_requests(&pod, &names));
                for (size_t k = 0; names[k]; k++) {
                        strcat(joined, names[k]);
                        strcat(joined, " ");
                }
                assert_string_equal(joined, messages[i].names);
        }
}

TEST_ROWS(test_gate, gate_rows, pod, const struct GateRow *row) {
        static const RecreateSpec spec = { .namespace = (char *) "d", .name = (char *) "n" };

        cleanup(json_object_put_p) json_object *pod = parse("%s", row->pod);
        cleanup(json_object_put_p) json_object *patch = NULL;

        assert_ok(recreate_controller_gate(pod, &spec, row->is_closed, 60, &patch));
        assert_int_equal(!patch, !row->patch);
        if (patch)
                assert_json(patch, row->patch);
}
