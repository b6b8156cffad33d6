/* SPDX-License-Identifier: Apache-2.0 */

/* Which images of pods come from admission, and which do not. */

#include "tests/unit/unit.h"

#include "agent/kubectl/admission-plan.h"
#include "tests/unit/failing-memory.h"
#include "tests/unit/quoted-json.h"

/* clang-format off */
static const struct NamesRow {
        const char *asked, *found;
        bool is_refused;
} cases[] = {
        { "r.io/app:1", "r.io/app:1", false },
        { "r.io/app:1", "mirror:5000/app:1", true },
        { "app:1", "mirror:5000/hub/library/app:1", true },
        { "r.io/app:1", "r.io/app:1@sha256:aa", true },
        { "r.io/app:1", "r.io/app@sha256:aa", true },
        { "r.io/app:1", "r.io/app:2", false },
        { "r.io/app:1", "r.io/other:1", false },
        { "r.io/app", "r.io/app2", false },
        { "r.io/app@sha256:aa", "r.io/app@sha256:bb", false },
        { "r.io/app@sha256:aa", "mirror/app@sha256:aa", true },
        { "app:1", "docker.io/library/app:1", false },
        { "app:1", "docker.io/team/app:1", true },
};
/* clang-format on */

static json_object *make_pod(const char *image, const char *annotation) {
        return parse(
                "{'metadata': {'name': 'web-0', 'labels': {'controller-revision-hash': 'web-1'}, "
                "'annotations': {%s}, 'ownerReferences': [{'controller': true, 'uid': 'u'}]}, "
                "'spec': {'containers': [{'name': 'app', 'image': '%s'}]}}",
                annotation, image);
}

static int check(WorkloadKind kind, const char *asked, json_object *pod, Error *reterr) {
        cleanup(json_object_put_p) json_object *workload =
                parse("{'metadata': {'name': 'web', 'uid': 'u'}}");
        cleanup(json_object_put_p) json_object *owned = parse(
                "{'web-1': {'data': {'spec': {'template': {'spec': {'containers': [{'name': 'app', "
                "'image': '%s'}]}}}}}}",
                asked);
        cleanup(json_object_put_p) json_object *pods = parse("{}");
        cleanup(json_object_put_p) json_object *none = parse("{}");
        cleanup(json_object_put_p) json_object *record = parse("{'after': {'app': 'r.io/app:9'}}");

        json_object_object_add(pods, "web-0", json_object_get(pod));
        return admission_check(&(RolloutView){ .kind = kind,
                                               .workload = workload,
                                               .owned = kind == WORKLOAD_REPLICA_SET ? none : owned,
                                               .pods = pods },
                               record, reterr);
}

TEST_ROWS(test_names, cases, asked, const struct NamesRow *row) {
        cleanup(json_object_put_p) json_object *pod = make_pod(row->found, "");
        cleanup(error_done) Error error = ERROR_INIT;
        int r = check(WORKLOAD_STATEFUL_SET, row->asked, pod, &error);

        if ((r < 0) != row->is_refused)
                fail_msg("%s, %s: %s", row->asked, row->found, error_message(&error));
}

#define SPELLED "r.io/app:1@sha256:" SHA
#define SHA "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

/* The template got the digest that a restart had spelled. */
TEST(test_spelled) {
        cleanup(json_object_put_p) json_object *pod =
                make_pod(SPELLED, "'inplaced.io/restarted': '{\\'app\\': {\\'image\\': "
                                  "\\'r.io/app:1\\', \\'as\\': \\'" SPELLED "\\'}}'");
        assert_ok(check(WORKLOAD_STATEFUL_SET, SPELLED, pod, NULL));
}

static const struct LeftRow {
        const char *created;
        bool is_refused;
} left_rows[] = {
        { "2026-11-20T07:00:00Z", false },
        { "2026-11-20T08:00:00Z", false },
        { "2026-11-20T08:00:01Z", true },
};

/* A pod that the last update in place of its Deployment has left has the image before. */
TEST_ROWS(test_left, left_rows, created, const struct LeftRow *row) {
        cleanup(json_object_put_p) json_object *record = parse(
                "{'state': 'done', 'mode': 'set-image', 'by': 'alice', 'since': "
                "'2026-11-20T08:00:00Z', 'revision': 'web-1', 'before': {'app': 'r.io/app:1'}, "
                "'after': {'app': 'mirror/app:1'}}");
        cleanup(json_object_put_p) json_object *workload =
                parse("{'metadata': {'name': 'web', 'uid': 'w', 'annotations': {}}}");
        cleanup(json_object_put_p) json_object *owned = parse(
                "{'web-1': {'metadata': {'name': 'web-1', 'uid': 'u'}, 'spec': {'template': {'spec': "
                "{'containers': [{'name': 'app', 'image': 'mirror/app:1'}]}}}}}");
        json_object_object_add(object_at(workload, "metadata.annotations"), ROLLOUT_ANNOTATION,
                               json_object_new_string(json_object_to_json_string(record)));

        cleanup(json_object_put_p) json_object *pods =
                parse("{'web-9': {'metadata': {'name': 'web-9'}}, "
                      "'web-0': {'metadata': {'name': 'web-0', 'creationTimestamp': '%s', "
                      "'ownerReferences': [{'controller': true, 'uid': 'u', 'name': 'web-1'}]}, "
                      "'spec': {'containers': [{'name': 'app', 'image': 'r.io/app:1'}]}}}",
                      row->created);
        const RolloutView view = {
                .kind = WORKLOAD_DEPLOYMENT, .workload = workload, .owned = owned, .pods = pods
        };
        int r;

        r = admission_check(&view, record, NULL);
        assert_true((r < 0) == row->is_refused);
        ASSERT_WITHOUT_MEMORY(admission_check(&view, record, NULL), r, (void) 0);
}

TEST(test_others) {
        cleanup(json_object_put_p) json_object *pod = make_pod("mirror/app:1", "");
        cleanup(json_object_put_p) json_object *restarted =
                make_pod("r.io/app@sha256:aa",
                         "'inplaced.io/restarted': '{\\'app\\': {\\'image\\': \\'r.io/app:1\\', "
                         "\\'as\\': \\'r.io/app@sha256:aa\\'}}'");
        /* A restart has spelled it otherwise; and of a ReplicaSet a pod may be older than the template. */
        assert_ok(check(WORKLOAD_STATEFUL_SET, "r.io/app:1", restarted, NULL));
        assert_ok(check(WORKLOAD_REPLICA_SET, "r.io/app:1", pod, NULL));
}

static const struct RefusalRow {
        const char *name;
        ErrorKind kind, copied;
        const char *message;
} refusals[] = {
        { "another policy of the pod", ERROR_INVALID, ERROR_UNSUPPORTED,
          "Pod \"web-0\" is invalid: spec: Forbidden: pod updates may not change fields other than "
          "`spec.containers[*].image`" },
        { "no name of an image", ERROR_INVALID, ERROR_INVALID,
          "Pod \"web-0\" is invalid: spec.containers[0].image: Invalid value: \" \"" },
        { "a webhook that says the same", ERROR_DENIED, ERROR_DENIED,
          "admission webhook \"x\" denied the request: pod updates may not change fields" },
};

/* Only the controller of the workload can bring the images to such pods. */
TEST_ROWS(test_refusals, refusals, name, const struct RefusalRow *row) {
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(error_done) Error copy = ERROR_INIT;

        error_set(&error, row->kind, "%s", row->message);
        assert_true(admission_copy_refusal(&error, &copy) < 0);
        assert_int_equal(copy.kind, row->copied);
        assert_contains(error_message(&copy), row->message);
        assert_int_equal(strstr(error_message(&copy), "--release") != NULL,
                         row->copied == ERROR_UNSUPPORTED);
}
