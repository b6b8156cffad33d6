/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/pod/places.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "agent/base/cleanup.h"

/* A pod's server may cost 200 KB of memory, and all of them together 8 MB. */
#define PLACES_MAX 40

/* A probe has up to four descriptors, and all probes use at most half of the limit. */
#define DESCRIPTORS_PER_PLACE 8

/* A pod that holds a place or waits. */
struct PlaceOwner {
        LIST_LINKS(PlaceOwner);
        Places *places;
        size_t n_refs;
        size_t n_held;
        char pod[];
};

struct Places {
        size_t max;
        size_t n_held;
        PlaceOwner *owners;
        Place *first, *last; /* places that wait, the oldest first */
        Deferred due;        /* gives free places to those that wait */
};

static PlaceOwner *owner_find(Places *places, const char *pod) {
        const size_t size = strlen(pod) + 1;
        PlaceOwner *owner = places->owners;

        while (owner && strcmp(owner->pod, pod) != 0)
                owner = owner->next;
        if (!owner) {
                owner = malloc(sizeof(*owner) + size);
                if (!owner)
                        return NULL;

                *owner = (PlaceOwner){ .places = places };
                memcpy(owner->pod, pod, size);
                list_prepend(&places->owners, owner);
        }

        owner->n_refs++;
        return owner;
}

static void owner_unref(PlaceOwner *owner) {
        if (--owner->n_refs > 0)
                return;

        list_remove(&owner->places->owners, owner);
        free(owner);
}

/* A pod's first place may be any one; further ones come from the half that is not reserved. */
static bool owner_may_have(const PlaceOwner *owner) {
        const Places *places = owner->places;
        size_t n_kept = owner->n_held == 0 ? 0 : places->max / 2;

        return places->n_held + n_kept < places->max;
}

static void place_hold(Place *place) {
        place->is_held = true;
        place->owner->n_held++;
        place->owner->places->n_held++;
}

static void place_wait(Place *place) {
        Places *places = place->owner->places;

        place->previous = places->last;
        place->next = NULL;
        if (places->last)
                places->last->next = place;
        else
                places->first = place;
        places->last = place;
}

static void place_wait_no_longer(Place *place) {
        Places *places = place->owner->places;

        if (places->last == place)
                places->last = place->previous;
        list_remove(&places->first, place);
}

static Place *places_next(const Places *places) {
        Place *place = places->n_held < places->max ? places->first : NULL;

        while (place && !owner_may_have(place->owner))
                place = place->next;
        return place;
}

/* Any place may be released in a callback. */
static int on_due(void *userdata) {
        Places *places = userdata;
        Place *place;
        int r = 0;

        while (r >= 0 && (place = places_next(places))) {
                place_wait_no_longer(place);
                place_hold(place);
                r = place->on_given(place->userdata);
        }

        return r;
}

int places_new(sd_event *event, size_t max, Places **ret) {
        Places *places = malloc(sizeof(*places));

        if (!places)
                return -ENOMEM;

        *places = (Places){ .max = max };
        deferred_init(&places->due, event, on_due, places);
        *ret = places;
        return 0;
}

Places *places_free(Places *places) {
        if (!places)
                return NULL;

        assert(!places->owners);
        deferred_done(&places->due);
        free(places);
        return NULL;
}

size_t places_choose_max(void) {
        struct rlimit limit;
        size_t max = PLACES_MAX;

        if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur / DESCRIPTORS_PER_PLACE < max)
                max = (size_t) limit.rlim_cur / DESCRIPTORS_PER_PLACE;
        return max > 2 ? max : 2;
}

int place_take(Place *place, Places *places, const char *pod, LoopCall on_given, void *userdata) {
        PlaceOwner *owner;

        if (!places)
                return 1;

        owner = owner_find(places, pod);
        if (!owner)
                return -ENOMEM;

        *place = (Place){ .owner = owner, .on_given = on_given, .userdata = userdata };
        if (!places_next(places) && owner_may_have(owner)) {
                place_hold(place);
                return 1;
        }

        place_wait(place);
        return 0;
}

void place_release(Place *place) {
        PlaceOwner *owner = place->owner;

        if (!owner)
                return;

        if (place->is_held) {
                owner->n_held--;
                owner->places->n_held--;
                if (owner->places->first)
                        (void) deferred_request(&owner->places->due);
        } else {
                place_wait_no_longer(place);
        }
        *place = (Place){ .owner = NULL };
        owner_unref(owner);
}
