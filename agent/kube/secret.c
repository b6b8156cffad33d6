/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/secret.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/list.h"
#include "agent/base/loop.h"
#include "agent/base/quote.h"
#include "agent/kube/secret-answer.h"
#include "agent/kube/secret-read.h"
#include "agent/kube/secret-spec.h"

#define KEEP_USEC_DEFAULT ((uint64_t) 60 * 1000000)
#define KEPT_MAX 64
#define MISSING_SHARE 6 /* what is missing is believed for this part of the time */
#define FRESH_SHARE 60  /* and what was read this recently is fresh */

typedef struct Entry {
        LIST_LINKS(struct Entry);
        KubeSecrets *secrets;
        char *namespace;
        char *name;
        SecretRead *read;
        size_t n_asks; /* that wait for the read */
        SecretAnswer *kept;
        uint64_t read_usec; /* when it was */
        uint64_t expires_usec;
} Entry;

struct KubeSecretAsk {
        LIST_LINKS(struct KubeSecretAsk);
        KubeSecrets *secrets;
        Entry *entry; /* of the read that it waits for */
        SecretAnswer *answer;
        sd_event_source *ready;
        KubeSecretRead on_read;
        void *userdata;
};

struct KubeSecrets {
        KubeClient *client;
        sd_event *event;
        uint64_t keep_usec;
        Entry *entries; /* those that were used last come first */
        size_t n_entries;
        KubeSecretAsk *asks;
        sd_event_source *expiry;
};

DEFINE_CLEANUP(KubeSecretAsk *, kube_secret_ask_unref)

static Entry *entry_free(Entry *entry) {
        if (!entry)
                return NULL;

        entry->read = secret_read_free(entry->read);
        entry->kept = secret_answer_unref(entry->kept);
        free(entry->namespace);
        free(entry->name);
        free(entry);
        return NULL;
}

DEFINE_CLEANUP(Entry *, entry_free)

static int entry_new(KubeSecrets *secrets, const char *namespace, const char *name, Entry **ret) {
        cleanup(entry_free_p) Entry *entry = NULL;

        entry = calloc(1, sizeof(*entry));
        if (!entry)
                return -ENOMEM;

        entry->secrets = secrets;
        entry->namespace = strdup(namespace);
        entry->name = strdup(name);
        if (!entry->namespace || !entry->name)
                return -ENOMEM;

        *ret = take_ptr(entry);
        return 0;
}

static void secrets_drop(KubeSecrets *secrets, Entry *entry) {
        list_remove(&secrets->entries, entry);
        secrets->n_entries--;
        entry_free(entry);
}

/* Nobody waits for it any more: what remains is what is kept. */
static void entry_release(Entry *entry) {
        if (entry->n_asks > 0)
                return;

        entry->read = secret_read_free(entry->read);
        if (!entry->kept)
                secrets_drop(entry->secrets, entry);
}

static void secrets_evict(KubeSecrets *secrets) {
        while (secrets->n_entries > KEPT_MAX) {
                Entry *spare = NULL;

                for (Entry *entry = secrets->entries; entry; entry = entry->next)
                        if (entry->n_asks == 0)
                                spare = entry;
                if (!spare)
                        break;

                secrets_drop(secrets, spare);
        }
}

static int secrets_arm_expiry(KubeSecrets *secrets);

static int on_expiry(sd_event_source *source, uint64_t usec, void *userdata) {
        KubeSecrets *secrets = userdata;
        Entry *next;

        secrets->expiry = sd_event_source_unref(secrets->expiry);
        for (Entry *entry = secrets->entries; entry; entry = next) {
                next = entry->next;
                if (!entry->kept || entry->expires_usec > usec)
                        continue;

                entry->kept = secret_answer_unref(entry->kept);
                entry_release(entry);
        }

        return secrets_arm_expiry(secrets);
}

/* A credential does not stay in memory for longer than it is believed. */
static int secrets_arm_expiry(KubeSecrets *secrets) {
        uint64_t expires_usec = UINT64_MAX;

        for (const Entry *entry = secrets->entries; entry; entry = entry->next)
                if (entry->kept && entry->expires_usec < expires_usec)
                        expires_usec = entry->expires_usec;
        if (expires_usec == UINT64_MAX)
                return 0;

        secrets->expiry = sd_event_source_unref(secrets->expiry);
        return loop_add_time(secrets->event, &secrets->expiry, CLOCK_MONOTONIC, expires_usec, 0,
                             on_expiry, secrets);
}

static int on_ready(sd_event_source *source, void *userdata) {
        KubeSecretAsk *ask = userdata;
        cleanup(secret_answer_unref_p) SecretAnswer *answer = take_ptr(ask->answer);

        ask->ready = sd_event_source_unref(ask->ready);
        if (answer->error.kind != ERROR_NONE)
                return ask->on_read(NULL, 0, &answer->error, ask->userdata);

        return ask->on_read(answer->text.data, answer->text.size, NULL, ask->userdata);
}

static int ask_answer(KubeSecretAsk *ask, SecretAnswer *answer) {
        ask->answer = secret_answer_ref(answer);
        return loop_add_defer(ask->secrets->event, &ask->ready, on_ready, ask);
}

static int entry_answer(Entry *entry, SecretAnswer *answer) {
        int r = 0;

        for (KubeSecretAsk *ask = entry->secrets->asks; r >= 0 && ask; ask = ask->next)
                if (ask->entry == entry) {
                        ask->entry = NULL;
                        entry->n_asks--;
                        r = ask_answer(ask, answer);
                }

        return r;
}

static void entry_keep(Entry *entry, SecretAnswer *answer) {
        bool is_text = answer->error.kind == ERROR_NONE;
        uint64_t keep_usec = entry->secrets->keep_usec;

        (void) sd_event_now(entry->secrets->event, CLOCK_MONOTONIC, &entry->read_usec);
        entry->expires_usec = entry->read_usec + (is_text ? keep_usec : keep_usec / MISSING_SHARE);
        (void) secret_answer_unref(entry->kept);
        entry->kept = secret_answer_ref(answer);
}

static int on_read_done(SecretText *text, const Error *error, void *userdata) {
        cleanup(secret_answer_unref_p) SecretAnswer *answer = NULL;
        Entry *entry = userdata;
        KubeSecrets *secrets = entry->secrets;
        int r;

        r = secret_answer_new(text, error, &answer);
        if (r < 0)
                return r;

        r = entry_answer(entry, answer);
        if (r < 0)
                return r;

        if (!error || error->kind != ERROR_UNAVAILABLE)
                entry_keep(entry, answer);
        entry_release(entry);
        secrets_evict(secrets);
        return secrets_arm_expiry(secrets);
}

/* Whether what is kept will do. */
static bool entry_is_good(const Entry *entry, bool must_be_fresh) {
        const KubeSecrets *secrets = entry->secrets;
        uint64_t now_usec;

        if (!entry->kept)
                return false;

        (void) sd_event_now(secrets->event, CLOCK_MONOTONIC, &now_usec);
        if (must_be_fresh)
                return now_usec - entry->read_usec < secrets->keep_usec / FRESH_SHARE;

        return now_usec < entry->expires_usec;
}

/* Finds the entry or adds it, and puts it first. */
static int secrets_use(KubeSecrets *secrets, const char *namespace, const char *name, Entry **ret) {
        Entry *entry = secrets->entries;
        int r;

        while (entry &&
               (strcmp(entry->name, name) != 0 || strcmp(entry->namespace, namespace) != 0))
                entry = entry->next;

        if (entry) {
                list_remove(&secrets->entries, entry);
        } else {
                r = entry_new(secrets, namespace, name, &entry);
                if (r < 0)
                        return r;

                secrets->n_entries++;
        }

        list_prepend(&secrets->entries, entry);
        *ret = entry;
        return 0;
}

static int ask_refuse(KubeSecretAsk *ask, const char *namespace, const char *name) {
        cleanup(secret_answer_unref_p) SecretAnswer *answer = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        (void) error_set(&error, ERROR_INVALID,
                         "secret %s of the namespace %s: nothing can be called so",
                         quote(name, (char[QUOTE_SIZE]){ 0 }),
                         quote(namespace, (char[QUOTE_SIZE]){ 0 }));
        r = secret_answer_new(NULL, &error, &answer);
        if (r < 0)
                return r;

        return ask_answer(ask, answer);
}

static int ask_begin(KubeSecretAsk *ask, const char *namespace, const char *name,
                     bool must_be_fresh) {
        KubeSecrets *secrets = ask->secrets;
        Entry *entry;
        int r;

        if (!secret_spec_is_name(namespace) || !secret_spec_is_name(name))
                return ask_refuse(ask, namespace, name);

        r = secrets_use(secrets, namespace, name, &entry);
        if (r < 0)
                return r;
        if (entry_is_good(entry, must_be_fresh))
                return ask_answer(ask, entry->kept);

        ask->entry = entry;
        entry->n_asks++;
        secrets_evict(secrets);
        if (entry->read)
                return 0;

        return secret_read_start(secrets->client, entry->namespace, entry->name, on_read_done,
                                 entry, &entry->read);
}

int kube_secrets_get(KubeSecrets *secrets, const char *namespace, const char *name,
                     bool must_be_fresh, KubeSecretRead on_read, void *userdata,
                     KubeSecretAsk **ret) {
        cleanup(kube_secret_ask_unref_p) KubeSecretAsk *ask = NULL;
        int r;

        ask = malloc(sizeof(*ask));
        if (!ask)
                return -ENOMEM;

        *ask = (KubeSecretAsk){ .secrets = secrets, .on_read = on_read, .userdata = userdata };
        list_prepend(&secrets->asks, ask);
        r = ask_begin(ask, namespace, name, must_be_fresh);
        if (r < 0)
                return r;

        *ret = take_ptr(ask);
        return 0;
}

static void ask_detach(KubeSecretAsk *ask) {
        Entry *entry = take_ptr(ask->entry);

        list_remove(&ask->secrets->asks, ask);
        ask->secrets = NULL;
        ask->ready = sd_event_source_unref(ask->ready);
        ask->answer = secret_answer_unref(ask->answer);
        if (!entry)
                return;

        entry->n_asks--;
        entry_release(entry);
}

KubeSecretAsk *kube_secret_ask_unref(KubeSecretAsk *ask) {
        if (!ask)
                return NULL;

        if (ask->secrets)
                ask_detach(ask);
        free(ask);
        return NULL;
}

int kube_secrets_new(KubeClient *client, uint64_t keep_usec, KubeSecrets **ret) {
        KubeSecrets *secrets;

        secrets = malloc(sizeof(*secrets));
        if (!secrets)
                return -ENOMEM;

        *secrets = (KubeSecrets){
                .client = client,
                .event = sd_event_ref(kube_client_event(client)),
                .keep_usec = keep_usec ?: KEEP_USEC_DEFAULT,
        };
        *ret = secrets;
        return 0;
}

KubeSecrets *kube_secrets_free(KubeSecrets *secrets) {
        if (!secrets)
                return NULL;

        while (secrets->asks)
                ask_detach(secrets->asks);
        while (secrets->entries)
                secrets_drop(secrets, secrets->entries);
        secrets->expiry = sd_event_source_unref(secrets->expiry);
        sd_event_unref(secrets->event);
        free(secrets);
        return NULL;
}
