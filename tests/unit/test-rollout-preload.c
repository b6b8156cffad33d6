/* SPDX-License-Identifier: Apache-2.0 */

/* Pulls before an update, and whether it begins after them. */

#include "tests/unit/unit.h"

#include "agent/kubectl/preload.h"
#include "agent/kubectl/rights.h"
#include "agent/kubectl/rollout-preload.h"
#include "tests/unit/complaint.h"
#include "tests/unit/quoted-json.h"

/* A node with a NodeImage; these functions stand for those of others, see tests/CMakeLists.txt. */
static struct { size_t n_failed, n_silent; /* result of the pulls */ } node;

int __wrap_preload_run_first(Session *session, json_object *images, const PreloadRequest *request,
                             PreloadResult *ret, Error *reterr);
int __wrap_rights_check(Rights *rights, RightsTask task, const char *name, RightsMissing *ret,
                        Error *reterr);
int __wrap_session_find_kruise(Session *session, const char *resource, const char **ret,
                               Error *reterr);
int __wrap_session_list_metadata(Session *session, const KubePath *path, SessionItem on_item,
                                 void *userdata, Error *reterr);

int __wrap_preload_run_first(Session *session, json_object *images, const PreloadRequest *request,
                             PreloadResult *ret, Error *reterr) {
        assert_json(images, "{'app:2':null}");
        assert_json(request->nodes, "{'n1':null}");
        *ret = (PreloadResult){ .n_nodes = 1,
                                .n_failed = node.n_failed,
                                .n_silent = node.n_silent,
                                .reasons = strdup("NoAnswer: n1\n") };
        return 0;
}

int __wrap_rights_check(Rights *rights, RightsTask task, const char *name, RightsMissing *ret,
                        Error *reterr) {
        return 0;
}

int __wrap_session_find_kruise(Session *session, const char *resource, const char **ret,
                               Error *reterr) {
        *ret = "v1beta1";
        return 0;
}

int __wrap_session_list_metadata(Session *session, const KubePath *path, SessionItem on_item,
                                 void *userdata, Error *reterr) {
        cleanup(json_object_put_p) json_object *node_image = parse("{'metadata':{'name':'n1'}}");

        return on_item(node_image, userdata);
}

static const struct BeginRow {
        const char *name;
        size_t n_failed, n_silent;
        const char *template_image; /* in the template for which the images were found */
        bool is_everywhere, is_outdated;
        const char *said; /* NULL: nothing */
} begin_rows[] = {
        { "pulled", 0, 0, "app:1", true, false, NULL },
        { "no agent answers", 1, 1, "app:1", false, false,
          "NoAnswer: n1; its images are not pulled before" },
        { "another client has changed the template", 0, 0, "app:0", false, true, NULL },
};

TEST_ROWS(test_begin, begin_rows, name, const struct BeginRow *row) {
        cleanup(json_object_put_p) json_object *workload = parse(
                "{'spec':{'template':{'spec':{'containers':[{'name':'app','image':'app:1'}]}}}}");
        cleanup(json_object_put_p) json_object *template =
                parse("{'spec':{'containers':[{'name':'app','image':'%s'}]}}", row->template_image);
        cleanup(json_object_put_p) json_object *record =
                parse("{'state':'forward','before':{'app':'app:1'},'after':{'app':'app:2'}}");
        cleanup(json_object_put_p) json_object *pod = parse("{'spec':{'nodeName':'n1'}}");
        cleanup(error_done) Error error = ERROR_INIT;
        PodState state = { .pod = pod, .phase = ROLLOUT_OLD };
        const Census census = { .pods = &state, .n_pods = 1 };
        const RolloutWatch watch = { .view = { .kind = WORKLOAD_STATEFUL_SET,
                                               .workload = workload } };
        const RolloutPreload preload = { .template = template, .without = "--no-preload" };
        RolloutPreloaded preloaded;

        node.n_failed = row->n_failed;
        node.n_silent = row->n_silent;
        assert_ok(rollout_preload(&watch, record, &census, &preload, &preloaded, &error));
        assert_true(preloaded.is_done);
        assert_int_equal(preloaded.is_everywhere, row->is_everywhere);
        assert_int_equal(preloaded.is_outdated, row->is_outdated);
        if (row->said)
                assert_contains(said, row->said);
        else
                assert_null(said);
        forget_complaint();
}
