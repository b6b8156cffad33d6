/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The files of the images folder, read in as many turns as there are files
 */

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/node/images-dir.h"
#include "tests/unit/scratch-folder.h"
#include "tests/unit/unit.h"

#define NOW ((uint64_t) 1000)
#define ONE_FILE ((size_t) 1) /* any has more bytes */

#define DESIRED(tag)                                             \
        "apiVersion: apps.kruise.io/v1alpha1\nkind: NodeImage\n" \
        "spec: {images: {nginx: {tags: [{tag: \"" tag "\"}]}}}\n"

typedef struct Fixture {
        char root[32];
        int folder;
        ImagesList list;
} Fixture;

static int setup(void **state) {
        Fixture *fixture = calloc(1, sizeof(*fixture));

        scratch_make(fixture->root);
        assert_ok(chdir(fixture->root));
        fixture->folder = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        fixture->list = IMAGES_LIST_INIT;
        *state = fixture;
        return 0;
}

static int teardown(void **state) {
        Fixture *fixture = *state;

        images_list_done(&fixture->list);
        close_p(&fixture->folder);
        remove_tree(fixture->root);
        free(fixture);
        return 0;
}

static bool scan_turn(Fixture *fixture, size_t size, uint64_t *ret_again_usec) {
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        r = images_list_scan(&fixture->list, fixture->folder, NOW, size, ret_again_usec, &error);
        assert_true(r >= 0);
        return r > 0;
}

/* Makes one turn of a scan, which must not be its end. */
static void read_one(Fixture *fixture) {
        uint64_t again_usec = UINT64_MAX;

        assert_false(scan_turn(fixture, ONE_FILE, &again_usec));
        assert_int_equal(again_usec, NOW);
}

/* The rest of a scan. */
static bool scan(Fixture *fixture) {
        uint64_t again_usec;

        return scan_turn(fixture, SIZE_MAX, &again_usec);
}

/* "a:1 b:2" */
static void assert_list(const Fixture *fixture, const char *expected) {
        char text[256] = "", one[64];

        for (size_t i = 0; i < fixture->list.n_files; i++) {
                const ImagesFile *file = fixture->list.files[i];

                snprintf(one, sizeof(one), "%s%.1s:%s", i > 0 ? " " : "", file->name,
                         file->desired_images.n_items > 0 ? file->desired_images.items[0].tag : "");
                strcat(text, one);
        }
        assert_string_equal(text, expected);
}

/* Checks the files that have desired images, in the same form. */
static void assert_in_force(const Fixture *fixture, const char *expected) {
        char text[256] = "", one[64];

        for (size_t i = 0; i < fixture->list.n_files; i++) {
                const ImagesFile *file = fixture->list.files[i];

                if (file->desired_images.n_items == 0)
                        continue;

                snprintf(one, sizeof(one), "%s%.1s:%s", text[0] ? " " : "", file->name,
                         file->desired_images.items[0].tag);
                strcat(text, one);
        }
        assert_string_equal(text, expected);
}

static size_t fixture_n_in_force(const Fixture *fixture) {
        size_t n = 0;

        for (size_t i = 0; i < fixture->list.n_files; i++)
                n += fixture->list.files[i]->desired_images.n_items > 0;
        return n;
}

/* Lets time pass until the written files are old enough to be known by their times. */
static void wait_for_the_clock(void) {
        assert_ok(usleep(20000));
}

/* Nothing counts before all files were read. */
TEST_WITH(test_all_at_once, setup, teardown, Fixture *fixture) {
        write_file("a.yaml", DESIRED("1"));
        write_file("b.yaml", DESIRED("2"));
        read_one(fixture);
        assert_true(scan(fixture));
        assert_list(fixture, "a:1 b:2");

        wait_for_the_clock();
        write_file("a.yaml", DESIRED("20"));
        assert_ok(rename("b.yaml", "c.yaml"));
        read_one(fixture);
        assert_in_force(fixture, "a:1 b:2");
        assert_true(scan(fixture));
        assert_list(fixture, "a:20 c:2");
}

/* A request that moves from a file not read yet into a file read already is never missing. */
TEST_WITH(test_change_meanwhile, setup, teardown, Fixture *fixture) {
        write_file("a.yaml", DESIRED("1"));
        write_file("b.yaml", DESIRED("2"));
        wait_for_the_clock();
        assert_true(scan(fixture));

        write_file("a.yaml", DESIRED("3"));
        write_file("b.yaml", DESIRED("4"));
        read_one(fixture);
        wait_for_the_clock();
        write_file("a.yaml", DESIRED("20"));
        write_file("b.yaml", DESIRED("10"));
        read_one(fixture);
        assert_list(fixture, "a:1 b:2");
        assert_true(scan(fixture));
        assert_list(fixture, "a:20 b:10");
}

/* A file that changes all the time does not keep the others from being used. */
TEST_WITH(test_change_all_the_time, setup, teardown, Fixture *fixture) {
        uint64_t again_usec = NOW;
        char text[256];
        unsigned n = 0;

        write_file("b.yaml", DESIRED("2"));
        for (; again_usec == NOW && fixture_n_in_force(fixture) == 0 && n < 100; n++) {
                snprintf(text, sizeof(text), DESIRED("1") "# %u\n", n);
                write_file("a.yaml", text);
                (void) scan_turn(fixture, ONE_FILE, &again_usec);
        }

        assert_in_range(n, 2, 99);
        assert_list(fixture, "a:1 b:2");
}

/* A file that is created during a scan is known as such in its next turn. */
TEST_WITH(test_begun_meanwhile, setup, teardown, Fixture *fixture) {
        write_file("a.yaml", DESIRED("1"));
        write_file("b.yaml", DESIRED("2"));
        read_one(fixture);
        write_file("c.yaml", DESIRED("3"));
        assert_ok(images_list_note_written(&fixture->list, "c.yaml", NOW));
        assert_true(scan(fixture));
        assert_list(fixture, "a:1 b:2 c:");
        (void) scan(fixture);
        assert_list(fixture, "a:1 b:2 c:");
        images_list_note_closed(&fixture->list, "c.yaml");
        assert_true(scan(fixture));
        assert_list(fixture, "a:1 b:2 c:3");
}

static void scan_at(Fixture *fixture, uint64_t now_usec) {
        cleanup(error_done) Error error = ERROR_INIT;
        uint64_t again_usec;

        assert_true(images_list_scan(&fixture->list, fixture->folder, now_usec, SIZE_MAX,
                                     &again_usec, &error) >= 0);
}

#define SECOND ((uint64_t) 1000000)

/* In "generate >a.yaml" the shell empties the file, and the program writes it in parts. */
TEST_WITH(test_not_closed, setup, teardown, Fixture *fixture) {
        write_file("a.yaml", DESIRED("1"));
        scan_at(fixture, NOW);
        write_file("a.yaml", "");
        assert_ok(images_list_note_written(&fixture->list, "a.yaml", NOW));
        scan_at(fixture, NOW + 50 * SECOND);
        assert_list(fixture, "a:1");
        write_file("a.yaml", DESIRED("2"));
        assert_ok(images_list_note_written(&fixture->list, "a.yaml", NOW + 50 * SECOND));
        scan_at(fixture, NOW + 109 * SECOND);
        assert_list(fixture, "a:1");
        scan_at(fixture, NOW + 111 * SECOND);
        assert_list(fixture, "a:2");

        write_file("a.yaml", "");
        assert_ok(images_list_note_written(&fixture->list, "a.yaml", NOW));
        scan_at(fixture, NOW + 61 * SECOND);
        assert_list(fixture, "a:");
}

/* The same before the list was made: only the file's time tells that it was just emptied. */
TEST_WITH(test_emptied_before, setup, teardown, Fixture *fixture) {
        const struct timespec old[] = { { .tv_sec = 1 }, { .tv_sec = 1 } };

        write_file("a.yaml", "");
        write_file("b.yaml", "");
        assert_ok(utimensat(fixture->folder, "b.yaml", old, 0));
        scan_at(fixture, NOW);
        assert_int_equal(fixture->list.files[0]->n_contents, 0);
        assert_int_equal(fixture->list.files[1]->n_contents, 1);
        write_file("a.yaml", DESIRED("1"));
        scan_at(fixture, NOW);
        assert_list(fixture, "a:1 b:");
}

/* On a tmpfs a file keeps any time. */
TEST_WITH(test_emptied_at_any_time, setup, teardown, Fixture *fixture) {
        static const int64_t times[] = { 1, INT64_MIN, INT64_MAX };

        for (size_t i = 0; i < N_ELEMENTS(times); i++) {
                const struct timespec times_of_file[] = { { .tv_sec = times[i] },
                                                          { .tv_sec = times[i] } };

                write_file("a.yaml", "");
                assert_ok(utimensat(fixture->folder, "a.yaml", times_of_file, 0));
                scan_at(fixture, NOW);
                assert_int_equal(fixture->list.files[0]->n_contents, 1);
                assert_int_equal(images_list_clear(&fixture->list), 1);
        }
}

TEST_WITH(test_cleared_meanwhile, setup, teardown, Fixture *fixture) {
        write_file("a.yaml", DESIRED("1"));
        write_file("b.yaml", DESIRED("2"));
        read_one(fixture);
        assert_int_equal(images_list_clear(&fixture->list), 1);
        assert_list(fixture, "");
        assert_true(scan(fixture));
        assert_list(fixture, "a:1 b:2");
}
