/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Leases, in a runtime that answers when the test says so
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "agent/base/rfc3339.h"
#include "agent/image/lease.h"
#include "tests/unit/fake-runtime.h"

#define DAY_SEC (24 * 3600)

static struct Fixture {
        Leases *leases;
        Lease *lease;
        unsigned n_ready;
        bool ends_it; /* as soon as it is ready */
} f;

static int on_ready(void *userdata) {
        assert_ptr_equal(userdata, &f);
        f.n_ready++;
        if (f.ends_it)
                f.lease = lease_end(f.lease);
        return 0;
}

static int set_up(void **state) {
        f = (struct Fixture){ .leases = NULL };
        fake_runtime_reset();
        assert_int_equal(leases_new((const Runtimes *) &fake_runtime, &f.leases), 0);
        return 0;
}

/* Whatever still runs is dropped. */
static int tear_down(void **state) {
        assert_null(leases_free(f.leases));
        assert_int_equal(fake_runtime_n_calls(), 0);
        return 0;
}

static void begin(void) {
        assert_int_equal(lease_begin(f.leases, on_ready, &f, &f.lease), 0);
}

static void answer(const char *method) {
        fake_runtime_answer(method, &fake_runtime, NULL);
}

/* One that inplaced forgets, or leaves behind, ends after a day. */
static void test_begin(void **state) {
        int64_t before = time(NULL), expires;

        begin();
        assert_int_equal(rfc3339_parse(fake_runtime_find("Create")->expires, &expires), 0);
        assert_in_range(expires, before + DAY_SEC, time(NULL) + DAY_SEC);
        assert_int_equal(f.n_ready, 0);
        assert_string_equal(lease_id(f.lease), fake_runtime_find("Create")->target);
        assert_int_equal(strncmp(lease_id(f.lease), "inplaced-", strlen("inplaced-")), 0);

        answer("Create");
        assert_int_equal(f.n_ready, 1);
        assert_non_null(lease_id(f.lease));
        f.lease = lease_end(f.lease);
}

static void test_end(void **state) {
        char id[192];

        begin();
        answer("Create");
        snprintf(id, sizeof(id), "%s", lease_id(f.lease));
        assert_null(lease_end(f.lease));
        assert_string_equal(fake_runtime_find("Delete")->target, id);
        answer("Delete");
        assert_int_equal(fake_runtime_n_calls(), 0);
        assert_int_equal(f.n_ready, 1);
}

/* Another one is left alone. */
static void test_two(void **state) {
        Lease *first;

        begin();
        first = f.lease;
        answer("Create");
        begin();
        assert_string_not_equal(lease_id(first), lease_id(f.lease));
        answer("Create");
        assert_null(lease_end(first));
        assert_string_not_equal(fake_runtime_find("Delete")->target, lease_id(f.lease));
        assert_int_equal(fake_runtime_count("Delete"), 1);
        assert_null(lease_end(f.lease));
        assert_int_equal(fake_runtime_count("Delete"), 2);
}

/* Without leases the pull goes on, and there is nothing to delete. */
static void test_refused(void **state) {
        static const ErrorKind kinds[] = { ERROR_UNSUPPORTED, ERROR_UNAVAILABLE, ERROR_TIMEOUT };

        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
                begin();
                fake_runtime_refuse("Create", kinds[i], "no");
                assert_int_equal(f.n_ready, i + 1);
                assert_null(lease_id(f.lease));
                assert_null(lease_end(f.lease));
                assert_int_equal(fake_runtime_n_asked("Delete"), 0);
        }
}

/* Nothing waits for the answer any more, but the runtime may have made it. */
static void test_ends_before_it_is_there(void **state) {
        begin();
        assert_null(lease_end(f.lease));
        assert_null(fake_runtime_find("Create"));
        answer("Delete");
        assert_int_equal(f.n_ready, 0);
        assert_int_equal(fake_runtime_n_calls(), 0);
}

static void test_ends_when_it_is_there(void **state) {
        f.ends_it = true;
        begin();
        answer("Create");
        assert_null(f.lease);
        answer("Delete");
        assert_int_equal(fake_runtime_n_calls(), 0);
}

static void test_delete_is_refused(void **state) {
        begin();
        answer("Create");
        assert_null(lease_end(f.lease));
        fake_runtime_refuse("Delete", ERROR_NOT_FOUND, "no such lease");
        assert_int_equal(fake_runtime_n_calls(), 0);
        assert_int_equal(fake_runtime_n_asked("Delete"), 1);
}

static void test_runtime_is_away(void **state) {
        begin();
        answer("Create");
        fake_runtime.is_away = true;
        assert_null(lease_end(f.lease));
        assert_int_equal(fake_runtime_n_asked("Delete"), 0);
}

static void test_no_lease(void **state) {
        assert_null(lease_id(NULL));
        assert_null(lease_end(NULL));
        assert_null(leases_free(NULL));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_begin),
                TEST(test_end),
                TEST(test_two),
                TEST(test_refused),
                TEST(test_ends_before_it_is_there),
                TEST(test_ends_when_it_is_there),
                TEST(test_delete_is_refused),
                TEST(test_runtime_is_away),
                TEST(test_no_lease),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
