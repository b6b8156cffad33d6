/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Event sources: each kind of handler that fails ends the loop with its errno.
 */

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/base/loop.h"

typedef struct Fixture {
        sd_event *event;
        sd_event_source *source;
        char *folder;
        int fd;
} Fixture;

static int on_event(sd_event_source *source, void *userdata) {
        return -ENODATA;
}

static int on_time(sd_event_source *source, uint64_t usec, void *userdata) {
        return -ENODATA;
}

static int on_io(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        return -ENODATA;
}

static int on_signal(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata) {
        return -ENODATA;
}

static int on_inotify(sd_event_source *source, const struct inotify_event *event, void *userdata) {
        return -ENODATA;
}

static int add_io(Fixture *f, sd_event_source **ret) {
        f->fd = eventfd(1, EFD_CLOEXEC);
        assert_true(f->fd >= 0);
        return loop_add_io(f->event, ret, f->fd, EPOLLIN, on_io, NULL);
}

static int add_time(Fixture *f, sd_event_source **ret) {
        return loop_add_time(f->event, ret, CLOCK_MONOTONIC, 0, 1, on_time, NULL);
}

static int add_time_relative(Fixture *f, sd_event_source **ret) {
        return loop_add_time_relative(f->event, ret, CLOCK_MONOTONIC, 0, 1, on_time, NULL);
}

static int add_signal(Fixture *f, sd_event_source **ret) {
        int r;

        r = loop_add_signal(f->event, ret, SIGUSR1, on_signal, NULL);
        assert_int_equal(kill(getpid(), SIGUSR1), 0);
        return r;
}

static int add_inotify(Fixture *f, sd_event_source **ret) {
        static const char template[] = "/tmp/test-loop-XXXXXX";
        int r;

        f->folder = malloc(sizeof(template));
        assert_non_null(f->folder);
        for (size_t i = 0; i < sizeof(template); i++)
                f->folder[i] = template[i];
        assert_non_null(mkdtemp(f->folder));

        f->fd = open(f->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(f->fd >= 0);
        r = loop_add_inotify_fd(f->event, ret, f->fd, IN_DELETE_SELF | IN_ATTRIB, on_inotify, NULL);
        assert_int_equal(fchmod(f->fd, 0750), 0);
        return r;
}

static int add_defer(Fixture *f, sd_event_source **ret) {
        return loop_add_defer(f->event, ret, on_event, NULL);
}

static const struct Case {
        const char *name;
        int (*add)(Fixture *f, sd_event_source **ret);
} cases[] = {
        { "io", add_io },
        { "time", add_time },
        { "time, relative", add_time_relative },
        { "signal", add_signal },
        { "inotify", add_inotify },
        { "defer", add_defer },
};

#define N_CASES (sizeof(cases) / sizeof(cases[0]))

static void run(const struct Case *c, bool is_owned) {
        Fixture f = { .fd = -1 };
        int r;

        assert_int_equal(sd_event_new(&f.event), 0);
        r = c->add(&f, is_owned ? &f.source : NULL);
        assert_int_equal(r, 0);
        assert_true(is_owned == !!f.source);
        assert_int_equal(sd_event_loop(f.event), -ENODATA);

        sd_event_source_disable_unref(f.source);
        sd_event_unref(f.event);
        if (f.fd >= 0)
                close(f.fd);
        if (f.folder)
                rmdir(f.folder);
        free(f.folder);
}

static void test_failure_ends_the_loop(void **state) {
        for (size_t i = 0; i < N_CASES; i++) {
                print_message("%s\n", cases[i].name);
                run(&cases[i], true);
                run(&cases[i], false);
        }
}

static void test_refused_source_is_none(void **state) {
        sd_event_source *source = (sd_event_source *) state;
        sd_event *event = NULL;

        assert_int_equal(sd_event_new(&event), 0);
        assert_int_equal(loop_add_io(event, &source, -1, EPOLLIN, on_io, NULL), -EBADF);
        assert_ptr_equal(source, state);
        sd_event_unref(event);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_failure_ends_the_loop),
                cmocka_unit_test(test_refused_source_is_none),
        };
        sigset_t mask;

        sigemptyset(&mask);
        sigaddset(&mask, SIGUSR1);
        if (sigprocmask(SIG_BLOCK, &mask, NULL) < 0)
                return 1;
        return cmocka_run_group_tests(tests, NULL, NULL);
}
