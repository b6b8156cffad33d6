/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How the image of a container is spelled for a restart, and which changes of metadata are taken
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/base/cleanup.h"
#include "agent/document/json-cleanup.h"
#include "agent/kubectl/restart-image-plan.h"
#include "agent/kubectl/workload.h"
#include "tests/unit/quoted-json.h"

#define NOW_SEC 10000
#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER_HEX "1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define DIGEST "@sha256:" HEX

static json_object *make_pod(const char *image, const char *named, const char *id,
                             const char *policy, const char *annotation) {
        json_object *pod =
                parse("{'metadata': {'name': 'web-0', 'uid': 'u', 'resourceVersion': '7', "
                      "'labels': {'app': 'web'}, 'annotations': {}}, 'spec': {'containers': "
                      "[{'name': 'a', 'image': '%s', 'imagePullPolicy': '%s'}]}, 'status': "
                      "{'containerStatuses': [{'name': 'a', 'image': '%s', 'imageID': '%s'}]}}",
                      image, policy, named, id);

        if (annotation) {
                cleanup(json_object_put_p) json_object *known = parse("%s", annotation);

                json_object_object_add(object_at(pod, "metadata.annotations"), RESTART_ANNOTATION,
                                       json_object_new_string(json_object_to_json_string(known)));
        }
        return pod;
}

#define WAS(image, as) "{'a': {'image': '" image "', 'as': '" as "'}}"
/* 9700 s is five minutes before, 9000 s is forgotten. */
#define STARTS(image, as, starts) \
        "{'a': {'image': '" image "', 'as': '" as "', 'starts': {" starts "}}}"
#define START(spelling, n, time) "'" spelling "': {'n': " n ", 'at': '1970-01-01T" time "Z'}"
#define RECENTLY "02:41:40"
#define LONG_AGO "02:30:00"

typedef struct SpellingCase {
        const char *name;
        const char *image;
        const char *spelled; /* NULL: refused */
        const char *named;   /* by the runtime; NULL: "r/app:1" */
        const char *id;      /* NULL: "r/app" DIGEST */
        const char *policy;  /* NULL: IfNotPresent */
        const char *annotation;
        int64_t delay_sec;
} SpellingCase;

/* clang-format off */
static const SpellingCase rows[] = {
        { "a tag gets the digest", "r/app:1", .spelled = "r/app:1" DIGEST },
        { "and goes back", "r/app:1" DIGEST, .spelled = "r/app:1", .annotation = WAS("r/app:1", "r/app:1" DIGEST) },
        { "but not to a tag that is another image by now", "r/app:1" DIGEST, .spelled = "r/app" DIGEST, .named = "r/app:2",
          .annotation = WAS("r/app:1", "r/app:1" DIGEST) },
        { "or is asked for in the registry", "r/app:1" DIGEST, .spelled = "r/app" DIGEST, .policy = "Always",
          .annotation = WAS("r/app:1", "r/app:1" DIGEST) },
        { "a digest stays", "r/app:1" DIGEST, .spelled = "r/app" DIGEST },
        { "and gets back its tag", "r/app" DIGEST, .spelled = "r/app:1" DIGEST, .annotation = WAS("r/app:1" DIGEST, "r/app" DIGEST) },
        { "a digest alone gets some tag", "r/app" DIGEST, .spelled = "r/app:restarted" DIGEST },
        { "and loses it again", "r/app:restarted" DIGEST, .spelled = "r/app" DIGEST,
          .annotation = WAS("r/app" DIGEST, "r/app:restarted" DIGEST) },
        { "the digest that was written counts", "r/app@sha256:" OTHER_HEX, .spelled = "r/app:restarted@sha256:" OTHER_HEX },
        { "neither tag nor digest", "r/app", .spelled = "r/app:latest" DIGEST },
        { "a port is no tag", "localhost:5000/app", .spelled = "localhost:5000/app:latest" DIGEST, .id = "localhost:5000/app" DIGEST },
        { "a short name of Docker Hub", "nginx:1", .spelled = "nginx:1" DIGEST, .id = "docker.io/library/nginx" DIGEST },
        { "cri-dockerd", "nginx:1", .spelled = "nginx:1" DIGEST, .id = "docker-pullable://nginx" DIGEST },
        { "an annotation of another image", "r/app:2", .spelled = "r/app:2" DIGEST, .annotation = WAS("r/app:1", "r/app:1" DIGEST) },
        { "an annotation that is none", "r/app:1", .spelled = "r/app:1" DIGEST, .annotation = "[]" },
        { "an image that was loaded", "r/app:1", .spelled = NULL, .id = "sha256:" HEX },
        { "that has another name", "r/app:1", .spelled = NULL, .id = "q/app" DIGEST },
        { "that was not started", "r/app:1", .spelled = NULL, .id = "" },
        { "the spelling that was used least", "r/app:1", .spelled = "r/app" DIGEST,
          .annotation = STARTS("r/app:1", "r/app:1", START("r/app:1" DIGEST, "1", RECENTLY)) },
        { "all were used", "r/app:1", .spelled = "r/app:1" DIGEST, .delay_sec = 20,
          .annotation = STARTS("r/app:1", "r/app:1",
                               START("r/app:1" DIGEST, "2", RECENTLY) "," START("r/app" DIGEST, "2", RECENTLY)) },
        { "all were used very often", "r/app:1", .spelled = "r/app:1" DIGEST, .delay_sec = 300,
          .annotation = STARTS("r/app:1", "r/app:1",
                               START("r/app:1" DIGEST, "99", RECENTLY) "," START("r/app" DIGEST, "99", RECENTLY)) },
        { "long ago", "r/app:1", .spelled = "r/app:1" DIGEST,
          .annotation = STARTS("r/app:1", "r/app:1",
                               START("r/app:1" DIGEST, "2", LONG_AGO) "," START("r/app" DIGEST, "2", LONG_AGO)) },
};
/* clang-format on */

static void test_spelling(void **state) {
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                const SpellingCase *row = &rows[i];
                cleanup(json_object_put_p) json_object *pod =
                        make_pod(row->image, row->named ?: "r/app:1", row->id ?: "r/app" DIGEST,
                                 row->policy ?: "IfNotPresent", row->annotation);
                cleanup(json_object_put_p) json_object *containers = parse("['a']");
                cleanup(json_object_put_p) json_object *changes = parse("{'labels': {'x': null}}");
                cleanup(json_object_put_p) json_object *patch = NULL;
                cleanup(error_done) Error error = ERROR_INIT;
                int64_t delay_sec = -1;
                int r = restart_image_patch(pod, containers, changes, NOW_SEC, &patch, &delay_sec,
                                            &error);
                const char *spelled = patch ? template_image(patch, "a") : NULL;
                cleanup(json_object_put_p) json_object *back = NULL;

                if ((r < 0) != !row->spelled || (spelled && strcmp(spelled, row->spelled) != 0) ||
                    (patch && delay_sec != row->delay_sec))
                        fail_msg("%s: %s, %s", row->name, spelled ?: "refused",
                                 error_message(&error));
                if (!patch)
                        continue;
                assert_string_equal(object_text(patch, "metadata.resourceVersion"), "7");
                assert_true(
                        json_object_object_get_ex(object_at(patch, "metadata.labels"), "x", NULL));
                back = restart_image_unpatch(pod, containers);
                assert_string_equal(template_image(back, "a"), row->image);
        }
}

static void test_changes(void **state) {
        static const struct {
                const char *text;
                const char *labels; /* NULL: refused */
        } cases[] = {
                { "a=b", "{\"a\":\"b\"}" },
                { "a=", "{\"a\":\"\"}" },
                { "a-", "{\"a\":null}" },
                { "a=b-", "{\"a\":\"b-\"}" },
                { "a", NULL },
                { "=b", NULL },
                { "-", NULL },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                const char *const texts[] = { cases[i].text, NULL }, *const none[] = { NULL };
                cleanup(json_object_put_p) json_object *changes = NULL;
                int r = restart_changes_parse(texts, none, &changes, NULL);

                assert_int_equal(r < 0, !cases[i].labels);
                if (r >= 0)
                        assert_string_equal(
                                json_object_to_json_string_ext(object_at(changes, "labels"), 0),
                                cases[i].labels);
        }
}

static void test_selector(void **state) {
        static const struct {
                const char *labels;
                bool is_taken;
        } cases[] = { { "{'x': 'y'}", true },
                      { "{'app': 'web'}", true },
                      { "{'app': 'db'}", false },
                      { "{'app': null}", false } };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                cleanup(json_object_put_p) json_object *pod =
                        make_pod("r/app:1", "", "", "Always", NULL);
                cleanup(json_object_put_p) json_object *changes =
                        parse("{'labels': %s}", cases[i].labels);
                cleanup(json_object_put_p) json_object *selector =
                        parse("{'matchLabels': {'app': 'web'}}");

                assert_int_equal(restart_changes_check(changes, pod, selector, NULL) >= 0,
                                 cases[i].is_taken);
                assert_string_equal(object_text(pod, "metadata.labels.app"), "web");
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_spelling),
                cmocka_unit_test(test_changes),
                cmocka_unit_test(test_selector),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
