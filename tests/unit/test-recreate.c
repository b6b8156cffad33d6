/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Restart requests, from creation to completion
 */

#include "agent/recreate/recreate-controller.h"
#include "tests/unit/recreate-fixture.h"

#define CONTEXT(id) "'statusContext':{'containerID':'containerd://" id "','restartCount':0}"
#define BOTH "{'name':'app'," CONTEXT("a1") "},{'name':'side'," CONTEXT("s1") "}"
#define LABELS                                                                        \
        "'crr.apps.kruise.io/node-name':'node-1','crr.apps.kruise.io/active':'true'," \
        "'crr.apps.kruise.io/pod-uid':'p-1'"
#define REQUEST(name, labels, more, containers)                                \
        "{'metadata':{'namespace':'d','name':'" name "','uid':'u-" name        \
        "','creationTimestamp':'2026-01-31T12:00:00Z','labels':{" labels "}}," \
        "'spec':{'podName':'web'," more "'containers':[" containers "]}}"
#define PREPARED(name, more) REQUEST(name, LABELS, more, BOTH)
#define MANAGED(name, more) REQUEST(name, LABELS ",'inplaced.io/managed':'true'", more, BOTH)

static const char *find_call(size_t from, const char *part) {
        for (size_t i = from; i < node.n_texts; i++)
                if (strstr(node.texts[i], part))
                        return node.texts[i];

        return NULL;
}

static void retry(void) {
        assert_int_equal(recreate_kick(node.recreate), 0);
        settle();
}

static void reconcile(void) {
        assert_int_equal(recreate_reconcile(node.recreate), 0);
        settle();
}

/* What was written last was so a while ago. */
/* The clock began when the machine did, which may be less long ago. */
static void let_repeat(void) {
        for (size_t i = 0; i < node.recreate->repeats.n_items; i++) {
                uint64_t *usec = &node.recreate->repeats.items[i].repeat.sent_usec;

                *usec = *usec > REPEAT_MAX_USEC ? *usec - REPEAT_MAX_USEC : 0;
        }
}

static size_t count_calls(const char *part) {
        size_t n = 0;

        for (size_t i = 0; i < node.n_texts; i++)
                n += strstr(node.texts[i], part) != NULL;

        return n;
}

static const char *phase(size_t i) {
        return get_text(node.objects[i], "/status/phase");
}

/* "Recreating! Pending", the mark for what was killed. */
static const char *states(size_t i) {
        static char text[256];
        json_object *list = get_path(node.objects[i], "/status/containerRecreateStates");

        text[0] = '\0';
        for (size_t k = 0; list && k < json_object_array_length(list); k++) {
                json_object *state = json_object_array_get_idx(list, k);

                if (k > 0)
                        strcat(text, " ");
                strcat(text, get_text(state, "/phase"));
                if (get_path(state, "/isKilled"))
                        strcat(text, "!");
        }
        return text;
}

static void test_all_phases(void **state) {
        create(PREPARED("r", ""));
        assert_string_equal(phase(0), "Recreating");
        assert_string_equal(states(0), "Pending Pending");
        assert_int_equal(node.n_stops, 1);
        assert_string_equal(node.stops[0]->id, "a1");
        assert_string_equal(node.stops[0]->owner, "recreate/u-r");
        assert_string_equal(node.stops[0]->cause,
                            "Stopping container app by ContainerRecreateRequest r");
        assert_true(node.stops[0]->options.grace_sec == STOP_GRACE_OF_POD);
        assert_true(node.stops[0]->options.needs_kubelet);

        assert_true(stop_begin(node.stops[0]));
        assert_string_equal(states(0), "Pending Pending");
        stop_end(node.stops[0], STOP_STOPPED, NULL);
        assert_string_equal(states(0), "Recreating! Pending");
        assert_int_equal(node.n_stops, 1);
        assert_string_equal(node.stops[0]->id, "s1");

        assert_true(stop_begin(node.stops[0]));
        stop_end(node.stops[0], STOP_STOPPED, NULL);
        come_back(1, "s2");
        assert_string_equal(states(0), "Recreating! Succeeded!");
        assert_string_equal(phase(0), "Recreating");
        come_back(0, "a2");
        assert_string_equal(states(0), "Succeeded! Succeeded!");
        assert_string_equal(phase(0), "Completed");
        assert_string_equal(get_text(node.objects[0], "/status/message"),
                            "2 of 2 containers restarted");
        assert_true(get_text(node.objects[0], "/status/completionTime")[0]);
        assert_int_equal(n_completed("succeeded"), 1);
        assert_int_equal(n_completed("failed"), 0);
        assert_null(get_path(node.objects[0], "/status/containerStatusSnapshot"));
        assert_int_equal(recreate_n_open(node.recreate), 0);
}

static void test_ordered(void **state) {
        create(PREPARED("r", "'strategy':{'orderedRecreate':true,"
                             "'terminationGracePeriodSeconds':3},"));
        assert_int_equal(node.stops[0]->options.grace_sec, 3);
        assert_true(stop_begin(node.stops[0]));
        stop_end(node.stops[0], STOP_STOPPED, NULL);
        assert_int_equal(node.n_stops, 0);
        come_back(0, "a2");
        assert_string_equal(states(0), "Succeeded! Pending");
        assert_string_equal(node.stops[0]->id, "s1");
}

static void test_failure(void **state) {
        create(PREPARED("r", ""));
        stop_end(node.stops[0], STOP_FAILED, "no");
        assert_string_equal(phase(0), "Completed");
        assert_string_equal(states(0), "Failed Pending");
        assert_string_equal(get_text(node.objects[0], "/status/message"),
                            "0 of 2 containers restarted; app: kill container error: no");
        assert_int_equal(node.n_stops, 0);
        assert_int_equal(n_completed("succeeded"), 0);
        assert_int_equal(n_completed("failed"), 1);
}

static void test_failure_ignored(void **state) {
        create(PREPARED("r", "'strategy':{'failurePolicy':'Ignore'},"));
        stop_end(node.stops[0], STOP_FAILED, "no");
        assert_string_equal(states(0), "Failed Pending");
        assert_string_equal(phase(0), "Recreating");
        assert_string_equal(node.stops[0]->id, "s1");
}

/* Who makes a request writes its label and may write a pod: only the runtime's labels say whose a
 * container is. */
static const struct {
        const char *name; /* of the pod that the request is about */
        bool has_pod, are_pods_unknown;
        const char *pod_uid, *runtime_uid;
        const char *listed_namespace, *listed_pod;
        bool is_served;
} others[] = {
        { "web", true, false, "p-1", "p-1", "d", "web", true },
        { "web", false, true, "p-1", "p-1", "d", "web", true },
        { "else", true, false, "p-1", "p-1", "d", "web", false },
        { "else", false, true, "p-1", "p-1", "d", "web", false },
        { "web", false, true, "p-1", "p-1", "kube-system", "web", false },
        { "web", false, true, "p-1", "p-1", "d", "etcd-0", false },
        { "web", true, false, "p-1", "p-1", "kube-system", "web", false },
        { "web", true, false, "p-1", "p-1", "d", "etcd-0", false },
        { "web", true, false, "p-0", "p-0", "d", "web", true }, /* the former pod of that name */
};

static void test_pod_of_another(void **state) {
        for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
                node.has_pod = others[i].has_pod;
                node.are_pods_unknown = others[i].are_pods_unknown;
                node.pod.uid = (char *) others[i].pod_uid;
                node.pod.runtime_uid = (char *) others[i].runtime_uid;
                node.listed_namespace = others[i].listed_namespace;
                node.listed_pod = others[i].listed_pod;
                create(strcmp(others[i].name, "web") == 0 ? PREPARED("r", "")
                                                          : PREPARED("r", "'podName':'else',"));
                assert_int_equal(node.n_stops, others[i].is_served);
                if (!others[i].is_served)
                        assert_string_equal(states(0), "Pending Pending");
                remove_object(0);
                assert_int_equal(node.recreate->n_requests, 0);
        }
}

/* A pod that claims to be the mirror of another one: in a request's words, and in the runtime's. */
static void test_claimed_mirror(void **state) {
        node.pod.uid = (char *) "p-2";
        node.listed_namespace = "kube-system";
        node.listed_pod = "etcd-0";
        create(REQUEST("r",
                       "'crr.apps.kruise.io/node-name':'node-1',"
                       "'crr.apps.kruise.io/active':'true'",
                       "", BOTH));
        assert_string_equal(states(0), "Pending Pending");
        assert_int_equal(node.n_stops, 0);
}

/* Nor is anything stopped that turns out to be another pod's when it is checked once more. */
static void test_check_finds_another_pod(void **state) {
        create(PREPARED("r", ""));
        node.listed_namespace = "kube-system";
        assert_false(stop_begin(node.stops[0]));
}

static void test_one_after_another(void **state) {
        create(PREPARED("r1", ""));
        create(PREPARED("r2", ""));
        assert_string_equal(phase(1), "Pending");
        assert_int_equal(node.n_stops, 1);

        patch_by_others(0, "{'status':{'phase':'Completed','completionTime':'2026-01-31T12:01:00Z',"
                           "'message':'enough'}}");
        assert_string_equal(phase(1), "Recreating");
        assert_int_equal(node.n_stops, 1);
        assert_string_equal(node.stops[0]->owner, "recreate/u-r2");
        assert_int_equal(n_completed("succeeded") + n_completed("failed"), 0);
        assert_string_equal(get_text(node.objects[0], "/status/message"), "enough");
}

/* A stop that has begun is finished and reported; until then it is not disturbed. */
static void test_completed_meanwhile(void **state) {
        create(PREPARED("r1", ""));
        create(PREPARED("r2", ""));
        assert_true(stop_begin(node.stops[0]));
        patch_by_others(0, "{'metadata':{'labels':{'crr.apps.kruise.io/active':null}},'status':{"
                           "'phase':'Completed','completionTime':'2026-01-31T12:01:00Z'}}");
        assert_int_equal(node.n_stops, 1);
        assert_string_equal(phase(1), "Pending");

        stop_end(node.stops[0], STOP_STOPPED, NULL);
        assert_string_equal(states(0), "Recreating! Pending");
        assert_string_equal(phase(0), "Completed");
        assert_string_equal(phase(1), "Recreating");
        assert_string_equal(node.stops[0]->id, "s1");
        assert_string_equal(node.stops[0]->owner, "recreate/u-r2");
}

static void test_deleted_meanwhile(void **state) {
        create(PREPARED("r", ""));
        assert_true(stop_begin(node.stops[0]));
        remove_object(0);
        assert_int_equal(node.n_stops, 1);
        stop_end(node.stops[0], STOP_STOPPED, NULL);
        assert_int_equal(node.n_stops, 0);
        assert_int_equal(node.recreate->n_requests, 0);
}

static void test_deleted_before(void **state) {
        create(PREPARED("r", ""));
        remove_object(0);
        assert_int_equal(node.n_stops, 0);
        assert_int_equal(node.recreate->n_requests, 0);
}

/* It is not what the request is about any more. */
static void test_check_says_no(void **state) {
        create(PREPARED("r", ""));
        node.containers[node.n_containers].name = "app";
        node.containers[node.n_containers].id = "a2";
        node.containers[node.n_containers++].is_running = true;
        assert_false(stop_begin(node.stops[0]));
        stop_end(node.stops[0], STOP_NOT_ASKED, "it is not the newest any more");
        assert_string_equal(states(0), "Recreating Pending");
        assert_string_equal(node.stops[0]->id, "s1");
}

/* It died in the same moment: it was not killed. */
static void test_gone(void **state) {
        create(PREPARED("r", ""));
        assert_true(stop_begin(node.stops[0]));
        node.containers[0].is_running = false;
        stop_end(node.stops[0], STOP_GONE, NULL);
        assert_string_equal(states(0), "Recreating Pending");
}

static RecreateRequest *find_request(const char *name) {
        for (size_t i = 0; i < node.recreate->n_requests; i++)
                if (strcmp(node.recreate->requests[i]->spec->name, name) == 0)
                        return node.recreate->requests[i];

        fail();
        return NULL;
}

/* It was made, but not begun yet when it was to be stopped. */
static void test_begins_later(void **state) {
        create(PREPARED("r", "'strategy':{'forceRecreate':true,'orderedRecreate':true},"));
        node.containers[0].is_running = false;
        node.containers[0].is_created = true;
        stop_end(node.stops[0], STOP_GONE, NULL);
        assert_string_equal(states(0), "Recreating Pending");
        assert_int_equal(node.n_stops, 0);

        node.containers[0].is_running = true;
        node.recreate->requests[0]->list.is_due = true;
        reconcile();
        assert_int_equal(node.n_stops, 0); /* not at once again */
        node.recreate->requests[0]->containers.items[0].rest_usec = 0;
        reconcile();
        assert_int_equal(node.n_stops, 1);
        assert_string_equal(node.stops[0]->id, "a1");
}

/* The runtime goes away in the middle of a stop, and another client ends the request. */
static void test_runtime_lost(void **state) {
        create(PREPARED("r", ""));
        create(PREPARED("s", ""));
        assert_true(stop_begin(node.stops[0]));
        node.stops[0]->step = STOP_STEP_WAITING_FOR_RUNTIME;
        patch_by_others(0, "{'status':{'phase':'Completed','completionTime':"
                           "'2026-01-31T12:00:00Z','message':'given up'}}");
        assert_int_equal(node.n_stops, 1);
        assert_string_equal(phase(1), "Pending");

        stop_end(node.stops[0], STOP_STOPPED, NULL);
        assert_string_equal(states(0), "Recreating! Pending");
        assert_string_equal(phase(1), "Recreating");
}

static void ask_stop(void) {
        Stop *stop = node.stops[0];

        assert_int_equal(stop->options.on_check(stop, stop->options.userdata), 0);
        settle();
}

/* What a stop did in a previous run is forgotten when the answer is that it is not asked for. */
static void test_check_fails(void **state) {
        Stop *stop;

        create(PREPARED("r", ""));
        stop = node.stops[0];
        node.n_failing_lists = 1;
        ask_stop();
        assert_false(stop->was_answered);
        assert_true(node.recreate->requests[0]->stop.check_usec >
                    recreate_now_usec(node.recreate) + 500 * 1000);
        reconcile();
        assert_false(stop->was_answered);

        node.is_runtime_away = true;
        assert_int_equal(recreate_runtime_changed(node.recreate), 0);
        settle();
        assert_false(stop->was_answered);

        node.is_runtime_away = false;
        assert_int_equal(recreate_runtime_changed(node.recreate), 0);
        settle();
        assert_true(stop->was_answered);
        assert_true(stop->is_asked);
        assert_true(node.n_stops == 1 && node.stops[0] == stop);
        assert_int_equal(node.recreate->requests[0]->stop.n_check_failures, 0);
}

static void test_over_while_check_fails(void **state) {
        create(PREPARED("r", ""));
        node.n_failing_lists = 1;
        ask_stop();
        remove_object(0);
        assert_int_equal(node.n_stops, 0);
        assert_int_equal(node.recreate->n_requests, 0);
}

/* While a stop goes on, the request is deleted, and another one gets its name. */
static void test_replaced(void **state) {
        create(PREPARED("r", ""));
        assert_true(stop_begin(node.stops[0]));
        remove_object(0);
        create(REQUEST("r", LABELS "},'annotations':{},'uid':'u-2','x':{", "", BOTH));
        assert_string_equal(get_text(node.objects[0], "/metadata/uid"), "u-2");

        stop_end(node.stops[0], STOP_STOPPED, NULL);
        assert_string_equal(states(0), "Recreating Pending");
        assert_int_equal(node.recreate->n_requests, 1);
        assert_string_equal(node.stops[0]->owner, "recreate/u-2");
        assert_string_equal(node.stops[0]->id, "s1");
}

/* Nor does the report get into one that the agent does not even see. */
static void test_late_report(void **state) {
        create(PREPARED("r", ""));
        assert_true(stop_begin(node.stops[0]));
        remove_object(0);
        create(REQUEST("r", "'crr.apps.kruise.io/node-name':'node-2'},'uid':'u-2','x':{", "",
                       BOTH));
        patch_by_others(0, "{'status':{'phase':'Pending'}}");

        stop_end(node.stops[0], STOP_STOPPED, NULL);
        assert_non_null(strstr(node.texts[node.n_texts - 1],
                               "{\"op\":\"test\",\"path\":\"/metadata/uid\",\"value\":\"u-r\"}"));
        assert_string_equal(states(0), "");
        assert_string_equal(phase(0), "Pending");
        assert_int_equal(node.recreate->n_requests, 0);
        assert_int_equal(node.n_warnings, 0);
}

static size_t count_asked(const char *begin) {
        size_t n = 0;

        for (size_t i = 0; i < node.n_texts; i++)
                n += strncmp(node.texts[i], begin, strlen(begin)) == 0;
        return n;
}

/* The watch shows nothing: the object itself is asked for, and the rest is written to what it is now. */
static void test_unexplained_conflicts(void **state) {
        create(PREPARED("r", ""));
        assert_true(stop_begin(node.stops[0]));
        stop_end(node.stops[0], STOP_STOPPED, NULL);
        come_back(0, "a2");
        assert_true(stop_begin(node.stops[0]));
        stop_end(node.stops[0], STOP_STOPPED, NULL);

        node.is_deaf = true;
        patch_by_others(0, "{'metadata':{'annotations':{'a':'b'}}}");
        come_back(1, "s2");
        for (size_t i = 0; i < 10 && count_asked("GET ") == 0; i++) {
                assert_string_equal(phase(0), "Recreating");
                retry();
        }
        assert_int_equal(count_asked("GET "), 1);
        retry();
        assert_string_equal(phase(0), "Completed");
        assert_int_equal(n_completed("succeeded"), 1);
        assert_int_equal(count_asked("GET "), 1);
}

static void test_conflict(void **state) {
        create(PREPARED("r", ""));
        assert_true(stop_begin(node.stops[0]));
        stop_end(node.stops[0], STOP_STOPPED, NULL);
        come_back(0, "a2");
        assert_true(stop_begin(node.stops[0]));
        stop_end(node.stops[0], STOP_STOPPED, NULL);

        node.is_deaf = true;
        patch_by_others(0, "{'status':{'phase':'Completed','completionTime':'2026-01-31T12:01:00Z',"
                           "'message':'too late'}}");
        come_back(1, "s2");
        assert_string_equal(get_text(node.objects[0], "/status/message"), "too late");
        assert_int_equal(n_completed("succeeded") + n_completed("failed"), 0);
}

/* The watch is late: what was written is not taken back. */
static void test_stale_object(void **state) {
        json_object *old;
        KubeObject shown;

        create(PREPARED("r", ""));
        old = parse_quoted(PREPARED("r", ""));
        json_object_object_add(get_path(old, "/metadata"), "resourceVersion",
                               json_object_new_string("1"));
        shown = as_shown(old);
        node.watches[0]->options.on_object(&shown, node.watches[0]->options.userdata);
        settle();
        assert_string_equal(recreate_phase_to_string(
                                    node.recreate->requests[0]->spec->status.phase),
                            "Recreating");
        assert_non_null(node.recreate->requests[0]->stale.spec);

        /* … but if nothing newer comes, it is what there is. */
        node.recreate->requests[0]->stale.since_usec -= 10 * 1000000;
        assert_int_equal(recreate_reconcile(node.recreate), 0);
        settle();
        assert_null(node.recreate->requests[0]->stale.spec);
        json_object_put(old);
}

/* The older object ends it, and it is the turn of the next one. */
static void test_stale_object_is_applied(void **state) {
        json_object *old = parse_quoted(PREPARED("r", ""));
        KubeObject shown;

        create(PREPARED("r", ""));
        create(PREPARED("s", ""));
        json_object_object_add(get_path(old, "/metadata"), "resourceVersion",
                               json_object_new_string("1"));
        json_object_object_add(old, "status", parse_quoted("{'phase':'Completed'}"));
        shown = as_shown(old);
        node.watches[0]->options.on_object(&shown, node.watches[0]->options.userdata);
        settle();
        assert_string_equal(phase(1), "Pending");
        find_request("r")->stale.since_usec -= 10 * 1000000;
        reconcile();
        assert_string_equal(phase(1), "Recreating");
        json_object_put(old);
}

/* Neither before it was seen running for that long, nor by the second in which it began. */
static void test_min_started(void **state) {
        RecreateRequest *request;

        create(PREPARED("r", "'strategy':{'minStartedSeconds':5},"));
        request = node.recreate->requests[0];
        for (size_t i = 0; i < 2; i++) {
                assert_true(stop_begin(node.stops[0]));
                stop_end(node.stops[0], STOP_STOPPED, NULL);
        }
        node.pod_containers[0].started_at_sec = recreate_wall_usec() / 1000000 - 4;
        come_back(0, "a2");
        node.pod_containers[1].started_at_sec = recreate_wall_usec() / 1000000 - 7;
        come_back(1, "s2");
        assert_string_equal(states(0), "Recreating! Succeeded!");

        request->containers.items[0].seen_usec -= 5 * 1000000;
        assert_int_equal(recreate_reconcile(node.recreate), 0);
        settle();
        assert_string_equal(states(0), "Succeeded! Succeeded!");
}

/* Again and again: it is written again, but ever more slowly. */
static void test_overwritten(void **state) {
        static const char *const nothing = "{'status':{'containerRecreateStates':null}}";
        RecreateRequest *request;
        size_t n_texts;

        create(PREPARED("r", ""));
        request = node.recreate->requests[0];
        for (unsigned n = 1; n <= 3; n++) {
                uint64_t now_usec = recreate_now_usec(node.recreate);

                n_texts = node.n_texts;
                patch_by_others(0, nothing);
                assert_int_equal(node.n_texts, n_texts);
                assert_in_range(request->due_usec - now_usec, (REPEAT_MIN_USEC << (n - 1)) / 2,
                                REPEAT_MIN_USEC << (n - 1));
                let_repeat();
                reconcile();
                assert_string_equal(states(0), "Pending Pending");
                assert_int_equal(node.n_texts, n_texts + 1);
        }

        /* What is new is written at once. */
        patch_by_others(0, nothing);
        assert_true(stop_begin(node.stops[0]));
        stop_end(node.stops[0], STOP_STOPPED, NULL);
        assert_string_equal(states(0), "Recreating! Pending");
}

/* Another writer takes a label away, or gives one back, each time at once. */
static void test_labels_overwritten(void **state) {
        static const struct {
                const char *request, *spoil, *written;
        } labels[] = {
                { REQUEST("r", "", "'strategy':{'unreadyGracePeriodSeconds':50},",
                          "{'name':'app'}"),
                  "{'metadata':{'labels':{'crr.apps.kruise.io/node-name':null}}}",
                  "\"inplaced.io/managed\":\"true\"" },
                { MANAGED("r", "'activeDeadlineSeconds':1,"),
                  "{'metadata':{'labels':{'crr.apps.kruise.io/active':'true'}}}",
                  "\"crr.apps.kruise.io/active\":null" },
                { MANAGED("r", "'strategy':{'unreadyGracePeriodSeconds':50},"),
                  "{'status':{'conditions':null}}", "PreRecreateGrace" },
        };

        for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++) {
                size_t n_before = count_calls(labels[i].written);

                create(labels[i].request);
                for (unsigned n = 1; n <= 3; n++) {
                        assert_int_equal(count_calls(labels[i].written), n_before + n);
                        patch_by_others(0, labels[i].spoil);
                        reconcile();
                        retry();
                        assert_int_equal(count_calls(labels[i].written), n_before + n);
                        let_repeat();
                        reconcile();
                        retry();
                }
                remove_object(0);
        }
}

/* … and is seen to do so before the answer is: what is shown is not forgotten. */
static void test_label_given_back_early(void **state) {
        node.spoilt = "\"crr.apps.kruise.io/active\":null";
        node.spoil = "{'metadata':{'labels':{'crr.apps.kruise.io/active':'true'}}}";
        create(MANAGED("r", "'activeDeadlineSeconds':1,"));
        assert_null(node.spoil);
        assert_int_equal(count_calls(node.spoilt), 1);
        assert_int_equal(node.recreate->n_requests, 1);
        let_repeat();
        reconcile();
        assert_int_equal(count_calls(node.spoilt), 2);
        assert_int_equal(node.recreate->n_requests, 0);
}

/* Killed between the stop and the report. */
static void test_crash(void **state) {
        create(PREPARED("r", ""));
        assert_true(stop_begin(node.stops[0]));
        node.containers[0].is_running = false;
        node.stopped_before = "a1";
        restart_agent();
        assert_string_equal(states(0), "Recreating! Pending");
        assert_int_equal(node.n_stops, 1);
        assert_string_equal(node.stops[0]->id, "s1");
}

static void test_runtime_unknown(void **state) {
        create(REQUEST("r", LABELS, "",
                       "{'name':'app','statusContext':{'containerID':'docker://a1'}}"));
        assert_string_equal(phase(0), "Completed");
        assert_string_equal(get_text(node.objects[0], "/status/message"),
                            "failed to find runtime service: not found runtime service for docker "
                            "in daemon");
}

static void test_bad_drain_time(void **state) {
        node.served = "v1alpha1";
        node.recreate = recreate_free(node.recreate);
        begin_agent();
        assert_string_equal(recreate_version(node.recreate), "v1alpha1");
        create(PREPARED("r", "'strategy':{'unreadyGracePeriodSeconds':1},"));
        assert_int_equal(node.n_stops, 0);
        patch_by_others(0, "{'metadata':{'annotations':{'crr.apps.kruise.io/unready-acquired':"
                           "'soon'}}}");
        assert_string_equal(phase(0), "Completed");
        assert_non_null(strstr(get_text(node.objects[0], "/status/message"),
                               "failed to parse unready time soon: "));
}

static void test_drain(void **state) {
        create(PREPARED("r", "'strategy':{'unreadyGracePeriodSeconds':5},"));
        assert_int_equal(node.n_stops, 0);
        patch_by_others(0, "{'status':{'conditions':[{'type':'PreRecreateGrace','status':'True',"
                           "'lastTransitionTime':'2026-01-31T12:00:00Z'}]}}");
        assert_int_equal(node.n_stops, 0);
        node.recreate->requests[0]->drain.drained_usec -= 5 * 1000000;
        assert_int_equal(recreate_reconcile(node.recreate), 0);
        settle();
        assert_int_equal(node.n_stops, 1);
}

static void test_unassigned(void **state) {
        node.has_pod = false;
        create(REQUEST("r", "", "'activeDeadlineSeconds':300000000,", "{'name':'app'}"));
        assert_int_equal(node.n_texts, 0);
        node.has_pod = true;
        assert_int_equal(node.watcher->on_pod(&node.pod, NULL, node.watcher->userdata), 0);
        settle();
        assert_string_equal(get_text(node.objects[0], "/metadata/labels/inplaced.io~1managed"),
                            "true");
        assert_string_equal(phase(0), "Recreating");
        assert_string_equal(node.stops[0]->id, "a1");

        assert_true(stop_begin(node.stops[0]));
        stop_end(node.stops[0], STOP_STOPPED, NULL);
        come_back(0, "a2");
        assert_string_equal(phase(0), "Completed");
        assert_string_equal(get_text(node.objects[0],
                                     "/status/containerStatusSnapshot/0/containerID"),
                            "containerd://a2");
        assert_null(get_path(node.objects[0], "/metadata/labels/crr.apps.kruise.io~1active"));
        assert_int_equal(node.recreate->n_requests, 0);
}

static void let_retry(void) {
        size_t n_texts = node.n_texts;

        while (node.n_texts == n_texts)
                assert_true(sd_event_run(node.event, 60 * 1000000) > 0);
        settle();
}

/* It is tried again by itself, ever more slowly, and at once when the server is known to answer. */
static void test_adoption_refused(void **state) {
        static const struct {
                int code;
                ErrorKind kind;
        } refusals[] = { { 403, ERROR_DENIED }, { 503, ERROR_NONE } };

        for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
                size_t n_texts = node.n_texts;

                node.refused = "\"inplaced.io/managed\":\"true\"";
                node.refused_code = refusals[i].code;
                create(REQUEST("r", "", "", "{'name':'app'}"));
                assert_int_equal(node.n_texts, n_texts + 1);
                assert_int_equal(recreate_error(node.recreate)->kind, refusals[i].kind);
                assert_int_equal(node.watcher->on_pod(&node.pod, NULL, node.watcher->userdata), 0);
                settle();
                assert_int_equal(node.n_texts, n_texts + 1);
                let_retry();
                assert_int_equal(node.n_texts, n_texts + 2);
                assert_int_equal(node.n_warnings, i + 1);

                node.refused = NULL;
                retry();
                assert_string_equal(phase(0), "Recreating");
                assert_int_equal(recreate_error(node.recreate)->kind, ERROR_NONE);
                remove_object(0);
                let_repeat();
        }
}

/* Changed or gone meanwhile: the watch shows it, and nothing is tried again before. */
static void test_adoption_is_late(void **state) {
        static const int codes[] = { 404, 409 };

        for (size_t i = 0; i < 2; i++) {
                size_t n_texts = node.n_texts;

                node.refused = "\"inplaced.io/managed\":\"true\"";
                node.refused_code = codes[i];
                create(REQUEST("r", "", "", "{'name':'app'}"));
                retry();
                assert_int_equal(node.n_texts, n_texts + 1);
                assert_int_equal(node.n_warnings, 0);
                assert_int_equal(recreate_error(node.recreate)->kind, ERROR_NONE);

                node.refused = NULL;
                patch_by_others(0, "{'metadata':{'labels':{'x':'y'}}}");
                assert_string_equal(phase(0), "Recreating");
                remove_object(0);
                let_repeat();
        }
}

static void test_deadline(void **state) {
        create(MANAGED("r", "'activeDeadlineSeconds':1,'ttlSecondsAfterFinished':0,"));
        assert_string_equal(get_text(node.objects[0], "/status/message"),
                            "recreating has exceeded the activeDeadlineSeconds");
        assert_int_equal(node.n_stops, 0);
        assert_non_null(strstr(node.texts[node.n_texts - 1], "DELETE "));
        assert_non_null(strstr(node.texts[node.n_texts - 1], "\"uid\":\"u-r\""));
}

/* This node's clock is months ahead. By the server's it is the second in which the request was made;
 * or the server does not say. */
static void test_clock_ahead(void **state) {
        static const int64_t times[] = { CREATED_SEC, 0 };

        for (size_t i = 0; i < 2; i++) {
                node.server_sec = times[i];
                create(MANAGED("r", "'activeDeadlineSeconds':60,'ttlSecondsAfterFinished':60,"));
                assert_string_equal(phase(0), "Recreating");
                assert_int_equal(node.n_stops, 1);
                stop_end(node.stops[0], STOP_FAILED, "no");
                assert_string_equal(phase(0), "Completed");
                assert_non_null(strstr(get_text(node.objects[0], "/status/message"), "no"));
                if (times[i] > 0)
                        assert_string_equal(get_text(node.objects[0], "/status/completionTime"),
                                            "2026-01-31T12:00:00Z");
                assert_null(find_call(0, "DELETE "));
                remove_object(0);
        }
}

/* The runtime counts by the clock of this node. Made ten seconds before the request it is not a
 * successor, however late that is. */
static void test_clock_ahead_of_container(void **state) {
        node.server_sec = CREATED_SEC;
        node.containers[0].made_sec = recreate_wall_usec() / 1000000 - 10;
        create(REQUEST("r", LABELS ",'inplaced.io/managed':'true'", "", "{'name':'app'}"));
        assert_string_equal(states(0), "Pending");
        assert_int_equal(node.n_stops, 1);
        remove_object(0);

        node.containers[0].made_sec += 20;
        create(REQUEST("s", LABELS ",'inplaced.io/managed':'true'", "", "{'name':'app'}"));
        assert_string_equal(states(0), "Succeeded");
        assert_int_equal(node.n_stops, 0);
}

/* Nor is the pod unready for longer than it is by the server's clock. */
static void test_clock_ahead_of_drain(void **state) {
        node.server_sec = CREATED_SEC + 7;
        create(PREPARED("r", "'strategy':{'unreadyGracePeriodSeconds':60},"));
        node.recreate->requests[0]->drain.undrained_usec = 0;
        patch_by_others(0, "{'status':{'conditions':[{'type':'PreRecreateGrace','status':'True',"
                           "'lastTransitionTime':'2026-01-31T12:00:00Z'}]}}");
        assert_int_equal(node.n_stops, 0);
        assert_true(node.recreate->requests[0]->drain.done_usec == 7 * 1000000);
}

static void test_pod_gone(void **state) {
        create(MANAGED("r", ""));
        assert_int_equal(node.n_stops, 1);
        node.has_pod = false;
        assert_int_equal(node.watcher->on_gone(&node.pod, node.watcher->userdata), 0);
        settle();
        assert_string_equal(get_text(node.objects[0], "/status/message"), "pod has gone");
        assert_int_equal(node.n_stops, 0);
}

static void test_managed_drain(void **state) {
        create(MANAGED("r", "'strategy':{'unreadyGracePeriodSeconds':5},"));
        assert_string_equal(get_text(node.objects[0], "/status/conditions/0/type"),
                            "PreRecreateGrace");
        assert_int_equal(node.n_stops, 0);
        node.recreate->requests[0]->drain.drained_usec -= 5 * 1000000;
        assert_int_equal(recreate_reconcile(node.recreate), 0);
        settle();
        assert_int_equal(node.n_stops, 1);
}

#define POD_PATCH "PATCH /api/v1/namespaces/d/pods/web/status "
#define GATE_POD(condition) \
        "{\"metadata\":{\"uid\":\"p-1\"},\"status\":{\"conditions\":[" condition "]}}"
#define GATE_CLOSED                                                      \
        "{\"type\":\"KruisePodReady\",\"status\":\"False\",\"message\":" \
        "\"[{\\\"userAgent\\\":\\\"ContainerRecreateRequest\\\",\\\"key\\\":\\\"d/r\\\"}]\"}"

/* The gate that was closed in a previous run is opened when the request is deleted. */
static void test_gate_after_restart(void **state) {
        size_t n_texts;

        node.pod.has_kruise_gate = true;
        node.pod_json = GATE_POD("");
        create(MANAGED("r", "'strategy':{'unreadyGracePeriodSeconds':50},"));
        assert_non_null(
                strstr(find_call(0, "PATCH /api/v1/namespaces/d/pods/web/status "), "\"False\""));
        assert_true(recreate_controller_owes_gate(node.recreate->requests[0]));
        assert_string_equal(get_text(node.objects[0], "/status/conditions/0/type"),
                            "PreRecreateGrace");

        node.pod_json = GATE_POD(GATE_CLOSED);
        restart_agent();
        n_texts = node.n_texts;
        node.has_pod = false;
        node.are_pods_unknown = true;
        remove_object(0);
        assert_int_equal(node.n_texts, n_texts);
        assert_true(recreate_controller_owes_gate(node.recreate->requests[0]));

        node.has_pod = true;
        node.are_pods_unknown = false;
        assert_int_equal(node.watcher->on_state(true, node.watcher->userdata), 0);
        settle();
        assert_non_null(strstr(find_call(n_texts, "PATCH /api/v1/namespaces/d/pods/web/status "),
                               "\"True\""));
        assert_int_equal(node.recreate->n_requests, 0);
}

static void sync_all(void) {
        for (size_t i = 0; i < 2; i++) {
                node.watches[i]->state = KUBE_WATCH_SYNCED;
                assert_int_equal(node.watches[i]->options.on_state(
                                         KUBE_WATCH_SYNCED, node.watches[i]->options.userdata),
                                 0);
        }
        settle();
}

#define LISTED(name) "{\"userAgent\":\"ContainerRecreateRequest\",\"key\":\"d/" name "\"}"
#define GET_REQUEST "GET /apis/apps.kruise.io/v1beta1/namespaces/d/containerrecreaterequests/r "

/* A pod that is unready for a request of which the watches show nothing. */
static const struct {
        const char *message, *request; /* what there is on the server, or NULL */
        bool is_asked, is_opened;
} remnants[] = {
        { "[" LISTED("r") "]", NULL, true, true },
        { "[{\"userAgent\":\"Other\",\"key\":\"d/r\"}]", NULL, false, false },
        { "[{\"userAgent\":\"ContainerRecreateRequest\",\"key\":\"e/r\"}]", NULL, false, false },
        { "[{\"userAgent\":\"ContainerRecreateRequest\",\"key\":\"d/\"}]", NULL, false, false },
        { "no list", NULL, false, false },
        { NULL, NULL, false, false },
        /* Its labels are gone, or were not made yet. */
        { "[" LISTED("r") "]",
          REQUEST("r", "'crr.apps.kruise.io/node-name':'node-1'",
                  "'strategy':{'unreadyGracePeriodSeconds':50},", BOTH),
          true, false },
        { "[" LISTED("r") "]", REQUEST("r", "'crr.apps.kruise.io/node-name':'node-1'", "", BOTH),
          true, true },
        { "[" LISTED("r") "]",
          REQUEST("r", "'crr.apps.kruise.io/node-name':'node-1'",
                  "'strategy':{'unreadyGracePeriodSeconds':50},'podName':'else',", BOTH),
          true, true },
};

static void test_remnants(void **state) {
        node.pod.has_kruise_gate = true;
        node.pod_json = GATE_POD(GATE_CLOSED);
        for (size_t i = 0; i < sizeof(remnants) / sizeof(remnants[0]); i++) {
                size_t n_texts;

                node.pod.kruise_message = (char *) remnants[i].message;
                if (remnants[i].request)
                        create(remnants[i].request);
                node.recreate = recreate_free(node.recreate);
                begin_agent();
                n_texts = node.n_texts;
                sync_all();
                assert_int_equal(find_call(n_texts, GET_REQUEST) != NULL, remnants[i].is_asked);
                assert_int_equal(find_call(n_texts, POD_PATCH) != NULL, remnants[i].is_opened);
                assert_int_equal(node.recreate->n_requests, 0);
                if (remnants[i].request)
                        remove_object(0);
        }
}

/* Nothing is concluded before all is known, and not twice. */
static void test_remnant_in_time(void **state) {
        node.pod.has_kruise_gate = true;
        node.pod.kruise_message = (char *) "[" LISTED("r") "]";
        node.pod_json = GATE_POD(GATE_CLOSED);
        node.are_pods_unknown = true;
        sync_all();
        assert_int_equal(node.n_texts, 0);
        node.refused = GET_REQUEST;
        node.refused_code = 403;
        node.are_pods_unknown = false;
        assert_int_equal(node.watcher->on_state(true, node.watcher->userdata), 0);
        settle();
        assert_int_equal(node.n_texts, 1);
        assert_string_equal(error_message(recreate_error(node.recreate)),
                            "the right to get containerrecreaterequests.apps.kruise.io is "
                            "missing: code 403");
        reconcile();
        assert_int_equal(node.n_texts, 1);

        node.refused = NULL;
        retry();
        assert_non_null(strstr(find_call(1, POD_PATCH), "\"True\""));
        assert_int_equal(recreate_error(node.recreate)->kind, ERROR_NONE);
        assert_int_equal(node.recreate->n_requests, 0);
        sync_all();
        assert_int_equal(node.n_texts, 4);
}

/* Who has got the name, and closes the gate, is the one who opens it. */
static void test_gate_of_successor(void **state) {
        node.pod.has_kruise_gate = true;
        node.pod_json = GATE_POD("");
        create(MANAGED("r", "'strategy':{'unreadyGracePeriodSeconds':50},"));
        assert_non_null(find_call(0, POD_PATCH));
        node.pod_json = GATE_POD(GATE_CLOSED);
        node.has_pod = false;
        node.are_pods_unknown = true;
        remove_object(0);
        assert_int_equal(node.recreate->n_requests, 1);
        create(REQUEST("r", LABELS ",'inplaced.io/managed':'true'},'uid':'u-2','x':{",
                       "'strategy':{'unreadyGracePeriodSeconds':50},", BOTH));
        assert_int_equal(node.recreate->n_requests, 1);

        node.has_pod = true;
        node.are_pods_unknown = false;
        assert_int_equal(node.watcher->on_state(true, node.watcher->userdata), 0);
        settle();
        for (size_t i = 0; i < node.n_texts; i++)
                assert_false(strstr(node.texts[i], POD_PATCH) && strstr(node.texts[i], "\"True\""));
}

static bool is_drained(void) {
        return strcmp(get_text(node.objects[0], "/status/conditions/0/type"), "PreRecreateGrace") ==
               0;
}

static void refuse_gate(int code) {
        node.pod.has_kruise_gate = true;
        node.pod_json = GATE_POD("");
        node.refused = POD_PATCH;
        node.refused_code = code;
}

#define GATED MANAGED("r", "'strategy':{'unreadyGracePeriodSeconds':50},")
#define CLOSE_TRIES 5

/* What cannot be closed is tried so often, ever more slowly, and then the request goes on. */
static void test_gate_cannot_be_closed(void **state) {
        static const int codes[] = { 403, 503, 422 };

        for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
                size_t n_before = count_calls(POD_PATCH);

                refuse_gate(codes[i]);
                create(GATED);
                for (size_t n = 1; n < CLOSE_TRIES; n++) {
                        assert_int_equal(count_calls(POD_PATCH), n_before + n);
                        assert_false(is_drained());
                        reconcile();
                        assert_int_equal(count_calls(POD_PATCH), n_before + n);
                        assert_true(node.recreate->requests[0]->write.rest_usec >
                                    recreate_now_usec(node.recreate) + 100 * 1000);
                        retry();
                }
                retry();
                assert_int_equal(count_calls(POD_PATCH), n_before + CLOSE_TRIES);
                assert_true(is_drained());
                assert_int_equal(recreate_error(node.recreate)->kind,
                                 codes[i] == 403 ? ERROR_DENIED : ERROR_NONE);
                if (codes[i] == 403)
                        assert_string_equal(error_message(recreate_error(node.recreate)),
                                            "the right to patch pods/status is missing: code 403");
                node.refused = NULL;
                node.pod.has_kruise_gate = false;
                remove_object(0);
                retry();
                assert_int_equal(node.recreate->n_requests, 0);
                node.recreate = recreate_free(node.recreate);
                begin_agent();
        }
}

/* Another writer was quicker: the pod is read anew and written, as often as it takes, and not logged. */
static void test_gate_conflicts(void **state) {
        refuse_gate(409);
        create(GATED);
        for (size_t n = 1; n <= 2 * CLOSE_TRIES; n++) {
                assert_int_equal(count_calls(POD_PATCH), n);
                assert_int_equal(count_calls("GET "), n);
                reconcile();
                assert_int_equal(count_calls(POD_PATCH), n);
                assert_true(node.recreate->requests[0]->write.rest_usec >
                            recreate_now_usec(node.recreate) + 400 * 1000);
                if (n < 2 * CLOSE_TRIES)
                        retry();
        }
        assert_false(is_drained());
        assert_int_equal(node.n_warnings, 0);
        assert_int_equal(recreate_error(node.recreate)->kind, ERROR_NONE);

        node.refused = NULL;
        retry();
        assert_true(is_drained());
}

/* Where there is no pod any more there is nothing to close, nor to open. */
static void test_gate_of_no_pod(void **state) {
        refuse_gate(404);
        create(GATED);
        assert_int_equal(count_calls(POD_PATCH), 1);
        assert_true(is_drained());
        assert_int_equal(node.n_warnings, 0);

        node.pod_json = GATE_POD(GATE_CLOSED);
        remove_object(0);
        assert_int_equal(count_calls(POD_PATCH), 2);
        assert_int_equal(node.recreate->n_requests, 0);
}

/* What is closed is tried to be opened until it is: nothing else is done with the request. */
static void test_gate_cannot_be_opened(void **state) {
        refuse_gate(0);
        node.refused = NULL;
        create(GATED);
        assert_true(is_drained());
        node.pod_json = GATE_POD(GATE_CLOSED);
        node.refused = POD_PATCH;
        node.refused_code = 403;
        patch_by_others(0, "{'status':{'phase':'Completed','completionTime':"
                           "'2026-01-31T12:01:00Z','message':'enough'}}");
        for (size_t n = 1; n <= 3 * CLOSE_TRIES; n++) {
                assert_int_equal(count_calls(POD_PATCH), 1 + n);
                if (n < 3 * CLOSE_TRIES)
                        retry();
        }
        assert_null(find_call(0, "\"crr.apps.kruise.io/active\":null"));
        node.refused = NULL;
        retry();
        assert_non_null(find_call(0, "\"type\":\"KruisePodReady\",\"status\":\"True\""));
        assert_non_null(find_call(0, "\"crr.apps.kruise.io/active\":null"));
        assert_int_equal(node.recreate->n_requests, 0);
}

/* Without a gate there is nothing to wait for. */
static void test_no_gate_after_restart(void **state) {
        create(MANAGED("r", "'strategy':{'unreadyGracePeriodSeconds':50},"));
        restart_agent();
        assert_true(node.recreate->requests[0]->spec->is_drained);
        assert_false(recreate_controller_owes_gate(node.recreate->requests[0]));
        remove_object(0);
        assert_null(find_call(0, "GET "));
        assert_int_equal(node.recreate->n_requests, 0);
}

/* It is not tried again at once, nor reconciled all the time. */
static void test_delete_fails(void **state) {
        const RecreateRequest *request;
        size_t n_texts;

        node.refused = "DELETE ";
        node.refused_code = 503;
        create(MANAGED("r", "'activeDeadlineSeconds':1,'ttlSecondsAfterFinished':0,"));
        request = node.recreate->requests[0];
        n_texts = node.n_texts;
        assert_non_null(strstr(node.texts[n_texts - 1], "DELETE "));
        reconcile();
        assert_int_equal(node.n_texts, n_texts);
        assert_true(request->due_usec >= recreate_now_usec(node.recreate) + 100 * 1000);
        assert_true(request->due_usec == request->write.rest_usec);
}

static void test_malformed(void **state) {
        create(REQUEST("bad", LABELS, "", "{'name':7}"));
        assert_int_equal(node.n_texts, 0);
        create(REQUEST("ours", LABELS ",'inplaced.io/managed':'true'", "", "{'name':7}"));
        assert_string_equal(get_text(node.objects[1], "/status/message"),
                            "spec.containers[0].name: expected a string (in quotes), got 7");
        create(PREPARED("good", ""));
        assert_int_equal(node.n_stops, 1);
}

static void test_retry(void **state) {
        node.next_code = 503;
        create(PREPARED("r", ""));
        assert_string_equal(phase(0), "");
        assert_int_equal(recreate_error(node.recreate)->kind, ERROR_NONE);
        assert_int_equal(recreate_kick(node.recreate), 0);
        settle();
        assert_string_equal(phase(0), "Recreating");
}

/* What works does not make up for what does not. */
static void test_right_missing(void **state) {
        static const char *const label = "{'metadata':{'labels':{'x':'y'}}}";

        node.refused = "DELETE ";
        node.refused_code = 403;
        create(MANAGED("r", "'activeDeadlineSeconds':1,'ttlSecondsAfterFinished':0,"));
        assert_int_equal(recreate_error(node.recreate)->kind, ERROR_DENIED);
        assert_string_equal(error_message(recreate_error(node.recreate)),
                            "the right to delete containerrecreaterequests.apps.kruise.io is "
                            "missing: code 403");
        create(PREPARED("s", ""));
        assert_string_equal(phase(1), "Recreating");
        assert_int_equal(recreate_error(node.recreate)->kind, ERROR_DENIED);
        patch_by_others(0, label);
        retry();
        assert_int_equal(node.n_warnings,
                         2); /* with the one that it is completed by its deadline */

        node.refused_code = 503;
        retry();
        assert_int_equal(recreate_error(node.recreate)->kind, ERROR_DENIED);
        assert_int_equal(node.n_warnings, 2);
        node.refused = NULL;
        retry();
        assert_int_equal(recreate_error(node.recreate)->kind, ERROR_NONE);
}

/* Only one request is wrong. */
static void test_refused(void **state) {
        node.refused = "/containerrecreaterequests/r/";
        node.refused_code = 422;
        create(PREPARED("r", ""));
        assert_string_equal(phase(0), "");
        assert_int_equal(node.n_warnings, 1);
        for (size_t i = 0; i < 3; i++) {
                create(PREPARED("s", ""));
                retry();
        }
        assert_int_equal(recreate_error(node.recreate)->kind, ERROR_NONE);
        assert_int_equal(node.n_warnings, 1);
}

/* In the older version that is an annotation, which is no part of the status. */
static void test_right_to_annotate(void **state) {
        node.served = "v1alpha1";
        node.recreate = recreate_free(node.recreate);
        begin_agent();
        node.refused = "unready-acquired";
        node.refused_code = 403;
        create(MANAGED("r", "'strategy':{'unreadyGracePeriodSeconds':50},"));
        assert_string_equal(error_message(recreate_error(node.recreate)),
                            "the right to patch containerrecreaterequests.apps.kruise.io is "
                            "missing: code 403");
}

static void set_watch_state(size_t i, KubeWatchState watch_state) {
        KubeWatch *watch = node.watches[i];

        error_done(&watch->error);
        if (watch_state == KUBE_WATCH_TROUBLED)
                (void) error_set(&watch->error, ERROR_NOT_FOUND, "gone");
        watch->state = watch_state;
        assert_int_equal(watch->options.on_state(watch_state, watch->options.userdata), 0);
        settle();
}

/* It is named among the kinds that are served, but is not. */
static void test_kind_broken(void **state) {
        for (unsigned n = 1; n <= 3; n++) {
                assert_int_equal(node.n_discoveries, n);
                set_watch_state(0, KUBE_WATCH_TROUBLED);
                assert_int_equal(node.n_discoveries, n);
                retry();
        }

        set_watch_state(0, KUBE_WATCH_SYNCED);
        set_watch_state(1, KUBE_WATCH_SYNCED);
        assert_true(kube_resource_is_synced(node.recreate->resource));
}

static void show_unassigned(size_t i, bool is_gone) {
        KubeWatch *watch = node.watches[1];
        cleanup(json_object_put_p) json_object *object = parse_quoted(REQUEST("r", "", "", BOTH));
        char uid[16];
        KubeObject shown;

        (void) snprintf(uid, sizeof(uid), "u-%zu", i);
        json_object_object_add(get_path(object, "/metadata"), "uid", json_object_new_string(uid));
        set_version(object);
        shown = as_shown(object);
        assert_int_equal(is_gone ? watch->options.on_gone(&shown, watch->options.userdata)
                                 : watch->options.on_object(&shown, watch->options.userdata),
                         0);
}

static void test_many_unassigned(void **state) {
        node.has_pod = false;
        for (size_t i = 0; i < RECREATE_REQUESTS_MAX + 2; i++)
                show_unassigned(i, false);
        assert_int_equal(node.recreate->n_unassigned, RECREATE_REQUESTS_MAX);
        assert_int_equal(node.n_warnings, 1);
        assert_int_equal(node.n_watches, 2);

        for (size_t i = 0; i < RECREATE_REQUESTS_MAX / 2; i++)
                show_unassigned(i, true);
        settle();
        assert_int_equal(node.n_watches, 3);
        for (size_t i = 0; i < RECREATE_REQUESTS_MAX + 2; i++)
                show_unassigned(i, false);
        assert_int_equal(node.n_warnings, 2);
}

static void test_kind_goes(void **state) {
        KubeWatch *watch = node.watches[0];

        create(PREPARED("r", ""));
        assert_true(stop_begin(node.stops[0]));
        node.served = NULL;
        watch->state = KUBE_WATCH_TROUBLED;
        (void) error_set(&watch->error, ERROR_NOT_FOUND, "gone");
        assert_int_equal(watch->options.on_state(KUBE_WATCH_TROUBLED, watch->options.userdata), 0);
        settle();
        assert_null(recreate_version(node.recreate));
        assert_null(node.watches[0]);
        assert_int_equal(recreate_error(node.recreate)->kind, ERROR_NONE);
        assert_int_equal(node.n_stops, 1);

        /* It is served again, and the stop is still ours. */
        node.served = "v1beta1";
        assert_int_equal(recreate_kick(node.recreate), 0);
        settle();
        show(node.objects[0], (bool[2]){ false });
        settle();
        stop_end(node.stops[0], STOP_STOPPED, NULL);
        assert_string_equal(states(0), "Recreating! Pending");
}

static void test_selectors(void **state) {
        assert_string_equal(node.watches[0]->selector,
                            "labelSelector=crr.apps.kruise.io%2Fnode-name%3Dnode-1%2C"
                            "crr.apps.kruise.io%2Factive%3Dtrue");
        assert_string_equal(node.watches[1]->selector,
                            "labelSelector=%21crr.apps.kruise.io%2Fnode-name");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_all_phases),
                TEST(test_ordered),
                TEST(test_failure),
                TEST(test_failure_ignored),
                TEST(test_pod_of_another),
                TEST(test_claimed_mirror),
                TEST(test_check_finds_another_pod),
                TEST(test_one_after_another),
                TEST(test_completed_meanwhile),
                TEST(test_deleted_meanwhile),
                TEST(test_deleted_before),
                TEST(test_check_says_no),
                TEST(test_gone),
                TEST(test_begins_later),
                TEST(test_runtime_lost),
                TEST(test_check_fails),
                TEST(test_over_while_check_fails),
                TEST(test_replaced),
                TEST(test_late_report),
                TEST(test_conflict),
                TEST(test_unexplained_conflicts),
                TEST(test_stale_object),
                TEST(test_stale_object_is_applied),
                TEST(test_min_started),
                TEST(test_overwritten),
                TEST(test_labels_overwritten),
                TEST(test_label_given_back_early),
                TEST(test_crash),
                TEST(test_runtime_unknown),
                TEST(test_bad_drain_time),
                TEST(test_drain),
                TEST(test_unassigned),
                TEST(test_adoption_refused),
                TEST(test_adoption_is_late),
                TEST(test_deadline),
                TEST(test_clock_ahead),
                TEST(test_clock_ahead_of_container),
                TEST(test_clock_ahead_of_drain),
                TEST(test_pod_gone),
                TEST(test_managed_drain),
                TEST(test_gate_after_restart),
                TEST(test_gate_cannot_be_closed),
                TEST(test_gate_conflicts),
                TEST(test_gate_of_no_pod),
                TEST(test_gate_cannot_be_opened),
                TEST(test_remnants),
                TEST(test_remnant_in_time),
                TEST(test_gate_of_successor),
                TEST(test_no_gate_after_restart),
                TEST(test_delete_fails),
                TEST(test_malformed),
                TEST(test_retry),
                TEST(test_right_missing),
                TEST(test_refused),
                TEST(test_right_to_annotate),
                TEST(test_kind_broken),
                TEST(test_many_unassigned),
                TEST(test_kind_goes),
                TEST(test_selectors),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
