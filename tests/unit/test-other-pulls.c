/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Pulls of other processes, as a runtime shows them that answers when the test says so
 */

#include "agent/image/other-pulls.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/fake-runtime.h"
#include "tests/unit/unit.h"

static struct Fixture {
        sd_event *event;
        OtherPulls *pulls;
} f;

static int on_asked(void *userdata) {
        return 0;
}

static int set_up(void **state) {
        f = (struct Fixture){ .event = NULL };
        fake_runtime_reset();
        assert_true(sd_event_new(&f.event) >= 0);
        assert_ok(other_pulls_new(&(OtherPullsOptions){ .event = f.event, .on_asked = on_asked },
                                  &f.pulls));
        fake_clock_pass(f.event, 0);
        return 0;
}

static int tear_down(void **state) {
        assert_null(other_pulls_free(f.pulls));
        assert_int_equal(fake_runtime_n_calls(), 0);
        fake_clock_done();
        sd_event_unref(f.event);
        return 0;
}

/* With a runtime that has no leases there are no pulls, and nothing is to be asked again. */
TEST_SET_UP(test_no_leases) {
        assert_false(other_pulls_are_settled(f.pulls));
        fake_runtime_refuse("ListLeases", ERROR_UNSUPPORTED, "unknown service");
        assert_true(other_pulls_are_settled(f.pulls));
        fake_clock_pass(f.event, 10 * SEC);
        assert_int_equal(fake_runtime_n_asked("ListLeases"), 1);
}

/* Another failure tells nothing about pulls. */
TEST_SET_UP(test_is_asked_again) {
        LeaseList none = CONTAINERD__SERVICES__LEASES__V1__LIST_RESPONSE__INIT;

        fake_runtime_refuse("ListLeases", ERROR_UNAVAILABLE, "the store is busy");
        assert_false(other_pulls_are_settled(f.pulls));
        fake_clock_pass(f.event, 10 * SEC);
        assert_int_equal(fake_runtime_n_asked("ListLeases"), 2);
        fake_runtime_answer("ListLeases", &none, NULL);
        assert_true(other_pulls_are_settled(f.pulls));
}
