/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Whether images that were pulled are still there, in a runtime that loses them when the test says so
 */

#include "agent/image/presence.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/fake-runtime.h"
#include "tests/unit/idle-images.h"
#include "tests/unit/metric-value.h"
#include "tests/unit/unit.h"

#define REFERENCE "docker.io/library/nginx:1"
#define ID "sha256:6efc10a0510f143a90b69dc564a914574973223e88418d65c1f8809e08dc0a1f"

static struct Fixture {
        sd_event *event;
        Log *log;
        Metrics *metrics;
        CompletionQueue *completions;
        Images *images;
        Presence *presence;
} f;

static int ask_keys(void *source, const PullCredentialsQuestion *question,
                    PullCredentialsReady on_ready, void *userdata, PullCredentialsAsk **ret) {
        return 0; /* the test ends before a pull goes on */
}

static void run(void) {
        assert_true(sd_event_run(f.event, WAIT_USEC) > 0);
}

/* Runs until the runtime gets this request. */
static void await_call(const char *method) {
        while (!fake_runtime_find(method))
                run();
}

static ImagePhase phase_of(const char *name) {
        Image *image;

        assert_ok(images_find(f.images, name, "1", &image));
        return image_status(image)->phase;
}

static ImagePhase phase(void) {
        return phase_of("nginx");
}

/* Requests an image that is there. */
static void request(const char *name, const char *owner) {
        DesiredImage desired;

        assert_ok(desired_image_init(&desired, name, "1"));
        desired.policy = PULL_POLICY_IF_NOT_PRESENT;
        assert_ok(images_set_desired(f.images, owner,
                                     &(DesiredImages){ .items = &desired, .n_items = 1 }, false));
        desired_image_done(&desired);
        await_call("ImageStatus");
        assert_true(fake_runtime_serve("ImageStatus"));
        while (phase_of(name) != IMAGE_SUCCEEDED)
                run();
}

static int set_up(void **state) {
        ImagesOptions options;

        f = (struct Fixture){ .event = NULL };
        fake_clock.is_real = true;
        fake_runtime_reset();
        fake_runtime.images[0] = (FakeImage){ .reference = REFERENCE, .id = ID };
        assert_true(sd_event_new(&f.event) >= 0);
        assert_ok(log_new(LOG_FORMAT_TEXT, -1, &f.log));
        f.metrics = metrics_for_test();
        assert_ok(completion_queue_new(f.event, &f.completions));
        options = idle_images_options(f.completions, f.log, NULL);
        options.metrics = f.metrics;
        options.keys.ask = ask_keys;
        assert_ok(images_new(&options, &f.images));
        assert_ok(presence_new(f.event, NULL, f.images, &f.presence));
        request("nginx", "file/x");
        return 0;
}

static int tear_down(void **state) {
        assert_null(presence_free(f.presence));
        images_free(f.images);
        assert_int_equal(fake_runtime_n_calls(), 0);
        completion_queue_free(f.completions);
        metrics_free(f.metrics);
        log_free(f.log);
        fake_clock_done();
        sd_event_unref(f.event);
        return 0;
}

/* The runtime is there: it is subscribed to, and asked for a list. */
static void start(void) {
        assert_ok(presence_runtime_changed(f.presence));
        assert_non_null(fake_runtime_find("Subscribe"));
        await_call("ListImages");
}

/* The answer to a list: the image, or none. */
static void answer_list(bool has_image) {
        CriImageList list = RUNTIME__V1__LIST_IMAGES_RESPONSE__INIT;
        CriImage image = RUNTIME__V1__IMAGE__INIT, *images = &image;
        char *tags[] = { (char *) REFERENCE };

        image.id = (char *) ID;
        image.repo_tags = tags;
        image.n_repo_tags = 1;
        list.images = &images;
        list.n_images = has_image;
        fake_runtime_answer("ListImages", &list, NULL);
}

TEST_SET_UP(test_there) {
        start();
        answer_list(true);
        assert_null(fake_runtime_find("ImageStatus"));
        assert_int_equal(phase(), IMAGE_SUCCEEDED);
}

/* A list alone says nothing: the image itself is asked for. */
TEST_SET_UP(test_list_is_wrong) {
        start();
        answer_list(false);
        assert_string_equal(fake_runtime_find("ImageStatus")->target, REFERENCE);
        assert_true(fake_runtime_serve("ImageStatus"));
        assert_int_equal(phase(), IMAGE_SUCCEEDED);
}

TEST_SET_UP(test_removed) {
        RpcCall *events;

        start();
        answer_list(true);
        events = fake_runtime_find("Subscribe");
        fake_runtime.images[0] = (FakeImage){ .reference = NULL };
        assert_int_equal(fake_runtime.on_removed(NULL, events->userdata), 0);
        await_call("ListImages");
        answer_list(false);
        assert_true(fake_runtime_serve("ImageStatus"));
        while (phase() == IMAGE_SUCCEEDED)
                run();
        assert_int_equal(metric_value(f.metrics, "inplaced_images_removed_total"), 1);
}

/* After a restart of the runtime its former answer does not count. */
TEST_SET_UP(test_runtime_goes) {
        start();
        fake_runtime.is_away = true;
        assert_ok(presence_runtime_changed(f.presence));
        assert_int_equal(fake_runtime_n_calls(), 0);
        fake_runtime.is_away = false;
        start();
        answer_list(true);
        assert_int_equal(phase(), IMAGE_SUCCEEDED);
}

/* A runtime without such events says so before the list has begun, which does not wait a minute for that. The
 * next one does not wait an hour. */
TEST_SET_UP(test_no_events) {
        const uint64_t minute_usec = 60000000;
        Error error = ERROR_INIT;

        fake_clock.is_real = false;
        assert_ok(presence_runtime_changed(f.presence));
        assert_true(error_set(&error, ERROR_UNSUPPORTED, "unknown service") < 0);
        fake_runtime_answer("Subscribe", NULL, &error);
        error_done(&error);
        fake_clock_pass(f.event, 0);
        answer_list(true);
        assert_int_equal(phase(), IMAGE_SUCCEEDED);
        fake_clock_pass(f.event, minute_usec);
        assert_int_equal(fake_runtime_n_asked("ListImages"), 2);
}

/* Nor does an image that the runtime cannot tell about keep the others from being verified. */
TEST_SET_UP(test_one_is_damaged) {
        fake_runtime.images[1] = (FakeImage){ .reference = "docker.io/library/redis:1", .id = ID };
        request("redis", "file/y");
        start();
        fake_runtime.images[0] = fake_runtime.images[1] = (FakeImage){ .reference = NULL };
        answer_list(false);
        assert_string_equal(fake_runtime_find("ImageStatus")->target, "docker.io/library/redis:1");
        fake_runtime_refuse("ImageStatus", ERROR_INTERNAL, "layer not known");
        assert_string_equal(fake_runtime_find("ImageStatus")->target, REFERENCE);
        assert_true(fake_runtime_serve("ImageStatus"));
        assert_int_equal(phase(), IMAGE_MISSING);
        assert_int_equal(phase_of("redis"), IMAGE_SUCCEEDED);
}

/* The event was not lost, but its list: the next one does not wait an hour. */
TEST_SET_UP(test_list_fails) {
        const uint64_t minute_usec = 60000000;

        fake_clock.is_real = false;
        assert_ok(presence_runtime_changed(f.presence));
        for (unsigned n = 0; n < 2; n++) {
                fake_clock_pass(f.event, minute_usec);
                assert_int_equal(fake_runtime_n_asked("ListImages"), n + 1);
                fake_runtime_refuse("ListImages", ERROR_TIMEOUT, "too late");
        }
        fake_clock_pass(f.event, minute_usec);
        answer_list(true);
        fake_clock_pass(f.event, 59 * minute_usec);
        assert_int_equal(fake_runtime_n_asked("ListImages"), 3);
}
