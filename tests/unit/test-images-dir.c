/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The images folder, a real one, while things happen to it
 */

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/clock.h"
#include "agent/node/images-dir.h"
#include "tests/unit/scratch-folder.h"
#include "tests/unit/unit.h"

#define OTHER_USER 65534

#define HEAD "apiVersion: apps.kruise.io/v1alpha1\nkind: NodeImage\n"
#define DESIRED(image, tag) HEAD "spec: {images: {" image ": {tags: [{tag: \"" tag "\"}]}}}\n"

/* Each look at the used processor time finds so much more of it. */
static long step_nsec;
static unsigned n_looks; /* a scan looks twice */

/* Takes the place of libc's function. */
int clock_gettime(clockid_t clock, struct timespec *ret) {
        if (syscall(SYS_clock_gettime, clock, ret) < 0)
                return -1;

        if (clock == CLOCK_THREAD_CPUTIME_ID)
                ret->tv_nsec += step_nsec * (long) n_looks++;
        return 0;
}

typedef struct Fixture {
        char root[32]; /* a new folder, in which the tests run */
        sd_event *event;
        ImagesDir *dir;
        char *seen; /* result of describe() in the last call from the folder */
        unsigned n_calls;
} Fixture;

/* "a.yaml: nginx:1 redis:7 | b.yaml: !" with a "!" for a file whose content was refused. */
static char *describe(const ImagesDir *dir) {
        char *text = NULL;
        size_t size;
        FILE *file = open_memstream(&text, &size);

        if (images_dir_get_error(dir)->kind != ERROR_NONE)
                fprintf(file, "(%s) ", error_kind_to_string(images_dir_get_error(dir)->kind));
        for (size_t i = 0; i < images_dir_get_n_files(dir); i++) {
                const ImagesFile *item = images_dir_get_file(dir, i);

                fprintf(file, "%s%s:", i > 0 ? " | " : "", item->name);
                for (size_t j = 0; j < item->desired_images.n_items; j++)
                        fprintf(file, " %s:%s", item->desired_images.items[j].name,
                                item->desired_images.items[j].tag);
                if (item->error.kind != ERROR_NONE)
                        fprintf(file, " !");
        }

        fclose(file);
        return text;
}

static void see(Fixture *fixture) {
        free(fixture->seen);
        fixture->seen = describe(fixture->dir);
}

static int on_changed(ImagesDir *dir, void *userdata) {
        Fixture *fixture = userdata;

        fixture->n_calls++;
        see(fixture);
        return 0;
}

static void watch(Fixture *fixture, const char *path) {
        assert_ok(images_dir_new(fixture->event, path, on_changed, fixture, &fixture->dir));
        see(fixture);
}

/* Runs the loop until the folder has reported this content. */
static void wait_for(Fixture *fixture, const char *expected) {
        uint64_t now, end;

        assert_true(sd_event_now(fixture->event, CLOCK_MONOTONIC, &now) >= 0);
        for (end = now + WAIT_USEC; strcmp(fixture->seen, expected) != 0 && now < end;) {
                assert_true(sd_event_run(fixture->event, end - now) >= 0);
                assert_true(sd_event_now(fixture->event, CLOCK_MONOTONIC, &now) >= 0);
        }

        assert_string_equal(fixture->seen, expected);
}

static void write_fd(int fd, const char *text) {
        assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static const ImagesFile *get_file(Fixture *fixture, const char *name) {
        for (size_t i = 0; i < images_dir_get_n_files(fixture->dir); i++)
                if (strcmp(images_dir_get_file(fixture->dir, i)->name, name) == 0)
                        return images_dir_get_file(fixture->dir, i);

        fail_msg("there is no %s", name);
        return NULL;
}

static void assert_error(Fixture *fixture, const char *name, const char *message) {
        assert_string_equal(error_message(&get_file(fixture, name)->error), message);
}

static int setup(void **state) {
        Fixture *fixture = calloc(1, sizeof(*fixture));

        scratch_make(fixture->root);
        assert_ok(chmod(fixture->root, 0755));
        assert_ok(chdir(fixture->root));
        assert_ok(mkdir("d", 0755));
        assert_true(sd_event_new(&fixture->event) >= 0);
        *state = fixture;
        return 0;
}

static int teardown(void **state) {
        Fixture *fixture = *state;

        images_dir_free(fixture->dir);
        sd_event_unref(fixture->event);
        remove_tree(fixture->root);
        free(fixture->seen);
        free(fixture);
        return 0;
}

TEST_WITH(test_first_scan, setup, teardown, Fixture *fixture) {
        write_file("d/b.yaml", DESIRED("nginx", "1"));
        write_file("d/a.json",
                   "{\"apiVersion\":\"apps.kruise.io/v1beta1\",\"kind\":\"NodeImage\"}");
        write_file("d/c.yml", DESIRED("redis", "7") "---\n" DESIRED("redis", "8"));
        write_file("d/bad.yaml", DESIRED("redis", "7") "---\nkind: Pod\napiVersion: v1\n");
        write_file("d/empty.yaml", "");
        write_file("d/.hidden.yaml", "x");
        write_file("d/other.txt", "x");
        write_file("d/yaml", "x");

        watch(fixture, "d/");
        assert_string_equal(fixture->seen, "a.json: | b.yaml: nginx:1 | bad.yaml: ! | "
                                           "c.yml: redis:7 redis:8 | empty.yaml:");
        assert_error(fixture, "bad.yaml", "document 2: is a Pod, not a NodeImage (apps.kruise.io)");
        assert_int_equal(get_file(fixture, "c.yml")->n_documents, 2);
        assert_int_equal(get_file(fixture, "empty.yaml")->n_documents, 0);
        assert_int_equal(fixture->n_calls, 0);
}

TEST_WITH(test_add_change_remove_rename, setup, teardown, Fixture *fixture) {
        watch(fixture, "d");
        assert_string_equal(fixture->seen, "");

        write_file("d/a.yaml", DESIRED("nginx", "1"));
        wait_for(fixture, "a.yaml: nginx:1");
        write_file("d/a.yaml", DESIRED("nginx", "2"));
        wait_for(fixture, "a.yaml: nginx:2");

        write_file("d/a.yaml", "{");
        wait_for(fixture, "a.yaml: nginx:2 !");

        write_file("d/.new", DESIRED("nginx", "3"));
        assert_ok(rename("d/.new", "d/a.yaml"));
        wait_for(fixture, "a.yaml: nginx:3");
        assert_ok(rename("d/a.yaml", "d/b.yaml"));
        wait_for(fixture, "b.yaml: nginx:3");

        assert_ok(unlink("d/b.yaml"));
        wait_for(fixture, "");
}

TEST_WITH(test_open_file_is_left_alone, setup, teardown, Fixture *fixture) {
        cleanup(close_p) int fd = -1;

        write_file("d/a.yaml", DESIRED("nginx", "1"));
        watch(fixture, "d");

        fd = open("d/a.yaml", O_WRONLY | O_TRUNC | O_CLOEXEC);
        write_fd(fd, HEAD "spec: {images: {");
        write_file("d/b.yaml", DESIRED("redis", "7"));
        wait_for(fixture, "a.yaml: nginx:1 | b.yaml: redis:7");

        write_fd(fd, "nginx: {tags: [{tag: '2'}]}}}\n");
        write_file("d/c.yaml", DESIRED("redis", "8"));
        wait_for(fixture, "a.yaml: nginx:1 | b.yaml: redis:7 | c.yaml: redis:8");

        close(take_fd(&fd));
        wait_for(fixture, "a.yaml: nginx:2 | b.yaml: redis:7 | c.yaml: redis:8");
}

/* The program goes on to write into a file that another one has replaced meanwhile. */
TEST_WITH(test_open_file_that_is_replaced, setup, teardown, Fixture *fixture) {
        uint64_t begun_usec = clock_monotonic_usec();
        cleanup(close_p) int fd = -1;

        watch(fixture, "d");
        fd = open("d/a.yaml", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        write_fd(fd, DESIRED("nginx", "1"));
        write_file("d/.new", DESIRED("nginx", "2"));
        assert_ok(rename("d/.new", "d/a.yaml"));
        write_fd(fd, "---\n" DESIRED("nginx", "3"));
        wait_for(fixture, "a.yaml: nginx:2");
        assert_true(clock_monotonic_usec() < begun_usec + WAIT_USEC / 2);
}

static void make_version(const char *folder, const char *text) {
        cleanup(free_p) char *path = NULL;

        assert_ok(mkdir(folder, 0755));
        assert_true(asprintf(&path, "%s/a.yaml", folder) >= 0);
        write_file(path, text);
}

TEST_WITH(test_config_map, setup, teardown, Fixture *fixture) {
        make_version("d/..1", DESIRED("nginx", "1"));
        assert_ok(symlink("..1", "d/..data"));
        assert_ok(symlink("..data/a.yaml", "d/a.yaml"));
        watch(fixture, "d");
        assert_string_equal(fixture->seen, "a.yaml: nginx:1");

        make_version("d/..2", DESIRED("nginx", "2"));
        assert_ok(symlink("..2", "d/..data_tmp"));
        assert_ok(rename("d/..data_tmp", "d/..data"));
        wait_for(fixture, "a.yaml: nginx:2");
}

TEST_WITH(test_folder_is_a_link, setup, teardown, Fixture *fixture) {
        make_version("v1", DESIRED("nginx", "1"));
        make_version("v2", DESIRED("nginx", "2"));
        assert_ok(symlink("v1", "link"));
        watch(fixture, "link");
        assert_string_equal(fixture->seen, "a.yaml: nginx:1");

        assert_ok(symlink("v2", "next"));
        assert_ok(rename("next", "link"));
        wait_for(fixture, "a.yaml: nginx:2");

        write_file("v2/a.yaml", DESIRED("nginx", "3"));
        wait_for(fixture, "a.yaml: nginx:3");
}

/* The link's change is an event: the folder does not wait for the next of its regular looks. */
TEST_WITH(test_link_is_watched, setup, teardown, Fixture *fixture) {
        assert_ok(mkdir("v1", 0755));
        assert_ok(mkdir("v2", 0755));
        assert_ok(symlink("v1", "link"));
        assert_ok(symlink("v2", "next"));
        watch(fixture, "link");
        while (sd_event_run(fixture->event, 0) > 0)
                ;

        assert_ok(rename("next", "link"));
        assert_true(sd_event_run(fixture->event, 0) > 0);
}

TEST_WITH(test_file_is_a_link, setup, teardown, Fixture *fixture) {
        unsigned n_calls;

        write_file("target", DESIRED("nginx", "1"));
        assert_ok(symlink("../target", "d/a.yaml"));
        watch(fixture, "d");

        write_file("target", DESIRED("nginx", "2"));
        n_calls = fixture->n_calls;
        assert_ok(images_dir_rescan(fixture->dir));
        assert_int_equal(fixture->n_calls, n_calls);
        wait_for(fixture, "a.yaml: nginx:2");
}

TEST_WITH(test_folder_comes_and_goes, setup, teardown, Fixture *fixture) {
        watch(fixture, "e");
        assert_string_equal(fixture->seen, "(not-found) ");
        assert_string_equal(error_message(images_dir_get_error(fixture->dir)),
                            "is missing: No such file or directory");

        for (int i = 0; i < 3; i++) {
                make_version("e", DESIRED("nginx", "1"));
                wait_for(fixture, "a.yaml: nginx:1");
                write_file("e/a.yaml", DESIRED("nginx", "2"));
                wait_for(fixture, "a.yaml: nginx:2");
                remove_tree("e");
                wait_for(fixture, "(not-found) ");
        }

        make_version("e", DESIRED("nginx", "3"));
        wait_for(fixture, "a.yaml: nginx:3");
        make_version("f", DESIRED("nginx", "4"));
        assert_ok(rename("e", "g"));
        assert_ok(rename("f", "e"));
        wait_for(fixture, "a.yaml: nginx:4");

        write_file("g/a.yaml", DESIRED("nginx", "5"));
        write_file("e/b.yaml", DESIRED("nginx", "6"));
        wait_for(fixture, "a.yaml: nginx:4 | b.yaml: nginx:6");
}

TEST_WITH(test_parents_come_later, setup, teardown, Fixture *fixture) {
        watch(fixture, "x/y/z");
        assert_ok(mkdir("x", 0755));
        assert_ok(mkdir("x/y", 0755));
        make_version("x/y/z", DESIRED("nginx", "1"));
        wait_for(fixture, "a.yaml: nginx:1");
}

TEST_WITH(test_a_file_in_place_of_the_folder, setup, teardown, Fixture *fixture) {
        write_file("e", "");
        watch(fixture, "e");
        assert_string_equal(fixture->seen, "(invalid) ");
        assert_ok(unlink("e"));
        make_version("e", DESIRED("nginx", "1"));
        wait_for(fixture, "a.yaml: nginx:1");
}

TEST_WITH(test_permission_denied, setup, teardown, Fixture *fixture) {
        bool is_root = geteuid() == 0;

        write_file("d/a.yaml", DESIRED("nginx", "1"));
        if (is_root)
                assert_ok(seteuid(OTHER_USER));
        watch(fixture, "d");
        assert_string_equal(fixture->seen, "a.yaml: nginx:1");

        assert_ok(seteuid(getuid()));
        assert_ok(chmod("d/a.yaml", 0));
        if (is_root)
                assert_ok(seteuid(OTHER_USER));
        wait_for(fixture, "a.yaml: nginx:1 !");
        assert_error(fixture, "a.yaml", "cannot be read: Permission denied");

        assert_ok(seteuid(getuid()));
        assert_ok(chmod("d/a.yaml", 0644));
        assert_ok(chmod("d", 0));
        if (is_root)
                assert_ok(seteuid(OTHER_USER));
        wait_for(fixture, "(denied) a.yaml: nginx:1 !");

        assert_ok(seteuid(getuid()));
        assert_ok(chmod("d", 0755));
        if (is_root)
                assert_ok(seteuid(OTHER_USER));
        wait_for(fixture, "a.yaml: nginx:1");
        assert_ok(seteuid(getuid()));
}

/* More events than the kernel keeps: some are lost, and with them which files were closed. Then the agent does
 * not wait until they are quiet. */
TEST_WITH(test_lost_events, setup, teardown, Fixture *fixture) {
        cleanup(close_p) int a = -1, b = -1;
        uint64_t begun_usec = clock_monotonic_usec();

        watch(fixture, "d");
        a = open("d/a.yaml", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        b = open("d/b.yaml", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        for (int i = 0; i < 9000; i++) {
                assert_int_equal(pwrite(a, "{", 1, 0), 1);
                assert_int_equal(pwrite(b, "{", 1, 0), 1);
        }
        write_fd(a, DESIRED("nginx", "1"));
        write_fd(b, DESIRED("nginx", "2"));
        close(take_fd(&a));
        close(take_fd(&b));
        write_file("d/c.yaml", DESIRED("nginx", "3"));

        wait_for(fixture, "a.yaml: nginx:1 | b.yaml: nginx:2 | c.yaml: nginx:3");
        assert_true(clock_monotonic_usec() < begun_usec + WAIT_USEC / 2);
}

TEST_WITH(test_many_files, setup, teardown, Fixture *fixture) {
        cleanup(free_p) char *expected = NULL;
        char path[32];

        for (int i = 0; i < 1000; i++) {
                snprintf(path, sizeof(path), "d/%04d.yaml", i);
                write_file(path, DESIRED("nginx", "1"));
        }
        watch(fixture, "d");
        assert_int_equal(images_dir_get_n_files(fixture->dir), 1000);
        assert_string_equal(images_dir_get_file(fixture->dir, 999)->desired_images.items[0].tag,
                            "1");

        for (int i = 0; i < 1000; i++) {
                snprintf(path, sizeof(path), "d/%04d.yaml", i);
                assert_ok(unlink(path));
        }
        write_file("d/b.yaml", DESIRED("nginx", "2"));
        wait_for(fixture, "b.yaml: nginx:2");
}

/* After a scan of 50 ms, no event causes another one for 500 ms. */
TEST_WITH(test_rest_after_a_scan, setup, teardown, Fixture *fixture) {
        uint64_t begun_usec = clock_monotonic_usec();

        write_file("d/other.txt", "x");
        watch(fixture, "d");
        step_nsec = 50000000;
        n_looks = 0;
        while (n_looks < 3 * 2) {
                assert_ok(chmod("d/other.txt", 0600));
                assert_true(sd_event_run(fixture->event, 10 * MSEC) >= 0);
        }
        step_nsec = 0;
        assert_true(clock_monotonic_usec() >= begun_usec + 2 * 500 * MSEC);
}

/* The callback may free the folder. */
static int on_changed_free(ImagesDir *dir, void *userdata) {
        Fixture *fixture = userdata;

        fixture->dir = images_dir_free(dir);
        fixture->n_calls++;
        return 0;
}

TEST_WITH(test_free_from_callback, setup, teardown, Fixture *fixture) {
        assert_ok(images_dir_new(fixture->event, "d", on_changed_free, fixture, &fixture->dir));
        write_file("d/a.yaml", DESIRED("nginx", "1"));
        while (fixture->n_calls == 0)
                assert_true(sd_event_run(fixture->event, WAIT_USEC) > 0);
        assert_null(fixture->dir);
}
