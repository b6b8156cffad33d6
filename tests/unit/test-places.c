/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests who gets a place when there are fewer than are wanted
 */

#include "agent/pod/places.h"
#include "tests/unit/unit.h"

#define MAX 8
#define WANT_MAX 32

typedef struct Want {
        Place place;
        unsigned n_given;
} Want;

static struct Fixture {
        sd_event *event;
        Places *places;
        Want wants[WANT_MAX];
        unsigned n_wants;
        Want *freed; /* by the next one that is given a place */
} f;

static int set_up(void **state) {
        f = (struct Fixture){ .event = NULL };
        assert_true(sd_event_new(&f.event) >= 0);
        assert_ok(places_new(f.event, MAX, &f.places));
        return 0;
}

static int tear_down(void **state) {
        for (unsigned i = 0; i < f.n_wants; i++)
                place_release(&f.wants[i].place);
        assert_null(places_free(f.places));
        sd_event_unref(f.event);
        return 0;
}

static int on_given(void *userdata) {
        Want *want = userdata;

        want->n_given++;
        if (f.freed)
                place_release(&f.freed->place);
        f.freed = NULL;
        return 0;
}

static Want *want(const char *pod) {
        Want *made = &f.wants[f.n_wants++];

        assert_in_range(f.n_wants, 1, WANT_MAX);
        assert_true(place_take(&made->place, f.places, pod, on_given, made) >= 0);
        return made;
}

static void run(void) {
        while (sd_event_run(f.event, 0) > 0)
                ;
}

#define assert_has(want) assert_true((want)->place.owner && (want)->place.is_held)
#define assert_waits(want) assert_true(place_is_waiting(&(want)->place))

/* A pod has at most half of the places, and each other one gets its first. */
TEST_SET_UP(test_pods_share) {
        Want *greedy[MAX], *others[MAX / 2], *late;

        for (unsigned i = 0; i < MAX; i++)
                greedy[i] = want("greedy");
        for (unsigned i = 0; i < MAX; i++)
                assert_int_equal(place_is_waiting(&greedy[i]->place), i >= MAX / 2);
        for (unsigned i = 0; i < MAX / 2; i++) {
                char name[8];

                snprintf(name, sizeof(name), "p%u", i);
                others[i] = want(name);
                assert_has(others[i]);
        }

        late = want("late");
        assert_waits(late);
        /* A place that the greedy pod gives back goes to another one. */
        place_release(&greedy[0]->place);
        assert_waits(late);
        run();
        assert_has(late);
        assert_int_equal(late->n_given, 1);
        assert_waits(greedy[MAX / 2]);
        for (unsigned i = 0; i < MAX / 2; i++)
                place_release(&others[i]->place);
        run();
        assert_waits(greedy[MAX / 2]);
        place_release(&late->place);
        run();
        assert_has(greedy[MAX / 2]);
        assert_waits(greedy[MAX / 2 + 1]);
}

/* Probes get places in the order in which they came; a place that is given back is the next one's. */
TEST_SET_UP(test_order) {
        Want *held[MAX], *first, *second, *third, *fourth, *fifth;

        for (unsigned i = 0; i < MAX; i++) {
                char name[8];

                snprintf(name, sizeof(name), "p%u", i);
                held[i] = want(name);
                assert_has(held[i]);
        }
        first = want("a");
        second = want("b");
        third = want("c");
        place_release(&second->place);
        place_release(&held[0]->place);
        fourth = want("d");
        assert_waits(fourth);
        run();
        assert_has(first);
        assert_int_equal(second->n_given, 0);
        assert_waits(third);
        /* The callback may end another probe. */
        f.freed = fourth;
        place_release(&held[1]->place);
        place_release(&held[2]->place);
        run();
        assert_has(third);
        assert_int_equal(fourth->n_given, 0);
        /* The fourth one has no place to give back. */
        place_release(&fourth->place);
        fifth = want("e");
        assert_has(fifth);
}

TEST_SET_UP(test_no_limit) {
        Place place = { .owner = NULL };

        assert_int_equal(place_take(&place, NULL, "p", on_given, NULL), 1);
        assert_false(place_is_waiting(&place));
        place_release(&place);
        assert_in_range(places_choose_max(), 2, 40);
}
