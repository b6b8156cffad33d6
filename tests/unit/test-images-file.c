/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests one file of the images folder: the requests read from it, and those that stay in force
 */

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/document/documents.h"
#include "agent/node/images-dir.h"
#include "tests/unit/scratch-folder.h"
#include "tests/unit/unit.h"

#define HEAD "apiVersion: apps.kruise.io/v1alpha1\nkind: NodeImage\n"
#define DESIRED(tag) HEAD "spec: {images: {nginx: {tags: [{tag: \"" tag "\"}]}}}\n"

typedef struct Fixture {
        char root[32];
        int folder;
        ImagesFile *file; /* "a.yaml" in the folder */
} Fixture;

static int setup(void **state) {
        Fixture *fixture = calloc(1, sizeof(*fixture));

        scratch_make(fixture->root);
        assert_ok(chdir(fixture->root));
        fixture->folder = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
        assert_ok(images_file_new("a.yaml", &fixture->file));
        *state = fixture;
        return 0;
}

static int teardown(void **state) {
        Fixture *fixture = *state;

        images_file_free(fixture->file);
        close_p(&fixture->folder);
        remove_tree(fixture->root);
        free(fixture);
        return 0;
}

static void read_once(Fixture *fixture, uint64_t *ret_again_usec) {
        size_t size;

        assert_ok(images_file_read(fixture->file, fixture->folder, &size, ret_again_usec));
}

/* Reads until the file cannot change any more without a trace. Returns whether it was different. */
static bool read_all(Fixture *fixture) {
        bool changed = false;
        uint64_t again_usec;

        do {
                read_once(fixture, &again_usec);
                changed |= images_file_commit(fixture->file);
        } while (again_usec > 0);

        return changed;
}

/* The tags that are in force, and why the newest content was refused, or "none". */
static void assert_file(const Fixture *fixture, const char *tags, const char *message) {
        char text[256] = "";

        for (size_t i = 0; i < fixture->file->desired_images.n_items; i++)
                snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i > 0 ? " " : "",
                         fixture->file->desired_images.items[i].tag);
        assert_string_equal(text, tags);
        assert_string_equal(error_message(&fixture->file->error), message);
}

TEST_WITH(test_documents, setup, teardown, Fixture *fixture) {
        write_file("a.yaml", DESIRED("1") "---\n---\n" DESIRED("2"));
        assert_true(read_all(fixture));
        assert_file(fixture, "1 2", "none");
        assert_int_equal(fixture->file->n_documents, 2);

        write_file("a.yaml", "");
        assert_true(read_all(fixture));
        assert_file(fixture, "", "none");
        assert_int_equal(fixture->file->n_documents, 0);
}

#define NGINX(secret, tag) \
        HEAD "spec: {images: {nginx: {pullSecrets: [{name: " secret "}], tags: [" tag "]}}}\n"

/* A document loses no pin or secret of an image because a later one desires that image as well. */
TEST_WITH(test_documents_of_one_image, setup, teardown, Fixture *fixture) {
        const DesiredImage *desired;

        write_file("a.yaml", NGINX("a", "{tag: \"1\", version: 2, pin: true}") "---\n" DESIRED(
                                     "2") "---\n" NGINX("b", "{tag: \"1\", version: 1}"));
        assert_true(read_all(fixture));
        assert_file(fixture, "1 2", "none");
        assert_int_equal(fixture->file->n_documents, 3);
        desired = &fixture->file->desired_images.items[0];
        assert_int_equal(desired->version, 2);
        assert_int_equal(desired->n_secrets, 2);
        assert_true(desired->is_pinned);
}

/* Each row is content that is refused as a whole, whatever is good in it. */
TEST_WITH(test_last_good_content_stays, setup, teardown, Fixture *fixture) {
        static const struct {
                const char *text;
                const char *message;
        } rows[] = {
                { DESIRED("2") "spec: {}\n", "line 4, column 1: the key \"spec\" is given twice" },
                { "{", "line 2, column 1: did not find expected node content" },
                { HEAD "spec: {images: {nginx: {tags: [{tag: 2}]}}}\n",
                  "spec.images.nginx.tags[0].tag: expected a string (in quotes), got 2" },
                { DESIRED("2") "---\nkind: Pod\napiVersion: v1\n",
                  "document 2: is a Pod, not a NodeImage (apps.kruise.io)" },
        };

        write_file("a.yaml", DESIRED("1"));
        assert_true(read_all(fixture));

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                write_file("a.yaml", rows[i].text);
                assert_true(read_all(fixture));
                assert_file(fixture, "1", rows[i].message);
                assert_int_equal(fixture->file->n_documents, 1);
                assert_false(read_all(fixture));
        }

        write_file("a.yaml", DESIRED("3"));
        assert_true(read_all(fixture));
        assert_file(fixture, "3", "none");
}

static void make_pipe(void) {
        assert_ok(mkfifo("a.yaml", 0644));
}

static void make_folder(void) {
        assert_ok(mkdir("a.yaml", 0755));
}

static void make_link_to_device(void) {
        assert_ok(symlink("/dev/zero", "a.yaml"));
}

static void make_link_to_nothing(void) {
        assert_ok(symlink("nowhere", "a.yaml"));
}

static void make_link_to_itself(void) {
        assert_ok(symlink("a.yaml", "a.yaml"));
}

static void make_socket(void) {
        cleanup(close_p) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = "a.yaml" };

        assert_ok(bind(fd, (struct sockaddr *) &address, sizeof(address)));
}

static void make_nothing(void) {
}

/* A test that hangs has opened a file that it should not. */
TEST_WITH(test_things_that_are_no_files, setup, teardown, Fixture *fixture) {
        static const struct {
                void (*make)(void);
                const char *message;
        } rows[] = {
                { make_pipe, "is not a regular file" },
                { make_folder, "is not a regular file" },
                { make_socket, "is not a regular file" },
                { make_link_to_device, "is not a regular file" },
                { make_link_to_nothing, "cannot be read: No such file or directory" },
                { make_nothing, "cannot be read: No such file or directory" },
                { make_link_to_itself, "cannot be read: Too many levels of symbolic links" },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                write_file("a.yaml", DESIRED("1"));
                assert_true(read_all(fixture));
                assert_ok(unlink("a.yaml"));

                rows[i].make();
                assert_true(read_all(fixture));
                assert_file(fixture, "1", rows[i].message);
                assert_false(read_all(fixture));
                (void) remove("a.yaml");
        }
}

TEST_WITH(test_large_file, setup, teardown, Fixture *fixture) {
        write_file("a.yaml", DESIRED("1"));
        assert_true(read_all(fixture));

        /* The file has more bytes than memory to read it. */
        assert_ok(truncate("a.yaml", (off_t) DOCUMENTS_SIZE_MAX * 1000000));
        assert_true(read_all(fixture));
        assert_file(fixture, "1", "is larger than 4 MiB");
        assert_false(read_all(fixture));
}

TEST_WITH(test_same_file_is_not_read_again, setup, teardown, Fixture *fixture) {
        const struct timespec old[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };

        write_file("a.yaml", DESIRED("1"));
        assert_true(read_all(fixture));
        assert_false(read_all(fixture));

        assert_ok(utimensat(fixture->folder, "a.yaml", old, 0));
        assert_true(read_all(fixture));
        assert_false(read_all(fixture));
}

/* The last good content of several reads counts, and the last error; before the commit, nothing counts. */
TEST_WITH(test_results_wait, setup, teardown, Fixture *fixture) {
        uint64_t again_usec;

        write_file("a.yaml", DESIRED("1"));
        assert_true(read_all(fixture));
        write_file("a.yaml", DESIRED("22"));
        read_once(fixture, &again_usec);
        write_file("a.yaml", "]");
        read_once(fixture, &again_usec);
        assert_file(fixture, "1", "none");
        assert_true(images_file_commit(fixture->file));
        assert_string_equal(fixture->file->desired_images.items[0].tag, "22");
        assert_int_equal(fixture->file->error.kind, ERROR_INVALID);
        assert_false(images_file_commit(fixture->file));
}

/* Same size, same times as far as the kernel's clock goes: it must not be missed. */
TEST_WITH(test_quick_changes, setup, teardown, Fixture *fixture) {
        uint64_t again_usec;

        for (int i = 0; i < 100; i++) {
                write_file("a.yaml", DESIRED("1"));
                read_once(fixture, &again_usec);
                write_file("a.yaml", DESIRED("2"));
                (void) read_all(fixture);
                assert_file(fixture, "2", "none");
        }
}

/* Reading it once more, since it may change without a trace, is none. */
TEST_WITH(test_touches, setup, teardown, Fixture *fixture) {
        write_file("a.yaml", DESIRED("1"));
        for (unsigned n = 1; n < 4; n++) {
                (void) read_all(fixture);
                (void) read_all(fixture);
                assert_int_equal(fixture->file->n_touches, n);
                assert_ok(utimensat(AT_FDCWD, "a.yaml",
                                    (struct timespec[]){ { .tv_sec = n }, { .tv_sec = n } }, 0));
        }
}
