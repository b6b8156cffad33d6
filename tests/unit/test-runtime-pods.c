/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests the pods in the runtime's lists
 */

#include "agent/pod/runtime-pods.h"
#include "tests/unit/fake-runtime.h"
#include "tests/unit/unit.h"

#define CONTAINERS_MAX 8
#define LABELS_MAX 4
#define ANNOTATIONS_MAX 2

typedef struct Listed {
        CriContainer container;
        CriImageSpec image;
        Runtime__V1__Container__LabelsEntry labels[LABELS_MAX], *label_list[LABELS_MAX];
        Runtime__V1__Container__AnnotationsEntry annotations[ANNOTATIONS_MAX];
        Runtime__V1__Container__AnnotationsEntry *annotation_list[ANNOTATIONS_MAX];
} Listed;

typedef struct Fixture {
        RuntimePodsCall *pods_call;
        bool was_called;
        ErrorKind refusal;
        char found[64]; /* the container */
        CriContainerList list;
        CriContainer *pointers[CONTAINERS_MAX];
        Listed listed[CONTAINERS_MAX];
        RuntimePods pods;
} Fixture;

static void open_fixture(Fixture *fixture) {
        runtime__v1__list_containers_response__init(&fixture->list);
        fixture->list.containers = fixture->pointers;
        fake_runtime_reset();
}

static void close_fixture(Fixture *fixture) {
        runtime_pods_call_free(fixture->pods_call);
        runtime_pods_done(&fixture->pods);
}

DEFINE_FIXTURE(Fixture, open_fixture, close_fixture)

static void add_label(Listed *to, const char *key, const char *value) {
        size_t i = to->container.n_labels++;

        runtime__v1__container__labels_entry__init(&to->labels[i]);
        to->labels[i].key = (char *) key;
        to->labels[i].value = (char *) value;
        to->label_list[i] = &to->labels[i];
}

static void add_annotation(Listed *to, const char *key, const char *value) {
        size_t i = to->container.n_annotations++;

        runtime__v1__container__annotations_entry__init(&to->annotations[i]);
        to->annotations[i].key = (char *) key;
        to->annotations[i].value = (char *) value;
        to->annotation_list[i] = &to->annotations[i];
}

static Listed *add_bare(Fixture *fixture, const char *id, int64_t created_at) {
        Listed *listed = &fixture->listed[fixture->list.n_containers];

        runtime__v1__container__init(&listed->container);
        runtime__v1__image_spec__init(&listed->image);
        listed->container.labels = listed->label_list;
        listed->container.annotations = listed->annotation_list;
        listed->container.id = (char *) id;
        listed->container.created_at = created_at;
        fixture->pointers[fixture->list.n_containers++] = &listed->container;
        return listed;
}

static Listed *add(Fixture *fixture, const char *pod, const char *uid, const char *name,
                   const char *id, int64_t created_at) {
        Listed *listed = add_bare(fixture, id, created_at);

        add_label(listed, LABEL_POD_NAMESPACE, "ns");
        add_label(listed, LABEL_POD_NAME, pod);
        add_label(listed, LABEL_POD_UID, uid);
        add_label(listed, LABEL_CONTAINER_NAME, name);
        return listed;
}

TEST_F(test_nothing, Fixture *fixture) {
        assert_ok(runtime_pods_read(&fixture->list, &fixture->pods));
        assert_int_equal(fixture->pods.n_items, 0);
        assert_null(runtime_pods_find(&fixture->pods, "ns", "a", "u1"));
}

TEST_F(test_groups, Fixture *fixture) {
        const RuntimePod *pod;

        add(fixture, "b", "u2", "web", "b-web", 5);
        add(fixture, "a", "u1", "side", "a-side", 3);
        add(fixture, "a", "u1", "app", "a-app-old", 1);
        add(fixture, "a", "u1", "app", "a-app-new", 9);
        add(fixture, "a", "u1", "app", "a-app-older", 0);
        add(fixture, "a", "u0", "app", "gone-app", 2);
        assert_ok(runtime_pods_read(&fixture->list, &fixture->pods));
        assert_int_equal(fixture->pods.n_items, 3);
        assert_string_equal(fixture->pods.items[0].uid, "u0");
        assert_string_equal(fixture->pods.items[1].uid, "u1");
        assert_string_equal(fixture->pods.items[2].uid, "u2");
        assert_string_equal(fixture->pods.items[2].name, "b");
        assert_string_equal(fixture->pods.items[2].namespace, "ns");

        pod = runtime_pods_find(&fixture->pods, "ns", "a", "u1");
        assert_ptr_equal(pod, &fixture->pods.items[1]);
        assert_int_equal(pod->n_containers, 2);
        assert_string_equal(pod->containers[0].name, "app");
        assert_string_equal(pod->containers[0].id, "a-app-new");
        assert_int_equal(pod->containers[0].created_at_nsec, 9);
        assert_int_equal(pod->n_former, 2);
        assert_string_equal(pod->former[0].id, "a-app-old");
        assert_string_equal(pod->former[1].id, "a-app-older");
        assert_string_equal(runtime_pod_find(pod, "side")->id, "a-side");
        assert_null(runtime_pod_find(pod, "web"));
        assert_null(runtime_pods_find(&fixture->pods, "ns", "a", "u3"));
        assert_null(runtime_pods_find(&fixture->pods, "ns", "b", "u1"));
        assert_null(runtime_pods_find(&fixture->pods, "other", "a", "u1"));
}

/* The newer of two containers that were made in the same instant is the one with more restarts. */
TEST_F(test_same_instant, Fixture *fixture) {
        add_annotation(add(fixture, "a", "u1", "app", "first", 5), ANNOTATION_RESTART_COUNT, "1");
        add_annotation(add(fixture, "a", "u1", "app", "second", 5), ANNOTATION_RESTART_COUNT, "2");
        assert_ok(runtime_pods_read(&fixture->list, &fixture->pods));
        assert_string_equal(fixture->pods.items[0].containers[0].id, "second");
        assert_int_equal(fixture->pods.items[0].containers[0].restart_count, 2);
}

TEST_F(test_strangers, Fixture *fixture) {
        Listed *listed;

        add_bare(fixture, "none", 1);
        listed = add_bare(fixture, "half", 1);
        add_label(listed, LABEL_POD_UID, "u1");
        add_label(listed, LABEL_POD_NAME, "a");
        add_label(listed, LABEL_POD_NAMESPACE, "ns");
        assert_ok(runtime_pods_read(&fixture->list, &fixture->pods));
        assert_int_equal(fixture->pods.n_items, 0);
}

TEST_F(test_facts, Fixture *fixture) {
        Listed *listed = add(fixture, "a", "u1", "app", "id", 5);
        const RuntimeContainer *container;

        listed->container.pod_sandbox_id = (char *) "sandbox";
        listed->container.state = RUNTIME__V1__CONTAINER_STATE__CONTAINER_RUNNING;
        listed->container.image = &listed->image;
        listed->container.image_ref = (char *) "r@sha256:1";
        listed->image.image = (char *) "sha256:2";
        add_annotation(listed, ANNOTATION_HASH, "e324a2d6");
        add_annotation(listed, ANNOTATION_RESTART_COUNT, "3");
        assert_string_equal(cri_container_annotation(&listed->container, ANNOTATION_HASH),
                            "e324a2d6");
        assert_null(cri_container_annotation(&listed->container, LABEL_POD_UID));
        assert_null(cri_container_label(&listed->container, ANNOTATION_HASH));

        assert_ok(runtime_pods_read(&fixture->list, &fixture->pods));
        container = &fixture->pods.items[0].containers[0];
        assert_string_equal(container->sandbox_id, "sandbox");
        assert_true(container->is_running);
        assert_false(container->is_exited);
        assert_int_equal(container->kubelet_hash, 3810829014);
        assert_int_equal(container->restart_count, 3);
        assert_string_equal(container->image, "sha256:2");
        assert_string_equal(container->image_ref, "r@sha256:1");
}

TEST_F(test_newer_facts, Fixture *fixture) {
        Listed *listed = add(fixture, "a", "u1", "app", "id", 5);
        const RuntimeContainer *container;

        listed->container.state = RUNTIME__V1__CONTAINER_STATE__CONTAINER_EXITED;
        listed->container.image = &listed->image;
        listed->container.image_ref = (char *) "r@sha256:1";
        listed->container.image_id = (char *) "sha256:2";
        listed->image.image = (char *) "sha256:2";
        listed->image.user_specified_image = (char *) "r:v1";
        assert_ok(runtime_pods_read(&fixture->list, &fixture->pods));
        container = &fixture->pods.items[0].containers[0];
        assert_false(container->is_running);
        assert_true(container->is_exited);
        assert_string_equal(container->image, "r:v1");
        assert_string_equal(container->image_ref, "sha256:2");
}

static const struct NumbersRow {
        const char *hash;
        uint64_t expected_hash;
        const char *count;
        unsigned expected_count;
} numbers[] = {
        { "ffffffffffffffff", UINT64_MAX, "2147483647", INT32_MAX },
        { "FF", 255, "0", 0 },
        { "10000000000000000", 0, "2147483648", 0 },
        { "0x10", 0, "1f", 0 },
        { " 1", 0, " 1", 0 },
        { "-1", 0, "-1", 0 },
        { "", 0, "", 0 },
};

TEST_ROWS_F(test_numbers, numbers, hash, const struct NumbersRow *row, Fixture *fixture) {
        Listed *listed;

        fixture->list.n_containers = 0;
        listed = add(fixture, "a", "u1", "app", "id", 5);
        add_annotation(listed, ANNOTATION_HASH, row->hash);
        add_annotation(listed, ANNOTATION_RESTART_COUNT, row->count);
        runtime_pods_done(&fixture->pods);
        assert_ok(runtime_pods_read(&fixture->list, &fixture->pods));
        assert_true(fixture->pods.items[0].containers[0].kubelet_hash == row->expected_hash);
        assert_int_equal(fixture->pods.items[0].containers[0].restart_count, row->expected_count);
}

static int on_pods(RuntimePods *pods, const Error *error, void *userdata) {
        Fixture *fixture = userdata;

        fixture->pods_call = runtime_pods_call_free(fixture->pods_call);
        fixture->was_called = true;
        fixture->refusal = error ? error->kind : ERROR_NONE;
        assert_true(!pods == !!error);
        if (!pods)
                return 0;

        fixture->pods = *pods;
        *pods = RUNTIME_PODS_INIT;
        return 0;
}

static int on_container(const CriContainer *container, const Error *error, void *userdata) {
        Fixture *fixture = userdata;

        fixture->was_called = true;
        fixture->refusal = error ? error->kind : ERROR_NONE;
        strcpy(fixture->found, container ? container->id : "none");
        fixture->pods_call = runtime_pods_call_free(fixture->pods_call);
        return 0;
}

/* The filter reaches the runtime, and nothing else does. */
TEST_F(test_list_filter, Fixture *fixture) {
        static const struct {
                RuntimePodsFilter filter;
                const char *expected;
        } cases[] = {
                { { .uid = NULL }, "" },
                { { .namespace = "", .pod = "", .uid = "" }, "" },
                { { .uid = "u1" }, LABEL_POD_UID "=u1" },
                { { .namespace = "", .pod = "a" }, LABEL_POD_NAME "=a" },
                { { .namespace = "ns", .pod = "a" },
                  LABEL_POD_NAME "=a " LABEL_POD_NAMESPACE "=ns" },
        };

        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                assert_ok(runtime_pods_list(NULL, &cases[i].filter, on_pods, fixture,
                                            &fixture->pods_call));
                assert_string_equal(fake_runtime_find("ListContainers")->target, cases[i].expected);
                fixture->pods_call = runtime_pods_call_free(fixture->pods_call);
                assert_null(fake_runtime_find(NULL));
        }
        assert_false(fixture->was_called);
}

TEST_F(test_list, Fixture *fixture) {
        add(fixture, "a", "u1", "app", "id", 5);
        assert_ok(runtime_pods_list(NULL, &(RuntimePodsFilter){ .uid = "u1" }, on_pods, fixture,
                                    &fixture->pods_call));
        assert_false(fixture->was_called);
        fake_runtime_answer("ListContainers", &fixture->list, NULL);
        assert_true(fixture->was_called);
        assert_null(fake_runtime_find(NULL));
        assert_int_equal(fixture->refusal, ERROR_NONE);
        assert_non_null(runtime_pods_find(&fixture->pods, "ns", "a", "u1"));
}

TEST_F(test_list_refused, Fixture *fixture) {
        const Error error = { .kind = ERROR_UNAVAILABLE };

        assert_ok(runtime_pods_list(NULL, &(RuntimePodsFilter){ .uid = "u1" }, on_pods, fixture,
                                    &fixture->pods_call));
        fake_runtime_answer("ListContainers", NULL, &error);
        assert_int_equal(fixture->refusal, ERROR_UNAVAILABLE);
        assert_null(fake_runtime_find(NULL));
}

/* A runtime answers the beginning of an ID with each container that it fits. */
TEST_F(test_find_container, Fixture *fixture) {
        static const struct {
                const char *id;
                const char *expected;
        } cases[] = { { "0123", "0123" }, { "01", "none" }, { "012345", "012345" } };

        add_bare(fixture, "012345", 5);
        add(fixture, "a", "u1", "app", "0123", 5);
        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                char filter[64];

                assert_int_equal(runtime_pods_find_container(NULL, cases[i].id, on_container,
                                                             fixture, &fixture->pods_call),
                                 0);
                snprintf(filter, sizeof(filter), "id=%s", cases[i].id);
                assert_string_equal(fake_runtime_find("ListContainers")->target, filter);
                fake_runtime_answer("ListContainers", &fixture->list, NULL);
                assert_string_equal(fixture->found, cases[i].expected);
        }
}

TEST_F(test_find_container_refused, Fixture *fixture) {
        const Error error = { .kind = ERROR_TIMEOUT };

        assert_int_equal(runtime_pods_find_container(NULL, "0123", on_container, fixture,
                                                     &fixture->pods_call),
                         0);
        fake_runtime_answer("ListContainers", NULL, &error);
        assert_int_equal(fixture->refusal, ERROR_TIMEOUT);
        assert_string_equal(fixture->found, "none");
}
