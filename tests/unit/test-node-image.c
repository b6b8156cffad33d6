/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The NodeImage of this node: its spec becomes requests, what becomes of them its status
 *
 * The images are real, on a node without a runtime: none is ever pulled.
 */

#include "agent/cluster/node-image.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/fake-kube.h"
#include "tests/unit/idle-images.h"
#include "tests/unit/metric-value.h"
#include "tests/unit/node-image-server.h"
#include "tests/unit/stderr-capture.h"
#include "tests/unit/unit.h"

#define STATUS_PATH "/apis/apps.kruise.io/v1beta1/nodeimages/node-1/status"
#define IMAGES(images) "'spec':{'images':{" images "}}"
#define NGINX IMAGES("'nginx':{'tags':[{'tag':'1','version':3}]}")

static struct Fixture {
        Log *log;
        Metrics *metrics;
        CompletionQueue *completions;
        Runtimes *runtimes;
        Images *images;
        KubeEvents *events;
        ClusterNodeImage *node_image;
        char problems[512]; /* their subjects */
} f;

static void on_changed(void *userdata) {
}

static void start(void) {
        const ClusterNodeImageOptions options = {
                .events = f.events,
                .log = f.log,
                .metrics = f.metrics,
                .images = f.images,
                .node_name = "node-1",
                .on_changed = on_changed,
        };

        assert_ok(cluster_node_image_new(&options, &f.node_image));
}

static int set_up(void **state) {
        fake_kube_open();
        f = (struct Fixture){ .metrics = metrics_for_test() };
        assert_ok(log_new(LOG_FORMAT_TEXT, -1, &f.log));
        idle_images_new(fake_kube.event, f.log, &f.completions, &f.runtimes, &f.images);
        assert_ok(kube_events_new(
                &(KubeEventsOptions){ .log = f.log, .component = "test", .node_name = "node-1" },
                &f.events));
        return 0;
}

static int tear_down(void **state) {
        assert_null(cluster_node_image_free(f.node_image));
        kube_events_free(f.events);
        images_free(f.images);
        runtimes_free(f.runtimes);
        completion_queue_free(f.completions);
        metrics_free(f.metrics);
        log_free(f.log);
        fake_clock_done();
        fake_kube_close();
        return 0;
}

/* With " instead of '. */
static char *json(const char *text) {
        char *copy = strdup(text);

        for (char *at = copy; *at; at++)
                if (*at == '\'')
                        *at = '"';
        return copy;
}

static void turn(void) {
        fake_clock_turn(fake_kube.event);
}

static void answer(const char *path, int code, const char *text) {
        cleanup(free_p) char *body = json(text);

        assert_ok(fake_kube_answer_call(fake_kube_find(NULL, path), code, body));
}

static KubeCall *the_watch(void) {
        KubeCall *call = fake_kube_find("GET", "watch=true");

        assert_non_null(call);
        return call;
}

/* An event of the watch. */
static void show(const char *type, const char *uid, const char *version, const char *content) {
        cleanup(free_p) char *text = NULL, *line = NULL;

        assert_true(asprintf(&text,
                             "{'type':'%s','object':{'apiVersion':'apps.kruise.io/v1beta1',"
                             "'kind':'NodeImage','metadata':{'name':'node-1','uid':'%s',"
                             "'resourceVersion':'%s'},%s}}\n",
                             type, uid, version, content) > 0);
        line = json(text);
        assert_ok(fake_kube_send(the_watch(), line, strlen(line)));
}

static void start_synced(const char *content) {
        cleanup(free_p) char *end =
                json("{'type':'BOOKMARK','object':{'metadata':{'resourceVersion':"
                     "'5','annotations':{'k8s.io/initial-events-end':'true'}}}}\n");

        start();
        node_image_server_discover();
        assert_ok(fake_kube_accept(the_watch()));
        if (content)
                show("ADDED", "u-1", "5", content);
        assert_ok(fake_kube_send(the_watch(), end, strlen(end)));
        turn();
}

/* Lets time pass until the status is written. */
static const char *await_write(void) {
        const KubeCall *call;

        turn();
        while (!(call = fake_kube_find("PATCH", STATUS_PATH))) {
                fake_clock_skip(fake_kube.event);
                turn();
        }

        return call->request.body;
}

static void assert_no_write(void) {
        fake_clock_pass(fake_kube.event, 10 * 1000000);
        assert_null(fake_kube_find("PATCH", STATUS_PATH));
}

/* The owners of a desired image, with a space behind each. */
static void assert_owners(const char *tag, const char *owners) {
        char found[256] = "";
        Image *image;

        assert_ok(images_find(f.images, "nginx", tag, &image));
        for (const ImageRequest *request = image ? image_requests(image) : NULL; request;
             request = request->next) {
                strcat(found, request->owner);
                strcat(found, " ");
        }

        assert_string_equal(found, owners);
}

TEST_SET_UP(test_spec_and_status) {
        const char *body;

        start_synced(NGINX);
        assert_owners("1", "nodeimage/u-1 ");
        body = await_write();
        assert_contains(body, "\"resourceVersion\":\"5\"");
        assert_contains(body, "\"desired\":1");
        answer(STATUS_PATH, 200, "{'metadata':{'resourceVersion':'6'}}");
        assert_no_write();
        assert_true(metric_value(f.metrics,
                                 "inplaced_nodeimage_status_writes_total{result=\"succeeded\"}") ==
                    1);
}

/* A finished tag stays until it leaves the spec, and a name without a registry is Docker Hub's. */
TEST_SET_UP(test_only_tag) {
        Image *image;

        start_synced(IMAGES("'nginx':{'tags':[{'tag':'1','pullPolicy':"
                            "{'ttlSecondsAfterFinished':1}}]}"));
        assert_ok(images_find(f.images, "nginx", "1", &image));
        assert_non_null(image);
        assert_true(image_requests(image)->desired.is_hub);
        assert_true(image_requests(image)->desired.ttl_sec == DESIRED_IMAGE_NO_LIMIT);
}

/* A written status counts as the object's until the watch shows it; an older object does not. */
TEST_SET_UP(test_older_event) {
        start_synced(NGINX);
        (void) await_write();
        answer(STATUS_PATH, 200, "{'metadata':{'resourceVersion':'7'}}");
        show("MODIFIED", "u-1", "6", NGINX);
        assert_no_write();
        show("MODIFIED", "u-1", "8", NGINX ",'status':{}");
        assert_contains(await_write(), "\"resourceVersion\":\"8\"");
}

TEST_SET_UP(test_conflict) {
        start_synced(NGINX);
        (void) await_write();
        answer(STATUS_PATH, 409, "");
        show("MODIFIED", "u-1", "9", NGINX);
        assert_contains(await_write(), "\"resourceVersion\":\"9\"");
}

/* The object was deleted and made again while its status was written. */
TEST_SET_UP(test_another_object) {
        start_synced(NGINX);
        (void) await_write();
        show("DELETED", "u-1", "6", NGINX);
        show("ADDED", "u-2", "7", NGINX);
        turn();
        assert_owners("1", "nodeimage/u-2 ");
        assert_contains(await_write(), "\"resourceVersion\":\"7\"");
}

TEST_SET_UP(test_gone) {
        start_synced(NGINX);
        show("DELETED", "u-1", "6", NGINX);
        turn();
        assert_int_equal(images_count(f.images), 0);
        assert_no_write();
}

/* Another writer has finished it: it is not pulled, and its entry stays as it is. */
TEST_SET_UP(test_finished_by_another) {
        Image *image;

        start_synced(NGINX ",'status':{'desired':1,'succeeded':1,'failed':0,'pulling':0,"
                           "'imageStatuses':{'nginx':{'tags':[{'tag':'1','version':3,"
                           "'phase':'Succeeded','completionTime':'2026-01-01T00:00:00Z'}]}}}");
        assert_ok(images_find(f.images, "nginx", "1", &image));
        assert_int_equal(image_status_for(image, "nodeimage/u-1", "nginx")->phase, IMAGE_SUCCEEDED);
        assert_no_write();
}

/* Requests of a previous run are dropped if their object is gone. */
TEST_SET_UP(test_other_owners) {
        DesiredImage desired;

        assert_ok(desired_image_init(&desired, "nginx", "1"));
        for (unsigned i = 0; i < 2; i++)
                assert_ok(images_set_desired(f.images, i ? "file/x" : "nodeimage/u-0",
                                             &(DesiredImages){ .items = &desired, .n_items = 1 },
                                             false));
        start_synced(NULL);
        assert_owners("1", "file/x ");
        desired_image_done(&desired);
}

static int on_problem(const char *subject, const char *message, const char *advice,
                      void *userdata) {
        strcat(f.problems, subject);
        return 0;
}

static int on_fact(const char *subject, const char *value, void *userdata) {
        return 0;
}

static const char *problems(void) {
        f.problems[0] = '\0';
        assert_ok(cluster_node_image_visit(f.node_image,
                                           &(DiagnosisVisitor){ .on_problem = on_problem,
                                                                .on_fact = on_fact }));
        return f.problems;
}

/* The last good one stays in force, and the log says so once. */
TEST_SET_UP(test_useless_spec) {
        Stderr captured;

        log_set_level(f.log, LOG_WARNING);
        start_synced(NGINX);
        assert_string_equal(problems(), "");
        for (unsigned i = 0; i < 2; i++) {
                stderr_pipe(&captured);
                show("MODIFIED", "u-1", i ? "7" : "6", "'spec':{'images':[]}");
                turn();
                assert_int_equal(strstr(stderr_restore(&captured), "Cannot use") != NULL, i == 0);
                assert_owners("1", "nodeimage/u-1 ");
                assert_string_equal(problems(), "NodeImage");
        }
        show("MODIFIED", "u-1", "8", IMAGES("'nginx':{'tags':[{'tag':'2','version':3}]}"));
        turn();
        assert_owners("1", "");
        assert_owners("2", "nodeimage/u-1 ");
        assert_string_equal(problems(), "");
}

/* A malformed reference is logged with what it has of plain text. */
TEST_SET_UP(test_malformed_reference) {
        Stderr captured;

        log_set_level(f.log, LOG_WARNING);
        stderr_pipe(&captured);
        start_synced(IMAGES("'w\303\251b\\u001b':{'tags':[{'tag':'1'}]}"));
        assert_contains(stderr_restore(&captured), "Cannot pull \"w??b?:1\": ");
}

TEST_SET_UP(test_obstacle) {
        start();
        assert_string_equal(cluster_node_image_obstacle(f.node_image),
                            "waiting for the API server");
        node_image_server_discover();
        assert_string_equal(cluster_node_image_obstacle(f.node_image),
                            "waiting for the list of NodeImages");
}
