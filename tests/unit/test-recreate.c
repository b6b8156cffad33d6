/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Restart requests, from creation to completion
 *
 * The API server answers at once, and the runtime what is asked about the pod; stops only end when the test
 * says so.
 */

#include <malloc.h>
#include <unistd.h>

#include "agent/recreate/recreate-controller.h"
#include "tests/unit/recreate-node.h"
#include "tests/unit/stderr-capture.h"

static struct {
        Stderr captured;
        unsigned n_warnings; /* so far */
} log_output;

/* Answers the oldest request that is to be answered. Returns whether there is one. */
static bool serve_server(void) {
        pod_server_serve();
        for (size_t i = 0; i < fake_kube.n_calls; i++) {
                KubeCall *call = fake_kube.calls[i];

                if (call->number == node.watches[0] || call->number == node.watches[1] ||
                    strncmp(call->request.path, "/api/v1/pods?", 13) == 0)
                        continue;

                serve_call(call);
                return true;
        }

        return false;
}

/* Answers questions about the pod's containers; questions of a stop wait. */
static bool serve_runtime(void) {
        for (size_t i = 0; i < fake_runtime.n_calls; i++) {
                RpcCall *call = &fake_runtime.calls[fake_runtime.order[i]];
                static const Error silence = { .kind = ERROR_UNAVAILABLE,
                                               .message = (char *) "silent" };

                if (strcmp(call->target, LABEL_POD_UID "=p-1") != 0)
                        continue;
                if (node.n_failing_lists > 0) {
                        node.n_failing_lists--;
                        assert_int_equal(call->done(NULL, &silence, call->userdata), 0);
                } else {
                        assert_ok(fake_runtime_serve_list(call));
                }
                return true;
        }

        return false;
}

/* Runs until no event is left to handle at once. */
static void settle(void) {
        unsigned n = 0;

        do {
                assert_true(n++ < 10000);
                fake_clock_pass(fake_kube.event, 0);
        } while (serve_server() || serve_runtime());
}

/* All that is due meanwhile happens in its time. */
static void pass(uint64_t usec) {
        uint64_t end_usec = fake_clock.now_usec + usec;
        const FakeTimer *timer;

        settle();
        while ((timer = fake_clock_find()) && timer->due_usec <= end_usec) {
                fake_clock_skip(fake_kube.event);
                settle();
        }
        fake_clock.now_usec = end_usec;
}

static unsigned count_warnings(void) {
        ssize_t size;

        while ((size = read(log_output.captured.reader, log_output.captured.text,
                            sizeof(log_output.captured.text) - 1)) > 0) {
                log_output.captured.text[size] = '\0';
                for (const char *at = log_output.captured.text; (at = strstr(at, " warning "));
                     at++)
                        log_output.n_warnings++;
        }
        return log_output.n_warnings;
}

/* Actions of the test */

static json_object *create(const char *text) {
        static const bool unselected[2] = { false };
        json_object *object = parse("%s", text);

        node.objects[node.n_objects++] = object;
        set_version(object);
        show(object, unselected);
        settle();
        return object;
}

static void patch_by_others(size_t i, const char *text) {
        json_object *patch = parse("%s", text);

        patch_object(&node.objects[i], patch);
        json_object_put(patch);
        settle();
}

static void remove_object(size_t i) {
        json_object *object = node.objects[i];

        node.objects[i] = node.objects[--node.n_objects];
        node.version++;
        for (size_t k = 0; k < 2; k++)
                if (is_selected(k, object))
                        send_event(k, "DELETED", object);
        json_object_put(object);
        settle();
}

static void show_pod(void) {
        pod_server_show(&node.pod);
        settle();
}

static void hide_pod(void) {
        pod_server_hide(&node.pod);
        settle();
}

/* The kubelet starts the container again, and says that it is ready. */
static void come_back(size_t i, const char *id) {
        add_container(node.pod.containers[i].name, id);
        name_container(i, id);
        show_pod();
}

/* The question of a stop whether its container runs; NULL: none. */
static RpcCall *inspection(void) {
        for (size_t i = 0; i < fake_runtime.n_calls; i++) {
                RpcCall *call = &fake_runtime.calls[fake_runtime.order[i]];

                if (strncmp(call->target, "id=", 3) == 0)
                        return call;
        }

        return NULL;
}

static size_t n_stops(void) {
        return stops_n_running(node.stops);
}

/* Returns the ID of the container that is stopped next, or is being stopped. */
static const char *stop_id(void) {
        if (fake_runtime_find("StopContainer"))
                return fake_runtime_find("StopContainer")->target;

        assert_non_null(inspection());
        return inspection()->target + strlen("id=");
}

/* A stop comes to its check; whether it may go on. */
static bool stop_begin(void) {
        assert_non_null(inspection());
        assert_ok(fake_runtime_serve_list(inspection()));
        settle();
        return fake_runtime_find("StopContainer");
}

/* It ends: it is begun before, unless that is how it ends. */
static void stop_end(StopResult result, const char *message) {
        FakeContainer *container;

        if (!fake_runtime_find("StopContainer") && !stop_begin())
                return;

        assert_true(result == STOP_STOPPED || result == STOP_GONE || result == STOP_FAILED);
        container = fake_runtime_container(stop_id());
        if (result == STOP_GONE) {
                container->is_running = false;
                container->finished_at = 1;
        }
        for (size_t i = 0; i < 3 && result == STOP_FAILED; i++) {
                while (!fake_runtime_find("StopContainer")) {
                        fake_clock_skip(fake_kube.event);
                        settle();
                }
                fake_runtime_refuse("StopContainer", ERROR_INTERNAL, message);
                assert_true(fake_runtime_serve("ContainerStatus"));
                settle();
        }
        if (result != STOP_FAILED) {
                assert_true(fake_runtime_serve("StopContainer"));
                assert_true(fake_runtime_serve("ContainerStatus"));
        }
        settle();
}

/* Requests whose end was counted; result: "succeeded" or "failed". */
static int n_completed(const char *result) {
        char series[100];

        (void) snprintf(series, sizeof(series), "inplaced_recreate_requests_total{result=\"%s\"}",
                        result);
        return (int) metric_value(node.metrics, series);
}

static void begin_agent(void) {
        start_agent();
        settle();
}

/* Kills the agent and starts it again: it has the server, the runtime and the journal, and nothing else. */
static void restart_agent(void) {
        end_agent();
        begin_agent();
}

static int set_up(void **state) {
        log_output.n_warnings = 0;
        stderr_pipe(&log_output.captured);
        assert_ok(fcntl(log_output.captured.reader, F_SETFL, O_NONBLOCK));
        node_open(LOG_INFO);
        begin_agent();
        return 0;
}

static int tear_down(void **state) {
        node_close();
        (void) stderr_restore(&log_output.captured);
        return 0;
}

#define CONTEXT(id) "'statusContext':{'containerID':'containerd://" id "','restartCount':0}"
#define BOTH "{'name':'app'," CONTEXT("a1") "},{'name':'side'," CONTEXT("s1") "}"
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
        assert_ok(recreate_kick(node.recreate));
        settle();
}

static void reconcile(void) {
        assert_ok(recreate_reconcile(node.recreate));
        settle();
}

/* Lets so much time pass since the last write that it may be repeated. */
static void let_repeat(void) {
        pass(8 * REPEAT_MIN_USEC);
}

static size_t count_calls(const char *part) {
        size_t n = 0;

        for (size_t i = 0; i < node.n_texts; i++)
                n += strstr(node.texts[i], part) != NULL;

        return n;
}

TEST_SET_UP(test_all_phases) {
        create(PREPARED("r", ""));
        assert_string_equal(phase(0), "Recreating");
        assert_string_equal(states(0), "Pending Pending");
        assert_int_equal(n_stops(), 1);
        assert_string_equal(stop_id(), "a1");
        fake_runtime.containers[0].grace = "17";

        assert_int_equal(node.n_leases, 0);
        assert_true(stop_begin());
        assert_int_equal(node.n_leases, 1); /* there has to be a kubelet */
        assert_string_equal(states(0), "Pending Pending");
        assert_string_equal(sent_events_take(),
                            "Normal/Killing Pod/d/web/p-1 spec.containers{app}: Stopping container "
                            "app by ContainerRecreateRequest r\n");
        assert_int_equal(fake_runtime_find("StopContainer")->timeout_sec, 17);
        stop_end(STOP_STOPPED, NULL);
        assert_true(stops_has_stopped(node.stops, "recreate/u-r", "a1"));
        assert_string_equal(states(0), "Recreating! Pending");
        assert_int_equal(n_stops(), 1);
        assert_string_equal(stop_id(), "s1");

        assert_true(stop_begin());
        stop_end(STOP_STOPPED, NULL);
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

TEST_SET_UP(test_ordered) {
        create(PREPARED("r", "'strategy':{'orderedRecreate':true,"
                             "'terminationGracePeriodSeconds':3},"));
        assert_true(stop_begin());
        assert_int_equal(fake_runtime_find("StopContainer")->timeout_sec, 3);
        stop_end(STOP_STOPPED, NULL);
        assert_int_equal(n_stops(), 0);
        come_back(0, "a2");
        assert_string_equal(states(0), "Succeeded! Pending");
        assert_string_equal(stop_id(), "s1");
}

TEST_SET_UP(test_failure) {
        create(PREPARED("r", ""));
        stop_end(STOP_FAILED, "no");
        assert_string_equal(phase(0), "Completed");
        assert_string_equal(states(0), "Failed Pending");
        assert_string_equal(get_text(node.objects[0], "/status/message"),
                            "0 of 2 containers restarted; app: kill container error: no");
        assert_int_equal(n_stops(), 0);
        assert_int_equal(n_completed("succeeded"), 0);
        assert_int_equal(n_completed("failed"), 1);
}

TEST_SET_UP(test_failure_ignored) {
        create(PREPARED("r", "'strategy':{'failurePolicy':'Ignore'},"));
        stop_end(STOP_FAILED, "no");
        assert_string_equal(states(0), "Failed Pending");
        assert_string_equal(phase(0), "Recreating");
        assert_string_equal(stop_id(), "s1");
}

#define FORCED "'strategy':{'forceRecreate':true},"

/* While no kubelet works, such a container would stay down. */
static const struct KubeletRow {
        const char *restart_policy;
        bool is_forced;
        unsigned n_leases;
} kubelet_rows[] = {
        { "OnFailure", false, 1 },
        { "OnFailure", true, 1 },
        { "Never", false, 0 },
        { "Never", true, 0 },
};

TEST_ROWS_F(test_restarts_in_some_cases, kubelet_rows, restart_policy, const struct KubeletRow *row,
            void *state) {
        assert_ok(tear_down(state));
        assert_ok(set_up(state));
        node.pod.restart_policy = row->restart_policy;
        show_pod();
        create(row->is_forced ? PREPARED("r", FORCED) : PREPARED("r", ""));
        assert_true(stop_begin());
        assert_int_equal(node.n_leases, row->n_leases);
}

/* Users who make a request write its label and may write a pod: only the runtime's labels say which
 * pod a container is of. */
static const struct PodOfAnotherRow {
        const char *name; /* name of the pod in the request */
        bool has_pod, are_pods_unknown;
        const char *pod_uid;
        const char *listed_namespace, *listed_pod;
        bool is_served;
} others[] = {
        { "web", true, false, "p-1", "d", "web", true },
        { "web", false, true, "p-1", "d", "web", false }, /* it may run once */
        { "else", true, false, "p-1", "d", "web", false },
        { "else", false, true, "p-1", "d", "web", false },
        { "web", false, true, "p-1", "kube-system", "web", false },
        { "web", false, true, "p-1", "d", "etcd-0", false },
        { "web", true, false, "p-1", "kube-system", "web", false },
        { "web", true, false, "p-1", "d", "etcd-0", false },
        { "web", true, false, "p-0", "d", "web", false }, /* the former pod of that name */
};

TEST_ROWS_F(test_pod_of_another, others, name, const struct PodOfAnotherRow *row, void *state) {
        assert_ok(tear_down(state));
        assert_ok(set_up(state));
        end_agent();
        hide_pod();
        pod_server.is_slow = row->are_pods_unknown;
        begin_agent();
        node.pod.uid = row->pod_uid;
        if (row->has_pod)
                show_pod();
        for (size_t k = 0; k < 2; k++) {
                fake_runtime.containers[k].namespace = row->listed_namespace;
                fake_runtime.containers[k].pod = row->listed_pod;
        }
        create(strcmp(row->name, "web") == 0 ? PREPARED("r", FORCED)
                                             : PREPARED("r", FORCED "'podName':'else',"));
        assert_int_equal(n_stops(), row->is_served);
        if (!row->is_served)
                assert_string_equal(states(0), "Pending Pending");
        remove_object(0);
        assert_int_equal(node.recreate->n_requests, 0);
}

/* A pod that claims to be the mirror of another one: in a request's words, and in the runtime's. */
TEST_SET_UP(test_claimed_mirror) {
        node.pod.uid = "p-2";
        node.pod.runtime_uid = "p-1";
        show_pod();
        for (size_t i = 0; i < 2; i++) {
                fake_runtime.containers[i].namespace = "kube-system";
                fake_runtime.containers[i].pod = "etcd-0";
        }
        create(REQUEST("r",
                       "'crr.apps.kruise.io/node-name':'node-1',"
                       "'crr.apps.kruise.io/active':'true'",
                       "", BOTH));
        assert_string_equal(states(0), "Pending Pending");
        assert_int_equal(n_stops(), 0);
}

/* Nor is anything stopped that turns out to be another pod's when it is checked once more. */
TEST_SET_UP(test_check_finds_another_pod) {
        create(PREPARED("r", ""));
        for (size_t i = 0; i < 2; i++)
                fake_runtime.containers[i].namespace = "kube-system";
        assert_false(stop_begin());
        assert_int_equal(fake_runtime_n_asked("StopContainer"), 0);
}

TEST_SET_UP(test_one_after_another) {
        create(PREPARED("r1", ""));
        create(PREPARED("r2", ""));
        assert_string_equal(phase(1), "Pending");
        assert_int_equal(n_stops(), 1);

        patch_by_others(0, "{'status':{'phase':'Completed','completionTime':'2026-01-31T12:01:00Z',"
                           "'message':'enough'}}");
        assert_string_equal(phase(1), "Recreating");
        assert_int_equal(n_stops(), 1);
        assert_int_equal(n_completed("succeeded") + n_completed("failed"), 0);
        assert_string_equal(get_text(node.objects[0], "/status/message"), "enough");
        stop_end(STOP_STOPPED, NULL);
        assert_true(stops_has_stopped(node.stops, "recreate/u-r2", "a1"));
}

/* A stop that has begun is finished and reported; until then it is not disturbed. */
TEST_SET_UP(test_completed_meanwhile) {
        create(PREPARED("r1", ""));
        create(PREPARED("r2", ""));
        assert_true(stop_begin());
        patch_by_others(0, "{'metadata':{'labels':{'crr.apps.kruise.io/active':null}},'status':{"
                           "'phase':'Completed','completionTime':'2026-01-31T12:01:00Z'}}");
        assert_int_equal(n_stops(), 1);
        assert_string_equal(phase(1), "Pending");

        stop_end(STOP_STOPPED, NULL);
        assert_string_equal(states(0), "Recreating! Pending");
        assert_string_equal(phase(0), "Completed");
        assert_string_equal(phase(1), "Recreating");
        assert_string_equal(stop_id(), "s1");
        stop_end(STOP_STOPPED, NULL);
        assert_true(stops_has_stopped(node.stops, "recreate/u-r2", "s1"));
}

TEST_SET_UP(test_deleted_meanwhile) {
        create(PREPARED("r", ""));
        assert_true(stop_begin());
        remove_object(0);
        assert_int_equal(n_stops(), 1);
        stop_end(STOP_STOPPED, NULL);
        assert_int_equal(n_stops(), 0);
        assert_int_equal(node.recreate->n_requests, 0);
}

TEST_SET_UP(test_deleted_before) {
        create(PREPARED("r", ""));
        remove_object(0);
        assert_int_equal(n_stops(), 0);
        assert_int_equal(node.recreate->n_requests, 0);
}

/* The request is about its predecessor. */
TEST_SET_UP(test_check_says_no) {
        create(PREPARED("r", ""));
        add_container("app", "a2");
        assert_false(stop_begin());
        assert_string_equal(states(0), "Recreating Pending");
        assert_string_equal(stop_id(), "s1");
}

/* The container died in the same moment: it was not killed. */
TEST_SET_UP(test_gone) {
        create(PREPARED("r", ""));
        assert_true(stop_begin());
        stop_end(STOP_GONE, NULL);
        assert_string_equal(states(0), "Recreating Pending");
}

/* It was made, but not begun yet when it was to be stopped. */
TEST_SET_UP(test_begins_later) {
        create(PREPARED("r", "'strategy':{'forceRecreate':true,'orderedRecreate':true},"));
        fake_runtime.containers[0].is_running = false;
        fake_runtime.containers[0].is_created = true;
        assert_false(stop_begin());
        assert_string_equal(states(0), "Recreating Pending");
        assert_int_equal(n_stops(), 0);

        fake_runtime.containers[0].is_running = true;
        show_pod();
        assert_int_equal(n_stops(), 0); /* not at once again */
        while (n_stops() == 0)
                pass(SEC / 4);
        assert_string_equal(stop_id(), "a1");
}

/* The runtime goes away in the middle of a stop, and another client ends the request. */
TEST_SET_UP(test_runtime_lost) {
        create(PREPARED("r", ""));
        create(PREPARED("s", ""));
        assert_true(stop_begin());
        fake_runtime.is_away = true;
        fake_runtime_refuse("StopContainer", ERROR_UNAVAILABLE, "Socket closed");
        settle();
        patch_by_others(0, "{'status':{'phase':'Completed','completionTime':"
                           "'2026-01-31T12:00:00Z','message':'given up'}}");
        assert_int_equal(n_stops(), 1);
        assert_string_equal(phase(1), "Pending");

        fake_runtime.is_away = false;
        fake_container_end(&fake_runtime.containers[0]);
        assert_ok(recreate_runtime_changed(node.recreate));
        assert_int_equal(stops_runtime_changed(node.stops), 0);
        settle();
        assert_true(fake_runtime_serve("ContainerStatus"));
        settle();
        assert_string_equal(states(0), "Recreating! Pending");
        assert_string_equal(phase(1), "Recreating");
}

/* Whether it is still asked for is not known as long as the runtime does not say. */
TEST_SET_UP(test_check_fails) {
        create(PREPARED("r", ""));
        node.n_failing_lists = 1;
        assert_false(stop_begin());
        assert_int_equal(n_stops(), 1);
        reconcile();
        pass(SEC / 2);
        assert_null(fake_runtime_find("StopContainer"));

        fake_runtime.is_away = true;
        assert_ok(recreate_runtime_changed(node.recreate));
        settle();
        assert_int_equal(n_stops(), 1);
        assert_null(fake_runtime_find("StopContainer"));

        fake_runtime.is_away = false;
        assert_ok(recreate_runtime_changed(node.recreate));
        settle();
        assert_string_equal(fake_runtime_find("StopContainer")->target, "a1");
}

TEST_SET_UP(test_over_while_check_fails) {
        create(PREPARED("r", ""));
        node.n_failing_lists = 1;
        assert_false(stop_begin());
        remove_object(0);
        assert_int_equal(n_stops(), 0);
        assert_int_equal(node.recreate->n_requests, 0);
}

/* While a stop goes on, the request is deleted, and another one gets its name. */
TEST_SET_UP(test_replaced) {
        size_t n_written;

        create(PREPARED("r", ""));
        assert_true(stop_begin());
        n_written = count_calls("u-r");
        remove_object(0);
        create(REQUEST("r", LABELS "},'annotations':{},'uid':'u-2','x':{", "", BOTH));
        assert_string_equal(get_text(node.objects[0], "/metadata/uid"), "u-2");

        stop_end(STOP_STOPPED, NULL);
        assert_string_equal(states(0), "Recreating Pending");
        assert_int_equal(node.recreate->n_requests, 1);
        assert_string_equal(stop_id(), "s1");
        stop_end(STOP_STOPPED, NULL);
        assert_true(stops_has_stopped(node.stops, "recreate/u-2", "s1"));
        assert_int_equal(count_calls("u-r"), n_written);
}

/* The report does not get into an object either that the agent does not see. */
TEST_SET_UP(test_late_report) {
        create(PREPARED("r", ""));
        assert_true(stop_begin());
        remove_object(0);
        create(REQUEST("r", "'crr.apps.kruise.io/node-name':'node-2'},'uid':'u-2','x':{", "",
                       BOTH));
        patch_by_others(0, "{'status':{'phase':'Pending'}}");

        stop_end(STOP_STOPPED, NULL);
        assert_contains(node.texts[node.n_texts - 1],
                        "{\"op\":\"test\",\"path\":\"/metadata/uid\",\"value\":\"u-r\"}");
        assert_string_equal(states(0), "");
        assert_string_equal(phase(0), "Pending");
        assert_int_equal(node.recreate->n_requests, 0);
        assert_int_equal(count_warnings(), 0);
}

static size_t count_asked(const char *begin) {
        size_t n = 0;

        for (size_t i = 0; i < node.n_texts; i++)
                n += strncmp(node.texts[i], begin, strlen(begin)) == 0;
        return n;
}

/* The watch shows nothing: the agent asks for the object itself, and writes the rest to its present state. */
TEST_SET_UP(test_unexplained_conflicts) {
        create(PREPARED("r", ""));
        assert_true(stop_begin());
        stop_end(STOP_STOPPED, NULL);
        come_back(0, "a2");
        assert_true(stop_begin());
        stop_end(STOP_STOPPED, NULL);

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

TEST_SET_UP(test_conflict) {
        create(PREPARED("r", ""));
        assert_true(stop_begin());
        stop_end(STOP_STOPPED, NULL);
        come_back(0, "a2");
        assert_true(stop_begin());
        stop_end(STOP_STOPPED, NULL);

        node.is_deaf = true;
        patch_by_others(0, "{'status':{'phase':'Completed','completionTime':'2026-01-31T12:01:00Z',"
                           "'message':'too late'}}");
        come_back(1, "s2");
        assert_string_equal(get_text(node.objects[0], "/status/message"), "too late");
        assert_int_equal(n_completed("succeeded") + n_completed("failed"), 0);
}

/* The watch shows an object as it was at first. */
static void show_again(const char *text) {
        cleanup(json_object_put_p) json_object *old = parse("%s", text);

        json_object_object_add(get_path(old, "/metadata"), "resourceVersion",
                               json_object_new_string("1"));
        send_event(0, "MODIFIED", old);
        settle();
}

/* The watch is late: the agent does not take back its write. */
TEST_SET_UP(test_stale_object) {
        size_t n_texts;

        create(PREPARED("r", ""));
        n_texts = node.n_texts;
        show_again(PREPARED("r", ""));
        assert_int_equal(node.n_texts, n_texts);
        assert_string_equal(recreate_phase_to_string(
                                    node.recreate->requests[0]->spec->status.phase),
                            "Recreating");

        /* … but if nothing newer comes, it is what there is. */
        pass(10 * SEC);
        assert_true(node.n_texts > n_texts);
}

/* The older object ends it, and it is the turn of the next one. */
TEST_SET_UP(test_stale_object_is_applied) {
        create(PREPARED("r", ""));
        create(PREPARED("s", ""));
        show_again(
                REQUEST("r", LABELS "},'x':{", "", BOTH "]},'status':{'phase':'Completed','x':["));
        assert_string_equal(phase(1), "Pending");
        pass(10 * SEC);
        assert_string_equal(phase(1), "Recreating");
}

/* The container neither counts before it was seen running for that long, nor by the second in which
 * it began. */
TEST_SET_UP(test_min_started) {
        create(PREPARED("r", "'strategy':{'minStartedSeconds':5},"));
        for (size_t i = 0; i < 2; i++) {
                assert_true(stop_begin());
                stop_end(STOP_STOPPED, NULL);
        }
        node.pod.containers[0].started_at_sec = time(NULL) - 4;
        come_back(0, "a2");
        node.pod.containers[1].started_at_sec = time(NULL) - 7;
        come_back(1, "s2");
        assert_string_equal(states(0), "Recreating! Succeeded!");

        pass(5 * SEC);
        assert_string_equal(states(0), "Recreating! Succeeded!");
        pass(1);
        assert_string_equal(states(0), "Succeeded! Succeeded!");
}

/* Again and again: it is written again, but ever more slowly. */
TEST_SET_UP(test_overwritten) {
        static const char *const nothing = "{'status':{'containerRecreateStates':null}}";

        create(PREPARED("r", ""));
        for (unsigned n = 1; n <= 3; n++) {
                size_t n_texts = node.n_texts;

                patch_by_others(0, nothing);
                assert_int_equal(node.n_texts, n_texts);
                pass((REPEAT_MIN_USEC << (n - 1)) - 1);
                assert_int_equal(node.n_texts, n_texts);
                pass(1);
                assert_string_equal(states(0), "Pending Pending");
                assert_int_equal(node.n_texts, n_texts + 1);
        }

        /* A new state is written at once. */
        patch_by_others(0, nothing);
        assert_true(stop_begin());
        stop_end(STOP_STOPPED, NULL);
        assert_string_equal(states(0), "Recreating! Pending");
}

static const struct Spoiled {
        const char *name, *request, *spoil, *written;
} spoiled[] = {
        { "the label of the node",
          REQUEST("r", "", "'strategy':{'unreadyGracePeriodSeconds':50},", "{'name':'app'}"),
          "{'metadata':{'labels':{'crr.apps.kruise.io/node-name':null}}}",
          "\"inplaced.io/managed\":\"true\"" },
        { "the label of activity", MANAGED("r", "'activeDeadlineSeconds':1,"),
          "{'metadata':{'labels':{'crr.apps.kruise.io/active':'true'}}}",
          "\"crr.apps.kruise.io/active\":null" },
        { "the conditions", MANAGED("r", "'strategy':{'unreadyGracePeriodSeconds':50},"),
          "{'status':{'conditions':null}}", "PreRecreateGrace" },
};

/* Another writer takes a label away, or gives one back, each time at once. */
TEST_ROWS_F(test_labels_overwritten, spoiled, name, const struct Spoiled *row, void *state) {
        create(row->request);
        for (unsigned n = 1; n <= 3; n++) {
                assert_int_equal(count_calls(row->written), n);
                patch_by_others(0, row->spoil);
                reconcile();
                retry();
                pass((REPEAT_MIN_USEC << (n - 1)) - 1);
                retry();
                assert_int_equal(count_calls(row->written), n);
                pass(1);
        }
}

/* … and the successor, which is not ready yet, is not stopped: the agent has it in no context. */
TEST_SET_UP(test_label_taken_away_after_the_stop) {
        create(REQUEST("r", "", "", "{'name':'app'}"));
        stop_end(STOP_STOPPED, NULL);
        add_container("app", "a2");
        name_container(0, "a2");
        node.pod.containers[0].is_ready = false;
        show_pod();

        patch_by_others(0, spoiled[0].spoil);
        let_repeat();
        retry();
        assert_int_equal(count_calls(spoiled[0].written), 2);
        assert_string_equal(states(0), "Recreating!");
        assert_int_equal(n_stops(), 0);
        node.pod.containers[0].is_ready = true;
        show_pod();
        assert_string_equal(phase(0), "Completed");
        assert_string_equal(states(0), "Succeeded!");
}

/* … and is seen to do so before the answer is: what is shown is not forgotten. */
TEST_SET_UP(test_label_given_back_early) {
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

/* A watch that is late does not make the agent write it again. */
TEST_SET_UP(test_label_taken_away_unseen) {
        size_t n;

        node.refused = "\"crr.apps.kruise.io/active\":null";
        node.refused_code = 503;
        create(MANAGED("r", "'activeDeadlineSeconds':1,"));
        n = count_calls(node.refused);
        node.refused_code = 0;
        node.is_deaf = true;
        retry();
        assert_int_equal(count_calls(node.refused), n + 1);
        let_repeat();
        retry();
        assert_int_equal(count_calls(node.refused), n + 1);
        assert_int_equal(node.recreate->n_requests, 0);
}

/* Killed between the stop and the report. */
TEST_SET_UP(test_crash) {
        create(PREPARED("r", ""));
        assert_true(stop_begin());
        fake_container_end(&fake_runtime.containers[0]);
        restart_agent();
        assert_false(stop_begin()); /* a stop that had begun is finished */
        assert_true(fake_runtime_serve("ContainerStatus"));
        settle();
        assert_string_equal(states(0), "Recreating! Pending");
        assert_int_equal(n_stops(), 1);
        assert_string_equal(stop_id(), "s1");
}

/* Killed between the stop and the report, too. The container that was stopped is not the one that the
 * request names, and the kubelet has removed it before the agent is back. */
TEST_SET_UP(test_crash_and_container_gone) {
        fake_container_end(&fake_runtime.containers[0]);
        come_back(0, "a2");
        create(PREPARED("r", "'strategy':{'forceRecreate':true,'orderedRecreate':true},"));
        assert_string_equal(stop_id(), "a2");
        node.refused = "isKilled";
        node.refused_code = 503;
        stop_end(STOP_STOPPED, NULL);
        assert_string_equal(states(0), "Pending Pending");

        end_agent();
        node.refused = NULL;
        fake_runtime_container("a2")->id = NULL;
        come_back(0, "a3");
        begin_agent();
        settle();
        assert_string_equal(states(0), "Succeeded! Pending");
        assert_string_equal(stop_id(), "s1");
}

TEST_SET_UP(test_runtime_unknown) {
        create(REQUEST("r", LABELS, "",
                       "{'name':'app','statusContext':{'containerID':'docker://a1'}}"));
        assert_string_equal(phase(0), "Completed");
        assert_string_equal(get_text(node.objects[0], "/status/message"),
                            "failed to find runtime service: not found runtime service for docker "
                            "in daemon");
}

TEST_SET_UP(test_bad_drain_time) {
        node.served = "v1alpha1";
        restart_agent();
        assert_string_equal(recreate_version(node.recreate), "v1alpha1");
        create(PREPARED("r", "'strategy':{'unreadyGracePeriodSeconds':1},"));
        assert_int_equal(n_stops(), 0);
        patch_by_others(0, "{'metadata':{'annotations':{'crr.apps.kruise.io/unready-acquired':"
                           "'soon'}}}");
        assert_string_equal(phase(0), "Completed");
        assert_contains(get_text(node.objects[0], "/status/message"),
                        "failed to parse unready time soon: ");
}

TEST_SET_UP(test_drain) {
        create(PREPARED("r", "'strategy':{'unreadyGracePeriodSeconds':5},"));
        assert_int_equal(n_stops(), 0);
        patch_by_others(0, "{'status':{'conditions':[{'type':'PreRecreateGrace','status':'True',"
                           "'lastTransitionTime':'2026-01-31T12:00:00Z'}]}}");
        assert_int_equal(n_stops(), 0);
        pass(5 * SEC - 1);
        assert_int_equal(n_stops(), 0);
        pass(1);
        assert_int_equal(n_stops(), 1);
}

TEST_SET_UP(test_unassigned) {
        hide_pod();
        create(REQUEST("r", "", "'activeDeadlineSeconds':300000000,", "{'name':'app'}"));
        assert_int_equal(node.n_texts, 0);
        show_pod();
        assert_string_equal(get_text(node.objects[0], "/metadata/labels/inplaced.io~1managed"),
                            "true");
        assert_string_equal(phase(0), "Recreating");
        assert_string_equal(stop_id(), "a1");
        assert_int_equal(node.recreate->rooms[RECREATE_UNASSIGNED].size, 0);

        assert_true(stop_begin());
        stop_end(STOP_STOPPED, NULL);
        come_back(0, "a2");
        assert_string_equal(phase(0), "Completed");
        assert_string_equal(get_text(node.objects[0],
                                     "/status/containerStatusSnapshot/0/containerID"),
                            "containerd://a2");
        assert_null(get_path(node.objects[0], "/metadata/labels/crr.apps.kruise.io~1active"));
        assert_int_equal(node.recreate->n_requests, 0);
}

static const struct LeftAloneRow {
        const char *name, *request;
} left_alone_rows[] = {
        { "no pod's name", "{'metadata':{'namespace':'d','name':'r','uid':'u-r'},"
                           "'spec':{'containers':[{'name':'app'}]}}" },
        { "being deleted", "{'metadata':{'namespace':'d','name':'r','uid':'u-r',"
                           "'deletionTimestamp':'2026-01-31T12:00:00Z'},"
                           "'spec':{'podName':'web','containers':[{'name':'app'}]}}" },
        { "completed", "{'metadata':{'namespace':'d','name':'r','uid':'u-r'},"
                       "'status':{'phase':'Completed'},"
                       "'spec':{'podName':'web','containers':[{'name':'app'}]}}" },
};

/* Requests without a pod's name, and those that are over or being deleted, are left alone. */
TEST_ROWS_F(test_left_alone, left_alone_rows, name, const struct LeftAloneRow *row, void *unused) {
        create(row->request);
        let_repeat();
        assert_int_equal(node.n_texts, 0);
        assert_int_equal(node.recreate->rooms[RECREATE_UNASSIGNED].size, 0);
}

static void let_retry(void) {
        size_t n_texts = node.n_texts;

        while (node.n_texts == n_texts) {
                fake_clock_skip(fake_kube.event);
                settle();
        }
}

/* It is tried again by itself, ever more slowly, and at once when the server is known to answer. */
TEST_SET_UP(test_adoption_refused) {
        static const struct {
                int code;
                ErrorKind kind;
        } refusals[] = { { 403, ERROR_DENIED }, { 503, ERROR_NONE } };

        for (size_t i = 0; i < N_ELEMENTS(refusals); i++) {
                size_t n_texts = node.n_texts;

                node.refused = "\"inplaced.io/managed\":\"true\"";
                node.refused_code = refusals[i].code;
                create(REQUEST("r", "", "", "{'name':'app'}"));
                assert_int_equal(node.n_texts, n_texts + 1);
                assert_int_equal(recreate_error(node.recreate)->kind, refusals[i].kind);
                show_pod();
                assert_int_equal(node.n_texts, n_texts + 1);
                let_retry();
                assert_int_equal(node.n_texts, n_texts + 2);
                assert_int_equal(count_warnings(), i + 1);

                node.refused = NULL;
                retry();
                assert_string_equal(phase(0), "Recreating");
                assert_int_equal(recreate_error(node.recreate)->kind, ERROR_NONE);
                remove_object(0);
                let_repeat();
        }
}

/* The object changed or went meanwhile: the watch shows it, and no write is tried again before. */
TEST_SET_UP(test_adoption_is_late) {
        static const int codes[] = { 404, 409 };

        for (size_t i = 0; i < 2; i++) {
                size_t n_texts = node.n_texts;

                node.refused = "\"inplaced.io/managed\":\"true\"";
                node.refused_code = codes[i];
                create(REQUEST("r", "", "", "{'name':'app'}"));
                retry();
                assert_int_equal(node.n_texts, n_texts + 1);
                assert_int_equal(count_warnings(), 0);
                assert_int_equal(recreate_error(node.recreate)->kind, ERROR_NONE);

                node.refused = NULL;
                patch_by_others(0, "{'metadata':{'labels':{'x':'y'}}}");
                assert_string_equal(phase(0), "Recreating");
                remove_object(0);
                let_repeat();
        }
}

TEST_SET_UP(test_deadline) {
        create(MANAGED("r", "'activeDeadlineSeconds':1,'ttlSecondsAfterFinished':0,"));
        assert_string_equal(get_text(node.objects[0], "/status/message"),
                            "recreating has exceeded the activeDeadlineSeconds");
        assert_int_equal(n_stops(), 0);
        assert_contains(node.texts[node.n_texts - 1], "DELETE ");
        assert_contains(node.texts[node.n_texts - 1], "\"uid\":\"u-r\"");
}

/* This node's clock is months ahead. By the server's it is the second in which the request was made;
 * or the server does not say. */
TEST_SET_UP(test_clock_ahead) {
        static const int64_t times[] = { CREATED_SEC, 0 };

        for (size_t i = 0; i < 2; i++) {
                fake_kube.server_usec = times[i] * 1000000;
                create(MANAGED("r", "'activeDeadlineSeconds':60,'ttlSecondsAfterFinished':60,"));
                assert_string_equal(phase(0), "Recreating");
                assert_int_equal(n_stops(), 1);
                stop_end(STOP_FAILED, "no");
                assert_string_equal(phase(0), "Completed");
                assert_contains(get_text(node.objects[0], "/status/message"), "no");
                if (times[i] > 0)
                        assert_string_equal(get_text(node.objects[0], "/status/completionTime"),
                                            "2026-01-31T12:00:00Z");
                assert_null(find_call(0, "DELETE "));
                remove_object(0);
        }
}

/* The runtime counts by the clock of this node. Made ten seconds before the request it is not a
 * successor, however late that is. */
TEST_SET_UP(test_clock_ahead_of_container) {
        fake_kube.server_usec = (int64_t) CREATED_SEC * 1000000;
        fake_runtime.containers[0].created_at = (time(NULL) - 10) * 1000000000;
        create(REQUEST("r", LABELS ",'inplaced.io/managed':'true'", "", "{'name':'app'}"));
        assert_string_equal(states(0), "Pending");
        assert_int_equal(n_stops(), 1);
        remove_object(0);

        fake_runtime.containers[0].created_at += (int64_t) 20 * 1000000000;
        create(REQUEST("s", LABELS ",'inplaced.io/managed':'true'", "", "{'name':'app'}"));
        assert_string_equal(states(0), "Succeeded");
        assert_int_equal(n_stops(), 0);
}

/* Nor is the pod unready for longer than it is by the server's clock. */
TEST_SET_UP(test_clock_ahead_of_drain) {
        fake_kube.server_usec = (int64_t) (CREATED_SEC + 7) * 1000000;
        create(PREPARED("r", "'strategy':{'unreadyGracePeriodSeconds':60},"));
        restart_agent(); /* it has not seen when the pod became unready */
        node.is_deaf = true;
        patch_by_others(0, "{'status':{'conditions':[{'type':'PreRecreateGrace','status':'True',"
                           "'lastTransitionTime':'2026-01-31T12:00:00Z'}]}}");
        node.is_deaf = false;
        restart_agent();
        assert_int_equal(n_stops(), 0);
        pass(53 * SEC - 1);
        assert_int_equal(n_stops(), 0);
        pass(1);
        assert_int_equal(n_stops(), 1);
}

TEST_SET_UP(test_pod_gone) {
        create(MANAGED("r", ""));
        assert_int_equal(n_stops(), 1);
        hide_pod();
        assert_string_equal(get_text(node.objects[0], "/status/message"), "pod has gone");
        assert_int_equal(n_stops(), 0);
}

TEST_SET_UP(test_managed_drain) {
        create(MANAGED("r", "'strategy':{'unreadyGracePeriodSeconds':5},"));
        assert_string_equal(get_text(node.objects[0], "/status/conditions/0/type"),
                            "PreRecreateGrace");
        assert_int_equal(n_stops(), 0);
        pass(5 * SEC - 1);
        assert_int_equal(n_stops(), 0);
        pass(1);
        assert_int_equal(n_stops(), 1);
}

#define POD_PATCH "PATCH /api/v1/namespaces/d/pods/web/status "
#define GATE_POD(condition) \
        "{\"metadata\":{\"uid\":\"p-1\"},\"status\":{\"conditions\":[" condition "]}}"
#define GATE_CLOSED                                                      \
        "{\"type\":\"KruisePodReady\",\"status\":\"False\",\"message\":" \
        "\"[{\\\"userAgent\\\":\\\"ContainerRecreateRequest\\\",\\\"key\\\":\\\"d/r\\\"}]\"}"

/* The agent is started again, and does not know the pods yet. */
static void begin_without_pods(void) {
        end_agent();
        hide_pod();
        pod_server.is_slow = true;
        begin_agent();
}

/* Now it does. */
static void list_pod(void) {
        show_pod();
        pod_server_complete();
        settle();
}

/* Restart rules, which only the pod has, may decide what a stop does. */
TEST_SET_UP(test_stop_waits_for_the_pod) {
        begin_without_pods();
        create(PREPARED("r", ""));
        assert_string_equal(states(0), "Pending Pending");
        assert_int_equal(n_stops(), 0);

        list_pod();
        assert_int_equal(n_stops(), 1);
}

/* The gate that was closed in a previous run is opened when the request is deleted. */
TEST_SET_UP(test_gate_after_restart) {
        size_t n_texts;

        node.pod.has_kruise_gate = true;
        show_pod();
        node.pod_json = GATE_POD("");
        create(MANAGED("r", "'strategy':{'unreadyGracePeriodSeconds':50},"));
        assert_contains(find_call(0, "PATCH /api/v1/namespaces/d/pods/web/status "), "\"False\"");
        assert_true(recreate_controller_owes_gate(node.recreate->requests[0]));
        assert_string_equal(get_text(node.objects[0], "/status/conditions/0/type"),
                            "PreRecreateGrace");

        node.pod_json = GATE_POD(GATE_CLOSED);
        begin_without_pods();
        n_texts = node.n_texts;
        remove_object(0);
        assert_int_equal(node.n_texts, n_texts);
        assert_true(recreate_controller_owes_gate(node.recreate->requests[0]));

        list_pod();
        assert_contains(find_call(n_texts, "PATCH /api/v1/namespaces/d/pods/web/status "),
                        "\"True\"");
        assert_int_equal(node.recreate->n_requests, 0);
}

static void sync_all(void) {
        for (size_t i = 0; i < 2; i++)
                send_end(i);
        settle();
}

#define LISTED(name) "{\"userAgent\":\"ContainerRecreateRequest\",\"key\":\"d/" name "\"}"
#define GET_REQUEST "GET /apis/apps.kruise.io/v1beta1/namespaces/d/containerrecreaterequests/r "

/* A pod that is unready for a request of which the watches show nothing. */
static const struct RemnantsRow {
        const char *message, *request; /* objects on the server; NULL: none */
        bool is_asked, is_opened;
} remnants[] = {
        { "[" LISTED("r") "]", NULL, true, true },
        { "[{\"userAgent\":\"Other\",\"key\":\"d/r\"}]", NULL, false, false },
        { "[{\"userAgent\":\"ContainerRecreateRequest\",\"key\":\"e/r\"}]", NULL, false, false },
        { "[{\"userAgent\":\"ContainerRecreateRequest\",\"key\":\"d/\"}]", NULL, false, false },
        { "no list", NULL, false, false },
        { NULL, NULL, false, false },
        /* Requests whose labels are gone, or were not made yet. */
        { "[" LISTED("r") "]",
          REQUEST("r", "'crr.apps.kruise.io/node-name':'node-1'",
                  "'strategy':{'unreadyGracePeriodSeconds':50},", BOTH),
          true, false },
        { "[" LISTED("r") "]", REQUEST("r", "'crr.apps.kruise.io/node-name':'node-1'", "", BOTH),
          true, true },
        { "[" LISTED("r") "]",
          REQUEST("r", "'crr.apps.kruise.io/node-name':'node-1'",
                  "'strategy':{'unreadyGracePeriodSeconds':50},",
                  BOTH "]},'status':{'phase':'Completed','x':["),
          true, true },
        { "[" LISTED("r") "]",
          REQUEST("r", LABELS, "'strategy':{'unreadyGracePeriodSeconds':50},",
                  BOTH "]},'status':{'phase':'Completed','x':["),
          true, true },
        { "[" LISTED("r") "]",
          REQUEST("r", "'crr.apps.kruise.io/node-name':'node-1'",
                  "'strategy':{'unreadyGracePeriodSeconds':50},'podName':'else',", BOTH),
          true, true },
};

TEST_ROWS_F(test_remnants, remnants, message, const struct RemnantsRow *row, void *unused) {
        size_t n_texts;

        node.pod.has_kruise_gate = true;
        node.pod_json = GATE_POD(GATE_CLOSED);
        if (row->request)
                create(row->request);
        end_agent();
        node.is_slow = true;
        node.pod.kruise_message = row->message;
        show_pod();
        begin_agent();
        n_texts = node.n_texts;
        sync_all();
        assert_int_equal(find_call(n_texts, GET_REQUEST) != NULL, row->is_asked);
        assert_int_equal(find_call(n_texts, POD_PATCH) != NULL, row->is_opened);
        if (row->request)
                remove_object(0);
        assert_int_equal(node.recreate->n_requests, 0);
}

/* The agent concludes nothing before it knows all objects, and does so once. */
TEST_SET_UP(test_remnant_in_time) {
        node.pod.has_kruise_gate = true;
        node.pod.kruise_message = "[" LISTED("r") "]";
        node.pod_json = GATE_POD(GATE_CLOSED);
        node.is_slow = true;
        begin_without_pods();
        sync_all();
        assert_int_equal(node.n_texts, 0);
        node.refused = GET_REQUEST;
        node.refused_code = 403;
        list_pod();
        assert_int_equal(node.n_texts, 1);
        assert_string_equal(error_message(recreate_error(node.recreate)),
                            "the right to get containerrecreaterequests.apps.kruise.io is "
                            "missing: code 403");
        reconcile();
        assert_int_equal(node.n_texts, 1);

        node.refused = NULL;
        retry();
        assert_contains(find_call(1, POD_PATCH), "\"True\"");
        assert_int_equal(recreate_error(node.recreate)->kind, ERROR_NONE);
        assert_int_equal(node.recreate->n_requests, 0);
        sync_all();
        assert_int_equal(node.n_texts, 4);
}

/* The request that has got the name and closes the gate opens it. */
TEST_SET_UP(test_gate_of_successor) {
        node.pod.has_kruise_gate = true;
        show_pod();
        node.pod_json = GATE_POD("");
        create(MANAGED("r", "'strategy':{'unreadyGracePeriodSeconds':50},"));
        assert_non_null(find_call(0, POD_PATCH));
        node.pod_json = GATE_POD(GATE_CLOSED);
        begin_without_pods();
        remove_object(0);
        assert_int_equal(node.recreate->n_requests, 1);
        create(REQUEST("r", LABELS ",'inplaced.io/managed':'true'},'uid':'u-2','x':{",
                       "'strategy':{'unreadyGracePeriodSeconds':50},", BOTH));
        assert_int_equal(node.recreate->n_requests, 1);

        list_pod();
        for (size_t i = 0; i < node.n_texts; i++)
                assert_false(strstr(node.texts[i], POD_PATCH) && strstr(node.texts[i], "\"True\""));
}

static bool is_drained(void) {
        return strcmp(get_text(node.objects[0], "/status/conditions/0/type"), "PreRecreateGrace") ==
               0;
}

static void refuse_gate(int code) {
        node.pod.has_kruise_gate = true;
        show_pod();
        node.pod_json = GATE_POD("");
        node.refused = POD_PATCH;
        node.refused_code = code;
}

#define GATED MANAGED("r", "'strategy':{'unreadyGracePeriodSeconds':50},")
#define CLOSE_TRIES 5

/* Closing a gate is tried several times, ever more slowly; if the server refuses it each time, the request goes
 * on, and says so. */
TEST_SET_UP(test_gate_cannot_be_closed) {
        static const int codes[] = { 403, 422 };

        for (size_t i = 0; i < N_ELEMENTS(codes); i++) {
                size_t n_before = count_calls(POD_PATCH);

                refuse_gate(codes[i]);
                create(GATED);
                for (size_t n = 1; n < CLOSE_TRIES; n++) {
                        assert_int_equal(count_calls(POD_PATCH), n_before + n);
                        assert_false(is_drained());
                        reconcile();
                        assert_int_equal(count_calls(POD_PATCH), n_before + n);
                        pass(100 * 1000);
                        assert_int_equal(count_calls(POD_PATCH), n_before + n);
                        retry();
                }
                retry();
                assert_int_equal(count_calls(POD_PATCH), n_before + CLOSE_TRIES);
                assert_true(is_drained());
                assert_int_equal(count_warnings(), 2 * (i + 1));
                assert_contains(log_output.captured.text,
                                "is not made unready for the restart request");
                assert_int_equal(recreate_error(node.recreate)->kind,
                                 codes[i] == 403 ? ERROR_DENIED : ERROR_NONE);
                if (codes[i] == 403)
                        assert_string_equal(error_message(recreate_error(node.recreate)),
                                            "the right to patch pods/status is missing: code 403");
                node.refused = NULL;
                node.pod.has_kruise_gate = false;
                show_pod();
                remove_object(0);
                retry();
                assert_int_equal(node.recreate->n_requests, 0);
                restart_agent();
        }
}

/* A server that is away or busy for a while is no reason to restart a pod in service. */
TEST_SET_UP(test_gate_after_an_outage) {
        static const int codes[] = { 503, 429, 500 };

        for (size_t i = 0; i < N_ELEMENTS(codes); i++) {
                refuse_gate(codes[i]);
                create(GATED);
                for (size_t n = 1; n < 3 * CLOSE_TRIES; n++)
                        retry();
                node.refused_code = 403;
                retry();
                assert_false(is_drained());
                assert_int_equal(n_stops(), 0);

                node.refused = NULL;
                retry();
                assert_true(is_drained());
                node.pod.has_kruise_gate = false;
                show_pod();
                remove_object(0);
                restart_agent();
        }
}

/* The server may have closed the gate although it did not say so. */
TEST_SET_UP(test_gate_of_an_unknown_outcome) {
        refuse_gate(503);
        create(GATED);
        node.pod_json = GATE_POD(GATE_CLOSED);
        remove_object(0);
        assert_int_equal(node.recreate->n_requests, 1);
        node.refused = NULL;
        retry();
        assert_non_null(find_call(0, "\"type\":\"KruisePodReady\",\"status\":\"True\""));
        assert_int_equal(node.recreate->n_requests, 0);
}

/* Another writer was quicker: the pod is read anew and written, as often as it takes, and not logged. */
TEST_SET_UP(test_gate_conflicts) {
        refuse_gate(409);
        create(GATED);
        for (size_t n = 1; n <= 2 * CLOSE_TRIES; n++) {
                assert_int_equal(count_calls(POD_PATCH), n);
                assert_int_equal(count_calls("GET "), n);
                reconcile();
                assert_int_equal(count_calls(POD_PATCH), n);
                pass(400 * 1000);
                assert_int_equal(count_calls(POD_PATCH), n);
                if (n < 2 * CLOSE_TRIES)
                        retry();
        }
        assert_false(is_drained());
        assert_int_equal(count_warnings(), 0);
        assert_int_equal(recreate_error(node.recreate)->kind, ERROR_NONE);

        node.refused = NULL;
        retry();
        assert_true(is_drained());
}

/* Without a pod there is no gate to close, nor to open. */
TEST_SET_UP(test_gate_of_no_pod) {
        refuse_gate(404);
        create(GATED);
        assert_int_equal(count_calls(POD_PATCH), 1);
        assert_true(is_drained());
        assert_int_equal(count_warnings(), 0);

        node.pod_json = GATE_POD(GATE_CLOSED);
        remove_object(0);
        assert_int_equal(count_calls(POD_PATCH), 2);
        assert_int_equal(node.recreate->n_requests, 0);
}

/* The agent tries to open a closed gate until it succeeds, and does nothing else for the request. */
TEST_SET_UP(test_gate_cannot_be_opened) {
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

#define LABEL(name, value) "{'metadata':{'labels':{'" name "':" value "}}}"
#define IS_OPENED "\"type\":\"KruisePodReady\",\"status\":\"True\""

/* Changes by another client to a request for which the agent has closed the gate. */
static const struct TakenRow {
        const char *name, *patch;
        bool restarts; /* the agent is restarted after that */
} taken_rows[] = {
        { "the agent is not its controller any more", LABEL("inplaced.io/managed", "null"), false },
        { "no UID", LABEL("crr.apps.kruise.io/pod-uid", "null"), false },
        { "another UID", LABEL("crr.apps.kruise.io/pod-uid", "'p-2'"), false },
        { "another pod", "{'spec':{'podName':'else'}}", false },
        { "no unready period", "{'spec':{'strategy':null}}", false },
        { "no UID before a restart", LABEL("crr.apps.kruise.io/pod-uid", "null"), true },
        { "another UID before a restart", LABEL("crr.apps.kruise.io/pod-uid", "'p-2'"), true },
        { "another pod before a restart", "{'spec':{'podName':'else'}}", true },
        { "no unready period before a restart", "{'spec':{'strategy':null}}", true },
};

/* The pod is made ready again, whether the request is completed or deleted. */
TEST_ROWS_F(test_gate_of_taken, taken_rows, name, const struct TakenRow *row, void *unused) {
        node.pod.has_kruise_gate = true;
        for (unsigned n = 0; n < 2; n++) {
                size_t n_texts;

                let_repeat();
                node.pod_json = GATE_POD("");
                node.pod.kruise_message = NULL;
                show_pod();
                create(GATED);
                assert_true(is_drained());
                node.pod_json = GATE_POD(GATE_CLOSED);
                node.pod.kruise_message = "[" LISTED("r") "]";
                show_pod();
                n_texts = node.n_texts;
                node.is_deaf = row->restarts;
                patch_by_others(0, row->patch);
                node.is_deaf = false;
                if (row->restarts)
                        restart_agent();
                if (n == 1)
                        patch_by_others(0, "{'status':{'phase':'Completed','completionTime':"
                                           "'2026-01-31T12:01:00Z','message':'enough'}}");
                else
                        remove_object(0);
                assert_non_null(find_call(n_texts, IS_OPENED));
        }

        remove_object(0);
        assert_int_equal(node.recreate->n_requests, 0);
}

/* The agent was killed between closing the gate and recording that in the request. */
TEST_SET_UP(test_gate_of_taken_before_the_drain) {
        size_t n_texts;

        refuse_gate(0);
        node.refused = "PreRecreateGrace";
        node.refused_code = 503;
        create(GATED);
        assert_non_null(find_call(0, POD_PATCH));
        assert_false(is_drained());
        node.pod_json = GATE_POD(GATE_CLOSED);
        node.pod.kruise_message = "[" LISTED("r") "]";
        show_pod();
        node.is_deaf = true;
        patch_by_others(0, LABEL("crr.apps.kruise.io/pod-uid", "'p-2'"));
        node.is_deaf = false;
        n_texts = node.n_texts;
        restart_agent();
        assert_string_equal(get_text(node.objects[0], "/status/message"), "pod has gone");
        assert_non_null(find_call(n_texts, IS_OPENED));
}

/* Without a gate there is nothing to wait for. */
TEST_SET_UP(test_no_gate_after_restart) {
        create(MANAGED("r", "'strategy':{'unreadyGracePeriodSeconds':50},"));
        restart_agent();
        assert_true(node.recreate->requests[0]->spec->is_drained);
        assert_false(recreate_controller_owes_gate(node.recreate->requests[0]));
        remove_object(0);
        assert_null(find_call(0, "GET "));
        assert_int_equal(node.recreate->n_requests, 0);
}

/* It is not tried again at once, nor reconciled all the time. */
TEST_SET_UP(test_delete_fails) {
        size_t n_texts;

        node.refused = "DELETE ";
        node.refused_code = 503;
        create(MANAGED("r", "'activeDeadlineSeconds':1,'ttlSecondsAfterFinished':0,"));
        n_texts = node.n_texts;
        assert_contains(node.texts[n_texts - 1], "DELETE ");
        reconcile();
        assert_int_equal(node.n_texts, n_texts);
        pass(100 * 1000);
        assert_int_equal(node.n_texts, n_texts);
        let_retry();
        assert_int_equal(node.n_texts, n_texts + 1);
        assert_contains(node.texts[n_texts], "DELETE ");
}

TEST_SET_UP(test_malformed) {
        create(REQUEST("bad", LABELS, "", "{'name':7}"));
        assert_int_equal(node.n_texts, 0);
        create(REQUEST("ours", LABELS ",'inplaced.io/managed':'true'", "", "{'name':7}"));
        assert_string_equal(get_text(node.objects[1], "/status/message"),
                            "spec.containers[0].name: expected a string (in quotes), got 7");
        create(PREPARED("good", ""));
        assert_int_equal(n_stops(), 1);
}

TEST_SET_UP(test_retry) {
        node.next_code = 503;
        create(PREPARED("r", ""));
        assert_string_equal(phase(0), "");
        assert_int_equal(recreate_error(node.recreate)->kind, ERROR_NONE);
        assert_ok(recreate_kick(node.recreate));
        settle();
        assert_string_equal(phase(0), "Recreating");
}

/* A write that succeeds does not make up for one that is forbidden. */
TEST_SET_UP(test_right_missing) {
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
        assert_int_equal(count_warnings(),
                         2); /* including that about the completion by the deadline */

        node.refused_code = 503;
        retry();
        assert_int_equal(recreate_error(node.recreate)->kind, ERROR_DENIED);
        assert_int_equal(count_warnings(), 2);
        node.refused = NULL;
        retry();
        assert_int_equal(recreate_error(node.recreate)->kind, ERROR_NONE);
}

/* Only one request is wrong. */
TEST_SET_UP(test_refused) {
        node.refused = "/containerrecreaterequests/r/";
        node.refused_code = 422;
        create(PREPARED("r", ""));
        assert_string_equal(phase(0), "");
        assert_int_equal(count_warnings(), 1);
        for (size_t i = 0; i < 3; i++) {
                create(PREPARED("s", ""));
                retry();
        }
        assert_int_equal(recreate_error(node.recreate)->kind, ERROR_NONE);
        assert_int_equal(count_warnings(), 1);
}

/* In the older version that is an annotation, which is no part of the status. */
TEST_SET_UP(test_right_to_annotate) {
        node.served = "v1alpha1";
        restart_agent();
        node.refused = "unready-acquired";
        node.refused_code = 403;
        create(MANAGED("r", "'strategy':{'unreadyGracePeriodSeconds':50},"));
        assert_string_equal(error_message(recreate_error(node.recreate)),
                            "the right to patch containerrecreaterequests.apps.kruise.io is "
                            "missing: code 403");
}

/* It is named among the kinds that are served, but is not. */
TEST_SET_UP(test_kind_broken) {
        unsigned n;

        node.is_broken = true;
        restart_agent();
        n = node.n_discoveries;
        for (unsigned i = 0; i < 3; i++) {
                reconcile();
                assert_int_equal(node.n_discoveries, n + i);
                retry();
                assert_int_equal(node.n_discoveries, n + i + 1);
        }

        node.is_broken = false;
        retry();
        assert_true(kube_resource_is_synced(node.recreate->resource));
        assert_int_equal(recreate_error(node.recreate)->kind, ERROR_NONE);
}

/* A watch shows one of many requests, which are not among the server's objects. */
static void show_one(size_t watch, const char *type, const char *text, size_t i) {
        cleanup(json_object_put_p) json_object *object = parse("%s", text);
        json_object *metadata = get_path(object, "/metadata");
        char name[16];

        (void) snprintf(name, sizeof(name), "u-%zu", i);
        json_object_object_add(metadata, "uid", json_object_new_string(name));
        (void) snprintf(name, sizeof(name), "x-%zu", i);
        json_object_object_add(metadata, "name", json_object_new_string(name));
        set_version(object);
        send_event(watch, type, object);
}

static void show_many(size_t watch, const char *text, size_t n) {
        for (size_t i = 0; i < n; i++)
                show_one(watch, "ADDED", text, i);
}

/* Requests that had no place are listed again once there is one. */
TEST_SET_UP(test_many_unassigned) {
        static const char request[] = REQUEST("r", "", "", BOTH);
        unsigned n_watches = node.n_watches;

        hide_pod();
        node.is_slow = true;
        show_many(1, request, RECREATE_REQUESTS_MAX + 2);
        assert_int_equal(node.recreate->rooms[RECREATE_UNASSIGNED].size, RECREATE_ROOM_MAX);
        assert_int_equal(count_warnings(), 1);
        assert_int_equal(node.n_watches, n_watches);

        for (size_t i = 0; i < RECREATE_REQUESTS_MAX / 2; i++)
                show_one(1, "DELETED", request, i);
        settle();
        assert_int_equal(node.n_watches, n_watches + 1);
        show_many(1, request, RECREATE_REQUESTS_MAX + 2);
        assert_int_equal(count_warnings(), 2);
}

#define FILL 64 * 1024 * 7 / 8
#define TENANT "{'metadata':{'creationTimestamp':'2026-01-31T12:00:00Z','namespace':'tenant'"

/* Many or large requests of a namespace, for a pod that is not here. */
static const struct TenantRow {
        const char *name;
        size_t watch, n;
        const char *begin, *end; /* text before and after the filling */
        size_t fill;
} tenant_rows[] = {
        { "many unprepared", 1, RECREATE_REQUESTS_MAX + 2,
          TENANT "},'spec':{'podName':'web','containers':[{'name':'app'}],'x':'", "'}}", 0 },
        { "large annotations", 1, 400, TENANT ",'annotations':{'a':'",
          "'}},'spec':{'podName':'web','containers':[{'name':'app'}]}}", FILL },
        { "large specs", 1, 400,
          TENANT "},'spec':{'podName':'web','containers':[{'name':'app','x':'", "'}]}}", FILL },
        { "many of this node", 0, RECREATE_REQUESTS_MAX + 2,
          TENANT ",'labels':{" LABELS "}},'status':{'phase':'Completed'},"
                 "'spec':{'podName':'web','containers':[{'name':'app'}],'x':'",
          "'}}", 0 },
        { "large annotations of managed ones", 0, 400,
          TENANT ",'deletionTimestamp':'2026-01-31T12:00:00Z','labels':{" LABELS
                 ",'inplaced.io/managed':'true'},'annotations':{'a':'",
          "'}},'spec':{'podName':'web','containers':[{'name':'app'}]}}", FILL },
        { "large conditions of managed ones", 0, 400,
          TENANT
          ",'deletionTimestamp':'2026-01-31T12:00:00Z','labels':{" LABELS
          ",'inplaced.io/managed':'true'}},'status':{'conditions':[{'type':'Other','message':'",
          "'}]},'spec':{'podName':'web','strategy':{'unreadyGracePeriodSeconds':50},"
          "'containers':[{'name':'app'}]}}",
          FILL },
        { "a huge one", 0, 1,
          TENANT ",'labels':{" LABELS "}},'status':{'phase':'Completed',"
                 "'containerStatusSnapshot':[{'name':'app','containerID':'",
          "'}]},'spec':{'podName':'web','containers':[{'name':'app'}]}}", RECREATE_ROOM_MAX / 5 },
        { "large snapshots", 0, 400,
          TENANT ",'labels':{" LABELS "}},'status':{'phase':'Completed',"
                 "'containerStatusSnapshot':[{'name':'app','containerID':'",
          "'}]},'spec':{'podName':'web','containers':[{'name':'app'}]}}", FILL },
};

/* … take a bounded memory, and those of another namespace are served meanwhile. */
TEST_ROWS_F(test_tenant, tenant_rows, name, const struct TenantRow *row, void *unused) {
        cleanup(free_p) char *text = malloc(strlen(row->begin) + row->fill + strlen(row->end) + 1);
        unsigned n_watches = node.n_watches;
        char *end;
        size_t before;

        assert_non_null(text);
        end = stpcpy(text, row->begin);
        before = mallinfo2().uordblks;
        for (size_t i = 0; i < 2; i++) { /* the second time they grow */
                size_t fill = i * row->fill;

                memset(end, 'x', fill);
                memcpy(end + fill, row->end, strlen(row->end) + 1);
                show_many(row->watch, text, row->n);
        }
        settle();
        assert_int_equal(node.n_watches, n_watches);
        /* An address sanitizer's allocator always counts 0. */
        assert_true(mallinfo2().uordblks < before + RECREATE_ROOM_MAX * 3 / 2);
        show_one(row->watch, "DELETED", text, row->n - 1); /* there may have been no room for it */

        create(row->watch == 0 ? PREPARED("r", "") : REQUEST("r", "", "", BOTH));
        assert_string_equal(phase(0), "Recreating");
        restart_agent();
        remove_object(0);
}

static void remove_kind(void) {
        node.served = NULL;
        node.is_broken = true;
        for (size_t i = 0; i < 2; i++)
                assert_ok(fake_kube_answer_call(watch_call(i), 200, ""));
        while (recreate_version(node.recreate)) {
                fake_clock_skip(fake_kube.event);
                settle();
        }
}

/* No request is left that asks for a stop. */
TEST_SET_UP(test_kind_goes_before_the_stop) {
        create(PREPARED("r", ""));
        assert_int_equal(n_stops(), 1);
        remove_kind();
        assert_int_equal(n_stops(), 0);
}

TEST_SET_UP(test_kind_goes) {
        create(PREPARED("r", ""));
        assert_true(stop_begin());
        remove_kind();
        assert_null(watch_call(0));
        assert_int_equal(recreate_error(node.recreate)->kind, ERROR_NONE);
        assert_int_equal(n_stops(), 1);

        /* It is served again, and the stop is still ours. */
        node.served = "v1beta1";
        node.is_broken = false;
        retry();
        stop_end(STOP_STOPPED, NULL);
        assert_string_equal(states(0), "Recreating! Pending");
}

TEST_SET_UP(test_selectors) {
        assert_contains(watch_call(0)->request.path,
                        "?labelSelector=crr.apps.kruise.io%2Fnode-name%3Dnode-1%2C"
                        "crr.apps.kruise.io%2Factive%3Dtrue&");
        assert_contains(watch_call(1)->request.path,
                        "?labelSelector=%21crr.apps.kruise.io%2Fnode-name&");
}
