/* SPDX-License-Identifier: Apache-2.0 */

/* Tests reads and patches of NodeImages for preloading an image, and the choice of nodes. */

#include "tests/unit/unit.h"
#include <json-c/json.h>

#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/preload-plan.h"
#include "tests/unit/quoted-json.h"

const char *__real_json_to_text(json_object *value);
const char *__wrap_json_to_text(json_object *value);

static unsigned n_texts; /* texts that were made of whole objects */

/* The linker puts it in the place of json_to_text(), see tests/CMakeLists.txt. */
const char *__wrap_json_to_text(json_object *value) {
        n_texts++;
        return __real_json_to_text(value);
}

static PreloadImage images[] = { { (char *) "r.io/app", (char *) "2" },
                                 { (char *) "r.io/app", (char *) "3" },
                                 { (char *) "nginx", (char *) "1" } };
static json_object *no_secrets, *secrets; /* {name: null} */
static PreloadTask one = { .images = images, .n_images = 1, .namespace = "ns", .ttl_sec = 60 };
static PreloadTask all = { .images = images, .n_images = 3, .namespace = "ns", .ttl_sec = 60 };
static PreloadTask with_secrets = {
        .images = images, .n_images = 1, .namespace = "ns", .ttl_sec = 60
};

#define SPEC(tags) "'spec':{'images':{'r.io/app':{'tags':[" tags "]}}}"
#define STATUS(tags) ",'status':{'imageStatuses':{'r.io/app':{'tags':[" tags "]}}}"
#define NEW_OF(tag, version)                                                     \
        "{'tag':'" tag "','createdAt':'1970-01-01T00:00:00Z','version':" version \
        ",'imagePullPolicy':'IfNotPresent','pullPolicy':{'ttlSecondsAfterFinished':60}}"
#define NEW(version) NEW_OF("2", version)
#define PATCH(image) "{'spec':{'images':{'r.io/app':" image "}}}"
#define TAGS(tags) PATCH("{'tags':[" tags "]}")

static void read_node(PreloadNode *node, const PreloadTask *task, const char *node_image) {
        cleanup(json_object_put_p) json_object *object = parse("%s", node_image);

        assert_ok(preload_node_init(node, task, "node-1"));
        assert_ok(preload_node_read(node, object));
}

static void assert_patch(PreloadNode *node, PreloadMode mode, const char *expected) {
        cleanup(json_object_put_p) json_object *patch = NULL;
        const PreloadTask *task = node->task;
        PreloadTask other = *task;

        other.mode = mode;
        node->task = &other;
        assert_ok(preload_node_patch(node, &patch));
        assert_json(patch, expected ?: "null");
        node->task = task;
}

/* clang-format off */
static const struct EntriesRow {
        const char *name, *node_image;
        PreloadPhase phase;
        int64_t version, next_version;
        const char *request, *withdrawal; /* NULL: nothing is to be written */
} entries[] = {
        { "no spec", "{}", PRELOAD_ABSENT, 0, 0, TAGS(NEW("0")), NULL },
        { "other images", "{'spec':{'images':{'r.io/apps':{'tags':[{'tag':'2'}]}}}}", PRELOAD_ABSENT, 0, 0,
          TAGS(NEW("0")), NULL },
        { "other tags", "{" SPEC("{'tag':'1'}") "}", PRELOAD_ABSENT, 0, 0, TAGS("{'tag':'1'}," NEW("0")), NULL },
        { "withdrawn before", "{" SPEC("{'tag':'1'}") STATUS("{'tag':'2','version':4,'completionTime':'x','phase':'Succeeded'}") "}",
          PRELOAD_ABSENT, 0, 5, TAGS("{'tag':'1'}," NEW("5")), NULL },
        { "requested", "{" SPEC("{'tag':'2'}") "}", PRELOAD_WAITING, 0, 1, NULL, PATCH("null") },
        { "of another version", "{" SPEC("{'tag':'1'},{'tag':'2','version':3}")
          STATUS("{'tag':'2','version':2,'completionTime':'x','phase':'Failed'}") "}", PRELOAD_WAITING, 3, 4, NULL,
          TAGS("{'tag':'1'}") },
        { "pulled", "{" SPEC("{'tag':'2'}") STATUS("{'tag':'2','phase':'Pulling','progress':7}") "}",
          PRELOAD_PULLING, 0, 1, NULL, PATCH("null") },
        { "waits", "{" SPEC("{'tag':'2'}") STATUS("{'tag':'2','phase':'Waiting'}") "}",
          PRELOAD_WAITING, 0, 1, NULL, PATCH("null") },
        { "there", "{" SPEC("{'tag':'2','version':1,'kept':true}")
          STATUS("{'tag':'2','phase':'Succeeded','version':1,'completionTime':'x'}") "}",
          PRELOAD_SUCCEEDED, 1, 2, TAGS("{'tag':'2','version':2,'kept':true}"), PATCH("null") },
        { "failed", "{" SPEC("{'tag':'1'},{'tag':'2'}") STATUS("{'tag':'2','phase':'Failed','completionTime':'x'}") "}",
          PRELOAD_FAILED, 0, 1, TAGS("{'tag':'1'},{'tag':'2','version':1}"), TAGS("{'tag':'1'}") },
        { "the last version", "{" SPEC("{'tag':'2','version':9223372036854775807}")
          STATUS("{'tag':'2','version':9223372036854775807,'phase':'Failed','completionTime':'x'}") "}", PRELOAD_FAILED, INT64_MAX, 1,
          TAGS("{'tag':'2','version':1}"), PATCH("null") },
        { "the last version, after the one before", "{" SPEC("{'tag':'2','version':9223372036854775807}")
          STATUS("{'tag':'2','version':9223372036854775806,'phase':'Failed','completionTime':'x'}") "}", PRELOAD_WAITING, INT64_MAX, 1, NULL,
          PATCH("null") },
        { "the status of the last version", "{" SPEC("{'tag':'2','version':1}")
          STATUS("{'tag':'2','version':9223372036854775807,'phase':'Failed','completionTime':'x'}") "}", PRELOAD_WAITING, 1, 2, NULL,
          PATCH("null") },
        { "versions below zero", "{" SPEC("{'tag':'2','version':-5}")
          STATUS("{'tag':'2','version':-5,'phase':'Failed','completionTime':'x'}") "}", PRELOAD_FAILED, -5, 0,
          TAGS("{'tag':'2','version':0}"), PATCH("null") },
        { "other types", "{'spec':{'images':{'r.io/app':[]}},'status':7}", PRELOAD_ABSENT, 0, 0, TAGS(NEW("0")), NULL },
        { "other types in it", "{'spec':{'images':{'r.io/app':{'tags':7}}}}", PRELOAD_ABSENT, 0, 0, TAGS(NEW("0")), NULL },
};
/* clang-format on */

TEST_ROWS(test_entries, entries, name, const struct EntriesRow *row) {
        cleanup(preload_node_done) PreloadNode node;
        const PreloadPull *pull;

        read_node(&node, &one, row->node_image);
        pull = &node.pulls[0];
        if (pull->phase != row->phase || pull->version != row->version ||
            pull->next_version != row->next_version)
                fail_msg("%s: %d %lld %lld", row->name, pull->phase, (long long) pull->version,
                         (long long) pull->next_version);
        assert_patch(&node, PRELOAD_PULL, row->request);
        assert_patch(&node, PRELOAD_WITHDRAW, row->withdrawal);
}

#define OWNED(owners) "{" SPEC("{'tag':'2','version':4,'ownerReferences':" owners "}") "}"

static const struct OwnersRow {
        const char *node_image;
        bool is_of;
} owners_rows[] = {
        { "{" SPEC("{'tag':'2'}") "}", false },
        { OWNED("[]"), false },
        { OWNED("{'uid':'j'}"), false },
        { OWNED("[{'uid':'k'},{}]"), false },
        { OWNED("[{'uid':'j'}]"), true },
        { OWNED("[{'uid':'j'},{'uid':'k'}]"), true },
        { OWNED("[{'uid':'k'},{'uid':'j'}]"), true },
};

TEST_ROWS(test_owners, owners_rows, node_image, const struct OwnersRow *row) {
        static const PreloadJob job = { .uid = (char *) "j" };
        PreloadTask task = one;

        task.jobs = &job;

        cleanup(preload_node_done) PreloadNode node;

        read_node(&node, &task, row->node_image);
        if (node.pulls[0].awaited != (row->is_of ? 4 : -1))
                fail_msg("%s", row->node_image);
}

/* Two of one name are one member of the patch. */
TEST(test_several_images) {
        cleanup(preload_node_done) PreloadNode empty, full;

        read_node(&empty, &all, "{}");
        assert_patch(&empty, PRELOAD_PULL,
                     "{'spec':{'images':{'r.io/app':{'tags':[" NEW(
                             "0") "," NEW_OF("3", "0") "]},"
                                                       "'nginx':{'tags':[" NEW_OF("1",
                                                                                  "0") "]}}}}");
        assert_patch(&empty, PRELOAD_WITHDRAW, NULL);

        read_node(&full, &all, "{" SPEC("{'tag':'2'},{'tag':'3'}") "}");
        assert_patch(&full, PRELOAD_PULL,
                     "{'spec':{'images':{'nginx':{'tags':[" NEW_OF("1", "0") "]}}}}");
        assert_patch(&full, PRELOAD_WITHDRAW, PATCH("null"));
}

#define SECRET(namespace, name) "{'namespace':'" namespace "','name':'" name "'}"

/* clang-format off */
static const struct SecretsRow {
        const char *secrets; /* secrets of the image */
        const char *written; /* all that it has then; NULL: nothing is written */
        bool is_foreign;     /* a request for a tenant is not written, and not waited for */
} kept[] = {
        { "", SECRET("ns", "one") "," SECRET("ns", "two"), true },
        { SECRET("ns", "two"), SECRET("ns", "two") "," SECRET("ns", "one"), false },
        { SECRET("other", "one") "," SECRET("ns", "two"),
          SECRET("other", "one") "," SECRET("ns", "two") "," SECRET("ns", "one"), true },
        { SECRET("ns", "two") "," SECRET("ns", "one"), NULL, false },
};
/* clang-format on */

/* A request that lacks a secret is made anew. */
TEST_ROWS(test_secrets, kept, secrets, const struct SecretsRow *row) {
        cleanup(preload_node_done) PreloadNode node;
        char text[1024];

        (void) snprintf(text, sizeof(text),
                        "{'spec':{'images':{'r.io/app':{'tags':[{'tag':'2'}]%s%s%s}}}}",
                        row->secrets[0] ? ",'pullSecrets':[" : "", row->secrets,
                        row->secrets[0] ? "]" : "");
        read_node(&node, &with_secrets, text);
        (void) snprintf(text, sizeof(text),
                        PATCH("{'tags':[{'tag':'2','version':1}],'pullSecrets':[%s]}"),
                        row->written ?: "");
        assert_patch(&node, PRELOAD_PULL, row->written ? text : NULL);
}

/* The tags of one namespace and the secrets of another do not meet: who writes a workload may have no right to either. */
TEST_ROWS(test_tenants, kept, secrets, const struct SecretsRow *row) {
        cleanup(preload_node_done) PreloadNode node;
        PreloadTask apart = with_secrets;
        char image[512], text[600];

        apart.keeps_apart = true;
        (void) snprintf(image, sizeof(image), "{'tags':[{'tag':'2'}]%s%s%s}",
                        row->secrets[0] ? ",'pullSecrets':[" : "", row->secrets,
                        row->secrets[0] ? "]" : "");
        (void) snprintf(text, sizeof(text), "{'spec':{'images':{'r.io/app':%s}}}", image);
        read_node(&node, &apart, text);
        if (row->is_foreign)
                assert_patch(&node, PRELOAD_PULL, NULL);
        assert_ok(preload_node_expect(&node));
        assert_int_equal(preload_node_state(&node),
                         row->is_foreign ? PRELOAD_NODE_DONE : PRELOAD_NODE_RUNNING);
}

TEST(test_tenant_without_secrets) {
        cleanup(preload_node_done) PreloadNode own, other;
        cleanup(preload_reasons_done) PreloadReasons reasons = PRELOAD_REASONS_INIT;
        cleanup(preload_result_done) PreloadResult result = { .nodes = json_object_new_array() };
        PreloadTask apart = one;

        apart.keeps_apart = true;
        read_node(&own, &apart, "{" SPEC("{'tag':'1'}") "}");
        assert_patch(&own, PRELOAD_PULL, TAGS("{'tag':'1'}," NEW("0")));
        read_node(&other, &apart,
                  "{'spec':{'images':{'r.io/app':{'tags':[{'tag':'1'}],'pullSecrets':[" SECRET(
                          "other", "one") "]}}}}");
        assert_patch(&other, PRELOAD_PULL, NULL);
        assert_int_equal(preload_node_state(&other), PRELOAD_NODE_DONE);
        assert_ok(preload_result_add(&result, &reasons, &own));
        assert_int_equal(result.n_apart, 0);
        assert_ok(preload_result_add(&result, &reasons, &other));
        assert_int_equal(result.n_done, 1);
        assert_int_equal(result.n_apart, 1);
}

/* The updates of users leave room for what the agent says of each image: without that, no request would ever end. */
TEST(test_full_node) {
        cleanup(preload_node_done) PreloadNode node, last;
        cleanup(json_object_put_p) json_object *smaller = parse("{}");
        cleanup(free_p) char *tag = calloc(1, PRELOAD_SIZE_MAX + 1);
        cleanup(free_p) char *text = NULL;
        PreloadTask apart = one;

        apart.keeps_apart = true;
        assert_non_null(tag);
        memset(tag, 'x', PRELOAD_SIZE_MAX);
        assert_ok(text_format(&text, "{'spec':{'images':{'r.io/other':{'tags':[{'tag':'%s'}]}}}}",
                              tag));
        read_node(&node, &apart, text);
        assert_patch(&node, PRELOAD_PULL, NULL);
        assert_ok(preload_node_expect(&node));
        assert_int_equal(preload_node_state(&node), PRELOAD_NODE_DONE);
        node.has_begun = node.is_written = true;
        assert_ok(preload_node_read(&node, smaller));
        assert_int_equal(preload_node_state(&node), PRELOAD_NODE_DONE);

        read_node(&last, &one, text);
        assert_patch(&last, PRELOAD_PULL, TAGS(NEW("0")));
}

/* While images are pulled, agents write often, and a NodeImage may be large. */
TEST(test_size_is_asked_before_a_request_only) {
        cleanup(preload_node_done) PreloadNode own, other;
        cleanup(json_object_put_p) json_object *none = parse("{" SPEC("{'tag':'1'}") "}");
        PreloadTask apart = one;

        apart.keeps_apart = true;
        n_texts = 0;
        read_node(&own, &apart, "{" SPEC("{'tag':'2'}") "}");
        assert_int_equal(n_texts, 0);

        read_node(&other, &apart, "{" SPEC("{'tag':'1'}") "}");
        assert_int_equal(n_texts, 1);
        assert_ok(preload_node_expect(&other));
        other.has_begun = other.is_written = true;
        assert_ok(preload_node_read(&other, none));
        assert_int_equal(n_texts, 1);
        assert_int_equal(preload_node_state(&other), PRELOAD_NODE_RUNNING);
}

static const struct {
        PreloadCounts counts;
        PreloadLimits limits;
        size_t room;
        bool is_over;
} shares[] = {
        /* idle, running, done, failed, silent; others are answering */
        { { 0, 0, 0, 0, 0, false }, { 10, SIZE_MAX }, 0, true },
        { { 5, 0, 0, 0, 0, false }, { 10, SIZE_MAX }, 5, false },
        { { 50, 0, 0, 0, 0, false }, { 10, SIZE_MAX }, 10, false },
        { { 50, 8, 0, 0, 0, false }, { 10, SIZE_MAX }, 2, false },
        { { 50, 10, 9, 9, 0, false }, { 10, SIZE_MAX }, 0, false },
        { { 50, 12, 0, 0, 0, false }, { 10, SIZE_MAX }, 0, false },
        { { 0, 3, 9, 0, 0, false }, { 10, SIZE_MAX }, 0, false },
        { { 0, 0, 9, 3, 0, false }, { 10, SIZE_MAX }, 0, true },
        { { 5, 1, 0, 2, 0, false }, { 10, 2 }, 5, false },
        { { 5, 1, 0, 3, 0, false }, { 10, 2 }, 0, false },
        { { 5, 0, 0, 3, 0, false }, { 10, 2 }, 0, true },
        { { 5, 0, 0, 1, 0, false }, { 10, 0 }, 0, true },
        { { 5, 0, 3, 0, 0, false }, { 1, 0 }, 1, false },
        { { 0, 0, 9, 3, 3, true }, { 10, SIZE_MAX }, 0, false },
        { { 5, 0, 0, 3, 1, true }, { 10, 2 }, 0, false },
        { { 0, 0, 9, 3, 3, false }, { 10, SIZE_MAX }, 0, true },
        { { 0, 0, 9, 3, 0, true }, { 10, SIZE_MAX }, 0, true },
};

TEST(test_patience) {
        assert_int_equal(preload_patience_usec(0), PRELOAD_LATE_USEC);
        assert_int_equal(preload_patience_usec(PRELOAD_LATE_USEC / 4), PRELOAD_LATE_USEC);
        assert_int_equal(preload_patience_usec(PRELOAD_LATE_USEC), 4 * PRELOAD_LATE_USEC);
        /* An agent whose watch has just been refused does not see the request before it tries again. */
        for (uint32_t i = 0; i < 1000; i++)
                assert_true(kube_retry_usec(100, NULL, i * (UINT32_MAX / 1000)) <
                            PRELOAD_LATE_USEC);
}

TEST(test_next_nodes) {
        for (size_t i = 0; i < N_ELEMENTS(shares); i++)
                if (preload_room(&shares[i].counts, &shares[i].limits) != shares[i].room ||
                    preload_is_over(&shares[i].counts, &shares[i].limits) != shares[i].is_over)
                        fail_msg("row %zu", i);
}

/* clang-format off */
#define GONE PRELOAD_ABSENT
#define DONE PRELOAD_SUCCEEDED
#define BAD PRELOAD_FAILED

/* Nodes with two images. */
static const struct {
        PreloadMode mode;
        struct {
                PreloadPhase phase; /* in the NodeImage */
                int version;        /* version of the awaited request; 0: none */
                PreloadPhase outcome;
        } of[2];
        bool is_taken_up; /* the first image */
        const char *said; /* message of the second image; NULL: none */
        bool has_begun, is_unregistered, is_written, is_late, is_stalled;
        const char *refusal;
        bool has_job_ended; /* the second image's job has ended; there are no jobs otherwise */
        PreloadNodeState state;
        const char *message; /* NULL: none */
        const char *awaited; /* NULL: it does not matter */
        int64_t progress;    /* 0: it does not matter */
} nodes[] = {
        { PRELOAD_PULL, .state = PRELOAD_NODE_IDLE },
        { PRELOAD_PULL, .has_begun = true, .state = PRELOAD_NODE_RUNNING },
        { PRELOAD_PULL, { { PRELOAD_PULLING, 1, GONE } }, .state = PRELOAD_NODE_RUNNING },
        { PRELOAD_PULL, { { DONE, 1, DONE }, { PRELOAD_PULLING, 1, GONE } }, .state = PRELOAD_NODE_RUNNING },
        { PRELOAD_PULL, { { DONE, 1, DONE }, { DONE, 1, DONE } }, .state = PRELOAD_NODE_DONE },
        { PRELOAD_PULL, { { DONE, 1, DONE }, { BAD, 1, BAD } }, .state = PRELOAD_NODE_FAILED,
          .message = "Failed: without a reason" },
        { PRELOAD_PULL, .is_unregistered = true, .state = PRELOAD_NODE_FAILED,
          .message = "NoNodeImage: no agent has registered the node" },
        { PRELOAD_PULL, { { DONE, 1, DONE }, { DONE, 1, DONE } }, .refusal = "NodeGone: x",
          .state = PRELOAD_NODE_FAILED, .message = "NodeGone: x" },
        { PRELOAD_PULL, .is_written = true, .state = PRELOAD_NODE_DONE },
        { PRELOAD_PULL, { { DONE, 1, DONE } }, .has_job_ended = true, .state = PRELOAD_NODE_FAILED,
          .message = "NotTaken: the ImagePullJob ended without this node" },
        { PRELOAD_PULL, { { PRELOAD_WAITING, 1, GONE }, { PRELOAD_WAITING, 1, GONE } }, .has_begun = true,
          .state = PRELOAD_NODE_RUNNING, .awaited = "no agent has begun", .progress = 1 },
        { PRELOAD_PULL, { { PRELOAD_WAITING, 1, GONE }, { PRELOAD_WAITING, 1, GONE } }, .is_late = true,
          .state = PRELOAD_NODE_SILENT, .message = "no agent answers" },
        { PRELOAD_PULL, { { PRELOAD_WAITING, 1, GONE }, { PRELOAD_WAITING, 1, GONE } }, .is_taken_up = true, .is_late = true,
          .state = PRELOAD_NODE_RUNNING, .awaited = "the image is being pulled", .progress = 1 },
        { PRELOAD_PULL, { { DONE, 1, DONE }, { PRELOAD_WAITING, 1, GONE } }, .is_late = true,
          .state = PRELOAD_NODE_RUNNING, .progress = 102 },
        { PRELOAD_PULL, { { PRELOAD_PULLING, 1, GONE } }, .is_taken_up = true, .is_stalled = true,
          .state = PRELOAD_NODE_FAILED, .message = "NoProgress: nothing has changed for ten minutes" },
        { PRELOAD_PULL, { { DONE, 1, DONE }, { DONE, 1, DONE } }, .is_late = true, .is_stalled = true,
          .state = PRELOAD_NODE_DONE, .progress = 204 },
        { PRELOAD_PULL, { { DONE, 1, DONE }, { PRELOAD_WAITING, 1, GONE } }, .said = "Unreachable: x",
          .state = PRELOAD_NODE_RUNNING, .message = "Unreachable: x" },
        { PRELOAD_PULL, .is_stalled = true, .state = PRELOAD_NODE_IDLE },
        { PRELOAD_WATCH, { { PRELOAD_WAITING, 1, GONE } }, .is_late = true, .state = PRELOAD_NODE_SILENT,
          .message = "no agent answers" },
        { PRELOAD_WATCH, .state = PRELOAD_NODE_UNCONCERNED },
        { PRELOAD_WATCH, .is_unregistered = true, .state = PRELOAD_NODE_UNCONCERNED,
          .message = "NoNodeImage: no agent has registered the node" },
        { PRELOAD_WATCH, { { PRELOAD_PULLING, 1, GONE } }, .state = PRELOAD_NODE_RUNNING },
        { PRELOAD_WATCH, { { DONE, 1, DONE } }, .state = PRELOAD_NODE_DONE },
        { PRELOAD_WITHDRAW, .state = PRELOAD_NODE_UNCONCERNED },
        { PRELOAD_WITHDRAW, .has_begun = true, .state = PRELOAD_NODE_DONE },
        { PRELOAD_WITHDRAW, { { PRELOAD_PULLING, 0, GONE } }, .state = PRELOAD_NODE_IDLE },
        { PRELOAD_WITHDRAW, { { GONE, 0, GONE }, { PRELOAD_PULLING, 0, GONE } }, .has_begun = true,
          .state = PRELOAD_NODE_RUNNING },
        { PRELOAD_WITHDRAW, { { PRELOAD_PULLING, 0, GONE } }, .has_begun = true, .is_stalled = true,
          .state = PRELOAD_NODE_FAILED, .message = "NoProgress: the request is still there after ten minutes" },
};
/* clang-format on */

TEST(test_nodes) {
        for (size_t i = 0; i < N_ELEMENTS(nodes); i++) {
                const PreloadJob jobs[2] = { { .has_ended = false }, { .has_ended = true } };
                const PreloadTask task = { .mode = nodes[i].mode,
                                           .n_images = 2,
                                           .jobs = nodes[i].has_job_ended ? jobs : NULL,
                                           .is_dry_run = nodes[i].is_written,
                                           .is_stalled = nodes[i].is_stalled };
                PreloadPull pulls[2];
                const PreloadNode node = {
                        .task = &task,
                        .version = (char *) (nodes[i].is_unregistered ? NULL : "7"),
                        .refusal = (char *) nodes[i].refusal,
                        .pulls = pulls,
                        .has_begun = nodes[i].has_begun,
                        .is_written = nodes[i].is_written,
                        .is_late = nodes[i].is_late,
                };
                const char *message;

                for (size_t k = 0; k < 2; k++)
                        pulls[k] =
                                (PreloadPull){ .phase = nodes[i].of[k].phase,
                                               .is_taken_up = k == 0 && nodes[i].is_taken_up,
                                               .awaited = nodes[i].of[k].version ?: -1,
                                               .was_seen = true,
                                               .message = (char *) (k == 1 ? nodes[i].said : NULL),
                                               .outcome = nodes[i].of[k].outcome };
                message = preload_node_message(&node);
                if (preload_node_state(&node) != nodes[i].state ||
                    (message ? !nodes[i].message || strcmp(message, nodes[i].message) != 0
                             : nodes[i].message != NULL))
                        fail_msg("row %zu: state %d, %s", i, preload_node_state(&node),
                                 message ?: "no message");
                if (nodes[i].awaited)
                        assert_string_equal(preload_node_awaited(&node), nodes[i].awaited);
                if (nodes[i].progress > 0)
                        assert_int_equal(preload_node_progress(&node), nodes[i].progress);
        }
}

/* clang-format off */
/* Tags in the NodeImage after a request of version 3; it had version 2 before. */
static const struct {
        struct {
                PreloadPhase phase;
                int version;
        } shown[3];
        PreloadPhase outcome;
} pulls_shown[] = {
        { { { BAD, 2 }, { PRELOAD_WAITING, 3 } }, GONE },
        { { { BAD, 2 }, { DONE, 2 } }, GONE },
        { { { PRELOAD_WAITING, 3 }, { DONE, 3 } }, DONE },
        { { { PRELOAD_WAITING, 3 }, { BAD, 3 } }, BAD },
        { { { PRELOAD_WAITING, 3 }, { GONE, 0 } }, BAD },
        { { { GONE, 0 }, { PRELOAD_WAITING, 3 }, { DONE, 4 } }, DONE },
        { { { DONE, 3 }, { BAD, 4 } }, DONE },
};
/* clang-format on */

static void show(PreloadNode *node, PreloadPhase phase, int version) {
        static const char *const phases[_PRELOAD_PHASE_MAX] = { "", "Waiting", "Pulling",
                                                                "Succeeded", "Failed" };
        cleanup(json_object_put_p) json_object *object = NULL;
        char text[512];

        (void) snprintf(text, sizeof(text),
                        "{" SPEC("{'tag':'2','version':%d}")
                                STATUS("{'tag':'2','version':%d,'phase':'%s'%s}") "}",
                        version, version, phases[phase],
                        phase == DONE || phase == BAD ? ",'completionTime':'x'" : "");
        object = parse("%s", phase == GONE ? "{}" : text);
        assert_ok(preload_node_read(node, object));
}

TEST(test_pulls) {
        for (size_t i = 0; i < N_ELEMENTS(pulls_shown); i++) {
                cleanup(preload_node_done) PreloadNode node;

                read_node(&node, &one, "{}");
                show(&node, BAD, 2);
                assert_ok(preload_node_expect(&node));
                assert_int_equal(node.pulls[0].awaited, 3);
                for (size_t k = 0; k < 3 && (k < 2 || pulls_shown[i].shown[k].version > 0); k++)
                        show(&node, pulls_shown[i].shown[k].phase, pulls_shown[i].shown[k].version);
                if (node.pulls[0].outcome != pulls_shown[i].outcome)
                        fail_msg("row %zu: %d", i, node.pulls[0].outcome);
        }
}

/* A tag that is to be resolved is requested anew, also while a pull is under way, and by whatever policy. */
TEST(test_resolves) {
        static const char ended[] = "{" SPEC("{'tag':'2','version':6,'imagePullPolicy':'Always'}") STATUS(
                "{'tag':'2','version':6,'phase':'Succeeded','completionTime':'x','message':'resolved to a'}") "}";
        PreloadTask task = { .images = images, .n_images = 1, .namespace = "ns", .resolves = true };
        cleanup(json_object_put_p) json_object *object = parse("%s", ended);
        cleanup(json_object_put_p) json_object *job = NULL;
        cleanup(preload_reasons_done) PreloadReasons reasons = PRELOAD_REASONS_INIT;
        cleanup(preload_result_done) PreloadResult result = { .nodes = json_object_new_array() };
        cleanup(preload_node_done) PreloadNode node;

        task.secrets = no_secrets;
        read_node(&node, &task,
                  "{" SPEC("{'tag':'2','version':5,'imagePullPolicy':'IfNotPresent'}")
                          STATUS("{'tag':'2','version':5,'phase':'Pulling'}") "}");
        assert_patch(&node, PRELOAD_PULL,
                     PATCH("{'tags':[{'tag':'2','version':6,'imagePullPolicy':'Always'}],"
                           "'sandboxConfig':{'annotations':{'inplaced.io/resolve':'true'}}}"));
        assert_ok(preload_node_expect(&node));
        assert_int_equal(node.pulls[0].awaited, 6);
        assert_ok(preload_node_read(&node, object));
        assert_int_equal(preload_node_state(&node), PRELOAD_NODE_DONE);
        assert_ok(preload_result_add(&result, &reasons, &node));
        assert_json(result.nodes,
                    "[{'name':'node-1','phase':'Succeeded','resolved':['resolved to a']}]");
        job = preload_job_make("v1beta1", "r.io/app:2", &task, 1, json_object_new_array());
        assert_string_equal(json_get_text(json_get(job, "spec", json_type_object),
                                          "imagePullPolicy"),
                            "Always");
        assert_json(json_get(json_get(job, "spec", json_type_object), "sandboxConfig",
                             json_type_object),
                    "{'annotations':{'inplaced.io/resolve':'true'}}");
}

TEST(test_job) {
        cleanup(json_object_put_p) json_object *names = json_object_new_array();
        cleanup(json_object_put_p) json_object *job = NULL;
        json_object_array_add(names, json_object_new_string("node-1"));
        job = preload_job_make("v1beta1", "r.io/app:2", &with_secrets, 25, json_object_get(names));
        assert_json(
                job,
                "{'spec': {'selector': {'names': ['node-1']}, 'completionPolicy': {'type': 'Always', "
                "'ttlSecondsAfterFinished': 60}, 'image': 'r.io/app:2', 'parallelism': 25, "
                "'pullSecrets': ['one', 'two']}, 'metadata': {'generateName': 'preload-', 'labels': "
                "{'app.kubernetes.io/managed-by': 'kubectl-inplace'}}, 'apiVersion': "
                "'apps.kruise.io/v1beta1', 'kind': 'ImagePullJob'}");
}

/* Counted over nodes: one has the image, one pulls it, one waits for it, and one is not concerned. */
TEST(test_image_counts) {
        static const PreloadPull pulls[] = {
                { .phase = PRELOAD_SUCCEEDED, .awaited = 1, .outcome = PRELOAD_SUCCEEDED },
                { .phase = PRELOAD_PULLING, .awaited = 1, .is_taken_up = true, .percent = 40 },
                { .phase = PRELOAD_WAITING, .awaited = 1 },
                { .awaited = -1 },
        };
        const PreloadTask task = { .mode = PRELOAD_WATCH, .n_images = 1 };
        PreloadImageCounts counts = { .n_nodes = 0 };

        for (size_t i = 0; i < N_ELEMENTS(pulls); i++) {
                PreloadPull pull = pulls[i];
                const PreloadNode node = { .task = &task, .version = (char *) "7", .pulls = &pull };

                pull.was_seen = true;
                preload_image_count(&node, 0, &counts);
        }
        assert_int_equal(counts.n_nodes, 3);
        assert_int_equal(counts.n_done, 1);
        assert_int_equal(counts.n_running, 1);
        assert_int_equal(counts.n_waiting, 1);
        assert_int_equal(counts.n_failed, 0);
        assert_int_equal(counts.percent, 140);
}

TEST(test_reasons) {
        cleanup(preload_reasons_done) PreloadReasons reasons = PRELOAD_REASONS_INIT;
        cleanup(free_p) char *text = NULL, *empty = NULL;

        assert_ok(preload_reasons_format(&reasons, &empty));
        assert_string_equal(empty, "");
        for (int i = 1; i <= 7; i++) {
                char node[8];

                (void) snprintf(node, sizeof(node), "n%d", i);
                assert_ok(preload_reasons_add(&reasons, node,
                                              i == 1 ? "NotFound: of n1" : "NotFound: other"));
        }
        assert_ok(preload_reasons_add(&reasons, "m", "the disk: full"));
        assert_ok(preload_reasons_format(&reasons, &text));
        assert_string_equal(text, "NotFound on 7 nodes (n1, n2, n3, n4, n5, ...): of n1\n"
                                  "the disk: full on node m\n");
}

#define ENDED(phase) \
        "{" SPEC("{'tag':'2'}") STATUS("{'tag':'2','phase':'" phase "','completionTime':'x'}") "}"

/* The exit status and the summary of a command come from these numbers. */
TEST(test_result) {
        /* clang-format off */
        static const struct {
                const char *node_image;
                bool is_late, is_expected;
        } rows[] = {
                { ENDED("Succeeded"), .is_expected = true },
                { ENDED("Failed"), .is_expected = true },
                { "{" SPEC("{'tag':'2'}") "}", .is_expected = true, .is_late = true },
                { "{" SPEC("{'tag':'2'}") STATUS("{'tag':'2','phase':'Pulling'}") "}", .is_expected = true },
                { "{}", .is_expected = false },
        };
        /* clang-format on */
        cleanup(preload_reasons_done) PreloadReasons reasons = PRELOAD_REASONS_INIT;
        cleanup(preload_result_done) PreloadResult result = { .nodes = json_object_new_array() };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                cleanup(json_object_put_p) json_object *object = parse("%s", rows[i].node_image);
                cleanup(preload_node_done) PreloadNode node;

                read_node(&node, &one, "{}");
                if (rows[i].is_expected)
                        assert_ok(preload_node_expect(&node));
                assert_ok(preload_node_read(&node, object));
                node.is_late = rows[i].is_late;
                assert_ok(preload_result_add(&result, &reasons, &node));
        }
        assert_int_equal(result.n_nodes, 5);
        assert_int_equal(result.n_done, 1);
        assert_int_equal(result.n_failed, 2);
        assert_int_equal(result.n_silent, 1);
        assert_int_equal(reasons.n_items, 2);
}

static const struct LostRow {
        const char *name;
        PreloadMode mode;
        const char *node_image;
        bool has_begun;
        PreloadNodeState state;
} lost_rows[] = {
        { "has the image", PRELOAD_PULL, ENDED("Succeeded"), true, PRELOAD_NODE_DONE },
        { "pulls", PRELOAD_PULL, "{" SPEC("{'tag':'2'}") "}", true, PRELOAD_NODE_FAILED },
        { "its turn has not come", PRELOAD_PULL, "{}", false, PRELOAD_NODE_FAILED },
        { "is followed", PRELOAD_WATCH, "{" SPEC("{'tag':'2'}") "}", false, PRELOAD_NODE_FAILED },
        { "is followed, and has no request", PRELOAD_WATCH, "{}", false, PRELOAD_NODE_UNCONCERNED },
        { "had the request that is withdrawn", PRELOAD_WITHDRAW, "{" SPEC("{'tag':'2'}") "}", true,
          PRELOAD_NODE_DONE },
        { "has it still", PRELOAD_WITHDRAW, "{" SPEC("{'tag':'2'}") "}", false,
          PRELOAD_NODE_UNCONCERNED },
        { "has none to withdraw", PRELOAD_WITHDRAW, "{}", false, PRELOAD_NODE_UNCONCERNED },
};

/* Nodes come and go: a node that goes has failed only if something was still to be done there. */
TEST_ROWS(test_lost_node, lost_rows, name, const struct LostRow *row) {
        cleanup(json_object_put_p) json_object *object = parse("%s", row->node_image);
        PreloadTask task = one;
        cleanup(preload_node_done) PreloadNode node;

        task.mode = row->mode;
        read_node(&node, &task, "{}");
        node.has_begun = row->has_begun;
        if (row->mode == PRELOAD_PULL && row->has_begun)
                assert_ok(preload_node_expect(&node));
        assert_ok(preload_node_read(&node, object));
        assert_ok(preload_node_lose(&node));
        assert_int_equal(preload_node_state(&node), row->state);
        if (row->state == PRELOAD_NODE_FAILED)
                assert_string_equal(preload_node_message(&node),
                                    "NodeGone: its NodeImage was deleted");
}

TEST(test_names) {
        cleanup(preload_image_done) PreloadImage hub = { .name = NULL }, digest = { .name = NULL };
        cleanup(error_done) Error error = ERROR_INIT;
        PreloadImage bad;

        assert_ok(preload_image_parse("docker.io/library/nginx", &hub, NULL));
        assert_string_equal(hub.name, "nginx");
        assert_string_equal(hub.tag, "latest");
        assert_ok(preload_image_parse(
                "r.io/app:1@sha256:"
                "0123456789012345678901234567890123456789012345678901234567890123",
                &digest, NULL));
        assert_string_equal(digest.name, "r.io/app");
        assert_int_equal(strncmp(digest.tag, "sha256:", 7), 0);
        assert_true(preload_image_parse("No Image", &bad, &error) < 0);
        assert_int_equal(error.kind, ERROR_INVALID);
}

int main(void) {
        int status;

        no_secrets = json_object_new_object();
        secrets = parse("{'one':null,'two':null}");
        one.secrets = all.secrets = no_secrets;
        with_secrets.secrets = secrets;
        status = unit_run();
        json_object_put(no_secrets);
        json_object_put(secrets);
        return status;
}
