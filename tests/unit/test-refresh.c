/* SPDX-License-Identifier: Apache-2.0 */

/* A refresh, from the tags of a workload to the images that it is to get. */

#include "tests/unit/unit.h"

#include "agent/kubectl/preload.h"
#include "agent/kubectl/refresh.h"
#include "tests/unit/quoted-json.h"

#define DIGITS "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde"
#define OLD "sha256:a" DIGITS
#define NEW "sha256:b" DIGITS

static size_t n_failed; /* number of nodes that cannot resolve the tags */

int __wrap_preload_run_first(Session *session, json_object *images, const PreloadRequest *request,
                             PreloadResult *ret, Error *reterr);

int __wrap_preload_run_first(Session *session, json_object *images, const PreloadRequest *request,
                             PreloadResult *ret, Error *reterr) {
        assert_json(images, "{'r.io/app:1':null}");
        assert_json(request->nodes, "{'n1':null}");
        assert_true(request->resolves);
        *ret = (PreloadResult){
                .n_nodes = 1,
                .n_failed = n_failed,
                .reasons = strdup("Unreachable: r.io: n1\n"),
                .nodes = parse("[{'name':'n1','resolved':['resolved to r.io/app@" NEW "']}]")
        };
        return 0;
}

static int resolve(json_object **ret, Error *reterr) {
        cleanup(json_object_put_p) json_object *workload =
                parse("{'metadata':{'name':'web','uid':'w'},'spec':{'template':{'spec':"
                      "{'containers':[{'name':'app','image':'r.io/app:1'}]}}}}");
        cleanup(json_object_put_p) json_object *pods =
                parse("{'web-0':{'metadata':{'name':'web-0','ownerReferences':"
                      "[{'controller':true,'uid':'w'}]},'spec':{'nodeName':'n1'},'status':"
                      "{'containerStatuses':[{'name':'app','imageID':'r.io/app@" OLD "'}]}}}");
        cleanup(json_object_put_p) json_object *before = NULL;
        const RolloutWatch watch = {
                .view = { .kind = WORKLOAD_REPLICA_SET, .workload = workload, .pods = pods }
        };

        return refresh_resolve(&watch, /* partition= */ 0, /* is_shown= */ false, ret, &before,
                               reterr);
}

TEST(test_moved_tag) {
        cleanup(json_object_put_p) json_object *images = NULL;
        cleanup(error_done) Error error = ERROR_INIT;

        n_failed = 0;
        assert_ok(resolve(&images, &error));
        assert_json(images, "{'app':'r.io/app:1@" NEW "'}");
}

/* A node that has resolved it before may know where the tag was, but not where it is. */
TEST(test_failed_node) {
        cleanup(json_object_put_p) json_object *images = NULL;
        cleanup(error_done) Error error = ERROR_INIT;

        n_failed = 1;
        assert_true(resolve(&images, &error) < 0);
        assert_contains(error_message(&error),
                        "the tags cannot be resolved on 1 of 1 nodes: Unreachable: r.io: n1; "
                        "nothing has changed");
        assert_null(images);
}
