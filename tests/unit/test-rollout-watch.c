/* SPDX-License-Identifier: Apache-2.0 */

/* Parts of a pod that a run of an update in place keeps in memory. */

#include "tests/unit/unit.h"

#include "agent/kubectl/rollout-watch.h"
#include "tests/unit/quoted-json.h"

static SessionWatch pods; /* the watch of pods */

int __wrap_session_follow_new(Session *session, const SessionWatch *watches, size_t n_watches,
                              void *userdata, SessionFollow **ret);
int __wrap_session_follow_wait(SessionFollow *follow, int (*is_done)(void *userdata),
                               int (*is_away)(const Error *error, void *userdata), void *userdata,
                               Error *reterr);

int __wrap_session_follow_new(Session *session, const SessionWatch *watches, size_t n_watches,
                              void *userdata, SessionFollow **ret) {
        for (size_t i = 0; i < n_watches; i++)
                if (strcmp(watches[i].path.resource, "pods") == 0)
                        pods = watches[i];
        return 0;
}

int __wrap_session_follow_wait(SessionFollow *follow, int (*is_done)(void *userdata),
                               int (*is_away)(const Error *error, void *userdata), void *userdata,
                               Error *reterr) {
        return 0;
}

#define APP "'name': 'app', 'image': 'A'"
#define VOLUME "{'name': 'model', 'image': {'reference': 'B'}}"

/* A workload may have thousands of pods: the run keeps what it reads of them, not environments and other volumes. */
TEST(test_kept) {
        cleanup(json_object_put_p) json_object *pod = parse(
                "{'metadata': {'name': 'web-0'}, 'spec': {'nodeName': 'n', 'hostname': 'h', "
                "'containers': [{" APP ", 'env': []}], 'initContainers': [{" APP ", 'args': []}], "
                "'volumes': [{'name': 'cache', 'emptyDir': {}}, " VOLUME "]}}");
        const KubeObject object = { .name = "web-0", .json = pod };
        cleanup(error_done) Error error = ERROR_INIT;
        RolloutWatch watch = {
                .path = { .namespace = "shop", .resource = "deployments", .name = "web" },
                .view = { .kind = WORKLOAD_DEPLOYMENT },
        };

        assert_ok(rollout_watch_wait(&watch, NULL, NULL, NULL, &error));
        assert_ok(pods.on_object(&object, &watch));
        assert_json(json_object_object_get(json_object_object_get(watch.view.pods, "web-0"),
                                           "spec"),
                    "{'nodeName': 'n', 'containers': [{" APP "}], 'initContainers': [{" APP "}], "
                    "'volumes': [" VOLUME "]}");
        rollout_watch_done(&watch);
}
