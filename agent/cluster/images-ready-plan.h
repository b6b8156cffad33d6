/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether this node has the images of its sets → the condition of its Node
 *
 * An image that is still missing when its deadline ends counts as given up, and holds nothing up any more: so a
 * mistyped tag costs a node the deadline, and not all of its pods. Pure.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum ReadyState {
        READY_UNCHECKED, /* the runtime was not asked yet */
        READY_MISSING,
        READY_THERE,
} ReadyState;

/* An image that sets request of this node. The texts are borrowed, and not used once the sets have changed. */
typedef struct ReadyImage {
        const char *name;
        const char *tag;
        uint64_t digest; /* digest of name and tag */
        ReadyState state;
        uint64_t since_usec; /* when it was requested, or last there */
        bool was_given_up;   /* by an earlier run of the agent */
} ReadyImage;

typedef struct ReadyInput {
        const ReadyImage *images;
        size_t n_images;
        const char *wait;       /* why the pull of one is held back; NULL: none is. Borrowed */
        bool is_known;          /* the sets of this node are known */
        bool is_ready;          /* the condition is True now */
        uint64_t since_usec;    /* start of the agent */
        uint64_t deadline_usec; /* 0: none */
        uint64_t now_usec;
} ReadyInput;

typedef struct ReadyDecision {
        bool is_open; /* nothing can be said: the condition stays as it is, and the rest is unset */
        bool is_ready;
        const char *reason;
        char *message;      /* owned */
        uint64_t next_usec; /* end of the next deadline; UINT64_MAX: none; set in any case */
} ReadyDecision;

void ready_decision_done(ReadyDecision *decision);

/* Returns 0 or -ENOMEM. */
int images_ready_plan(const ReadyInput *input, ReadyDecision *ret);
