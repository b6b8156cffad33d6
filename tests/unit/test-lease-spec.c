/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Leases: when one is free, by this program's own clock
 */

#include "agent/base/cleanup.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"
#include "agent/kube/lease-spec.h"
#include "tests/unit/unit.h"

#define LONG ((LEASE_SEC + 1) * USEC_PER_SEC)

static bool is_free(LeaseSight *sight, const char *holder, int64_t renewed_sec, uint64_t now_usec) {
        cleanup(json_object_put_p) json_object *lease = NULL;

        assert_ok(lease_spec_make(holder, /* is_new= */ true, renewed_sec, &lease));
        return lease_sight_is_free(sight, lease, "me", now_usec);
}

TEST(test_is_free) {
        LeaseSight sight = { 0 };

        assert_true(is_free(&sight, "", 1, 5));
        assert_true(is_free(&sight, "me", 1, 5));
}

/* The time in it says nothing: only how long it has stayed the same. */
TEST(test_expiry) {
        LeaseSight sight = { 0 };

        assert_false(is_free(&sight, "other", 1, LONG));
        assert_false(is_free(&sight, "other", 1, 2 * LONG - USEC_PER_SEC));
        assert_false(is_free(&sight, "other", 2, 2 * LONG));
        assert_false(is_free(&sight, "third", 2, 3 * LONG));
        assert_true(is_free(&sight, "third", 2, 4 * LONG));
}

TEST(test_made) {
        cleanup(json_object_put_p) json_object *lease = NULL;

        assert_ok(lease_spec_make("me", /* is_new= */ false, 1700000000, &lease));
        assert_ok(lease_spec_name(lease, "slot"));
        assert_string_equal(
                json_to_text(lease),
                "{\"spec\":{\"holderIdentity\":\"me\",\"leaseDurationSeconds\":15,"
                "\"renewTime\":\"2023-11-14T22:13:20.000000Z\"},\"metadata\":{\"name\":"
                "\"slot\"},\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\"}");
        assert_string_equal(lease_holder(lease), "me");
}
