/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How many probes and hooks are under way at a time
 *
 * Each of them, but for a hook that sleeps, has a place meanwhile, and waits where none is free. A server that
 * hangs keeps its place for as long as its pod's author says, so pods share them: half of the places are for pods
 * that have none. Who waits gets one in the order in which they came.
 */

#include <stdbool.h>
#include <stddef.h>
#include <systemd/sd-event.h>

#include "agent/base/list.h"
#include "agent/base/loop.h"

typedef struct Places Places;
typedef struct PlaceOwner PlaceOwner;
typedef struct Place Place;

/* Part of the struct of who needs it. */
struct Place {
        LIST_LINKS(Place); /* of those that wait */
        PlaceOwner *owner; /* NULL: it neither has a place nor waits */
        bool is_held;
        LoopCall on_given;
        void *userdata;
};

/* max: at least 2. */
int places_new(sd_event *event, size_t max, Places **ret);

/* Every place was given back. Returns NULL. */
Places *places_free(Places *places);

/* As many as this program's limit of descriptors allows. */
size_t places_choose_max(void);

/* 1: it has a place from now on. 0: on_given runs once it has, not from within. Or -ENOMEM. pod: its UID. places NULL:
 * there is no limit. */
int place_take(Place *place, Places *places, const char *pod, LoopCall on_given, void *userdata);

static inline bool place_is_waiting(const Place *place) {
        return place->owner && !place->is_held;
}

/* Gives it back, or waits no longer. Does nothing if neither is so. */
void place_release(Place *place);
