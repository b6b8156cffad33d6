/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The condition and the startup taint of a Node, at an API server that the test plays
 *
 * The images are real, on a node without a runtime: none is ever pulled.
 */

#include "agent/cluster/images-ready.h"
#include "agent/document/json-reader.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/fake-kube.h"
#include "tests/unit/idle-images.h"
#include "tests/unit/node-image-server.h"
#include "tests/unit/quoted-json.h"
#include "tests/unit/unit.h"

#define NODES "/api/v1/nodes?" /* watch of the Node */
#define SETS "/nodeimages?"    /* watch of the sets */
#define TAINT "x.io/starting"
#define CONDITION(status, reason, message)                                             \
        "{'type':'" IMAGES_READY_CONDITION "','status':'" status "','reason':'" reason \
        "','message':'" message "'}"

static struct Fixture {
        Log *log;
        CompletionQueue *completions;
        Runtimes *runtimes;
        Images *images;
        ImageSets *sets;
        ImagesReady *ready;
        unsigned version;
        char problem[256]; /* advice about the last one */
} f;

static int set_up(void **state) {
        fake_kube_open();
        f = (struct Fixture){ .log = NULL };
        assert_ok(log_new(LOG_FORMAT_TEXT, -1, &f.log));
        idle_images_new(fake_kube.event, f.log, &f.completions, &f.runtimes, &f.images);
        assert_ok(image_sets_new(&(ImageSetsOptions){ .log = f.log, .images = f.images }, &f.sets));
        assert_ok(images_ready_new(&(ImagesReadyOptions){ .log = f.log,
                                                          .images = f.images,
                                                          .sets = f.sets,
                                                          .node_name = "node-1",
                                                          .settings = { .is_on = true,
                                                                        .deadline_usec = 20 * SEC,
                                                                        .startup_taint = TAINT } },
                                   &f.ready));
        node_image_server_discover();
        assert_ok(fake_kube_accept(fake_kube_find("GET", SETS)));
        assert_ok(fake_kube_accept(fake_kube_find("GET", NODES)));
        return 0;
}

static int tear_down(void **state) {
        assert_null(images_ready_free(f.ready));
        assert_null(image_sets_free(f.sets));
        images_free(f.images);
        runtimes_free(f.runtimes);
        completion_queue_free(f.completions);
        log_free(f.log);
        fake_clock_done();
        fake_kube_close();
        return 0;
}

/* The watch shows the next version of an object. */
static void show(const char *watch, const char *type, const char *metadata, const char *more) {
        const char *kind = strcmp(watch, NODES) == 0
                                   ? "'apiVersion':'v1','kind':'Node'"
                                   : "'apiVersion':'apps.kruise.io/v1beta1','kind':'NodeImage'";
        cleanup(json_object_put_p) json_object *event =
                parse("{'type':'%s','object':{%s,'metadata':{'resourceVersion':'%u'%s}%s}}", type,
                      kind, ++f.version, metadata, more);

        node_image_server_show(watch, event);
}

static void show_node(const char *taints, const char *conditions) {
        cleanup(free_p) char *more = NULL;

        assert_true(asprintf(&more, ",'spec':{'taints':[%s]},'status':{'conditions':[%s]}", taints,
                             conditions) > 0);
        show(NODES, "ADDED", ",'name':'node-1','uid':'n'", more);
}

/* The set is for all nodes. */
static void show_set(const char *images) {
        cleanup(free_p) char *more = NULL;

        assert_true(asprintf(&more, ",'spec':{'images':{%s}}", images) > 0);
        show(SETS, "ADDED",
             ",'name':'gpu','uid':'u','annotations':{'inplaced.io/node-selector':''}", more);
}

static void end_list(const char *watch) {
        show(watch, "BOOKMARK", ",'annotations':{'k8s.io/initial-events-end':'true'}", "");
}

static KubeCall *find_patch(bool is_status) {
        KubeCall *call = fake_kube_find("PATCH", "/api/v1/nodes/node-1");

        return call && is_status == (strstr(call->request.path, "/status") != NULL) ? call : NULL;
}

static KubeCall *await_patch(bool is_status) {
        KubeCall *call;

        fake_clock_turn(fake_kube.event);
        while (!(call = find_patch(is_status))) {
                fake_clock_skip(fake_kube.event);
                fake_clock_turn(fake_kube.event);
        }
        return call;
}

#define NGINX "'nginx':{'tags':[{'tag':'1'}]}"
#define REDIS "'redis':{'tags':[{'tag':'1'}]}"
#define MALFORMED "'Nginx':{'tags':[{'tag':'1'}]}"
#define TAINTS "{'key':'" TAINT "','effect':'NoSchedule'},{'key':'other','effect':'NoExecute'}"

/* A program that waits for the condition must find it when the taint has gone. Other taints stay. */
TEST_SET_UP(test_taint_goes_after_the_condition) {
        KubeCall *call;

        show_node(TAINTS, "");
        end_list(NODES);
        end_list(SETS);
        call = await_patch(true);
        assert_contains(call->request.body, "\"status\":\"True\",\"reason\":\"NoSets\"");
        assert_ok(fake_kube_answer_call(call, 200, "{\"metadata\":{\"resourceVersion\":\"7\"}}"));
        fake_clock_pass(fake_kube.event, 10 * SEC);
        assert_null(find_patch(false));

        f.version = 7;
        show_node(TAINTS, CONDITION("True", "NoSets", "no image set selects this node"));
        call = await_patch(false);
        assert_contains(call->request.body,
                        "\"taints\":[{\"key\":\"other\",\"effect\":\"NoExecute\"}]");
        assert_contains(call->request.body, "\"resourceVersion\":\"8\"");
        assert_null(strstr(call->request.body, TAINT));
}

/* The deadline of each image begins once, however often the sets are looked at. */
TEST_SET_UP(test_deadline) {
        KubeCall *call;

        show_node("", "");
        end_list(NODES);
        show_set(NGINX "," REDIS);
        end_list(SETS);
        call = await_patch(true);
        assert_contains(call->request.body, "\"reason\":\"ImagesMissing\"");
        assert_ok(fake_kube_answer_call(call, 200, "{\"metadata\":{\"resourceVersion\":\"7\"}}"));
        f.version = 7;
        show_node("", CONDITION("False", "ImagesMissing",
                                "0 of 2 images are there; missing: nginx:1, redis:1"));
        fake_clock_pass(fake_kube.event, 12 * SEC);
        show_set(NGINX "," REDIS);
        assert_null(find_patch(true));
        fake_clock_pass(fake_kube.event, 9 * SEC);
        call = find_patch(true);
        assert_non_null(call);
        assert_contains(call->request.body, "\"reason\":\"GaveUp\"");
}

/* An image that was given up before the agent was restarted is not waited for again. */
TEST_SET_UP(test_given_up_before) {
        show_node("", CONDITION("True", "GaveUp", ""));
        end_list(NODES);
        show_set(MALFORMED);
        end_list(SETS);
        fake_clock_pass(fake_kube.event, SEC);
        assert_contains(find_patch(true)->request.body,
                        "\"status\":\"True\",\"reason\":\"GaveUp\"");
}

static int on_problem(const char *subject, const char *message, const char *advice,
                      void *userdata) {
        (void) snprintf(f.problem, sizeof(f.problem), "%s", advice);
        return 0;
}

static int on_fact(const char *subject, const char *value, void *userdata) {
        return 0;
}

/* The advice names the rights that are missing. */
TEST_SET_UP(test_condition_is_denied) {
        show_node(TAINTS, "");
        end_list(NODES);
        end_list(SETS);
        assert_ok(fake_kube_answer_call(await_patch(true), 403, "{}"));
        assert_ok(images_ready_visit(f.ready, &(DiagnosisVisitor){ .on_problem = on_problem,
                                                                   .on_fact = on_fact }));
        assert_contains(f.problem, "components/images-ready");
}
