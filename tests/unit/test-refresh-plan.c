/* SPDX-License-Identifier: Apache-2.0 */

/* Tests which tags a refresh has resolved again, what nodes' answers say of them, and which images follow. */

#include "tests/unit/unit.h"

#include <json-c/json.h>

#include "agent/document/json-cleanup.h"
#include "agent/kubectl/refresh-plan.h"
#include "tests/unit/quoted-json.h"

#define DIGITS "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde"
#define A "sha256:a" DIGITS
#define B "sha256:b" DIGITS
#define C "sha256:c" DIGITS

#define TWO(main, side)                                                                           \
        "{'spec':{'containers':[{'name':'main','image':'" main "'},{'name':'side','image':'" side \
        "'}]}}"

/* clang-format off */
static const struct TagsRow {
        const char *name, *template, *tags, *fixed;
} tags_rows[] = {
        { "tags", TWO("r.io:5/a:1", "b"), "{'main':'r.io:5/a:1','side':'b:latest'}", "" },
        { "a tag and a digest", TWO("r.io/a:1@" A, "r.io/b@" A), "{'main':'r.io/a:1'}", "side" },
        { "digests", TWO("a@" A, "b@" A), "{}", "main, side" },
        { "an init container", "{'spec':{'containers':[{'name':'main','image':'a:1'}],'initContainers':[{'name':'init','image':'c:3'}]}}",
          "{'main':'a:1','init':'c:3'}", "" },
        { "a restart's spelling", "{'metadata':{'annotations':{'inplaced.io/restarted':'{\\\"main\\\":{\\\"image\\\":\\\"a:1\\\",\\\"as\\\":\\\"a@" A "\\\"}}'}},"
          "'spec':{'containers':[{'name':'main','image':'a@" A "'}]}}", "{'main':'a:1'}", "" },
};
/* clang-format on */

TEST_ROWS(test_tags, tags_rows, name, const struct TagsRow *row) {
        cleanup(json_object_put_p) json_object *object = parse("%s", row->template);
        cleanup(json_object_put_p) json_object *tags = NULL;
        cleanup(free_p) char *fixed = NULL;

        assert_ok(refresh_find_tags(object, &tags, &fixed, NULL));
        assert_json(tags, row->tags);
        assert_string_equal(fixed, row->fixed);
}

TEST(test_volumes) {
        cleanup(json_object_put_p) json_object *object = parse(
                "{'spec':{'volumes':[{'name':'tmp','emptyDir':{}},{'name':'data','image':{'reference':'a:1'}},"
                "{'name':'more','image':{'reference':'b@" A "'}}]}}");
        cleanup(json_object_put_p) json_object *none = parse("{'spec':{}}");
        cleanup(free_p) char *names = NULL;
        cleanup(free_p) char *no_names = NULL;

        assert_ok(refresh_name_volumes(object, &names));
        assert_string_equal(names, "data, more");
        assert_ok(refresh_name_volumes(none, &no_names));
        assert_string_equal(no_names, "");
}

#define SAYS(node, text) "{'name':'" node "','resolved':['" text "']}"

/* clang-format off */
static const struct DigestsRow {
        const char *name, *nodes;
        const char *digests; /* NULL: it is refused */
        const char *refusal;
} digests_rows[] = {
        { "one node", "[" SAYS("n1", "resolved to r.io/a@" A) "]", "{'r.io/a:1':['" A "']}", NULL },
        { "two that agree", "[" SAYS("n1", "resolved to r.io/a@" A) "," SAYS("n2", "resolved to r.io/a@" A) "]", "{'r.io/a:1':['" A "']}", NULL },
        { "two forms on one", "[" SAYS("n1", "resolved to r.io/a@" A ", r.io/a@" B) "," SAYS("n2", "resolved to r.io/a@" B) "]", "{'r.io/a:1':['" B "']}", NULL },
        { "another repository", "[" SAYS("n1", "resolved to r.io/b@" B ", r.io/a@" A) "]", "{'r.io/a:1':['" A "']}", NULL },
        { "two that disagree", "[" SAYS("n1", "resolved to r.io/a@" A) "," SAYS("n2", "resolved to r.io/a@" B) "]", NULL, "disagree on r.io/a:1: on node n2 it is " B ", which node n1" },
        { "nothing said", "[" SAYS("n1", "resolved to r.io/a@" A) "," SAYS("n2", "") "]", NULL, "node n2 does not report" },
        { "other words", "[" SAYS("n1", "2 of 2 layers are fetched on demand") "]", NULL, "node n1 does not report" },
        { "a tag", "[" SAYS("n1", "resolved to r.io/a:1") "]", NULL, "node n1 does not report" },
        { "no answer", "[{'name':'n1'}]", NULL, "node n1 does not report" },
        { "no node", "[]", NULL, "no node" },
};
/* clang-format on */

TEST_ROWS(test_digests, digests_rows, name, const struct DigestsRow *row) {
        cleanup(json_object_put_p) json_object *images = parse("{'r.io/a:1':null}");
        cleanup(json_object_put_p) json_object *nodes = parse("%s", row->nodes);
        cleanup(json_object_put_p) json_object *digests = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        int r = refresh_read_digests(images, nodes, &digests, &error);

        if (row->digests) {
                assert_ok(r);
                assert_json(digests, row->digests);
                return;
        }
        assert_true(r < 0);
        assert_contains(error_message(&error), row->refusal);
}

#define IMAGE(image) "{'spec':{'containers':[{'name':'main','image':'" image "'}]}}"
#define ENDS(image) "{'spec':{'initContainers':[{'name':'main','image':'" image "'}]}}"
#define RUNS(id) "{'status':{'containerStatuses':[{'name':'main','imageID':'" id "'}]}}"
#define RAN(id) "{'status':{'initContainerStatuses':[{'name':'main','imageID':'" id "'}]}}"

/* clang-format off */
static const struct PlanRow {
        const char *name, *template, *pods, *digests, *images, *before;
} plans[] = {
        { "a new digest", IMAGE("r.io/a:1"), "{'p':" RUNS("r.io/a@" A) "}", "['" B "']", "{'main':'r.io/a:1@" B "'}", "{'main':'r.io/a:1@" A "'}" },
        { "the same", IMAGE("r.io/a:1"), "{'p':" RUNS("r.io/a@" A) "}", "['" A "']", "{}", "{}" },
        { "the same in another form", IMAGE("r.io/a:1"), "{'p':" RUNS("r.io/a@" A) "}", "['" B "','" A "']", "{}", "{}" },
        { "the same content by another name", IMAGE("r.io/a:1"), "{'p':" RUNS("docker-pullable://other/a@" A) "}", "['" A "']", "{}", "{}" },
        { "one pod of two", IMAGE("r.io/a:1"), "{'p':" RUNS("r.io/a@" B) ",'q':" RUNS("r.io/a@" A) "}", "['" B "']", "{'main':'r.io/a:1@" B "'}", "{'main':'r.io/a:1@" A "'}" },
        { "a pod that has started nothing yet", IMAGE("r.io/a:1"), "{'p':" RUNS("r.io/a@" A) ",'q':{}}", "['" A "']", "{}", "{}" },
        { "none has started", IMAGE("r.io/a:1"), "{'q':{}}", "['" A "']", "{'main':'r.io/a:1@" A "'}", "{}" },
        { "a pod that ends", IMAGE("r.io/a:1"), "{'p':" RUNS("r.io/a@" A) ",'q':{'metadata':{'deletionTimestamp':'x'},'status':{'containerStatuses':[{'name':'main','imageID':'r.io/a@" B "'}]}}}", "['" A "']", "{}", "{}" },
        { "an image that was loaded", IMAGE("r.io/a:1"), "{'p':" RUNS(A) "}", "['" B "']", "{'main':'r.io/a:1@" B "'}", "{}" },
        { "another repository runs", IMAGE("r.io/a:1"), "{'p':" RUNS("r.io/b@" A) "}", "['" B "']", "{'main':'r.io/a:1@" B "'}", "{'main':'r.io/a:1@" A "'}" },
        { "pinned, and moved", IMAGE("r.io/a:1@" A), "{'p':" RUNS("r.io/a@" A) "}", "['" B "']", "{'main':'r.io/a:1@" B "'}", "{}" },
        { "pinned, and not moved", IMAGE("r.io/a:1@" A), "{'p':" RUNS("r.io/a@" A) "}", "['" B "','" A "']", "{}", "{}" },
        { "pinned, and a pod is behind", IMAGE("r.io/a:1@" B), "{'p':" RUNS("r.io/a@" A) "}", "['" A "','" B "']", "{}", "{}" },
        { "pinned otherwise than what runs", IMAGE("r.io/a:1@" C), "{'p':" RUNS("r.io/a@" A) "}", "['" A "']", "{'main':'r.io/a:1@" A "'}", "{}" },
        { "pinned, none has started", IMAGE("r.io/a:1@" A), "{'q':{}}", "['" A "']", "{}", "{}" },
        { "an init container that has ended", ENDS("r.io/a:1@" B), "{'p':" RAN("r.io/a@" A) "}", "['" B "']", "{}", "{}" },
        { "an init container to be updated", ENDS("r.io/a:1"), "{'p':" RAN("r.io/a@" A) "}", "['" B "']", "{'main':'r.io/a:1@" B "'}", "{'main':'r.io/a:1@" A "'}" },
};
/* clang-format on */

TEST_ROWS(test_plan, plans, name, const struct PlanRow *row) {
        cleanup(json_object_put_p) json_object *object = parse("%s", row->template);
        cleanup(json_object_put_p) json_object *pods = parse("%s", row->pods);
        cleanup(json_object_put_p) json_object *tags = parse("{'main':'r.io/a:1'}");
        cleanup(json_object_put_p) json_object *digests = json_object_new_object();
        cleanup(json_object_put_p) json_object *images = NULL;
        cleanup(json_object_put_p) json_object *before = NULL;

        json_object_object_add(digests, "r.io/a:1", parse("%s", row->digests));
        assert_ok(refresh_plan(
                &(RolloutView){ .kind = WORKLOAD_POD, .workload = object, .pods = pods },
                /* partition= */ 0, tags, digests, &images, &before));
        assert_json(images, row->images);
        assert_json(before, row->before);
}

#define OWNED(name, uid, id)                                                                       \
        "{'metadata':{'ownerReferences':[{'controller':true,'name':'" name "','uid':'" uid "'}]}," \
        "'status':{'containerStatuses':[{'name':'main','imageID':'r.io/a@" id "'}]}}"

/* clang-format off */
static const struct OthersRow {
        const char *name;
        WorkloadKind kind;
        const char *pods, *before;
} others[] = {
        { "a StatefulSet's and a Job's", WORKLOAD_STATEFUL_SET, "{'j':" OWNED("job", "j", C) ",'p':" OWNED("w", "w", A) "}", "{'main':'r.io/a:1@" A "'}" },
        { "a Deployment's and another one's", WORKLOAD_DEPLOYMENT, "{'o':" OWNED("o-1", "o1", C) ",'p':" OWNED("w-1", "w1", A) "}", "{'main':'r.io/a:1@" A "'}" },
        { "of a ReplicaSet that was made anew", WORKLOAD_DEPLOYMENT, "{'o':" OWNED("w-1", "former", C) ",'p':" OWNED("w-1", "w1", A) "}", "{'main':'r.io/a:1@" A "'}" },
        { "of an older ReplicaSet of it", WORKLOAD_DEPLOYMENT, "{'o':" OWNED("w-0", "w0", C) ",'p':" OWNED("w-1", "w1", A) "}", "{'main':'r.io/a:1@" C "'}" },
        { "current, and a Job's", WORKLOAD_DEPLOYMENT, "{'j':" OWNED("job", "j", C) ",'p':" OWNED("w-1", "w1", B) "}", NULL },
};
/* clang-format on */

/* The selector may choose pods of others as well, whose images are no way back. */
TEST_ROWS(test_pods_of_others, others, name, const struct OthersRow *row) {
        cleanup(json_object_put_p) json_object *object =
                parse("{'metadata':{'uid':'w'},'spec':{'template':" IMAGE("r.io/a:1") "}}");
        cleanup(json_object_put_p) json_object *owned =
                parse("{'w-0':{'metadata':{'name':'w-0','uid':'w0'}},"
                      "'w-1':{'metadata':{'name':'w-1','uid':'w1'}}}");
        cleanup(json_object_put_p) json_object *pods = parse("%s", row->pods);
        cleanup(json_object_put_p) json_object *tags = parse("{'main':'r.io/a:1'}");
        cleanup(json_object_put_p) json_object *digests = parse("{'r.io/a:1':['" B "']}");
        cleanup(json_object_put_p) json_object *images = NULL;
        cleanup(json_object_put_p) json_object *before = NULL;

        assert_ok(refresh_plan(&(RolloutView){ .kind = row->kind,
                                               .workload = object,
                                               .owned = owned,
                                               .pods = pods },
                               /* partition= */ 0, tags, digests, &images, &before));
        assert_json(images, row->before ? "{'main':'r.io/a:1@" B "'}" : "{}");
        assert_json(before, row->before ?: "{}");
}

#define ORDINAL(n, id)                                                                           \
        "'w-" #n "':{'metadata':{'name':'w-" #n "','ownerReferences':[{'controller':true,'uid':" \
        "'w'}]},'status':{'containerStatuses':[{'name':'main','imageID':'r.io/a@" id "'}]}}"

/* clang-format off */
static const struct PartitionRow {
        const char *name, *pods;
        int64_t partition;
        const char *before; /* NULL: all is up to date */
} partitions[] = {
        { "all pods", "{" ORDINAL(0, A) "," ORDINAL(1, B) "}", 0, "{'main':'r.io/a:1@" A "'}" },
        { "a canary that is up to date", "{" ORDINAL(0, A) "," ORDINAL(1, B) "}", 1, NULL },
        { "a canary that is not", "{" ORDINAL(0, A) "," ORDINAL(1, C) "}", 1, "{'main':'r.io/a:1@" C "'}" },
        { "no pod", "{" ORDINAL(0, A) "," ORDINAL(1, C) "}", 2, NULL },
};
/* clang-format on */

/* Pods below the partition may run another tag, whose content would be the way back. */
TEST_ROWS(test_partition, partitions, name, const struct PartitionRow *row) {
        cleanup(json_object_put_p) json_object *object =
                parse("{'metadata':{'uid':'w'},'spec':{'template':" IMAGE("r.io/a:1") "}}");
        cleanup(json_object_put_p) json_object *pods = parse("%s", row->pods);
        cleanup(json_object_put_p) json_object *tags = parse("{'main':'r.io/a:1'}");
        cleanup(json_object_put_p) json_object *digests = parse("{'r.io/a:1':['" B "']}");
        cleanup(json_object_put_p) json_object *images = NULL;
        cleanup(json_object_put_p) json_object *before = NULL;
        const RolloutView view = { .kind = WORKLOAD_STATEFUL_SET,
                                   .workload = object,
                                   .pods = pods };

        assert_ok(refresh_plan(&view, row->partition, tags, digests, &images, &before));
        assert_json(images, row->before ? "{'main':'r.io/a:1@" B "'}" : "{}");
        assert_json(before, row->before ?: "{}");
}
