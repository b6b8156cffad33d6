/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which names of images are pinned
 *
 * containerd reports an image as pinned, which the kubelet's garbage collection skips, if one of its names
 * has a label. The agent adds a mark of its own to each label that it sets, and removes only those. What it
 * has to do follows from the labels and the requests alone, so that nothing else has to survive the agent.
 * Pure: no clock, no I/O.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PIN_LABEL "io.cri-containerd.pinned"
#define PIN_LABEL_VALUE "pinned"
#define PIN_MARK "inplaced.io/pinned"
#define PIN_MARK_VALUE "true"

#define PIN_NO_LIMIT UINT64_MAX

typedef enum PinAction {
        PIN_DO_NOTHING,
        PIN_DO_SET,    /* set label and mark */
        PIN_DO_REMOVE, /* remove the mark, and the label if it is ours */
} PinAction;

typedef enum PinState {
        PIN_NOT_WANTED,
        PIN_AWAITED,        /* the image is not there, or its label is only being set */
        PIN_IN_EFFECT,      /* the runtime reports the image as pinned */
        PIN_WITHOUT_EFFECT, /* the label is there, but the runtime does not report it */
        PIN_OVER_LIMIT,
        PIN_UNSUPPORTED, /* the runtime has no labels */
} PinState;

/* A name that is to be pinned, or has the label or the mark. */
typedef struct Pin {
        char *name;
        bool is_wanted;
        bool is_recorded; /* the runtime has a record of this name */
        char *label;      /* value of the label; NULL: there is none */
        bool is_marked;
        const char *id; /* ID of the image; NULL: the runtime does not list this name */
        uint64_t size;  /* bytes, as the runtime reports them */
        bool is_reported;

        char *refusal; /* the runtime's, of the last action; or NULL */

        PinAction action; /* this and the following member are results */
        PinState state;
} Pin;

/* The node, as far as it concerns all pins. */
typedef struct PinNode {
        bool has_labels; /* the runtime has labels */
        bool is_complete; /* all owners were heard, so that a name that none of them wants may lose its label */
        uint64_t limit; /* bytes that the agent may pin, or PIN_NO_LIMIT */
} PinNode;

/* The label is there with its exact value. */
bool pin_is_labeled(const Pin *pin);

/* Fills in what to do for each. Labels that are there stay within any limit. Returns the bytes of the images
 * that the agent pins then; an image with several names counts once. */
uint64_t pin_plan(const PinNode *node, Pin *pins, size_t n_pins);

/* Describes why a wanted pin is not in effect: "not pinned: ...". *ret is NULL if it is, or may soon be. runtime:
 * "containerd", version: "1.6.20". The caller owns *ret. */
int pin_describe(const Pin *pin, const PinNode *node, uint64_t n_bytes, const char *runtime,
                 const char *version, char **ret);
