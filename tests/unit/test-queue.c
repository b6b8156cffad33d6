/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The queue that is fair between owners
 */

#include "agent/image/queue.h"
#include "tests/unit/unit.h"

/* In which order tickets are served. Each character of the owners is one ticket of the owner with
 * that name, and each one that is served keeps its slot, or leaves if slots are to be handed on. */
static const struct Order {
        const char *name;
        const char *owners;
        unsigned n_slots;
        bool hands_on;
        const char *served; /* places in the line of arrival */
} orders[] = {
        { "none waits", "", 3, false, "" },
        { "one owner is served in the order of arrival", "aaaa", 4, false, "0123" },
        { "also one after the other", "aaaa", 1, true, "0123" },
        { "there are no more than the slots", "aaaa", 2, false, "01" },
        { "without slots none is served", "aaaa", 0, false, "" },
        { "two owners take turns", "aaaabbbb", 8, false, "04152637" },
        { "two owners take turns with a single slot", "aaaabbbb", 1, true, "04152637" },
        { "an owner of one image is not behind an owner of many", "aaaaaab", 2, false, "06" },
        { "three owners of different greed", "aaaabbc", 7, false, "0461523" },
        { "the first to come is the first to be served", "cab", 3, false, "012" },
        { "an owner who has all its images is skipped", "abbb", 1, true, "0123" },
};

#define N_TICKETS 16

typedef struct Fixture {
        Queue *queue;
        Ticket tickets[N_TICKETS];
        char owners[N_TICKETS][8]; /* owners of the tickets that are in the queue */
} Fixture;

static void fixture_init(Fixture *fixture, unsigned n_slots) {
        *fixture = (Fixture){ .queue = NULL };
        assert_ok(queue_new(n_slots, &fixture->queue));
}

static void fixture_done(Fixture *fixture) {
        for (size_t i = 0; i < N_TICKETS; i++)
                queue_leave(&fixture->tickets[i]);
        fixture->queue = queue_free(fixture->queue);
}

static void enter(Fixture *fixture, size_t i, char owner) {
        fixture->owners[i][0] = owner;
        fixture->owners[i][1] = '\0';
        assert_ok(queue_enter(fixture->queue, &fixture->tickets[i], fixture->owners[i]));
}

/* The place of the next one to be served, or -1. */
static int serve(Fixture *fixture) {
        Ticket *ticket = queue_serve(fixture->queue);

        return ticket ? (int) (ticket - fixture->tickets) : -1;
}

TEST_ROWS(test_order, orders, name, const struct Order *order) {
        cleanup(fixture_done) Fixture fixture;
        char served[N_TICKETS + 1] = "";
        int place;

        fixture_init(&fixture, order->n_slots);
        for (size_t i = 0; order->owners[i]; i++)
                enter(&fixture, i, order->owners[i]);

        for (size_t n = 0; (place = serve(&fixture)) >= 0; n++) {
                served[n] = (char) ('0' + place);
                if (order->hands_on)
                        queue_leave(&fixture.tickets[place]);
        }
        assert_string_equal(served, order->served);
}

TEST(test_owner_is_copied) {
        cleanup(fixture_done) Fixture fixture;

        fixture_init(&fixture, 9);
        enter(&fixture, 0, 'a');
        enter(&fixture, 1, 'a');
        memset(fixture.owners, 'x', sizeof(fixture.owners));
        enter(&fixture, 2, 'a');
        enter(&fixture, 3, 'b');
        assert_ok(serve(&fixture));
        assert_int_equal(serve(&fixture), 3);
        assert_int_equal(serve(&fixture), 1);
}

TEST(test_leave_while_waiting) {
        cleanup(fixture_done) Fixture fixture;

        fixture_init(&fixture, 9);
        for (size_t i = 0; i < 4; i++)
                enter(&fixture, i, 'a');
        queue_leave(&fixture.tickets[0]);
        queue_leave(&fixture.tickets[3]);
        queue_leave(&fixture.tickets[3]);
        assert_int_equal(queue_n_waiting(fixture.queue), 2);
        assert_int_equal(serve(&fixture), 1);
        assert_int_equal(serve(&fixture), 2);
        assert_int_equal(serve(&fixture), -1);
        assert_int_equal(queue_n_waiting(fixture.queue), 0);
}

TEST(test_leave_while_holding) {
        cleanup(fixture_done) Fixture fixture;

        fixture_init(&fixture, 1);
        enter(&fixture, 0, 'a');
        enter(&fixture, 1, 'a');
        assert_ok(serve(&fixture));
        assert_int_equal(serve(&fixture), -1);
        assert_int_equal(queue_n_served(fixture.queue), 1);

        queue_leave(&fixture.tickets[0]);
        assert_int_equal(queue_n_served(fixture.queue), 0);
        assert_int_equal(serve(&fixture), 1);
}

/* A slot that is given back leads to the head of the line, also of an empty one. */
TEST(test_return) {
        cleanup(fixture_done) Fixture fixture;

        fixture_init(&fixture, 2);
        for (size_t i = 0; i < 3; i++)
                enter(&fixture, i, 'a');
        assert_ok(serve(&fixture));
        assert_int_equal(serve(&fixture), 1);
        queue_return(&fixture.tickets[1]);
        queue_return(&fixture.tickets[0]);
        queue_return(&fixture.tickets[2]);
        assert_int_equal(queue_n_served(fixture.queue), 0);
        assert_int_equal(queue_n_waiting(fixture.queue), 3);
        assert_ok(serve(&fixture));
        assert_int_equal(serve(&fixture), 1);

        queue_leave(&fixture.tickets[2]);
        queue_return(&fixture.tickets[0]);
        enter(&fixture, 3, 'a');
        assert_ok(serve(&fixture));
        queue_leave(&fixture.tickets[1]);
        assert_int_equal(serve(&fixture), 3);
}

/* Going to the end of the line gives up the place, or the slot. */
TEST(test_enter_again) {
        cleanup(fixture_done) Fixture fixture;

        fixture_init(&fixture, 1);
        for (size_t i = 0; i < 3; i++)
                enter(&fixture, i, 'a');
        enter(&fixture, 0, 'a');
        assert_int_equal(queue_n_waiting(fixture.queue), 3);
        assert_int_equal(serve(&fixture), 1);

        enter(&fixture, 1, 'a');
        assert_int_equal(queue_n_served(fixture.queue), 0);
        assert_int_equal(serve(&fixture), 2);
}

TEST(test_move_to_another_queue) {
        cleanup(fixture_done) Fixture one, other;

        fixture_init(&one, 1);
        fixture_init(&other, 1);
        enter(&one, 0, 'a');
        assert_ok(queue_enter(other.queue, &one.tickets[0], "a"));
        assert_int_equal(queue_n_waiting(one.queue), 0);
        assert_int_equal(queue_n_waiting(other.queue), 1);
        assert_ptr_equal(queue_serve(other.queue), &one.tickets[0]);
        assert_null(queue_serve(one.queue));
        queue_leave(&one.tickets[0]);
}

TEST(test_slots_can_change) {
        cleanup(fixture_done) Fixture fixture;

        fixture_init(&fixture, 3);
        for (size_t i = 0; i < 8; i++)
                enter(&fixture, i, 'a');
        for (int i = 0; i < 3; i++)
                assert_int_equal(serve(&fixture), i);

        queue_set_slots(fixture.queue, 1);
        assert_int_equal(queue_n_served(fixture.queue), 3);
        for (size_t i = 0; i < 2; i++) {
                queue_leave(&fixture.tickets[i]);
                assert_int_equal(serve(&fixture), -1);
        }
        queue_leave(&fixture.tickets[2]);
        assert_int_equal(serve(&fixture), 3);

        queue_set_slots(fixture.queue, 2);
        assert_int_equal(serve(&fixture), 4);
        assert_int_equal(serve(&fixture), -1);
}

/* An owner who asks for one image after the other was served more recently than an owner who still waits. */
TEST(test_returning_owner_does_not_push_ahead) {
        cleanup(fixture_done) Fixture fixture;
        bool is_served = false;

        fixture_init(&fixture, 1);
        enter(&fixture, 0, 'a');
        enter(&fixture, 1, 'a');
        assert_ok(serve(&fixture));

        for (unsigned i = 0; !is_served && i < 10; i++) {
                enter(&fixture, 2, 'b');
                queue_leave(&fixture.tickets[0]);
                is_served = serve(&fixture) == 1;
                queue_leave(&fixture.tickets[2]);
        }
        assert_true(is_served);
}

/*
 * Checks the queue's promises against a model that is slow and simple: lists of places.
 */

typedef struct Model {
        char owner[N_TICKETS]; /* 0: in no queue */
        bool has_slot[N_TICKETS];
        unsigned arrived[N_TICKETS];
        unsigned passed_over[N_TICKETS][128]; /* by another owner, that had no fewer slots */
} Model;

static unsigned model_n_slots(const Model *model, char owner) {
        unsigned n = 0;

        for (size_t i = 0; i < N_TICKETS; i++)
                n += model->owner[i] == owner && model->has_slot[i];
        return n;
}

static bool model_waits(const Model *model, size_t i) {
        return model->owner[i] && !model->has_slot[i];
}

static size_t model_count(const Model *model, bool has_slot) {
        size_t n = 0;

        for (size_t i = 0; i < N_TICKETS; i++)
                n += model->owner[i] && model->has_slot[i] == has_slot;
        return n;
}

/* No waiting image may have had a better claim than the one that was served. */
static void model_serve(Model *model, size_t served, unsigned seed) {
        char owner = model->owner[served];
        unsigned n_slots = model_n_slots(model, owner);

        if (!model_waits(model, served))
                fail_msg("seed %u: served one who does not wait", seed);

        for (size_t i = 0; i < N_TICKETS; i++) {
                if (!model_waits(model, i) || i == served)
                        continue;
                if (model->owner[i] == owner && model->arrived[i] < model->arrived[served])
                        fail_msg("seed %u: one of %c came earlier", seed, owner);
                if (model_n_slots(model, model->owner[i]) < n_slots)
                        fail_msg("seed %u: %c has fewer slots than %c", seed, model->owner[i],
                                 owner);
                if (model->owner[i] != owner && model_n_slots(model, model->owner[i]) == n_slots &&
                    model->passed_over[i][(unsigned char) owner]++ > 0)
                        fail_msg("seed %u: %c was passed over twice by %c", seed, model->owner[i],
                                 owner);
        }
        model->has_slot[served] = true;
}

/* An owner that was served waits for its next turn like the others. */
static void model_forget_passing(Model *model, char owner) {
        for (size_t i = 0; i < N_TICKETS; i++)
                if (model->owner[i] == owner)
                        memset(model->passed_over[i], 0, sizeof(model->passed_over[i]));
}

static void model_enter(Model *model, size_t i, char owner, unsigned now) {
        model->owner[i] = owner;
        model->has_slot[i] = false;
        model->arrived[i] = now;
        memset(model->passed_over[i], 0, sizeof(model->passed_over[i]));
}

static void random_step(Fixture *fixture, Model *model, unsigned n_slots, unsigned now,
                        unsigned seed) {
        size_t i = (size_t) random() % N_TICKETS;
        int served;

        switch (random() % 4) {
        case 0:
                enter(fixture, i, (char) ('a' + random() % 4));
                model_enter(model, i, fixture->owners[i][0], now);
                break;
        case 1:
                queue_leave(&fixture->tickets[i]);
                model->owner[i] = 0;
                break;
        default:
                served = serve(fixture);
                if ((served >= 0) !=
                    (model_count(model, true) < n_slots && model_count(model, false) > 0))
                        fail_msg("seed %u: served %d", seed, served);
                if (served < 0)
                        break;
                model_serve(model, (size_t) served, seed);
                model_forget_passing(model, model->owner[served]);
        }
}

TEST(test_random) {
        for (unsigned seed = 0; seed < 2000; seed++) {
                cleanup(fixture_done) Fixture fixture;
                Model model = { .owner = { 0 } };
                unsigned n_slots;

                srandom(seed);
                n_slots = (unsigned) random() % 6;
                fixture_init(&fixture, n_slots);
                for (unsigned now = 0; now < 200; now++) {
                        random_step(&fixture, &model, n_slots, now, seed);
                        if (queue_n_waiting(fixture.queue) != model_count(&model, false) ||
                            queue_n_served(fixture.queue) != model_count(&model, true))
                                fail_msg("seed %u: counts differ at step %u", seed, now);
                }
        }
}
