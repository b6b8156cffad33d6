/* SPDX-License-Identifier: Apache-2.0 */

/* How many pods restart at a time while an autoscaler scales their workload, and while an update waits for them; which ones
 * they are; how long a request may take; how a wait is shown, and ends. */

#include "tests/unit/unit.h"

#include <time.h>

#include "agent/base/text.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/commands.h"
#include "agent/kubectl/restart-show.h"
#include "agent/kubectl/restart-wait.h"
#include "agent/kubectl/rights.h"
#include "agent/kubectl/session.h"
#include "agent/view/output.h"
#include "tests/unit/quoted-json.h"
#include "tests/unit/stderr-capture.h"

#define TURNS_MAX 16
#define GRACE_SEC 1800

typedef enum ScaledWhile {
        SCALED_WHILE_WAITING,    /* in the first turn, when the watch has shown the pods before */
        SCALED_WHILE_RESTARTING, /* in the first batch */
} ScaledWhile;

/* The watch with this index shows an object, or that it is gone, and the wait is over, or goes on. */
typedef struct Step {
        int64_t later_sec;
        size_t watch;
        const char *name;   /* NULL: it shows nothing */
        const char *object; /* NULL: it is gone */
        bool is_away, is_over;
} Step;

/* A server with a StatefulSet; its functions stand for those of the session, see tests/CMakeLists.txt. Each pod is found to be
 * gone when it is to restart, which is as good as its restart, or gets a request that no agent completes. */
static struct {
        ScaledWhile scaled_while;
        size_t replicas, later_replicas;
        bool is_updating;  /* the pods have yet to run the image that they got */
        bool has_sidecar;  /* a container before the one that is updated */
        bool is_slow;      /* they are there still, and no agent completes a request */
        bool is_away;      /* it shows nothing while a turn is awaited */
        const Step *steps; /* each wait is shown these until it is over; NULL: as below */
        int64_t now_sec;
        size_t batches[TURNS_MAX]; /* pods that have begun after each turn */
        size_t n_turns;
        const char *outcome;
        char reason[256];
} server;

int __wrap_session_create(Session *session, const KubePath *path, json_object *body,
                          json_object **ret, Error *reterr);
int __wrap_session_get(Session *session, const KubePath *path, json_object **ret, Error *reterr);
int __wrap_session_list(Session *session, const KubePath *path, SessionItem on_item, void *userdata,
                        Error *reterr);
int __wrap_session_wait(Session *session, const SessionWait *wait, Error *reterr);
int __wrap_session_find_kruise(Session *session, const char *resource, const char **ret,
                               Error *reterr);
bool __wrap_session_is_dry_run(const Session *session);
const char *__wrap_session_namespace(const Session *session);
int64_t __wrap_session_server_sec(const Session *session);
int __wrap_rights_require_task(Session *session, RightsTask task, Error *reterr);
int __wrap_output_tree(OutputFormat format, json_object *tree);

int clock_gettime(clockid_t clock, struct timespec *ret) {
        *ret = (struct timespec){ .tv_sec = server.now_sec };
        return 0;
}

int __wrap_session_create(Session *session, const KubePath *path, json_object *body,
                          json_object **ret, Error *reterr) {
        *ret = parse("{'metadata':{'name':'inplace-restart-x'}}");
        return 0;
}

int __wrap_session_get(Session *session, const KubePath *path, json_object **ret, Error *reterr) {
        *ret = parse("{'metadata':{'name':'web','uid':'w'},'spec':{'replicas':%zu,"
                     "'selector':{'matchLabels':{'app':'web'}},"
                     "'updateStrategy':{'rollingUpdate':{'maxUnavailable':'50%%'}}}}",
                     server.replicas);
        return 0;
}

static json_object *make_pod(size_t ordinal) {
        return parse("{'metadata':{'name':'web-%zu','uid':'%zu','labels':{'app':'web'},"
                     "'ownerReferences':[{'controller':true,'apiVersion':'apps/v1',"
                     "'kind':'StatefulSet','name':'web','uid':'w'}],'annotations':{%s}},'spec':{"
                     "'terminationGracePeriodSeconds':%d,"
                     "'restartPolicy':'Always','containers':[%s{'name':'main','image':'app:1'}]},"
                     "'status':{'phase':'Running','conditions':[{'type':'Ready','status':'True'}],"
                     "'containerStatuses':[%s]}}",
                     ordinal, ordinal,
                     server.is_updating
                             ? "'inplaced.io/updated-containers':"
                               "'{\\'main\\':{\\'image\\':\\'app:0\\',\\'id\\':\\'c\\'}}'"
                             : "",
                     GRACE_SEC, server.has_sidecar ? "{'name':'sidecar','image':'sidecar:1'}," : "",
                     server.is_updating ? "{'name':'main','containerID':'c'}" : "");
}

int __wrap_session_list(Session *session, const KubePath *path, SessionItem on_item, void *userdata,
                        Error *reterr) {
        for (size_t i = 0; (!path->fields || server.is_slow) && i < server.replicas; i++) {
                cleanup(json_object_put_p) json_object *pod = make_pod(i);

                assert_ok(on_item(pod, userdata));
        }
        if (!path->fields || server.is_slow)
                return 0;
        server.batches[server.n_turns - 1]++;
        if (server.scaled_while == SCALED_WHILE_RESTARTING)
                server.replicas = server.later_replicas;
        return 0;
}

/* The pod is stopped for as long as its grace period lasts, and then for longer. */
static void wait_for_request(const SessionWait *wait) {
        assert_int_equal(wait->is_done(wait->userdata), 0);
        server.now_sec += GRACE_SEC;
        assert_int_equal(wait->is_done(wait->userdata), 0);
        server.now_sec += 600;
        assert_int_equal(wait->is_done(wait->userdata), 1);
}

static void wait_for_answer(const SessionWait *wait) {
        const Error error = ERROR_INIT;

        assert_int_equal(server.n_turns++, 0);
        assert_int_equal(wait->is_away(&error, wait->userdata), 0);
        server.now_sec += 600;
        assert_int_equal(wait->is_away(&error, wait->userdata), 1);
}

static void take_steps(const SessionWait *wait) {
        const Step *step = server.steps;
        bool is_over = false;

        for (; !is_over; step++) {
                const SessionWatch *watch = &wait->watches[step->watch];
                cleanup(json_object_put_p) json_object *json = parse("%s", step->object ?: "null");
                const KubeObject object = { .name = step->name,
                                            .uid = object_text(json, "metadata.uid"),
                                            .json = json };
                const Error error = ERROR_INIT;

                assert_true(step->watch < wait->n_watches);
                server.now_sec += step->later_sec;
                if (step->name)
                        assert_ok((json ? watch->on_object : watch->on_gone)(&object,
                                                                             wait->userdata));
                is_over = step->is_away ? wait->is_away(&error, wait->userdata) > 0
                                        : wait->is_done(wait->userdata) > 0;
                assert_int_equal(is_over, step->is_over);
        }
}

/* Shows budgets, of which there are none, and pods; or nothing of a request. */
int __wrap_session_wait(Session *session, const SessionWait *wait, Error *reterr) {
        if (server.steps) {
                take_steps(wait);
                return 0;
        }
        if (wait->n_watches == 1) {
                wait_for_request(wait);
                return 0;
        }
        if (server.is_away) {
                wait_for_answer(wait);
                return 0;
        }
        assert_int_equal(wait->n_watches, 2);
        assert_true(server.n_turns < TURNS_MAX);
        for (size_t i = 0; i < server.replicas; i++) {
                cleanup(json_object_put_p) json_object *pod = make_pod(i);
                const KubeObject object = {
                        .name = json_get_text(json_object_object_get(pod, "metadata"), "name"),
                        .json = pod
                };

                assert_ok(wait->watches[1].on_object(&object, wait->userdata));
        }
        assert_int_equal(wait->is_done(wait->userdata), 1);
        server.n_turns++;
        if (server.scaled_while == SCALED_WHILE_WAITING)
                server.replicas = server.later_replicas;
        return 0;
}

int __wrap_session_find_kruise(Session *session, const char *resource, const char **ret,
                               Error *reterr) {
        *ret = "v1beta1";
        return 0;
}

bool __wrap_session_is_dry_run(const Session *session) {
        return false;
}

const char *__wrap_session_namespace(const Session *session) {
        return "shop";
}

int64_t __wrap_session_server_sec(const Session *session) {
        return 1000;
}

int __wrap_rights_require_task(Session *session, RightsTask task, Error *reterr) {
        return 0;
}

int __wrap_output_tree(OutputFormat format, json_object *tree) {
        server.outcome = json_is(tree, "outcome", "restarted") ? "restarted" : "failed";
        (void) snprintf(server.reason, sizeof(server.reason), "%s",
                        json_get_text(tree, "reason") ?: "");
        return 0;
}

static const struct ScaledRow {
        const char *name;
        ScaledWhile scaled_while;
        size_t replicas, later_replicas;
        size_t batches[TURNS_MAX];
        size_t n_turns;
} scaled_rows[] = {
        { "not at all", SCALED_WHILE_WAITING, 4, 4, { 2, 2 }, 2 },
        { "down, while pods restart", SCALED_WHILE_RESTARTING, 8, 2, { 4, 1, 1, 1, 1 }, 5 },
        { "down, while a turn is awaited", SCALED_WHILE_WAITING, 4, 2, { 1, 1, 1, 1 }, 4 },
        { "up, while pods restart", SCALED_WHILE_RESTARTING, 4, 8, { 2, 2 }, 2 },
        { "up, while a turn is awaited", SCALED_WHILE_WAITING, 2, 8, { 0, 2 }, 2 },
};

TEST_ROWS(test_scaled, scaled_rows, name, const struct ScaledRow *row) {
        char *arguments[11] = { (char *) "statefulset.apps/web", (char *) "900" };
        Flags flags = { .arguments = arguments,
                        .n_arguments = 2 + (int) row->replicas,
                        .containers = "main",
                        .request = true };

        memset(&server, 0, sizeof(server));
        server.scaled_while = row->scaled_while;
        server.replicas = row->replicas;
        server.later_replicas = row->later_replicas;
        for (size_t i = 0; i < row->replicas; i++)
                assert_ok(text_format(&arguments[2 + i], "web-%zu", i));
        assert_ok(kubectl_restart_pods(NULL, &flags));
        assert_string_equal(server.outcome, "restarted");
        assert_int_equal(server.n_turns, row->n_turns);
        for (size_t i = 0; i < row->n_turns; i++)
                assert_int_equal(server.batches[i], row->batches[i]);
        for (size_t i = 0; i < row->replicas; i++)
                free(arguments[2 + i]);
}

static const struct OpenUpdateRow {
        const char *containers;
        bool has_sidecar;
} open_update_rows[] = {
        { "main", false },
        { "sidecar,main", true },
};

/* A request would restart the container with the image that the update is to replace. */
TEST_ROWS(test_open_update, open_update_rows, containers, const struct OpenUpdateRow *row) {
        char *arguments[] = { (char *) "statefulset.apps/web", (char *) "900", (char *) "web-0" };
        const Flags flags = { .arguments = arguments,
                              .n_arguments = 3,
                              .containers = row->containers,
                              .request = true };

        memset(&server, 0, sizeof(server));
        server.replicas = server.later_replicas = 1;
        server.is_updating = true;
        server.has_sidecar = row->has_sidecar;
        assert_ok(kubectl_restart_pods(NULL, &flags));
        assert_string_equal(server.outcome, "failed");
        assert_contains(server.reason, "its update from \"app:0\" is still open");
        assert_int_equal(server.n_turns, 0);
}

/* The agent gives the container the grace period of its pod, and the next restart begins no sooner. */
TEST(test_long_grace_period) {
        char *arguments[] = { (char *) "statefulset.apps/web", (char *) "900", (char *) "web-0" };
        const Flags flags = {
                .arguments = arguments, .n_arguments = 3, .containers = "main", .request = true
        };

        memset(&server, 0, sizeof(server));
        server.replicas = server.later_replicas = 1;
        server.is_slow = true;
        assert_ok(kubectl_restart_pods(NULL, &flags));
        assert_string_equal(server.outcome, "failed");
        assert_contains(server.reason, "has not completed the ContainerRecreateRequest");
}

/* The kubelet restarts containers by their digests: those whose digest is not known need a request. */
TEST(test_unknown_digest) {
        char *arguments[] = { (char *) "statefulset.apps/web", (char *) "900", (char *) "web-0" };
        const Flags flags = { .arguments = arguments, .n_arguments = 3, .containers = "main" };

        memset(&server, 0, sizeof(server));
        server.replicas = server.later_replicas = 1;
        server.is_slow = true;
        assert_ok(kubectl_restart_pods(NULL, &flags));
        assert_string_equal(server.outcome, "failed");
        assert_contains(server.reason, "has not completed the ContainerRecreateRequest");
}

/* The workload may have got more pods since the controller has named those that need a restart. */
TEST(test_only_named) {
        char *arguments[] = { (char *) "statefulset.apps/web", (char *) "900", (char *) "web-0",
                              /* They are no arguments any more. */
                              (char *) "web-1", (char *) "web-1", (char *) "web-1",
                              (char *) "web-1" };
        const Flags flags = {
                .arguments = arguments, .n_arguments = 3, .containers = "main", .request = true
        };

        memset(&server, 0, sizeof(server));
        server.replicas = server.later_replicas = 2;
        assert_ok(kubectl_restart_pods(NULL, &flags));
        assert_string_equal(server.outcome, "restarted");
        assert_int_equal(server.n_turns, 1);
        assert_int_equal(server.batches[0], 1);
}

/* Nothing restarts while it cannot be seen how many pods are ready. */
TEST(test_turn_without_answer) {
        char *arguments[] = { (char *) "statefulset.apps/web", (char *) "900", (char *) "web-0" };
        const Flags flags = {
                .arguments = arguments, .n_arguments = 3, .containers = "main", .request = true
        };

        memset(&server, 0, sizeof(server));
        server.replicas = server.later_replicas = 1;
        server.is_away = true;
        assert_ok(kubectl_restart_pods(NULL, &flags));
        assert_string_equal(server.outcome, "failed");
        assert_contains(server.reason, "pod/web-0 did not get its turn within ten minutes");
}

static void note_wait(const char *pod, const char *why, void *userdata) {
        assert_ok(text_format(userdata, "%s: %s", pod, why));
}

TEST(test_drawn_wait) {
        cleanup(free_p) char *drawn = NULL;
        const RestartWait wait = { .on_wait = note_wait, .userdata = &drawn };
        Announcer announcer;

        announcer_begin(&announcer);
        assert_false(restart_announce(&wait, &announcer, "web-0", "it starts", /* grace_sec= */ 0));
        assert_string_equal(drawn, "web-0: it starts");
}

/* A line about a pod, and the failures at the end, stand below the table: nothing may take that away any more. */
TEST(test_lines_below_table) {
        const Flags flags = { .format = OUTPUT_TABLE };
        const PodRestart restart = { .pod = (char *) "web-0",
                                     .has_begun = true,
                                     .end = RESTART_SUCCEEDED };
        cleanup(restart_show_done) RestartShow show =
                restart_show_init(&flags, /* is_dry_run= */ false);
        cleanup(free_p) char *text = NULL;
        size_t size;
        FILE *file = text_open(&text, &size);

        assert_non_null(file);
        live_init(&show.table.live, file);
        show.is_live = true;
        restart_show_draw(&show, &restart, 1, /* pod= */ NULL, /* why= */ NULL);
        assert_true(pod_table_is_drawn(&show.table));
        restart_show_say(&show, &restart, "its images were written back");
        assert_false(pod_table_is_drawn(&show.table));
        restart_show_end(&show, &restart, 1);
        assert_false(pod_table_is_drawn(&show.table));
        assert_ok(text_close(file, &text));
        assert_contains(text, "1 of 1 pods restarted");
}

#define SHOWN_IN(name, uid, metadata, policy, phase, ready, id, state)                             \
        "{'metadata':{'name':'" name "','uid':'" uid "','labels':{'app':'web'}" metadata           \
        "},'spec':{'restartPolicy':'" policy "','terminationGracePeriodSeconds':30,'containers':[" \
        "{'name':'main','image':'app:1'}]},'status':{'phase':'" phase                              \
        "','conditions':[{'type':'Ready','status':'" ready                                         \
        "'}],'containerStatuses':[{'name':'main','containerID':'" id                               \
        "','ready':true,'state':{" state "}}]}}"
#define SHOWN(ready, id) SHOWN_IN("web-0", "u", "", "Always", "Running", ready, id, "'running':{}")
#define ENDED(policy) \
        SHOWN_IN("web-0", "u", "", policy, "Succeeded", "False", "c1", "'terminated':{}")
#define LATE "its new containers are not ready for long enough"
#define SAYS "test-kubectl-restart: waiting for pod/web-0: "

static const struct WaitRow {
        const char *name;
        const char *before;
        bool was_ready;
        Step steps[5];
        RestartEnd end;
        const char *why; /* NULL: none */
        const char *said;
} wait_rows[] = {
        { "it restarts",
          SHOWN("True", "c1"),
          true,
          { { .name = "web-0", .object = SHOWN("True", "c1") },
            { .name = "web-0", .object = SHOWN("True", "c2"), .is_over = true } },
          RESTART_SUCCEEDED,
          NULL,
          "" },
        { "it is gone",
          SHOWN("True", "c1"),
          true,
          { { .name = "web-0", .object = SHOWN("True", "c1") },
            { .name = "web-0", .is_over = true } },
          RESTART_GONE,
          NULL,
          "" },
        { "it was not there",
          SHOWN("True", "c1"),
          true,
          { { .is_over = true } },
          RESTART_GONE,
          NULL,
          "" },
        { "another one is there",
          SHOWN_IN("web-0", "x", "", "Always", "Running", "True", "c1", ""),
          true,
          { { .name = "web-0", .object = SHOWN("True", "c1"), .is_over = true } },
          RESTART_GONE,
          NULL,
          "" },
        { "it is evicted",
          SHOWN("True", "c1"),
          true,
          { { .name = "web-0", .object = ENDED("Always"), .is_over = true } },
          RESTART_GONE,
          NULL,
          "" },
        { "it ends",
          SHOWN_IN("web-0", "u", "", "Never", "Running", "True", "c1", ""),
          true,
          { { .name = "web-0", .object = ENDED("Never"), .is_over = true } },
          RESTART_FAILED,
          "the pod has ended: its containers are not started again",
          "" },
        { "it was not ready",
          SHOWN("False", "c1"),
          false,
          { { .name = "web-0", .object = SHOWN("False", "c2"), .is_over = true } },
          RESTART_SUCCEEDED,
          NULL,
          "" },
        { "it does not become ready",
          SHOWN("True", "c1"),
          true,
          { { .name = "web-0", .object = SHOWN("False", "c2") },
            { .later_sec = 4 },
            { .later_sec = 1 },
            { .later_sec = 624 },
            { .later_sec = 1, .is_over = true } },
          RESTART_FAILED,
          LATE,
          SAYS LATE "\n" SAYS LATE "\n" },
        { "the server does not answer",
          SHOWN("True", "c1"),
          true,
          { { .later_sec = 599, .is_away = true },
            { .later_sec = 1, .is_away = true, .is_over = true } },
          RESTART_FAILED,
          "the API server: no answer yet",
          SAYS "the API server: no answer yet\n" },
};

TEST_ROWS(test_wait_pod, wait_rows, name, const struct WaitRow *row) {
        cleanup(json_object_put_p) json_object *before = parse("%s", row->before);
        cleanup(json_object_put_p) json_object *names = parse("['main']");
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(free_p) char *why = NULL;
        RolloutView view = { .kind = WORKLOAD_STATEFUL_SET };
        const RestartWait wait = { .view = &view };
        RestartEnd end;
        Stderr captured;

        memset(&server, 0, sizeof(server));
        server.now_sec = 1;
        server.steps = row->steps;
        stderr_pipe(&captured);
        assert_ok(restart_wait_pod(&wait, before, names, row->was_ready, &end, &why, &error));
        assert_string_equal(stderr_restore(&captured), row->said);
        assert_int_equal(end, row->end);
        assert_string_equal(why ?: "", row->why ?: "");
}

#define OTHER(ready, metadata)                                                                \
        SHOWN_IN("web-1", "v", metadata ",'ownerReferences':[{'controller':true,'uid':'w'}]", \
                 "Always", "Running", ready, "c1", "'running':{}")
#define READY .watch = 1, .name = "web-1", .object = OTHER("True", "")
#define UNREADY .watch = 1, .name = "web-1", .object = OTHER("False", "")
#define BUDGET(allowed)                                                                             \
        "{'metadata':{'generation':1},'spec':{'selector':{'matchLabels':{'app':'web'}}},'status':{" \
        "'observedGeneration':1,'disruptionsAllowed':" allowed "}}"

static const struct TurnRow {
        const char *name;
        Step steps[4];
        bool may_begin;
        const char *error; /* NULL: none */
} turn_rows[] = {
        { "at once", { { READY, .is_over = true } }, true, NULL },
        { "when another one is ready", { { UNREADY }, { READY, .is_over = true } }, true, NULL },
        { "not beside one that goes",
          { { UNREADY }, { .watch = 1, .name = "web-1", .is_over = true } },
          false,
          NULL },
        { "not beside one that is being deleted",
          { { UNREADY },
            { .watch = 1,
              .name = "web-1",
              .object = OTHER("False", ",'deletionTimestamp':'1970-01-01T00:00:00Z'"),
              .is_over = true } },
          false,
          NULL },
        { "when a budget allows it",
          { { .name = "b", .object = BUDGET("0") },
            { READY },
            { .name = "b", .object = BUDGET("1"), .is_over = true } },
          true,
          NULL },
        { "when a budget is gone",
          { { .name = "b", .object = BUDGET("0") }, { READY }, { .name = "b", .is_over = true } },
          true,
          NULL },
        { "not for ten minutes",
          { { UNREADY }, { .later_sec = 599 }, { .later_sec = 1, .is_over = true } },
          true,
          "pod/web-0 did not get its turn within ten minutes: repeat the command when more pods are "
          "ready, or with a greater --max-unavailable" },
};

TEST_ROWS(test_wait_turn, turn_rows, name, const struct TurnRow *row) {
        cleanup(json_object_put_p) json_object *pod = parse(SHOWN("True", "c1"));
        cleanup(json_object_put_p) json_object *workload =
                parse("{'metadata':{'name':'web','uid':'w'},'spec':{'replicas':2}}");
        cleanup(error_done) Error error = ERROR_INIT;
        RolloutView view = { .kind = WORKLOAD_STATEFUL_SET, .workload = workload };
        const RestartWait wait = { .view = &view, .labels = "app=web", .max_unavailable = 2 };
        bool may_begin = false;
        Stderr captured;
        int r;

        memset(&server, 0, sizeof(server));
        server.now_sec = 1;
        server.steps = row->steps;
        stderr_pipe(&captured);
        r = restart_wait_turn(&wait, pod, &may_begin, &error);
        (void) stderr_restore(&captured);
        assert_int_equal(r < 0, row->error != NULL);
        assert_string_equal(row->error ? error_message(&error) : "", row->error ?: "");
        if (!row->error)
                assert_int_equal(may_begin, row->may_begin);
        json_object_put(view.pods);
        json_object_put(view.budgets);
}
