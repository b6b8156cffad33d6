/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where the credentials for a pull come from
 *
 * The engine asks before each attempt, since they may have been mended or have expired meanwhile.
 * Reading them may take time: a file, the API server, another program.
 */

#include "agent/image/credentials.h"
#include "agent/image/image-ref.h"
#include "agent/image/desired-image.h"

/* Those that may be tried, in this order. */
typedef struct PullKeys {
        Keyring *named;   /* of the desired image's own pull secrets; or NULL */
        Keyring *general; /* of the node; or NULL */
} PullKeys;

void pull_keys_done(PullKeys *keys);

typedef struct PullKeysAsk PullKeysAsk;

typedef struct PullKeysQuestion {
        const DesiredImage *desired;
        const ImageRef *ref;
        bool was_denied; /* the last attempt was: what is kept in a cache will not do */
} PullKeysQuestion;

/* The keys may be taken out of *keys. Pull secrets that are named and of which none can be read are
 * a refusal. May drop the ask. Runs once, not from within ask(). */
typedef int (*PullKeysReady)(PullKeys *keys, const Error *error, void *userdata);

/* One small interface, so that the engine does not know what is behind it. */
typedef struct PullKeySource {
        /* The question is borrowed during the call. */
        int (*ask)(void *source, const PullKeysQuestion *question, PullKeysReady on_ready,
                   void *userdata, PullKeysAsk **ret);
        /* on_ready does not run any more; returns NULL. Does nothing to NULL. */
        PullKeysAsk *(*drop)(PullKeysAsk *ask);
        void *source;
} PullKeySource;
