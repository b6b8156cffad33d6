/* SPDX-License-Identifier: Apache-2.0 */

/* What is read from NodeImages and written into them to have an image preloaded, and on which nodes. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/document/json-cleanup.h"
#include "agent/kubectl/preload-plan.h"

static PreloadImage images[] = { { (char *) "r.io/app", (char *) "2" },
                                 { (char *) "r.io/app", (char *) "3" },
                                 { (char *) "nginx", (char *) "1" } };
static const char *const secrets[] = { "one", "two" };
static const PreloadTerms terms = { .namespace = "ns", .ttl_sec = 60, .now_sec = 0 };
static const PreloadTerms with_secrets = {
        .namespace = "ns", .secrets = secrets, .n_secrets = 2, .ttl_sec = 60
};

/* With ' for ". */
static json_object *parse(const char *text) {
        cleanup(free_p) char *copy = strdup(text);
        json_object *json;

        for (char *at = copy; *at; at++)
                if (*at == '\'')
                        *at = '"';
        json = json_tokener_parse(copy);
        if (!json)
                fail_msg("not JSON: %s", copy);
        return json;
}

static void assert_json(const char *name, json_object *json, const char *expected) {
        cleanup(json_object_put_p) json_object *other = expected ? parse(expected) : NULL;

        if (!json_object_equal(json, other))
                fail_msg("%s: %s", name,
                         json_object_to_json_string_ext(json,
                                                        JSON_C_TO_STRING_PLAIN |
                                                                JSON_C_TO_STRING_NOSLASHESCAPE));
}

#define SPEC(tags) "'spec':{'images':{'r.io/app':{'tags':[" tags "]}}}"
#define STATUS(tags) ",'status':{'imageStatuses':{'r.io/app':{'tags':[" tags "]}}}"
#define GUARD "{'op':'replace','path':'/metadata/resourceVersion','value':'7'}"
#define PATH "/spec/images/r.io~1app"
#define NEW(version)                                                       \
        "{'tag':'2','createdAt':'1970-01-01T00:00:00Z','version':" version \
        ",'imagePullPolicy':'IfNotPresent','pullPolicy':{'ttlSecondsAfterFinished':60}}"
#define RAISE(index, version) \
        "[" GUARD ",{'op':'add','path':'" PATH "/tags/" index "/version','value':" version "}]"

/* clang-format off */
static const struct {
        const char *name, *node_image;
        PreloadPhase phase;
        int64_t version, next_version;
        const char *request, *withdrawal; /* NULL: nothing is to be written */
} entries[] = {
        { "no spec", "{}", PRELOAD_ABSENT, 0, 0,
          "[" GUARD ",{'op':'add','path':'/spec/images','value':{}},{'op':'add','path':'" PATH "','value':{}},"
          "{'op':'add','path':'" PATH "/tags','value':[]},{'op':'add','path':'" PATH "/tags/-','value':" NEW("0") "}]", NULL },
        { "other images", "{'spec':{'images':{'r.io/apps':{'tags':[{'tag':'2'}]}}}}", PRELOAD_ABSENT, 0, 0,
          "[" GUARD ",{'op':'add','path':'" PATH "','value':{}},"
          "{'op':'add','path':'" PATH "/tags','value':[]},{'op':'add','path':'" PATH "/tags/-','value':" NEW("0") "}]", NULL },
        { "other tags", "{" SPEC("{'tag':'1'}") "}", PRELOAD_ABSENT, 0, 0,
          "[" GUARD ",{'op':'add','path':'" PATH "/tags/-','value':" NEW("0") "}]", NULL },
        { "withdrawn before", "{" SPEC("{'tag':'1'}") STATUS("{'tag':'2','version':4,'completionTime':'x','phase':'Succeeded'}") "}",
          PRELOAD_ABSENT, 0, 5, "[" GUARD ",{'op':'add','path':'" PATH "/tags/-','value':" NEW("5") "}]", NULL },
        { "requested", "{" SPEC("{'tag':'2'}") "}", PRELOAD_WAITING, 0, 1, NULL,
          "[" GUARD ",{'op':'remove','path':'" PATH "'}]" },
        { "of another version", "{" SPEC("{'tag':'1'},{'tag':'2','version':3}")
          STATUS("{'tag':'2','version':2,'completionTime':'x','phase':'Failed'}") "}", PRELOAD_WAITING, 3, 4, NULL,
          "[" GUARD ",{'op':'remove','path':'" PATH "/tags/1'}]" },
        { "pulled", "{" SPEC("{'tag':'2'}") STATUS("{'tag':'2','phase':'Pulling','progress':7}") "}",
          PRELOAD_PULLING, 0, 1, NULL, "[" GUARD ",{'op':'remove','path':'" PATH "'}]" },
        { "waits", "{" SPEC("{'tag':'2'}") STATUS("{'tag':'2','phase':'Waiting'}") "}",
          PRELOAD_WAITING, 0, 1, NULL, "[" GUARD ",{'op':'remove','path':'" PATH "'}]" },
        { "there", "{" SPEC("{'tag':'2','version':1}") STATUS("{'tag':'2','phase':'Succeeded','version':1,'completionTime':'x'}") "}",
          PRELOAD_SUCCEEDED, 1, 2, RAISE("0", "2"), "[" GUARD ",{'op':'remove','path':'" PATH "'}]" },
        { "failed", "{" SPEC("{'tag':'1'},{'tag':'2'}") STATUS("{'tag':'2','phase':'Failed','completionTime':'x'}") "}",
          PRELOAD_FAILED, 0, 1, RAISE("1", "1"), "[" GUARD ",{'op':'remove','path':'" PATH "/tags/1'}]" },
        { "the last version", "{" SPEC("{'tag':'2','version':9223372036854775807}")
          STATUS("{'tag':'2','version':9223372036854775807,'phase':'Failed','completionTime':'x'}") "}", PRELOAD_FAILED, INT64_MAX, 1, RAISE("0", "1"),
          "[" GUARD ",{'op':'remove','path':'" PATH "'}]" },
        { "the last version, after the one before", "{" SPEC("{'tag':'2','version':9223372036854775807}")
          STATUS("{'tag':'2','version':9223372036854775806,'phase':'Failed','completionTime':'x'}") "}", PRELOAD_WAITING, INT64_MAX, 1, NULL,
          "[" GUARD ",{'op':'remove','path':'" PATH "'}]" },
        { "the status of the last version", "{" SPEC("{'tag':'2','version':1}")
          STATUS("{'tag':'2','version':9223372036854775807,'phase':'Failed','completionTime':'x'}") "}", PRELOAD_WAITING, 1, 2, NULL,
          "[" GUARD ",{'op':'remove','path':'" PATH "'}]" },
        { "versions below zero", "{" SPEC("{'tag':'2','version':-5}")
          STATUS("{'tag':'2','version':-5,'phase':'Failed','completionTime':'x'}") "}", PRELOAD_FAILED, -5, 0, RAISE("0", "0"),
          "[" GUARD ",{'op':'remove','path':'" PATH "'}]" },
        { "other types", "{'spec':{'images':{'r.io/app':[]}},'status':7}", PRELOAD_ABSENT, 0, 0,
          "[" GUARD ",{'op':'add','path':'" PATH "','value':{}},"
          "{'op':'add','path':'" PATH "/tags','value':[]},{'op':'add','path':'" PATH "/tags/-','value':" NEW("0") "}]", NULL },
};
/* clang-format on */

static void test_entries(void **state) {
        for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
                cleanup(json_object_put_p) json_object *object = parse(entries[i].node_image);
                cleanup(json_object_put_p) json_object *request = NULL, *withdrawal = NULL;
                cleanup(preload_entry_done) PreloadEntry entry = { .owners = NULL };

                assert_int_equal(preload_entry_read(object, &images[0], &terms, &entry), 0);
                if (entry.phase != entries[i].phase || entry.version != entries[i].version ||
                    entry.next_version != entries[i].next_version)
                        fail_msg("%s: %d %lld %lld", entries[i].name, entry.phase,
                                 (long long) entry.version, (long long) entry.next_version);
                assert_int_equal(preload_patch_request(&images[0], &entry, 1, &terms, "7",
                                                       &request),
                                 0);
                assert_json(entries[i].name, request, entries[i].request);
                assert_int_equal(preload_patch_withdraw(&images[0], &entry, 1, "7", &withdrawal),
                                 0);
                assert_json(entries[i].name, withdrawal, entries[i].withdrawal);
        }
}

#define OWNED(owners) "{" SPEC("{'tag':'2','ownerReferences':" owners "}") "}"

static void test_owners(void **state) {
        static const struct {
                const char *node_image;
                bool is_of;
        } rows[] = {
                { "{" SPEC("{'tag':'2'}") "}", false },
                { OWNED("[]"), false },
                { OWNED("{'uid':'j'}"), false },
                { OWNED("[{'uid':'k'},{}]"), false },
                { OWNED("[{'uid':'j'}]"), true },
                { OWNED("[{'uid':'j'},{'uid':'k'}]"), true },
                { OWNED("[{'uid':'k'},{'uid':'j'}]"), true },
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                cleanup(json_object_put_p) json_object *object = parse(rows[i].node_image);
                cleanup(preload_entry_done) PreloadEntry entry = { .owners = NULL };

                assert_int_equal(preload_entry_read(object, &images[0], &terms, &entry), 0);
                if (preload_entry_is_of(&entry, "j") != rows[i].is_of)
                        fail_msg("%s", rows[i].node_image);
        }
}

static void read_all(const char *node_image, const PreloadTerms *of, PreloadEntry *ret) {
        cleanup(json_object_put_p) json_object *object = parse(node_image);

        for (size_t i = 0; i < 3; i++)
                assert_int_equal(preload_entry_read(object, &images[i], of, &ret[i]), 0);
}

/* Later steps find what earlier ones have made. */
static void test_several_images(void **state) {
        PreloadEntry several[3];
        cleanup(json_object_put_p) json_object *steps = NULL;
        static const char *const paths[] = { "/metadata/resourceVersion",
                                             "/spec/images",
                                             PATH,
                                             PATH "/tags",
                                             PATH "/tags/-",
                                             PATH "/tags/-",
                                             "/spec/images/nginx",
                                             "/spec/images/nginx/tags",
                                             "/spec/images/nginx/tags/-" };

        read_all("{}", &terms, several);
        assert_int_equal(preload_patch_request(images, several, 3, &terms, "7", &steps), 0);
        assert_int_equal(json_object_array_length(steps), 9);
        for (size_t i = 0; i < 9; i++)
                assert_string_equal(json_object_get_string(json_object_object_get(
                                            json_object_array_get_idx(steps, i), "path")),
                                    paths[i]);
        for (size_t i = 0; i < 3; i++)
                preload_entry_done(&several[i]);
}

/* Its index would be another one after the first step. */
static void test_one_of_a_name_is_withdrawn_at_a_time(void **state) {
        PreloadEntry several[3];
        cleanup(json_object_put_p) json_object *steps = NULL;

        read_all("{" SPEC("{'tag':'2'},{'tag':'3'}") "}", &terms, several);
        assert_int_equal(preload_patch_withdraw(images, several, 3, "7", &steps), 0);
        assert_json("two", steps, "[" GUARD ",{'op':'remove','path':'" PATH "/tags/0'}]");
        for (size_t i = 0; i < 3; i++)
                preload_entry_done(&several[i]);
}

/* clang-format off */
static const struct {
        const char *secrets; /* of the image */
        const char *steps; /* for them */
} kept[] = {
        { "", "{'op':'add','path':'" PATH "/pullSecrets','value':[{'namespace':'ns','name':'one'},{'namespace':'ns','name':'two'}]}," },
        { "{'namespace':'ns','name':'two'}", "{'op':'add','path':'" PATH "/pullSecrets/-','value':{'namespace':'ns','name':'one'}}," },
        { "{'namespace':'other','name':'one'},{'namespace':'ns','name':'two'}",
          "{'op':'add','path':'" PATH "/pullSecrets/-','value':{'namespace':'ns','name':'one'}}," },
        { "{'namespace':'ns','name':'two'},{'namespace':'ns','name':'one'}", NULL },
};
/* clang-format on */

/* One that goes on without a secret is requested anew. */
static void test_secrets(void **state) {
        for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
                cleanup(preload_entry_done) PreloadEntry entry = { .owners = NULL };
                cleanup(json_object_put_p) json_object *object = NULL, *steps = NULL;
                char text[1024];

                (void) snprintf(text, sizeof(text),
                                "{'spec':{'images':{'r.io/app':{'tags':[{'tag':'2'}]%s%s%s}}}}",
                                kept[i].secrets[0] ? ",'pullSecrets':[" : "", kept[i].secrets,
                                kept[i].secrets[0] ? "]" : "");
                object = parse(text);
                assert_int_equal(preload_entry_read(object, &images[0], &with_secrets, &entry), 0);
                assert_int_equal(preload_entry_is_under_way(&entry), !kept[i].steps);
                assert_int_equal(preload_patch_request(&images[0], &entry, 1, &with_secrets, "7",
                                                       &steps),
                                 0);
                (void) snprintf(text, sizeof(text),
                                "[" GUARD ",%s"
                                "{'op':'add','path':'" PATH "/tags/0/version','value':1}]",
                                kept[i].steps ?: "");
                assert_json(kept[i].secrets, steps, kept[i].steps ? text : NULL);
        }
}

static const struct {
        PreloadCounts counts;
        PreloadLimits limits;
        size_t room;
        bool is_over;
} shares[] = {
        /* idle, running, done, failed */
        { { 0, 0, 0, 0 }, { 10, SIZE_MAX }, 0, true },
        { { 5, 0, 0, 0 }, { 10, SIZE_MAX }, 5, false },
        { { 50, 0, 0, 0 }, { 10, SIZE_MAX }, 10, false },
        { { 50, 8, 0, 0 }, { 10, SIZE_MAX }, 2, false },
        { { 50, 10, 9, 9 }, { 10, SIZE_MAX }, 0, false },
        { { 50, 12, 0, 0 }, { 10, SIZE_MAX }, 0, false },
        { { 0, 3, 9, 0 }, { 10, SIZE_MAX }, 0, false },
        { { 0, 0, 9, 3 }, { 10, SIZE_MAX }, 0, true },
        { { 5, 1, 0, 2 }, { 10, 2 }, 5, false },
        { { 5, 1, 0, 3 }, { 10, 2 }, 0, false },
        { { 5, 0, 0, 3 }, { 10, 2 }, 0, true },
        { { 5, 0, 0, 1 }, { 10, 0 }, 0, true },
        { { 5, 0, 3, 0 }, { 1, 0 }, 1, false },
};

static void test_next_nodes(void **state) {
        for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++)
                if (preload_room(&shares[i].counts, &shares[i].limits) != shares[i].room ||
                    preload_is_over(&shares[i].counts, &shares[i].limits) != shares[i].is_over)
                        fail_msg("row %zu", i);
}

/* clang-format off */
#define GONE PRELOAD_ABSENT
#define DONE PRELOAD_SUCCEEDED
#define BAD PRELOAD_FAILED

/* Of two images. */
static const struct {
        PreloadMode mode;
        struct {
                PreloadPhase phase; /* in the NodeImage */
                int version;        /* of the request that is waited for; 0: none */
                PreloadPhase outcome;
        } of[2];
        bool is_taken_up; /* the first image */
        bool has_begun, is_unregistered, is_over, is_late, is_stalled;
        const char *refusal;
        bool has_job_ended; /* that of the second image; there are none otherwise */
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
        { PRELOAD_PULL, .is_over = true, .state = PRELOAD_NODE_DONE },
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
};
/* clang-format on */

static void test_nodes(void **state) {
        (void) state;
        for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
                PreloadEntry shown[2];
                PreloadPull pulls[2];
                const PreloadJob jobs[2] = { { .has_ended = false }, { .has_ended = true } };
                const PreloadNodeView view = {
                        .mode = nodes[i].mode,
                        .n_images = 2,
                        .entries = shown,
                        .pulls = pulls,
                        .jobs = nodes[i].has_job_ended ? jobs : NULL,
                        .refusal = nodes[i].refusal,
                        .is_registered = !nodes[i].is_unregistered,
                        .has_begun = nodes[i].has_begun,
                        .is_over = nodes[i].is_over,
                        .is_late = nodes[i].is_late,
                        .is_stalled = nodes[i].is_stalled,
                };
                const char *message;

                for (size_t k = 0; k < 2; k++) {
                        shown[k] = (PreloadEntry){ .phase = nodes[i].of[k].phase,
                                                   .is_taken_up = k == 0 && nodes[i].is_taken_up };
                        pulls[k] = (PreloadPull){ .version = nodes[i].of[k].version ?: -1,
                                                  .was_seen = true,
                                                  .outcome = nodes[i].of[k].outcome };
                }
                message = preload_node_message(&view);
                if (preload_node_state(&view) != nodes[i].state ||
                    (message ? !nodes[i].message || strcmp(message, nodes[i].message) != 0
                             : nodes[i].message != NULL))
                        fail_msg("row %zu: state %d, %s", i, preload_node_state(&view),
                                 message ?: "no message");
                if (nodes[i].awaited)
                        assert_string_equal(preload_node_awaited(&view), nodes[i].awaited);
                if (nodes[i].progress > 0)
                        assert_int_equal(preload_node_progress(&view), nodes[i].progress);
        }
}

/* clang-format off */
/* What the NodeImage shows after a request of version 3. */
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

static void test_pulls(void **state) {
        (void) state;
        for (size_t i = 0; i < sizeof(pulls_shown) / sizeof(pulls_shown[0]); i++) {
                PreloadPull pull = PRELOAD_PULL_INIT;

                assert_int_equal(preload_pull_begin(&pull, &(PreloadEntry){ .next_version = 3 },
                                                    true),
                                 0);
                for (size_t k = 0; k < 3 && (k < 2 || pulls_shown[i].shown[k].version > 0); k++)
                        assert_int_equal(preload_pull_take(
                                                 &pull,
                                                 &(PreloadEntry){
                                                         .phase = pulls_shown[i].shown[k].phase,
                                                         .version =
                                                                 pulls_shown[i].shown[k].version }),
                                         0);
                if (pull.outcome != pulls_shown[i].outcome)
                        fail_msg("row %zu: %d", i, pull.outcome);
                free(pull.message);
        }
}

static void test_job(void **state) {
        cleanup(json_object_put_p) json_object *names = json_object_new_array();
        cleanup(json_object_put_p) json_object *job = NULL;

        (void) state;
        json_object_array_add(names, json_object_new_string("node-1"));
        job = preload_job_make("v1beta1", "r.io/app:2", &with_secrets, 25, json_object_get(names));
        assert_json(
                "job", job,
                "{'spec': {'selector': {'names': ['node-1']}, 'completionPolicy': {'type': 'Always', "
                "'ttlSecondsAfterFinished': 60}, 'image': 'r.io/app:2', 'parallelism': 25, "
                "'pullSecrets': ['one', 'two']}, 'metadata': {'generateName': 'preload-', 'labels': "
                "{'app.kubernetes.io/managed-by': 'kubectl-inplace'}}, 'apiVersion': "
                "'apps.kruise.io/v1beta1', 'kind': 'ImagePullJob'}");
}

static void test_reasons(void **state) {
        cleanup(preload_reasons_done) PreloadReasons reasons = PRELOAD_REASONS_INIT;
        cleanup(free_p) char *text = NULL, *empty = NULL;

        assert_int_equal(preload_reasons_format(&reasons, &empty), 0);
        assert_string_equal(empty, "");
        for (int i = 1; i <= 7; i++) {
                char node[8];

                (void) snprintf(node, sizeof(node), "n%d", i);
                assert_int_equal(preload_reasons_add(&reasons, node,
                                                     i == 1 ? "NotFound: of n1"
                                                            : "NotFound: other"),
                                 0);
        }
        assert_int_equal(preload_reasons_add(&reasons, "m", "the disk: full"), 0);
        assert_int_equal(preload_reasons_format(&reasons, &text), 0);
        assert_string_equal(text, "NotFound on 7 nodes (n1, n2, n3, n4, n5, ...): of n1\n"
                                  "the disk: full on node m\n");
}

static void test_names(void **state) {
        cleanup(preload_image_done) PreloadImage hub = { .name = NULL }, digest = { .name = NULL };
        cleanup(error_done) Error error = ERROR_INIT;
        PreloadImage bad;

        assert_int_equal(preload_image_parse("docker.io/library/nginx", &hub, NULL), 0);
        assert_string_equal(hub.name, "nginx");
        assert_string_equal(hub.tag, "latest");
        assert_int_equal(preload_image_parse(
                                 "r.io/app:1@sha256:"
                                 "0123456789012345678901234567890123456789012345678901234567890123",
                                 &digest, NULL),
                         0);
        assert_string_equal(digest.name, "r.io/app");
        assert_int_equal(strncmp(digest.tag, "sha256:", 7), 0);
        assert_true(preload_image_parse("No Image", &bad, &error) < 0);
        assert_int_equal(error.kind, ERROR_INVALID);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_entries),
                cmocka_unit_test(test_owners),
                cmocka_unit_test(test_several_images),
                cmocka_unit_test(test_one_of_a_name_is_withdrawn_at_a_time),
                cmocka_unit_test(test_secrets),
                cmocka_unit_test(test_next_nodes),
                cmocka_unit_test(test_nodes),
                cmocka_unit_test(test_pulls),
                cmocka_unit_test(test_job),
                cmocka_unit_test(test_reasons),
                cmocka_unit_test(test_names),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
