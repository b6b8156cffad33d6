/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Comparing the images of all containers, with a runtime that answers what the test says
 */

#include "agent/inplace/verify.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/fake-kube.h"
#include "tests/unit/fake-runtime.h"
#include "tests/unit/pod-server.h"
#include "tests/unit/unit.h"

#define ID_A "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define ID_B "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

typedef struct Fixture {
        const char *runtime_name;
        Verify *verify;
        Pods *pods;
        VerifyRow rows[FAKE_CONTAINERS_MAX]; /* their texts are gone but for these */
        char references[FAKE_CONTAINERS_MAX][64], messages[FAKE_CONTAINERS_MAX][128],
                names[FAKE_CONTAINERS_MAX][64];
        size_t n_rows;
        unsigned n_done;
        ErrorKind kind;
        char error[128];
} Fixture;

static int on_done(const VerifyRow *rows, size_t n_rows, const Error *error, void *userdata) {
        Fixture *fixture = userdata;

        fixture->n_done++;
        fixture->n_rows = n_rows;
        fixture->kind = error ? error->kind : ERROR_NONE;
        (void) snprintf(fixture->error, sizeof(fixture->error), "%s",
                        error ? error_message(error) : "");
        for (size_t i = 0; i < n_rows; i++) {
                fixture->rows[i] = rows[i];
                (void) snprintf(fixture->references[i], 64, "%s", rows[i].reference);
                (void) snprintf(fixture->messages[i], 128, "%s", rows[i].message);
                (void) snprintf(fixture->names[i], 64, "%s/%s/%s", rows[i].namespace, rows[i].pod,
                                rows[i].container);
        }
        fixture->verify = verify_free(fixture->verify);
        return 0;
}

static void open_fixture(Fixture *fixture) {
        fake_runtime_reset();
        pod_server_reset();
        fake_kube_open();
        assert_ok(pods_new(&(PodsOptions){ .client = &fake_kube, .node_name = "node-1" },
                           &fixture->pods));
        pod_server_serve();
        fake_runtime.images[0] = (FakeImage){ "nginx:1", ID_A };
        fake_runtime.images[1] = (FakeImage){ "nginx:2", ID_B };
        fake_runtime.images[2] = (FakeImage){ "nginx@sha256:1", ID_A };
}

static void close_fixture(Fixture *fixture) {
        verify_free(fixture->verify);
        assert_null(fake_runtime_find(NULL));
        pods_free(fixture->pods);
        fake_clock_done();
        fake_kube_close();
}

DEFINE_FIXTURE(Fixture, open_fixture, close_fixture)

static void run_runtime(void) {
        assert_true(fake_runtime_serve_questions());
}

static void begin(Fixture *fixture, bool has_server, const char *pod) {
        const VerifyOptions options = {
                .client = (RpcClient *) &fake_runtime,
                .runtime_name = fixture->runtime_name ?: "containerd",
                .pods = has_server ? fixture->pods : NULL,
                .pod = pod,
                .on_done = on_done,
                .userdata = fixture,
        };

        assert_ok(verify_new(&options, &fixture->verify));
        assert_int_equal(fixture->n_done, 0);
}

static void add(size_t i, const char *pod, const char *name, const char *image,
                const char *image_ref) {
        static const char *const ids[] = { "c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7" };

        fake_runtime.containers[i] = (FakeContainer){
                .uid = pod,
                .pod = pod,
                .name = name,
                .id = ids[i],
                .image = image,
                .image_ref = image_ref,
                .created_at = (int64_t) i,
                .is_running = true,
        };
}

TEST_F(test_verdicts, Fixture *fixture) {
        add(0, "web", "a", "nginx:1", ID_A);
        add(1, "web", "b", "nginx:1", "nginx@sha256:1");
        add(2, "web", "c", "nginx:2", ID_A);
        add(3, "web", "d", "nginx:3", ID_A);
        add(4, "old", "a", "nginx:1", "gone@sha256:2");
        add(5, "old", "b", "nginx:1", ID_A);
        fake_runtime.containers[5].is_running = false;
        begin(fixture, false, NULL);
        run_runtime();
        assert_int_equal(fixture->n_done, 1);
        assert_int_equal(fixture->n_rows, 5);

        assert_string_equal(fixture->names[0], "default/old/a");
        assert_int_equal(fixture->rows[0].verdict, VERDICT_UNKNOWN);
        assert_string_equal(fixture->messages[0],
                            "the image that it runs is not on this node any more");
        assert_string_equal(fixture->names[1], "default/web/a");
        assert_int_equal(fixture->rows[1].verdict, VERDICT_CURRENT);
        assert_string_equal(fixture->messages[1], "");
        assert_int_equal(fixture->rows[2].verdict, VERDICT_CURRENT);
        assert_int_equal(fixture->rows[3].verdict, VERDICT_STALE);
        assert_string_equal(fixture->messages[3],
                            "it runs a different image from what nginx:2 is on this node");
        assert_int_equal(fixture->rows[4].verdict, VERDICT_UNKNOWN);
        assert_string_equal(fixture->messages[4], "nginx:3 is not on this node");
}

/* A runtime takes "cafe" for the beginning of ID_B, but the kubelet does not ask so. */
TEST_F(test_without_tag, Fixture *fixture) {
        fake_runtime.images[0] = (FakeImage){ "cafe:latest", ID_A };
        fake_runtime.images[1] = (FakeImage){ "cafe", ID_B };
        fake_runtime.images[2] = (FakeImage){ "reg:5000/cafe:latest", ID_A };
        add(0, "web", "a", "cafe", ID_A);
        add(1, "web", "b", "cafe:latest", ID_A);
        add(2, "web", "c", "reg:5000/cafe", ID_A);
        begin(fixture, false, NULL);
        run_runtime();
        assert_int_equal(fixture->n_rows, 3);
        for (size_t i = 0; i < fixture->n_rows; i++)
                assert_int_equal(fixture->rows[i].verdict, VERDICT_CURRENT);
        assert_string_equal(fixture->references[0], "cafe");
}

/* The kubelet makes containers from IDs. CRI-O has a name of the image beside that, containerd has one that
 * the image has now, which says nothing. */
TEST_F(test_made_from_id, Fixture *fixture) {
        static const struct {
                const char *runtime, *image, *recorded;
                Verdict verdict;
                const char *reference;
        } rows[] = {
                { "containerd", ID_A, "nginx:1", VERDICT_UNKNOWN, "" },
                { "containerd", "nginx@sha256:1", "nginx:2", VERDICT_CURRENT, "nginx@sha256:1" },
                { "cri-o", ID_A, "nginx:1", VERDICT_CURRENT, "nginx:1" },
                { "cri-o", ID_A, "nginx:2", VERDICT_STALE, "nginx:2" },
                { "cri-o", ID_A + sizeof("sha256:") - 1, "nginx:2", VERDICT_STALE, "nginx:2" },
                { "cri-o", "nginx@sha256:1", "nginx:2", VERDICT_STALE, "nginx:2" },
                { "cri-o", ID_A, ID_A, VERDICT_UNKNOWN, "" },
                { "cri-o", ID_A, NULL, VERDICT_UNKNOWN, "" },
                { "cri-o", "nginx:1", "nginx:2", VERDICT_CURRENT, "nginx:1" },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                add(0, "web", "a", rows[i].image, ID_A + sizeof("sha256:") - 1);
                fake_runtime.containers[0].recorded = rows[i].recorded;
                fixture->runtime_name = rows[i].runtime;
                begin(fixture, false, NULL);
                run_runtime();
                assert_int_equal(fixture->n_done, 1);
                assert_int_equal(fixture->rows[0].verdict, rows[i].verdict);
                assert_string_equal(fixture->references[0], rows[i].reference);
                fixture->n_done = 0;
        }
}

/* The pod's reference counts, if it is that pod. */
TEST_F(test_with_server, Fixture *fixture) {
        ShownPod pod = {
                .uid = "web",
                .containers = { { .name = "a", .image = "nginx:2" } },
                .n_containers = 1,
        };

        pod_server_show(&pod);
        add(0, "web", "a", "nginx:1", ID_A);
        begin(fixture, true, "web");
        run_runtime();
        assert_int_equal(fixture->rows[0].verdict, VERDICT_STALE);
        assert_string_equal(fixture->references[0], "nginx:2");

        pod.uid = "later";
        pod_server_show(&pod);
        fixture->n_done = 0;
        begin(fixture, true, "web");
        run_runtime();
        assert_int_equal(fixture->rows[0].verdict, VERDICT_CURRENT);
        assert_string_equal(fixture->references[0], "nginx:1");
}

TEST_F(test_static_pod, Fixture *fixture) {
        pod_server_show(&(ShownPod){
                .uid = "later",
                .runtime_uid = "web",
                .containers = { { .name = "a", .image = "nginx:2" } },
                .n_containers = 1,
        });
        add(0, "web", "a", "nginx:1", ID_A);
        begin(fixture, true, "web");
        run_runtime();
        assert_string_equal(fixture->references[0], "nginx:2");
}

TEST_F(test_not_found, Fixture *fixture) {
        begin(fixture, false, "none");
        run_runtime();
        assert_int_equal(fixture->kind, ERROR_NOT_FOUND);
        assert_string_equal(fixture->error, "no container of pod \"none\" runs on this node");

        fixture->n_done = 0;
        begin(fixture, false, NULL);
        run_runtime();
        assert_int_equal(fixture->kind, ERROR_NONE);
        assert_int_equal(fixture->n_done, 1);
        assert_int_equal(fixture->n_rows, 0);
}

TEST_F(test_refused, Fixture *fixture) {
        add(0, "web", "a", "nginx:1", ID_A);
        begin(fixture, false, NULL);
        fake_runtime_refuse("ListContainers", ERROR_UNAVAILABLE, "no");
        assert_int_equal(fixture->kind, ERROR_UNAVAILABLE);

        fixture->n_done = 0;
        begin(fixture, false, NULL);
        assert_true(fake_runtime_serve("ListContainers"));
        fake_runtime_refuse("ImageStatus", ERROR_UNAVAILABLE, "no");
        assert_int_equal(fixture->kind, ERROR_NONE);
        assert_int_equal(fixture->rows[0].verdict, VERDICT_UNKNOWN);
        assert_string_equal(fixture->messages[0], "the runtime cannot be asked: no");
}

TEST_F(test_dropped, Fixture *fixture) {
        add(0, "web", "a", "nginx:1", "nginx@sha256:1");
        begin(fixture, false, NULL);
        assert_true(fake_runtime_serve("ListContainers"));
        assert_non_null(fake_runtime_find("ImageStatus"));
        fixture->verify = verify_free(fixture->verify);
        assert_null(fake_runtime_find(NULL));
        assert_int_equal(fixture->n_done, 0);
}
