/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The files of the images folder, looked at in as many parts as there are files
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
#include "agent/node/images-dir.h"

#define NOW ((uint64_t) 1000)
#define AT_ONCE 0 /* a time that has passed */

#define WISH(tag)                                                \
        "apiVersion: apps.kruise.io/v1alpha1\nkind: NodeImage\n" \
        "spec: {images: {nginx: {tags: [{tag: \"" tag "\"}]}}}\n"

typedef struct Fixture {
        char root[32];
        int folder;
        ImagesList list;
} Fixture;

static int setup(void **state) {
        Fixture *fixture = calloc(1, sizeof(*fixture));

        strcpy(fixture->root, "/tmp/test-images-list-XXXXXX");
        assert_non_null(mkdtemp(fixture->root));
        assert_int_equal(chdir(fixture->root), 0);
        fixture->folder = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        fixture->list = IMAGES_LIST_INIT;
        *state = fixture;
        return 0;
}

static int teardown(void **state) {
        Fixture *fixture = *state;

        images_list_done(&fixture->list);
        (void) remove("a.yaml");
        (void) remove("b.yaml");
        (void) remove("c.yaml");
        close_p(&fixture->folder);
        assert_int_equal(rmdir(fixture->root), 0);
        free(fixture);
        return 0;
}

static void write_file(const char *name, const char *text) {
        cleanup(close_p) int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

        assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static bool look_until(Fixture *fixture, uint64_t until_usec, uint64_t *ret_again_usec) {
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        r = images_list_look(&fixture->list, fixture->folder, NOW, until_usec, ret_again_usec,
                             &error);
        assert_true(r >= 0);
        return r > 0;
}

/* A part of a look, which must not be its end. */
static void look_at_one(Fixture *fixture) {
        uint64_t again_usec = UINT64_MAX;

        assert_false(look_until(fixture, AT_ONCE, &again_usec));
        assert_int_equal(again_usec, NOW);
}

/* The rest of a look. */
static bool look(Fixture *fixture) {
        uint64_t again_usec;

        return look_until(fixture, UINT64_MAX, &again_usec);
}

/* "a:1 b:2" */
static void assert_list(const Fixture *fixture, const char *expected) {
        char said[256] = "", one[64];

        for (size_t i = 0; i < fixture->list.n_files; i++) {
                const ImagesFile *file = fixture->list.files[i];

                snprintf(one, sizeof(one), "%s%.1s:%s", i > 0 ? " " : "", file->name,
                         file->desired_images.n_items > 0 ? file->desired_images.items[0].tag : "");
                strcat(said, one);
        }
        assert_string_equal(said, expected);
}

static void test_all_at_once(void **state) {
        Fixture *fixture = *state;

        write_file("a.yaml", WISH("1"));
        write_file("b.yaml", WISH("2"));
        look_at_one(fixture);
        assert_true(look(fixture));
        assert_list(fixture, "a:1 b:2");

        write_file("a.yaml", WISH("20"));
        assert_int_equal(rename("b.yaml", "c.yaml"), 0);
        look_at_one(fixture);
        assert_list(fixture, "a:1 b:2");
        assert_true(look(fixture));
        assert_list(fixture, "a:20 c:2");
}

/* What was there first and then moved to where the look had been already is not lost. */
static void test_change_meanwhile(void **state) {
        Fixture *fixture = *state;

        write_file("a.yaml", WISH("1"));
        write_file("b.yaml", WISH("2"));
        assert_true(look(fixture));

        look_at_one(fixture);
        write_file("a.yaml", WISH("20"));
        write_file("b.yaml", WISH("10"));
        images_list_note_change(&fixture->list);
        assert_false(look(fixture));
        assert_list(fixture, "a:1 b:2");
        assert_true(look(fixture));
        assert_list(fixture, "a:20 b:10");
}

/* Somebody who changes something all the time keeps nobody's desired images away for ever. */
static void test_change_all_the_time(void **state) {
        Fixture *fixture = *state;
        unsigned n = 0;

        write_file("a.yaml", WISH("1"));
        write_file("b.yaml", WISH("2"));
        do {
                look_at_one(fixture);
                images_list_note_change(&fixture->list);
                n++;
        } while (!look(fixture) && n < 100);

        assert_in_range(n, 2, 99);
        assert_list(fixture, "a:1 b:2");
}

/* A file that somebody begins to write during a look is known as such in the next one. */
static void test_begun_meanwhile(void **state) {
        Fixture *fixture = *state;

        write_file("a.yaml", WISH("1"));
        write_file("b.yaml", WISH("2"));
        look_at_one(fixture);
        write_file("c.yaml", WISH("3"));
        assert_int_equal(images_list_note_written(&fixture->list, "c.yaml", NOW), 0);
        assert_true(look(fixture));
        assert_list(fixture, "a:1 b:2 c:");
        (void) look(fixture);
        assert_list(fixture, "a:1 b:2 c:");
        images_list_note_closed(&fixture->list, "c.yaml");
        assert_true(look(fixture));
        assert_list(fixture, "a:1 b:2 c:3");
}

static void test_cleared_meanwhile(void **state) {
        Fixture *fixture = *state;

        write_file("a.yaml", WISH("1"));
        write_file("b.yaml", WISH("2"));
        look_at_one(fixture);
        assert_int_equal(images_list_clear(&fixture->list), 1);
        assert_list(fixture, "");
        assert_true(look(fixture));
        assert_list(fixture, "a:1 b:2");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_all_at_once),         TEST(test_change_meanwhile),
                TEST(test_change_all_the_time), TEST(test_begun_meanwhile),
                TEST(test_cleared_meanwhile),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
