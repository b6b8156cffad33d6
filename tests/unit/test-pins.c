/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Labels that keep images, in a runtime that answers when the test says so
 */

#include "agent/image/pins.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/fake-runtime.h"
#include "tests/unit/idle-images.h"
#include "tests/unit/unit.h"

#define ID "sha256:6efc10a0510f143a90b69dc564a914574973223e88418d65c1f8809e08dc0a1f"

static struct Fixture {
        sd_event *event;
        Log *log;
        CompletionQueue *completions;
        Images *images;
        Pins *pins;
        unsigned n_rounds;
} f;

static void on_round(const Error *error, void *userdata) {
        assert_null(error);
        f.n_rounds++;
}

static int set_up(void **state) {
        ImagesOptions options;

        f = (struct Fixture){ .event = NULL };
        fake_runtime_reset();
        assert_true(sd_event_new(&f.event) >= 0);
        assert_ok(log_new(LOG_FORMAT_TEXT, -1, &f.log));
        assert_ok(completion_queue_new(f.event, &f.completions));
        options = idle_images_options(f.completions, f.log, NULL);
        assert_ok(images_new(&options, &f.images));
        assert_ok(pins_new(&(PinsOptions){ .event = f.event,
                                           .log = f.log,
                                           .images = f.images,
                                           .on_round = on_round },
                           &f.pins));
        return 0;
}

static int tear_down(void **state) {
        assert_null(pins_free(f.pins));
        images_free(f.images);
        assert_int_equal(fake_runtime_n_calls(), 0);
        completion_queue_free(f.completions);
        log_free(f.log);
        fake_clock_done();
        sd_event_unref(f.event);
        return 0;
}

/* An owner wants to keep these images, which are there; names end with NULL. */
static void keep(const char *const *names) {
        cleanup(desired_images_done) DesiredImages desired_images = DESIRED_IMAGES_INIT;

        for (; *names; names++) {
                DesiredImage desired;

                assert_ok(desired_image_init(&desired, *names, "1"));
                desired.policy = PULL_POLICY_IF_NOT_PRESENT;
                desired.is_pinned = true;
                assert_ok(desired_images_take(&desired_images, &desired));
        }
        assert_ok(images_set_desired(f.images, "file/x", &desired_images, REQUEST_DESIRED));
        fake_clock_turn(f.event);
        while (fake_runtime_find("ImageStatus")) {
                fake_runtime_answer_status(ID);
                fake_clock_turn(f.event);
        }
}

/* The runtime has records of these names, without any label; they end with NULL. */
static void begin_round(const char *const *names) {
        ImageRecords records = CONTAINERD__SERVICES__IMAGES__V1__LIST_IMAGES_RESPONSE__INIT;
        ImageRecord items[2], *list[2];

        for (; *names; names++) {
                ImageRecord *item = &items[records.n_images];

                containerd__services__images__v1__image__init(item);
                item->name = (char *) *names;
                list[records.n_images++] = item;
        }
        records.images = list;
        assert_ok(pins_runtime_changed(f.pins));
        while (!fake_runtime_find("ListRecords"))
                fake_clock_skip(f.event);
        fake_runtime_answer("ListRecords", &records, NULL);
}

static void show_images(const char *const *names) {
        CriImageList list = RUNTIME__V1__LIST_IMAGES_RESPONSE__INIT;
        CriImage image = RUNTIME__V1__IMAGE__INIT;

        image.id = (char *) ID;
        image.repo_tags = (char **) names;
        while (names[image.n_repo_tags])
                image.n_repo_tags++;
        list.images = &(CriImage *){ &image };
        list.n_images = 1;
        fake_runtime_answer("ListImages", &list, NULL);
}

/* The next label is set on this name. */
static void set_label(const char *name) {
        assert_string_equal(fake_runtime_find("SetLabels")->target, name);
        fake_runtime_answer("SetLabels", &fake_runtime, NULL);
        assert_true(pins_has(f.pins, name));
}

#define NAMES(...) ((const char *const[]){ __VA_ARGS__, NULL })
#define NGINX "docker.io/library/nginx:1"
#define REDIS "docker.io/library/redis:1"

/* The first pins of a node find no label that the agent has set before. */
TEST_SET_UP(test_first_pin) {
        keep(NAMES("nginx"));
        begin_round(NAMES(NGINX));
        assert_false(pins_has(f.pins, NGINX));
        show_images(NAMES(NGINX));
        set_label(NGINX);
        assert_int_equal(f.n_rounds, 1);
}

TEST_SET_UP(test_first_pins) {
        keep(NAMES("nginx", "redis"));
        begin_round(NAMES(NGINX, REDIS));
        show_images(NAMES(NGINX, REDIS));
        set_label(NGINX);
        set_label(REDIS);
        assert_int_equal(f.n_rounds, 1);
}

/* The list of all images is long: a node without pins does not ask for it. */
TEST_SET_UP(test_no_pins) {
        begin_round(NAMES(NULL));
        assert_int_equal(f.n_rounds, 1);
        assert_int_equal(fake_runtime_n_asked("ListImages"), 0);
}
