/* SPDX-License-Identifier: Apache-2.0 */

/* The commands that update a workload in place: what they refuse, how a run goes on when the watch shows that another run or a
 * person has intervened, and what it says in the end. */

#include "tests/unit/unit.h"

#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/commands.h"
#include "agent/kubectl/controller-plan.h"
#include "agent/kubectl/rights.h"
#include "agent/kubectl/rollout-write.h"
#include "tests/unit/quoted-json.h"
#include "tests/unit/scratch-folder.h"
#include "tests/unit/stderr-capture.h"

#define FAILED EXIT_STATUS_FAILED
#define PARTLY EXIT_STATUS_PARTLY

#define RECORD_TO(image, state, mode, by, more)                                           \
        "{'state': '" state "', 'mode': '" mode "', 'by': '" by                           \
        "', 'since': '2026-11-20T08:00:00Z', 'revision': 'old', 'before': {'app': 'A'}, " \
        "'after': {'app': '" image "'}" more "}"
#define RECORD(...) RECORD_TO("B", __VA_ARGS__)

/* A ReplicaSet as the watch shows it. */
typedef struct Shown {
        const char *record;      /* NULL: there is none */
        const char *image;       /* image of its template; NULL: A */
        const char *annotations; /* further annotations; NULL: none */
        const char *pod;         /* image of its pod; NULL: there is none */
        const char *container;   /* name of the pod's container; NULL: app */
        bool is_behind;          /* the controller has yet to observe it */
        int64_t later_sec;       /* time since the one before */
} Shown;

/* The server; its functions stand for those of rollout-watch.h, rollout-write.h and the session, see tests/CMakeLists.txt. */
static struct {
        const Shown *shown; /* states at the beginning, and at each wait; the last one stays */
        size_t n_shown;
        size_t n_waits;
        RolloutAction written; /* first step of the run; ROLLOUT_WAIT: none */
        size_t n_waits_before; /* waits before that */
        int64_t now_sec;
        char outcome[16]; /* outcome of a run for the controller of declared updates */
} server;

int __wrap_output_tree(OutputFormat format, json_object *tree);
int __wrap_rights_require(Session *session, const char *workload, Error *reterr);
int __wrap_rollout_watch_load(Session *session, const char *workload, RolloutWatch *ret,
                              Error *reterr);
int __wrap_rollout_watch_wait(RolloutWatch *watch, int (*is_done)(void *userdata),
                              int (*is_away)(const Error *error, void *userdata), void *userdata,
                              Error *reterr);
int __wrap_rollout_write(RolloutWriter *writer, const RolloutStep *step, json_object *record,
                         Error *reterr);
int __wrap_rollout_write_workload(const RolloutWriter *writer, json_object *patch, Error *reterr);
int __wrap_rollout_write_rehearse(const RolloutWriter *writer, json_object *take_over,
                                  json_object *record, const Census *census, Error *reterr);
int __wrap_session_ask_user(Session *session, Error *reterr);
const char *__wrap_session_user(Session *session);
int64_t __wrap_session_server_sec(const Session *session);

int __wrap_output_tree(OutputFormat format, json_object *tree) {
        (void) snprintf(server.outcome, sizeof(server.outcome), "%s",
                        json_get_text(tree, "outcome"));
        return 0;
}

int __wrap_rights_require(Session *session, const char *workload, Error *reterr) {
        return 0;
}

/* Where the update has brought it to another image, the kubelet cannot pull that. */
static json_object *make_pod(const Shown *shown) {
        bool is_updated = strcmp(shown->pod, "A") != 0;
        const char *name = shown->container ? shown->container : "app";

        return parse("{'metadata': {'name': 'web-0', 'uid': 'u', 'resourceVersion': '5', "
                     "'annotations': {%s}, 'ownerReferences': [{'controller': true, 'uid': 'w'}]}, "
                     "'spec': {'containers': [{'name': '%s', 'image': '%s'}]}, 'status': "
                     "{'phase': 'Running', 'conditions': [{'type': 'Ready', 'status': '%s'}], "
                     "'containerStatuses': [{'name': '%s', 'containerID': '1', 'state': {%s}}]}}",
                     is_updated ? "'inplaced.io/updated-containers': '{\\'app\\': {\\'image\\': "
                                  "\\'A\\', \\'id\\': \\'1\\'}}'"
                                : "",
                     name, shown->pod, is_updated ? "False" : "True", name,
                     is_updated ? "'waiting': {'reason': 'ImagePullBackOff', 'message': 'no B'}"
                                : "'running': {}");
}

static void show(RolloutWatch *watch, const Shown *shown) {
        json_object *annotations = parse("{%s}", shown->annotations ? shown->annotations : "");

        json_object_put(watch->view.workload);
        json_object_put(watch->record);
        json_object_put(watch->view.pods);
        watch->record = NULL;
        if (shown->record) {
                cleanup(json_object_put_p) json_object *record = parse("%s", shown->record);

                assert_ok(patch_add_text(annotations, ROLLOUT_ANNOTATION, json_to_text(record)));
        }
        watch->view.workload = parse(
                "{'metadata': {'name': 'web', 'uid': 'w', 'resourceVersion': '7', 'generation': %d}, "
                "'spec': {'replicas': 1, 'template': {'spec': {'containers': [{'name': 'app', "
                "'image': '%s'}]}}}, 'status': {'observedGeneration': 1}}",
                shown->is_behind ? 2 : 1, shown->image ? shown->image : "A");
        assert_ok(patch_add(json_object_object_get(watch->view.workload, "metadata"), "annotations",
                            annotations));
        watch->view.pods = parse("{}");
        if (shown->pod)
                assert_ok(patch_add(watch->view.pods, "web-0", make_pod(shown)));
        server.now_sec += shown->later_sec;
        watch->view.now_sec = server.now_sec;
}

int __wrap_rollout_watch_load(Session *session, const char *workload, RolloutWatch *ret,
                              Error *reterr) {
        *ret = (RolloutWatch){ .session = session,
                               .path = { .namespace = "shop", .name = "web" },
                               .view = { .kind = WORKLOAD_REPLICA_SET,
                                         .owned = parse("{}"),
                                         .budgets = parse("{}") } };
        show(ret, &server.shown[0]);
        return 0;
}

int __wrap_rollout_watch_wait(RolloutWatch *watch, int (*is_done)(void *userdata),
                              int (*is_away)(const Error *error, void *userdata), void *userdata,
                              Error *reterr) {
        int r;

        do {
                size_t i = ++server.n_waits;

                if (i >= server.n_shown + 10)
                        fail_msg("it waits without end");
                show(watch, &server.shown[i < server.n_shown ? i : server.n_shown - 1]);
                r = is_done(userdata);
        } while (r == 0);
        return r < 0 ? r : 0;
}

/* The run is stopped after its first write. */
int __wrap_rollout_write(RolloutWriter *writer, const RolloutStep *step, json_object *record,
                         Error *reterr) {
        server.written = step->action;
        server.n_waits_before = server.n_waits;
        return error_set(reterr, ERROR_DENIED, "no");
}

int __wrap_rollout_write_workload(const RolloutWriter *writer, json_object *patch, Error *reterr) {
        return 0;
}

int __wrap_rollout_write_rehearse(const RolloutWriter *writer, json_object *take_over,
                                  json_object *record, const Census *census, Error *reterr) {
        return 0;
}

int __wrap_session_ask_user(Session *session, Error *reterr) {
        return 0;
}

const char *__wrap_session_user(Session *session) {
        return "alice";
}

int64_t __wrap_session_server_sec(const Session *session) {
        return server.now_sec;
}

typedef struct Fixture {
        char folder[SCRATCH_SIZE];
        char *config;
        Session *session;
        Stderr captured;
} Fixture;

static void fixture_open(Fixture *fixture) {
        cleanup(error_done) Error error = ERROR_INIT;
        SessionOptions options = { .namespace = "shop" };

        memset(&server, 0, sizeof(server));
        server.now_sec = 1800000000;
        scratch_make(fixture->folder);
        options.kubeconfig = fixture->config = scratch_path(fixture->folder, "config");
        write_file(fixture->config,
                   "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"
                   "contexts: [{name: c, context: {cluster: c, user: c}}]\n"
                   "users: [{name: c, user: {}}]\n"
                   "current-context: c\n");
        assert_ok(session_new(&options, &fixture->session, &error));
}

static void fixture_close(Fixture *fixture) {
        session_free(fixture->session);
        scratch_remove(fixture->folder, "config");
        free(fixture->config);
}

DEFINE_FIXTURE(Fixture, fixture_open, fixture_close)

/* Returns the exit status; what it says on stderr is then in fixture->captured.text. */
static int run(Fixture *fixture, int (*command)(Session *session, const Flags *flags), Flags flags,
               const Shown *shown, size_t n_shown) {
        static char *arguments[] = { (char *) "replicaset/web" };
        int status;

        flags.arguments = arguments;
        flags.n_arguments = 1;
        server.shown = shown;
        server.n_shown = n_shown;
        stderr_pipe(&fixture->captured);
        status = command(fixture->session, &flags);
        (void) stderr_restore(&fixture->captured);
        return status;
}

static const struct RefusalRow {
        const char *name;
        Flags flags;
        Shown shown;
        const char *said;
} refusal_rows[] = {
        { "flags that exclude each other",
          { .no_preload = true, .require_preload = true },
          { .record = NULL },
          "only one of --no-preload and --require-preload is possible" },
        { "the update of another user, who may be gone: this is the way out of it",
          { .wants_names = true },
          { .record = RECORD("forward", "set-image", "bob", "") },
          "kubectl inplace rollout --release replicaset.apps/web --take-over" },
        { "an undo after an attempt that has changed nothing",
          { .undo = true },
          { .record = RECORD("done", "set-image", "alice", ", 'refused': '2026-11-21T09:00:00Z'"),
            .image = "B" },
          "the last attempt, at 2026-11-21T09:00:00Z" },
        { "an undo that the template would take back",
          { .undo = true },
          { .record = RECORD("done", "rollout", "alice", ""), .image = "B" },
          "and then bring the pods there:" },
};

TEST_ROWS_F(test_refusal, refusal_rows, name, const struct RefusalRow *row, Fixture *fixture) {
        assert_int_equal(run(fixture, kubectl_rollout, row->flags, &row->shown, 1), FAILED);
        assert_contains(fixture->captured.text, row->said);
}

#define OPEN RECORD("forward", "set-image", "alice", "")

/* A run whose update another user has taken over ends: two runs with different aims would take the pods from each other. */
TEST_F(test_taken_over, Fixture *fixture) {
        static const Shown shown[] = {
                { .record = OPEN, .pod = "A" },
                { .record = RECORD("undo", "set-image", "bob", ""), .pod = "A" },
        };

        assert_int_equal(run(fixture, kubectl_rollout, (Flags){ .wants_names = true }, shown, 2),
                         PARTLY);
        assert_contains(fixture->captured.text, "\"bob\" has taken the update over");
        assert_int_equal(server.written, ROLLOUT_WAIT);
}

/* Another run has given a pod up, and ended the update: this one names the pod, and why. */
TEST_F(test_rest, Fixture *fixture) {
        static const Shown shown[] = {
                { .record = OPEN, .pod = "B" },
                { .record = RECORD("done", "set-image", "alice", ""), .image = "B", .pod = "B" },
        };

        assert_int_equal(run(fixture, kubectl_rollout, (Flags){ .wants_names = true }, shown, 2),
                         PARTLY);
        assert_contains(fixture->captured.text, "not all pods run the images:\n");
        assert_contains(fixture->captured.text, "pod \"web-0\": ");
}

static const struct HungRow {
        const char *name;
        int64_t later_sec;
        size_t n_waits; /* before the first write */
} hung_rows[] = {
        { "goes on at once", 1, 2 },
        { "was suspended", 600, 3 },
};

/* A pod may have been updated while the run did nothing: it reads all anew before it writes. */
TEST_ROWS_F(test_hung, hung_rows, name, const struct HungRow *row, Fixture *fixture) {
        const Shown shown[] = {
                { .record = OPEN, .pod = "A" },
                { .record = OPEN, .is_behind = true, .pod = "A" },
                { .record = OPEN, .pod = "A", .later_sec = row->later_sec },
                { .record = OPEN, .pod = "A" },
        };

        assert_int_equal(run(fixture, kubectl_rollout, (Flags){ .wants_names = true }, shown, 4),
                         PARTLY);
        assert_int_equal(server.written, ROLLOUT_PATCH_POD);
        assert_int_equal(server.n_waits_before, row->n_waits);
}

/* The release of a declared update takes back an image that does not start: its controller might never replace that pod. */
TEST_F(test_way_back, Fixture *fixture) {
        static const Shown shown[] = {
                { .record = RECORD("forward", "set-image", UPDATE_CONTROLLER, ""), .pod = "B" },
                { .record = RECORD("undo", "set-image", UPDATE_CONTROLLER, ""), .pod = "B" },
        };

        assert_ok(run(fixture, kubectl_carry_out, (Flags){ .release = true }, shown, 2));
        assert_int_equal(server.written, ROLLOUT_PATCH_POD);
}

/* An update whose template has got other images meanwhile goes on to those: it is not what this user has asked for. */
TEST_F(test_retargeted, Fixture *fixture) {
        static const char declared[] = "'inplaced.io/update': 'InPlaceIfPossible'";
        static const Shown shown[] = {
                { .record = OPEN, .image = "C", .annotations = declared },
                { .record = RECORD_TO("C", "done", "set-image", "alice", ""),
                  .image = "C",
                  .annotations = declared },
        };

        assert_int_equal(run(fixture, kubectl_rollout,
                             (Flags){ .wants_names = true, .no_preload = true }, shown, 2),
                         PARTLY);
        assert_contains(fixture->captured.text, "the update goes on to those");
}

static const struct OutcomeRow {
        const char *name;
        Shown shown;
        const char *outcome;
} outcome_rows[] = {
        { "no container of that name, which no attempt changes",
          { .image = "B", .pod = "A", .container = "other" },
          "impossible" },
        { "a controller that has yet to see the template",
          { .image = "B", .pod = "A", .is_behind = true },
          "failed" },
};

/* The controller of declared updates tries again unless the run reports that an update in place is impossible. */
TEST_ROWS_F(test_outcome, outcome_rows, name, const struct OutcomeRow *row, Fixture *fixture) {
        assert_ok(run(fixture, kubectl_carry_out, (Flags){ .no_preload = true }, &row->shown, 1));
        assert_string_equal(server.outcome, row->outcome);
}
