/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Leases, in a runtime that answers when the test says so
 */

#include <time.h>

#include "agent/base/rfc3339.h"
#include "agent/image/lease.h"
#include "tests/unit/fake-runtime.h"
#include "tests/unit/unit.h"

#define DAY_SEC (24 * 3600)

static struct Fixture {
        Leases *leases;
        Lease *lease;
        unsigned n_ready, n_found;
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
        fake_runtime.has_leases = true;
        assert_ok(leases_new((const Runtimes *) &fake_runtime, &f.leases));
        return 0;
}

/* Drops all calls that still run. */
static int tear_down(void **state) {
        assert_null(leases_free(f.leases));
        assert_int_equal(fake_runtime_n_calls(), 0);
        return 0;
}

static void begin(void) {
        assert_ok(lease_begin(f.leases, on_ready, &f, &f.lease));
}

static void answer(const char *method) {
        fake_runtime_answer(method, &fake_runtime, NULL);
}

/* A lease that inplaced forgets, or leaves behind, ends after a day. */
TEST_SET_UP(test_begin) {
        int64_t before = time(NULL), expires;

        begin();
        assert_ok(rfc3339_parse(fake_runtime_find("Create")->expires, &expires));
        assert_in_range(expires, before + DAY_SEC, time(NULL) + DAY_SEC);
        assert_int_equal(f.n_ready, 0);
        assert_string_equal(lease_id(f.lease), fake_runtime_find("Create")->target);
        assert_int_equal(strncmp(lease_id(f.lease), "inplaced-", strlen("inplaced-")), 0);

        answer("Create");
        assert_int_equal(f.n_ready, 1);
        assert_non_null(lease_id(f.lease));
        f.lease = lease_end(f.lease);
}

TEST_SET_UP(test_end) {
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
TEST_SET_UP(test_two) {
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
TEST_SET_UP(test_refused) {
        static const ErrorKind kinds[] = { ERROR_UNSUPPORTED, ERROR_UNAVAILABLE, ERROR_TIMEOUT };

        for (size_t i = 0; i < N_ELEMENTS(kinds); i++) {
                begin();
                fake_runtime_refuse("Create", kinds[i], "no");
                assert_int_equal(f.n_ready, i + 1);
                assert_null(lease_id(f.lease));
                assert_null(lease_end(f.lease));
                assert_int_equal(fake_runtime_n_asked("Delete"), 0);
        }
}

/* The pull does not wait for the answer any more, but the runtime may have made the lease. */
TEST_SET_UP(test_ends_before_it_is_there) {
        begin();
        assert_null(lease_end(f.lease));
        assert_null(fake_runtime_find("Create"));
        answer("Delete");
        assert_int_equal(f.n_ready, 0);
        assert_int_equal(fake_runtime_n_calls(), 0);
}

TEST_SET_UP(test_ends_when_it_is_there) {
        f.ends_it = true;
        begin();
        answer("Create");
        assert_null(f.lease);
        answer("Delete");
        assert_int_equal(fake_runtime_n_calls(), 0);
}

TEST_SET_UP(test_delete_is_refused) {
        begin();
        answer("Create");
        assert_null(lease_end(f.lease));
        fake_runtime_refuse("Delete", ERROR_NOT_FOUND, "no such lease");
        assert_int_equal(fake_runtime_n_calls(), 0);
        assert_int_equal(fake_runtime_n_asked("Delete"), 1);
}

TEST_SET_UP(test_runtime_is_away) {
        begin();
        answer("Create");
        fake_runtime.is_away = true;
        assert_null(lease_end(f.lease));
        assert_int_equal(fake_runtime_n_asked("Delete"), 0);
}

static int on_found(void *userdata) {
        f.n_found++;
        return 0;
}

/* Only those of the agent that it did not begin itself meanwhile. */
TEST_SET_UP(test_left) {
        LeaseInfo infos[] = { CONTAINERD__SERVICES__LEASES__V1__LEASE__INIT,
                              CONTAINERD__SERVICES__LEASES__V1__LEASE__INIT,
                              CONTAINERD__SERVICES__LEASES__V1__LEASE__INIT };
        LeaseInfo *list[] = { &infos[0], &infos[1], &infos[2] };
        LeaseList reply = CONTAINERD__SERVICES__LEASES__V1__LIST_RESPONSE__INIT;

        assert_ok(leases_find_left(f.leases, on_found, &f));
        fake_runtime_refuse("ListLeases", ERROR_UNAVAILABLE, "no");
        assert_int_equal(f.n_found, 1);
        assert_false(leases_has_left(f.leases));

        assert_ok(leases_find_left(f.leases, on_found, &f));
        begin();
        infos[0].id = (char *) "1234-abcd";
        infos[1].id = (char *) lease_id(f.lease);
        infos[2].id = (char *) "inplaced-0123456789abcdef";
        reply.leases = list;
        reply.n_leases = N_ELEMENTS(list);
        fake_runtime_answer("ListLeases", &reply, NULL);
        assert_int_equal(f.n_found, 2);
        assert_true(leases_has_left(f.leases));
        leases_end_left(f.leases);
        assert_false(leases_has_left(f.leases));
        assert_string_equal(fake_runtime_find("Delete")->target, infos[2].id);
        assert_int_equal(fake_runtime_n_asked("Delete"), 1);

        assert_ok(leases_find_left(f.leases, on_found, &f));
        assert_int_equal(fake_runtime_n_asked("ListLeases"), 2);
        f.lease = lease_end(f.lease);
}

TEST_SET_UP(test_no_lease) {
        assert_null(lease_id(NULL));
        assert_null(lease_end(NULL));
        assert_null(leases_free(NULL));
}
