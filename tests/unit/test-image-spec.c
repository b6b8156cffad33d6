/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Image spec: which desired images are in a NodeImage
 */

#include "tests/unit/unit.h"
#include <json-c/json.h>

#include "agent/image/image-spec.h"

#define NODE_IMAGE(version, spec) \
        "{\"apiVersion\":\"apps.kruise.io/" version "\",\"kind\":\"NodeImage\",\"spec\":" spec "}"
#define IMAGES(images) NODE_IMAGE("v1alpha1", "{\"images\":{" images "}}")
#define TAG(members) IMAGES("\"nginx\":{\"tags\":[{\"tag\":\"1.25\"," members "}]}")
#define POLICY(members) TAG("\"pullPolicy\":{" members "}")

DEFINE_CLEANUP(struct json_object *, json_object_put)

static int parse(const char *json, DesiredImages *ret, Error *reterr) {
        cleanup(json_object_put_p) struct json_object *object = json_tokener_parse(json);

        assert_non_null(object);
        return image_spec_parse(object, ret, reterr);
}

static const struct Refusal {
        const char *json;
        const char *message;
} refusals[] = {
        { "{\"apiVersion\":\"v1\",\"kind\":\"Pod\"}",
          "is a Pod, not a NodeImage (apps.kruise.io)" },
        { "{\"apiVersion\":\"v1\",\"kind\":\"P\\nod\"}",
          "is a \"P?od\", not a NodeImage (apps.kruise.io)" },
        { "{\"kind\":\"NodeImage\"}",
          "has no apiVersion, but should be a NodeImage (apps.kruise.io)" },
        { "{\"apiVersion\":\"apps.kruise.io/v1alpha1\"}",
          "has no kind, but should be a NodeImage (apps.kruise.io)" },
        { "[]", "is not an object, but should be a NodeImage (apps.kruise.io)" },
        { "{\"apiVersion\":\"apps/v1\",\"kind\":\"NodeImage\"}",
          "is a NodeImage of \"apps/v1\", not of apps.kruise.io" },
        { "{\"apiVersion\":\"apps.kruise.io\",\"kind\":\"NodeImage\"}",
          "is a NodeImage of \"apps.kruise.io\", not of apps.kruise.io" },
        { NODE_IMAGE("v2", "{}"), "has the apiVersion \"apps.kruise.io/v2\", not "
                                  "apps.kruise.io/v1alpha1 or v1beta1" },
        { "{\"apiVersion\":1,\"kind\":\"NodeImage\"}",
          "apiVersion: expected a string (in quotes), got 1" },
        { NODE_IMAGE("v1alpha1", "[]"), "spec: expected an object, got a list" },
        { NODE_IMAGE("v1alpha1", "{\"images\":\"x\"}"),
          "spec.images: expected an object, got \"x\"" },
        { IMAGES("\"nginx\":3"), "spec.images.nginx: expected an object, got 3" },
        { IMAGES("\"nginx\":null"), "spec.images.nginx: expected an object, got nothing" },
        { IMAGES("\"\":{\"tags\":[]}"), "spec.images[\"\"]: an image needs a name" },
        { IMAGES("\"nginx\":{}"), "spec.images.nginx: has no tags" },
        { IMAGES("\"reg.io/a\":{\"tags\":{}}"),
          "spec.images[\"reg.io/a\"].tags: expected a list, got an object" },
        { IMAGES("\"nginx\":{\"tags\":[{\"tag\":\"1\"},\"2\"]}"),
          "spec.images.nginx.tags[1]: expected an object, got \"2\"" },
        { IMAGES("\"nginx\":{\"tags\":[{}]}"), "spec.images.nginx.tags[0]: has no tag" },
        { IMAGES("\"nginx\":{\"tags\":[{\"tag\":\"\"}]}"),
          "spec.images.nginx.tags[0]: has no tag" },
        { IMAGES("\"nginx\":{\"tags\":[{\"tag\":1.25}]}"),
          "spec.images.nginx.tags[0].tag: expected a string (in quotes), got 1.25" },
        { IMAGES("\"nginx\":{\"tags\":[{\"tag\":\"a\\u0000b\"}]}"),
          "spec.images.nginx.tags[0].tag: has a NUL in it" },
        { IMAGES("\"nginx\":{\"tags\":[{\"tag\":\"b\"},{\"tag\":\"a\"},{\"tag\":\"b\"}]}"),
          "spec.images.nginx.tags: the tag \"b\" is given twice" },
        { TAG("\"version\":\"x\""),
          "spec.images.nginx.tags[0].version: expected an integer, got \"x\"" },
        { TAG("\"version\":1.5"),
          "spec.images.nginx.tags[0].version: expected an integer, got 1.5" },
        { TAG("\"version\":true"),
          "spec.images.nginx.tags[0].version: expected an integer, got true" },
        { TAG("\"version\":-1"),
          "spec.images.nginx.tags[0].version: expected zero or more, got -1" },
        { TAG("\"createdAt\":\"yesterday\""),
          "spec.images.nginx.tags[0].createdAt: expected a time such as 2026-01-31T12:00:00Z, got "
          "\"yesterday\"" },
        { TAG("\"imagePullPolicy\":\"Never\""),
          "spec.images.nginx.tags[0].imagePullPolicy: expected Always or IfNotPresent, got "
          "\"Never\"" },
        { TAG("\"pullPolicy\":[]"),
          "spec.images.nginx.tags[0].pullPolicy: expected an object, got a list" },
        { POLICY("\"timeoutSeconds\":\"1m\""),
          "spec.images.nginx.tags[0].pullPolicy.timeoutSeconds: expected an integer, got \"1m\"" },
        { TAG("\"ownerReferences\":[7]"),
          "spec.images.nginx.tags[0].ownerReferences[0]: expected an object, got 7" },
        { TAG("\"ownerReferences\":[{\"uid\":7}]"),
          "spec.images.nginx.tags[0].ownerReferences[0].uid: "
          "expected a string (in quotes), got 7" },
        { IMAGES("\"nginx\":{\"tags\":[],\"pullSecrets\":[{\"namespace\":\"a\"}]}"),
          "spec.images.nginx.pullSecrets[0]: has no name" },
        { IMAGES("\"nginx\":{\"tags\":[],\"sandboxConfig\":{\"labels\":{\"a.b/c\":1}}}"),
          "spec.images.nginx.sandboxConfig.labels[\"a.b/c\"]: "
          "expected a string (in quotes), got 1" },
        { IMAGES("\"a\\n\\\"b\":1"), "spec.images[\"a?\\\"b\"]: expected an object, got 1" },
};

TEST_ROWS(test_refusal, refusals, message, const struct Refusal *refusal) {
        DesiredImages untouched = { .items = (DesiredImage *) 1, .n_items = 42 };
        cleanup(error_done) Error error = ERROR_INIT;

        assert_true(parse(refusal->json, &untouched, &error) < 0);
        assert_int_equal(error.kind, ERROR_INVALID);
        assert_string_equal(error_message(&error), refusal->message);
        assert_null(strchr(error_message(&error), '\n'));
        assert_int_equal(untouched.n_items, 42);
}

static void parse_or_fail(const char *json, DesiredImages *ret) {
        cleanup(error_done) Error error = ERROR_INIT;

        if (parse(json, ret, &error) != 0)
                fail_msg("%s", error_message(&error));
}

TEST(test_nothing) {
        static const char *const texts[] = {
                "{\"apiVersion\":\"apps.kruise.io/v1beta1\",\"kind\":\"NodeImage\"}",
                NODE_IMAGE("v1alpha1", "null"),
                NODE_IMAGE("v1alpha1", "{}"),
                NODE_IMAGE("v1beta1", "{\"images\":null}"),
                IMAGES(""),
                IMAGES("\"nginx\":{\"tags\":[]}"),
        };

        for (size_t i = 0; i < N_ELEMENTS(texts); i++) {
                cleanup(desired_images_done) DesiredImages desired_images = DESIRED_IMAGES_INIT;

                parse_or_fail(texts[i], &desired_images);
                assert_int_equal(desired_images.n_items, 0);
        }
}

TEST(test_defaults) {
        cleanup(desired_images_done) DesiredImages desired_images = DESIRED_IMAGES_INIT;

        parse_or_fail(TAG("\"version\":null,\"pullPolicy\":null,\"imagePullPolicy\":\"\""),
                      &desired_images);
        assert_int_equal(desired_images.n_items, 1);
        assert_string_equal(desired_images.items[0].name, "nginx");
        assert_string_equal(desired_images.items[0].tag, "1.25");
        assert_int_equal(desired_images.items[0].version, 0);
        assert_int_equal(desired_images.items[0].created_at, 0);
        assert_int_equal(desired_images.items[0].policy, PULL_POLICY_ALWAYS);
        assert_int_equal(desired_images.items[0].timeout_sec, 600);
        assert_int_equal(desired_images.items[0].backoff_limit, DESIRED_IMAGE_NO_LIMIT);
        assert_int_equal(desired_images.items[0].active_deadline_sec, DESIRED_IMAGE_NO_LIMIT);
        assert_int_equal(desired_images.items[0].ttl_sec, DESIRED_IMAGE_NO_LIMIT);
        assert_int_equal(desired_images.items[0].n_secrets, 0);
        assert_int_equal(desired_images.items[0].n_owners, 0);
}

static const char everything[] =
        NODE_IMAGE("v1beta1",
                   "{\"images\":{\"reg.example:5000/team/app\":{"
                   "\"pullSecrets\":["
                   "{\"namespace\":\"ns\",\"name\":\"s1\",\"mode\":\"batch\"},{\"name\":\"s2\"}],"
                   "\"sandboxConfig\":{"
                   "\"labels\":{\"l\":\"1\"},\"annotations\":{\"a\":\"2\",\"b\":null}},"
                   "\"tags\":["
                   "{\"tag\":\"v1\",\"version\":7,\"createdAt\":\"2026-01-31T13:00:00.5+01:00\","
                   "\"imagePullPolicy\":\"IfNotPresent\","
                   "\"pullPolicy\":{\"timeoutSeconds\":30,\"backoffLimit\":0,"
                   "\"ttlSecondsAfterFinished\":0,\"activeDeadlineSeconds\":90},"
                   "\"ownerReferences\":[{\"apiVersion\":\"apps.kruise.io/v1alpha1\","
                   "\"kind\":\"ImagePullJob\",\"namespace\":\"ns\",\"name\":\"job\",\"uid\":\"u\","
                   "\"resourceVersion\":\"9\",\"fieldPath\":\"f\"},{}]},"
                   "{\"tag\":\"sha256:00\",\"imagePullPolicy\":\"Always\"}]}}}");

TEST(test_said_about_a_tag) {
        cleanup(desired_images_done) DesiredImages desired_images = DESIRED_IMAGES_INIT;
        const DesiredImage *desired;

        parse_or_fail(everything, &desired_images);
        assert_int_equal(desired_images.n_items, 2);

        desired = &desired_images.items[0];
        assert_string_equal(desired->name, "reg.example:5000/team/app");
        assert_string_equal(desired->tag, "v1");
        assert_int_equal(desired->version, 7);
        assert_int_equal(desired->created_at, 1769860800);
        assert_int_equal(desired->policy, PULL_POLICY_IF_NOT_PRESENT);
        assert_int_equal(desired->timeout_sec, 30);
        assert_int_equal(desired->backoff_limit, 0);
        assert_int_equal(desired->ttl_sec, 0);
        assert_int_equal(desired->active_deadline_sec, 90);

        desired = &desired_images.items[1];
        assert_string_equal(desired->name, "reg.example:5000/team/app");
        assert_string_equal(desired->tag, "sha256:00");
        assert_int_equal(desired->version, 0);
        assert_int_equal(desired->policy, PULL_POLICY_ALWAYS);
        assert_int_equal(desired->n_owners, 0);
}

TEST(test_owners) {
        cleanup(desired_images_done) DesiredImages desired_images = DESIRED_IMAGES_INIT;
        const OwnerRef *owner;

        parse_or_fail(everything, &desired_images);
        assert_int_equal(desired_images.items[0].n_owners, 2);

        owner = &desired_images.items[0].owners[0];
        assert_string_equal(owner->api_version, "apps.kruise.io/v1alpha1");
        assert_string_equal(owner->kind, "ImagePullJob");
        assert_string_equal(owner->namespace, "ns");
        assert_string_equal(owner->name, "job");
        assert_string_equal(owner->uid, "u");
        assert_string_equal(owner->resource_version, "9");
        assert_string_equal(owner->field_path, "f");
        assert_null(desired_images.items[0].owners[1].name);
}

/* Members of the image count for every tag. */
TEST(test_said_about_an_image) {
        cleanup(desired_images_done) DesiredImages desired_images = DESIRED_IMAGES_INIT;

        parse_or_fail(everything, &desired_images);
        for (size_t i = 0; i < 2; i++) {
                const DesiredImage *desired = &desired_images.items[i];

                assert_int_equal(desired->n_secrets, 2);
                assert_string_equal(desired->secrets[0].namespace, "ns");
                assert_string_equal(desired->secrets[0].name, "s1");
                assert_null(desired->secrets[1].namespace);
                assert_string_equal(desired->secrets[1].name, "s2");
                assert_int_equal(desired->n_labels, 1);
                assert_string_equal(desired->labels[0].key, "l");
                assert_string_equal(desired->labels[0].value, "1");
                assert_int_equal(desired->n_annotations, 2);
                assert_string_equal(desired->annotations[1].key, "b");
                assert_string_equal(desired->annotations[1].value, "");
        }
}

static const struct LimitsOutOfRangeRow {
        const char *json;
        int64_t timeout, backoff, ttl, deadline;
} limits_out_of_range_rows[] = {
        { POLICY("\"timeoutSeconds\":0,\"backoffLimit\":-1,\"ttlSecondsAfterFinished\":-1,"
                 "\"activeDeadlineSeconds\":-5"),
          600, DESIRED_IMAGE_NO_LIMIT, DESIRED_IMAGE_NO_LIMIT, DESIRED_IMAGE_NO_LIMIT },
        { POLICY("\"timeoutSeconds\":-7"), 600, DESIRED_IMAGE_NO_LIMIT, DESIRED_IMAGE_NO_LIMIT,
          DESIRED_IMAGE_NO_LIMIT },
        { POLICY("\"activeDeadlineSeconds\":0"), 600, DESIRED_IMAGE_NO_LIMIT,
          DESIRED_IMAGE_NO_LIMIT, 0 },
        { POLICY("\"timeoutSeconds\":99999999999999999999,\"backoffLimit\":4294967296,"
                 "\"ttlSecondsAfterFinished\":9223372036854775807,"
                 "\"activeDeadlineSeconds\":18446744073709551615"),
          INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX },
};

TEST_ROWS(test_limits_out_of_range, limits_out_of_range_rows, json,
          const struct LimitsOutOfRangeRow *row) {
        cleanup(desired_images_done) DesiredImages desired_images = DESIRED_IMAGES_INIT;

        parse_or_fail(row->json, &desired_images);
        assert_int_equal(desired_images.items[0].timeout_sec, row->timeout);
        assert_int_equal(desired_images.items[0].backoff_limit, row->backoff);
        assert_int_equal(desired_images.items[0].ttl_sec, row->ttl);
        assert_int_equal(desired_images.items[0].active_deadline_sec, row->deadline);
}

/* They fail on their own later. Their neighbours should not. */
TEST(test_malformed_names_and_tags) {
        cleanup(desired_images_done) DesiredImages desired_images = DESIRED_IMAGES_INIT;

        parse_or_fail(IMAGES("\"No Such!\":{\"tags\":[{\"tag\":\"a b\"},{\"tag\":\"@\"}]}"),
                      &desired_images);
        assert_int_equal(desired_images.n_items, 2);
        assert_string_equal(desired_images.items[0].name, "No Such!");
        assert_string_equal(desired_images.items[1].tag, "@");
}

/* A NodeImage with many images of many tags, and one annotation each. */
static struct json_object *large(size_t n_images, size_t n_tags, size_t name_size,
                                 size_t annotation_size) {
        struct json_object *root = json_tokener_parse(NODE_IMAGE("v1beta1", "{\"images\":{}}"));
        struct json_object *images =
                json_object_object_get(json_object_object_get(root, "spec"), "images");
        cleanup(free_p) char *text = calloc(1, annotation_size + 1);

        memset(text, 'x', annotation_size);
        for (size_t i = 0; i < n_images; i++) {
                struct json_object *tags = json_object_new_array();
                struct json_object *image = json_object_new_object();
                struct json_object *annotations = json_object_new_object();
                struct json_object *config = json_object_new_object();
                cleanup(free_p) char *name = NULL;

                for (size_t j = 0; j < n_tags; j++) {
                        struct json_object *tag = json_object_new_object();
                        char number[24];

                        snprintf(number, sizeof(number), "%zu", j);
                        json_object_object_add(tag, "tag", json_object_new_string(number));
                        json_object_array_add(tags, tag);
                }

                json_object_object_add(image, "tags", tags);
                json_object_object_add(annotations, "a", json_object_new_string(text));
                json_object_object_add(config, "annotations", annotations);
                json_object_object_add(image, "sandboxConfig", config);
                assert_true(asprintf(&name, "%0*zu", (int) name_size, i) >= 0);
                json_object_object_add(images, name, image);
        }

        return root;
}

static const struct SizesRow {
        size_t n_images, n_tags, name_size, annotation_size;
        const char *refusal; /* how it begins */
} sizes_rows[] = {
        { 4096, 4, 0, 0, NULL },
        { 4097, 0, 0, 0, "spec.images: more than 4096 images" },
        { 1, 16384, 0, 0, NULL },
        { 1, 16385, 0, 0, "spec.images.0: more than 16384 tags" },
        { 1, 1, 4096, 0, NULL },
        { 1, 1, 4097, 0, "spec.images[\"000" },
        { 1, 100, 0, 64 << 10, NULL },
        { 1, 100, 0, 128 << 10, "spec.images" },
        { 100, 1, 0, 128 << 10, "spec.images" },
};

TEST_ROWS(test_sizes, sizes_rows, refusal, const struct SizesRow *row) {
        cleanup(json_object_put_p) struct json_object *object =
                large(row->n_images, row->n_tags, row->name_size, row->annotation_size);
        cleanup(desired_images_done) DesiredImages desired_images = DESIRED_IMAGES_INIT;
        cleanup(error_done) Error error = ERROR_INIT;

        (void) image_spec_parse(object, &desired_images, &error);
        if (!row->refusal) {
                assert_int_equal(error.kind, ERROR_NONE);
                assert_int_equal(desired_images.n_items, row->n_images * row->n_tags);
        } else {
                assert_int_equal(error.kind, ERROR_INVALID);
                assert_int_equal(desired_images.n_items, 0);
                if (strncmp(error_message(&error), row->refusal, strlen(row->refusal)) != 0)
                        fail_msg("%s", error_message(&error));
        }
}

#define SECRET "\"pullSecrets\":[{\"namespace\":\"a\"}]"
#define TWO_TAGS "\"tags\":[{\"tag\":\"1\",\"version\":3},{\"tag\":\"2\"}]"
#define GOOD "\"good\":{\"tags\":[{\"tag\":\"1\"}]}"

/* Invalid parts of an API server's object beside a valid image, and the rest that remains. */
static const struct Each {
        const char *name;
        const char *json;
        const char *desired_images; /* NAME:TAG vVERSION POLICY, and the fault */
        const char *skipped;
} each[] = {
        { "nothing is wrong", IMAGES("\"nginx\":{" TWO_TAGS "}," GOOD),
          "nginx:1 v3 Always; nginx:2 v0 Always; good:1 v0 Always; ", NULL },
        { "an unknown policy", TAG("\"imagePullPolicy\":\"Never\""), "nginx:1.25 v0 Always; ",
          NULL },
        { "a policy of another type", TAG("\"version\":2,\"imagePullPolicy\":3"),
          "nginx:1.25 v2 Always spec.images.nginx.tags[0].imagePullPolicy: expected a string (in "
          "quotes), got 3; ",
          NULL },
        { "a version below zero", TAG("\"version\":-1"),
          "nginx:1.25 v0 Always spec.images.nginx.tags[0].version: expected zero or more, got -1; ",
          NULL },
        { "a secret without a name", IMAGES("\"nginx\":{" TWO_TAGS "," SECRET "}," GOOD),
          "nginx:1 v3 Always spec.images.nginx.pullSecrets[0]: has no name; "
          "nginx:2 v0 Always spec.images.nginx.pullSecrets[0]: has no name; good:1 v0 Always; ",
          NULL },
        { "an image's fault comes before that of a tag",
          IMAGES("\"nginx\":{\"tags\":[{\"tag\":\"1\",\"version\":-1}]," SECRET "}"),
          "nginx:1 v0 Always spec.images.nginx.pullSecrets[0]: has no name; ", NULL },
        { "a tag that is given twice",
          IMAGES("\"nginx\":{\"tags\":[{\"tag\":\"b\",\"version\":4},{\"tag\":\"a\"},{\"tag\":\"b\"},"
                 "{\"tag\":\"b\"}]}," GOOD),
          "nginx:b v4 Always spec.images.nginx.tags: the tag \"b\" is given twice; nginx:a v0 Always; "
          "good:1 v0 Always; ",
          NULL },
        { "no tag at all", IMAGES("\"nginx\":{\"tags\":[{},{\"tag\":\"1\"}]}," GOOD),
          "nginx:1 v0 Always; good:1 v0 Always; ", "spec.images.nginx.tags[0]: has no tag" },
        { "a tag that is no text", IMAGES("\"nginx\":{\"tags\":[7,{\"tag\":8}]}," GOOD),
          "good:1 v0 Always; ", "spec.images.nginx.tags[0]: expected an object, got 7" },
        { "an image that is none", IMAGES("\"a\":3," GOOD ",\"b\":{},\"\":{\"tags\":[]}"),
          "good:1 v0 Always; ", "spec.images.a: expected an object, got 3" },
};

static void assert_desired_images(const DesiredImages *desired_images, const char *expected) {
        char text[1024] = "";

        for (size_t i = 0; i < desired_images->n_items; i++) {
                const DesiredImage *desired = &desired_images->items[i];

                sprintf(text + strlen(text), "%s:%s v%d %s%s%s; ", desired->name, desired->tag,
                        (int) desired->version,
                        desired->policy == PULL_POLICY_ALWAYS ? "Always" : "IfNotPresent",
                        desired->fault ? " " : "", desired->fault ?: "");
        }
        assert_string_equal(text, expected);
}

/* The only tag of the object. */
static DesiredImages parse_single(const char *json) {
        cleanup(json_object_put_p) struct json_object *object = json_tokener_parse(json);
        cleanup(error_done) Error skipped = ERROR_INIT, error = ERROR_INIT;
        DesiredImages desired_images = DESIRED_IMAGES_INIT;

        assert_ok(image_spec_parse_each(object, &desired_images, &skipped, &error));
        assert_int_equal(desired_images.n_items, 1);
        return desired_images;
}

TEST_ROWS(test_each, each, name, const struct Each *row) {
        cleanup(json_object_put_p) struct json_object *object = json_tokener_parse(row->json);
        cleanup(error_done) Error skipped = ERROR_INIT, error = ERROR_INIT;
        cleanup(desired_images_done) DesiredImages desired_images = DESIRED_IMAGES_INIT;

        assert_non_null(object);
        assert_ok(image_spec_parse_each(object, &desired_images, &skipped, &error));
        assert_desired_images(&desired_images, row->desired_images);
        assert_int_equal(skipped.kind, row->skipped ? ERROR_INVALID : ERROR_NONE);
        if (row->skipped)
                assert_string_equal(error_message(&skipped), row->skipped);
}

static const struct ResolveRow {
        const char *json;
        bool is_resolved;
} resolve_rows[] = {
        { TAG("\"version\":1"), false },
        { IMAGES("\"nginx\":{\"sandboxConfig\":{\"annotations\":{\"inplaced.io/resolve\":"
                 "\"true\"}},\"tags\":[{\"tag\":\"1\"}]}"),
          true },
        { IMAGES("\"nginx\":{\"sandboxConfig\":{\"annotations\":{\"inplaced.io/resolve\":"
                 "\"no\"}},\"tags\":[{\"tag\":\"1\"}]}"),
          false },
};

/* A set outlives its requests: one that has failed for good would never be made again. */
TEST(test_set) {
        cleanup(json_object_put_p) struct json_object *object =
                json_tokener_parse(IMAGES("\"nginx\":{\"tags\":[{\"tag\":\"1\"},{\"tag\":\"2\","
                                          "\"pullPolicy\":{\"backoffLimit\":7}},{\"tag\":3}]}"));
        cleanup(error_done) Error skipped = ERROR_INIT, error = ERROR_INIT;
        cleanup(desired_images_done) DesiredImages desired_images = DESIRED_IMAGES_INIT;

        assert_ok(image_spec_parse_set(object, &desired_images, &skipped, &error));
        assert_int_equal(desired_images.n_items, 2);
        assert_int_equal(desired_images.items[0].backoff_limit, DESIRED_IMAGE_NO_LIMIT);
        assert_int_equal(desired_images.items[1].backoff_limit, 7);
        assert_int_equal(skipped.kind, ERROR_INVALID);
}

#define COMPLETE(value) \
        "\"sandboxConfig\":{\"annotations\":{\"inplaced.io/complete\":\"" value "\"}}"

static const struct CompleteRow {
        const char *json;
        bool is_complete;
        const char *fault;
} complete_rows[] = {
        { TAG("\"version\":1"), false, NULL },
        { TAG("\"complete\":true"), true, NULL },
        { TAG("\"complete\":false"), false, NULL },
        { TAG("\"complete\":null"), false, NULL },
        { TAG("\"complete\":\"yes\""), false, "expected true or false, got \"yes\"" },
        { IMAGES("\"nginx\":{" COMPLETE("true") ",\"tags\":[{\"tag\":\"1\"}]}"), true, NULL },
        { IMAGES("\"nginx\":{" COMPLETE("false") ",\"tags\":[{\"tag\":\"1\"}]}"), false, NULL },
        { IMAGES("\"nginx\":{" COMPLETE("true") ",\"tags\":[{\"tag\":\"1\","
                                                "\"complete\":false}]}"),
          false, NULL },
};

/* A member where documents may have it, an annotation where an API server drops the member. */
TEST_ROWS(test_complete, complete_rows, json, const struct CompleteRow *row) {
        cleanup(desired_images_done) DesiredImages desired_images = parse_single(row->json);

        assert_int_equal(desired_images.items[0].is_complete, row->is_complete);
        assert_int_equal(!desired_images.items[0].fault, !row->fault);
        if (row->fault)
                assert_contains(desired_images.items[0].fault, row->fault);
}

#undef COMPLETE

TEST_ROWS(test_resolve, resolve_rows, json, const struct ResolveRow *row) {
        cleanup(desired_images_done) DesiredImages desired_images = parse_single(row->json);

        assert_int_equal(desired_images.items[0].is_resolved, row->is_resolved);
}

static const struct PinRow {
        const char *json;
        bool is_pinned;
} pin_rows[] = {
        { TAG("\"version\":1"), false },
        { TAG("\"pin\":true"), true },
        { TAG("\"pin\":false"), false },
        { IMAGES("\"nginx\":{\"sandboxConfig\":{\"annotations\":{\"inplaced.io/pin\":"
                 "\"true\"}},\"tags\":[{\"tag\":\"1\"}]}"),
          true },
        { IMAGES("\"nginx\":{\"sandboxConfig\":{\"annotations\":{\"inplaced.io/pin\":"
                 "\"1\"}},\"tags\":[{\"tag\":\"1\"}]}"),
          false },
};

TEST_ROWS(test_pin, pin_rows, json, const struct PinRow *row) {
        cleanup(desired_images_done) DesiredImages desired_images = parse_single(row->json);

        assert_int_equal(desired_images.items[0].is_pinned, row->is_pinned);
}

static const struct AttemptsOfEachRow {
        const char *json;
        int64_t backoff_limit;
} attempts_of_each_rows[] = { { TAG("\"version\":1"), 3 },
                              { POLICY("\"timeoutSeconds\":5"), 3 },
                              { POLICY("\"backoffLimit\":-1"), 3 },
                              { POLICY("\"backoffLimit\":0"), 0 } };

/* OpenKruise's default applies where the object says nothing: three more attempts. */
TEST_ROWS(test_attempts_of_each, attempts_of_each_rows, json, const struct AttemptsOfEachRow *row) {
        cleanup(json_object_put_p) struct json_object *object = json_tokener_parse(row->json);
        cleanup(error_done) Error skipped = ERROR_INIT, error = ERROR_INIT;
        cleanup(desired_images_done) DesiredImages desired_images = DESIRED_IMAGES_INIT;

        assert_ok(image_spec_parse_each(object, &desired_images, &skipped, &error));
        assert_int_equal(desired_images.items[0].backoff_limit, row->backoff_limit);
}

/* The copies of shared members are limited for an object of the API server, too. */
TEST(test_each_of_a_large_object) {
        cleanup(json_object_put_p) struct json_object *object = large(3, 30, 0, 128 << 10);
        cleanup(error_done) Error skipped = ERROR_INIT, error = ERROR_INIT;
        cleanup(desired_images_done) DesiredImages desired_images = DESIRED_IMAGES_INIT;

        assert_ok(image_spec_parse_each(object, &desired_images, &skipped, &error));
        assert_int_equal(skipped.kind, ERROR_NONE);
        assert_int_equal(desired_images.n_items, 90);
        for (size_t i = 0; i < desired_images.n_items; i++) {
                assert_int_equal(desired_images.items[i].n_annotations, i < 60);
                assert_int_equal(!desired_images.items[i].fault, i < 60);
        }
}

TEST(test_each_of_no_node_image) {
        cleanup(json_object_put_p) struct json_object *object = json_tokener_parse("[]");
        cleanup(error_done) Error skipped = ERROR_INIT, error = ERROR_INIT;
        DesiredImages untouched = { .n_items = 42 };

        assert_true(image_spec_parse_each(object, &untouched, &skipped, &error) < 0);
        assert_int_equal(error.kind, ERROR_INVALID);
        assert_int_equal(skipped.kind, ERROR_NONE);
        assert_int_equal(untouched.n_items, 42);
}

/* A copy of kubectl's output has no unknown keys; a key in the wrong place is unknown. */
TEST(test_unknown_keys) {
        static const char text[] =
                "apiVersion: apps.kruise.io/v1beta1\n"
                "kind: NodeImage\n"
                "metadata: {name: a, namespace: b, labels: {x: y}, annotations: {x: y}, uid: c,\n"
                "  creationTimestamp: d, resourceVersion: '1', generation: 2, managedFields: [{f: g}],\n"
                "  ownerReferences: [{kind: Node}], finalizers: [], selfLink: /x}\n"
                "status: {desired: 1, imageStatuses: {nginx: {tags: [{phase: Failed}]}}}\n"
                "spec:\n"
                "  images:\n"
                "    nginx:\n"
                "      pullSecrets: [{namespace: a, name: b}]\n"
                "      sandboxConfig: {labels: {x: y}, annotations: {x: y}}\n"
                "      imagePullPolicy: Always\n"
                "      tags:\n"
                "      - tag: '1'\n"
                "        version: 1\n"
                "        createdAt: 2026-01-31T12:00:00Z\n"
                "        imagePullPolicy: Always\n"
                "        pullPolicy: {timeoutSeconds: 1, backoffLimit: 2, activeDeadlineSeconds: 3,\n"
                "          ttlSecondsAfterFinished: 4, backofflimit: 5}\n"
                "        ownerReferences: [{apiVersion: a, kind: b, namespace: c, name: d, uid: e,\n"
                "          resourceVersion: f, fieldPath: g}]\n"
                "---\n"
                "kind: Pod\n"
                "spec: {containers: []}\n";
        cleanup(documents_done) Documents documents = DOCUMENTS_INIT;
        cleanup(unknown_keys_done) UnknownKeys unknown = UNKNOWN_KEYS_INIT;

        assert_ok(documents_parse(text, strlen(text), &documents, NULL));
        assert_ok(image_spec_check_keys(&documents, &unknown));
        assert_int_equal(unknown.n_texts, 2);
        assert_string_equal(
                unknown.texts[0],
                "line 12: spec.images.nginx.imagePullPolicy: unknown key, ignored; known "
                "here: tags, pullSecrets, sandboxConfig");
        assert_string_equal(
                unknown.texts[1],
                "line 19: spec.images.nginx.tags[0].pullPolicy.backofflimit: unknown key, "
                "ignored; did you mean backoffLimit?");
}

/* In the agent's own file a tag has what is its own; files of older versions have it once for all tags of a name. */
TEST(test_own_file) {
        cleanup(json_object_put_p) json_object *document = json_tokener_parse(
                "{\"apiVersion\":\"apps.kruise.io/v1alpha1\",\"kind\":\"NodeImage\",\"spec\":{\"images\":{"
                "\"nginx\":{\"pullSecrets\":[{\"name\":\"a\"}],\"sandboxConfig\":{\"labels\":{\"c\":\"d\"}},"
                "\"tags\":[{\"tag\":\"1\"},{\"tag\":\"2\",\"pullSecrets\":[{\"name\":\"b\"}]}]}}}}");
        cleanup(desired_images_done) DesiredImages desired_images = DESIRED_IMAGES_INIT;
        cleanup(error_done) Error skipped = ERROR_INIT;

        assert_ok(image_spec_parse_own(document, &desired_images, &skipped, NULL));
        assert_int_equal(skipped.kind, ERROR_NONE);
        assert_int_equal(desired_images.n_items, 2);
        for (size_t i = 0; i < 2; i++) {
                assert_int_equal(desired_images.items[i].n_secrets, 1);
                assert_string_equal(desired_images.items[i].secrets[0].name, i == 0 ? "a" : "b");
                assert_int_equal(desired_images.items[i].n_labels, i == 0 ? 1 : 0);
        }
}
