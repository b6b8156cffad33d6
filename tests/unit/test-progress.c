/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How far a pull has come, as a content store shows it that answers when the test says so
 */

#include "agent/image/progress.h"
#include "tests/unit/content-store.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/fake-runtime.h"
#include "tests/unit/unit.h"

#define CONFIG "sha256:cc"

static struct Fixture {
        sd_event *event;
        ProgressTracker *tracker;
        Progress *progress;
        bool is_blind; /* the runtime shows no bytes */
} f;

static int on_changed(const ProgressReport *report, void *userdata) {
        f.is_blind = !report;
        return 0;
}

static int on_stalled(void *userdata) {
        fail();
        return 0;
}

static int set_up(void **state) {
        f = (struct Fixture){ .event = NULL };
        fake_runtime_reset();
        assert_true(sd_event_new(&f.event) >= 0);
        assert_ok(progress_tracker_new(f.event, NULL, 0, &f.tracker));
        assert_ok(progress_begin(f.tracker, "lease", on_changed, on_stalled, NULL, &f.progress));
        return 0;
}

static int tear_down(void **state) {
        assert_null(progress_end(f.progress));
        assert_null(progress_tracker_free(f.tracker));
        assert_int_equal(fake_runtime_n_calls(), 0);
        fake_clock_done();
        sd_event_unref(f.event);
        return 0;
}

/* The next question for downloads is answered: with one, or with none if ref is NULL. */
static void show_download(const char *ref, int64_t offset) {
        ContentIngests list = CONTAINERD__SERVICES__CONTENT__V1__LIST_STATUSES_RESPONSE__INIT;
        ContentIngest ingest = CONTAINERD__SERVICES__CONTENT__V1__STATUS__INIT;

        while (!fake_runtime_find("ListIngests"))
                fake_clock_skip(f.event);
        ingest.ref = (char *) ref;
        ingest.offset = offset;
        list.statuses = &(ContentIngest *){ &ingest };
        list.n_statuses = ref != NULL;
        fake_runtime_answer("ListIngests", &list, NULL);
}

/* The lease has a manifest with this text. */
static void show_manifest(const char *text) {
        show_download(NULL, 0);
        content_answer_lease();
        content_answer_blob(CONTENT_MANIFEST);
        content_send_part(text);
        fake_runtime_answer("Read", NULL, NULL);
}

#define THREE_LAYERS                                                                      \
        "{\"config\":{\"digest\":\"" CONFIG "\",\"size\":7},\"layers\":["                 \
        "{\"digest\":\"sha256:11\",\"size\":100},{\"digest\":\"sha256:22\",\"size\":50}," \
        "{\"digest\":\"sha256:33\",\"size\":30}]}"

/* containerd fetches the layer that is on its way and all after it, but none before. */
TEST_SET_UP(test_needed_bytes) {
        show_manifest(THREE_LAYERS);
        content_answer_blob(CONFIG);
        show_download(NULL, 0);
        assert_int_equal(progress_report(f.progress)->step, IMAGE_STEP_DOWNLOADING);
        assert_int_equal(progress_report(f.progress)->bytes_needed, 0);
        show_download("layer-sha256:22", 20);
        assert_int_equal(progress_report(f.progress)->bytes_done, 20);
        assert_int_equal(progress_report(f.progress)->bytes_needed, 30 + 30);
}

/* Layers that do not come were unpacked before; between two layers there may be none for a moment. */
TEST_SET_UP(test_layers_that_do_not_come) {
        unsigned n = 0;

        show_manifest(THREE_LAYERS);
        content_answer_blob(CONFIG);
        show_download("layer-sha256:11", 100);
        for (; progress_report(f.progress)->step == IMAGE_STEP_DOWNLOADING && n < 100; n++)
                show_download(NULL, 0);
        assert_in_range(n, 2, 99);
        assert_int_equal(progress_report(f.progress)->step, IMAGE_STEP_UNPACKING);
}

/* It would be unreadable again. */
TEST_SET_UP(test_unreadable_manifest_is_read_once) {
        show_manifest("{");
        for (unsigned n = 0; n < 3; n++)
                show_download(NULL, 0);
        assert_int_equal(fake_runtime_n_asked("ListResources"), 1);
        assert_int_equal(fake_runtime_n_asked("Read"), 1);
        assert_int_equal(progress_report(f.progress)->step, IMAGE_STEP_RESOLVING);
}

/* A pull that began before the runtime was known learns that it shows no bytes. */
TEST_SET_UP(test_no_content_store) {
        while (!fake_runtime_find("ListIngests"))
                fake_clock_skip(f.event);
        fake_runtime_refuse("ListIngests", ERROR_UNSUPPORTED, "unknown service");
        assert_true(f.is_blind);
        assert_int_equal(progress_tracker_support(f.tracker), PROGRESS_UNSUPPORTED);
}
