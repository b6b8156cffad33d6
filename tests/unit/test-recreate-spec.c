/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Restart requests as the API server has them
 */

#include "tests/unit/unit.h"

#include "agent/recreate/recreate-spec.h"
#include "agent/recreate/recreate-status.h"
#include "tests/unit/quoted-json.h"

DEFINE_CLEANUP(RecreateSpec *, recreate_spec_free)

#define ID "'namespace':'d','name':'n','uid':'u','resourceVersion':'7'"

static RecreateSpec *read_spec(const char *text, RecreateDialect dialect) {
        cleanup(json_object_put_p) json_object *object = parse("%s", text);
        RecreateSpec *spec = NULL;

        assert_ok(recreate_spec_parse(object, dialect, &spec, NULL));
        return spec;
}

TEST(test_whole) {
        cleanup(recreate_spec_free_p) RecreateSpec *spec = read_spec(
                "{'metadata':{" ID ",'creationTimestamp':'1970-01-01T00:01:00Z','labels':{"
                "'crr.apps.kruise.io/active':'true','crr.apps.kruise.io/pod-uid':'p-1'}},"
                "'spec':{'podName':'web-0','activeDeadlineSeconds':600,"
                "'ttlSecondsAfterFinished':0,'strategy':{'failurePolicy':'Ignore',"
                "'orderedRecreate':true,'forceRecreate':true,"
                "'terminationGracePeriodSeconds':0,'unreadyGracePeriodSeconds':3,"
                "'minStartedSeconds':2},'containers':[{'name':'a','statusContext':"
                "{'containerID':'containerd://a1','restartCount':4}},{'name':'b'}]},"
                "'status':{'phase':'Recreating','message':'m','containerRecreateStates':["
                "{'name':'a','phase':'Succeeded','isKilled':true},"
                "{'name':'b','phase':'Failed','message':'no'}],"
                "'conditions':[{'type':'Other'},{'type':'PreRecreateGrace','status':'True',"
                "'lastTransitionTime':'1970-01-01T00:02:00Z'}],"
                "'containerStatusSnapshot':[{'name':'a','ready':true,'restartCount':5,"
                "'containerID':'containerd://a2'}]}}",
                RECREATE_V1BETA1);

        assert_null(spec->problem);
        assert_true(!spec->is_managed && !spec->is_deleted);
        assert_int_equal(spec->created_at, 60);
        assert_string_equal(spec->pod_uid, "p-1");
        assert_true(spec->ignores_failure && spec->is_ordered && spec->is_forced);
        assert_int_equal(spec->grace_sec, 0);
        assert_int_equal(spec->unready_sec, 3);
        assert_int_equal(spec->min_started_sec, 2);
        assert_int_equal(spec->deadline_sec, 600);
        assert_int_equal(spec->ttl_sec, 0);
        assert_int_equal(spec->n_containers, 2);
        assert_string_equal(spec->containers[0].context_id, "containerd://a1");
        assert_int_equal(spec->containers[0].restart_count, 4);
        assert_null(spec->containers[1].context_id);
        assert_int_equal(spec->status.phase, RECREATE_RECREATING);
        assert_false(spec->status.is_completed || spec->status.has_other_states);
        assert_true(spec->status.states[0].is_killed);
        assert_string_equal(spec->status.states[1].message, "no");
        assert_true(spec->is_drained);
        assert_int_equal(spec->drained_at, 120);
        assert_true(spec->n_snapshot == 1 && spec->snapshot[0].is_ready);
}

TEST(test_annotations) {
        static const char text[] =
                "{'metadata':{" ID ",'annotations':{"
                "'crr.apps.kruise.io/unready-acquired':'1970-01-01T00:02:00Z',"
                "'crr.apps.kruise.io/sync-container-statuses':"
                "'[{\\'name\\':\\'a\\',\\'ready\\':true,\\'containerID\\':\\'x://a2\\'}]'}},"
                "'spec':{'podName':'p','containers':[{'name':'a'}]}}";
        cleanup(recreate_spec_free_p) RecreateSpec *old = read_spec(text, RECREATE_V1ALPHA1);
        cleanup(recreate_spec_free_p) RecreateSpec *newer = read_spec(text, RECREATE_V1BETA1);

        assert_true(old->is_drained);
        assert_int_equal(old->drained_at, 120);
        assert_null(old->bad_drain);
        assert_int_equal(old->n_snapshot, 1);
        assert_string_equal(old->snapshot[0].container_id, "x://a2");
        assert_true(!newer->is_drained && newer->n_snapshot == 0);
}

/* A container without a name or an ID was not there when the request was seen. */
TEST(test_snapshot_in_parts) {
        cleanup(recreate_spec_free_p) RecreateSpec *spec = read_spec(
                "{'metadata':{" ID "},'spec':{'podName':'p','containers':[{'name':'a'}]},"
                "'status':{'containerStatusSnapshot':[{'name':'a'},{'containerID':'x://b'},"
                "{'name':'c','containerID':'x://c'}]}}",
                RECREATE_V1BETA1);

        assert_int_equal(spec->n_snapshot, 1);
        assert_string_equal(spec->snapshot[0].name, "c");
        assert_string_equal(spec->snapshot[0].container_id, "x://c");
        assert_false(spec->snapshot[0].is_ready);
}

TEST(test_bad_drain) {
        cleanup(recreate_spec_free_p) RecreateSpec *spec =
                read_spec("{'metadata':{" ID
                          ",'annotations':{'crr.apps.kruise.io/unready-acquired':'soon'}},"
                          "'spec':{'podName':'p','containers':[{'name':'a'}]}}",
                          RECREATE_V1ALPHA1);

        assert_true(spec->is_drained);
        assert_string_equal(spec->bad_drain, "soon");
}

TEST(test_states_by_name) {
        cleanup(recreate_spec_free_p) RecreateSpec *spec =
                read_spec("{'metadata':{" ID "},'spec':{'podName':'p','containers':[{'name':'a'},"
                          "{'name':'b'}]},'status':{'completionTime':'1970-01-01T00:01:00Z',"
                          "'containerRecreateStates':[{'name':'b','phase':'Failed'},"
                          "{'name':'a','phase':'Pending'}]}}",
                          RECREATE_V1BETA1);

        assert_int_equal(spec->status.states[0].phase, RECREATE_PENDING);
        assert_int_equal(spec->status.states[1].phase, RECREATE_FAILED);
        assert_true(spec->status.has_other_states && spec->status.is_completed);
        assert_int_equal(spec->status.completed_at, 60);
}

static const struct ProblemsRow {
        const char *spec;
        const char *problem;
} problems[] = {
        { "'x':1", "spec: has no podName" },
        { "'podName':7", "spec.podName: expected a string (in quotes), got 7" },
        { "'podName':'p','containers':[7]", "spec.containers[0]: expected an object, got 7" },
        { "'podName':'p','containers':[{'name':'a'},{}]", "spec.containers[1]: has no name" },
        { "'podName':'p','containers':[{'name':'a'},{'name':'a'}]",
          "spec.containers[1]: is the same container as one before it" },
        { "'podName':'p','containers':[{'name':'a','statusContext':{'containerID':1}}]",
          "spec.containers[0].statusContext.containerID: expected a string (in quotes), got 1" },
        { "'podName':'p','strategy':{'orderedRecreate':'yes'}",
          "spec.strategy.orderedRecreate: expected true or false, got \"yes\"" },
        { "'podName':'p','activeDeadlineSeconds':1.5",
          "spec.activeDeadlineSeconds: expected an integer, got 1.5" },
};

TEST_ROWS(test_problems, problems, spec, const struct ProblemsRow *row) {
        cleanup(recreate_spec_free_p) RecreateSpec *spec = NULL;
        char text[512];

        (void) snprintf(text, sizeof(text), "{'metadata':{" ID "},'spec':{%s}}", row->spec);
        spec = read_spec(text, RECREATE_V1BETA1);
        assert_string_equal(spec->problem, row->problem);
        assert_int_equal(spec->n_containers, 0);
}

TEST(test_without_identity) {
        static const char *const texts[] = {
                "{'metadata':{'namespace':'d','name':'n','uid':'u'}}",
                "{'metadata':{'namespace':'d','uid':'u','resourceVersion':'1'}}",
                "{'spec':{}}",
                "[]",
        };

        for (size_t i = 0; i < N_ELEMENTS(texts); i++) {
                cleanup(json_object_put_p) json_object *object = parse("%s", texts[i]);
                cleanup(error_done) Error error = ERROR_INIT;
                RecreateSpec *spec = NULL;

                assert_true(recreate_spec_parse(object, RECREATE_V1BETA1, &spec, &error) < 0);
                assert_int_equal(error.kind, ERROR_INVALID);
                assert_null(spec);
        }
}

TEST(test_times) {
        cleanup(recreate_spec_free_p) RecreateSpec *spec =
                read_spec("{'metadata':{" ID "},'spec':{'podName':'p','containers':[{'name':'a'}],"
                          "'activeDeadlineSeconds':-5,'ttlSecondsAfterFinished':null,"
                          "'strategy':{'minStartedSeconds':9223372036854775807}}}",
                          RECREATE_V1BETA1);

        assert_int_equal(spec->deadline_sec, 0);
        assert_int_equal(spec->ttl_sec, -1);
        assert_true(spec->min_started_sec < INT64_MAX / 1000000000);
        assert_false(spec->status.has_other_states);
}

TEST(test_texts) {
        static const struct {
                const char *text;
                const char *copy;
        } texts[] = {
                { "plain", "plain" },
                { "two\nlines\t", "two lines " },
                { "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80" },
                { "\xff\xc3(\xe2\x82", "?"
                                       "?(?"
                                       "?" },
                { "\xed\xa0\x80\xc0\x80", "?????" },
                { "\xf0\x8f\xbf\xbf", "????" },
                { "\xf0\x90\x80\x80", "\xf0\x90\x80\x80" },
        };
        cleanup(free_p) char *cut = NULL;
        char text[RECREATE_TEXT_MAX + 3];

        for (size_t i = 0; i < N_ELEMENTS(texts); i++) {
                cleanup(free_p) char *copy = recreate_text_copy(texts[i].text);

                assert_string_equal(copy, texts[i].copy);
        }

        memset(text, 'x', sizeof(text));
        memcpy(text + RECREATE_TEXT_MAX - 1, "\xc3\xa4", 3);
        cut = recreate_text_copy(text);
        assert_int_equal(strlen(cut), RECREATE_TEXT_MAX - 1);
}
