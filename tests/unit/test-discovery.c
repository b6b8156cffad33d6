/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Which version of a kind is served
 */

#include <json-c/json.h>

#include "agent/document/json-cleanup.h"
#include "agent/kube/discovery.h"
#include "tests/unit/fake-kube.h"
#include "tests/unit/unit.h"

#define GROUP "{\"kind\":\"APIGroup\"}"
#define RESOURCES(...) "{\"kind\":\"APIResourceList\",\"resources\":[" __VA_ARGS__ "]}"
#define IMAGES "{\"name\":\"nodeimages\",\"namespaced\":false}"
#define IMAGES_STATUS "{\"name\":\"nodeimages/status\"}"
#define OTHER "{\"name\":\"nodeimagesets\"},{\"name\":\"nodeimagesets/status\"}"

/* clang-format off */
/* Each line is a conversation. */
static const struct Story {
        const char *name;
        struct {
                const char *path;
                int code;
                const char *body;
        } calls[4];
        const char *version;
        ErrorKind error;
        const char *message; /* a part of it */
} stories[] = {
        { "the first one is served",
          { { "/apis/apps.kruise.io", 200, GROUP },
            { "/apis/apps.kruise.io/v1beta1", 200, RESOURCES(OTHER "," IMAGES "," IMAGES_STATUS) } },
          "v1beta1", ERROR_NONE, NULL },
        { "others come first",
          { { "/apis/apps.kruise.io", 200, GROUP },
            { "/apis/apps.kruise.io/v1beta1", 200, RESOURCES("{\"name\":\"pods\"},{}," IMAGES "," IMAGES_STATUS) } },
          "v1beta1", ERROR_NONE, NULL },
        { "the status comes first",
          { { "/apis/apps.kruise.io", 200, GROUP },
            { "/apis/apps.kruise.io/v1beta1", 200, RESOURCES(IMAGES_STATUS "," IMAGES) } },
          "v1beta1", ERROR_NONE, NULL },
        { "the group has only the second",
          { { "/apis/apps.kruise.io", 200, GROUP },
            { "/apis/apps.kruise.io/v1beta1", 404, "" },
            { "/apis/apps.kruise.io/v1alpha1", 200, RESOURCES(IMAGES "," IMAGES_STATUS) } },
          "v1alpha1", ERROR_NONE, NULL },
        { "only the second has the resource",
          { { "/apis/apps.kruise.io", 200, GROUP },
            { "/apis/apps.kruise.io/v1beta1", 200, RESOURCES(OTHER) },
            { "/apis/apps.kruise.io/v1alpha1", 200, RESOURCES(IMAGES "," IMAGES_STATUS) } },
          "v1alpha1", ERROR_NONE, NULL },
        { "only the second has a status",
          { { "/apis/apps.kruise.io", 200, GROUP },
            { "/apis/apps.kruise.io/v1beta1", 200, RESOURCES(IMAGES) },
            { "/apis/apps.kruise.io/v1alpha1", 200, RESOURCES(IMAGES "," IMAGES_STATUS) } },
          "v1alpha1", ERROR_NONE, NULL },
        { "no version has it",
          { { "/apis/apps.kruise.io", 200, GROUP },
            { "/apis/apps.kruise.io/v1beta1", 200, "{}" },
            { "/apis/apps.kruise.io/v1alpha1", 200, RESOURCES(OTHER) } },
          NULL, ERROR_NONE, NULL },
        { "the group is not installed",
          { { "/apis/apps.kruise.io", 404, "{}" } }, NULL, ERROR_NONE, NULL },
        { "the server does not answer",
          { { "/apis/apps.kruise.io", 0, "" } }, NULL, ERROR_UNAVAILABLE, "code 0" },
        { "it is forbidden",
          { { "/apis/apps.kruise.io", 403, "" } }, NULL, ERROR_DENIED, "code 403" },
        { "the server does not answer the second time",
          { { "/apis/apps.kruise.io", 200, GROUP },
            { "/apis/apps.kruise.io/v1beta1", 503, "" } }, NULL, ERROR_UNAVAILABLE, "code 503" },
        { "a page instead of resources",
          { { "/apis/apps.kruise.io", 200, GROUP },
            { "/apis/apps.kruise.io/v1beta1", 200, "<html>" } },
          NULL, ERROR_INVALID, "GET /apis/apps.kruise.io/v1beta1: not valid JSON at byte 0" },
        { "a list instead of resources",
          { { "/apis/apps.kruise.io", 200, GROUP },
            { "/apis/apps.kruise.io/v1beta1", 200, "[]" } },
          NULL, ERROR_INVALID, "expected an object, got a list" },
        { "nothing instead of resources",
          { { "/apis/apps.kruise.io", 200, GROUP },
            { "/apis/apps.kruise.io/v1beta1", 200, "" } },
          NULL, ERROR_INVALID, "ends too early" },
        { "a resource that is no object",
          { { "/apis/apps.kruise.io", 200, GROUP },
            { "/apis/apps.kruise.io/v1beta1", 200, RESOURCES("1") } },
          NULL, ERROR_INVALID, "resources[0]: expected an object, got 1" },
        { "resources that are no list",
          { { "/apis/apps.kruise.io", 200, GROUP },
            { "/apis/apps.kruise.io/v1beta1", 200, "{\"resources\":{}}" } },
          NULL, ERROR_INVALID,
          "GET /apis/apps.kruise.io/v1beta1: resources: expected a list, got an object" },
        { "a name that is no text",
          { { "/apis/apps.kruise.io", 200, GROUP },
            { "/apis/apps.kruise.io/v1beta1", 200, RESOURCES("{\"name\":7}") } },
          NULL, ERROR_INVALID, "resources[0].name: expected a string" },
};
/* clang-format on */

#define N_STORIES N_ELEMENTS(stories)

static const char *const versions[] = { "v1beta1", "v1alpha1", NULL };
static const KubeKind kind = { "apps.kruise.io", versions, "nodeimages", .needs_status = true };

typedef struct Result {
        KubeDiscovery *discovery;
        unsigned n_calls;
        const char *version;
        ErrorKind kind;
        char message[256];
} Result;

static int on_discovered(const char *version, const Error *error, void *userdata) {
        Result *result = userdata;

        result->n_calls++;
        result->version = version;
        result->kind = error ? error->kind : ERROR_NONE;
        strncpy(result->message, error ? error_message(error) : "", sizeof(result->message) - 1);
        result->discovery = kube_discovery_free(result->discovery);
        return 0;
}

static void discover(Result *result) {
        assert_ok(kube_discover(&fake_kube, &kind, on_discovered, result, &result->discovery));
        assert_int_equal(result->n_calls, 0);
}

static void test_story(const struct Story *story) {
        Result result = { .n_calls = 0 };

        fake_kube_open();
        discover(&result);
        for (size_t i = 0; story->calls[i].path; i++) {
                if (fake_kube.n_calls != 1)
                        fail_msg("%s: call %zu is missing", story->name, i);
                assert_string_equal(fake_kube.calls[0]->request.path, story->calls[i].path);
                assert_string_equal(fake_kube.calls[0]->request.method, "GET");
                assert_ok(fake_kube_answer(story->calls[i].code, story->calls[i].body));
        }

        if (result.n_calls != 1 || result.kind != story->error)
                fail_msg("%s: reported %u times, %s", story->name, result.n_calls,
                         error_kind_to_string(result.kind));
        assert_string_equal(result.version ?: "-", story->version ?: "-");
        if (story->message && !strstr(result.message, story->message))
                fail_msg("%s: \"%s\"", story->name, result.message);
        fake_kube_close();
}

TEST(test_stories) {
        for (size_t i = 0; i < N_STORIES; i++)
                test_story(&stories[i]);
}

TEST(test_dropping_ends_it) {
        Result result = { .n_calls = 0 };

        fake_kube_open();
        discover(&result);
        result.discovery = kube_discovery_free(result.discovery);
        fake_kube_close();
        assert_int_equal(result.n_calls, 0);
        assert_null(kube_discovery_free(NULL));
}

/* Not all kinds have a status. */
TEST(test_status_is_not_always_needed) {
        cleanup(json_object_put_p) json_object *answer = json_tokener_parse(RESOURCES(IMAGES));
        KubeQuestions questions = { .kind = kind };

        for (int needs_status = 1; needs_status >= 0; needs_status--) {
                questions = (KubeQuestions){ .kind = kind };
                questions.kind.needs_status = needs_status;
                assert_string_equal(kube_questions_next(&questions), "/apis/apps.kruise.io");
                assert_ok(kube_questions_take(&questions, answer, NULL));
                assert_string_equal(kube_questions_next(&questions),
                                    "/apis/apps.kruise.io/v1beta1");
                assert_ok(kube_questions_take(&questions, answer, NULL));
                assert_string_equal(questions.version ?: "-", needs_status ? "-" : "v1beta1");
        }

        assert_null(kube_questions_next(&questions));
}
