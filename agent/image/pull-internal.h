/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The inside of a pull: pull.c moves it from state to state, pull-ask.c talks to the runtime
 */

#include "agent/image/pull-plan.h"
#include "agent/image/pull.h"

struct Pull {
        Ticket ticket; /* first, see pull_on_slot() */
        const PullContext *context;
        PullChanged on_changed;
        void *userdata;

        ImageWish wish;
        ImageRef ref;
        char *reference; /* what the runtime is asked for */
        char *owner;

        PullState state;
        ImageStatus status;
        uint64_t looked_usec; /* when it had its first turn */
        unsigned n_failures;
        unsigned n_losses;   /* how often the runtime went away while it pulled this */
        unsigned n_keyless;  /* how often nobody answered who has the credentials */
        PullRequest request; /* of the attempt that runs */
        char *answered_id;   /* what PullImage answered */

        PullKeysAsk *ask; /* for credentials, if it runs */
        RpcCall *call;    /* the one in flight, if any */
        Progress *progress;
        sd_event_source *retry;
        sd_event_source *deadline;
};

/* Feeds the plan with what happened, and does what it answers. */
int pull_handle(Pull *pull, PullEvent event);

/* The monotonic clock, as of this turn of the loop. */
uint64_t pull_now(const Pull *pull);

/* The runtime cannot be asked now. */
bool pull_runtime_is_away(const Pull *pull);

/* Asks whether the image is there already, for the credentials, pulls it, asks what is there now. */
int pull_look(Pull *pull);
int pull_authenticate(Pull *pull);
int pull_pull(Pull *pull);
int pull_identify(Pull *pull);
