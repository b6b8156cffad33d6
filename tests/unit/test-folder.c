/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The images folder as a source of desired images, with a real folder
 *
 * The images are real, too, on a node without a runtime: none is ever pulled.
 */

#include <fcntl.h>
#include <unistd.h>

#include "agent/node/folder.h"
#include "agent/node/node-image.h"
#include "tests/unit/idle-images.h"
#include "tests/unit/stderr-capture.h"
#include "tests/unit/unit.h"

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
        assert_ok(log_new(LOG_FORMAT_TEXT, LOG_INFO, &f.log));
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

        assert_ok(unlink(path));
}

static int tear_down(void **state) {
        assert_null(folder_free(f.folder));
        images_free(f.images);
        runtimes_free(f.runtimes);
        completion_queue_free(f.completions);
        log_free(f.log);
        sd_event_unref(f.event);
        fputs(stderr_restore(&f.captured), stderr);
        assert_ok(rmdir(f.path));
        return 0;
}

/* Appears at once, as editors and tools do it. */
static void put(const char *name, const char *text) {
        cleanup(free_p) char *path = path_of(name), *temporary = path_of(".new");
        cleanup(close_p) int fd = open(temporary, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), strlen(text));
        assert_ok(rename(temporary, path));
}

static void start(void) {
        const FolderOptions options = {
                .event = f.event,
                .log = f.log,
                .images = f.images,
                .path = f.path,
                .on_changed = on_changed,
        };

        assert_ok(folder_new(&options, &f.folder));
        assert_ok(folder_reconcile(f.folder));
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

/* Files that are there at the start are reported, and those that come, change and go. */
TEST_SET_UP(test_files) {
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

/* The last good content counts, if there is one, and each reason is logged once. */
TEST_SET_UP(test_malformed_file) {
        cleanup(free_p) char *line = NULL;
        const char *said, *at;

        put("a.yaml", DESIRED("one"));
        start();
        await("one file/a.yaml, ");
        put("a.yaml", "{");
        while (images_dir_get_file(folder_dir(f.folder), 0)->error.kind == ERROR_NONE)
                assert_true(sd_event_run(f.event, WAIT_USEC) > 0);
        assert_ok(folder_rescan(f.folder));
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

/* A file gives up its image, which no other file requests; the image of the other file stays. */
TEST_SET_UP(test_shared_image) {
        put("a.yaml", DESIRED("one"));
        put("b.yaml", DESIRED("one"));
        start();
        await("one file/a.yaml file/b.yaml, ");
        delete ("b.yaml");
        await("one file/a.yaml, ");
        delete ("a.yaml");
        await("");
}

/* Files without good content have what a previous run had of them. */
TEST_SET_UP(test_files_that_lack) {
        put("a.yaml", DESIRED("one"));
        put("b.yaml", "{");
        put("c.yaml", "");
        start();
        assert_int_equal(folder_lacks(f.folder, "file/a.yaml"), 0);
        assert_int_equal(folder_lacks(f.folder, "file/b.yaml"), 1);
        assert_int_equal(folder_lacks(f.folder, "file/c.yaml"), 1);
        assert_int_equal(folder_lacks(f.folder, "file/gone.yaml"), 0);
        assert_int_equal(folder_lacks(f.folder, "request/b.yaml"), 0);
        delete ("a.yaml");
        delete ("b.yaml");
        delete ("c.yaml");
}

/* A file that failed in the previous run is not tried again because the agent reads it, but when it is written again. */
TEST_SET_UP(test_failed_before) {
        ImageStatus status = { .phase = IMAGE_FAILED, .completed_at = 1769903999 };
        const char *text = HEAD "spec: {images: {one: {tags: [{tag: \"1\", "
                                "pullPolicy: {activeDeadlineSeconds: 60}}]}}}\n";
        const ImageRequest *request;

        assert_ok(images_restore(f.images, "one", "1", &status));
        assert_ok(images_restore_request(
                f.images, "one", "1",
                &(FormerRequest){ .owner = "file/a.yaml", .spelling = "one", .is_done = true }));
        put("a.yaml", text);
        start();
        request = image_requests(images_get(f.images, 0));
        assert_true(request->is_done);
        put("a.yaml", text);
        while (request->is_done)
                assert_true(sd_event_run(f.event, WAIT_USEC) > 0);
        delete ("a.yaml");
}

static int lacks(const char *owner, void *userdata) {
        return 1;
}

/* The next run, in which the document cannot be read, gets all of it but its owners from the status file. */
static void assert_survives(const DesiredImage *desired) {
        const NodeImageOptions options = { .images = f.images, .node_name = "node-1" };
        cleanup(desired_image_done) DesiredImage expected = { .name = NULL };
        cleanup(free_p) char *text = NULL;
        CompletionQueue *completions;
        Runtimes *runtimes;
        Images *images;

        assert_ok(node_image_to_text(&options, &text));
        assert_ok(desired_image_copy(desired, &expected));
        desired_image_clear_owners(&expected);
        idle_images_new(f.event, f.log, &completions, &runtimes, &images);
        assert_ok(node_image_restore(images, text, strlen(text), lacks, NULL, NULL));
        assert_int_equal(images_count(images), 1);
        if (!desired_image_equal(&image_requests(images_get(images, 0))->desired, &expected))
                fail_msg("%s", text);
        images_free(images);
        runtimes_free(runtimes);
        completion_queue_free(completions);
}

/* A document with one image; more: further members of its tag, or of the image. */
#define ONE(tag, more) HEAD "spec: {images: {one: {tags: [{tag: \"1\"" tag "}]" more "}}}\n"

/* The status file and those who follow the status learn of each change of a document, and so does the next run. */
TEST_SET_UP(test_changed_members) {
        static const char *const documents[] = {
                ONE(", pullPolicy: {timeoutSeconds: 60}", ""),
                ONE(", pullPolicy: {backoffLimit: 2}", ""),
                ONE(", pullPolicy: {ttlSecondsAfterFinished: 60}", ""),
                ONE(", pullPolicy: {activeDeadlineSeconds: 60}", ""),
                ONE(", imagePullPolicy: Always", ""),
                ONE(", version: 3", ""),
                ONE(", createdAt: \"2026-01-01T00:00:00Z\"", ""),
                ONE(", pin: true", ""),
                ONE(", complete: true", ""),
                ONE("", ", pullSecrets: [{name: a}]"),
                ONE("", ", pullSecrets: [{name: b}]"),
                ONE("", ", sandboxConfig: {labels: {a: b}}"),
                ONE("", ", sandboxConfig: {annotations: {a: b}}"),
                ONE(", ownerReferences: [{name: a}]", ""),
        };
        const Image *image;

        put("a.yaml", ONE("", ""));
        start();
        image = images_get(f.images, 0);
        while (!image_is_syncing(image))
                assert_true(sd_event_run(f.event, WAIT_USEC) > 0);

        for (size_t i = 0; i < N_ELEMENTS(documents); i++) {
                cleanup(desired_image_done) DesiredImage before = { .name = NULL };
                uint64_t shown = node_image_fingerprint(image);

                assert_ok(desired_image_copy(&image_requests(image)->desired, &before));
                put("a.yaml", documents[i]);
                while (desired_image_equal(&image_requests(image)->desired, &before))
                        assert_true(sd_event_run(f.event, WAIT_USEC) > 0);
                if (node_image_fingerprint(image) == shown)
                        fail_msg("%s", documents[i]);
                assert_survives(&image_requests(image)->desired);
        }
        delete ("a.yaml");
}
