/* SPDX-License-Identifier: Apache-2.0 */

/*
 * When the status file is written and read, and what becomes of a folder or a file that cannot be used
 */

#include <malloc.h>
#include <time.h>

#include "agent/node/owner.h"
#include "agent/node/state-file.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/idle-images.h"
#include "tests/unit/metric-value.h"
#include "tests/unit/scratch-folder.h"
#include "tests/unit/stderr-capture.h"

#define MSEC ((uint64_t) 1000)
#define EMPTY \
        "{\"apiVersion\":\"apps.kruise.io/v1alpha1\",\"kind\":\"NodeImage\",\"spec\":{\"images\":{}}}"

static struct Fixture {
        IdleNode node;
        Log *log;
        Metrics *metrics;
        char folder[SCRATCH_SIZE];
        char *path;
        StateFile *file;
        uint64_t duration_usec; /* time that a write takes */
        unsigned n_writes;      /* and attempts */
} f;

int clock_gettime(clockid_t clock, struct timespec *ret) {
        *ret = (struct timespec){ .tv_sec = (time_t) (fake_clock.now_usec / SEC),
                                  .tv_nsec = (long) (fake_clock.now_usec % SEC) * 1000 };
        return 0;
}

/* A write takes time. */
static const char *get_runtime(void *userdata) {
        f.n_writes++;
        fake_clock.now_usec += f.duration_usec;
        return "it runs";
}

static int lacks(const char *owner, void *userdata) {
        return 0;
}

static int set_up(void **state) {
        f = (struct Fixture){ .duration_usec = 0 };
        idle_node_open(&f.node);
        assert_ok(metrics_new(&(MetricsOptions){ .version = "test" }, &f.metrics));
        assert_ok(log_new(LOG_FORMAT_TEXT, LOG_INFO, &f.log));
        scratch_make(f.folder);
        f.path = scratch_path(f.folder, "nodeimage.json");
        return 0;
}

static int tear_down(void **state) {
        state_file_free(f.file);
        fake_clock_done();
        metrics_free(f.metrics);
        log_free(f.log);
        idle_node_close(&f.node);
        remove_tree(f.folder);
        free(f.path);
        return 0;
}

static void start(void) {
        f.file = state_file_free(f.file);
        assert_ok(state_file_new(&(StateFileOptions){ .event = f.node.event,
                                                      .log = f.log,
                                                      .metrics = f.metrics,
                                                      .images = f.node.images,
                                                      .directory = f.folder,
                                                      .node_name = "n1",
                                                      .lacks = lacks,
                                                      .get_runtime = get_runtime },
                                 &f.file));
        assert_string_equal(state_file_path(f.file), f.path);
}

static void desire(const char *tag) {
        DesiredImage desired;

        assert_ok(desired_image_init(&desired, "r.io/a", tag));
        assert_ok(images_set_desired(f.node.images, OWNER_FILE "x",
                                     &(DesiredImages){ .items = &desired, .n_items = 1 },
                                     REQUEST_DESIRED));
        desired_image_done(&desired);
}

TEST_SET_UP(test_written_now) {
        struct stat status;
        cleanup(free_p) char *temporary = scratch_path(f.folder, ".nodeimage.json.new");

        start();
        assert_int_equal(access(f.path, F_OK), -1);
        assert_ok(state_file_write_now(f.file));
        assert_ok(stat(f.path, &status));
        assert_int_equal(status.st_mode & 07777, 0640);
        assert_int_equal(access(temporary, F_OK), -1);
        assert_int_equal(state_file_get_error(f.file)->kind, ERROR_NONE);
        assert_true(metric_value(f.metrics, "inplaced_status_writes_total{result=\"succeeded\"}") ==
                    1);
}

/* The first change is written at once, those after it together, when ten times as long as the write took has passed. */
TEST_SET_UP(test_changes_share_a_write) {
        start();
        f.duration_usec = 20 * MSEC;
        assert_ok(state_file_touch(f.file));
        assert_ok(state_file_touch(f.file));
        assert_int_equal(fake_clock_delay(), 0);
        fake_clock_pass(f.node.event, 20 * MSEC);
        assert_int_equal(f.n_writes, 1);
        assert_int_equal(fake_clock_delay(), UINT64_MAX);

        assert_ok(state_file_touch(f.file));
        assert_int_equal(fake_clock_delay(), 200 * MSEC);
        assert_ok(state_file_touch(f.file));
        fake_clock_pass(f.node.event, 200 * MSEC - 1);
        assert_int_equal(f.n_writes, 1);
        fake_clock_pass(f.node.event, 1);
        assert_int_equal(f.n_writes, 2);

        f.duration_usec = 51 * MSEC;
        assert_ok(state_file_write_now(f.file));
        assert_ok(state_file_touch(f.file));
        assert_int_equal(fake_clock_delay(), 500 * MSEC);
}

TEST_SET_UP(test_images_that_change) {
        start();
        desire("1");
        fake_clock_pass(f.node.event, SEC);
        assert_int_equal(f.n_writes, 1);
        desire("1");
        fake_clock_pass(f.node.event, SEC);
        assert_int_equal(f.n_writes, 1);
        desire("2");
        fake_clock_pass(f.node.event, SEC);
        assert_true(f.n_writes > 1);
}

TEST_SET_UP(test_folder_that_is_gone) {
        cleanup(free_p) char *line = NULL;
        Stderr captured;

        start();
        remove_tree(f.folder);
        stderr_pipe(&captured);
        assert_ok(state_file_write_now(f.file));
        assert_int_equal(state_file_get_error(f.file)->kind, ERROR_UNAVAILABLE);
        assert_string_equal(error_message(state_file_get_error(f.file)),
                            "cannot be written: No such file or directory");
        assert_int_equal(fake_clock_delay(), 5 * SEC);
        fake_clock_pass(f.node.event, 5 * SEC);
        assert_int_equal(f.n_writes, 2);
        assert_ok(mkdir(f.folder, 0700));
        fake_clock_pass(f.node.event, 5 * SEC - 1);
        assert_int_equal(f.n_writes, 2);
        fake_clock_pass(f.node.event, 1);
        assert_int_equal(f.n_writes, 3);
        assert_int_equal(state_file_get_error(f.file)->kind, ERROR_NONE);
        assert_true(
                asprintf(
                        &line,
                        "error Cannot write \"%s\": No such file or directory, retrying every 5 s.\ninfo Wrote \"%s\" again.\n",
                        f.path, f.path) > 0);
        assert_string_equal(stderr_restore_log(&captured), line);
        assert_true(metric_value(f.metrics, "inplaced_status_writes_total{result=\"failed\"}") ==
                    2);
}

/* A change that is due is written at the end, if the agent ran. */
TEST_SET_UP(test_end) {
        start();
        assert_ok(state_file_touch(f.file));
        f.file = state_file_free(f.file);
        assert_int_equal(f.n_writes, 0);

        f.duration_usec = 20 * MSEC;
        start();
        assert_ok(state_file_write_now(f.file));
        assert_ok(state_file_touch(f.file));
        assert_ok(sd_event_exit(f.node.event, 0));
        while (sd_event_get_state(f.node.event) != SD_EVENT_FINISHED)
                assert_true(sd_event_run(f.node.event, 0) >= 0);
        f.file = state_file_free(f.file);
        assert_int_equal(f.n_writes, 2);
}

static const struct FileRow {
        const char *name;
        const char *text; /* NULL: a folder */
        const char *warning;
} file_rows[] = {
        { "empty object", EMPTY, "" },
        { "no JSON", "{",
          "warning Cannot understand \"%s\": not valid JSON: it ends too early, starting without it.\n" },
        { "another kind", "{\"kind\":\"Pod\"}",
          "warning Cannot understand \"%s\": has no apiVersion, but should be a NodeImage (apps.kruise.io), starting without it.\n" },
        { "a folder", NULL,
          "warning Cannot read \"%s\": Invalid argument, starting without it.\n" },
};

TEST_ROWS_F(test_files, file_rows, name, const struct FileRow *row, void *state) {
        cleanup(free_p) char *line = NULL;
        Stderr captured;

        if (row->text)
                write_file(f.path, row->text);
        else
                assert_ok(mkdir(f.path, 0700));
        stderr_pipe(&captured);
        start();
        (void) stderr_restore_log(&captured);
        assert_true(asprintf(&line, row->warning, f.path) >= 0);
        assert_string_equal(captured.text, line);
}
