/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests the patches of OpenKruise's workloads, and when their update is over
 */

#include "tests/unit/unit.h"

#include "agent/kubectl/kruise-plan.h"
#include "tests/unit/quoted-json.h"

#define CLONE WORKLOAD_CLONE_SET
#define STATEFUL WORKLOAD_ADVANCED_STATEFUL_SET
#define DAEMON WORKLOAD_ADVANCED_DAEMON_SET

typedef struct BeginCase {
        const char *version; /* version of the workload */
        WorkloadKind kind;
        const char *strategy;  /* JSON */
        const char *container; /* container that gets "B"; NULL: "app" */
        const char *metadata;  /* more metadata, as JSON; NULL: none */
        const char *refusal;   /* part of the refusal; NULL: it begins */
        const char *patch;     /* a part of it */
} BeginCase;

#define OLDER "v1alpha1"
#define NEWER "v1beta1"
#define IN_PLACE "{'type': 'InPlaceIfPossible'}"

/* clang-format off */
static const BeginCase begin_rows[] = {
        { OLDER, CLONE, IN_PLACE, NULL, NULL, NULL,
          "{\"metadata\":{\"resourceVersion\":\"7\"},\"spec\":{\"template\":{\"spec\":{\"containers\":"
          "[{\"name\":\"app\",\"image\":\"B\",\"env\":[]},{\"name\":\"side\",\"image\":\"S\"}]}}}}" },
        { OLDER, CLONE, "{'type': 'InPlaceOnly'}", NULL, NULL, NULL, "\"B\"" },
        { OLDER, CLONE, "{}", NULL, NULL, "since spec.updateStrategy.type is not set", NULL },
        { OLDER, CLONE, "{'type': 'ReCreate'}", NULL, NULL, "since spec.updateStrategy.type is ReCreate", NULL },
        { OLDER, CLONE, "{'type': 'InPlaceOnly', 'paused': true}", NULL, NULL, "updateStrategy.paused is true", NULL },
        { OLDER, CLONE, IN_PLACE, "none", NULL, "no container \"none\"", NULL },
        { OLDER, CLONE, IN_PLACE, "init", NULL, "\"init\" is an init container", NULL },
        { OLDER, CLONE, IN_PLACE, "app': 'B', 'init", NULL, "\"init\" is an init container", NULL },
        { OLDER, CLONE, IN_PLACE, NULL, "{'deletionTimestamp': 'now'}", "being deleted", NULL },
        { OLDER, CLONE, IN_PLACE, NULL, "{'ownerReferences': [{'controller': true, 'uid': 'x', 'kind': 'Fleet', 'name': 'f'}]}",
          "Fleet \"f\" owns it, whose pods cannot be updated in place", NULL },
        { OLDER, CLONE, "{'type': 'ReCreate'}", "same", NULL, NULL, "nothing" },
        { NEWER, CLONE, "{'type': 'RollingUpdate', 'rollingUpdate': {'podUpdatePolicy': 'InPlaceIfPossible'}}", NULL, NULL,
          NULL, "\"B\"" },
        { NEWER, CLONE, "{'type': 'RollingUpdate', 'rollingUpdate': {'podUpdatePolicy': 'ReCreate'}}", NULL, NULL,
          "podUpdatePolicy is ReCreate", NULL },
        { NEWER, CLONE, "{'rollingUpdate': {'podUpdatePolicy': 'InPlaceOnly', 'paused': true}}", NULL, NULL,
          "rollingUpdate.paused is true", NULL },
        { NEWER, CLONE, "{'type': 'OnDelete'}", NULL, NULL, "with OnDelete", NULL },
        { NEWER, STATEFUL, "{'rollingUpdate': {'podUpdatePolicy': 'InPlaceIfPossible'}}", NULL, NULL, NULL, "\"B\"" },
        { NEWER, STATEFUL, "{'type': 'RollingUpdate'}", NULL, NULL, "podUpdatePolicy is not set", NULL },
        { NEWER, STATEFUL, "{'type': 'OnDelete'}", NULL, NULL, "with OnDelete", NULL },
        { NEWER, STATEFUL, "{'rollingUpdate': {'podUpdatePolicy': 'InPlaceOnly', 'paused': true}}", NULL, NULL,
          "rollingUpdate.paused is true", NULL },
        { NEWER, DAEMON, "{'rollingUpdate': {'rollingUpdateType': 'InPlaceIfPossible'}}", NULL, NULL, NULL, "\"B\"" },
        { NEWER, DAEMON, "{'rollingUpdate': {'rollingUpdateType': 'Standard'}}", NULL, NULL, "rollingUpdateType is Standard", NULL },
        { NEWER, DAEMON, "{'type': 'OnDelete'}", NULL, NULL, "with OnDelete", NULL },
};
/* clang-format on */

static json_object *make_workload(const BeginCase *row) {
        json_object *made = parse(
                "{'apiVersion': 'apps.kruise.io/%s', 'metadata': {'name': 'web', 'uid': 'w', "
                "'resourceVersion': '7'}, 'spec': {'updateStrategy': %s, 'template': {'spec': {'containers': [{'name': 'app', 'image': "
                "'A', 'env': []}, {'name': 'side', 'image': 'S'}], 'initContainers': [{'name': "
                "'init', 'image': 'I'}]}}}}",
                row->version, row->strategy);
        cleanup(json_object_put_p) json_object *more = parse("%s", row->metadata ?: "{}");

        json_object_object_foreach(more, key, value) {
                json_object_object_add(object_at(made, "metadata"), key, json_object_get(value));
        }
        return made;
}

TEST(test_begin) {
        for (size_t i = 0; i < N_ELEMENTS(begin_rows); i++) {
                const BeginCase *row = &begin_rows[i];
                bool is_same = row->container && strcmp(row->container, "same") == 0;
                cleanup(json_object_put_p) json_object *workload = make_workload(row);
                cleanup(json_object_put_p) json_object *images =
                        is_same ? parse("{'app': 'A'}")
                                : parse("{'%s': 'B'}", row->container ?: "app");
                cleanup(json_object_put_p) json_object *patch = NULL;
                cleanup(error_done) Error error = ERROR_INIT;
                const RolloutView view = { .kind = row->kind, .workload = workload };
                const RolloutRequest request = { .images = images };
                const char *text;
                int r = kruise_begin(&view, &request, &patch, &error);

                if (row->refusal && (r >= 0 || !strstr(error_message(&error), row->refusal)))
                        fail_msg("row %zu: \"%s\" instead of \"%s\"", i, error_message(&error),
                                 row->refusal);
                if (!row->refusal && r < 0)
                        fail_msg("row %zu: %s", i, error_message(&error));
                text = patch ? json_object_to_json_string_ext(patch, JSON_C_TO_STRING_PLAIN)
                             : "nothing";
                if (row->patch && !strstr(text, row->patch))
                        fail_msg("row %zu: %s is not in %s", i, row->patch, text);
        }
}

typedef struct StateCase {
        WorkloadKind kind;
        const char *template;  /* image of the template */
        const char *partition; /* NULL: none */
        int n_counted;         /* pods that the controller counts as updated */
        const char *pods; /* images, a lower case one is not ready, '!' one does not start; of 3 */
        RolloutAction action;
        const char *message;
        bool is_behind,
                is_unready; /* the controller's count of those that are ready has one less */
} StateCase;

/* clang-format off */
static const StateCase state_rows[] = {
        { CLONE, "B", NULL, 0, "AAA", ROLLOUT_WAIT, "which has updated 0 of 3 pods", false, false },
        { CLONE, "B", NULL, 1, "AAb", ROLLOUT_WAIT, "for pod \"web-2\"", false, false },
        { CLONE, "B", NULL, 1, "AA!", ROLLOUT_STOP, "pod \"web-2\": container app: Back-off pulling B", false, false },
        { CLONE, "B", NULL, 2, "BBB", ROLLOUT_WAIT, "2 of 3", false, false },
        { CLONE, "B", NULL, 3, "BBB", ROLLOUT_WAIT, "3 of 3", true, false },
        { CLONE, "B", NULL, 3, "BBB", ROLLOUT_WAIT, "3 of 3", false, true },
        { CLONE, "B", NULL, 3, "BBB", ROLLOUT_DONE, NULL, false, false },
        { CLONE, "B", "1", 2, "BBA", ROLLOUT_DONE, NULL, false, false },
        { CLONE, "B", "'50%'", 1, "BAA", ROLLOUT_DONE, NULL, false, false },
        { CLONE, "B", "'50%'", 0, "AAA", ROLLOUT_WAIT, "0 of 1", false, false },
        { CLONE, "C", NULL, 3, "BBB", ROLLOUT_STOP, "another client", false, false },
        { STATEFUL, "B", NULL, 3, "BBB", ROLLOUT_DONE, NULL, false, false },
        { STATEFUL, "B", "2", 1, "AAB", ROLLOUT_DONE, NULL, false, false },
        { DAEMON, "B", NULL, 3, "BBB", ROLLOUT_DONE, NULL, false, false },
        { DAEMON, "B", NULL, 2, "BBB", ROLLOUT_WAIT, "2 of 3", false, false },
};
/* clang-format on */

static json_object *make_status(const StateCase *row) {
        int n = row->n_counted;

        if (row->kind == DAEMON)
                return parse("{'observedGeneration': 2, 'updatedNumberScheduled': %d, "
                             "'desiredNumberScheduled': 3}",
                             n);
        return parse(
                "{'observedGeneration': %d, 'updatedReplicas': %d, 'updatedReadyReplicas': %d}",
                row->is_behind ? 1 : 2, n, row->is_unready ? n - 1 : n);
}

static json_object *make_state(const StateCase *row, const char *version) {
        json_object *made =
                parse("{'apiVersion': 'apps.kruise.io/%s', 'metadata': {'name': 'web', 'uid': 'w', "
                      "'generation': 2}, 'spec': {'replicas': 3, 'updateStrategy': {}, 'template': "
                      "{'spec': {'containers': [{'name': 'app', 'image': '%s'}]}}}}",
                      version, row->template);
        json_object *strategy = object_at(made, "spec.updateStrategy");

        json_object_object_add(made, "status", make_status(row));
        if (row->kind == DAEMON)
                json_object_object_del(object_at(made, "spec"), "replicas");
        if (row->partition && row->kind == CLONE && strcmp(version, OLDER) == 0)
                json_object_object_add(strategy, "partition", parse("%s", row->partition));
        else if (row->partition)
                json_object_object_add(strategy, "rollingUpdate",
                                       parse("{'partition': %s}", row->partition));
        return made;
}

static json_object *make_pod(int n, char image) {
        bool is_failed = image == '!', is_ready = image == 'A' || image == 'B';
        json_object *made = parse(
                "{'metadata': {'name': 'web-%d', 'ownerReferences': [{'controller': true, 'uid': 'w'}]}, 'spec': "
                "{'containers': [{'name': 'app', 'image': '%c'}]}, 'status': {'conditions': [{'type': 'Ready', "
                "'status': '%s'}]}}",
                n, image == 'A' ? 'A' : 'B', is_ready ? "True" : "False");

        json_object_object_add(
                object_at(made, "status"), "containerStatuses",
                parse("[{'name': 'app', 'containerID': 'i', 'state': {%s}}]",
                      is_failed
                              ? "'waiting': {'reason': 'ImagePullBackOff', 'message': 'Back-off pulling B'}"
                              : "'running': {}"));
        return made;
}

static void check_states(const char *version) {
        for (size_t i = 0; i < N_ELEMENTS(state_rows); i++) {
                const StateCase *row = &state_rows[i];
                cleanup(json_object_put_p) json_object *workload = make_state(row, version);
                cleanup(json_object_put_p) json_object *pods = json_object_new_object();
                cleanup(json_object_put_p) json_object *images = parse("{'app': 'B'}");
                cleanup(json_object_put_p) json_object *record = NULL;
                cleanup(rollout_step_done) RolloutStep step = ROLLOUT_STEP_INIT;
                cleanup(census_done) Census census = CENSUS_INIT;
                const RolloutView view = { .kind = row->kind, .workload = workload, .pods = pods };
                char name[16];

                for (int n = 0; n < 3; n++) {
                        (void) snprintf(name, sizeof(name), "web-%d", n);
                        json_object_object_add(pods, name, make_pod(n, row->pods[n]));
                }
                record = kruise_record(&view, images);
                assert_non_null(record);
                assert_int_equal(view_desired_pods(&view), 3);
                assert_ok(census_take(&view, record, &census));
                assert_ok(kruise_plan(&view, record, &census, &step));
                if (step.action != row->action ||
                    (row->message && !strstr(step.message ?: "", row->message)))
                        fail_msg("row %zu: action %d, \"%s\"", i, step.action, step.message ?: "");
        }
}

TEST(test_state) {
        check_states(NEWER);
}

TEST(test_state_of_an_older_version) {
        check_states(OLDER);
}

/* Without images of its own an update leads to the template's. */
TEST(test_record) {
        static const BeginCase row = { .version = OLDER, .kind = CLONE, .strategy = IN_PLACE };
        cleanup(json_object_put_p) json_object *workload = make_workload(&row);
        cleanup(json_object_put_p) json_object *images = parse("{'app': 'B'}");
        const RolloutView view = { .kind = CLONE, .workload = workload };
        cleanup(json_object_put_p) json_object *given = kruise_record(&view, images);
        cleanup(json_object_put_p) json_object *followed = kruise_record(&view, NULL);

        assert_json(given, "{'state':'forward','mode':'set-image','before':{'app':'A'},"
                           "'after':{'app':'B'}}");
        assert_json(followed, "{'state':'forward','mode':'set-image','before':{'app':'A',"
                              "'side':'S'},'after':{'app':'A','side':'S'}}");
}
