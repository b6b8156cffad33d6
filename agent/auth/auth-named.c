/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <string.h>

#include "agent/auth/auth-internal.h"
#include "agent/base/quote.h"

/* How many pull secrets of one image are read at the same time. */
#define READS_MAX 8

bool auth_slots_have_usable(const PullKeysAsk *ask) {
        for (size_t i = 0; i < ask->n_slots; i++)
                if (ask->slots[i].keyring)
                        return true;

        return ask->n_slots == 0;
}

/* Remembers either what was read or why it was not. */
static int slot_take(AuthSlot *slot, int r, Keyring *keyring) {
        if (slot->error.kind == ERROR_NONE && r >= 0) {
                slot->keyring = keyring;
                return 0;
        }

        keyring_free(keyring);
        return slot->error.kind == ERROR_NONE ? r : 0;
}

static int slot_read_file(AuthSlot *slot) {
        Keyring *keyring;
        int r;

        r = keyring_new(&keyring);
        if (r < 0)
                return r;

        r = auth_dir_add_named(slot->ask->auth->options.dir, slot->name, keyring, &slot->error);
        return slot_take(slot, r, keyring);
}

static int slot_read_text(AuthSlot *slot, const char *text, size_t size) {
        Keyring *keyring;
        int r;

        r = keyring_new(&keyring);
        if (r < 0)
                return r;

        r = keyring_add_text(keyring, slot->label, text, size, &slot->error);
        return slot_take(slot, r, keyring);
}

static int on_secret_read(const char *text, size_t size, const Error *error, void *userdata) {
        AuthSlot *slot = userdata;
        PullKeysAsk *ask = slot->ask;
        int r;

        if (error)
                (void) error_copy(&slot->error, error);
        else {
                r = slot_read_text(slot, text, size);
                if (r < 0)
                        return r;
        }

        slot->read = kube_secret_ask_unref(slot->read);
        ask->n_reads--;
        r = auth_slots_read(ask);
        if (r < 0)
                return r;

        auth_settle(ask);
        return 0;
}

static int slot_begin(AuthSlot *slot) {
        PullKeysAsk *ask = slot->ask;
        int r;

        if (!slot->namespace || !ask->auth->secrets)
                return slot_read_file(slot);

        r = kube_secrets_get(ask->auth->secrets, slot->namespace, slot->name, ask->was_denied,
                             on_secret_read, slot, &slot->read);
        if (r < 0)
                return r;

        ask->n_reads++;
        return 0;
}

int auth_slots_read(PullKeysAsk *ask) {
        while (ask->i_next < ask->n_slots && ask->n_reads < READS_MAX) {
                int r;

                r = slot_begin(&ask->slots[ask->i_next++]);
                if (r < 0)
                        return r;
        }

        return 0;
}

/* The reason is that of the last one. */
static int refuse(const PullKeysAsk *ask, Error *reterr) {
        const Error *last = &ask->slots[ask->n_slots - 1].error;

        return error_set(reterr, last->kind, "no pull secret can be used: %s", error_message(last));
}

static void complain(Auth *auth, const AuthSlot *slot) {
        if (complaints_is_new(&auth->complaints, slot->label, error_message(&slot->error)))
                log_warning(auth->options.log, NULL,
                            "Cannot use the pull secret %s, going on with the others: %s",
                            quote(slot->label, (char[QUOTE_SIZE]){ 0 }),
                            error_message(&slot->error));
}

int auth_slots_collect(PullKeysAsk *ask, Keyring *keyring, Error *reterr) {
        if (!auth_slots_have_usable(ask))
                return refuse(ask, reterr);

        for (size_t i = 0; i < ask->n_slots; i++) {
                const AuthSlot *slot = &ask->slots[i];
                int r;

                if (!slot->keyring) {
                        complain(ask->auth, slot);
                        continue;
                }

                r = keyring_add_all(keyring, slot->keyring);
                if (r < 0)
                        return r;
        }

        return 0;
}

void auth_slots_done(PullKeysAsk *ask) {
        for (size_t i = 0; i < ask->n_slots; i++) {
                AuthSlot *slot = &ask->slots[i];

                slot->read = kube_secret_ask_unref(slot->read);
                slot->keyring = keyring_free(slot->keyring);
                error_done(&slot->error);
        }
}

static bool has_namespace(const SecretRef *secret) {
        return secret->namespace && *secret->namespace;
}

/* Each namespace twice and each name, too, with what separates them. */
size_t auth_slots_texts_size(const ImageWish *wish) {
        size_t size = 0;

        for (size_t i = 0; i < wish->n_secrets; i++) {
                const SecretRef *secret = &wish->secrets[i];

                size += 2 * (strlen(secret->namespace ?: "") + strlen(secret->name) + 2);
        }

        return size;
}

/* Returns what is behind the texts. */
static char *slot_init(AuthSlot *slot, PullKeysAsk *ask, const SecretRef *secret, char *text) {
        slot->ask = ask;
        slot->name = text;
        text = stpcpy(text, secret->name) + 1;
        slot->label = slot->name;
        if (!has_namespace(secret))
                return text;

        slot->namespace = text;
        text = stpcpy(text, secret->namespace) + 1;
        slot->label = text;
        text = stpcpy(stpcpy(text, secret->namespace), "/");
        return stpcpy(text, secret->name) + 1;
}

void auth_slots_init(PullKeysAsk *ask, const ImageWish *wish) {
        char *text = (char *) &ask->slots[wish->n_secrets];

        for (size_t i = 0; i < wish->n_secrets; i++)
                text = slot_init(&ask->slots[i], ask, &wish->secrets[i], text);
        ask->n_slots = wish->n_secrets;
}

void auth_slots_give_up(PullKeysAsk *ask) {
        for (size_t i = 0; i < ask->n_slots; i++) {
                AuthSlot *slot = &ask->slots[i];

                if (slot->keyring || slot->error.kind != ERROR_NONE)
                        continue;

                slot->read = kube_secret_ask_unref(slot->read);
                (void) error_set(&slot->error, ERROR_UNAVAILABLE,
                                 "secret %s: the API server is not asked any more", slot->label);
        }

        ask->i_next = ask->n_slots;
        ask->n_reads = 0;
        auth_settle(ask);
}
