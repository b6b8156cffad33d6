/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/secret.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/buffer.h"
#include "agent/base/cleanup.h"
#include "agent/base/list.h"
#include "agent/base/loop.h"
#include "agent/base/quote.h"
#include "agent/kube/path.h"
#include "agent/kube/retry.h"
#include "agent/kube/secret-spec.h"

#define KEEP_USEC_DEFAULT ((uint64_t) 60 * 1000000)
#define KEPT_MAX 64
#define MISSING_SHARE 6 /* a missing secret is kept for this part of the time */
#define FRESH_SHARE 60  /* a secret that was read within this part of the time is fresh */

#define BODY_MAX ((size_t) 2 << 20)
#define RETRIES_MAX 3
#define BUDGET_USEC ((uint64_t) 10 * 1000000)

/* Answer for a pull secret, shared by all calls for it. The text is wiped with its last owner. */
typedef struct SecretAnswer {
        unsigned n_owners;
        SecretText text;
        Error error; /* unset: there is a text */
} SecretAnswer;

/* Takes the text over, or copies the error. The caller is the only owner. */
static int secret_answer_new(SecretText *text, const Error *error, SecretAnswer **ret) {
        SecretAnswer *answer;

        answer = malloc(sizeof(*answer));
        if (!answer)
                return -ENOMEM;

        *answer = (SecretAnswer){ .n_owners = 1, .text = SECRET_TEXT_INIT, .error = ERROR_INIT };
        if (error) {
                (void) error_copy(&answer->error, error);
        } else {
                answer->text = *text;
                *text = SECRET_TEXT_INIT;
        }

        *ret = answer;
        return 0;
}

static SecretAnswer *secret_answer_ref(SecretAnswer *answer) {
        answer->n_owners++;
        return answer;
}

static SecretAnswer *secret_answer_unref(SecretAnswer *answer) {
        if (!answer || --answer->n_owners > 0)
                return NULL;

        secret_text_done(&answer->text);
        error_done(&answer->error);
        free(answer);
        return NULL;
}

DEFINE_CLEANUP(SecretAnswer *, secret_answer_unref)

/* Called with a text, which may be taken over, or an error, whose message begins with the secret's
 * name. ERROR_UNAVAILABLE: the server did not answer. Runs once, not from within
 * secret_read_start(); the read may be freed in it. */
typedef int (*SecretReadDone)(SecretText *text, const Error *error, void *userdata);

/* Read of a secret from the API server. After a few tries it reports that the server is away: the
 * pull that waits decides when to try again. */
typedef struct SecretRead {
        KubeClient *client;
        const char *namespace;
        const char *name;
        SecretReadDone on_done;
        void *userdata;

        KubeCall *call;
        Buffer body;
        bool is_too_large;

        Retry retry;
        uint64_t give_up_usec;
} SecretRead;

static void read_forget_body(SecretRead *read) {
        buffer_done(&read->body);
        read->is_too_large = false;
}

/* Ends it; on_done does not run any more. Returns NULL. */
static SecretRead *secret_read_free(SecretRead *read) {
        if (!read)
                return NULL;

        read->call = kube_call_unref(read->call);
        retry_done(&read->retry);
        read_forget_body(read);
        free(read);
        return NULL;
}

DEFINE_CLEANUP(SecretRead *, secret_read_free)

static int on_body(const char *data, size_t size, void *userdata) {
        SecretRead *read = userdata;

        read->is_too_large = size > BODY_MAX - read->body.size;
        return read->is_too_large ? -EMSGSIZE : buffer_add(&read->body, data, size);
}

static int read_finish(SecretRead *read) {
        cleanup(secret_text_done) SecretText text = SECRET_TEXT_INIT;
        cleanup(error_done) Error cause = ERROR_INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        r = secret_spec_parse(read->body.data ?: "", read->body.size, &text, &cause);
        read_forget_body(read);
        if (r < 0 && cause.kind == ERROR_NONE)
                return r;
        if (r < 0)
                (void) error_set(&error, cause.kind, "secret %s/%s: %s", read->namespace,
                                 read->name, error_message(&cause));

        return read->on_done(r < 0 ? NULL : &text, r < 0 ? &error : NULL, read->userdata);
}

static int read_refuse(SecretRead *read, ErrorKind kind, const char *what, const char *why) {
        cleanup(error_done) Error error = ERROR_INIT;

        (void) error_set(&error, kind, "secret %s/%s: %s%s%s", read->namespace, read->name, what,
                         why ? ": " : "", why ?: "");
        return read->on_done(NULL, &error, read->userdata);
}

static int read_fail(SecretRead *read, const Error *error, bool is_too_large) {
        if (is_too_large)
                return read_refuse(read, ERROR_INVALID, "it is larger than 2 MiB", NULL);
        if (error->kind == ERROR_NOT_FOUND)
                return read_refuse(read, error->kind, "it does not exist", NULL);
        if (error->kind == ERROR_DENIED)
                return read_refuse(read, error->kind, "it may not be read", error_message(error));

        return read_refuse(read, error->kind, "it cannot be read", error_message(error));
}

static int read_ask(SecretRead *read);

static int on_retry(void *userdata) {
        return read_ask(userdata);
}

static int read_retry_or_give_up(SecretRead *read, const KubeReply *reply, const Error *error) {
        uint64_t now_usec = kube_client_now_usec(read->client);
        int r;

        r = retry_later(&read->retry, kube_requested_usec(reply));
        if (r < 0)
                return r;
        if (read->retry.n_failures <= RETRIES_MAX &&
            now_usec + retry_rest_usec(&read->retry) < read->give_up_usec)
                return 0;

        retry_reset(&read->retry);
        return read_refuse(read, ERROR_UNAVAILABLE,
                           reply->code == 0 ? "the API server does not answer"
                                            : "the API server cannot answer now",
                           error_message(error));
}

static int on_replied(const KubeReply *reply, const Error *error, void *userdata) {
        SecretRead *read = userdata;
        bool is_too_large = read->is_too_large;

        read->call = kube_call_unref(read->call);
        if (!error)
                return read_finish(read);

        read_forget_body(read);
        if (!is_too_large && kube_is_retriable(reply, error))
                return read_retry_or_give_up(read, reply, error);

        return read_fail(read, error, is_too_large);
}

static int read_ask(SecretRead *read) {
        cleanup(free_p) char *path = NULL;
        uint64_t now_usec = kube_client_now_usec(read->client);
        int r;

        r = kube_path_format(
                &(KubePath){
                        .version = "v1",
                        .namespace = read->namespace,
                        .resource = "secrets",
                        .name = read->name,
                },
                &path);
        if (r < 0)
                return r;

        return kube_call(read->client,
                         &(KubeRequest){
                                 .verb = "get",
                                 .method = "GET",
                                 .path = path,
                                 .timeout_usec = now_usec < read->give_up_usec
                                                         ? read->give_up_usec - now_usec
                                                         : 1,
                                 .on_data = on_body,
                                 .on_replied = on_replied,
                                 .userdata = read,
                         },
                         &read->call);
}

/* The names are borrowed until the end; secret_spec_is_name() has accepted them. */
static int secret_read_start(KubeClient *client, const char *namespace, const char *name,
                             SecretReadDone on_done, void *userdata, SecretRead **ret) {
        cleanup(secret_read_free_p) SecretRead *read = NULL;
        int r;

        read = malloc(sizeof(*read));
        if (!read)
                return -ENOMEM;

        *read = (SecretRead){
                .client = client,
                .namespace = namespace,
                .name = name,
                .on_done = on_done,
                .userdata = userdata,
                .give_up_usec = kube_client_now_usec(client) + BUDGET_USEC,
        };
        retry_init(&read->retry, kube_client_event(client), KUBE_RETRY_MIN_USEC,
                   KUBE_RETRY_MAX_USEC, on_retry, read);
        r = read_ask(read);
        if (r < 0)
                return r;

        *ret = take_ptr(read);
        return 0;
}

typedef struct Entry {
        LIST_LINKS(struct Entry);
        KubeSecrets *secrets;
        char *namespace;
        char *name;
        SecretRead *read;
        size_t n_asks; /* asks that wait for the read */
        SecretAnswer *kept;
        uint64_t read_usec; /* time of the read */
        uint64_t expires_usec;
} Entry;

struct KubeSecretAsk {
        LIST_LINKS(struct KubeSecretAsk);
        KubeSecrets *secrets;
        Entry *entry; /* entry whose read it waits for */
        SecretAnswer *answer;
        Deferred ready;
        KubeSecretRead on_read;
        void *userdata;
};

struct KubeSecrets {
        KubeClient *client;
        sd_event *event;
        uint64_t keep_usec;
        Entry *entries; /* recently used entries come first */
        size_t n_entries;
        KubeSecretAsk *asks;
        Timer expiry;
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

/* Ends the read, because no caller waits for it any more; the kept answer stays. */
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

static int on_expiry(void *userdata) {
        KubeSecrets *secrets = userdata;
        uint64_t now_usec;
        Entry *next;

        now_usec = loop_now_usec(secrets->event);
        for (Entry *entry = secrets->entries; entry; entry = next) {
                next = entry->next;
                if (!entry->kept || entry->expires_usec > now_usec)
                        continue;

                entry->kept = secret_answer_unref(entry->kept);
                entry_release(entry);
        }

        return secrets_arm_expiry(secrets);
}

/* A credential stays in memory no longer than needed. */
static int secrets_arm_expiry(KubeSecrets *secrets) {
        uint64_t expires_usec = UINT64_MAX;

        for (const Entry *entry = secrets->entries; entry; entry = entry->next)
                if (entry->kept && entry->expires_usec < expires_usec)
                        expires_usec = entry->expires_usec;
        if (expires_usec == UINT64_MAX)
                return 0;

        return timer_start_at(&secrets->expiry, expires_usec);
}

static int on_ready(void *userdata) {
        KubeSecretAsk *ask = userdata;
        cleanup(secret_answer_unref_p) SecretAnswer *answer = take_ptr(ask->answer);

        if (answer->error.kind != ERROR_NONE)
                return ask->on_read(NULL, 0, &answer->error, ask->userdata);

        return ask->on_read(answer->text.data, answer->text.size, NULL, ask->userdata);
}

static int ask_answer(KubeSecretAsk *ask, SecretAnswer *answer) {
        ask->answer = secret_answer_ref(answer);
        return deferred_request(&ask->ready);
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

        entry->read_usec = loop_now_usec(entry->secrets->event);
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

/* Whether the kept answer is good enough. */
static bool entry_is_good(const Entry *entry, bool must_be_fresh) {
        const KubeSecrets *secrets = entry->secrets;
        uint64_t now_usec;

        if (!entry->kept)
                return false;

        now_usec = loop_now_usec(secrets->event);
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
                         "secret %s of the namespace %s: this cannot be its name",
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
        deferred_init(&ask->ready, secrets->event, on_ready, ask);
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
        deferred_done(&ask->ready);
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
        timer_init(&secrets->expiry, secrets->event, /* accuracy_usec= */ 0, on_expiry, secrets);
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
        timer_done(&secrets->expiry);
        sd_event_unref(secrets->event);
        free(secrets);
        return NULL;
}
