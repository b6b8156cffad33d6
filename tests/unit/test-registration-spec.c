/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests the patches of a NodeImage of our own, and which tags leave it
 */

#include "agent/cluster/registration-spec.h"
#include "tests/unit/merge-patch.h"
#include "tests/unit/quoted-json.h"
#include "tests/unit/unit.h"

#define NOW 1769904059 /* 2026-02-01T00:00:59Z */
#define ANNOTATED "'annotations':{'inplaced.io/agent-version':'" INPLACED_VERSION "'}"
#define OURS "'app.kubernetes.io/managed-by':'inplaced'"
#define IDENTITY "'uid':'u-2','resourceVersion':'41'"

TEST(test_body) {
        cleanup(json_object_put_p) json_object *node =
                parse("{'metadata':{'name':'node-1','uid':'u-1','labels':{'zone':'a','odd':3," OURS
                      "},'annotations':{'a':'b'}}}");
        cleanup(json_object_put_p) json_object *body = NULL;
        cleanup(error_done) Error error = ERROR_INIT;

        assert_ok(registration_spec_body(node, "v1beta1", &body, &error));
        assert_json(body,
                    "{'apiVersion':'apps.kruise.io/v1beta1','kind':'NodeImage','spec':{},"
                    "'metadata':{'name':'node-1','labels':{'zone':'a'," OURS "}," ANNOTATED ","
                    "'ownerReferences':[{'apiVersion':'v1','kind':'Node','name':'node-1',"
                    "'uid':'u-1'}]}}");
        assert_true(registration_spec_is_ours(body));
}

/* The label says who owns the object, so the Node's label does not count. */
TEST(test_body_of_a_managed_node) {
        cleanup(json_object_put_p) json_object *node =
                parse("{'metadata':{'name':'n','uid':'u','labels':"
                      "{'app.kubernetes.io/managed-by':'another'}}}");
        cleanup(json_object_put_p) json_object *body = NULL;

        assert_ok(registration_spec_body(node, "v1alpha1", &body, NULL));
        assert_true(registration_spec_is_ours(body));
}

TEST(test_body_of_no_node) {
        static const char *const nodes[] = {
                "{}",
                "[]",
                "{'metadata':3}",
                "{'metadata':{'name':'n'}}",
                "{'metadata':{'uid':'u'}}",
                "{'metadata':{'name':'n','uid':''}}",
                "{'metadata':{'name':7,'uid':'u'}}",
        };

        for (size_t i = 0; i < N_ELEMENTS(nodes); i++) {
                cleanup(json_object_put_p) json_object *node = parse("%s", nodes[i]), *body = NULL;
                cleanup(error_done) Error error = ERROR_INIT;

                assert_true(registration_spec_body(node, "v1beta1", &body, &error) < 0);
                assert_int_equal(error.kind, ERROR_INVALID);
                assert_null(body);
        }
}

TEST(test_virtual) {
        cleanup(json_object_put_p) json_object *yes =
                parse("{'metadata':{'labels':{'type':'virtual-kubelet'}}}");
        cleanup(json_object_put_p) json_object *no = parse("{'metadata':{'labels':{'type':'x'}}}");

        assert_true(registration_spec_is_virtual(yes));
        assert_false(registration_spec_is_virtual(no));
        assert_false(registration_spec_is_virtual(NULL));
}

TEST(test_ours) {
        cleanup(json_object_put_p) json_object *ours = parse("{'metadata':{'labels':{" OURS "}}}");
        cleanup(json_object_put_p) json_object *foreign =
                parse("{'metadata':{'labels':{'app.kubernetes.io/managed-by':'Helm'}}}");

        assert_true(registration_spec_is_ours(ours));
        assert_false(registration_spec_is_ours(foreign));
        assert_false(registration_spec_is_ours(NULL));
}

/* clang-format off */

static const struct Labels {
        const char *name;
        const char *object;
        const char *node;
        const char *patch; /* patch of the labels; NULL: none */
} labels[] = {
        { "labels are the same", "{'a':'1'," OURS "}", "{'a':'1'}", NULL },
        { "labels are added", "{" OURS "}", "{'a':'1'}", "{'a':'1'}" },
        { "labels are changed", "{'a':'1'," OURS "}", "{'a':'2'}", "{'a':'2'}" },
        { "labels are removed", "{'a':'1','b':'2'," OURS "}", "{'b':'2'}", "{'a':null}" },
        { "labels all go but ours", "{'a':'1','b':'2'," OURS "}", "{}", "{'a':null,'b':null}" },
        { "labels are none but ours", "{" OURS "}", "null", NULL },
        { "labels of the Node claim ours", "{" OURS "}",
          "{'app.kubernetes.io/managed-by':'x'}", NULL },
        { "labels of the Node are no texts", "{" OURS "}", "{'a':null,'b':1,'c':{}}", NULL },
        { "labels of the Node are a list", "{'a':'1'," OURS "}", "['a']", "{'a':null}" },
};

/* clang-format on */

static json_object *wrap_labels(const char *text, const char *more) {
        return parse("{'metadata':{" IDENTITY ",'labels':%s%s},'kind':'x'}", text, more);
}

TEST_ROWS(test_labels, labels, name, const struct Labels *test) {
        cleanup(json_object_put_p) json_object *object = wrap_labels(test->object, "," ANNOTATED);
        cleanup(json_object_put_p) json_object *node = wrap_labels(test->node, "");
        cleanup(json_object_put_p) json_object *patch = NULL, *expected = NULL, *again = NULL;

        assert_ok(registration_spec_patch_metadata(object, node, &patch));
        if (!test->patch) {
                assert_null(patch);
                return;
        }

        expected = wrap_labels(test->patch, "");
        json_object_object_del(expected, "kind");
        assert_true(json_object_equal(patch, expected));

        object = apply_merge_patch(object, patch);
        assert_true(registration_spec_is_ours(object));
        assert_ok(registration_spec_patch_metadata(object, node, &again));
        assert_null(again);
}

/* The version of the agent is written with the labels, and where it alone has changed. */
TEST(test_version) {
        static const char *const others[] = {
                "", ",'annotations':{'a':'b'}", ",'annotations':7",
                ",'annotations':{'inplaced.io/agent-version':'0.0.9'}"
        };

        for (size_t i = 0; i < N_ELEMENTS(others); i++) {
                cleanup(json_object_put_p) json_object *object =
                        wrap_labels("{'a':'1'," OURS "}", others[i]);
                cleanup(json_object_put_p) json_object *same = wrap_labels("{'a':'1'}", "");
                cleanup(json_object_put_p) json_object *other = wrap_labels("{'a':'2'}", "");
                cleanup(json_object_put_p) json_object *patch = NULL, *both = NULL;

                assert_ok(registration_spec_patch_metadata(object, same, &patch));
                assert_json(patch, "{'metadata':{" IDENTITY "," ANNOTATED "}}");
                assert_ok(registration_spec_patch_metadata(object, other, &both));
                assert_json(both, "{'metadata':{" IDENTITY ",'labels':{'a':'2'}," ANNOTATED "}}");
        }
}

#define TAG(tag, more) "{'tag':'" tag "'" more "}"
#define TTL(sec) ",'pullPolicy':{'timeoutSeconds':9,'ttlSecondsAfterFinished':" sec "}"
/* Ended at NOW - 60. */
#define DONE(tag, more) \
        "{'tag':'" tag "','phase':'Succeeded','completionTime':'2026-01-31T23:59:59Z'" more "}"

/* clang-format off */

static const struct Tidy {
        const char *name;
        const char *images;
        const char *statuses;
        const char *patch; /* patch of the images; NULL: none */
        int64_t next_at;
} tidies[] = {
        { "tags have no limit", "{'a':{'tags':[" TAG("1", "") "]}}",
          "{'a':{'tags':[" DONE("1", "") "]}}", NULL, INT64_MAX },
        { "tags are not finished", "{'a':{'tags':[" TAG("1", TTL("0")) "]}}", "{}", NULL, INT64_MAX },
        { "tags wait for their end", "{'a':{'tags':[" TAG("1", TTL("61")) "]}}",
          "{'a':{'tags':[" DONE("1", "") "]}}", NULL, NOW + 1 },
        { "tags are at their end", "{'a':{'pullSecrets':[],'tags':[" TAG("1", TTL("60")) "]}}",
          "{'a':{'tags':[" DONE("1", "") "]}}", "{'a':null}", INT64_MAX },
        { "tags have no time to live", "{'a':{'tags':[" TAG("1", TTL("0")) "]}}",
          "{'a':{'tags':[" DONE("1", "") "]}}", "{'a':null}", INT64_MAX },
        { "tags are finished in another version",
          "{'a':{'tags':[" TAG("1", ",'version':2" TTL("0")) "]}}",
          "{'a':{'tags':[" DONE("1", ",'version':1") "]}}", NULL, INT64_MAX },
        { "tags are finished in this version",
          "{'a':{'tags':[" TAG("1", ",'version':2" TTL("0")) "]}}",
          "{'a':{'tags':[" DONE("1", ",'version':2") "]}}", "{'a':null}", INT64_MAX },
        { "tags leave others behind",
          "{'a':{'tags':[" TAG("1", TTL("0")) "," TAG("2", TTL("100") ",'x':[1]") "," TAG("3", "") "]},"
          "'b':{'tags':[" TAG("1", TTL("90")) "]}}",
          "{'a':{'tags':[" DONE("1", "") "," DONE("2", "") "," DONE("3", "") "]},"
          "'b':{'tags':[" DONE("1", "") "]}}",
          "{'a':{'tags':[" TAG("2", TTL("100") ",'x':[1]") "," TAG("3", "") "]}}", NOW + 30 },
        { "tags live longer than time", "{'a':{'tags':[" TAG("1", TTL("9223372036854775807")) "]}}",
          "{'a':{'tags':[" DONE("1", "") "]}}", NULL, INT64_MAX },
        { "tags have limits that are none",
          "{'a':{'tags':[" TAG("1", TTL("-1")) "," TAG("2", TTL("'0'")) ","
          TAG("3", ",'pullPolicy':0") "," TAG("4", TTL("null")) ",5,null,{}]},'b':7,'c':{'tags':8}}",
          "{'a':{'tags':[" DONE("1", "") "," DONE("2", "") "," DONE("3", "") "," DONE("4", "") "]}}",
          NULL, INT64_MAX },
        { "tags are no object", "'x'", "'y'", NULL, INT64_MAX },
};

/* clang-format on */

TEST_ROWS(test_tidy, tidies, name, const struct Tidy *test) {
        cleanup(json_object_put_p) json_object *object = NULL, *patch = NULL, *before = NULL;
        cleanup(free_p) char *expected = NULL;
        TidyPlan plan;

        object = parse("{'metadata':{" IDENTITY ",'name':'n'},'spec':{'images':%s},"
                       "'status':{'imageStatuses':%s}}",
                       test->images, test->statuses);
        before = copy_json(object);

        assert_ok(tidy_spec_plan(object, NOW, &plan));
        patch = plan.patch;
        assert_true(json_object_equal(object, before));
        assert_int_equal(plan.next_at, test->next_at);
        assert_int_equal(plan.n_tags, test->patch ? 1 : 0);
        if (!test->patch) {
                assert_null(patch);
                return;
        }

        assert_true(asprintf(&expected, "{'metadata':{" IDENTITY "},'spec':{'images':%s}}",
                             test->patch) > 0);
        assert_json(patch, expected);

        object = apply_merge_patch(object, patch);
        assert_ok(tidy_spec_plan(object, NOW, &plan));
        assert_null(plan.patch);
        assert_int_equal(plan.next_at, test->next_at);
}

#define N_TIDIES N_ELEMENTS(tidies)
