/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Which pods pulls pause for, with a runtime that has the images that the test says
 */

#include <dlfcn.h>

#include "agent/base/time-units.h"
#include "agent/cluster/pod-waits.h"
#include "tests/unit/fake-runtime.h"
#include "tests/unit/idle-images.h"
#include "tests/unit/metric-value.h"
#include "tests/unit/unit.h"

#define ID "sha256:6efc10a0510f143a90b69dc564a914574973223e88418d65c1f8809e08dc0a1f"

static struct Fixture {
        sd_event *event;
        Log *log;
        Metrics *metrics;
        CompletionQueue *completions;
        Images *images;
        PodsWatcher *watcher;
        PodWaits *waits;
} f;

/* So much later it seems to be. */
static uint64_t later_usec;

int sd_event_now(sd_event *event, clockid_t clock, uint64_t *ret) {
        int (*original)(sd_event *, clockid_t, uint64_t *) = dlsym(RTLD_NEXT, "sd_event_now");
        int r = original(event, clock, ret);

        *ret += later_usec;
        return r;
}

/* Timers that were made. */
static unsigned n_timers;

int sd_event_add_time(sd_event *event, sd_event_source **ret, clockid_t clock, uint64_t usec,
                      uint64_t accuracy, sd_event_time_handler_t callback, void *userdata) {
        int (*original)(sd_event *, sd_event_source **, clockid_t, uint64_t, uint64_t,
                        sd_event_time_handler_t, void *) = dlsym(RTLD_NEXT, "sd_event_add_time");

        n_timers++;
        return original(event, ret, clock, usec, accuracy, callback, userdata);
}

void pods_watch(Pods *pods, PodsWatcher *watcher) {
        f.watcher = watcher;
}

void pods_unwatch(Pods *pods, PodsWatcher *watcher) {
        f.watcher = NULL;
}

static void run(void) {
        assert_true(sd_event_run(f.event, WAIT_USEC) > 0);
}

static const ImageStatus *status_of(const char *name) {
        Image *image;

        assert_ok(images_find(f.images, name, "1", &image));
        return image_status(image);
}

/* Two images that are being pulled. */
static void start_pulls(void) {
        DesiredImage desired[2];

        for (size_t i = 0; i < 2; i++) {
                assert_ok(desired_image_init(&desired[i], i == 0 ? "big" : "shared", "1"));
                desired[i].policy = PULL_POLICY_ALWAYS;
        }
        assert_ok(images_set_desired(f.images, "file/x",
                                     &(DesiredImages){ .items = desired, .n_items = 2 },
                                     REQUEST_DESIRED));
        for (size_t i = 0; i < 2; i++)
                desired_image_done(&desired[i]);
        while (fake_runtime_n_asked("PullImage") < 2)
                run();
}

static int set_up(void **state) {
        ImagesOptions options;

        f = (struct Fixture){ .event = NULL };
        later_usec = 0;
        fake_runtime_reset();
        assert_true(sd_event_new(&f.event) >= 0);
        assert_ok(log_new(LOG_FORMAT_TEXT, -1, &f.log));
        f.metrics = metrics_for_test();
        assert_ok(completion_queue_new(f.event, &f.completions));
        options = idle_images_options(f.completions, f.log, NULL);
        options.metrics = f.metrics;
        options.limits.max_parallel_pulls = 2;
        options.keys.ask = idle_images_ask_keys;
        assert_ok(images_new(&options, &f.images));
        assert_ok(pod_waits_new(&(PodWaitsOptions){ .event = f.event,
                                                    .log = f.log,
                                                    .metrics = f.metrics,
                                                    .images = f.images,
                                                    .limit_usec = 60 * USEC_PER_SEC },
                                &f.waits));
        start_pulls();
        return 0;
}

static int tear_down(void **state) {
        assert_null(pod_waits_free(f.waits));
        assert_null(f.watcher);
        images_free(f.images);
        assert_int_equal(fake_runtime_n_calls(), 0);
        completion_queue_free(f.completions);
        metrics_free(f.metrics);
        log_free(f.log);
        sd_event_unref(f.event);
        return 0;
}

/* The state of a pod "x/y" with one container. */
typedef struct Shown {
        PodContainer container;
        Pod pod;
} Shown;

static Shown *make(const char *image, bool is_next, bool is_running) {
        static Shown shown[8];
        static size_t n;
        Shown *made = &shown[n++ % 8];

        made->container = (PodContainer){ .name = (char *) "main",
                                          .image = (char *) image,
                                          .is_next = is_next,
                                          .is_running = is_running };
        made->pod = (Pod){ .namespace = (char *) "x",
                           .name = (char *) "y",
                           .uid = (char *) "u",
                           .containers = &made->container,
                           .n_containers = 1 };
        return made;
}

static void show(const Shown *now, const Shown *before) {
        assert_ok(f.watcher->on_pod(&now->pod, before ? &before->pod : NULL, f.watcher->userdata));
}

static void answer(bool is_held) {
        if (is_held)
                fake_runtime_answer_status(ID);
        else
                fake_runtime_answer_status(NULL);
}

static bool is_paused(const char *name) {
        return status_of(name)->step == IMAGE_STEP_WAITING_FOR_POD;
}

/* Lets the next question for images come and answers it. */
static void poll_images(uint64_t usec, bool is_held) {
        later_usec += usec;
        while (!fake_runtime_find("ImageStatus"))
                run();
        answer(is_held);
}

TEST_SET_UP(test_pauses) {
        show(make("nginx", true, false), NULL);
        assert_string_equal(fake_runtime_find("ImageStatus")->target,
                            "docker.io/library/nginx:latest");
        assert_false(is_paused("big"));
        answer(false);
        assert_true(is_paused("big") && is_paused("shared"));
        assert_int_equal(fake_runtime_count("PullImage"), 0);
        assert_contains(status_of("big")->message, "PodWaits: pod x/y waits for its image; ");

        poll_images(0, true);
        assert_true(is_paused("big"));
        later_usec += USEC_PER_SEC;
        while (is_paused("big"))
                run();
        while (fake_runtime_count("PullImage") < 2)
                run();
        assert_true(metric_value(f.metrics, "inplaced_pulls_paused_seconds_total") > 1);
}

/* Nothing is asked again, so that an idle node does not wake up for it. */
TEST_SET_UP(test_image_is_held) {
        unsigned n_before = n_timers;

        show(make("nginx", true, false), NULL);
        answer(true);
        assert_false(is_paused("big"));
        assert_int_equal(n_timers, n_before);
        show(make("nginx", true, false), make("nginx", true, false));
        assert_null(fake_runtime_find("ImageStatus"));
}

/* A failed question is asked again, and nothing pauses until it is answered. */
TEST_SET_UP(test_runtime_fails) {
        show(make("nginx", true, false), NULL);
        fake_runtime_refuse("ImageStatus", ERROR_INTERNAL, "busy");
        assert_false(is_paused("big"));
        poll_images(0, false);
        assert_true(is_paused("big"));
}

TEST_SET_UP(test_same_image) {
        show(make("shared:1", true, false), NULL);
        answer(false);
        assert_true(is_paused("big"));
        assert_false(is_paused("shared"));
        assert_int_equal(fake_runtime_count("PullImage"), 1);
}

static const struct Quiet {
        const char *name;
        bool is_next, is_running, is_pulled_never, is_deleted;
        const char *image;
} quiets[] = {
        { "it runs", false, true, false, false, "nginx" },
        { "it backs off", false, false, false, false, "nginx" },
        { "the policy is Never", true, false, true, false, "nginx" },
        { "it is deleted", true, false, false, true, "nginx" },
        { "its image is no name", true, false, false, false, "Nginx::" },
};

TEST_ROWS_F(test_quiet, quiets, name, const struct Quiet *row, void *unused) {
        Shown *shown = make(row->image, row->is_next, row->is_running);

        shown->container.is_pulled_never = row->is_pulled_never;
        shown->pod.is_deleted = row->is_deleted;
        show(shown, NULL);
        assert_null(fake_runtime_find("ImageStatus"));
}

/* The kubelet pulls the image of a volume before it starts the container, whose own image is there. */
TEST_SET_UP(test_volume) {
        static char data[] = "data", *volumes[] = { data, NULL };
        Shown *new = make("nginx", true, false), *running = make("nginx", false, true);

        new->pod.volume_images = running->pod.volume_images = volumes;
        show(running, NULL);
        assert_null(fake_runtime_find("ImageStatus"));

        show(new, NULL);
        assert_string_equal(fake_runtime_find("ImageStatus")->target,
                            "docker.io/library/data:latest");
        answer(false);
        assert_string_equal(fake_runtime_find("ImageStatus")->target,
                            "docker.io/library/nginx:latest");
        answer(true);
        assert_true(is_paused("big"));

        show(running, new);
        later_usec += 2 * USEC_PER_SEC;
        while (is_paused("big"))
                run();
        assert_null(fake_runtime_find("ImageStatus"));
}

/* The container runs until the kubelet replaces it, before it pulls. */
TEST_SET_UP(test_changed_image) {
        Shown *old = make("nginx:1", false, true), *new = make("nginx:2", false, true);

        show(old, NULL);
        assert_null(fake_runtime_find("ImageStatus"));
        show(new, old);
        answer(false);
        assert_true(is_paused("big"));
        show(new, new);
        poll_images(2 * USEC_PER_SEC, false);
        assert_true(is_paused("big"));

        show(old, new);
        answer(true);
        later_usec += 2 * USEC_PER_SEC;
        while (is_paused("big"))
                run();
}

static const struct End {
        const char *name;
        bool is_gone, is_next, is_running;
        const char *uid;
} ends[] = {
        { "the pod is gone", true, false, false, NULL },
        { "the pull has failed", false, false, false, NULL },
        { "another pod has its name", false, false, true, "another" },
        { "the container runs", false, false, true, NULL },
};

TEST_ROWS_F(test_ends, ends, name, const struct End *row, void *unused) {
        Shown *before = make("nginx", true, false);
        Shown *now = make("nginx", row->is_next, row->is_running);

        now->pod.uid = (char *) (row->uid ?: "u");
        show(before, NULL);
        answer(false);
        assert_true(is_paused("big"));
        if (row->is_gone)
                assert_ok(f.watcher->on_gone(&before->pod, f.watcher->userdata));
        else
                show(now, before);
        later_usec += 2 * USEC_PER_SEC;
        while (is_paused("big"))
                run();
        assert_null(fake_runtime_find("ImageStatus"));
}

/* A pod that has waited for the limit does not count any more; another one does. */
TEST_SET_UP(test_limit) {
        Shown *first = make("nginx", true, false), *other = make("other", true, false);

        show(first, NULL);
        answer(false);
        poll_images(60 * USEC_PER_SEC, false);
        assert_false(is_paused("big"));
        later_usec += 120 * USEC_PER_SEC;
        show(first, first);
        assert_false(is_paused("big"));

        other->pod.uid = (char *) "another";
        other->pod.name = (char *) "z";
        show(other, NULL);
        answer(false);
        assert_true(is_paused("big"));
        assert_contains(status_of("big")->message, "pod x/z waits");
}

/* An option switches it off, and on again. */
TEST_SET_UP(test_switch) {
        assert_ok(pod_waits_set_limit(f.waits, 0));
        show(make("nginx", true, false), NULL);
        answer(false);
        assert_false(is_paused("big"));
        assert_ok(pod_waits_set_limit(f.waits, 60 * USEC_PER_SEC));
        assert_true(is_paused("big"));
}
