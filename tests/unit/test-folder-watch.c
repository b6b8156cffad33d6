/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A folder that is watched: what counts as a change, and folders that come and go
 */

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/folder-watch.h"
#include "tests/unit/unit.h"

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
        assert_ok(mkdir(fixture->path, 0700));
}

static void write_file(const Fixture *fixture, const char *name) {
        int fd = open(inside(fixture, name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, "{}", 2), 2);
        assert_ok(close(fd));
}

static int set_up(void **state) {
        static Fixture fixture;

        fixture = (Fixture){ .parent = "/tmp/folder-watch-XXXXXX" };
        assert_non_null(mkdtemp(fixture.parent));
        snprintf(fixture.path, sizeof(fixture.path), "%s/auth.d", fixture.parent);
        assert_ok(sd_event_new(&fixture.event));
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
        assert_ok(rmdir(fixture->parent));
        return 0;
}

static void wait_for_a_call(Fixture *fixture) {
        for (fixture->n_calls = 0; fixture->n_calls == 0;)
                assert_true(sd_event_run(fixture->event, WAIT_USEC) > 0);
}

/* Written, renamed, touched, removed. */
TEST_F(test_changes, Fixture *fixture) {
        char from[128];

        make_folder(fixture);
        write_file(fixture, "a.json");
        assert_ok(folder_watch_start(&fixture->watch));
        write_file(fixture, "a.json");
        wait_for_a_call(fixture);

        snprintf(from, sizeof(from), "%s", inside(fixture, "a.json"));
        assert_ok(rename(from, inside(fixture, "b.json")));
        wait_for_a_call(fixture);

        assert_ok(utimensat(AT_FDCWD, inside(fixture, "b.json"), NULL, 0));
        wait_for_a_call(fixture);

        assert_ok(unlink(inside(fixture, "b.json")));
        wait_for_a_call(fixture);
}

/* Several changes at once make one call, and reading makes none. */
TEST_F(test_many_changes, Fixture *fixture) {
        make_folder(fixture);
        assert_ok(folder_watch_start(&fixture->watch));
        for (int i = 0; i < 20; i++)
                write_file(fixture, i % 2 ? "a.json" : "b.json");
        wait_for_a_call(fixture);
        assert_int_equal(fixture->n_calls, 1);
        while (sd_event_run(fixture->event, 1000) > 0)
                ;

        fixture->n_calls = 0;
        assert_ok(access(inside(fixture, "a.json"), R_OK));
        close(open(inside(fixture, "a.json"), O_RDONLY | O_CLOEXEC));
        assert_ok(sd_event_run(fixture->event, 1000));
        assert_int_equal(fixture->n_calls, 0);
}

/* A folder that is missing is no failure, and one that is replaced is watched when asked. */
TEST_F(test_folder_comes_and_goes, Fixture *fixture) {
        assert_ok(folder_watch_start(&fixture->watch));
        for (int i = 0; i < 2; i++) {
                make_folder(fixture);
                assert_ok(folder_watch_start(&fixture->watch));
                assert_ok(folder_watch_start(&fixture->watch));
                write_file(fixture, "a.json");
                wait_for_a_call(fixture);

                assert_ok(unlink(inside(fixture, "a.json")));
                assert_ok(rmdir(fixture->path));
                wait_for_a_call(fixture);
        }
}
