/* SPDX-License-Identifier: Apache-2.0 */

/* Pods that a run returns to service when it ends, what the rehearsal of its beginning finds, and what comes of a write that
 * the server refuses or changes. */

#include "tests/unit/unit.h"

#include "agent/document/json-patch.h"
#include "agent/kubectl/rollout-write.h"
#include "tests/unit/quoted-json.h"

static unsigned n_conflicts; /* number of the first writes that meet one */
static unsigned n_writes;
static const char *rehearsed; /* answer to a rehearsal */
static const char *answered;  /* answer to a patch; NULL: it is refused */

void __wrap_session_begin_leave(Session *session);
void __wrap_session_end_leave(Session *session);
bool __wrap_session_is_dry_run(const Session *session);
int64_t __wrap_session_server_sec(const Session *session);
int __wrap_session_patch(Session *session, const KubePath *path, const char *content_type,
                         json_object *body, json_object **ret, Error *reterr);
int __wrap_session_pause(Session *session, uint64_t usec, Error *reterr);

void __wrap_session_begin_leave(Session *session) {
}

void __wrap_session_end_leave(Session *session) {
}

bool __wrap_session_is_dry_run(const Session *session) {
        return false;
}

int64_t __wrap_session_server_sec(const Session *session) {
        return 1000;
}

/* After the conflicts the pod has just gone, which is no failure. */
int __wrap_session_patch(Session *session, const KubePath *path, const char *content_type,
                         json_object *body, json_object **ret, Error *reterr) {
        if (path->query) {
                assert_string_equal(path->query, "dryRun=All");
                *ret = parse("%s", rehearsed);
                return 0;
        }
        if (answered) {
                *ret = parse("%s", answered);
                return 0;
        }
        assert_string_equal(path->subresource, "status");
        return error_set(reterr, n_writes++ < n_conflicts ? ERROR_CONFLICT : ERROR_NOT_FOUND, "no");
}

int __wrap_session_pause(Session *session, uint64_t usec, Error *reterr) {
        return 0;
}

/* The gate of the pod is closed for an image that the pod does not have. */
static json_object *make_pod(const char *owner) {
        return parse("{'metadata': {'name': 'web-0', 'uid': 'u', 'resourceVersion': '5', "
                     "'ownerReferences': [{'controller': true, 'uid': '%s'}]}, 'spec': "
                     "{'containers': [{'name': 'app', 'image': 'A'}], 'readinessGates': "
                     "[{'conditionType': 'inplaced.io/Ready'}]}, 'status': {'conditions': "
                     "[{'type': 'inplaced.io/Ready', 'status': 'False', 'reason': "
                     "'InPlaceUpdate', 'message': '{\\'images\\':{\\'app\\':\\'B\\'}}'}]}}",
                     owner);
}

static const struct ReturnRow {
        const char *name;
        const char *state; /* state of the record */
        const char *owner; /* uid of the pod's; the workload is "w" */
        unsigned n_conflicts, n_writes;
        ErrorKind error;
} return_rows[] = {
        { "another run closed it, and the update has ended", "undone", "w", 0, 1, ERROR_NONE },
        { "another run closed it, and may go on", "undo", "w", 0, 0, ERROR_NONE },
        { "a pod of another workload", "undone", "x", 0, 0, ERROR_NONE },
        { "the kubelet writes to it as well", "undone", "w", 5, 6, ERROR_NONE },
        { "others write to it without end", "undone", "w", 20, 6, ERROR_CONFLICT },
};

TEST_ROWS(test_return, return_rows, name, const struct ReturnRow *row) {
        cleanup(json_object_put_p) json_object *workload =
                parse("{'metadata': {'name': 'web', 'uid': 'w'}, 'spec': {'replicas': 1}}");
        cleanup(json_object_put_p) json_object *record =
                parse("{'state': '%s', 'mode': 'set-image', 'by': 'alice', 'before': {'app': 'A'}, "
                      "'after': {'app': 'B'}}",
                      row->state);
        cleanup(json_object_put_p) json_object *pods = patch_wrap("web-0", make_pod(row->owner));
        cleanup(json_object_put_p) json_object *written = parse("{}");
        cleanup(census_done) Census census = CENSUS_INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        RolloutWatch watch = {
                .path = { .namespace = "shop" },
                .view = { .kind = WORKLOAD_REPLICA_SET, .workload = workload, .pods = pods },
        };
        const RolloutWriter writer = { .watch = &watch, .written = written };

        n_writes = 0;
        n_conflicts = row->n_conflicts;
        assert_ok(census_take(&watch.view, record, &census));
        assert_int_equal(rollout_write_return(&writer, &census, record, &error) < 0,
                         row->error != ERROR_NONE);
        assert_int_equal(error.kind, row->error);
        assert_int_equal(n_writes, row->n_writes);
}

#define RECORD                                                                         \
        "{'state': 'forward', 'mode': 'set-image', 'by': 'alice', 'revision': 'old', " \
        "'before': {'app': 'A'}, 'after': {'app': 'B'}}"
#define PARTITION(number)                                                                              \
        "{'spec': {'updateStrategy': {'type': 'RollingUpdate', 'rollingUpdate': {'partition': " number \
        "}}}}"
#define TYPE(type) "{'spec': {'updateStrategy': {'type': '" type "'}}}"

static const struct HoldRow {
        const char *name;
        WorkloadKind kind;
        const char *patch, *answer;
        bool is_refused;
} hold_rows[] = {
        { "a partition that stays", WORKLOAD_STATEFUL_SET, PARTITION("2147483647"),
          PARTITION("2147483647"), false },
        { "one that is taken away", WORKLOAD_STATEFUL_SET, PARTITION("2147483647"), PARTITION("0"),
          true },
        { "held by its users before", WORKLOAD_STATEFUL_SET, "{}", TYPE("OnDelete"), false },
        { "a type that stays", WORKLOAD_DAEMON_SET, TYPE("OnDelete"), TYPE("OnDelete"), false },
        { "one that has to be another", WORKLOAD_DAEMON_SET, TYPE("OnDelete"),
          TYPE("RollingUpdate"), true },
        { "a pause that stays", WORKLOAD_DEPLOYMENT, "{'spec': {'paused': true}}",
          "{'spec': {'paused': true}}", false },
        { "one that is left out", WORKLOAD_DEPLOYMENT, "{'spec': {'paused': true}}", "{'spec': {}}",
          true },
        { "a ReplicaSet replaces no pod", WORKLOAD_REPLICA_SET, "{}", "{}", false },
};

/* A workload is not taken over where admission does not let it be held: its controller would replace all pods. */
TEST_ROWS(test_hold, hold_rows, name, const struct HoldRow *row) {
        cleanup(json_object_put_p) json_object *workload =
                parse("{'metadata': {'name': 'web', 'uid': 'w'}, 'spec': {'replicas': 1}}");
        cleanup(json_object_put_p) json_object *record = parse(RECORD);
        cleanup(json_object_put_p) json_object *patch = parse("%s", row->patch);
        cleanup(json_object_put_p) json_object *none = parse("{}");
        const Census census = CENSUS_INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        RolloutLimits limits = { .keeps_no_history = true };
        RolloutWatch watch = {
                .path = { .namespace = "shop" },
                .view = { .kind = row->kind, .workload = workload, .pods = none, .owned = none },
        };
        const RolloutWriter writer = { .watch = &watch, .limits = &limits, .written = none };
        int r;

        json_object_object_add(patch, "metadata", parse("{'resourceVersion': '1'}"));
        rehearsed = row->answer;
        r = rollout_write_rehearse(&writer, patch, record, &census, &error);
        assert_int_equal(r < 0, row->is_refused);
        assert_int_equal(error.kind, row->is_refused ? ERROR_UNSUPPORTED : ERROR_NONE);
        if (row->is_refused)
                assert_contains(error_message(&error), "admission changes the strategy");
}

#define POD(image)                                                                           \
        "{'kind': 'Pod', 'metadata': {'name': 'web-0', 'uid': 'u'}, 'spec': {'containers': " \
        "[{'name': 'app', 'image': '" image "'}]}}"

static const struct AnswerRow {
        const char *name;
        const char *answer;
        bool is_refused;
} answer_rows[] = {
        { "the image that was written", POD("B"), false },
        { "one that a webhook makes of it", POD("mirror/B"), true },
};

/* The run would wait in vain for a pod that never gets the image. */
TEST_ROWS(test_answer, answer_rows, name, const struct AnswerRow *row) {
        cleanup(json_object_put_p) json_object *record = parse(RECORD);
        cleanup(json_object_put_p) json_object *none = parse("{}");
        cleanup(json_object_put_p) json_object *written = parse("{}");
        cleanup(json_object_put_p) json_object *patch = parse(POD("B"));
        const RolloutStep step = { .action = ROLLOUT_PATCH_POD, .name = "web-0", .patch = patch };
        cleanup(error_done) Error error = ERROR_INIT;
        RolloutWatch watch = { .path = { .namespace = "shop" },
                               .view = { .pods = none, .owned = none } };
        RolloutWriter writer = { .watch = &watch, .written = written };
        int r;

        answered = row->answer;
        r = rollout_write(&writer, &step, record, &error);
        answered = NULL;
        assert_int_equal(r < 0, row->is_refused);
        assert_int_equal(error.kind, row->is_refused ? ERROR_UNSUPPORTED : ERROR_NONE);
        if (row->is_refused)
                assert_contains(error_message(&error), "admission makes \"mirror/B\"");
}

/* The update goes on without a ReplicaSet that another client deletes as often as it is made. */
TEST(test_no_history) {
        cleanup(json_object_put_p) json_object *record = parse(RECORD);
        cleanup(json_object_put_p) json_object *patch = parse("{'metadata': {'name': 'web-1'}}");
        cleanup(json_object_put_p) json_object *written = parse("{}");
        const RolloutStep step = { .action = ROLLOUT_CREATE_REPLICA_SET, .patch = patch };
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(free_p) char *key = NULL;
        RolloutLimits limits = { .keeps_no_history = false };
        RolloutWatch watch = { .path = { .name = "web" }, .view = { .kind = WORKLOAD_DEPLOYMENT } };
        RolloutWriter writer = { .watch = &watch, .limits = &limits, .written = written };

        assert_ok(rollout_step_key(&step, record, &key));
        assert_ok(patch_add_bool(written, key, true));
        assert_ok(rollout_write(&writer, &step, record, &error));
        assert_int_equal(error.kind, ERROR_NONE);
        assert_true(limits.keeps_no_history);
}
