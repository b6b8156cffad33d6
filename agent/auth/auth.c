/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/auth/auth.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/folder-watch.h"
#include "agent/base/list.h"
#include "agent/base/log-once.h"
#include "agent/base/loop.h"
#include "agent/base/quote.h"
#include "agent/base/text.h"

/* Limit of simultaneous reads of one image's pull secrets. */
#define READS_MAX 8

/* A pull secret that the desired image names. */
typedef struct Slot {
        PullCredentialsAsk *ask;
        const char *namespace; /* NULL: a file of the folder */
        const char *name;
        const char *label;   /* "namespace/name", or the name */
        KubeSecretAsk *read; /* while it is read */
        Keyring *keyring;    /* when it was read */
        Error error;         /* reason why it cannot be used */
        bool is_gone;        /* the API server has none of this name */
} Slot;

/* Slots, followed by their texts. */
struct PullCredentialsAsk {
        Auth *auth;
        LIST_LINKS(PullCredentialsAsk);
        PullCredentialsReady on_ready;
        void *userdata;
        bool was_denied;
        Deferred ready; /* called when nothing is pending any more */

        CredentialProvidersAsk *providers_ask;
        Keyring *provided;

        size_t n_slots;
        size_t i_next; /* index of the next slot to read */
        size_t n_reads;
        Slot slots[];
};

struct Auth {
        AuthOptions options;
        KubeSecrets *secrets;
        LogOnceMany problems;
        PullCredentialsAsk *asks;
        FolderWatch folder;
};

static bool has_namespace(const SecretRef *secret) {
        return secret->namespace && *secret->namespace;
}

/* Returns the size of the slots' texts: each namespace and name twice, with separators. */
static size_t slots_texts_size(const DesiredImage *desired) {
        size_t size = 0;

        for (size_t i = 0; i < desired->n_secrets; i++) {
                const SecretRef *secret = &desired->secrets[i];

                size += 2 * (strlen(secret->namespace ?: "") + strlen(secret->name) + 2);
        }

        return size;
}

/* Returns the end of the slot's texts. */
static char *slot_init(Slot *slot, PullCredentialsAsk *ask, const SecretRef *secret, char *text) {
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

static void slots_init(PullCredentialsAsk *ask, const DesiredImage *desired) {
        char *text = (char *) &ask->slots[desired->n_secrets];

        for (size_t i = 0; i < desired->n_secrets; i++)
                text = slot_init(&ask->slots[i], ask, &desired->secrets[i], text);
        ask->n_slots = desired->n_secrets;
}

static void slots_done(PullCredentialsAsk *ask) {
        for (size_t i = 0; i < ask->n_slots; i++) {
                Slot *slot = &ask->slots[i];

                slot->read = kube_secret_ask_unref(slot->read);
                slot->keyring = keyring_free(slot->keyring);
                error_done(&slot->error);
        }
}

static bool slots_have_keyring(const PullCredentialsAsk *ask) {
        for (size_t i = 0; i < ask->n_slots; i++)
                if (ask->slots[i].keyring)
                        return true;

        return false;
}

/* Whether there is none at all: OpenKruise removes a secret after the job that brought it, but leaves its name for the
 * jobs that follow. */
static bool slots_are_gone(const PullCredentialsAsk *ask) {
        for (size_t i = 0; i < ask->n_slots; i++)
                if (!ask->slots[i].is_gone)
                        return false;

        return true;
}

static bool slots_have_usable(const PullCredentialsAsk *ask) {
        return slots_have_keyring(ask) || slots_are_gone(ask);
}

/* Ends the wait when nothing is left to wait for. Without a usable pull secret, the plugins make no
 * difference. */
static void finish_if_done(PullCredentialsAsk *ask) {
        if (ask->i_next < ask->n_slots || ask->n_reads > 0)
                return;

        if (!ask->providers_ask || !slots_have_usable(ask))
                (void) deferred_request(&ask->ready);
}

/* Keeps the keyring, or the reason why there is none. */
static int slot_take(Slot *slot, int r, Keyring *keyring) {
        if (slot->error.kind == ERROR_NONE && r >= 0) {
                slot->keyring = keyring;
                return 0;
        }

        keyring_free(keyring);
        return slot->error.kind == ERROR_NONE ? r : 0;
}

static int slot_read_file(Slot *slot) {
        Keyring *keyring;
        int r;

        r = keyring_new(&keyring);
        if (r < 0)
                return r;

        r = auth_dir_add_named(slot->ask->auth->options.dir, slot->name, keyring, &slot->error);
        return slot_take(slot, r, keyring);
}

static int slot_read_text(Slot *slot, const char *text, size_t size) {
        Keyring *keyring;
        int r;

        r = keyring_new(&keyring);
        if (r < 0)
                return r;

        r = keyring_add_text(keyring, slot->label, text, size, &slot->error);
        return slot_take(slot, r, keyring);
}

static int slots_read(PullCredentialsAsk *ask);

static int on_secret_read(const char *text, size_t size, const Error *error, void *userdata) {
        Slot *slot = userdata;
        PullCredentialsAsk *ask = slot->ask;
        int r;

        if (error) {
                (void) error_copy(&slot->error, error);
                slot->is_gone = error->kind == ERROR_NOT_FOUND;
        } else {
                r = slot_read_text(slot, text, size);
                if (r < 0)
                        return r;
        }

        slot->read = kube_secret_ask_unref(slot->read);
        ask->n_reads--;
        r = slots_read(ask);
        if (r < 0)
                return r;

        finish_if_done(ask);
        return 0;
}

static int slot_begin(Slot *slot) {
        PullCredentialsAsk *ask = slot->ask;
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

/* Starts as many reads as may run at the same time. When all are read, finish_if_done(). */
static int slots_read(PullCredentialsAsk *ask) {
        while (ask->i_next < ask->n_slots && ask->n_reads < READS_MAX) {
                int r;

                r = slot_begin(&ask->slots[ask->i_next++]);
                if (r < 0)
                        return r;
        }

        return 0;
}

/* Fails the slots that are not read yet: there is no API server to read them from any more. */
static void slots_give_up(PullCredentialsAsk *ask) {
        for (size_t i = 0; i < ask->n_slots; i++) {
                Slot *slot = &ask->slots[i];

                if (slot->keyring || slot->error.kind != ERROR_NONE)
                        continue;

                slot->read = kube_secret_ask_unref(slot->read);
                (void) error_set(
                        &slot->error, ERROR_UNAVAILABLE,
                        "secret %s: this agent no longer reads secrets from the API server",
                        slot->label);
        }

        ask->i_next = ask->n_slots;
        ask->n_reads = 0;
        finish_if_done(ask);
}

/* Refuses with the reason of the last slot that could not be asked, since it may have the right credentials, or else
 * with that of the last one that is there. */
static int refuse(const PullCredentialsAsk *ask, Error *reterr) {
        const Error *reason = &ask->slots[0].error;

        for (size_t i = 0; i < ask->n_slots; i++) {
                const Slot *slot = &ask->slots[i];

                if (!slot->is_gone &&
                    (!error_is_unanswered(reason) || error_is_unanswered(&slot->error)))
                        reason = &slot->error;
        }
        return error_set(reterr, reason->kind, "no pull secret can be used: %s",
                         error_message(reason));
}

static void complain_secret(Auth *auth, const Slot *slot) {
        if (log_once_of(&auth->problems, slot->label, error_message(&slot->error)))
                log_warning(auth->options.log, NULL,
                            "Cannot use the pull secret %s, continuing without it: %s",
                            quote(slot->label, (char[QUOTE_SIZE]){ 0 }),
                            error_message(&slot->error));
}

/* Collects the usable credentials in the order of the desired image, and logs a problem for each
 * other slot. Refuses if no slot is usable: an anonymous pull instead could bring another image. */
static int slots_collect(PullCredentialsAsk *ask, PullCredentials *keys, Error *reterr) {
        int r;

        if (!slots_have_usable(ask))
                return refuse(ask, reterr);

        r = keyring_new(&keys->named);
        if (r >= 0 && slots_are_gone(ask))
                r = text_copy(error_message(&ask->slots[0].error), &keys->lacking);
        if (r < 0)
                return r;

        for (size_t i = 0; i < ask->n_slots; i++) {
                const Slot *slot = &ask->slots[i];

                if (!slot->keyring) {
                        complain_secret(ask->auth, slot);
                        continue;
                }

                r = keyring_add_all(keys->named, slot->keyring);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int on_provided(const Keyring *keyring, const Error *error, void *userdata) {
        PullCredentialsAsk *ask = userdata;
        int r;

        r = keyring_new(&ask->provided);
        if (r < 0)
                return r;
        r = keyring_add_all(ask->provided, keyring);
        if (r < 0)
                return r;

        ask->providers_ask = credential_providers_ask_unref(ask->providers_ask);
        finish_if_done(ask);
        return 0;
}

static void complain_general(Auth *auth, const Error *error) {
        if (log_once_of(&auth->problems, "", error_message(error)))
                log_warning(auth->options.log, NULL,
                            "Cannot use credentials of this node, continuing without them: %s",
                            error_message(error));
}

static int on_file_problem(const char *file, const Error *error, void *userdata) {
        complain_general(userdata, error);
        return 0;
}

static int collect_general(PullCredentialsAsk *ask, Keyring *keyring) {
        cleanup(error_done) Error error = ERROR_INIT;
        Auth *auth = ask->auth;
        int r;

        r = auth_dir_add_all(auth->options.dir, keyring, on_file_problem, auth);
        if (r < 0)
                return r;

        if (auth->options.docker) {
                r = docker_config_add(auth->options.docker, keyring, &error);
                if (error.kind != ERROR_NONE)
                        complain_general(auth, &error);
                else if (r < 0)
                        return r;
        }

        return ask->provided ? keyring_add_all(keyring, ask->provided) : 0;
}

static int collect(PullCredentialsAsk *ask, PullCredentials *keys, Error *reterr) {
        int r;

        r = ask->n_slots > 0 ? slots_collect(ask, keys, reterr) : 0;
        if (r >= 0)
                r = keyring_new(&keys->general);
        if (r < 0)
                return r;

        return collect_general(ask, keys->general);
}

/* The callback may drop the ask, so nothing that is handed out belongs to it. */
static int on_ready(void *userdata) {
        cleanup(pull_credentials_done) PullCredentials keys = { .named = NULL };
        cleanup(error_done) Error error = ERROR_INIT;
        PullCredentialsAsk *ask = userdata;
        int r;

        ask->providers_ask = credential_providers_ask_unref(ask->providers_ask);
        r = collect(ask, &keys, &error);
        if (r < 0 && error.kind == ERROR_NONE)
                return r;

        return ask->on_ready(&keys, error.kind == ERROR_NONE ? NULL : &error, ask->userdata);
}

static PullCredentialsAsk *auth_drop(PullCredentialsAsk *ask) {
        if (!ask)
                return NULL;

        list_remove(&ask->auth->asks, ask);
        slots_done(ask);
        credential_providers_ask_unref(ask->providers_ask);
        keyring_free(ask->provided);
        deferred_done(&ask->ready);
        free(ask);
        return NULL;
}

DEFINE_CLEANUP(PullCredentialsAsk *, auth_drop)

static int ask_new(Auth *auth, const PullCredentialsQuestion *question, PullCredentialsAsk **ret) {
        const DesiredImage *desired = question->desired;
        cleanup(auth_drop_p) PullCredentialsAsk *ask = NULL;
        int r;

        ask = calloc(1, sizeof(*ask) + desired->n_secrets * sizeof(ask->slots[0]) +
                                slots_texts_size(desired));
        if (!ask)
                return -ENOMEM;

        ask->auth = auth;
        ask->was_denied = question->was_denied;
        slots_init(ask, desired);
        list_prepend(&auth->asks, ask);

        /* Starts the callback once, so that later requests need no memory. */
        deferred_init(&ask->ready, auth->options.event, on_ready, ask);
        r = deferred_request(&ask->ready);
        if (r < 0)
                return r;

        deferred_cancel(&ask->ready);
        *ret = take_ptr(ask);
        return 0;
}

static int ask_providers(PullCredentialsAsk *ask, const ImageRef *ref) {
        cleanup(free_p) char *name = NULL;
        int r;

        if (!ask->auth->options.providers || image_ref_is_searched(ref))
                return 0;

        r = image_ref_canonical_name(ref, &name);
        if (r < 0)
                return r;

        return credential_providers_ask(ask->auth->options.providers, name, ask->was_denied,
                                        on_provided, ask, &ask->providers_ask);
}

static int auth_ask(void *source, const PullCredentialsQuestion *question,
                    PullCredentialsReady on_keys, void *userdata, PullCredentialsAsk **ret) {
        cleanup(auth_drop_p) PullCredentialsAsk *ask = NULL;
        int r;

        r = ask_new(source, question, &ask);
        if (r < 0)
                return r;

        /* A folder that was missing may be there now. */
        r = ask->auth->folder.path ? folder_watch_start(&ask->auth->folder) : 0;
        if (r < 0)
                return r;

        ask->on_ready = on_keys;
        ask->userdata = userdata;
        r = ask_providers(ask, question->ref);
        if (r < 0)
                return r;
        r = slots_read(ask);
        if (r < 0)
                return r;

        finish_if_done(ask);
        *ret = take_ptr(ask);
        return 0;
}

int auth_new(const AuthOptions *options, Auth **ret) {
        Auth *auth;

        auth = calloc(1, sizeof(*auth));
        if (!auth)
                return -ENOMEM;

        auth->options = *options;

        *ret = auth;
        return 0;
}

Auth *auth_free(Auth *auth) {
        if (!auth)
                return NULL;

        folder_watch_done(&auth->folder);
        free(auth);
        return NULL;
}

int auth_watch(Auth *auth, LoopCall on_changed, void *userdata) {
        folder_watch_init(&auth->folder, auth->options.event, auth_dir_path(auth->options.dir),
                          on_changed, userdata);
        return folder_watch_start(&auth->folder);
}

void auth_set_secrets(Auth *auth, KubeSecrets *secrets) {
        if (auth->secrets == secrets)
                return;

        auth->secrets = secrets;
        for (PullCredentialsAsk *ask = auth->asks; ask; ask = ask->next)
                if (ask->n_reads > 0)
                        slots_give_up(ask);
}

PullCredentialsSource auth_source(Auth *auth) {
        return (PullCredentialsSource){ .ask = auth_ask, .drop = auth_drop, .source = auth };
}
