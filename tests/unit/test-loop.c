/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Event sources: each kind of handler that fails ends the loop with its errno. Deferred calls, timers
 * and retries: when they are called, and when not.
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
#include "tests/unit/fake-clock.h"

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

#define MSEC ((uint64_t) 1000)
#define SEC (1000 * MSEC)

/* What owns the three, and may end them from within a call. */
typedef struct Owner {
        sd_event *event;
        Deferred deferred;
        Timer timer;
        Retry retry;
        unsigned n_calls;
        bool requests_again, ends;
        int result;
} Owner;

static void owner_done(Owner *owner) {
        deferred_done(&owner->deferred);
        timer_done(&owner->timer);
        retry_done(&owner->retry);
}

static int on_call(void *userdata) {
        Owner *owner = userdata;

        owner->n_calls++;
        if (owner->ends)
                owner_done(owner);
        else if (owner->requests_again && owner->n_calls < 3)
                return deferred_request(&owner->deferred);
        return owner->result;
}

static int set_up(void **state) {
        static Owner owner;

        owner = (Owner){ .result = 0 };
        assert_int_equal(sd_event_new(&owner.event), 0);
        fake_clock.is_real = false;
        deferred_init(&owner.deferred, owner.event, on_call, &owner);
        timer_init(&owner.timer, owner.event, /* accuracy_usec= */ 1, on_call, &owner);
        retry_init(&owner.retry, owner.event, 1 * SEC, 4 * SEC, on_call, &owner);
        *state = &owner;
        return 0;
}

static int tear_down(void **state) {
        Owner *owner = *state;

        owner_done(owner);
        fake_clock_done();
        fake_clock.is_real = true;
        sd_event_unref(owner->event);
        return 0;
}

static void assert_calls(Owner *owner, uint64_t after_usec, unsigned n_calls) {
        owner->n_calls = 0;
        fake_clock_pass(owner->event, after_usec);
        assert_int_equal(owner->n_calls, n_calls);
}

static void test_deferred_runs_once(void **state) {
        Owner *owner = *state;

        for (int turn = 0; turn < 2; turn++) {
                for (int i = 0; i < 3; i++)
                        assert_int_equal(deferred_request(&owner->deferred), 0);
                assert_calls(owner, 0, 1);
        }
}

static void test_deferred_requests_itself(void **state) {
        Owner *owner = *state;

        owner->requests_again = true;
        assert_int_equal(deferred_request(&owner->deferred), 0);
        assert_calls(owner, 0, 3);
}

static void test_deferred_is_canceled(void **state) {
        Owner *owner = *state;

        deferred_cancel(&owner->deferred); /* without a request */
        assert_int_equal(deferred_request(&owner->deferred), 0);
        deferred_cancel(&owner->deferred);
        assert_calls(owner, 0, 0);
        assert_int_equal(deferred_request(&owner->deferred), 0);
        assert_calls(owner, 0, 1);
}

static void test_timer_runs_once(void **state) {
        Owner *owner = *state;

        for (int i = 0; i < 2; i++) {
                assert_int_equal(timer_start(&owner->timer, 10 * SEC), 0);
                assert_true(timer_is_running(&owner->timer));
                assert_calls(owner, 10 * SEC - 1, 0);
                assert_calls(owner, 1, 1);
                assert_false(timer_is_running(&owner->timer));
                assert_calls(owner, 100 * SEC, 0);
        }
}

static void test_timer_is_started_again(void **state) {
        Owner *owner = *state;

        assert_int_equal(timer_start(&owner->timer, 10 * SEC), 0);
        assert_int_equal(timer_start(&owner->timer, 20 * SEC), 0);
        assert_calls(owner, 20 * SEC - 1, 0);
        assert_int_equal(timer_start(&owner->timer, 5 * SEC), 0);
        assert_calls(owner, 5 * SEC, 1);
}

static void test_timer_is_stopped(void **state) {
        Owner *owner = *state;

        timer_stop(&owner->timer); /* without a start */
        assert_int_equal(timer_start(&owner->timer, 1 * SEC), 0);
        timer_stop(&owner->timer);
        assert_false(timer_is_running(&owner->timer));
        assert_calls(owner, 10 * SEC, 0);
}

static void test_timer_of_a_past_time(void **state) {
        Owner *owner = *state;

        assert_int_equal(timer_start_at(&owner->timer, 1), 0);
        assert_calls(owner, 0, 1);
        assert_int_equal(timer_start_at(&owner->timer, UINT64_MAX), 0);
        assert_int_equal(timer_start_at(&owner->timer, 1), 0);
        assert_calls(owner, 0, 1);
}

static void test_retry_waits_longer_each_time(void **state) {
        static const uint64_t middle_usec[] = { 1 * SEC, 2 * SEC, 4 * SEC, 4 * SEC };
        Owner *owner = *state;

        for (size_t i = 0; i < sizeof(middle_usec) / sizeof(middle_usec[0]); i++) {
                assert_int_equal(retry_later(&owner->retry, 0), 0);
                assert_int_equal(owner->retry.n_failures, i + 1);
                assert_calls(owner, middle_usec[i] / 5 * 4 - 1, 0);
                assert_true(retry_is_waiting(&owner->retry));
                assert_calls(owner, middle_usec[i] / 5 * 2 + 1, 1);
                assert_false(retry_is_waiting(&owner->retry));
        }
}

static void test_retry_waits_as_long_as_asked(void **state) {
        Owner *owner = *state;

        assert_int_equal(retry_rest_usec(&owner->retry), 0);
        assert_int_equal(retry_later(&owner->retry, 7 * SEC), 0);
        assert_int_equal(retry_rest_usec(&owner->retry), 7 * SEC);
        assert_calls(owner, 7 * SEC - 1, 0);
        assert_int_equal(retry_rest_usec(&owner->retry), 1);
        assert_calls(owner, 1, 1);
        assert_int_equal(retry_rest_usec(&owner->retry), 0);
}

static void test_retry_is_kicked(void **state) {
        Owner *owner = *state;

        assert_int_equal(retry_kick(&owner->retry), 0); /* it does not wait */
        assert_calls(owner, 0, 0);
        assert_int_equal(retry_later(&owner->retry, 0), 0);
        assert_int_equal(retry_kick(&owner->retry), 0);
        assert_calls(owner, 0, 1);
        assert_int_equal(owner->retry.n_failures, 1);
}

static void test_retry_is_reset(void **state) {
        Owner *owner = *state;

        for (int i = 0; i < 3; i++)
                assert_int_equal(retry_later(&owner->retry, 0), 0);
        retry_reset(&owner->retry);
        assert_calls(owner, 100 * SEC, 0);
        assert_int_equal(retry_later(&owner->retry, 0), 0);
        assert_int_equal(owner->retry.n_failures, 1);
        assert_calls(owner, SEC / 5 * 6, 1);
}

/* The owner may end all three in a call of one of them. */
static void test_owner_ends_in_a_call(void **state) {
        Owner *owner = *state;

        owner->ends = true;
        assert_int_equal(deferred_request(&owner->deferred), 0);
        assert_int_equal(timer_start(&owner->timer, 0), 0);
        assert_int_equal(retry_later(&owner->retry, 0), 0);
        assert_calls(owner, 100 * SEC, 1);
}

/* One that an owner never initialized, since something before it failed. */
static void test_zero_ones_end(void **state) {
        Owner owner = { .n_calls = 0 };

        owner_done(&owner);
        assert_null(owner.deferred.source);
}

static void test_failing_call_ends_the_loop(void **state) {
        Owner *owner = *state;

        owner->result = -ENODATA;
        assert_int_equal(deferred_request(&owner->deferred), 0);
        assert_int_equal(sd_event_loop(owner->event), -ENODATA);
}

static void test_failing_timer_ends_the_loop(void **state) {
        Owner *owner = *state;

        fake_clock.is_real = true;
        owner->result = -ENODATA;
        assert_int_equal(timer_start_at(&owner->timer, 1), 0);
        assert_int_equal(sd_event_loop(owner->event), -ENODATA);
}

#define owner_test(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_failure_ends_the_loop),
                cmocka_unit_test(test_refused_source_is_none),
                owner_test(test_deferred_runs_once),
                owner_test(test_deferred_requests_itself),
                owner_test(test_deferred_is_canceled),
                owner_test(test_timer_runs_once),
                owner_test(test_timer_is_started_again),
                owner_test(test_timer_is_stopped),
                owner_test(test_timer_of_a_past_time),
                owner_test(test_retry_waits_longer_each_time),
                owner_test(test_retry_waits_as_long_as_asked),
                owner_test(test_retry_is_kicked),
                owner_test(test_retry_is_reset),
                owner_test(test_owner_ends_in_a_call),
                owner_test(test_zero_ones_end),
                owner_test(test_failing_call_ends_the_loop),
                owner_test(test_failing_timer_ends_the_loop),
        };
        sigset_t mask;

        fake_clock.is_real = true;
        sigemptyset(&mask);
        sigaddset(&mask, SIGUSR1);
        if (sigprocmask(SIG_BLOCK, &mask, NULL) < 0)
                return 1;
        return cmocka_run_group_tests(tests, NULL, NULL);
}
