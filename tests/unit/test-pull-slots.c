/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Pulls that wait for a slot, at an API server and with a runtime that the test plays
 */

#include "agent/cluster/pull-slots.h"
#include "agent/document/json-reader.h"
#include "agent/kube/access.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/fake-kube.h"
#include "tests/unit/fake-runtime.h"
#include "tests/unit/idle-images.h"
#include "tests/unit/node-image-server.h"
#include "tests/unit/quoted-json.h"
#include "tests/unit/unit.h"

#define LEASES "/namespaces/inplaced/leases"

static struct Fixture {
        Log *log;
        CompletionQueue *completions;
        Images *images;
        ImageSets *sets;
        PullSlots *slots;
} f;

const KubeAccess *kube_client_access(const KubeClient *client) {
        return NULL;
}

const char *kube_access_namespace(const KubeAccess *access) {
        return "inplaced";
}

static int set_up(void **state) {
        ImagesOptions options;

        fake_kube_open();
        fake_runtime_reset();
        f = (struct Fixture){ .log = NULL };
        assert_ok(log_new(LOG_FORMAT_TEXT, -1, &f.log));
        assert_ok(completion_queue_new(fake_kube.event, &f.completions));
        options = idle_images_options(f.completions, f.log, NULL);
        options.limits.max_parallel_pulls = 2;
        options.keys.ask = idle_images_ask_keys;
        assert_ok(images_new(&options, &f.images));
        assert_ok(image_sets_new(&(ImageSetsOptions){ .log = f.log, .images = f.images }, &f.sets));
        assert_ok(pull_slots_new(&(PullSlotsOptions){ .client = &fake_kube,
                                                      .log = f.log,
                                                      .images = f.images,
                                                      .sets = f.sets,
                                                      .node_name = "node-1" },
                                 &f.slots));
        node_image_server_discover();
        assert_ok(fake_kube_accept(fake_kube_find("GET", "watch=true")));
        assert_ok(image_sets_set_labels(f.sets, NULL));
        fake_clock_turn(fake_kube.event);
        return 0;
}

static int tear_down(void **state) {
        assert_null(pull_slots_free(f.slots));
        assert_null(image_sets_free(f.sets));
        images_free(f.images);
        completion_queue_free(f.completions);
        log_free(f.log);
        fake_clock_done();
        fake_kube_close();
        return 0;
}

/* The watch shows a set for all nodes, of which one node may pull at a time. */
static void show_set(const char *images) {
        cleanup(json_object_put_p) json_object *event = parse(
                "{'type':'ADDED','object':{'apiVersion':'apps.kruise.io/v1beta1','kind':"
                "'NodeImage','metadata':{'name':'gpu','uid':'u','resourceVersion':'1',"
                "'annotations':{'inplaced.io/node-selector':'','inplaced.io/parallelism':'1'}},"
                "'spec':{'images':{%s}}}}",
                images);

        node_image_server_show("watch=true", event);
}

static void answer(const char *method, int code, const char *body) {
        KubeCall *call = fake_kube_find(method, LEASES);

        assert_non_null(call);
        assert_ok(fake_kube_answer_call(call, code, body));
        fake_clock_turn(fake_kube.event);
}

/* The only image of a set waits until the node has the slot, and not longer. */
TEST_SET_UP(test_only_image) {
        show_set("'nginx':{'tags':[{'tag':'1'}]}");
        assert_int_equal(fake_runtime_n_asked("PullImage"), 0);
        answer("GET", 200, "{\"items\":[]}");
        assert_int_equal(fake_runtime_n_asked("PullImage"), 0);
        answer("POST", 201, "{\"metadata\":{\"resourceVersion\":\"1\"}}");
        assert_int_equal(fake_runtime_n_asked("PullImage"), 1);
}
