/* SPDX-License-Identifier: Apache-2.0 */

/* Pods that a run returns to service when it ends. */

#include "tests/unit/unit.h"

#include "agent/document/json-patch.h"
#include "agent/kubectl/rollout-write.h"
#include "tests/unit/quoted-json.h"

static unsigned n_writes;

void __wrap_session_begin_leave(Session *session);
void __wrap_session_end_leave(Session *session);
int __wrap_session_patch(Session *session, const KubePath *path, const char *content_type,
                         json_object *body, json_object **ret, Error *reterr);

void __wrap_session_begin_leave(Session *session) {
}

void __wrap_session_end_leave(Session *session) {
}

/* The pod has just gone, which is no failure. */
int __wrap_session_patch(Session *session, const KubePath *path, const char *content_type,
                         json_object *body, json_object **ret, Error *reterr) {
        assert_string_equal(path->subresource, "status");
        n_writes++;
        return error_set(reterr, ERROR_NOT_FOUND, "no");
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
        bool is_returned;
} return_rows[] = {
        { "another run closed it, and the update has ended", "undone", "w", true },
        { "another run closed it, and may go on", "undo", "w", false },
        { "a pod of another workload", "undone", "x", false },
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
        assert_ok(census_take(&watch.view, record, &census));
        assert_ok(rollout_write_return(&writer, &census, record, &error));
        assert_int_equal(error.kind, ERROR_NONE);
        assert_int_equal(n_writes, row->is_returned);
}
