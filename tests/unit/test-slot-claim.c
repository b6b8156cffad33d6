/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The slot of a node, at an API server that the test plays
 */

#include "agent/cluster/slot-claim.h"
#include "agent/kube/access.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/fake-kube.h"
#include "tests/unit/unit.h"

#define REGISTRY "registry.example" /* LEASE() has the digest */
#define LEASES "/apis/coordination.k8s.io/v1/namespaces/inplaced/leases"
#define LEASE_WITH(more, holder)                                                    \
        "{\"metadata\":{\"name\":\"inplaced-pull-6a7d8753ffb35e55-0\","             \
        "\"resourceVersion\":\"7\"" more "},\"spec\":{\"holderIdentity\":\"" holder \
        "\",\"renewTime\":\"2026-01-01T00:00:00.000000Z\"}}"
#define LEASE(holder) LEASE_WITH("", holder)
#define LEASE_OF(name)                                                              \
        "{\"metadata\":{\"name\":\"" name "\",\"resourceVersion\":\"7\"},\"spec\":" \
        "{\"holderIdentity\":\"node-2\",\"renewTime\":\"2026-01-01T00:00:00.000000Z\"}}"
#define NONE "{\"items\":[]}"

typedef struct Fixture {
        Log *log;
        Deferred pass;
        SlotNode node;
        SlotClaim *claim;
        size_t n_waiting, n_running;
} Fixture;

const KubeAccess *kube_client_access(const KubeClient *client) {
        return NULL;
}

const char *kube_access_namespace(const KubeAccess *access) {
        return "inplaced";
}

/* As pull-slots.c does. */
static int on_pass(void *userdata) {
        Fixture *fixture = userdata;

        slot_claim_begin_count(fixture->claim);
        for (size_t i = 0; i < fixture->n_waiting; i++)
                slot_claim_count_waiting(fixture->claim, 1);
        fixture->claim->n_running = fixture->n_running;
        return slot_claim_is_idle(fixture->claim) ? 0 : slot_claim_step(fixture->claim);
}

static void open_fixture(Fixture *fixture) {
        fake_kube_open();
        assert_ok(log_new(LOG_FORMAT_TEXT, -1, &fixture->log));
        deferred_init(&fixture->pass, fake_kube.event, on_pass, fixture);
        fixture->node = (SlotNode){
                .client = &fake_kube, .log = fixture->log, .name = "node-1", .pass = &fixture->pass
        };
}

static void end(Fixture *fixture) {
        assert_true(slot_claim_is_idle(fixture->claim));
        fixture->claim = slot_claim_free(fixture->claim);
}

static void close_fixture(Fixture *fixture) {
        deferred_done(&fixture->pass);
        if (fixture->claim)
                slot_claim_free(fixture->claim);
        error_done(&fixture->node.error);
        log_free(fixture->log);
        fake_clock_done();
        fake_kube_close();
}

DEFINE_FIXTURE(Fixture, open_fixture, close_fixture)

static void count(Fixture *fixture, size_t n_waiting, size_t n_running) {
        fixture->n_waiting = n_waiting;
        fixture->n_running = n_running;
        assert_ok(deferred_request(&fixture->pass));
        fake_clock_turn(fake_kube.event);
}

static void begin(Fixture *fixture) {
        assert_ok(slot_claim_new(&fixture->node, /* is_first= */ false, REGISTRY, &fixture->claim));
        count(fixture, 1, 0);
}

/* Lets time pass until the agent asks for something, and answers. */
static void answer(Fixture *fixture, const char *method, int code, const char *body) {
        while (fake_kube.n_calls == 0) {
                fake_clock_skip(fake_kube.event);
                fake_clock_turn(fake_kube.event);
        }

        assert_int_equal(fake_kube.n_calls, 1);
        assert_string_equal(fake_kube.calls[0]->request.method, method);
        assert_true(strncmp(fake_kube.calls[0]->request.path, LEASES, strlen(LEASES)) == 0);
        assert_ok(fake_kube_answer(code, body));
        fake_clock_turn(fake_kube.event);
}

static bool lets_pull(const Fixture *fixture) {
        return slot_claim_lets_pull(fixture->claim, 1);
}

static void take(Fixture *fixture) {
        answer(fixture, "GET", 200, NONE);
        answer(fixture, "POST", 201, "{\"metadata\":{\"resourceVersion\":\"1\"}}");
        assert_true(lets_pull(fixture));
}

/* The last request of a claim fails. */
static void fail_release(Fixture *fixture) {
        begin(fixture);
        take(fixture);
        count(fixture, 0, 1);
        count(fixture, 0, 0);
        answer(fixture, "PATCH", 503, "");
        end(fixture);
}

TEST_F(test_one_failure, Fixture *fixture) {
        fail_release(fixture);
        fake_clock_pass(fake_kube.event, 360 * SEC);
        begin(fixture);
        assert_false(lets_pull(fixture));
        take(fixture);
}

/* Nothing is known of the time between two failures that are far apart. */
TEST_F(test_failures_apart, Fixture *fixture) {
        fail_release(fixture);
        fake_clock_pass(fake_kube.event, 360 * SEC);
        begin(fixture);
        answer(fixture, "GET", 503, "");
        assert_false(lets_pull(fixture));
        take(fixture);
}

static void fail_until_open(Fixture *fixture) {
        while (!lets_pull(fixture))
                answer(fixture, "GET", 403, "");
}

/* For this pull after five minutes, and for those that follow soon at once. */
TEST_F(test_failures_in_a_row, Fixture *fixture) {
        uint64_t began_usec = fake_clock.now_usec, usec;

        begin(fixture);
        fail_until_open(fixture);
        usec = fake_clock.now_usec - began_usec;
        assert_true(usec >= PULL_SLOTS_FAILURE_USEC && usec < PULL_SLOTS_FAILURE_USEC + 60 * SEC);
        count(fixture, 0, 1);
        count(fixture, 0, 0);
        end(fixture);

        fake_clock_pass(fake_kube.event, 500 * SEC);
        begin(fixture);
        assert_true(lets_pull(fixture));
        count(fixture, 0, 0);
        end(fixture);

        fake_clock_pass(fake_kube.event, 500 * SEC);
        begin(fixture);
        assert_false(lets_pull(fixture));
        take(fixture);
}

/* Other registries' slots, and those beyond the number of this set, are not its own. */
TEST_F(test_other_slots, Fixture *fixture) {
        begin(fixture);
        answer(fixture, "GET", 200,
               "{\"items\":[" LEASE_OF("inplaced-pull-0000000000000000-0") "," LEASE_OF(
                       "inplaced-pull-6a7d8753ffb35e55-1") "," LEASE_OF("inplaced-pull-6a7d8753ffb35e550") ",{}]}");
        answer(fixture, "POST", 201, "{\"metadata\":{\"resourceVersion\":\"1\"}}");
        assert_true(lets_pull(fixture));
}

/* The nodes that pull first have to pull again when the set has other images, or wants more of them to. */
TEST(test_set_first) {
        static const struct {
                uint64_t digest;
                size_t n_slots;
                bool stays;
        } rows[] = { { 5, 2, true }, { 6, 2, false }, { 6, 3, false }, { 6, 3, true } };
        SlotClaim claim = { .digest = 5, .n_wanted = 2 };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                claim.is_done = claim.is_listed = true;
                claim.is_set = false;
                slot_claim_set_first(&claim, rows[i].digest, rows[i].n_slots);
                assert_int_equal(claim.is_done, rows[i].stays);
                assert_int_equal(claim.is_listed, rows[i].stays);
                assert_true(claim.is_set);
        }
}

/* The list of a namespace that does not exist is empty, and no Lease can be created there. */
TEST_F(test_namespace_is_missing, Fixture *fixture) {
        uint64_t began_usec = fake_clock.now_usec;

        begin(fixture);
        while (!lets_pull(fixture)) {
                answer(fixture, "GET", 200, NONE);
                answer(fixture, "POST", 404, "");
        }
        assert_in_range(fake_clock.now_usec - began_usec, PULL_SLOTS_FAILURE_USEC,
                        PULL_SLOTS_FAILURE_USEC + 60 * SEC);
}

static void hold(Fixture *fixture) {
        begin(fixture);
        take(fixture);
        count(fixture, 0, 1);
        answer(fixture, "PATCH", 504, "");
        answer(fixture, "PATCH", 409, "");
}

#define DEEP ",\"managedFields\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"

static const struct LeaseRow {
        const char *name;
        const char *lease;
        const char *method; /* method of the write that takes it; NULL: none comes */
} lease_rows[] = {
        { "still ours", LEASE("node-1"), "PATCH" },
        { "free", LEASE(""), "PATCH" },
        { "free, and written by a hostile agent", LEASE_WITH(DEEP, ""), "PATCH" },
        { "removed", "", "POST" },
        { "of another node", LEASE("node-2"), NULL },
};

/* The server has taken a renewal, but its answer is lost: the next one meets a conflict, and the slot would expire. */
TEST_ROWS_F(test_answer_to_a_renewal_is_lost, lease_rows, name, const struct LeaseRow *row,
            Fixture *fixture) {
        char list[512];

        hold(fixture);
        assert_false(lets_pull(fixture));
        (void) snprintf(list, sizeof(list), "{\"items\":[%s]}", row->lease);
        answer(fixture, "GET", 200, list);
        if (row->method) {
                answer(fixture, row->method, 200, "{\"metadata\":{\"resourceVersion\":\"8\"}}");
                assert_true(lets_pull(fixture));
                answer(fixture, "PATCH", 200, "{\"metadata\":{\"resourceVersion\":\"9\"}}");
                assert_true(lets_pull(fixture));
                count(fixture, 0, 0);
                answer(fixture, "PATCH", 200, "{}");
        } else {
                answer(fixture, "GET", 200, list);
                assert_false(lets_pull(fixture));
                count(fixture, 0, 0);
        }
        end(fixture);
}
