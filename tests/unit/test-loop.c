/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Event sources: each kind of handler that fails ends the loop with its errno. Deferred calls, timers
 * and retries: when they are called, and when not.
 */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/loop.h"
#include "tests/unit/failing-memory.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/unit.h"

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

static int add_signal(Fixture *f, sd_event_source **ret) {
        int r;

        r = loop_add_signal(f->event, ret, SIGUSR1, on_signal, NULL);
        assert_ok(kill(getpid(), SIGUSR1));
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
        assert_ok(fchmod(f->fd, 0750));
        return r;
}

static int add_defer(Fixture *f, sd_event_source **ret) {
        return loop_add_defer(f->event, ret, on_event, NULL);
}

static const struct Case {
        const char *name;
        int (*add)(Fixture *f, sd_event_source **ret);
} cases[] = {
        { "io", add_io },           { "time", add_time },   { "signal", add_signal },
        { "inotify", add_inotify }, { "defer", add_defer },
};

static void run(const struct Case *c, bool is_owned) {
        Fixture f = { .fd = -1 };
        int r;

        assert_ok(sd_event_new(&f.event));
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

TEST_ROWS(test_failure_ends_the_loop, cases, name, const struct Case *row) {
        print_message("%s\n", row->name);
        run(row, true);
        run(row, false);
}

TEST(test_refused_source_is_none) {
        sd_event *event = NULL;
        sd_event_source *source = (sd_event_source *) &event;

        assert_ok(sd_event_new(&event));
        assert_int_equal(loop_add_io(event, &source, -1, EPOLLIN, on_io, NULL), -EBADF);
        assert_ptr_equal(source, &event);
        sd_event_unref(event);
}

/* Owner of the three sources, which it may end from within a call. */
typedef struct Owner {
        sd_event *event;
        Deferred deferred;
        Timer timer;
        Retry retry;
        unsigned n_calls, n_rivals;
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
        assert_ok(sd_event_new(&owner.event));
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

TEST_F(test_deferred_runs_once, Owner *owner) {
        for (int turn = 0; turn < 2; turn++) {
                for (int i = 0; i < 3; i++)
                        assert_ok(deferred_request(&owner->deferred));
                assert_calls(owner, 0, 1);
        }
}

/* The callers that cannot report it rely on that: the call does not come. */
TEST_F(test_deferred_without_memory, Owner *owner) {
        bool has_failed;
        unsigned n = 0;

        do {
                int r;

                failing_memory_begin();
                r = deferred_request(&owner->deferred);
                has_failed = failing_memory_end();
                assert_int_equal(r, has_failed ? -ENOMEM : 0);
                if (has_failed) {
                        int code = 0;

                        n++;
                        assert_ok(sd_event_get_exit_code(owner->event, &code));
                        assert_int_equal(code, -ENOMEM);
                        assert_int_equal(sd_event_loop(owner->event), -ENOMEM);
                        sd_event_unref(owner->event);
                        assert_ok(sd_event_new(&owner->event));
                        deferred_init(&owner->deferred, owner->event, on_call, owner);
                }
        } while (has_failed);
        assert_true(n > 0);
        assert_calls(owner, 0, 1);
}

TEST_F(test_deferred_requests_itself, Owner *owner) {
        owner->requests_again = true;
        assert_ok(deferred_request(&owner->deferred));
        assert_calls(owner, 0, 3);
}

TEST_F(test_deferred_is_canceled, Owner *owner) {
        deferred_cancel(&owner->deferred); /* without a request */
        assert_ok(deferred_request(&owner->deferred));
        deferred_cancel(&owner->deferred);
        assert_calls(owner, 0, 0);
        assert_ok(deferred_request(&owner->deferred));
        assert_calls(owner, 0, 1);
}

TEST_F(test_timer_runs_once, Owner *owner) {
        for (int i = 0; i < 2; i++) {
                assert_ok(timer_start(&owner->timer, 10 * SEC));
                assert_true(timer_is_running(&owner->timer));
                assert_calls(owner, 10 * SEC - 1, 0);
                assert_calls(owner, 1, 1);
                assert_false(timer_is_running(&owner->timer));
                assert_calls(owner, 100 * SEC, 0);
        }
}

TEST_F(test_timer_is_started_again, Owner *owner) {
        assert_ok(timer_start(&owner->timer, 10 * SEC));
        assert_ok(timer_start(&owner->timer, 20 * SEC));
        assert_calls(owner, 20 * SEC - 1, 0);
        assert_ok(timer_start(&owner->timer, 5 * SEC));
        assert_calls(owner, 5 * SEC, 1);
}

TEST_F(test_timer_is_stopped, Owner *owner) {
        timer_stop(&owner->timer); /* without a start */
        assert_ok(timer_start(&owner->timer, 1 * SEC));
        timer_stop(&owner->timer);
        assert_false(timer_is_running(&owner->timer));
        assert_calls(owner, 10 * SEC, 0);
}

TEST_F(test_timer_of_a_past_time, Owner *owner) {
        assert_ok(timer_start_at(&owner->timer, 1));
        assert_calls(owner, 0, 1);
        assert_ok(timer_start_at(&owner->timer, UINT64_MAX));
        assert_ok(timer_start_at(&owner->timer, 1));
        assert_calls(owner, 0, 1);
}

/* Comes before the timer in each turn, and starts it anew. */
static int on_rival(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        Owner *owner = userdata;

        return ++owner->n_rivals < 100 ? timer_start(&owner->timer, 0) : -ETIME;
}

TEST_F(test_timer_keeps_its_turn, Owner *owner) {
        sd_event_source *source = NULL;
        int fd = eventfd(1, EFD_CLOEXEC);

        assert_true(fd >= 0);
        fake_clock.is_real = true;
        owner->result = -ENODATA;
        assert_ok(loop_add_io(owner->event, &source, fd, EPOLLIN, on_rival, owner));
        assert_ok(timer_start(&owner->timer, 0));
        assert_int_equal(sd_event_loop(owner->event), -ENODATA);
        sd_event_source_disable_unref(source);
        close(fd);
}

TEST_F(test_retry_waits_longer_each_time, Owner *owner) {
        static const uint64_t middle_usec[] = { 1 * SEC, 2 * SEC, 4 * SEC, 4 * SEC };

        for (size_t i = 0; i < N_ELEMENTS(middle_usec); i++) {
                assert_ok(retry_later(&owner->retry, 0));
                assert_int_equal(owner->retry.n_failures, i + 1);
                assert_calls(owner, middle_usec[i] / 5 * 4 - 1, 0);
                assert_true(retry_is_waiting(&owner->retry));
                assert_calls(owner, middle_usec[i] / 5 * 2 + 1, 1);
                assert_false(retry_is_waiting(&owner->retry));
        }
}

TEST_F(test_retry_waits_as_long_as_asked, Owner *owner) {
        assert_int_equal(retry_rest_usec(&owner->retry), 0);
        assert_ok(retry_later(&owner->retry, 7 * SEC));
        assert_int_equal(retry_rest_usec(&owner->retry), 7 * SEC);
        assert_calls(owner, 7 * SEC - 1, 0);
        assert_int_equal(retry_rest_usec(&owner->retry), 1);
        assert_calls(owner, 1, 1);
        assert_int_equal(retry_rest_usec(&owner->retry), 0);
}

TEST_F(test_retry_is_kicked, Owner *owner) {
        assert_ok(retry_kick(&owner->retry)); /* it does not wait */
        assert_calls(owner, 0, 0);
        assert_ok(retry_later(&owner->retry, 0));
        assert_ok(retry_kick(&owner->retry));
        assert_calls(owner, 0, 1);
        assert_int_equal(owner->retry.n_failures, 1);
}

TEST_F(test_retry_is_reset, Owner *owner) {
        for (int i = 0; i < 3; i++)
                assert_ok(retry_later(&owner->retry, 0));
        retry_reset(&owner->retry);
        assert_calls(owner, 100 * SEC, 0);
        assert_ok(retry_later(&owner->retry, 0));
        assert_int_equal(owner->retry.n_failures, 1);
        assert_calls(owner, SEC / 5 * 6, 1);
}

/* The owner may end all three in a call of one of them. */
TEST_F(test_owner_ends_in_a_call, Owner *owner) {
        owner->ends = true;
        assert_ok(deferred_request(&owner->deferred));
        assert_ok(timer_start(&owner->timer, 0));
        assert_ok(retry_later(&owner->retry, 0));
        assert_calls(owner, 100 * SEC, 1);
}

/* Owners end sources that they never initialized, after an earlier failure. */
TEST_SET_UP(test_zero_ones_end) {
        Owner owner = { .n_calls = 0 };

        owner_done(&owner);
        assert_null(owner.deferred.source);
}

TEST_F(test_failing_call_ends_the_loop, Owner *owner) {
        owner->result = -ENODATA;
        assert_ok(deferred_request(&owner->deferred));
        assert_int_equal(sd_event_loop(owner->event), -ENODATA);
}

TEST_F(test_failing_timer_ends_the_loop, Owner *owner) {
        fake_clock.is_real = true;
        owner->result = -ENODATA;
        assert_ok(timer_start_at(&owner->timer, 1));
        assert_int_equal(sd_event_loop(owner->event), -ENODATA);
}

int main(void) {
        sigset_t mask;

        fake_clock.is_real = true;
        sigemptyset(&mask);
        sigaddset(&mask, SIGUSR1);
        if (sigprocmask(SIG_BLOCK, &mask, NULL) < 0)
                return 1;
        return unit_run();
}
