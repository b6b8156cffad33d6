/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A folder that is watched: what counts as a change, and folders that come and go
 */

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/base/folder-watch.h"

#define WAIT_USEC ((uint64_t) 10 * 1000000)

typedef struct Fixture {
        sd_event *event;
        char parent[32];
        char path[64];
        FolderWatch watch;
        unsigned n_calls;
} Fixture;

static int on_change(void *userdata) {
        ((Fixture *) userdata)->n_calls++;
        return 0;
}

static const char *inside(const Fixture *fixture, const char *name) {
        static char path[128];

        snprintf(path, sizeof(path), "%s/%s", fixture->path, name);
        return path;
}

static void make_folder(const Fixture *fixture) {
        assert_int_equal(mkdir(fixture->path, 0700), 0);
}

static void write_file(const Fixture *fixture, const char *name) {
        int fd = open(inside(fixture, name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, "{}", 2), 2);
        assert_int_equal(close(fd), 0);
}

static int set_up(void **state) {
        static Fixture fixture;

        fixture = (Fixture){ .parent = "/tmp/folder-watch-XXXXXX" };
        assert_non_null(mkdtemp(fixture.parent));
        snprintf(fixture.path, sizeof(fixture.path), "%s/auth.d", fixture.parent);
        assert_int_equal(sd_event_new(&fixture.event), 0);
        folder_watch_init(&fixture.watch, fixture.event, fixture.path, on_change, &fixture);
        *state = &fixture;
        return 0;
}

static int tear_down(void **state) {
        Fixture *fixture = *state;

        folder_watch_done(&fixture->watch);
        sd_event_unref(fixture->event);
        (void) unlink(inside(fixture, "a.json"));
        (void) unlink(inside(fixture, "b.json"));
        (void) rmdir(fixture->path);
        assert_int_equal(rmdir(fixture->parent), 0);
        return 0;
}

static void wait_for_a_call(Fixture *fixture) {
        for (fixture->n_calls = 0; fixture->n_calls == 0;)
                assert_true(sd_event_run(fixture->event, WAIT_USEC) > 0);
}

/* Written, renamed, touched, removed. */
static void test_changes(void **state) {
        Fixture *fixture = *state;
        char from[128];

        make_folder(fixture);
        write_file(fixture, "a.json");
        assert_int_equal(folder_watch_start(&fixture->watch), 0);
        write_file(fixture, "a.json");
        wait_for_a_call(fixture);

        snprintf(from, sizeof(from), "%s", inside(fixture, "a.json"));
        assert_int_equal(rename(from, inside(fixture, "b.json")), 0);
        wait_for_a_call(fixture);

        assert_int_equal(utimensat(AT_FDCWD, inside(fixture, "b.json"), NULL, 0), 0);
        wait_for_a_call(fixture);

        assert_int_equal(unlink(inside(fixture, "b.json")), 0);
        wait_for_a_call(fixture);
}

/* One call for what came together, and none for reading. */
static void test_many_changes(void **state) {
        Fixture *fixture = *state;

        make_folder(fixture);
        assert_int_equal(folder_watch_start(&fixture->watch), 0);
        for (int i = 0; i < 20; i++)
                write_file(fixture, i % 2 ? "a.json" : "b.json");
        wait_for_a_call(fixture);
        assert_int_equal(fixture->n_calls, 1);
        while (sd_event_run(fixture->event, 1000) > 0)
                ;

        fixture->n_calls = 0;
        assert_int_equal(access(inside(fixture, "a.json"), R_OK), 0);
        close(open(inside(fixture, "a.json"), O_RDONLY | O_CLOEXEC));
        assert_int_equal(sd_event_run(fixture->event, 1000), 0);
        assert_int_equal(fixture->n_calls, 0);
}

/* A folder that is missing is no failure, and one that is replaced is watched when asked. */
static void test_folder_comes_and_goes(void **state) {
        Fixture *fixture = *state;

        assert_int_equal(folder_watch_start(&fixture->watch), 0);
        for (int i = 0; i < 2; i++) {
                make_folder(fixture);
                assert_int_equal(folder_watch_start(&fixture->watch), 0);
                assert_int_equal(folder_watch_start(&fixture->watch), 0);
                write_file(fixture, "a.json");
                wait_for_a_call(fixture);

                assert_int_equal(unlink(inside(fixture, "a.json")), 0);
                assert_int_equal(rmdir(fixture->path), 0);
                wait_for_a_call(fixture);
        }
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_changes),
                TEST(test_many_changes),
                TEST(test_folder_comes_and_goes),
        };

        return cmocka_run_group_tests_name("a folder", tests, NULL, NULL);
}
