/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What auth.c and auth-named.c share: one question for keys
 */

#include "agent/auth/auth.h"
#include "agent/auth/complaints.h"
#include "agent/base/list.h"

/* A pull secret that the wish names. */
typedef struct AuthSlot {
        PullKeysAsk *ask;
        const char *namespace; /* NULL: a file of the folder */
        const char *name;
        const char *label;   /* "namespace/name", or the name */
        KubeSecretAsk *read; /* while it is read */
        Keyring *keyring;    /* when it was read */
        Error error;         /* or why it cannot be used */
} AuthSlot;

/* AuthSlots, and behind them their texts. */
struct PullKeysAsk {
        Auth *auth;
        LIST_LINKS(PullKeysAsk);
        PullKeysReady on_ready;
        void *userdata;
        bool was_denied;
        sd_event_source *ready; /* goes off when there is nothing more to wait for */

        CredentialProvidersAsk *providers_ask;
        Keyring *provided;

        size_t n_slots;
        size_t i_next; /* the first that nobody has begun to read */
        size_t n_reads;
        AuthSlot slots[];
};

struct Auth {
        AuthOptions options;
        KubeSecrets *secrets;
        Complaints complaints;
        PullKeysAsk *asks;
};

/* How many bytes the texts of the slots take, which stand behind them. */
size_t auth_slots_texts_size(const ImageWish *wish);

/* Fills the slots, which are all zero, as many as the wish has secrets. */
void auth_slots_init(PullKeysAsk *ask, const ImageWish *wish);
void auth_slots_done(PullKeysAsk *ask);

/* Begins to read as many as may be read at the same time. When all are read, auth_settle(). */
int auth_slots_read(PullKeysAsk *ask);

/* Whatever is not read by now is not going to be. */
void auth_slots_give_up(PullKeysAsk *ask);

/* There is one that can be used, or there is none at all. */
bool auth_slots_have_usable(const PullKeysAsk *ask);

/* What can be used, in the order of the wish, and a complaint about the rest. If nothing can be used
 * that is a refusal: an anonymous pull in its place might bring another image. */
int auth_slots_collect(PullKeysAsk *ask, Keyring *keyring, Error *reterr);

/* Looks whether there is anything more to wait for. */
void auth_settle(PullKeysAsk *ask);
