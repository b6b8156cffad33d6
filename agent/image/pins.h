/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Keeps images from the kubelet's garbage collection
 *
 * Compares the labels of containerd's image records with the requests that want a pin, sets and removes labels
 * (pin-plan.h decides), and notes in an image's status why its pin is not in effect. Does so when requests
 * change, when containerd reports a changed record, when the runtime is back, and once an hour. Nothing is kept
 * between two rounds: the labels are the memory.
 */

#include "agent/base/diagnosis-visitor.h"
#include "agent/image/images.h"

typedef struct Pins Pins;

typedef struct PinsOptions {
        sd_event *event;
        Log *log;
        const Runtimes *runtimes; /* these three are borrowed, and have to outlive the pins */
        Images *images;
        DiskFloor limit; /* the most that may be pinned; all zero: no limit */

        /* A round has ended: with an error, or with nothing left to do. May be NULL. */
        void (*on_round)(const Error *error, void *userdata);
        void *userdata;
} PinsOptions;

int pins_new(const PinsOptions *options, Pins **ret);
Pins *pins_free(Pins *pins);

int pins_set_limit(Pins *pins, const DiskFloor *limit);

/* The chosen runtime came or went. */
int pins_runtime_changed(Pins *pins);

/* Whether the agent has pinned this name, as the runtime spells it. */
bool pins_has(const Pins *pins, const char *name);

/* Visits pins without effect and mistyped labels. */
int pins_visit(const Pins *pins, const DiagnosisVisitor *visitor);
