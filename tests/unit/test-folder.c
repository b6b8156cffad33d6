/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The images folder as a source of desired images, with a real folder
 *
 * The images are real, too, on a node without a runtime: none is ever pulled.
 */

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/base/cleanup.h"
#include "agent/node/folder.h"
#include "tests/unit/idle-images.h"
#include "tests/unit/stderr-capture.h"

#define WAIT_USEC ((uint64_t) 60 * 1000000)
#define PATH "/tmp/test-folder-XXXXXX"
#define HEAD "apiVersion: apps.kruise.io/v1alpha1\nkind: NodeImage\n"
#define DESIRED(image) HEAD "spec: {images: {" image ": {tags: [{tag: \"1\"}]}}}\n"

static struct Fixture {
        char path[sizeof(PATH)];
        sd_event *event;
        Stderr captured;
        Log *log;
        CompletionQueue *completions;
        Runtimes *runtimes;
        Images *images;
        Folder *folder;
        unsigned n_changes;
        char owned[512]; /* "NAME OWNER..., " of each image */
} f;

static void on_changed(void *userdata) {
        f.n_changes++;
}

static int set_up(void **state) {
        f = (struct Fixture){ .path = PATH };
        assert_non_null(mkdtemp(f.path));
        stderr_pipe(&f.captured);
        assert_true(sd_event_new(&f.event) >= 0);
        assert_int_equal(log_new(LOG_FORMAT_TEXT, LOG_INFO, &f.log), 0);
        idle_images_new(f.event, f.log, &f.completions, &f.runtimes, &f.images);
        return 0;
}

static char *path_of(const char *name) {
        char *path;

        assert_true(asprintf(&path, "%s/%s", f.path, name) > 0);
        return path;
}

static void delete (const char *name) {
        cleanup(free_p) char *path = path_of(name);

        assert_int_equal(unlink(path), 0);
}

static int tear_down(void **state) {
        assert_null(folder_free(f.folder));
        images_free(f.images);
        runtimes_free(f.runtimes);
        completion_queue_free(f.completions);
        log_free(f.log);
        sd_event_unref(f.event);
        fputs(stderr_restore(&f.captured), stderr);
        assert_int_equal(rmdir(f.path), 0);
        return 0;
}

/* Appears at once, as editors and tools do it. */
static void put(const char *name, const char *text) {
        cleanup(free_p) char *path = path_of(name), *temporary = path_of(".new");
        cleanup(close_p) int fd = open(temporary, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), strlen(text));
        assert_int_equal(rename(temporary, path), 0);
}

static void start(void) {
        const FolderOptions options = {
                .event = f.event,
                .log = f.log,
                .images = f.images,
                .path = f.path,
                .on_changed = on_changed,
        };

        assert_int_equal(folder_new(&options, &f.folder), 0);
}

static const char *describe(void) {
        f.owned[0] = '\0';
        for (size_t i = 0; i < images_count(f.images); i++) {
                const Image *image = images_get(f.images, i);

                strcat(strcat(f.owned, image_name(image)), " ");
                for (const ImageRequest *request = image_requests(image); request;
                     request = request->next)
                        strcat(strcat(f.owned, request->owner), request->next ? " " : ", ");
        }

        return f.owned;
}

static void await(const char *owned) {
        while (strcmp(describe(), owned) != 0)
                assert_true(sd_event_run(f.event, WAIT_USEC) > 0);
}

/* What it holds at the start, and what comes, changes and goes. */
static void test_files(void **state) {
        put("a.yaml", DESIRED("one"));
        start();
        assert_int_equal(f.n_changes, 1);
        await("one file/a.yaml, ");
        put("b.yaml", DESIRED("two"));
        await("one file/a.yaml, two file/b.yaml, ");
        put("a.yaml", DESIRED("three"));
        await("three file/a.yaml, two file/b.yaml, ");
        delete ("a.yaml");
        await("two file/b.yaml, ");
        delete ("b.yaml");
        await("");
}

#define KEPT ", keeping its last good content."
#define NONE ", it has had no good content yet."

/* The last good content counts, if there is any, and each reason is logged once. */
static void test_malformed_file(void **state) {
        cleanup(free_p) char *line = NULL;
        const char *said, *at;

        put("a.yaml", DESIRED("one"));
        start();
        await("one file/a.yaml, ");
        put("a.yaml", "{");
        while (images_dir_get_file(folder_dir(f.folder), 0)->error.kind == ERROR_NONE)
                assert_true(sd_event_run(f.event, WAIT_USEC) > 0);
        assert_int_equal(folder_rescan(f.folder), 0);
        put("never.yaml", "{");
        put("b.yaml", DESIRED("two"));
        await("one file/a.yaml, two file/b.yaml, ");
        said = stderr_restore(&f.captured);
        assert_true(asprintf(&line, "Cannot use \"%s/a.yaml\": ", f.path) > 0);
        at = strstr(said, line);
        assert_non_null(at);
        assert_null(strstr(at + 1, line));
        assert_memory_equal(strchr(at, '\n') - strlen(KEPT), KEPT, strlen(KEPT));
        at = strstr(said, "/never.yaml\": ");
        assert_non_null(at);
        assert_memory_equal(strchr(at, '\n') - strlen(NONE), NONE, strlen(NONE));
        delete ("never.yaml");
        stderr_pipe(&f.captured);
        put("a.yaml", DESIRED("three"));
        await("three file/a.yaml, two file/b.yaml, ");
        delete ("a.yaml");
        delete ("b.yaml");
}

/* A file desires what no other one does any more; the image of the other stays. */
static void test_shared_image(void **state) {
        put("a.yaml", DESIRED("one"));
        put("b.yaml", DESIRED("one"));
        start();
        await("one file/a.yaml file/b.yaml, ");
        delete ("b.yaml");
        await("one file/a.yaml, ");
        delete ("a.yaml");
        await("");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_files, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_malformed_file, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_shared_image, set_up, tear_down),
        };

        return cmocka_run_group_tests_name("images folder", tests, NULL, NULL);
}
