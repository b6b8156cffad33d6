/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Restart requests, from creation to completion
 */

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

static void test_whole_life(void **state) {
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
        assert_int_equal(node.n_successes, 1);
        assert_int_equal(node.n_completed, 1);
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
        assert_int_equal(node.n_successes, 0);
}

static void test_failure_ignored(void **state) {
        create(PREPARED("r", "'strategy':{'failurePolicy':'Ignore'},"));
        stop_end(node.stops[0], STOP_FAILED, "no");
        assert_string_equal(states(0), "Failed Pending");
        assert_string_equal(phase(0), "Recreating");
        assert_string_equal(node.stops[0]->id, "s1");
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
        assert_int_equal(node.n_completed, 0);
        assert_string_equal(get_text(node.objects[0], "/status/message"), "enough");
}

/* A stop that has begun is finished and told; until then nobody disturbs it. */
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

/* It died in the same moment: nobody has killed it. */
static void test_gone(void **state) {
        create(PREPARED("r", ""));
        assert_true(stop_begin(node.stops[0]));
        stop_end(node.stops[0], STOP_GONE, NULL);
        assert_string_equal(states(0), "Recreating Pending");
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
        assert_int_equal(node.n_completed, 0);
}

/* The watch is late: what was written is not taken back. */
static void test_doubt(void **state) {
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
        assert_non_null(node.recreate->requests[0]->doubted);

        /* … but if nothing newer comes, it is what there is. */
        node.recreate->requests[0]->doubted_usec -= 10 * 1000000;
        assert_int_equal(recreate_look(node.recreate), 0);
        settle();
        assert_null(node.recreate->requests[0]->doubted);
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

        request->containers[0].seen_usec -= 5 * 1000000;
        assert_int_equal(recreate_look(node.recreate), 0);
        settle();
        assert_string_equal(states(0), "Succeeded! Succeeded!");
}

/* Again and again: it is told again, but ever more slowly. */
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
                assert_in_range(request->repeat_usec - now_usec, (800 * 1000) << (n - 1),
                                (1200 * 1000) << (n - 1));

                request->repeat_usec = 0;
                assert_int_equal(recreate_look(node.recreate), 0);
                settle();
                assert_string_equal(states(0), "Pending Pending");
                assert_int_equal(node.n_texts, n_texts + 1);
        }

        /* What is new is told at once. */
        patch_by_others(0, nothing);
        assert_true(stop_begin(node.stops[0]));
        stop_end(node.stops[0], STOP_STOPPED, NULL);
        assert_string_equal(states(0), "Recreating! Pending");
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
        node.recreate->requests[0]->drained_usec -= 5 * 1000000;
        assert_int_equal(recreate_look(node.recreate), 0);
        settle();
        assert_int_equal(node.n_stops, 1);
}

static void test_orphan(void **state) {
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

static void test_deadline(void **state) {
        create(MANAGED("r", "'activeDeadlineSeconds':1,'ttlSecondsAfterFinished':0,"));
        assert_string_equal(get_text(node.objects[0], "/status/message"),
                            "recreating has exceeded the activeDeadlineSeconds");
        assert_int_equal(node.n_stops, 0);
        assert_non_null(strstr(node.texts[node.n_texts - 1], "DELETE "));
        assert_non_null(strstr(node.texts[node.n_texts - 1], "\"uid\":\"u-r\""));
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
        node.recreate->requests[0]->drained_usec -= 5 * 1000000;
        assert_int_equal(recreate_look(node.recreate), 0);
        settle();
        assert_int_equal(node.n_stops, 1);
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
        assert_int_equal(recreate_error(node.recreate)->kind, ERROR_UNAVAILABLE);
        assert_int_equal(recreate_kick(node.recreate), 0);
        settle();
        assert_string_equal(phase(0), "Recreating");
        assert_int_equal(recreate_error(node.recreate)->kind, ERROR_NONE);
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
                TEST(test_whole_life),
                TEST(test_ordered),
                TEST(test_failure),
                TEST(test_failure_ignored),
                TEST(test_one_after_another),
                TEST(test_completed_meanwhile),
                TEST(test_deleted_meanwhile),
                TEST(test_deleted_before),
                TEST(test_check_says_no),
                TEST(test_gone),
                TEST(test_conflict),
                TEST(test_doubt),
                TEST(test_min_started),
                TEST(test_overwritten),
                TEST(test_crash),
                TEST(test_runtime_unknown),
                TEST(test_bad_drain_time),
                TEST(test_drain),
                TEST(test_orphan),
                TEST(test_deadline),
                TEST(test_pod_gone),
                TEST(test_managed_drain),
                TEST(test_malformed),
                TEST(test_retry),
                TEST(test_kind_goes),
                TEST(test_selectors),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
