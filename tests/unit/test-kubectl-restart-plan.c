/* SPDX-License-Identifier: Apache-2.0 */

/* Requests to restart containers, and how their status reads. */

#include "tests/unit/unit.h"

#include "agent/kubectl/restart-plan.h"
#include "tests/unit/quoted-json.h"

static const struct TargetsRow {
        const char *text;
        const char *pods; /* NULL: refused */
        const char *container;
} targets_rows[] = {
        { "web-0", "web-0", NULL },
        { "web-0/main", "web-0", "main" },
        { "pod/web-0", "pod/web-0", NULL },
        { "pod/web-0/main", "pod/web-0", "main" },
        { "deploy/web", "deploy/web", NULL },
        { "deploy/web/main", "deploy/web", "main" },
        { "", NULL, NULL },
        { "/", NULL, NULL },
        { "web-0/", NULL, NULL },
        { "/main", NULL, NULL },
        { "web-0/main/x", NULL, NULL },
        { "deploy/web/main/x", NULL, NULL },
        { "deploy/", NULL, NULL },
};

TEST_ROWS(test_targets, targets_rows, text, const struct TargetsRow *row) {
        cleanup(restart_target_done) RestartTarget target = RESTART_TARGET_INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        int r = restart_target_parse(row->text, &target, &error);

        assert_true((r < 0) == !row->pods);
        assert_int_equal(error.kind, r < 0 ? ERROR_INVALID : ERROR_NONE);
        if (r < 0)
                return;
        assert_string_equal(target.pods, row->pods);
        if (row->container)
                assert_string_equal(target.container, row->container);
        else
                assert_null(target.container);
}

#define POD                                                                          \
        "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'a'},{'name':'b'}]," \
        "'initContainers':[{'name':'i'},{'name':'s','restartPolicy':'Always'}]}}"

static const struct ContainersRow {
        const char *names;
        const char *list; /* NULL: refused */
} containers_rows[] = {
        { NULL, "[\"a\",\"b\"]" }, { "b", "[\"b\"]" }, { "s,a", "[\"s\",\"a\"]" }, { "i", NULL },
        { "a,none", NULL },        { "", NULL },
};

TEST_ROWS(test_containers, containers_rows, names, const struct ContainersRow *row) {
        cleanup(json_object_put_p) json_object *pod = parse("%s", POD);
        cleanup(error_done) Error error = ERROR_INIT;

        cleanup(json_object_put_p) json_object *list = NULL;
        int r = restart_plan_containers(pod, row->names, &list, &error);

        assert_true(row->list ? r == 0 : r < 0);
        if (r >= 0)
                assert_string_equal(json_object_to_json_string_ext(list, 0), row->list);
        else
                assert_contains(error_message(&error), "the pod has a, b");
}

TEST(test_body) {
        cleanup(json_object_put_p) json_object *containers = parse("['a','b']");
        cleanup(json_object_put_p) json_object *body = NULL;
        const RestartRequest request = { "v1beta1", "p", "7f", containers, 600 };

        assert_ok(restart_plan_body(&request, &body));
        assert_json(body,
                    "{'apiVersion':'apps.kruise.io/v1beta1','kind':'ContainerRecreateRequest',"
                    "'metadata':{'generateName':'inplace-restart-',"
                    "'labels':{'inplaced.io/restart':'7f'}},"
                    "'spec':{'podName':'p','containers':[{'name':'a'},{'name':'b'}],"
                    "'ttlSecondsAfterFinished':600}}");
}

static const struct EndsRow {
        const char *request;
        RestartEnd end;
        const char *why;
} ends_rows[] = {
        { "{}", RESTART_RUNNING, NULL },
        { "[]", RESTART_RUNNING, NULL },
        { "{'status':{'phase':'Recreating','containerRecreateStates':[{'phase':'Failed'}]}}",
          RESTART_RUNNING, NULL },
        { "{'status':{'phase':'Completed','containerRecreateStates':[{'phase':'Succeeded'}]}}",
          RESTART_SUCCEEDED, NULL },
        { "{'status':{'phase':'Completed','message':'too late','containerRecreateStates':["
          "{'phase':'Succeeded'},{'name':'b','phase':'Pending'}]}}",
          RESTART_FAILED, "container b: too late" },
        { "{'status':{'phase':'Completed','containerRecreateStates':["
          "{'name':'b','phase':'Failed','message':'no'}]}}",
          RESTART_FAILED, "container b: no" },
        { "{'status':{'phase':'Completed','message':'the pod is gone'}}", RESTART_FAILED,
          "the pod is gone" },
        { "{'status':{'phase':'Completed'}}", RESTART_FAILED, NULL },
};

TEST_ROWS(test_ends, ends_rows, request, const struct EndsRow *row) {
        cleanup(json_object_put_p) json_object *request = parse("%s", row->request);
        cleanup(free_p) char *why = NULL;
        RestartEnd end;

        assert_ok(restart_plan_read(request, &end, &why));
        assert_int_equal(end, row->end);
        if (row->why)
                assert_string_equal(why, row->why);
        else
                assert_null(why);
}

static const struct PodsRow {
        const char *pod;
        bool is_over;
} pods_rows[] = {
        { "{}", false },
        { "{'status':{'phase':'Running'}}", false },
        { "{'status':{'phase':'Succeeded'}}", true },
        { "{'status':{'phase':'Failed'}}", true },
        { "{'metadata':{'deletionTimestamp':'x'}}", true },
};

TEST_ROWS(test_pods, pods_rows, pod, const struct PodsRow *row) {
        cleanup(json_object_put_p) json_object *pod = parse("%s", row->pod);

        assert_int_equal(restart_plan_is_over(pod), row->is_over);
}

#define READY "'status':{'conditions':[{'type':'Ready','status':'True'}]}"
#define OWNED_BY(kind)                                                         \
        "'metadata':{'ownerReferences':[{'apiVersion':'apps/v1','kind':'" kind \
        "','uid':'1','controller':true}]}"
#define READY_POD "{" OWNED_BY("ReplicaSet") "," READY "}"
/* Another run has just restarted it. */
#define RESTARTING_POD                                                                                  \
        "{'metadata':{'name':'q','labels':{'app':'web'},'ownerReferences':[{'apiVersion':'apps/v1',"    \
        "'kind':'ReplicaSet','uid':'1','controller':true}],'annotations':{'inplaced.io/restarted':"     \
        "'{\\'a\\':{\\'as\\':\\'r@B\\',\\'from\\':\\'1\\',\\'starts\\':{\\'r@B\\':{\\'n\\':1,\\'at\\':" \
        "\\'1970-01-01T00:01:30Z\\'}}}}'}},'spec':{'containers':[{'name':'a','image':'r@B'}]},"         \
        "'status':{'conditions':[{'type':'Ready','status':'True'}],'containerStatuses':"                \
        "[{'name':'a','containerID':'1'}]}}"
#define NOW_SEC 100

static const struct ObserveRow {
        const char *status; /* status of container a, whose ID was "1" */
        RestartEnd end;
        const char *why; /* begin of the reason */
} observe_rows[] = {
        { "1','state':{'running':{}}", RESTART_RUNNING,
          "the old container of a is stopping (grace period 30s)" },
        { "2','state':{'running':{}}", RESTART_SUCCEEDED, NULL },
        { "2','state':{'terminated':{'exitCode':0}}", RESTART_SUCCEEDED, NULL },
        { "2','state':{'terminated':{'exitCode':7}}", RESTART_RUNNING,
          "container a is being started" },
        { "2','state':{'waiting':{'reason':'CrashLoopBackOff'}},'lastState':{'terminated':{'exitCode':7}}",
          RESTART_FAILED, "container a has ended again, with exit code 7" },
        { "1','state':{'waiting':{'reason':'CrashLoopBackOff','message':'back-off 1m20s restarting'}},"
          "'lastState':{'terminated':{'finishedAt':'1970-01-01T00:01:00Z'}}",
          RESTART_RUNNING, "the kubelet starts a again in 40s: " },
        { "1','state':{'waiting':{'reason':'CrashLoopBackOff','message':'back-off 10s restarting'}},"
          "'lastState':{'terminated':{'finishedAt':'1970-01-01T00:01:00Z'}}",
          RESTART_RUNNING, "the kubelet starts a again when its back-off is over" },
        { "1','state':{'waiting':{'reason':'ErrImagePull'}}", RESTART_RUNNING,
          "container a: ErrImagePull" },
        { "1','state':{'waiting':{'reason':'ImagePullBackOff','message':'of r@B'}}",
          RESTART_NOT_PULLED, "container a: ImagePullBackOff: of r@B" },
        { "1','state':{'waiting':{'reason':'ImagePullBackOff','message':'of r/data:1'}}",
          RESTART_NOT_PULLED, "container a: ImagePullBackOff: of r/data:1" },
        { "1','state':{'waiting':{'reason':'ImagePullBackOff','message':'of r:1'}}",
          RESTART_RUNNING, "container a: ImagePullBackOff" },
        { "1','state':{'waiting':{'reason':'ImagePullBackOff','message':'of r@B2'}}",
          RESTART_RUNNING, "container a: ImagePullBackOff" },
        { "1','state':{'waiting':{'reason':'ImagePullBackOff','message':'of other/r@B'}}",
          RESTART_RUNNING, "container a: ImagePullBackOff" },
};

TEST_ROWS(test_observe, observe_rows, status, const struct ObserveRow *row) {
        cleanup(json_object_put_p) json_object *names = parse("['a']");
        cleanup(json_object_put_p) json_object *before =
                parse("{'status':{'containerStatuses':[{'name':'a','containerID':'1'}]}}");

        cleanup(free_p) char *text = NULL;
        cleanup(json_object_put_p) json_object *pod = NULL;
        cleanup(free_p) char *why = NULL;
        RestartEnd end;

        assert_true(asprintf(&text,
                             "{'spec':{'terminationGracePeriodSeconds':30,'volumes':"
                             "[{'name':'v','image':{'reference':'r/data:1'}}],'containers':"
                             "[{'name':'a','image':'r@B'}]},'status':{'containerStatuses':"
                             "[{'name':'a','containerID':'%s}]}}",
                             row->status) >= 0);
        pod = parse("%s", text);
        assert_ok(restart_plan_observe(before, pod, names, NOW_SEC, &end, &why));
        assert_int_equal(end, row->end);
        if (row->why)
                assert_memory_equal(why, row->why, strlen(row->why));
        else
                assert_null(why);
}

/* No message is about the image of a container that has none. */
TEST(test_observe_without_image) {
        cleanup(json_object_put_p) json_object *names = parse("['a']");
        cleanup(json_object_put_p) json_object *pod = parse(
                "{'spec':{'containers':[{'name':'a'}]},'status':{'containerStatuses':[{'name':'a',"
                "'state':{'waiting':{'reason':'ImagePullBackOff','message':'BackOff'}}}]}}");
        cleanup(free_p) char *why = NULL;
        RestartEnd end;

        assert_ok(restart_plan_observe(pod, pod, names, NOW_SEC, &end, &why));
        assert_int_equal(end, RESTART_RUNNING);
}

/* A container that the kubelet started before it saw the new spelling proves nothing. */
TEST(test_observe_unseen) {
        cleanup(json_object_put_p) json_object *names = parse("['a']");
        cleanup(json_object_put_p) json_object *before = parse("{}");
        cleanup(json_object_put_p) json_object *pod = parse(
                "{'metadata':{'generation':3},'status':{'observedGeneration':2,"
                "'containerStatuses':[{'name':'a','containerID':'2','state':{'running':{}}}]}}");
        cleanup(free_p) char *why = NULL;
        RestartEnd end;

        assert_ok(restart_plan_observe(before, pod, names, NOW_SEC, &end, &why));
        assert_int_equal(end, RESTART_RUNNING);
}

/* All containers have to run anew, in whichever order they are named. */
TEST(test_observe_several) {
        static const char *const orders[] = { "['a','b']", "['b','a']" };
        cleanup(json_object_put_p) json_object *before = parse(
                "{'status':{'containerStatuses':[{'name':'a','containerID':'1'},{'name':'b','containerID':'1'}]}}");
        cleanup(json_object_put_p) json_object *pod = parse(
                "{'status':{'containerStatuses':["
                "{'name':'a','containerID':'1','state':{'waiting':{'reason':'ErrImagePull'}}},"
                "{'name':'b','containerID':'2','state':{'running':{}}}]}}");

        for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
                cleanup(json_object_put_p) json_object *names = parse("%s", orders[i]);
                cleanup(free_p) char *why = NULL;
                RestartEnd end;

                assert_ok(restart_plan_observe(before, pod, names, NOW_SEC, &end, &why));
                assert_int_equal(end, RESTART_RUNNING);
                assert_string_equal(why, "container a: ErrImagePull");
        }
}

static const struct OwnerRow {
        const char *pod;
        const char *owners;
        bool is_of_deployment, is_of_stateful_set;
} owner_rows[] = {
        { "{}", "{}", false, false },
        { "{" OWNED_BY("ReplicaSet") "}", "{}", true, true },
        { "{" OWNED_BY("ReplicaSet") "}", "{'1':'1'}", true, true },
        { "{" OWNED_BY("ReplicaSet") "}", "{'1':'2','2':'1'}", false, true },
        { "{" OWNED_BY("ReplicaSet") "}", "{'1':''}", false, true },
        { "{" OWNED_BY("ReplicaSet") "}", "{'2':''}", true, true },
        { "{" OWNED_BY("StatefulSet") "}", "{}", false, true },
        { "{'metadata':{'ownerReferences':[{'apiVersion':'batch/v1','kind':'Job','uid':'2','controller':true}]}}",
          "{}", false, false },
};

TEST_ROWS(test_owner, owner_rows, pod, const struct OwnerRow *row) {
        cleanup(json_object_put_p) json_object *workload = parse("{'metadata':{'uid':'1'}}");
        cleanup(json_object_put_p) json_object *owners = parse("%s", row->owners);
        cleanup(json_object_put_p) json_object *pod = parse("%s", row->pod);

        assert_int_equal(restart_plan_is_of(WORKLOAD_DEPLOYMENT, workload, owners, pod),
                         row->is_of_deployment);
        assert_int_equal(restart_plan_is_of(WORKLOAD_STATEFUL_SET, workload, owners, pod),
                         row->is_of_stateful_set);
}

static const struct AllowanceRow {
        const char *budgets;
        const char *pods; /* NULL: there is no workload */
        int64_t max, allowed;
        const char *why;
} allowance_rows[] = {
        { "{}", NULL, 2, 2, NULL },
        { "{'b':{'spec':{'selector':{}},'status':{'disruptionsAllowed':1}}}", NULL, 2, 1, NULL },
        { "{'b':{'spec':{'selector':{}},'status':{'disruptionsAllowed':0}}}", NULL, 2, 0,
          "until the PodDisruptionBudget \"b\" allows another pod" },
        { "{'b':{'metadata':{'generation':1},'spec':{'selector':{}},'status':{'disruptionsAllowed':1}}}",
          NULL, 2, 0, "until the PodDisruptionBudget \"b\" allows another pod" },
        { "{'b':{'spec':{'selector':{'matchLabels':{'app':'other'}}}}}", NULL, 2, 2, NULL },
        { "{}", "{'p':" READY_POD ",'q':" READY_POD "}", 1, 1, NULL },
        { "{}", "{'p':" READY_POD ",'q':{}}", 2, 1, NULL },
        { "{}", "{'p':" READY_POD ",'q':{" READY "},'r':{" OWNED_BY("StatefulSet") "," READY "}}",
          2, 1, NULL },
        { "{}", "{'p':" READY_POD "}", 1, 0,
          "until more pods are available: 1 of 2 are not, --max-unavailable is 1" },
        { "{}", "{'p':" READY_POD ",'q':" RESTARTING_POD "}", 1, 0,
          "until more pods are available: 1 of 2 are not, --max-unavailable is 1" },
        { "{'b':{'spec':{'selector':{}},'status':{'disruptionsAllowed':1}}}",
          "{'p':" READY_POD ",'q':" RESTARTING_POD "}", 2, 0,
          "until the PodDisruptionBudget \"b\" allows another pod" },
};

TEST_ROWS(test_allowance, allowance_rows, budgets, const struct AllowanceRow *row) {
        cleanup(json_object_put_p) json_object *budgets = parse("%s", row->budgets);
        cleanup(json_object_put_p) json_object *pods = parse("%s", row->pods ?: "{}");
        cleanup(json_object_put_p) json_object *pod =
                parse("{'metadata':{'labels':{'app':'web'}}}");
        cleanup(json_object_put_p) json_object *workload = parse("{'spec':{'replicas':2}}");
        cleanup(free_p) char *why = NULL;
        const RolloutView view = { .kind = WORKLOAD_DEPLOYMENT,
                                   .workload = row->pods ? workload : NULL,
                                   .pods = pods,
                                   .budgets = budgets,
                                   .now_sec = NOW_SEC };
        int64_t allowed;

        assert_ok(restart_plan_allowance(&view, row->max, pod, &allowed, &why));
        assert_int_equal(allowed, row->allowed);
        if (row->why)
                assert_string_equal(why, row->why);
        else
                assert_null(why);
}

/* A pod that restarts already may do so once more: no further one becomes unavailable. */
TEST(test_allowance_for_itself) {
        cleanup(json_object_put_p) json_object *budgets =
                parse("{'b':{'spec':{'selector':{}},'status':{'disruptionsAllowed':1}}}");
        cleanup(json_object_put_p) json_object *pods =
                parse("{'p':" READY_POD ",'q':" RESTARTING_POD "}");
        cleanup(json_object_put_p) json_object *workload = parse("{'spec':{'replicas':2}}");
        cleanup(free_p) char *why = NULL;
        const RolloutView view = { .kind = WORKLOAD_DEPLOYMENT,
                                   .workload = workload,
                                   .pods = pods,
                                   .budgets = budgets,
                                   .now_sec = NOW_SEC };
        int64_t allowed;

        assert_ok(restart_plan_allowance(&view, 1, json_object_object_get(pods, "q"), &allowed,
                                         &why));
        assert_int_equal(allowed, 1);
}

/* Two ready pods, whose names say which ordinals they have, of two that are wanted. */
static const struct SurplusRow {
        const char *name;
        WorkloadKind kind;
        const char *spec; /* more of the workload's */
        const char *first, *second;
        int64_t n_available;
} surplus_rows[] = {
        { "both are wanted", WORKLOAD_STATEFUL_SET, "", "0", "1", 2 },
        { "one is left of three", WORKLOAD_STATEFUL_SET, "", "1", "2", 1 },
        { "from another start on", WORKLOAD_STATEFUL_SET, ",'ordinals':{'start':5}", "5", "6", 2 },
        { "one is below the start", WORKLOAD_STATEFUL_SET, ",'ordinals':{'start':5}", "4", "5", 1 },
        { "of OpenKruise", WORKLOAD_ADVANCED_STATEFUL_SET, "", "1", "2", 1 },
        { "a number is left out", WORKLOAD_ADVANCED_STATEFUL_SET, ",'reserveOrdinals':[1]", "0",
          "2", 2 },
        { "it is the one left out", WORKLOAD_ADVANCED_STATEFUL_SET, ",'reserveOrdinals':[1]", "0",
          "1", 1 },
        { "the next but one", WORKLOAD_ADVANCED_STATEFUL_SET, ",'reserveOrdinals':[1]", "2", "3",
          1 },
        { "a range is left out", WORKLOAD_ADVANCED_STATEFUL_SET, ",'reserveOrdinals':['1-3']", "0",
          "4", 2 },
        { "ranges overlap", WORKLOAD_ADVANCED_STATEFUL_SET, ",'reserveOrdinals':['2-3',0,'0-2',3]",
          "4", "5", 2 },
        { "beyond overlapping ranges", WORKLOAD_ADVANCED_STATEFUL_SET,
          ",'reserveOrdinals':['2-3',0,'0-2',3]", "5", "6", 1 },
        { "those left out come later", WORKLOAD_ADVANCED_STATEFUL_SET, ",'reserveOrdinals':[2,9]",
          "1", "3", 1 },
        { "with a start", WORKLOAD_ADVANCED_STATEFUL_SET,
          ",'ordinals':{'start':2},'reserveOrdinals':[1,3]", "2", "4", 2 },
        { "what is no range", WORKLOAD_ADVANCED_STATEFUL_SET,
          ",'reserveOrdinals':[null,{},'x','3-','5-4','0-9223372036854775807']", "1", "2", 1 },
        { "of a CloneSet", WORKLOAD_CLONE_SET, "", "1", "2", 2 },
};

/* A pod that its controller is about to delete makes up for no other one. */
TEST_ROWS(test_surplus, surplus_rows, name, const struct SurplusRow *row) {
        cleanup(json_object_put_p) json_object *workload =
                parse("{'metadata':{'uid':'1'},'spec':{'replicas':2%s}}", row->spec);
        cleanup(json_object_put_p) json_object *pods = parse("{}");
        cleanup(json_object_put_p) json_object *budgets = parse("{}");
        const char *const ordinals[] = { row->first, row->second };
        const RolloutView view = {
                .kind = row->kind, .workload = workload, .pods = pods, .budgets = budgets
        };
        cleanup(free_p) char *why = NULL;
        int64_t allowed;

        for (size_t i = 0; i < N_ELEMENTS(ordinals); i++) {
                json_object *pod =
                        parse("{'metadata':{'name':'web-%s','ownerReferences':[{'uid':'1',"
                              "'controller':true}]}," READY "}",
                              ordinals[i]);

                json_object_object_add(pods, ordinals[i], pod);
        }
        assert_ok(restart_plan_allowance(&view, 2, workload, &allowed, &why));
        assert_int_equal(allowed, row->n_available);
}
