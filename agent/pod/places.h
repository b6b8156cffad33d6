/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Limits how many probes and hooks run at a time
 *
 * Each of them, except a hook that sleeps, holds a place while it runs, and waits if none is free. A server that
 * hangs keeps its place for as long as the pod's author allows, so half of the places are reserved for pods that
 * hold none. Waiting probes and hooks get places in the order in which they came.
 */

#include <stdbool.h>
#include <stddef.h>
#include <systemd/sd-event.h>

#include "agent/base/list.h"
#include "agent/base/loop.h"

typedef struct Places Places;
typedef struct PlaceOwner PlaceOwner;
typedef struct Place Place;

/* Embedded in the struct of the probe or hook that needs it. */
struct Place {
        LIST_LINKS(Place); /* links of the waiting places */
        PlaceOwner *owner; /* NULL: neither held nor waiting */
        bool is_held;
        LoopCall on_given;
        void *userdata;
};

/* max: at least 2. */
int places_new(sd_event *event, size_t max, Places **ret);

/* All places have been released. Returns NULL. */
Places *places_free(Places *places);

/* Returns as many as this program's limit of descriptors allows. */
size_t places_choose_max(void);

/* Returns 1 if the place is held now, 0 if on_given runs once it is (not from within), or -ENOMEM.
 * pod: its UID. places NULL: no limit. */
int place_take(Place *place, Places *places, const char *pod, LoopCall on_given, void *userdata);

static inline bool place_is_waiting(const Place *place) {
        return place->owner && !place->is_held;
}

/* Gives the place back, or stops waiting for one. Does nothing if neither is so. */
void place_release(Place *place);
