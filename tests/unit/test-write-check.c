/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Forbidden writes that the agent tries, at an API server that the test plays
 */

#include "agent/pod/write-check-spec.h"
#include "agent/pod/write-check.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/fake-kube.h"
#include "tests/unit/metric-value.h"
#include "tests/unit/pod-server.h"
#include "tests/unit/stderr-capture.h"
#include "tests/unit/unit.h"

#define POD_PATH "/api/v1/namespaces/default/pods/web/status?dryRun=All"
#define POD_BODY "{\"metadata\":{\"labels\":{\"inplaced.io/write-check\":\"dry-run\"}}}"
#define LIST_PATH "/apis/apps.kruise.io/v1beta1/nodeimages?limit=2"
#define OTHER_PATH "/apis/apps.kruise.io/v1beta1/nodeimages/node-2/status?dryRun=All"
#define OLD_LIST_PATH "/apis/apps.kruise.io/v1alpha1/nodeimages?limit=2"
#define OLD_OTHER_PATH "/apis/apps.kruise.io/v1alpha1/nodeimages/node-2/status?dryRun=All"
#define NODE_PATH "/api/v1/nodes/node-1/status?dryRun=All"
#define NODE_BODY \
        "{\"metadata\":{\"labels\":{\"node-restriction.kubernetes.io/inplaced-write-check\":\"dry-run\"}}}"
#define LEASE_PATH "/apis/coordination.k8s.io/v1/namespaces/inplaced/leases?dryRun=All"
#define LEASE_BODY                                                       \
        "{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\"," \
        "\"metadata\":{\"name\":\"inplaced-write-check\"}}"
#define ONE "{\"items\":[{\"metadata\":{\"name\":\"node-1\"}}]}"
#define TWO \
        "{\"items\":[{\"metadata\":{\"name\":\"node-1\"}},{\"metadata\":{\"name\":\"node-2\"}}]}"

typedef struct Fixture {
        Log *log;
        Metrics *metrics;
        PodContext context;
        WriteCheck *check;
        uint64_t answered_usec; /* the end of the last round */
        unsigned n_changed;
        char problem[256]; /* problem that doctor shows */
        char advice[256];
} Fixture;

const KubeAccess *kube_client_access(const KubeClient *client) {
        return NULL;
}

const char *kube_access_namespace(const KubeAccess *access) {
        return "inplaced";
}

static void on_changed(void *userdata) {
        ((Fixture *) userdata)->n_changed++;
}

static int on_problem(const char *subject, const char *text, const char *advice, void *userdata) {
        Fixture *fixture = userdata;

        assert_string_equal(subject, "limits");
        assert_string_equal(fixture->problem, "");
        (void) snprintf(fixture->problem, sizeof(fixture->problem), "%s", text);
        (void) snprintf(fixture->advice, sizeof(fixture->advice), "%s", advice);
        return 0;
}

static const char *the_problem(Fixture *fixture) {
        fixture->problem[0] = '\0';
        assert_ok(write_check_visit(fixture->check, &(DiagnosisVisitor){ .on_problem = on_problem,
                                                                         .userdata = fixture }));
        return fixture->problem;
}

static void open_fixture(Fixture *fixture) {
        fake_kube_open();
        pod_server_reset();
        fixture->metrics = metrics_for_test();
        assert_ok(log_new(LOG_FORMAT_TEXT, LOG_INFO, &fixture->log));
        fixture->context = (PodContext){
                .event = fake_kube.event,
                .log = fixture->log,
                .metrics = fixture->metrics,
                .node_name = "node-1",
                .on_changed = on_changed,
                .userdata = fixture,
        };
        assert_ok(pods_new(&(PodsOptions){ .log = fixture->log,
                                           .node_name = "node-1",
                                           .on_changed = on_changed,
                                           .userdata = fixture },
                           &fixture->context.pods));
        assert_ok(write_check_new(&fixture->context, &fixture->check));
}

static void close_fixture(Fixture *fixture) {
        assert_null(write_check_free(fixture->check));
        pods_free(fixture->context.pods);
        fake_clock_done();
        fake_kube_close();
        log_free(fixture->log);
        metrics_free(fixture->metrics);
}

DEFINE_FIXTURE(Fixture, open_fixture, close_fixture)

/* The request under way but for the watch of pods; NULL: none is. */
static KubeCall *the_call(void) {
        KubeCall *list = fake_kube_find("GET", "/nodeimages");

        return list ?: fake_kube_find("PATCH", "") ?: fake_kube_find("POST", "/leases");
}

/* Lets time pass until the agent asks for something, and answers it. */
static void serve(Fixture *fixture, const char *method, const char *path, int code,
                  const char *body) {
        const KubeRequest *request;

        for (;;) {
                fake_clock_turn(fake_kube.event);
                pod_server_serve();
                if (the_call())
                        break;

                fake_clock_skip(fake_kube.event);
        }
        request = &the_call()->request;
        assert_string_equal(request->method, method);
        assert_string_equal(request->path, path);
        assert_ok(fake_kube_answer_call(the_call(), code, body));
        fixture->answered_usec = fake_clock.now_usec;
}

/* Answers the requests after those about NodeImages. */
static void serve_rest(Fixture *fixture, int node_code, int lease_code) {
        serve(fixture, "PATCH", NODE_PATH, node_code, "{}");
        serve(fixture, "POST", LEASE_PATH, lease_code, "{}");
}

/* Answers a round of all requests; code 0: the server does not answer. */
static void serve_round(Fixture *fixture, int pod_code, int other_code) {
        serve(fixture, "PATCH", POD_PATH, pod_code, "{}");
        serve(fixture, "GET", LIST_PATH, 200, TWO);
        serve(fixture, "PATCH", OTHER_PATH, other_code, "{}");
        serve_rest(fixture, 403, 403);
}

/* The next round begins that much later; it is not answered yet. */
static void expect_pause(Fixture *fixture, uint64_t usec) {
        uint64_t before = fixture->answered_usec;

        while (!the_call()) {
                fake_clock_skip(fake_kube.event);
                fake_clock_turn(fake_kube.event);
                pod_server_serve();
        }
        assert_in_range(fake_clock.now_usec - before, usec / 10 * 9, usec / 10 * 11);
}

static bool is_measured(const Fixture *fixture, const char *series) {
        char *text;
        size_t size;
        bool is_there;

        assert_ok(metrics_write(fixture->metrics, &text, &size));
        is_there = strstr(text, series);
        free(text);
        return is_there;
}

static void expect_metric(const Fixture *fixture, const char *kind, int value) {
        char series[64];

        (void) snprintf(series, sizeof(series), "inplaced_writes_limited{kind=\"%s\"}", kind);
        assert_int_equal(is_measured(fixture, series), value >= 0);
        if (value >= 0)
                assert_int_equal(metric_value(fixture->metrics, series), value);
}

TEST_F(test_limited, Fixture *fixture) {
        const KubeRequest *request;

        pod_server_show(&(ShownPod){ 0 });
        fixture->answered_usec = fake_clock.now_usec;
        fake_clock_turn(fake_kube.event);
        pod_server_serve();
        expect_pause(fixture, WRITE_CHECK_START_USEC);
        expect_metric(fixture, "pods", -1);

        request = &the_call()->request;
        assert_string_equal(request->path, POD_PATH);
        assert_string_equal(request->body, POD_BODY);
        assert_string_equal(request->content_type, KUBE_MERGE_PATCH);
        assert_null(request->verb); /* refusals that are as they should be do not count */
        serve(fixture, "PATCH", POD_PATH, 403, "{}");
        assert_string_equal(the_call()->request.verb, "list");
        serve(fixture, "GET", LIST_PATH, 200, TWO);
        request = &the_call()->request;
        assert_string_equal(request->body, "{}"); /* a write that changes nothing */
        assert_string_equal(request->content_type, KUBE_MERGE_PATCH);
        assert_null(request->verb);
        serve(fixture, "PATCH", OTHER_PATH, 403, "{}");
        assert_string_equal(the_call()->request.body, NODE_BODY);
        assert_null(the_call()->request.verb);
        serve(fixture, "PATCH", NODE_PATH, 403, "{}");
        assert_string_equal(the_call()->request.body, LEASE_BODY);
        assert_string_equal(the_call()->request.content_type, KUBE_JSON);
        assert_null(the_call()->request.verb);
        serve(fixture, "POST", LEASE_PATH, 403, "{}");

        assert_string_equal(the_problem(fixture), "");
        expect_metric(fixture, "pods", 1);
        expect_metric(fixture, "nodeimages", 1);
        expect_metric(fixture, "nodes", 1);
        expect_metric(fixture, "leases", 1);
        expect_pause(fixture, WRITE_CHECK_LATER_USEC);
}

TEST_F(test_not_limited, Fixture *fixture) {
        const char *logged;
        Stderr e;

        pod_server_show(&(ShownPod){ 0 });
        stderr_pipe(&e);
        serve_round(fixture, 200, 200);
        logged = strstr(stderr_restore(&e), "lets the agent change labels of pods");
        assert_non_null(logged);
        assert_string_equal(the_problem(fixture),
                            "the API server lets the agent change labels of pods, and NodeImages "
                            "of other nodes, which it must not");
        assert_contains(fixture->advice, "apply packaging/kubernetes/policy");
        assert_true(fixture->n_changed > 0);
        expect_metric(fixture, "pods", 0);
        expect_metric(fixture, "nodeimages", 0);
        expect_pause(fixture, WRITE_CHECK_SOON_USEC);

        /* The same answer again is no news. */
        stderr_pipe(&e);
        serve_round(fixture, 200, 200);
        assert_string_equal(stderr_restore(&e), "");

        /* The policies come into force one after the other. */
        serve_round(fixture, 403, 200);
        assert_contains(the_problem(fixture), "agent change NodeImages of other nodes");
        expect_metric(fixture, "pods", 1);
        expect_metric(fixture, "nodeimages", 0);
        stderr_pipe(&e);
        serve_round(fixture, 403, 403);
        assert_contains(stderr_restore(&e), "limits the agent to its node now");
        assert_string_equal(the_problem(fixture), "");
        expect_metric(fixture, "nodeimages", 1);
        expect_pause(fixture, WRITE_CHECK_LATER_USEC);

        serve_round(fixture, 200, 403);
        assert_contains(the_problem(fixture), "agent change labels of pods, which");
}

/* The policies of components may be missing alone. */
TEST_F(test_components_not_limited, Fixture *fixture) {
        pod_server_show(&(ShownPod){ 0 });
        serve(fixture, "PATCH", POD_PATH, 403, "{}");
        serve(fixture, "GET", LIST_PATH, 200, TWO);
        serve(fixture, "PATCH", OTHER_PATH, 403, "{}");
        serve_rest(fixture, 200, 201);
        assert_contains(the_problem(fixture),
                        "agent change labels of its Node, and Leases of any name, which");
        expect_metric(fixture, "pods", 1);
        expect_metric(fixture, "nodes", 0);
        expect_metric(fixture, "leases", 0);
        expect_pause(fixture, WRITE_CHECK_SOON_USEC);
}

/* Unclear answers leave the known state, and are no finding. */
TEST_F(test_unknown, Fixture *fixture) {
        static const int codes[] = { 0, 400, 401, 404, 409, 422, 429, 500, 503 };

        pod_server_show(&(ShownPod){ 0 });
        for (size_t i = 0; i < N_ELEMENTS(codes); i++) {
                serve_round(fixture, codes[i], codes[i]);
                assert_string_equal(the_problem(fixture), "");
                expect_metric(fixture, "pods", -1);
                expect_metric(fixture, "nodeimages", -1);
                expect_pause(fixture, WRITE_CHECK_SOON_USEC);
        }

        serve_round(fixture, 200, 403);
        serve_round(fixture, 500, 500);
        assert_string_not_equal(the_problem(fixture), "");
        expect_metric(fixture, "pods", 0);
        expect_metric(fixture, "nodeimages", 1);
}

/* Objects that do not exist cannot be written. */
TEST_F(test_nothing_to_write, Fixture *fixture) {
        static const char *const kinds[] = { "pods", "nodeimages", "nodes", "leases" };
        static const int codes[] = { 0, 403, 404, 500 };

        serve(fixture, "GET", LIST_PATH, 200, ONE);
        serve_rest(fixture, 404, 404);
        for (size_t i = 0; i < N_ELEMENTS(kinds); i++)
                expect_metric(fixture, kinds[i], -1);
        expect_pause(fixture, WRITE_CHECK_SOON_USEC);
        serve(fixture, "GET", LIST_PATH, 200, "no JSON");
        serve_rest(fixture, 403, 403);
        expect_pause(fixture, WRITE_CHECK_SOON_USEC);

        pod_server_show(&(ShownPod){ 0 });
        serve(fixture, "GET", LIST_PATH, 200, ONE);
        serve_rest(fixture, 403, 403);
        for (size_t i = 0; i < N_ELEMENTS(codes); i++) {
                const char *path = codes[i] == 500 ? OLD_LIST_PATH : LIST_PATH;

                serve(fixture, "PATCH", POD_PATH, 403, "{}");
                serve(fixture, "GET", path, codes[i], "{}");
                serve_rest(fixture, 403, 403);
                assert_string_equal(the_problem(fixture), "");
                expect_metric(fixture, "pods", 1);
                expect_metric(fixture, "nodeimages", -1);
        }
}

TEST_F(test_older_version, Fixture *fixture) {
        serve(fixture, "GET", LIST_PATH, 404, "{}");
        serve_rest(fixture, 403, 403);
        serve(fixture, "GET", OLD_LIST_PATH, 200, TWO);
        serve(fixture, "PATCH", OLD_OTHER_PATH, 403, "{}");
        serve_rest(fixture, 403, 403);
        expect_metric(fixture, "nodeimages", 1);
        serve(fixture, "GET", OLD_LIST_PATH, 404, "{}");
        serve_rest(fixture, 403, 403);
        serve(fixture, "GET", LIST_PATH, 200, TWO);
}

/* Which pods there are is not known yet. */
TEST_F(test_not_synced, Fixture *fixture) {
        fake_clock_pass(fake_kube.event, WRITE_CHECK_START_USEC * 3 / 2);
        assert_null(the_call());
        pod_server_show(&(ShownPod){ 0 });
        serve_round(fixture, 403, 403);
        expect_metric(fixture, "pods", 1);
}

TEST_F(test_dropped, Fixture *fixture) {
        pod_server_show(&(ShownPod){ 0 });
        serve(fixture, "PATCH", POD_PATH, 403, "{}");
        assert_non_null(the_call());
        fixture->check = write_check_free(fixture->check);
        assert_null(the_call());
}
