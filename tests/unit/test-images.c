/* SPDX-License-Identifier: Apache-2.0 */

/*
 * All images of a node, those of the previous run among them
 *
 * The images are real, on a node without a runtime: none is ever pulled.
 */

#include "agent/image/images.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/idle-images.h"
#include "tests/unit/unit.h"

#define NOW 1769903999

static struct Fixture {
        sd_event *event;
        Log *log;
        CompletionQueue *completions;
        Runtimes *runtimes;
        Images *images;
        char done[64]; /* owners whose requests are done, with a space behind each */
} f;

static void on_done(const Image *image, const ImageRequest *request, void *userdata) {
        assert_ptr_equal(userdata, &f);
        strcat(strcat(f.done, request->owner), " ");
}

static int set_up(void **state) {
        ImagesOptions options;

        f = (struct Fixture){ .event = NULL };
        assert_true(sd_event_new(&f.event) >= 0);
        assert_ok(log_new(LOG_FORMAT_TEXT, -1, &f.log));
        assert_ok(completion_queue_new(f.event, &f.completions));
        assert_ok(runtimes_new(f.completions, &(RuntimesOptions){ .n_paths = 0 }, &f.runtimes));
        options = idle_images_options(f.completions, f.log, f.runtimes);
        options.on_done = on_done;
        options.outcome_userdata = &f;
        assert_ok(images_new(&options, &f.images));
        return 0;
}

static int tear_down(void **state) {
        images_free(f.images);
        runtimes_free(f.runtimes);
        completion_queue_free(f.completions);
        log_free(f.log);
        fake_clock_done();
        sd_event_unref(f.event);
        return 0;
}

/* An owner desires this one image; name NULL: none. fault may be NULL. */
static void desire(const char *owner, const char *name, const char *fault) {
        cleanup(desired_images_done) DesiredImages desired_images = DESIRED_IMAGES_INIT;
        DesiredImage desired;

        if (name) {
                assert_ok(desired_image_init(&desired, name, "1"));
                desired.fault = fault ? strdup(fault) : NULL;
                assert_ok(desired_images_take(&desired_images, &desired));
        }
        assert_ok(images_set_desired(f.images, owner, &desired_images, REQUEST_DESIRED));
}

/* The previous run had this image for its owner "file/x". */
static void restore(const char *name, const ImageOnDemand *on_demand) {
        ImageStatus status = { .phase = IMAGE_SUCCEEDED,
                               .completed_at = NOW,
                               .on_demand = *on_demand };

        assert_ok(images_restore(f.images, name, "1", &status));
        assert_ok(images_restore_request(
                f.images, name, "1",
                &(FormerRequest){ .owner = "file/x", .spelling = name, .is_done = true }));
}

static bool is_done(const char *owner, const char *name) {
        Image *image;

        assert_ok(images_find(f.images, name, "1", &image));
        for (const ImageRequest *request = image_requests(image); request; request = request->next)
                if (strcmp(request->owner, owner) == 0)
                        return request->is_done;

        fail_msg("%s does not request %s", owner, name);
        return false;
}

/* Each is reported once. */
TEST_SET_UP(test_done_requests_are_reported) {
        desire("file/x", "nginx", "it has no name");
        desire("file/y", "nginx", NULL);
        desire("file/z", "redis", "it has no name");
        for (unsigned n = 0; n < 2; n++) {
                fake_clock_turn(f.event);
                assert_string_equal(f.done, "file/x file/z ");
                desire("file/y", "redis", NULL);
        }
}

/* An image that no owner desires any more is not kept, whether it was finished or not. */
TEST_SET_UP(test_restored_for_no_owner) {
        const FormerRequest former = { .owner = "file/x", .spelling = "redis" };
        ImageStatus status = { .phase = IMAGE_SUCCEEDED, .completed_at = NOW };

        assert_ok(images_restore(f.images, "nginx", "1", &status));
        assert_ok(images_restore_request(f.images, "redis", "1", &former));
        assert_int_equal(images_count(f.images), 2);
        images_restore_end(f.images);
        fake_clock_turn(f.event);
        assert_int_equal(images_count(f.images), 0);
}

/* A request of the previous run is done if its owner repeats it at the start, but not when it comes later. */
TEST_SET_UP(test_end_of_the_restored) {
        static const char *const names[] = { "nginx", "redis" };
        const ImageOnDemand none = { .n_layers = 0 };

        for (size_t i = 0; i < N_ELEMENTS(names); i++) {
                restore(names[i], &none);
                desire("file/x", names[i], NULL);
                assert_true(is_done("file/x", names[i]));
                desire("file/x", NULL, NULL);
        }
        assert_false(images_are_complete(f.images));
        images_restore_end(f.images);
        assert_true(images_are_complete(f.images));
        for (size_t i = 0; i < N_ELEMENTS(names); i++) {
                desire("file/x", names[i], NULL);
                assert_false(is_done("file/x", names[i]));
        }
}

/* Nothing is to be asked about layers of an image that has gone meanwhile. */
TEST_SET_UP(test_no_image_arrives_any_more) {
        const ImageOnDemand half = { .n_layers = 1,
                                     .n_layers_all = 1,
                                     .is_counted = true,
                                     .bytes_present = 1,
                                     .bytes_total = 2 };

        restore("nginx", &half);
        desire("file/x", "nginx", NULL);
        images_restore_end(f.images);
        fake_clock_turn(f.event);
        assert_true(image_is_arriving(images_get(f.images, 0)));
        desire("file/x", NULL, NULL);
        fake_clock_pass(f.event, 60 * SEC);
        assert_int_equal(images_count(f.images), 0);
        assert_int_equal(fake_clock_delay(), UINT64_MAX);
}
