/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Image sets as a command writes them, and its count of the nodes
 */

#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/kubectl/sets-plan.h"
#include "tests/unit/quoted-json.h"
#include "tests/unit/unit.h"

#define TAG(tag) \
        "{'tag':'" tag "','createdAt':'1970-01-01T00:00:00Z','imagePullPolicy':'IfNotPresent'}"
#define SECRET(name) "{'namespace':'b','name':'" name "'}"
#define KNOWN(tag) "{'tag':'" tag "','createdAt':'2026-01-02T03:04:05Z','version':3}"
#define SET(selector, images)                                                                   \
        "{'metadata':{'name':'gpu','resourceVersion':'7','labels':{'inplaced.io/set':''},"      \
        "'annotations':{'inplaced.io/node-selector':'" selector "'}},'spec':{'images':{" images \
        "}}}"

static json_object *secrets_of(const char *name) {
        json_object *secrets = json_object_new_object();

        if (name)
                assert_ok(patch_add_null(secrets, name));
        return secrets;
}

TEST(test_make) {
        static const char *const images[] = { "r.io/a:1", "nginx", "r.io/a:2", "r.io/a:1" };
        cleanup(json_object_put_p) json_object *secrets = secrets_of("pull");
        cleanup(json_object_put_p) json_object *made = NULL;
        const SetContent content = { .name = "gpu",
                                     .selector = "pool=gpu",
                                     .first = "2",
                                     .images = images,
                                     .n_images = 4,
                                     .namespace = "shop",
                                     .secrets = secrets };

        assert_ok(set_make(&content, &made, NULL));
        assert_json(
                made,
                "{'kind':'NodeImage','metadata':{'name':'gpu','labels':{'inplaced.io/set':''},"
                "'annotations':{'inplaced.io/node-selector':'pool=gpu','inplaced.io/first':'2'}},'spec':{'images':{"
                "'r.io/a':{'tags':[" TAG("1") "," TAG(
                        "2") "],"
                             "'pullSecrets':[{'namespace':'shop','name':'pull'}]},"
                             "'nginx':{'tags':[" TAG(
                                     "latest") "],"
                                               "'pullSecrets':[{'namespace':'shop','name':'pull'}]}}}}");
        assert_true(set_is_set(made));
        assert_int_equal(set_n_images(made), 3);
}

static const struct Refusal {
        const char *image, *selector, *message;
} refusals[] = {
        { "r.io/a:", "", "r.io/a:" },
        { "r.io/a:1", "pool gpu", "\"pool gpu\" is no label selector" },
};

TEST_ROWS(test_refused, refusals, message, const struct Refusal *row) {
        cleanup(json_object_put_p) json_object *secrets = secrets_of(NULL);
        cleanup(json_object_put_p) json_object *set = parse("%s", SET("", ""));
        cleanup(json_object_put_p) json_object *made = NULL;
        cleanup(error_done) Error error = ERROR_INIT, of_change = ERROR_INIT;
        const SetContent content = { .name = "gpu",
                                     .selector = row->selector,
                                     .images = &row->image,
                                     .n_images = 1,
                                     .secrets = secrets };

        assert_true(set_make(&content, &made, &error) < 0);
        assert_contains(error_message(&error), row->message);
        assert_true(set_change(set, &content, &made, &of_change) < 0);
        assert_contains(error_message(&of_change), row->message);
        assert_null(made);
}

static const struct Change {
        const char *name;
        const char *set;
        const char *selector;
        const char *images[3];
        const char *patch; /* NULL: nothing differs */
} changes[] = {
        { "nothing",
          SET("a=b", "'r.io/a':{'tags':[" KNOWN("1") "]}"),
          "a=b",
          { "r.io/a:1" },
          NULL },
        { "no selector is the one it has",
          SET("a=b", "'r.io/a':{'tags':[" KNOWN("1") "]}"),
          NULL,
          { "r.io/a:1" },
          NULL },
        { "another selector",
          SET("a=b", "'r.io/a':{'tags':[" KNOWN("1") "]}"),
          "",
          { "r.io/a:1" },
          "{'spec':{'images':{'r.io/a':{'tags':[" KNOWN(
                  "1") "]}}},'metadata':{'annotations':{"
                       "'inplaced.io/node-selector':''},'resourceVersion':'7'}}" },
        { "one more tag",
          SET("", "'r.io/a':{'tags':[" KNOWN("1") "]}"),
          NULL,
          { "r.io/a:1", "r.io/a:2" },
          "{'spec':{'images':{'r.io/a':{'tags':[" KNOWN("1") "," TAG(
                  "2") "]}}},"
                       "'metadata':{'resourceVersion':'7'}}" },
        { "another image instead",
          SET("", "'r.io/a':{'tags':[" KNOWN("1") "]}"),
          NULL,
          { "r.io/b:1" },
          "{'spec':{'images':{'r.io/b':{'tags':[" TAG("1") "]},'r.io/a':null}},"
                                                           "'metadata':{'resourceVersion':'7'}}" },
        { "a set without images",
          "{'metadata':{'resourceVersion':'7'}}",
          NULL,
          { "r.io/b:1" },
          "{'spec':{'images':{'r.io/b':{'tags':[" TAG(
                  "1") "]}}},'metadata':{'resourceVersion':'7'}}" },
};

TEST_ROWS(test_change, changes, name, const struct Change *row) {
        cleanup(json_object_put_p) json_object *secrets = secrets_of(NULL);
        cleanup(json_object_put_p) json_object *set = parse("%s", row->set);
        cleanup(json_object_put_p) json_object *patch = NULL;
        SetContent content = {
                .name = "gpu", .selector = row->selector, .images = row->images, .secrets = secrets
        };

        while (row->images[content.n_images])
                content.n_images++;
        assert_ok(set_change(set, &content, &patch, NULL));
        if (row->patch)
                assert_json(patch, row->patch);
        else
                assert_null(patch);
}

/* An image that the set has keeps the pull secrets that it has there, and gets the others. */
TEST(test_secrets_of_images) {
        static const char *const images[] = { "r.io/a:1", "r.io/b:1" };
        cleanup(json_object_put_p) json_object *secrets = secrets_of("pull");
        cleanup(json_object_put_p) json_object *set =
                parse("%s", SET("", "'r.io/a':{'tags':[" KNOWN("1") "],'pullSecrets':[" SECRET(
                                            "old") "]}"));
        cleanup(json_object_put_p) json_object *patch = NULL;
        const SetContent content = {
                .name = "gpu", .namespace = "b", .images = images, .n_images = 2, .secrets = secrets
        };

        assert_ok(set_change(set, &content, &patch, NULL));
        assert_json(
                patch,
                "{'spec':{'images':{'r.io/a':{'tags':[" KNOWN("1") "],'pullSecrets':[" SECRET("old") "," SECRET(
                        "pull") "]},'r.io/b':{'tags':[" TAG("1") "],'pullSecrets':[" SECRET("pull") "]}}},"
                                                                                                    "'metadata':{'resourceVersion':'7'}}");
}

#define LIMITED(parallelism) \
        SET("a=b','inplaced.io/parallelism':'" parallelism, "'r.io/a':{'tags':[" KNOWN("1") "]}")
#define LIMIT(parallelism)                                                   \
        "{'spec':{'images':{'r.io/a':{'tags':[" KNOWN(                       \
                "1") "]}}},'metadata':{"                                     \
                     "'annotations':{'inplaced.io/parallelism':" parallelism \
                     "},'resourceVersion':'7'}}"

static const struct LimitRow {
        const char *name;
        const char *set;
        const char *parallelism;
        const char *patch; /* NULL: nothing differs */
        int64_t known;
} limits[] = {
        { "the one it has", LIMITED("3"), NULL, NULL, 3 },
        { "the same again", LIMITED("3"), "3", NULL, 3 },
        { "another one", LIMITED("3"), "5", LIMIT("'5'"), 3 },
        { "none any more", LIMITED("3"), "", LIMIT("null"), 3 },
        { "none at all", SET("a=b", "'r.io/a':{'tags':[" KNOWN("1") "]}"), "", NULL, 0 },
};

TEST_ROWS(test_limit, limits, name, const struct LimitRow *row) {
        static const char *const images[] = { "r.io/a:1" };
        cleanup(json_object_put_p) json_object *secrets = secrets_of(NULL);
        cleanup(json_object_put_p) json_object *set = parse("%s", row->set);
        cleanup(json_object_put_p) json_object *patch = NULL, *made = NULL;
        const SetContent content = { .name = "gpu",
                                     .images = images,
                                     .n_images = 1,
                                     .parallelism = row->parallelism,
                                     .secrets = secrets };

        assert_int_equal(set_limit(set, "inplaced.io/parallelism"), row->known);
        assert_ok(set_change(set, &content, &patch, NULL));
        if (row->patch)
                assert_json(patch, row->patch);
        else
                assert_null(patch);
        assert_ok(set_make(&content, &made, NULL));
        assert_int_equal(set_limit(made, "inplaced.io/parallelism"),
                         row->parallelism ? atoi(row->parallelism) : 0);
}

#define NODE(labels, statuses) \
        "{'metadata':{'labels':{" labels "}},'status':{'imageStatuses':{" statuses "}}}"
#define SUCCEEDED(tag) "{'tag':'" tag "','phase':'Succeeded'}"
#define FAILED(tag) "{'tag':'" tag "','phase':'Failed'}"
#define TWO "'r.io/a':{'tags':[" KNOWN("1") "," KNOWN("2") "]}"

static const struct CountRow {
        const char *name;
        const char *set;
        const char *node;
        SetCount count;
} counts[] = {
        { "not selected", SET("pool=gpu", TWO), NODE("'pool':'cpu'", ""), { 0, 0, 0 } },
        { "has not begun", SET("pool=gpu", TWO), NODE("'pool':'gpu'", ""), { 1, 0, 0 } },
        { "has one of two",
          SET("", TWO),
          NODE("", "'r.io/a':{'tags':[" SUCCEEDED("1") "]}"),
          { 1, 0, 0 } },
        { "has both, and another",
          SET("", TWO),
          NODE("", "'r.io/a':{'tags':[" SUCCEEDED("1") "," FAILED("3") "," SUCCEEDED("2") "]}"),
          { 1, 1, 0 } },
        { "has failed once",
          SET("", TWO),
          NODE("", "'r.io/a':{'tags':[" SUCCEEDED("1") "," FAILED("2") "]}"),
          { 1, 0, 1 } },
        { "has failed twice",
          SET("", TWO),
          NODE("", "'r.io/a':{'tags':[" FAILED("1") "," FAILED("2") "]}"),
          { 1, 0, 1 } },
        { "an empty set", SET("", ""), NODE("", ""), { 1, 1, 0 } },
};

TEST_ROWS(test_count, counts, name, const struct CountRow *row) {
        cleanup(json_object_put_p) json_object *set = parse("%s", row->set);
        cleanup(json_object_put_p) json_object *node = parse("%s", row->node);
        SetCount count = { 0 };

        assert_ok(set_count(set, node, &count, NULL));
        assert_int_equal(count.n_nodes, row->count.n_nodes);
        assert_int_equal(count.n_ready, row->count.n_ready);
        assert_int_equal(count.n_failed, row->count.n_failed);
}

/* A node with such a label has a NodeImage with it. */
TEST(test_is_set) {
        cleanup(json_object_put_p) json_object *node =
                parse("%s", "{'metadata':{'labels':{'inplaced.io/set':''}}}");
        cleanup(json_object_put_p) json_object *other =
                parse("%s", "{'metadata':{'annotations':{'inplaced.io/node-selector':''}}}");

        assert_false(set_is_set(node));
        assert_false(set_is_set(other));
}
